"""A session: actions are kept, replayed, and lead to predictions."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from remp.errors import ConfigError
from remp.studio.collection import predict
from remp.studio.server import describe, item_arrays
from studio_cases import numbers_of, session_of, started, write_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "photos")


def before_and_after(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def label(session, colour: str, count: int) -> None:
    session.act({"do": "label", "items": numbers_of(session, colour)[:count], "class": colour})


def test_without_labels_there_are_groups_and_from_two_classes_on_predictions(folder):
    session = started(folder)
    groups = session.insight.groups
    assert sum(group.size for group in groups) == len(session.task.names)
    pure = [len({session.task.names[item].split("-")[1] for item in group.items}) == 1 for group in groups]
    assert all(pure)
    label(session, "red", 3)
    assert session.wait().prediction is None
    label(session, "blue", 3)
    assert session.wait().prediction is not None


def test_everything_is_there_again_at_the_next_start(folder):
    session = session_of(folder)
    label(session, "red", 3)
    session.act({"do": "rename", "class": "red", "to": "赤"})
    session.act({"do": "unknown", "items": [5]})
    session.act({"do": "undo"})
    again = session_of(folder)
    np.testing.assert_array_equal(again.state.labels, session.state.labels)
    assert [one.name for one in again.state.classes.values()] == ["赤"]
    assert again.state.undo() == "red renamed 赤"
    assert not again.notices


def test_a_refused_action_is_not_in_the_journal(folder):
    session = session_of(folder)
    with pytest.raises(ConfigError):
        session.act({"do": "label", "items": [10_000], "class": "red"})
    assert session_of(folder).state.version == 0


def test_a_damaged_last_line_is_dropped_and_said(folder):
    session = session_of(folder)
    label(session, "red", 3)
    label(session, "blue", 2)
    path = session.journal.path
    path.write_bytes(path.read_bytes()[:-20])
    again = session_of(folder)
    assert sorted(one.name for one in again.state.classes.values()) == ["red"]
    assert "1 line was damaged in the journal" in again.notices[0]


def test_labels_of_folders_are_there_and_nothing_in_the_folder_changes(tmp_path):
    folder = write_collection(tmp_path / "photos", labelled=3)
    before = before_and_after(folder)
    session = started(folder)
    assert session.insight.prediction is not None
    session.act({"do": "clear", "items": numbers_of(session, "red/")})
    session.wait()
    assert before_and_after(folder) == before


def test_a_picture_that_was_deleted_leaves_its_journal_entries_out(folder):
    session = session_of(folder)
    label(session, "red", 3)
    gone = numbers_of(session, "red")[0]
    (folder / session.task.names[gone]).unlink()
    again = session_of(folder)
    assert (again.state.labels >= 0).sum() == 2
    assert again.notices[0].startswith("1 picture with labels in the journal, such as '000-red.png', are not")


def test_what_cannot_be_done_again_does_not_make_undo_take_back_something_else(tmp_path):
    folder = write_collection(tmp_path / "photos", labelled=2)
    session = session_of(folder)
    session.act({"do": "label", "items": numbers_of(session, "-blue")[:3], "class": "sea"})
    session.act({"do": "accept", "classes": {"red": numbers_of(session, "-red")[:3]}})
    session.act({"do": "undo"})
    shutil.rmtree(folder / "red")
    again = session_of(folder)
    labels = again.state.labels[numbers_of(again, "-blue")[:3]]
    assert [again.state.classes[number].name for number in labels.tolist()] == ["sea"] * 3
    assert "actions of the journal that do not fit" in again.notices[0]


@pytest.mark.parametrize("items", [[999_999], [10**30], [-1]])
def test_what_a_verb_does_not_need_is_neither_done_nor_kept(folder, items):
    session = session_of(folder)
    label(session, "red", 2)
    with pytest.raises(ConfigError, match="there is no picture"):
        session.act({"do": "label", "items": items, "class": "blue"})
    session.act({"do": "undo", "items": items, "other": "x"})
    again = session_of(folder)
    np.testing.assert_array_equal(again.state.labels, session.state.labels)
    assert again.journal.entries[-1].keys() == {"do", "at"}


def test_two_people_pressing_at_once_lose_nothing(folder):
    session = started(folder)
    n = len(session.task.names)

    def press(numbers):
        for number in numbers:
            session.act({"do": "label", "items": [number], "class": f"class {number % 3}"})

    people = [threading.Thread(target=press, args=(range(start, n, 4),)) for start in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert (session.state.labels >= 0).all()
    again = session_of(folder)
    names = [[state.classes[number].name for number in state.labels] for state in (session.state, again.state)]
    assert names[0] == names[1]


def test_a_full_disk_is_told_and_the_actions_are_kept(folder):
    session = session_of(folder)
    kept, session.journal.path = session.journal.path, Path("/dev/full")
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    label(session, "red", 3)
    assert "No space left" in describe(session)["journal_problem"]
    session.journal.path = kept
    label(session, "blue", 3)
    assert describe(session)["journal_problem"] == ""
    assert len(session_of(folder).state.classes) == 2


def test_what_a_full_disk_did_not_take_is_written_when_there_is_room_without_another_action(folder, monkeypatch):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    monkeypatch.setattr("remp.studio.session._AGAIN", 0.05)
    session = started(folder)
    kept, session.journal.path = session.journal.path, Path("/dev/full")
    label(session, "red", 3)
    assert session.journal.problem
    heard = threading.Event()
    session.listen(lambda: heard.set() if not session.journal.problem else None)
    session.journal.path = kept
    assert heard.wait(20)
    assert len(session_of(folder).state.classes) == 1


def test_the_end_is_a_last_try_to_write(folder):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    session = session_of(folder)
    kept, session.journal.path = session.journal.path, Path("/dev/full")
    label(session, "red", 3)
    session.journal.path = kept
    session.stop()
    assert len(session_of(folder).state.classes) == 1


def test_the_arrays_for_the_page_say_what_the_state_says(folder):
    session = started(folder)
    label(session, "red", 3)
    label(session, "blue", 3)
    session.act({"do": "unknown", "items": [7]})
    session.wait()
    n = len(session.task.names)
    content = item_arrays(session)
    assert len(content) == 12 * n
    labels = np.frombuffer(content, "<i2", n)
    np.testing.assert_array_equal(labels, session.state.labels)
    probability = np.frombuffer(content, "<u2", n, 6 * n) / 10_000
    np.testing.assert_allclose(probability, session.insight.prediction.probability, atol=1e-4)


def test_a_dismissed_finding_stays_away_until_that_is_undone(folder):
    (folder / "zz-copy.png").write_bytes((folder / "003-blue.png").read_bytes())
    session = started(folder)
    label(session, "red", 3)
    label(session, "blue", 3)
    session.wait()
    shown = describe(session)["findings"]
    session.act({"do": "dismiss", "finding": shown[0]["key"]})
    assert shown[0]["key"] not in [one["key"] for one in describe(session)["findings"]]
    session.act({"do": "undo"})
    session.wait()
    assert shown[0]["key"] in [one["key"] for one in describe(session)["findings"]]


def test_slow_predictions_are_shown_before_they_are_judged_and_end_the_same(folder, monkeypatch):
    monkeypatch.setattr("remp.studio.session._LONG", -1.0)
    session, seen = started(folder), []
    label(session, "red", 3)
    label(session, "blue", 3)
    session.wait()
    session.listen(lambda: seen.append((session.insight.version, session.insight.of)))
    session.act({"do": "label", "items": numbers_of(session, "red")[3:6], "class": "red"})
    insight, version = session.wait(), session.state.version
    assert (-1, version) in seen
    assert insight.version == insight.of == version
    assert insight.seconds["soon"] < insight.seconds["predict"]
    np.testing.assert_array_equal(insight.prediction.best, session.final().best)


def test_who_labels_on_does_not_wait_for_what_nobody_will_see(folder, monkeypatch):
    monkeypatch.setattr("remp.studio.session._LONG", -1.0)
    session, predicted = started(folder), []
    label(session, "red", 3)
    label(session, "blue", 3)
    session.wait()

    def overtaken(task, features, given, model=None, is_wanted=lambda: True):
        if not predicted:  # the next action comes in the middle of the first prediction
            session.act({"do": "label", "items": numbers_of(session, "blue")[3:6], "class": "blue"})
        predicted.append(int((given.labels >= 0).sum()))
        return predict(task, features, given, model, is_wanted)

    monkeypatch.setattr("remp.studio.session.predict", overtaken)
    seen: list[tuple[int, int]] = []
    session.listen(lambda: seen.append((session.insight.version, session.insight.of)))
    session.act({"do": "label", "items": numbers_of(session, "red")[3:6], "class": "red"})
    version = session.state.version + 1
    insight = session.wait(version)
    assert predicted == [9, 12]
    assert (-1, version - 1) in seen  # its classes were shown all the same
    assert version - 1 not in {made for made, _ in seen}
    np.testing.assert_array_equal(insight.prediction.best, session.final().best)


def test_many_duplicates_are_told_one_by_one_and_not_all_at_once(folder, monkeypatch):
    for number in range(5):
        (folder / f"zz-{number}.png").write_bytes((folder / f"00{number}-blue.png").read_bytes())
    monkeypatch.setattr("remp.studio.server._MOST_FINDINGS", 3)
    session = started(folder)
    label(session, "red", 3)
    label(session, "green", 3)
    session.wait()
    keys = []
    while shown := describe(session)["findings"]:
        assert len(shown) <= 3
        keys.append(shown[0]["key"])
        assert all(len(one["items"]) == 2 for one in shown if one["kind"] == "exact duplicates")
        session.act({"do": "dismiss", "finding": keys[-1]})
        session.wait()
    assert len([key for key in keys if key.startswith("exact duplicates")]) == 5


def test_what_changes_no_label_predicts_nothing_anew(folder):
    session = started(folder)
    label(session, "red", 3)
    label(session, "blue", 3)
    before = session.wait()
    for action in (
        {"do": "colour", "class": "red", "colour": "#123456"},
        {"do": "dismiss", "finding": "x"},
        {"do": "undo"},
    ):
        session.act(action)
        after = session.wait()
        assert (after.version, after.of) == (session.state.version,) * 2
        assert after.prediction is before.prediction
    session.act({"do": "rename", "class": "red", "to": "scarlet"})
    assert session.wait().prediction is not before.prediction


def test_listeners_hear_of_changes_until_they_leave(folder):
    session, heard = session_of(folder), []
    end = session.listen(lambda: heard.append(session.state.version))
    label(session, "red", 1)
    end()
    label(session, "blue", 1)
    assert heard == [1]


def test_nothing_can_be_exported_before_there_is_a_label(folder):
    session = started(folder)
    with pytest.raises(ConfigError, match="nothing is labelled yet"):
        session.final()


def test_all_labelled_is_no_error(folder):
    session = started(folder)
    for colour in ("red", "green", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour), "class": colour})
    insight = session.wait()
    assert not insight.label_next
    assert not [notice for notice in session.notices if "failed" in notice]
    assert (session.final().labelling.labels >= 0).all()
