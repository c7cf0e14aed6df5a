"""The examples in the docstrings of the public names run and give what they say."""

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

import remp

NAMES = [name for name in dir(remp) if callable(getattr(remp, name))]
# The example of their base is one for them all: they differ in what is wrong, not in how they are used.
ERRORS = [name for name in NAMES if inspect.isclass(thing := getattr(remp, name)) and issubclass(thing, remp.RempError)]
WITHOUT_EXAMPLE = [name for name in ERRORS if name != "RempError"]
REFERENCE = Path(__file__).parent.parent / "docs" / "api" / "index.rst"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def documented_parameters(text: str) -> set[str]:
    section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return {part.strip(" *") for head in heads for part in head.split(",")}


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


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_summary_of_its_own(name: str) -> None:
    first = (getattr(remp, name).__doc__ or "").strip().partition("\n")[0]
    assert first
    assert not first.startswith(f"{name}(")  # the signature, which a dataclass without docstring gets as one


def test_the_examples_of_the_reference_run() -> None:
    result = doctest.testfile(str(REFERENCE), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert result.attempted >= 4
    assert result.failed == 0
    page = REFERENCE.read_text(encoding="utf-8")
    tables = [name for name in dir(remp) if isinstance(getattr(remp, name), dict)]
    assert [name for name in tables if f">>> remp.{name}" not in page and f"(remp.{name}" not in page] == []


@pytest.mark.parametrize("name", [name for name in NAMES if not isinstance(getattr(remp, name), type)])
def test_the_docstring_of_a_function_names_every_parameter(name: str) -> None:
    thing = getattr(remp, name)
    assert set(inspect.signature(thing).parameters) <= documented_parameters(inspect.getdoc(thing) or "")


def public_methods(cls: type) -> dict[str, Any]:
    """Functions, properties, class methods and static methods that the classes of remp among its bases define."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        for key, value in vars(base).items() if base.__module__.startswith("remp") else ():
            function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
            if not key.startswith("_") and inspect.isfunction(function):
                found.setdefault(key, function)
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(getattr(remp, name), type)])
def test_every_method_of_a_public_class_says_what_it_does(name: str) -> None:
    methods = public_methods(getattr(remp, name))
    assert [key for key, method in methods.items() if not (inspect.getdoc(method) or "").strip()] == []


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(getattr(remp, name), type)])
def test_a_parameters_section_of_a_method_names_every_parameter(name: str) -> None:
    for key, method in public_methods(getattr(remp, name)).items():
        documented = documented_parameters(inspect.getdoc(method) or "")
        assert not documented or set(inspect.signature(method).parameters) - {"self", "cls"} <= documented, key
