"""A file of labels for a tree of pictures."""

import os
import unicodedata

import pytest

from remp.errors import DataError
from remp.labelling.tasks.folder import listed_task


@pytest.fixture
def photos(tmp_path):
    """A folder with cat/1.jpg, 2.jpg and three.jpg, empty files."""
    folder = tmp_path / "photos"
    for name in ("cat/1.jpg", "2.jpg", "three.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def given(folder, content: str | bytes, at="labels.csv") -> dict[str, str]:
    """Name -> label of the labelled items, if this is the CSV file."""
    file = folder.parent / at
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    task = listed_task(folder, file)
    return {name: task.class_names[label] for name, label in zip(task.names, task.labels, strict=True) if label >= 0}


def test_only_the_file_gives_labels_whatever_the_folders_are_called(photos):
    assert given(photos, "file,label\n2.jpg,dog\n") == {"2.jpg": "dog"}


@pytest.mark.parametrize(
    "header",
    ["file,label", "filename,class", "Path,Category", "IMAGE,Class Name", "x,file,label", "File Path,target"],
)
def test_columns_go_by_several_names(photos, header):
    cells = "2.jpg,dog" if not header.startswith("x") else "7,2.jpg,dog"
    assert given(photos, f"{header}\n{cells}\n") == {"2.jpg": "dog"}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbffile,label\r\n2.jpg,dog\r\n",
        b"file;label\n2.jpg;dog\n",
        b"file\tlabel\n2.jpg\tdog",
        b"sep=;\r\nfile;label\r\n2.jpg;dog\r\n",
        b'"file","label"\n\n"2.jpg"," dog "\n\n',
        b"file,label\n./2.jpg,dog\n2.jpg,dog\n2.jpg,\n",
    ],
    ids=["byte order mark", "semicolons", "tabs", "for Excel", "quotes and blank lines", "the same twice"],
)
def test_files_as_programs_write_them(photos, content):
    assert given(photos, content) == {"2.jpg": "dog"}


@pytest.mark.parametrize("at", ["labels.csv", "photos/labels.csv", "photos/cat/labels.csv", "elsewhere/labels.csv"])
def test_paths_are_relative_to_the_folder_wherever_the_file_lies(photos, at):
    assert given(photos, "file,label\ncat/1.jpg,dog\n", at) == {"cat/1.jpg": "dog"}


@pytest.mark.parametrize(
    ("path", "at"),
    [("photos/cat/1.jpg", "labels.csv"), ("1.jpg", "photos/cat/labels.csv"), ("../photos/cat/1.jpg", "else/l.csv")],
)
def test_or_relative_to_the_file(photos, path, at):
    assert given(photos, f"file,label\n{path},dog\n", at) == {"cat/1.jpg": "dog"}


def test_absolute_paths_and_backslashes_are_understood(photos):
    assert given(photos, f"file,label\n{photos}/2.jpg,dog\ncat\\1.jpg,cat") == {"2.jpg": "dog", "cat/1.jpg": "cat"}


@pytest.mark.parametrize(
    "content",
    [
        "label, file\ndog, 2.jpg\n",
        'file, label\n"2.jpg", "dog"\n',
        "file ;label\n2.jpg ;dog\n",
        "file,label\n 2.jpg,dog",
    ],
)
def test_spaces_around_commas_mean_nothing(photos, content):
    assert given(photos, content) == {"2.jpg": "dog"}


def test_a_label_in_quotes_after_a_space_is_whole(photos):
    assert given(photos, 'file, label\n2.jpg, "dog, ""old"""\n') == {"2.jpg": 'dog, "old"'}


def test_spaces_that_belong_to_the_name_of_a_file_count(photos):
    (photos / " 2.jpg").touch()
    assert given(photos, "file,label\n 2.jpg,cat\n2.jpg,dog\n") == {" 2.jpg": "cat", "2.jpg": "dog"}


def test_a_result_that_was_saved_in_another_encoding_is_refused(photos):
    content = "file;label;margin;status;likeliest\n2.jpg;Kätzchen;1;given;Kätzchen\nthree.jpg;;0;uncertain;Kätzchen\n"
    assert given(photos, content) == {"2.jpg": "Kätzchen"}
    with pytest.raises(DataError, match=r"line 2 is not in UTF-8: .*Windows-1252 .* reads 'Kätzchen'"):
        given(photos, content.encode("cp1252"))


def test_a_result_may_have_a_class_whose_folder_is_not_named_in_utf8(photos):
    folder = os.fsdecode(b"caf\xe9")
    (photos / folder).mkdir()
    (photos / folder / "x.jpg").touch()
    content = b"file,label,margin,status,likeliest\ncaf\xe9/x.jpg,caf\xe9,1,given,caf\xe9\n2.jpg,caf\xe9,1,given,dog\n"
    assert given(photos, content) == {f"{folder}/x.jpg": folder, "2.jpg": folder}


def test_an_empty_label_is_none(photos):
    assert given(photos, "file,label\n2.jpg,dog\nthree.jpg,\ncat/1.jpg\n") == {"2.jpg": "dog"}


def test_accents_match_however_they_are_stored(photos):
    (photos / unicodedata.normalize("NFD", "é.jpg")).touch()
    assert list(given(photos, f"file,label\n{unicodedata.normalize('NFC', 'é.jpg')},dog\n").values()) == ["dog"]


def test_a_name_that_is_not_utf8_matches_byte_for_byte(photos):
    name = b"caf\xe9.jpg"
    (photos / os.fsdecode(name)).touch()
    assert given(photos, b"file,label\n" + name + b",dog\n") == {os.fsdecode(name): "dog"}


def test_names_with_commas_quotes_and_newlines_match(photos):
    (photos / 'a, "b"\nc.jpg').touch()
    assert given(photos, 'file,label\n"a, ""b""\nc.jpg","x, ""y"""\n') == {'a, "b"\nc.jpg': 'x, "y"'}


def test_files_that_are_listed_but_missing_are_skipped_with_a_reason(photos, tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\n2.jpg,dog\nnone.jpg,dog\n../labels.csv,cat\n")
    task = listed_task(photos, tmp_path / "labels.csv")
    reason = "listed in labels.csv, but no picture in the folder"
    assert task.skipped == (("none.jpg", reason), ("../labels.csv", reason))


def test_lines_of_a_result_that_got_no_label_count_as_unlabelled(photos):
    lines = "2.jpg,dog,given,dog\nthree.jpg,unknown,unknown,dog\ncat/1.jpg,,uncertain,dog\n"
    assert given(photos, f"file,label,status,likeliest\n{lines}") == {"2.jpg": "dog"}


def test_what_the_machine_labelled_is_no_example_unless_a_person_changed_it(photos):
    lines = "2.jpg,dog,labelled,dog\nthree.jpg,cat,labelled,dog\ncat/1.jpg,cat,given,cat\n"
    assert given(photos, f"file,label,status,likeliest\n{lines}") == {"three.jpg": "cat", "cat/1.jpg": "cat"}
    lines = "2.jpg,dog,uncertain,dog\nthree.jpg,dog,unknown,dog\ncat/1.jpg,cat,checked,cat\n"
    assert given(photos, f"file,label,status,likeliest\n{lines}").keys() == {"2.jpg", "three.jpg", "cat/1.jpg"}


def test_without_the_column_likeliest_the_status_alone_decides(photos):
    lines = "2.jpg,dog,labelled,0.1\nthree.jpg,cat,given,1\n"
    assert given(photos, f"file,label,status,margin\n{lines}") == {"three.jpg": "cat"}


@pytest.mark.parametrize("column", ["likeliest", "runner-up"])
def test_a_result_that_lost_the_column_status_is_refused(photos, column):
    with pytest.raises(DataError, match="without its column status"):
        given(photos, f"file,label,{column}\n2.jpg,dog,cat\n")


def test_a_result_of_which_only_the_status_was_kept_gives_no_labels_of_the_machine(photos):
    lines = "2.jpg,dog,labelled\nthree.jpg,cat,given\ncat/1.jpg,,uncertain\n"
    assert given(photos, f"file,label,status\n{lines}") == {"three.jpg": "cat"}
    assert given(photos, f"file_name,label,status\n{lines}") == {"three.jpg": "cat"}  # metadata.csv of remp export


@pytest.mark.parametrize("others", ["labelled", "given,checked", "done"])
def test_the_column_status_of_another_tool_means_nothing(photos, others):
    status = others.split(",")
    lines = f"2.jpg,dog,{status[0]}\nthree.jpg,cat,{status[-1]}\n"
    assert given(photos, f"file,label,status\n{lines}") == {"2.jpg": "dog", "three.jpg": "cat"}


def test_labels_of_pictures_are_missing_or_numbers_as_those_of_rows_are(photos):
    assert given(photos, "file,label\n2.jpg,dog\nthree.jpg,-1\n") == {"2.jpg": "dog"}
    numbers = "file,label\n2.jpg,0.0\nthree.jpg,-1.0\ncat/1.jpg,nan\n"  # as pandas writes numbers with gaps
    assert given(photos, numbers) == {"2.jpg": "0"}
    assert given(photos, "file,label\n2.jpg,nan\nthree.jpg,pita\n") == {"2.jpg": "nan", "three.jpg": "pita"}
    ours = "file,label,status,likeliest\n-1/x.jpg,-1,given,-1\n2.jpg,-1,given,cat\n"  # a folder may be called -1
    assert given(photos, ours) == {"2.jpg": "-1"}


def test_the_csv_export_of_label_studio_is_read(photos):
    lines = "1,/data/local-files/?d=photos/2.jpg,dog\n2,/data/local-files/?d=photos/cat%2F1.jpg,cat\n"
    assert given(photos, f"annotation_id,image,label\n{lines}") == {"2.jpg": "dog", "cat/1.jpg": "cat"}


def test_the_file_of_labels_itself_is_not_counted_as_skipped(photos):
    (photos / "notes.txt").touch()
    (photos / "labels.csv").write_text("file,label\n2.jpg,dog\n")
    assert listed_task(photos, photos / "labels.csv").skipped == (("notes.txt", "TXT is not a picture"),)


def test_a_status_in_a_file_of_the_users_means_nothing(photos):
    assert given(photos, "file,label,status\n2.jpg,dog,unknown\n") == {"2.jpg": "dog"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,label\n2.jpg,dog\n./2.jpg,cat\n", r"gives './2.jpg' two labels: 'dog' in line 2 and 'cat' in line 3"),
        ("fil,label\n2.jpg,dog\n", "no column 'file' .*there are: fil, label; did you mean 'fil'?"),
        ("file,lable\n2.jpg,dog\n", "no column 'label' .*did you mean 'lable'?"),
        ("2.jpg,dog\n", "no column 'file' .* in its first line, which names the columns"),
        (b"PK\3\4\0 a sheet", "a spreadsheet or an archive, not a CSV file"),
        ("sep=;\nfile;label\n2.jpg;cat\n2.jpg;dog\n", "in line 3 and 'dog' in line 4"),
        ("", "is empty; needed the columns 'file' and 'label'"),
        ("file,label\nnone.jpg,dog\n", "none of the 1 files in .* the first is 'none.jpg'. Paths are relative to"),
        ("file,label\n".encode("utf-16"), "is in UTF-16; needed UTF-8. Save it as CSV UTF-8"),
        ("file,label\n".encode("utf-16-le"), "zero bytes. Save it as CSV UTF-8"),
        ("file,label\n2.jpg,café\n".encode("cp1252"), r"line 2 is not in UTF-8: .*Windows-1252 .* reads 'café'"),
        ("file,label\n2.jpg,猫の絵\n".encode("shift_jis"), "not in UTF-8: it looks like .* Shift JIS"),
        ("file,label\ncafé.jpg,dog\n2.jpg,cat".encode("cp1252"), r"line 2 is not in UTF-8: .* reads 'café.jpg'"),
        ('file,label\n"' + "x" * 200_000 + '",dog\n', "line 2 is not CSV"),
    ],
    ids=[
        "two labels",
        "file",
        "label",
        "no header",
        "spreadsheet",
        "lines for Excel count",
        "empty",
        "all missing",
        "UTF-16",
        "UTF-16 bare",
        "Latin",
        "Japanese",
        "Latin name",
        "a giant cell",
    ],
)
def test_a_file_that_cannot_be_right_is_an_error(photos, content, message):
    with pytest.raises(DataError, match=message):
        given(photos, content)


def test_a_labels_file_that_is_not_there_is_an_error(photos):
    with pytest.raises(DataError, match=r"none.csv' cannot be read .No such file"):
        listed_task(photos, photos / "none.csv")
