"""The order of the modules is kept, and `import remp` is light and silent."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import remp
from remp.backbones import BACKBONES
from remp.datasets import DATASETS
from remp.methods import METHODS

SOURCE = Path(remp.__file__).parent

# The way of the data: a module knows those before it, never those after it. Modules that are not listed stand where
# their imports put them.
ORDER = [
    "version",
    "errors",
    "untrusted",
    "checks",
    "system",
    "datasets",
    "episodes",
    "rows",
    "rectification",
    "propagation",
    "backbones",
    "methods",
    "estimator",
    "config",
    "trained",
    "checkpoint",
    "models",
    "evaluation",
    "training",
    "labelling",
    "engine",
    "report",
    "label_sources",
    "label_files",
    "export",
    "demo",
    "reproduce",
    "studio",
    "cli",
    "__main__",
]


def files() -> dict[str, list[Path]]:
    """Top-level module or package of remp -> its files."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        found.setdefault(path.relative_to(SOURCE).parts[0].removesuffix(".py"), []).append(path)
    return found


def imported(path: Path) -> set[str]:
    """Top-level modules of remp that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    tops = {name.split(".")[1] for name in names if name.startswith("remp.")}
    return {top for top in tops if top in files()}


@cache
def graph() -> dict[str, set[str]]:
    """Module -> the modules it imports itself. The public API knows all, and nobody may import it."""
    own = {name: set().union(*(imported(path) for path in paths)) - {name} for name, paths in files().items()}
    return {name: used for name, used in own.items() if name != "__init__"}


def reached(name: str) -> set[str]:
    """All modules that importing `name` brings along."""
    found: set[str] = set()
    waiting = {name}
    while waiting:
        waiting = set().union(*(graph()[module] for module in waiting)) - found
        found |= waiting
    return found


@pytest.mark.parametrize("name", ORDER)
def test_a_module_knows_only_what_comes_before_it(name):
    later = reached(name) & set(ORDER[ORDER.index(name) :])
    assert not later, f"{name} leads to {later}"


def test_the_readme_shows_this_order_and_names_every_module():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert "```\n" + " → ".join(ORDER[:-1]) + "\n```" in readme.replace("\n→", " →")
    own = {name for name in files() if not name.startswith("__")}
    assert own == set(ORDER) - {"__main__"}
    layout = readme.partition("## How the code is laid out")[2]
    assert not [name for name in own - {"version"} if f"`{name}/`" not in layout and f"`{name}.py`" not in layout]


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "results", "examples"])
def test_every_module_that_is_imported_is_there(folder):
    root = Path(__file__).parents[1]
    for path in (root / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "remp":
                place = SOURCE.parent.joinpath(*node.module.split("."))
                assert place.is_dir() or place.with_suffix(".py").is_file(), f"{path} imports {node.module}"


def test_no_module_leads_back_to_itself():
    assert not [name for name in graph() if name in reached(name)]


@pytest.mark.parametrize(
    "module", ["training/__init__", "training/trainer", "evaluation/evaluate", "trained", "checkpoint", "cli/__init__"]
)
def test_the_general_parts_name_no_method_backbone_or_data_set(module):
    nodes = list(ast.walk(ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    assert not texts & ({*METHODS, *BACKBONES, *DATASETS} - {"remp"})  # the package has that name too
    assert not names & {owner.__name__ for owner in [*METHODS.values(), *BACKBONES.values()]}


def run(code: str) -> str:
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return finished.stdout + finished.stderr


def test_importing_is_silent_and_light():
    heavy = ["matplotlib", "sklearn", "scipy", "lightning_fabric", "rich", "typer", "jinja2", "torch"]
    assert run(f"import sys, remp; print([m for m in {heavy} if m in sys.modules])") == "[]\n"


def test_the_whole_library_imports_no_plots_and_no_command_line():
    heavy = ["matplotlib", "sklearn", "scipy", "lightning_fabric", "rich", "typer", "jinja2"]
    code = "import sys\nfrom remp import *\nprint([m for m in %s if m in sys.modules])"
    assert run(code % heavy) == "[]\n"


def test_the_command_line_starts_without_torch():
    heavy = ["matplotlib", "sklearn", "scipy", "lightning_fabric", "torch"]
    assert run(f"import sys, remp.cli; print([m for m in {heavy} if m in sys.modules])") == "[]\n"


def test_the_public_names_are_there():
    wanted = ["train", "resume", "evaluate", "load", "open_data", "Episodes", "EpisodeSampler", "Protocol", "METHODS"]
    wanted += ["BACKBONES", "rectify", "Rectification", "RempError", "ConfigError", "__version__"]
    assert set(wanted) <= set(remp.__all__) == set(dir(remp)) - {"ReMPClassifier"}  # needs scikit-learn: not by star
    assert all(getattr(remp, name) is not None for name in dir(remp))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'remp' has no attribute 'trian'"):
        remp.trian  # noqa: B018


def declared(extras: bool) -> set[str]:
    """The packages that pyproject.toml names: those that are always installed, and with extras all others."""
    entries = importlib.metadata.requires("remp") or []
    return {re.split(r"[\[<>=;]", entry)[0].lower() for entry in entries if extras or "extra ==" not in entry}


def taken_from_others(*, only_at_once: bool) -> dict[str, set[str]]:
    """Packages that the files import -> the files. only_at_once: not what is imported inside of functions or of `try`,
    and not what only type checkers see."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body if only_at_once else ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else names
            for name in {name.partition(".")[0] for name in names} - {"remp", *sys.stdlib_module_names}:
                found.setdefault(name, set()).add(path.relative_to(SOURCE).as_posix())
    return found


# The name of a package where it is not that of its module; and what `remp` looks for without needing it.
DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn", "fontTools": "fonttools"}
NOT_NEEDED = {"pandas", "timm", "fsspec"}


def test_what_remp_imports_at_once_is_installed_with_it():
    always = declared(extras=False)
    of_extras = {"studio", "backbones/timm_models.py"}
    for module, files_ in taken_from_others(only_at_once=True).items():
        package = DISTRIBUTIONS.get(module, module.replace("_", "-")).lower()
        outside = {file for file in files_ if not file.startswith(tuple(of_extras))}
        assert not outside or package in always, f"{outside} import {module}, which is no dependency"


def test_what_remp_imports_when_it_is_needed_belongs_to_an_extra():
    known = declared(extras=True) | NOT_NEEDED
    for module, files_ in taken_from_others(only_at_once=False).items():
        package = DISTRIBUTIONS.get(module, module.replace("_", "-")).lower()
        assert package in known, f"{files_} import {module}, which pyproject.toml does not name"
