"""A folder for each class: safe names, clashes, copies and links."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_labelling import made_up_labelling
from remp.labelling.output.class_folders import safe_name, write_class_folders

HARD = [
    "a/b",
    "a_b",
    "A_B",
    "..",
    ".",
    "",
    " ",
    "../../etc",
    "con",
    "NUL.txt",
    "x. ",
    ".hidden",
    "é",
    "e\u0301",
    "猫" * 200,
]


def labelling_of(folder: Path, names, labels, class_names):
    """All labelled as said; -1 is unknown. The pictures are files with their own name in them."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    paths = [folder / name for name in names]
    made_up = made_up_labelling(("a", "b"), len(names), paths=paths)
    task = replace(made_up.task, class_names=tuple(class_names))
    labels = np.array(labels)
    return replace(made_up, task=task, labels=labels, status=np.where(labels < 0, 3, 1))


def files(folder: Path) -> dict[str, str]:
    """Path below the folder -> content."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", ["copy", "link"])
def test_pictures_lie_in_the_folder_of_their_class(tmp_path, way):
    names = ["cat/x.jpg", "dog/1.jpg", "unlabelled/x.jpg", "deep/er/X.JPG", "odd.jpg"]
    write_class_folders(labelling_of(tmp_path / "in", names, [0, 1, 0, 0, -1], ["cat", "dog"]), tmp_path / "out", way)
    assert files(tmp_path / "out") == {
        "classes/cat/x.jpg": "cat/x.jpg",
        "classes/cat/x-2.jpg": "unlabelled/x.jpg",
        "classes/cat/X-3.JPG": "deep/er/X.JPG",
        "classes/dog/1.jpg": "dog/1.jpg",
        "unknown/odd.jpg": "odd.jpg",
    }
    assert all(path.is_symlink() == (way == "link") for path in (tmp_path / "out").rglob("*.jpg"))


def test_links_hold_when_pictures_and_result_move_together(tmp_path):
    (tmp_path / "here").mkdir()
    labelling = labelling_of(tmp_path / "here" / "in", ["x.jpg", "y.jpg"], [0, 0], ["cat"])
    write_class_folders(labelling, tmp_path / "here" / "out", "link")
    (tmp_path / "here").rename(tmp_path / "there")
    assert files(tmp_path / "there" / "out") == {"classes/cat/x.jpg": "x.jpg", "classes/cat/y.jpg": "y.jpg"}


def test_where_links_cannot_be_made_the_file_has_two_names(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(type(tmp_path), "symlink_to", refuse)
    write_class_folders(labelling_of(tmp_path / "in", ["x.jpg", "y.jpg"], [0, 0], ["cat"]), tmp_path / "out", "link")
    assert (tmp_path / "out/classes/cat/x.jpg").samefile(tmp_path / "in/x.jpg")


def test_hard_class_names_stay_apart_and_inside(tmp_path):
    names = [f"{number}.jpg" for number in range(len(HARD))]
    labelling = labelling_of(tmp_path / "in", names, range(len(HARD)), HARD)
    write_class_folders(labelling, tmp_path / "out", "copy")
    folders = os.listdir(tmp_path / "out" / "classes")
    assert len({name.casefold() for name in folders}) == len(HARD)
    assert len(files(tmp_path / "out")) == len(HARD)
    assert sorted(os.listdir(tmp_path)) == ["in", "out", *(["remp-home"] if (tmp_path / "remp-home").exists() else [])]


def test_long_names_that_clash_still_fit(tmp_path):
    long = "x" * 251 + ".jpg"
    write_class_folders(labelling_of(tmp_path / "in", [long, f"a/{long}"], [0, 0], ["cat"]), tmp_path / "out", "copy")
    assert len(files(tmp_path / "out")) == 2


@given(st.binary().map(os.fsdecode) | st.text(st.characters(exclude_categories=["Cs"])))
def test_any_class_name_becomes_one_visible_folder(name):
    safe = safe_name(name)
    assert safe
    assert not set(safe) & set('/\\:*?"<>|\n')
    assert safe[0] != "."
    assert safe[-1] not in ". "
    assert len(os.fsencode(safe)) <= 240


@pytest.mark.parametrize("name", ["cat", "猫", "New York", "a.b", "c-2"])
def test_an_ordinary_name_stays(name):
    assert safe_name(name) == name
