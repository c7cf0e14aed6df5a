"""Exports from the studio, and the classifier that labels new pictures."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from embedding_cases import SIDE, mean_colour_embedder
from remp.backbones.embedding import Normalisation
from remp.cli import app
from remp.errors import CheckpointError, ConfigError, DataError
from remp.export import FORMATS, ExportOptions
from remp.label_files import label_new
from remp.propagation.fit import fit_rows
from remp.propagation.saved import read_labelling
from remp.studio.collection import open_collection
from remp.studio.exports import export_session, fill, session_of_results, trained
from remp.studio.session import open_session
from studio_cases import numbers_of, started, write_collection


@pytest.fixture
def session(tmp_path: Path):
    session = started(write_collection(tmp_path / "photos"))
    for colour in ("red", "green", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    session.wait()
    return session


def export(session, tmp_path: Path, name: str) -> Path:
    done = export_session(session, tmp_path / "photos", tmp_path / "photos-labelled", {"format": name})
    return Path(done["folder"])


def test_labels_and_report_are_as_remp_label_writes_them(session, tmp_path):
    session.act({"do": "unknown", "items": [4]})
    folder = export(session, tmp_path, "labels")
    assert folder == tmp_path / "photos-labelled"
    assert {"labels.csv", "labels.json", "report.html"} <= {path.name for path in folder.iterdir()}
    items = json.loads((folder / "labels.json").read_text())["items"]
    assert items[4]["status"] == "unknown"
    assert all(item["likeliest"] in item["file"] for item in items)


def test_a_second_export_replaces_the_first_and_nothing_else(session, tmp_path):
    first = export(session, tmp_path, "labels")
    assert export(session, tmp_path, "labels") == first
    (first / "mine.txt").write_text("mine")
    assert export(session, tmp_path, "labels") == tmp_path / "photos-labelled-2"
    assert (first / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["labels", "model"])
def test_an_export_does_not_replace_what_another_command_wrote(session, tmp_path, monkeypatch, name):
    monkeypatch.setattr("remp.label_sources.find_embedder", lambda name, side=None: mean_colour_embedder())
    pictures, other = write_collection(tmp_path / "others", labelled=3), tmp_path / f"photos-{name}"
    options = ["--save", str(other)] if name == "model" else ["--out", str(tmp_path / "photos-labelled")]
    done = CliRunner().invoke(app, ["label", str(pictures), *options])
    assert done.exit_code == 0, done.output
    place = other if name == "model" else tmp_path / "photos-labelled"
    before = {path: path.read_bytes() for path in place.iterdir()}
    for _ in range(2):  # but one of its own
        assert export(session, tmp_path, name) == place.with_name(f"{place.name}-2")
    assert {path: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("name", [*FORMATS, "links"])
def test_every_format_can_be_asked_for(session, tmp_path, name):
    folder = export(session, tmp_path, name)
    assert folder == tmp_path / f"photos-{name}"
    assert any(folder.iterdir())


@pytest.mark.parametrize("name", ["coco", "../x", None])
def test_another_format_is_refused(session, tmp_path, name):
    with pytest.raises(ConfigError, match="no format"):
        export(session, tmp_path, name)


def test_the_classifier_says_of_the_same_pictures_what_the_studio_says(session, tmp_path):
    model = export(session, tmp_path, "model") / "model.safetensors"
    done = label_new(tmp_path / "photos", model, out=tmp_path / "new", embedder=mean_colour_embedder())
    ours = session.insight.prediction
    free = session.state.labels < 0
    names = [session.state.classes[number].name for number in ours.best[free]]
    theirs = np.array(done.task.class_names)[done.best[free]]
    assert theirs.tolist() == names
    assert done.probability[free].mean() == pytest.approx(ours.probability[free].mean(), abs=0.02)


@pytest.mark.parametrize("grey", [0.0, 0.4])  # with 0.4, features are negative as often as positive: no root is taken
def test_the_classifier_learns_from_the_features_that_new_pictures_will_have(tmp_path, monkeypatch, grey):
    embedder = replace(mean_colour_embedder(), normalisation=Normalisation((grey,) * 3, (0.2, 1.0, 1.0)))
    folder, seen = write_collection(tmp_path / "photos", labelled=3), []
    session = open_session(open_collection(folder), folder, tmp_path / "kept.journal", embedder)
    session.embed()
    monkeypatch.setattr("remp.studio.exports.fit_rows", lambda rows, *_: seen.append(rows) or fit_rows(rows, *_))
    trained(session, session.final())
    pictures = np.stack([np.asarray(Image.open(folder / name)).mean((0, 1)) / 255 for name in session.task.names])
    expected = (pictures - grey) / np.array([0.2, 1.0, 1.0])
    learned = seen[0].take(np.arange(len(expected))).numpy()
    assert np.allclose(*(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (learned, expected)), atol=0.02)


def test_it_labels_pictures_it_has_never_seen(session, tmp_path):
    model = export(session, tmp_path, "model") / "model.safetensors"
    new = write_collection(tmp_path / "new photos", 5)
    done = label_new(new, model, embedder=mean_colour_embedder())
    assert done.folder == tmp_path / "new photos-labelled"
    items = json.loads((done.folder / "labels.json").read_text())["items"]
    assert len(items) == 15
    assert all(item["likeliest"] in item["file"] for item in items)


@pytest.mark.parametrize("name", [*FORMATS, "labels", "model"])
def test_a_bare_journal_is_exported_as_the_page_would(session, tmp_path, name):
    from_page = export(session, tmp_path, name)
    for results in (tmp_path / "photos-labelled", tmp_path / "photos-labelled.journal"):
        alone = session_of_results(results, tmp_path / "photos", mean_colour_embedder())
        written = tmp_path / f"{results.suffix}-{name}"
        written.mkdir()
        fill(written, alone, alone.final(), tmp_path / "photos", name, ExportOptions())
        ours, theirs = (
            {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
            for root in (written, from_page)
        )
        changing = {Path("report.html"), Path("labels.json")}  # they tell seconds
        assert ours.keys() - changing == {path for path in theirs if not path.name.startswith(".")} - changing
        assert all(content == theirs[path] for path, content in ours.items() if path not in changing)


def test_the_command_exports_a_journal_with_the_backbone_it_was_made_with(session, tmp_path, monkeypatch):
    monkeypatch.setattr("remp.studio.exports.find_embedder", lambda name, side=None: mean_colour_embedder())
    done = CliRunner().invoke(app, ["export", str(tmp_path / "photos-labelled"), "--to", "model"])
    assert done.exit_code == 0, done.output
    assert read_labelling(tmp_path / "photos-model").classes == ("blue", "green", "red")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "photos-labelled.journal"), "--to", "labels"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "photos-labelled" / "labels.csv").is_file()
    done = CliRunner().invoke(app, ["export", str(tmp_path / "photos-labelled"), "--to", "folders"])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "photos-folders").iterdir() if path.is_dir()} == {"red", "green", "blue"}


def test_what_remp_label_wrote_becomes_a_classifier_without_a_journal(tmp_path, monkeypatch):
    photos, asked = write_collection(tmp_path / "photos", labelled=3), []

    def find(name, side=None):
        asked.append((name, side))
        return mean_colour_embedder()

    monkeypatch.setattr("remp.label_sources.find_embedder", find)
    monkeypatch.setattr("remp.studio.exports.find_embedder", find)
    done = CliRunner().invoke(app, ["label", str(photos), "--backbone", "some", "--save", str(tmp_path / "saved")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["export", str(tmp_path / "photos-labelled"), "--to", "model"])
    assert done.exit_code == 0, done.output
    assert asked[-1] == ("mean colour", SIDE)  # what labels.json says, not the default
    assert not (tmp_path / "photos-labelled.journal").exists()
    new = write_collection(tmp_path / "new", 5)
    exported, saved = (
        label_new(new, tmp_path / name, out=tmp_path / f"by-{name}", embedder=mean_colour_embedder())
        for name in ("photos-model", "saved")
    )
    assert exported.task.class_names == ("blue", "green", "red")
    assert (exported.best == saved.best).all()
    np.testing.assert_allclose(exported.probability, saved.probability, atol=0.02)


def test_results_of_remp_label_are_exported_whatever_journal_is_beside_them(session, tmp_path, monkeypatch):
    monkeypatch.setattr("remp.label_sources.find_embedder", lambda name, side=None: mean_colour_embedder())
    monkeypatch.setattr("remp.studio.exports.find_embedder", lambda name, side=None: mean_colour_embedder())
    pictures = write_collection(tmp_path / "two", labelled=3)
    shutil.rmtree(pictures / "red")
    out = tmp_path / "photos-labelled"
    done = CliRunner().invoke(app, ["label", str(pictures), "--out", str(out)])
    assert done.exit_code == 0, done.output
    command = ["export", str(out), "--pictures", str(pictures), "--to"]
    done = CliRunner().invoke(app, [*command, "labels"])
    assert re.match(
        r".* has its labels already; if you have corrected them, label again: remp label", str(done.exception)
    )
    os.utime(tmp_path / "photos-labelled.journal", (2e9, 2e9))
    done = CliRunner().invoke(app, [*command, "model"])
    assert done.exit_code == 0, done.output
    assert "photos-labelled.journal has later labels, of remp studio; to export those, give it" in done.output
    assert re.search(r"two-model: learned from 6 labelled and \d+ other pictures", done.output)
    assert read_labelling(tmp_path / "two-model").classes == ("blue", "green")


def test_what_was_labelled_by_a_model_has_no_labels_to_learn_from(session, tmp_path):
    model = export(session, tmp_path, "model")
    new = label_new(tmp_path / "photos", model, out=tmp_path / "new-labelled", embedder=mean_colour_embedder()).folder
    with pytest.raises(DataError, match=r"new-labelled was labelled by the model .*photos-model', without labels"):
        session_of_results(new, tmp_path / "photos")


def test_results_of_the_page_say_what_they_were_made_with(session, tmp_path):
    folder = export(session, tmp_path, "labels")
    made_with = json.loads((folder / "labels.json").read_text())["made_with"]
    assert made_with == {"backbone": "mean colour", "side": SIDE, "embedder": mean_colour_embedder().hash} | {
        "labels": "remp studio"
    }


def test_skipped_pictures_are_not_counted_as_exported(session, tmp_path, monkeypatch):
    monkeypatch.setattr("remp.studio.exports.find_embedder", lambda name, side=None: mean_colour_embedder())
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no picture")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "photos-labelled.journal"), "--to", "labels"])
    n = len((tmp_path / "photos-labelled" / "labels.csv").read_text().splitlines()) - 1
    assert re.search(rf"photos-labelled: \d+ of {n} pictures have a label", done.output)


def test_without_journal_or_results_nothing_is_exported(tmp_path):
    write_collection(tmp_path / "photos", 1)
    with pytest.raises(DataError, match="no journal"):
        session_of_results(tmp_path / "photos-labelled")
    with pytest.raises(DataError, match=r"there is no .*elsewhere-labelled"):
        session_of_results(tmp_path / "elsewhere-labelled.journal")
    (tmp_path / "elsewhere-labelled").mkdir()
    with pytest.raises(DataError, match="give --pictures"):
        session_of_results(tmp_path / "elsewhere-labelled.journal")


def test_a_classifier_for_another_backbone_or_no_classifier_is_refused(session, tmp_path):
    model = export(session, tmp_path, "model") / "model.safetensors"
    with pytest.raises(CheckpointError, match="was not made with"):
        label_new(tmp_path / "photos", model, out=tmp_path / "x", embedder=mean_colour_embedder("other"))
    model.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_labelling(model)
