"""What the studio predicts is what `remp label` says of the same labels."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedding_cases import mean_colour_embedder
from remp.errors import DataError
from remp.label_files import label
from remp.labelling.outcome import STATUSES
from remp.labelling.pipeline import LabelOptions
from remp.studio.collection import Embedding, Labels, find_all, open_collection, predict, predict_soon
from remp.studio.proposals import next_items
from studio_cases import numbers_of, session_of, started, write_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "photos")


def test_the_same_labels_give_the_same_answer_as_remp_label(folder, tmp_path):
    session = started(folder)
    for colour, count in (("red", 3), ("green", 4), ("blue", 2)):
        session.act({"do": "label", "items": numbers_of(session, colour)[:count], "class": colour})
    session.act({"do": "accept", "classes": {"red": numbers_of(session, "red")[3:5]}})
    ours = session.wait().prediction
    names, state = session.task.names, session.state
    with (tmp_path / "given.csv").open("w", newline="") as file:
        rows = [(names[i], state.classes[number].name) for i, number in enumerate(state.labels.tolist()) if number >= 0]
        csv.writer(file).writerows([("file", "label"), *rows])
    theirs = label(
        folder, LabelOptions(backbone=mean_colour_embedder()), labels=tmp_path / "given.csv", out=tmp_path / "out"
    )
    assert theirs.task.names == names
    named = np.array([one.name for one in state.classes.values()])
    assert named[ours.best].tolist() == [theirs.task.class_names[number] for number in theirs.best]
    np.testing.assert_allclose(ours.probability, theirs.probability, atol=1e-5)
    np.testing.assert_array_equal(ours.status, theirs.status)
    # The estimate, too, before it is corrected for who chose the labels (test_checks.py).
    alone = predict(session.task, session.features, Labels(state.labels, state.classes)).labelling.estimate
    assert alone.accuracy == pytest.approx(theirs.estimate.accuracy, abs=1e-5)
    assert alone.low == pytest.approx(theirs.estimate.low, abs=1e-5)


def test_the_quick_answer_has_the_classes_of_the_whole_one(folder):
    session = started(folder)
    for colour in ("red", "green", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    last = session.wait().prediction
    session.act({"do": "label", "items": numbers_of(session, "green")[5:8], "class": "green"})
    session.act({"do": "clear", "items": numbers_of(session, "red")[:1]})
    session.act({"do": "unknown", "items": numbers_of(session, "blue")[9:10]})
    given = Labels(session.state.labels, session.state.classes)
    whole = predict(session.task, session.features, given)
    soon, model = predict_soon(session.task, session.features, given, last)
    np.testing.assert_array_equal(soon.best, whole.best)
    again = predict(session.task, session.features, given, model)  # what was learned is not learned twice
    np.testing.assert_array_equal(again.probability, whole.probability)
    is_given = STATUSES.index("given")
    np.testing.assert_array_equal(soon.status == is_given, whole.status == is_given)
    assert soon.status[numbers_of(session, "blue")[9]] == STATUSES.index("unknown")
    fewer = Labels(np.where(given.labels == 0, -1, given.labels), given.classes)
    assert predict_soon(session.task, session.features, fewer, last) is None


def test_the_quick_answer_for_many_pictures_is_learned_from_some_and_given_for_all(folder, monkeypatch):
    session = started(folder)
    for colour in ("red", "green", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    last = session.wait().prediction
    session.act({"do": "label", "items": numbers_of(session, "green")[5:8], "class": "green"})
    given = Labels(session.state.labels.copy(), session.state.classes)
    monkeypatch.setattr("remp.studio.collection._SOON", 9)
    soon, model = predict_soon(session.task, session.features, given, last)
    assert model is None  # not the whole rule: it is learned again for the whole answer
    assert soon.surroundings is last.surroundings
    np.testing.assert_array_equal(soon.best, predict(session.task, session.features, given).best)


def test_a_mark_of_a_person_goes_before_a_prediction(folder):
    session = started(folder)
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    session.act({"do": "unknown", "items": [0]})
    prediction = session.wait().prediction
    assert STATUSES[prediction.status[0]] == "unknown"
    assert prediction.labelling.labels[0] == -1


def test_what_comes_next_is_unlabelled_and_has_a_reason(folder):
    session = started(folder)
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    insight = session.wait()
    assert insight.label_next
    assert all(session.state.labels[one.item] < 0 and one.reason for one in insight.label_next)
    assert len({one.item for one in insight.label_next}) == len(insight.label_next)


def test_duplicates_are_found_by_number_of_the_collection(folder):
    copied = (folder / "003-blue.png").read_bytes()
    (folder / "zz-copy.png").write_bytes(copied)
    session = started(folder)
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:5], "class": colour})
    names = session.task.names
    exact = [one for one in session.wait().findings if one.kind == "exact duplicates"]
    assert [{names[item] for item in one.items} for one in exact] == [{"003-blue.png", "zz-copy.png"}]
    assert exact[0].classes == ("blue",)


def test_what_cannot_be_read_is_left_out_and_named(folder):
    (folder / "aa-broken.png").write_bytes(b"no picture")
    session = started(folder)
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:3], "class": colour})
    prediction = session.wait().prediction
    broken = session.task.names.index("aa-broken.png")
    assert "not a picture" in session.embedding.reasons[broken]
    assert prediction.best[broken] == -1
    assert (np.delete(prediction.best, broken) >= 0).all()


def test_a_part_is_predicted_while_the_rest_is_embedded(tmp_path, monkeypatch):
    monkeypatch.setattr("remp.studio.collection._PORTION", 8)
    folder = write_collection(tmp_path / "photos", 10)
    task, told = open_collection(folder), []
    Embedding(task, mean_colour_embedder()).run(told.append)
    sizes = [len(features.items) for features in told if features is not None]
    assert sizes == [8, 16, 30]
    assert sizes[0] < len(task.names) == sizes[-1]


def test_what_ends_the_embedding_is_kept_for_the_page(folder):
    def fails(images):
        raise DataError("no weights")

    embedding = Embedding(open_collection(folder), replace(mean_colour_embedder(), network=fails))
    embedding.run(lambda features: None)
    assert embedding.problem == "no weights"


def test_a_collection_of_which_nothing_can_be_read_says_so(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"no picture")
    session = session_of(tmp_path / "photos")
    session.embed()
    with pytest.raises(DataError, match=r"no picture can be read; the first, 'a\.jpg': not a picture"):
        session.final()


def test_a_folder_without_pictures_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match="no picture that can be read"):
        open_collection(tmp_path)


def test_the_pieces_work_without_a_session(folder):
    shutil.copy(folder / "011-red.png", folder / "twin of 011-red.png")
    session = session_of(folder)
    told = []
    session.embedding.run(told.append)
    for colour in ("red", "green"):
        session.state.label(numbers_of(session, colour)[:2], colour)
    given = session._given()
    prediction = predict(session.task, told[-1], given)
    (twins,) = [one for one in find_all(prediction, told[-1]) if one.kind == "exact duplicates"]
    assert [session.task.names[item] for item in twins.items] == ["011-red.png", "twin of 011-red.png"]
    assert next_items(prediction, told[-1], given, 4)
