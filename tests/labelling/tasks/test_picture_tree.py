"""Finding pictures: links in circles, odd names, what is no picture."""

import os

import pytest

from remp.errors import DataError
from remp.labelling.tasks.folder import find_pictures


def fill(folder, *names):
    """Empty files of these names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_pictures_are_found_at_any_depth_in_the_order_of_their_names(tmp_path):
    fill(tmp_path, "b.jpg", "cat/2021/x.JPG", "cat/a.png", "notes.txt")
    tree = find_pictures(tmp_path)
    assert tree.names == ["b.jpg", "cat/2021/x.JPG", "cat/a.png"]
    assert (tree.folders, tree.skipped) == (["cat"], [("notes.txt", "TXT is not a picture")])


def test_a_picture_of_another_kind_and_one_without_an_ending_are_not_said_to_be_no_pictures(tmp_path):
    fill(tmp_path, "a.jp2", "b.PSD", "scan0001")
    assert find_pictures(tmp_path).skipped == [
        ("a.jp2", "JP2 is not read: convert it to JPEG or PNG"),
        ("b.PSD", "PSD is not read: convert it to JPEG or PNG"),
        ("scan0001", "a name without an ending such as .jpg: not a picture"),
    ]


def test_hidden_files_and_what_systems_leave_behind_do_not_count(tmp_path):
    fill(tmp_path, ".DS_Store", "Thumbs.db", "desktop.ini", "._a.jpg", ".cache/a.jpg", "cat/.x.png")
    fill(tmp_path, "__MACOSX/cat/a.jpg", "cat/@eaDir/a.jpg", "$RECYCLE.BIN/a.jpg")
    tree = find_pictures(tmp_path)
    assert (tree.names, tree.skipped, tree.folders) == ([], [], ["cat"])


def test_links_in_a_circle_end(tmp_path):
    fill(tmp_path, "a/1.jpg", "b/2.jpg")
    (tmp_path / "a" / "itself").symlink_to(".")
    (tmp_path / "a" / "up").symlink_to("../..")
    (tmp_path / "b" / "other").symlink_to("../a")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    tree = find_pictures(tmp_path)
    assert [name for name in tree.names if "up" not in name] == ["a/1.jpg", "b/2.jpg"]
    already = "a link to a folder that is read already"
    assert {("a/itself", already), ("b/other", already)} <= set(tree.skipped)
    assert ("loop.jpg", "a link that leads nowhere") in tree.skipped


def test_a_link_that_leads_above_the_folder_does_not_read_it_twice(tmp_path):
    fill(tmp_path, "photos/a/1.jpg", "elsewhere.jpg")
    (tmp_path / "photos" / "up").symlink_to("..")
    assert find_pictures(tmp_path / "photos").names == ["a/1.jpg", "up/elsewhere.jpg"]


def test_linked_files_and_folders_are_followed_by_the_names_they_have_here(tmp_path):
    fill(tmp_path, "elsewhere/x.jpg", "photos/cat/1.jpg")
    (tmp_path / "photos" / "unlabelled").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "cat" / "2.jpg").symlink_to(tmp_path / "elsewhere" / "x.jpg")
    assert find_pictures(tmp_path / "photos").names == ["cat/1.jpg", "cat/2.jpg", "unlabelled/x.jpg"]


def test_a_pipe_is_not_waited_for_and_a_broken_link_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "broken.jpg").symlink_to("nothing")
    tree = find_pictures(tmp_path)
    assert tree.names == []
    assert tree.skipped == [("broken.jpg", "a link that leads nowhere"), ("pipe.jpg", "not a file")]


def test_pictures_that_are_not_read_are_named(tmp_path):
    fill(tmp_path, "a.AVIF", "b.mp4", "c/d.PDF", "e", "Thumbs.db", ".hidden.txt")
    assert find_pictures(tmp_path).skipped == [
        ("a.AVIF", "AVIF is not read: convert it to JPEG or PNG"),
        ("b.mp4", "MP4 is not a picture"),
        ("c/d.PDF", "PDF is not a picture"),
        ("e", "a name without an ending such as .jpg: not a picture"),
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_skipped(tmp_path):
    fill(tmp_path, "a/1.jpg", "b/2.jpg")
    (tmp_path / "b").chmod(0)
    tree = find_pictures(tmp_path)
    (tmp_path / "b").chmod(0o700)
    assert tree.names == ["a/1.jpg"]
    assert tree.skipped == [("b", "the folder cannot be read: Permission denied")]


def test_a_folder_that_vanishes_while_it_is_read_is_skipped(tmp_path, monkeypatch):
    fill(tmp_path, "a/1.jpg", "b/2.jpg")
    scan = os.scandir

    def scan_all_but_b(path):
        if str(path).endswith("b"):
            raise FileNotFoundError(2, "No such file or directory")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_all_but_b)
    tree = find_pictures(tmp_path)
    assert tree.names == ["a/1.jpg"]
    assert tree.skipped == [("b", "the folder cannot be read: No such file or directory")]


NAMES = ['comma, quote ".jpg', "new\nline.jpg", "猫.png", "кошка.jpg", "=1+1.jpg", "e\u0301.jpg", "🐈.webp", " .jpg"]


def test_names_in_any_script_are_kept_as_they_are(tmp_path):
    fill(tmp_path, *NAMES)
    assert find_pictures(tmp_path).names == sorted(NAMES)


def test_a_name_that_is_not_utf8_is_found(tmp_path):
    name = b"caf\xe9.jpg"
    (tmp_path / os.fsdecode(name)).touch()
    (found,) = find_pictures(tmp_path).names
    assert os.fsencode(found) == name


@pytest.mark.parametrize("path", ["nothing", "a.jpg"])
def test_what_is_no_folder_is_an_error(tmp_path, path):
    fill(tmp_path, "a.jpg")
    with pytest.raises(DataError, match=f"{path}' is not a folder"):
        find_pictures(tmp_path / path)


@pytest.mark.slow
def test_100_000_files_are_all_found(tmp_path):
    for folder in range(100):
        (tmp_path / f"{folder}").mkdir()
        for number in range(1000):
            os.close(os.open(tmp_path / f"{folder}" / f"{number}.jpg", os.O_CREAT))
    assert len(find_pictures(tmp_path).names) == 100_000
