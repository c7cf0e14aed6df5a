"""Each format is read back: by the reader it is for where that installs, else by its documented layout."""

import csv
import json
import os
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from remp.cli import app
from remp.errors import ConfigError, DataError
from remp.export import FORMATS, ExportOptions, LabelledPictures, check_format, label_again, read_results, split
from remp.labelling.tasks.folder import listed_task
from remp.labelling.tasks.label_table import read_label_studio
from studio_cases import COLOURS, write_collection

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is asked of a network
HOSTILE = "<img onerror=x>/../猫"


@pytest.fixture
def pictures(tmp_path: Path) -> LabelledPictures:
    """36 pictures of three classes, one with a hostile name; two with the same file name, two without a label."""
    folder = write_collection(tmp_path / "photos")
    (folder / "more").mkdir()
    (folder / "more" / "000-red.png").write_bytes((folder / "001-red.png").read_bytes())
    names = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png")))
    labels = [next(colour for colour in COLOURS if colour in name) for name in names]
    named = [HOSTILE if label == "blue" else label for label in labels]
    status = ["given" if number % 3 == 0 else "labelled" for number in range(len(names))]
    status[5], status[6] = "uncertain", "unknown"
    final = [None if kind in ("uncertain", "unknown") else label for kind, label in zip(status, named, strict=True)]
    paths = tuple(folder / name for name in names)
    share = np.linspace(0.5, 1, len(names)).astype(np.float32)
    return LabelledPictures(folder, names, paths, tuple(final), share, tuple(status))


def written(pictures: LabelledPictures, name: str, **options) -> Path:
    folder = pictures.folder.with_name(f"photos-{name}")
    folder.mkdir()
    FORMATS[name](pictures, folder, ExportOptions(**options))
    return folder


def content_and_label(pictures: LabelledPictures) -> list[tuple[bytes, str]]:
    return sorted((pictures.paths[number].read_bytes(), pictures.labels[number]) for number in pictures.labelled)


def in_folders(root: Path, names: dict[str, str]) -> list[tuple[bytes, str]]:
    return [(path.read_bytes(), names[path.parent.name]) for path in root.rglob("*.png")]


FOLDER_NAMES = {"red": "red", "green": "green", "_img onerror=x__.._猫": HOSTILE}


@pytest.mark.parametrize("way", ["copy", "link"])
def test_class_folders_hold_every_labelled_picture_and_no_other(pictures, way):
    root = written(pictures, "folders", way=way)
    assert sorted(in_folders(root, FOLDER_NAMES)) == content_and_label(pictures)
    assert {path.is_symlink() for path in root.rglob("*.png")} == {way == "link"}


def test_training_folders_by_the_rules_of_torchvision_and_ultralytics(pictures):
    """Classes are the folders in train/, in the order of their names, the same in val/; a file is in one of both."""
    root = written(pictures, "imagefolder")
    classes = [sorted(path.name for path in (root / part).iterdir()) for part in ("train", "val")]
    assert classes[0] == classes[1] == sorted(FOLDER_NAMES)
    assert sorted(path.name for path in root.iterdir()) == ["train", "val"]
    both = [in_folders(root / part, FOLDER_NAMES) for part in ("train", "val")]
    assert sorted(both[0] + both[1]) == content_and_label(pictures)
    assert 0.1 < len(both[1]) / len(pictures.labelled) < 0.3


def test_training_folders_read_by_hugging_face(pictures, tmp_path):
    datasets = pytest.importorskip("datasets.load", reason="pip install datasets")  # not the folder tests/datasets
    root = written(pictures, "imagefolder")
    read = datasets.load_dataset("imagefolder", data_dir=str(root), cache_dir=str(tmp_path / "cache"))
    train, validation = split(pictures, ExportOptions())
    assert (len(read["train"]), len(read["validation"])) == (len(train), len(validation))
    assert read["train"].features["label"].names == sorted(FOLDER_NAMES)


def test_the_split_is_the_same_for_the_same_seed_and_leaves_no_class_out(pictures):
    first, second = (split(pictures, ExportOptions(seed=3)) for _ in range(2))
    assert first == second != split(pictures, ExportOptions(seed=4))
    for part in first:
        assert {pictures.labels[number] for number in part} == {"red", "green", HOSTILE}
    assert split(pictures, ExportOptions(validation=0.0))[1] == []
    one_red = replace(pictures, labels=("red", *(label if label != "red" else None for label in pictures.labels[1:])))
    assert 0 in split(one_red, ExportOptions(validation=0.9))[0]
    with pytest.raises(ConfigError, match="a share of the pictures"):
        ExportOptions(validation=1.0)


def test_many_classes_are_split_without_looking_at_all_pictures_for_each():
    names = tuple(f"{number}.png" for number in range(20_000))
    labels = tuple(f"class {number % 10_000}" for number in range(20_000))
    pictures = LabelledPictures(Path(), names, (), labels, np.ones(20_000), ("given",) * 20_000)
    started = time.process_time()
    train, validation = split(pictures, ExportOptions())
    assert time.process_time() - started < 4
    assert len(train) == len(validation) == 10_000


def test_metadata_read_by_hugging_face(pictures, tmp_path):
    datasets = pytest.importorskip("datasets.load", reason="pip install datasets")  # not the folder tests/datasets
    root = written(pictures, "huggingface")
    read = datasets.load_dataset("imagefolder", data_dir=str(root), split="train", cache_dir=str(tmp_path / "cache"))
    assert sorted(read["label"]) == sorted(label for _, label in content_and_label(pictures))
    with (root / "metadata.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sorted(((root / row["file_name"]).read_bytes(), row["label"]) for row in rows) == content_and_label(pictures)
    assert {row["status"] for row in rows} == {"given", "labelled"}


def test_label_studio_tasks_follow_its_documented_form(pictures):
    root = written(pictures, "labelstudio")
    tasks = json.loads((root / "tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == len(pictures.names)
    for number, task in enumerate(tasks):
        assert task["data"]["image"].startswith("/data/local-files/?d=photos/")
        (kind, entries), *_ = [(kind, task[kind]) for kind in ("annotations", "predictions") if kind in task] or [
            ("", [])
        ]
        assert kind == {"given": "annotations", "labelled": "predictions"}.get(pictures.status[number], "")
        for entry in entries:
            (result,) = entry["result"]
            assert (result["from_name"], result["to_name"], result["type"]) == ("label", "image", "choices")
            assert result["value"]["choices"] == [pictures.labels[number]]
        if kind == "predictions":
            assert entries[0]["score"] == pytest.approx(float(pictures.probability[number]), abs=1e-5)
    config = ElementTree.parse(root / "config.xml").getroot()
    assert [choice.get("value") for choice in config.iter("Choice")] == pictures.class_names


def test_label_studio_tasks_read_by_its_own_library(pictures):
    reader = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="label-studio-sdk is not installed: it is 0.5 GB"
    )
    root = written(pictures, "labelstudio")
    interface = reader.LabelInterface((root / "config.xml").read_text(encoding="utf-8"))
    interface.validate()
    for task in json.loads((root / "tasks.json").read_text(encoding="utf-8")):
        assert interface.validate_task({"data": task["data"]})
        assert all(interface.validate_annotation(one) for one in task.get("annotations", ()))
        assert all(interface.validate_prediction(one) for one in task.get("predictions", ()))


def submitted(root: Path, file: Path) -> Path:
    """The tasks as Label Studio keeps them when a person has submitted every prediction, and once skipped one."""
    tasks = json.loads((root / "tasks.json").read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):
        task["id"] = number
        task.setdefault(
            "annotations", [{"result": p["result"], "was_cancelled": False} for p in task.pop("predictions", [])]
        )
    tasks[0]["annotations"].append({"result": [], "was_cancelled": True})
    file.write_text(json.dumps(tasks), encoding="utf-8")
    return file


def labels_in(pictures: LabelledPictures, export: Path) -> dict[str, str]:
    task = listed_task(pictures.folder, export)
    return {name: task.class_names[label] for name, label in zip(task.names, task.labels, strict=True) if label >= 0}


def labels_of(pictures: LabelledPictures) -> dict[str, str]:
    return {pictures.names[number]: pictures.labels[number] for number in pictures.labelled}


def test_what_label_studio_exports_is_read_as_labels(pictures, tmp_path):
    export = submitted(written(pictures, "labelstudio"), tmp_path / "export.json")
    assert labels_in(pictures, export) == labels_of(pictures)


@pytest.mark.parametrize("form", ["JSON", "JSON_MIN"])
def test_what_its_own_library_exports_is_read_as_labels(pictures, tmp_path, form):
    library = pytest.importorskip(
        "label_studio_sdk.converter.converter", reason="label-studio-sdk is not installed: it is 0.5 GB"
    )
    root = written(pictures, "labelstudio")
    converter = library.Converter((root / "config.xml").read_text(encoding="utf-8"), str(tmp_path))
    tasks = submitted(root, tmp_path / "tasks.json")
    converter.convert(str(tasks), str(tmp_path / "out"), form, is_dir=False)
    (export,) = (tmp_path / "out").glob("*.json")
    assert labels_in(pictures, export) == labels_of(pictures)


def test_the_short_export_of_label_studio_is_read_too(tmp_path):
    file = tmp_path / "min.json"
    file.write_text(
        json.dumps([{"image": "/data/local-files/?d=photos/a%20b.png", "choice": "cat"}, {"image": "b.png"}])
    )
    assert [(row.key, row.label) for row in read_label_studio(file)] == [("a b.png", "cat"), ("b.png", None)]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "{}", "[1]", '[{"data": 3}]', '[{"data": {"image": 7}}]'])
def test_a_json_file_that_is_something_else_is_refused_in_words(tmp_path, content):
    file = tmp_path / "labels.json"
    file.write_text(content)
    with pytest.raises(DataError, match="Label Studio"):
        read_label_studio(file)


@pytest.mark.parametrize(
    "annotations",
    [7, [7], [{"result": 5}], [{"result": [5]}], [{"result": [{"value": []}]}], [{"result": [{"value": None}]}]],
    ids=str,
)
def test_annotations_of_another_form_are_no_label(tmp_path, annotations):
    file = tmp_path / "labels.json"
    file.write_text(json.dumps([{"data": {"image": "a.png"}, "annotations": annotations}]))
    assert [(row.key, row.label) for row in read_label_studio(file)] == [("a.png", None)]


def test_fiftyone_by_its_documented_layout(pictures):
    """data/NAME.ext and labels.json: {"classes": [...], "labels": {"NAME": index}}."""
    root = written(pictures, "fiftyone")
    labels = json.loads((root / "labels.json").read_text(encoding="utf-8"))
    files = {path.stem: path for path in (root / "data").iterdir()}
    assert files.keys() == labels["labels"].keys()
    read = [(files[stem].read_bytes(), labels["classes"][number]) for stem, number in labels["labels"].items()]
    assert sorted(read) == content_and_label(pictures)


def test_fiftyone_reads_it_by_its_own_importer(pictures):
    library = pytest.importorskip("fiftyone.utils.data.importers", reason="fiftyone is not installed: it is 1 GB")
    importer = library.FiftyOneImageClassificationDatasetImporter(dataset_dir=str(written(pictures, "fiftyone")))
    importer.setup()
    assert sorted((Path(path).read_bytes(), label.label) for path, _, label in importer) == content_and_label(pictures)


def test_a_format_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"no format 'coco': give one of folders, imagefolder.* labels, model"):
        check_format("coco")


def results(pictures: LabelledPictures) -> Path:
    folder = pictures.folder.with_name("photos-labelled")
    folder.mkdir()
    columns = zip(pictures.names, pictures.labels, pictures.probability.tolist(), pictures.status, strict=True)
    items = [dict(zip(("file", "label", "probability", "status"), values, strict=True)) for values in columns]
    (folder / "labels.json").write_text(json.dumps({"items": items}), encoding="utf-8")
    return folder


def test_the_command_exports_what_remp_label_wrote(pictures):
    done = CliRunner().invoke(app, ["export", str(results(pictures)), "--to", "folders", "--link"])
    assert done.exit_code == 0, done.output
    assert "35 of 37 pictures have a label" in done.output
    assert sorted(in_folders(pictures.folder.with_name("photos-folders"), FOLDER_NAMES)) == content_and_label(pictures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "labelstudio", "--link"], "--link is for folders, .*; labelstudio holds no pictures: leave it out"),
        (["--to", "model", "--link"], "--link is for folders, .*; model holds no pictures"),
        (["--to", "folders", "--validation", "0.5"], "--validation is for imagefolder; folders is not divided"),
        (["--to", "labels", "--seed", "0"], "--seed is for imagefolder; labels is not divided"),
    ],
)
def test_an_option_that_means_nothing_in_a_format_is_refused(pictures, arguments, message):
    done = CliRunner().invoke(app, ["export", str(results(pictures)), *arguments])
    assert re.match(message, str(done.exception))
    assert not list(pictures.folder.parent.glob("photos-[!l]*"))


def test_the_command_that_labels_again_has_the_options_of_the_results(pictures):
    folder = results(pictures)
    made_with = {"backbone": "timm:x", "side": 96, "reject": 0.9, "unknown": False, "labels": "folders"}
    (folder / "labels.json").write_text(json.dumps({"made_with": made_with, "items": []}))
    options = "--backbone timm:x --side 96 --reject 0.9 --no-unknown"
    assert label_again(folder, Path("photos")) == f"remp label photos --labels {folder}/labels.csv {options}"


@pytest.mark.parametrize(
    ("before", "after"), [(",red,", ",green,"), (",red,", ",,"), (",labelled,", ",given,"), (",,", ",red,")]
)
def test_labels_that_were_corrected_since_are_not_passed_over(pictures, before, after):
    folder = results(pictures)
    rows = zip(pictures.names, pictures.labels, pictures.status, strict=True)
    lines = ["file,label,status,likeliest", *(f"{name},{label or ''},{status},red" for name, label, status in rows)]
    lines = [line.replace(",,unknown", ",unknown,unknown") for line in lines]
    saved = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    for item in saved["items"]:
        item["label"] = "unknown" if item["status"] == "unknown" else item["label"]
    (folder / "labels.json").write_text(json.dumps(saved), encoding="utf-8")
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    assert read_results(folder).labels == pictures.labels
    (folder / "labels.csv").write_text("\n".join(lines).replace(",", ";"), encoding="utf-8")  # as a spreadsheet does
    assert read_results(folder).labels == pictures.labels
    (folder / "labels.csv").write_text("\n".join(lines).replace(before, after, 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"was changed since .* remp label .*photos --labels .*labels\.csv"):
        read_results(folder)


def test_results_without_pictures_or_labels_are_refused(pictures, tmp_path):
    folder = results(pictures)
    with pytest.raises(DataError, match="give --pictures"):
        read_results(folder, tmp_path / "nowhere")
    pictures.paths[3].unlink()
    with pytest.raises(DataError, match=r"1 of 37 pictures are not there; .* give --pictures FOLDER"):
        read_results(folder)
    (folder / "labels.json").unlink()
    with pytest.raises(DataError, match=r"no labels\.json"):
        read_results(folder)


def test_labels_of_rows_are_told_from_those_of_pictures(tmp_path):
    (tmp_path / "X-labelled").mkdir()
    said = {"made_with": {"labels": "y.csv", "reject": None}, "items": []}
    (tmp_path / "X-labelled" / "labels.json").write_text(json.dumps(said))
    with pytest.raises(
        DataError, match="X-labelled was made from embeddings, so there are no pictures to export: use its"
    ):
        read_results(tmp_path / "X-labelled")


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd"])
def test_results_that_lead_outside_are_refused(pictures, name):
    folder = results(pictures)
    item = {"file": name, "label": "x", "probability": 1.0, "status": "given"}
    (folder / "labels.json").write_text(json.dumps({"items": [item]}))
    with pytest.raises(DataError, match="outside"):
        read_results(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"file": 7},
        {"file": None},
        {"label": ["x"]},
        {"status": "sure"},
        {"status": []},
        {"probability": "0.5"},
        {"probability": 10**400},
        {"probability": float("nan")},
        {"probability": -0.1},
    ],
    ids=lambda change: str(change)[:40],
)
def test_items_of_another_form_are_refused(pictures, change):
    folder = results(pictures)
    item = {"file": pictures.names[0], "label": "x", "probability": 1.0, "status": "given"}
    (folder / "labels.json").write_text(json.dumps({"items": [item]}))
    assert read_results(folder).labels == ("x",)
    (folder / "labels.json").write_text(json.dumps({"items": [{**item, **change}]}))
    with pytest.raises(DataError, match=r"labels\.json is not a result of remp"):
        read_results(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, r"labels\.json cannot be read as a result of remp"),
        ('{"items": 3}', r"labels\.json is not a result of remp"),
        (
            '{"items": [{"file": "%s", "label": null, "probability": null, "status": "unknown"}]}' % ("a" * 3000),
            "not there",
        ),
        ('{"items": [{"file": "a\\u0000", "label": null, "probability": null, "status": "unknown"}]}', "not there"),
    ],
    ids=["deep", "no list", "a long name", "NUL in a name"],
)
def test_results_that_are_something_else_are_refused(pictures, content, message):
    folder = results(pictures)
    (folder / "labels.json").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_results(folder)
    assert len(str(caught.value)) < 1000
