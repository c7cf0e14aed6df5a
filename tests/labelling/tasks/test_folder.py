"""A folder as a task: which pictures are examples of what."""

import pytest

from remp.errors import DataError
from remp.labelling.tasks import Items, checked
from remp.labelling.tasks.folder import folder_task


def fill(folder, *names):
    """Empty files of these names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def classes(task: Items) -> dict[str, str | None]:
    """Name -> class, or None."""
    labels = [task.class_names[label] if label >= 0 else None for label in task.labels]
    return dict(zip(task.names, labels, strict=True))


def test_sub_folders_are_classes_and_the_rest_is_to_be_labelled(tmp_path):
    fill(tmp_path, "cat/1.jpg", "dog/1.jpg", "dog/2.jpg", "loose.jpg", "unlabelled/x.jpg")
    task = folder_task(tmp_path)
    assert classes(task) == {
        "cat/1.jpg": "cat",
        "dog/1.jpg": "dog",
        "dog/2.jpg": "dog",
        "loose.jpg": None,
        "unlabelled/x.jpg": None,
    }
    assert task.class_names == ("cat", "dog")
    assert task.paths == tuple(tmp_path / name for name in task.names)


@pytest.mark.parametrize("name", ["unlabelled", "unlabeled", "unsorted", "Unlabelled", "UNSORTED", "UnLabeled"])
def test_the_folder_to_be_labelled_has_three_names_in_any_case(tmp_path, name):
    fill(tmp_path, f"{name}/deep/x.jpg", "cat/1.jpg")
    assert classes(folder_task(tmp_path))[f"{name}/deep/x.jpg"] is None


def test_folders_within_a_class_are_of_that_class(tmp_path):
    fill(tmp_path, "cat/2021/summer/x.jpg", "cat/unlabelled/y.jpg")
    assert set(classes(folder_task(tmp_path)).values()) == {"cat"}


def test_class_names_are_kept_whatever_is_in_them(tmp_path):
    names = ["=cmd()", "a, b", 'a "b"', "new\nline", "猫", "-1", "unknown"]
    fill(tmp_path, *(f"{name}/1.jpg" for name in names))
    assert folder_task(tmp_path).class_names == tuple(sorted(names))


def test_a_class_folder_without_pictures_is_named(tmp_path):
    fill(tmp_path, "cat/1.jpg", "dog/notes.txt", "unlabelled/notes.txt")
    task = folder_task(tmp_path)
    assert task.class_names == ("cat",)
    no_pictures = [(f"{folder}/notes.txt", "TXT is not a picture") for folder in ("dog", "unlabelled")]
    assert task.skipped == (*no_pictures, ("dog", "a folder without pictures is not a class"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["unlabelled/1.jpg", "2.jpg"], "none of the 2 items of photos is labelled: do this"),
        (["cat/1.jpg", "dog/2.jpg"], "all 2 items of photos are labelled, so that nothing is left to label: do this"),
        (["notes.txt"], "photos has nothing that can be read"),
        (["cat/1.jxl"], r"photos has nothing that can be read \('cat/1.jxl' was skipped: JXL is"),
    ],
    ids=["nothing labelled", "nothing unlabelled", "no pictures", "no pictures that are read"],
)
def test_a_folder_that_cannot_be_worked_with_is_an_error_that_says_what_to_do(tmp_path, names, message):
    fill(tmp_path, *names)
    with pytest.raises(DataError, match=message):
        checked(folder_task(tmp_path), "photos", "do this")


def test_a_class_whose_examples_cannot_be_read_is_left_out_and_named(tmp_path):
    fill(tmp_path, "ant/1.jpg", "bee/1.jpg", "cow/1.jpg", "x.jpg")
    task = folder_task(tmp_path).without({1: "damaged"})
    left = checked(task, "photos", "")
    assert classes(left) == {"ant/1.jpg": "ant", "cow/1.jpg": "cow", "x.jpg": None}
    assert left.class_names == ("ant", "cow")
    assert left.skipped == (("bee/1.jpg", "damaged"), ("bee", "a class without a readable example"))


def test_one_class_is_enough(tmp_path):
    fill(tmp_path, "cat/1.jpg", "x.jpg")
    assert checked(folder_task(tmp_path), "photos", "").class_names == ("cat",)
