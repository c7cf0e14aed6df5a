"""The value that actions change: checked against a plain dictionary, and by undoing everything."""

import copy
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remp.errors import ConfigError
from remp.studio.journal import apply, with_names, with_numbers
from remp.studio.state import ACCEPTED, FREE, GIVEN, NONE, UNKNOWN, StudioState

N = 12


def start() -> StudioState:
    return StudioState.start([0, 1] + [-1] * (N - 2), ["cat", "dog"])


def shown(state: StudioState) -> list[tuple[str | None, int]]:
    """What a person sees of each item: the name of its class or mark, and where it comes from."""
    names = {number: one.name for number, one in state.classes.items()} | {NONE: None, UNKNOWN: "?"}
    return [(names[label], origin) for label, origin in zip(state.labels.tolist(), state.origins.tolist(), strict=True)]


def whole(state: StudioState) -> tuple:
    return shown(state), dict(state.classes), state.dismissed


def test_labels_of_the_files_are_given_and_the_rest_is_free():
    assert shown(start())[:3] == [("cat", GIVEN), ("dog", GIVEN), (None, FREE)]


def test_a_typed_name_makes_a_class_with_a_colour_of_its_own():
    state = start()
    state.label([3, 4], "  owl \n")
    assert shown(state)[3:5] == [("owl", GIVEN)] * 2
    assert len({one.colour for one in state.classes.values()}) == 3


def test_accepting_leaves_what_a_person_said():
    state = start()
    state.mark_unknown([5])
    state.accept({"cat": [1, 4, 5], "dog": [6]})
    assert [shown(state)[i] for i in (1, 4, 5, 6)] == [
        ("dog", GIVEN), ("cat", ACCEPTED), ("?", GIVEN), ("dog", ACCEPTED)
    ]  # fmt: skip


def test_merging_keeps_where_labels_come_from_and_deleting_frees_them():
    state = start()
    state.accept({"dog": [7]})
    state.merge("dog", "cat")
    assert shown(state)[1] == ("cat", GIVEN)
    assert shown(state)[7] == ("cat", ACCEPTED)
    state.delete("cat")
    assert {name for name, _ in shown(state)} == {None}
    assert not state.classes


def test_a_class_that_comes_back_by_undo_is_not_taken_for_a_new_one():
    state = start()
    state.label([2], "owl")
    state.delete("owl")
    state.label([3], "fox")
    state.undo()
    state.undo()
    assert shown(state)[2] == ("owl", GIVEN)
    assert shown(state)[3] == (None, FREE)


def test_a_new_class_costs_as_little_after_many_actions_as_after_few():
    """All that undo could bring back was looked through for each new class."""
    state = StudioState.start([-1] * N, [f"class {number}" for number in range(1000)])
    for _ in range(2000):
        state.label([0], "class 7")
    started = time.process_time()
    for number in range(5):
        state.label([1], f"new {number}")
    assert time.process_time() - started < 0.5


def test_a_new_action_forgets_what_was_undone():
    state = start()
    state.label([2], "owl")
    state.undo()
    state.label([3], "fox")
    assert state.redo() == ""


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"do": "label", "items": [0], "class": " \n "}, "without letters"),
        ({"do": "label", "items": [0], "class": "x" * 10_000}, "10,000 characters; needed at most 200"),
        ({"do": "label", "items": [N], "class": "a"}, f"no picture {N}"),
        ({"do": "label", "items": [-1], "class": "a"}, "no picture"),
        ({"do": "label", "items": ["0"], "class": "a"}, "by their number"),
        ({"do": "label", "items": [True], "class": "a"}, "by their number"),
        ({"do": "label", "items": "0", "class": "a"}, "a list of pictures"),
        ({"do": "label", "class": "a"}, "needs 'items'"),
        ({"do": "accept", "classes": {"owl": [2]}}, "no class 'owl'"),
        ({"do": "accept", "classes": {"cat": [2], "dog": [2]}}, "two classes at once"),
        ({"do": "rename", "class": "cat", "to": "dog"}, "merge the two"),
        ({"do": "merge", "class": "cat", "into": "cat"}, "with itself"),
        ({"do": "colour", "class": "cat", "colour": "red;}"}, "such as #2f7fd1"),
        ({"do": "label", "items": [2], "class": ["owl"]}, "needed text, got list"),
        ({"do": "rename", "class": "cat", "to": {}}, "needed text, got dict"),
        ({"do": "colour", "class": "cat", "colour": 1}, "needed text, got int"),
        ({"do": "burn"}, "needed one of label"),
        ([], "needed one of label"),
    ],
)
def test_a_bad_action_is_refused_and_changes_nothing(action, said):
    state = start()
    before = copy.deepcopy(whole(state))
    with pytest.raises(ConfigError, match=said):
        apply(state, action)
    assert whole(state) == before
    assert not state.done


ITEMS = st.lists(st.integers(0, N - 1), max_size=5)
NAMES = st.sampled_from(["cat", "dog", "owl", "鳥", "<img onerror=x>"])
ACTIONS = st.one_of(
    st.builds(lambda items, name: {"do": "label", "items": items, "class": name}, ITEMS, NAMES),
    st.builds(lambda items, name: {"do": "accept", "classes": {name: items}}, ITEMS, NAMES),
    st.builds(lambda items: {"do": "clear", "items": items}, ITEMS),
    st.builds(lambda items: {"do": "unknown", "items": items}, ITEMS),
    st.builds(lambda name, to: {"do": "rename", "class": name, "to": to}, NAMES, NAMES),
    st.builds(lambda name, into: {"do": "merge", "class": name, "into": into}, NAMES, NAMES),
    st.builds(lambda name: {"do": "delete", "class": name}, NAMES),
    st.builds(lambda name: {"do": "colour", "class": name, "colour": "#123456"}, NAMES),
    st.builds(lambda name: {"do": "dismiss", "finding": name}, NAMES),
)


def tried(state: StudioState, action: dict) -> bool:
    try:
        apply(state, action)
    except ConfigError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=15))
def test_undo_walks_back_through_every_state_and_redo_forward(actions):
    state = start()
    seen = [copy.deepcopy(whole(state))]
    for action in actions:
        if tried(state, action):
            seen.append(copy.deepcopy(whole(state)))
    for before in reversed(seen[:-1]):
        assert state.undo()
        assert whole(state) == before
    assert state.undo() == ""
    for after in seen[1:]:
        assert state.redo()
        assert whole(state) == after


@settings(max_examples=30, deadline=None)
@given(st.lists(ACTIONS, max_size=10))
def test_a_journal_of_names_means_the_same_when_pictures_are_added(actions):
    names = [f"{i}.png" for i in range(N)]
    more = ["a new one.png", *names]
    numbers = {name: number for number, name in enumerate(more)}
    first, second = start(), StudioState.start([-1, 0, 1] + [-1] * (N - 2), ["cat", "dog"])
    for action in actions:
        assert tried(first, action) == tried(second, with_numbers(with_names(action, names), numbers))
    assert shown(second)[1:] == shown(first)


def test_names_that_are_gone_are_left_out():
    action = {"do": "label", "items": ["gone.png", "b.png"], "class": "cat"}
    assert with_numbers(action, {"b.png": 4})["items"] == [4]


def test_the_arrays_stay_small():
    state = start()
    assert state.labels.dtype == np.int32
    assert state.origins.dtype == np.int8


@pytest.mark.parametrize(("folder", "typed"), [("Gefa\u0308ß", "Gefäß"), ("cat ", "cat"), ("big  cat", "big cat")])
def test_a_class_that_reads_the_same_is_the_same(folder, typed):
    state = StudioState.start([0, -1, -1], [folder])
    state.label([1], typed)
    state.label([2], folder)
    assert state.labels.tolist() == [0, 0, 0]
    assert [one.name for one in state.classes.values()] == [folder]
    state.rename(folder, typed)
    assert [one.name for one in state.classes.values()] == [typed]


def test_folders_that_read_the_same_stay_two_classes():
    state = StudioState.start([0, 1, -1], ["cat", "cat "])
    state.label([2], "cat ")
    assert state.labels.tolist() == [0, 1, 1]


def test_half_a_character_is_no_name():
    with pytest.raises(ConfigError, match="half a character"):
        start().label([3], "\ud800x")
