#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox"]
# ///

"""The same checks as `make check`, each in an environment of its own: nox, or nox -s tests-3.12."""

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"

PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and types."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The fast tests, on the newest versions that pyproject.toml allows."""
    session.install("-e", ".[parquet,pretrained,studio]", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", *session.posargs)


@nox.session(python="3.10", venv_backend="uv", default=False)
def lowest(session: nox.Session) -> None:
    """The fast tests, on the lowest versions that pyproject.toml allows."""
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    session.install("--resolution=lowest-direct", "-e", ".[parquet,pretrained,studio]", *groups)
    # Old versions of some packages use what newer ones of others deprecate: that is theirs to mend.
    session.run("pytest", "-W", "ignore::DeprecationWarning", *session.posargs)


@nox.session(default=False)
def install(session: nox.Session) -> None:
    """The wheel and its content, the source distribution, and the README's commands in a clone."""
    session.install("-e", ".[parquet,pretrained,studio]", "build", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "-m", "slow", "tests/test_clean_install.py")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation; a warning is an error."""
    session.run("make", "docs", external=True)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Source distribution and wheel."""
    session.install("build")
    session.run("python", "-m", "build")


if __name__ == "__main__":
    nox.main()
