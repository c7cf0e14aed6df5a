"""The examples in the docstrings of the public names run and give what they say."""

import doctest
import inspect
from pathlib import Path

import pytest

import remp

NAMES = [name for name in dir(remp) if callable(getattr(remp, name)) and getattr(remp, name).__doc__]
WITHOUT_EXAMPLE = [name for name in NAMES if name.endswith("Error")] + ["Interrupted"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.fixture(scope="module")
def home_of_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all examples, so that the characters are drawn once."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_EXAMPLE])
def test_the_example_of_a_public_name_runs(
    name: str, home_of_all: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMP_HOME", str(home_of_all))
    monkeypatch.chdir(tmp_path)
    thing = getattr(remp, name)
    tests = [t for t in doctest.DocTestFinder().find(thing, name, globs={}) if t.examples]
    assert tests, f"the docstring of {name} has no example"
    report: list[str] = []
    for test in tests:
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", [name for name in NAMES if not isinstance(getattr(remp, name), type)])
def test_the_docstring_of_a_function_names_every_parameter(name: str) -> None:
    thing = getattr(remp, name)
    text = inspect.getdoc(thing) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    documented = {part.strip(" *") for head in heads for part in head.split(",")}
    assert set(inspect.signature(thing).parameters) <= documented


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(getattr(remp, name), type)])
def test_every_method_of_a_public_class_says_what_it_does(name: str) -> None:
    members = {key: value for key, value in vars(getattr(remp, name)).items() if not key.startswith("_")}
    functions = {key: getattr(value, "fget", None) or value for key, value in members.items()}
    silent = [key for key, value in functions.items() if inspect.isfunction(value) and not inspect.getdoc(value)]
    assert silent == []
