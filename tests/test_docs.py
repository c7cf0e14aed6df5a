"""The pages of docs/: their links lead somewhere, what they import exists, tutorials run, and nothing is left out."""

import ast
import re
from pathlib import Path

import pytest

import remp
from remp.methods import METHODS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILT = {"_build", "gallery", "generated"}
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not BUILT & set(path.parts)]
PAGES += [*sorted(ROOT.glob("*.md")), ROOT / "benchmarks" / "README.md"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^(```|:::).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE))


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text_of(path), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text_of(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if target.parent == DOCS / "gallery":  # made from the examples
        return target.stem == "index" or (ROOT / "examples" / f"{target.stem}.py").exists()
    return target.is_file() and (not anchor or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page)))
    inner = [link for link in links if not re.match(r"\w+:", link)]
    assert [link for link in inner if not leads_somewhere(page, link)] == []


def used_names(code: str) -> set[tuple[str, str]]:
    """(module, name) for everything that code takes from remp."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "remp":
            found |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "remp":
            found.add(("remp", node.attr))
    return found


EXAMPLES = sorted((DOCS.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("page", [*(page for page in PAGES if python_blocks(page)), *EXAMPLES], ids=name_of)
def test_what_a_page_or_an_example_takes_from_remp_is_public(page: Path) -> None:
    codes = [text_of(page)] if page.suffix == ".py" else python_blocks(page)
    names = set().union(*(used_names(code) for code in codes))
    assert [f"{m}.{name}" for m, name in names if m != "remp" or name not in dir(remp)] == []


@pytest.mark.parametrize("tutorial", ["own_embeddings", "own_method", "own_classes"])
def test_the_code_of_a_tutorial_runs_in_its_order(tutorial: str) -> None:
    names: dict[str, object] = {}
    for code in python_blocks(DOCS / "tutorials" / f"{tutorial}.md"):
        exec(compile(code, f"{tutorial}.md", "exec"), names)
    assert len(names) > 3  # one of them is Python's own


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for block in re.findall(r"^```{toctree}\n(.*?)^```", text_of(page), flags=re.DOTALL | re.MULTILINE):
            for entry in re.findall(r"^(?:.*<)?([^:\s<>]+)>?$", block, flags=re.MULTILINE):
                listed |= {path.resolve() for path in page.parent.glob(f"{entry}.md".replace("**.md", "**/*.md"))}
    lost = [name_of(page) for page in PAGES if page.resolve() not in listed]
    assert lost == [], "add these to the toctree of docs/how_to.md or of another page"


def test_the_reference_has_every_public_name() -> None:
    page = text_of(DOCS / "api" / "index.rst")
    assert [name for name in dir(remp) if not re.search(rf"(^   |``remp\.){name}(``|$)", page, re.MULTILINE)] == []


def test_the_list_of_methods_is_complete_and_says_what_they_assume() -> None:
    page = text_of(DOCS / "methods" / "index.md")
    rows = re.findall(r"^\| \[.*?\]\((\S+)\) \| (.*?) \| (.*?) \|$", page, flags=re.MULTILINE)
    kinds = {}
    for _file, names, kind in rows:
        kinds |= {name: kind for name in re.findall(r"`(.*?)`", names)}
    assert set(kinds) == set(METHODS)
    for name, method in METHODS.items():
        assert ("balanced" in kinds[name]) == (method.assumes_balance is True), name  # ReMP: a setting
        if isinstance(method.transductive, bool) and not name.startswith(
            "can"
        ):  # the row of CAN is for both of its forms
            assert kinds[name].startswith("transductive" if method.transductive else "inductive"), name


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page(name: str) -> None:
    assert f"`{name}`" in text_of(DOCS / "methods" / f"{name}.md")
