"""The figures on the pages of the methods are those of the published results."""

import csv
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "methods"
TRAINED = {
    "can": "CAN",
    "dfmn-mct": "DFMN-MCT",
    "epnet": "EPNet",
    "feat": "FEAT",
    "maml": "MAML",
    "meta-baseline": "Meta-Baseline",
    "metaoptnet-svm": "MetaOptNet-SVM",
    "protonet": "ProtoNet",
    "relationnet": "Relation Network",
    "tadam": "TADAM",
    "tpn": "TPN",
}
FROZEN = sorted(
    {row["method"] for row in csv.DictReader((ROOT / "results" / "compare-cifar-fs.csv").open(encoding="utf-8"))}
    - {"meta-baseline", "epnet", "protonet", "remp", "simpleshot-l2n", "simpleshot-un"}
)


def trained_rows(name: str) -> list[str]:
    """One line per row of the table of CIFAR-FS that is called so, or so and something more."""
    cells = json.loads((ROOT / "results" / "cifar-fs" / "results.json").read_text(encoding="utf-8"))["cells"]
    shown: dict[str, dict[int, str]] = {}
    for cell in cells:
        if cell["row"] == name or cell["row"].startswith((f"{name},", f"{name}+")):
            score = f"{cell['mean']:.2f} ± {cell['half_width_95']:.2f} %" if cell["status"] == "done" else "not run"
            shown.setdefault(cell["row"], {})[cell["n_shot"]] = score
    return [f"| {row} | {scores.get(1, '')} | {scores.get(5, '')} |" for row, scores in shown.items()]


def frozen_row(method: str) -> str:
    scores = {}
    with (ROOT / "results" / "compare-cifar-fs.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["method"] == method:
                width = 100 * float(row["accuracy_half_width_95"])
                scores[row["n_shot"]] = f"{100 * float(row['accuracy']):.2f} ± {width:.2f} %"
    return f"| {scores['1']} | {scores['5']} |"


@pytest.mark.parametrize(("page", "name"), TRAINED.items())
def test_the_page_of_a_trained_method_has_its_rows(page: str, name: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    assert [row for row in trained_rows(name) if row not in text] == []


@pytest.mark.parametrize("page", FROZEN)
def test_the_page_of_a_method_on_frozen_features_has_its_row(page: str) -> None:
    assert frozen_row(page) in (PAGES / f"{page}.md").read_text(encoding="utf-8")


def test_the_table_is_of_the_model_that_ships() -> None:
    from remp.models import load

    digest = load("cifar-fs-convnet64-1shot").hash[:12]
    table = (ROOT / "results" / "compare-cifar-fs.md").read_text(encoding="utf-8")
    assert table.count(f"({digest})") == 2
