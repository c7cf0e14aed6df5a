"""Reading a file of labels: CSV, or JSON of Label Studio."""

import codecs
import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from remp.checks import nearest
from remp.errors import DataError
from remp.untrusted import shortened

FILE_COLUMNS = ("file", "filename", "file_name", "path", "filepath", "file_path", "image", "image_path", "image_name")
ID_COLUMNS = ("id", "name", *FILE_COLUMNS)
LABEL_COLUMNS = ("label", "class", "class_name", "category", "labels", "target")
_MISSING = ("", "-1")
_NUMBER = re.compile(r"-?\d+(\.0*)?|nan", re.IGNORECASE)
_GIVE = "give a CSV file with the columns file and label, or an export of Label Studio"
_DELIMITERS = ",;\t"
_EXCEL = re.compile(r'"?sep=([,;\t])"?\r?\n', re.IGNORECASE)
_BLANK: list[str] = []  # the cells of a blank line
# A line of labels has so many letters at least, beyond the first million lines.
_LETTERS_A_LINE, _FREE_LINES = 16, 1_000_000


# What `remp label` writes into the column status of a label that no person gave.
_OF_MACHINE = ("labelled", "uncertain", "unknown")
# Columns that nobody else writes.
_ONLY_OURS = {"likeliest", "runner-up"}


@dataclass(frozen=True)
class LabelRow:
    """A line of the file: what it is about, and the label, None if that is empty."""

    line: int
    key: str
    label: str | None


def read_label_table(path: Path, key_columns: Sequence[str]) -> list[LabelRow]:
    """The rows of a CSV file with a header, in UTF-8 with or without a byte order mark. The key is in the column that
    has the first of these names; other columns are left alone.

    In a labels.csv of ours, the column status tells who gave a label: those that remp gave are left out, unless
    somebody changed them since."""
    lines = read_lines(path)
    if not lines:
        raise DataError(f"{path} is empty; needed the columns {key_columns[0]!r} and 'label'")
    header = [name.strip().casefold().replace(" ", "_") for name in lines[0][1]]
    key, label = _column(path, header, key_columns), _column(path, header, LABEL_COLUMNS)
    if "status" not in header and _ONLY_OURS & set(header):
        raise DataError(
            f"{path} is a labels.csv of remp without its column status, which says who gave a label: put it back, with "
            "'given' for your own labels, or leave the columns file and label of your own labels only"
        )
    is_ours = _is_ours(header, lines[1:])
    rows = []
    for line, cells in lines[1:]:
        given = _cell(cells, label) if is_ours else _cell(cells, label).strip()  # folders may end in a space
        if is_ours and _is_of_machine(header, cells, given.strip()):
            given = ""
        rows.append(LabelRow(line, _served(_cell(cells, key)), given or None))
    # Of ours, a class may be named by a folder whose name has any bytes.
    folders = {row.key.partition("/")[0].strip() for row in rows} if is_ours else set()
    for row in rows:
        if row.label and row.label not in folders:
            check_encoding(row.label, path, row.line)
    if not is_ours:
        labels = as_numbers([label_or_none(row.label) for row in rows])
        rows = [replace(row, label=label) for row, label in zip(rows, labels, strict=True)]
    return [row for row in rows if row.key]


def _is_ours(header: list[str], lines: list[tuple[int, list[str]]]) -> bool:
    """Whether the column status is that of a labels.csv of remp, maybe with fewer columns: one of somebody else means
    nothing here."""
    if "status" not in header or {"likeliest", "runner-up", "margin"} & set(header):
        return "status" in header
    said = {_cell(cells, header.index("status")).strip() for _, cells in lines if cells}
    return "given" in said and said <= {"given", *_OF_MACHINE}


def _is_of_machine(header: list[str], cells: list[str], label: str) -> bool:
    """Whether remp gave the label of a line of our labels.csv, and nobody has changed it since."""
    status = _cell(cells, header.index("status")).strip()
    if status not in _OF_MACHINE or "likeliest" not in header:
        return status in _OF_MACHINE
    likeliest = _cell(cells, header.index("likeliest")).strip()
    return label in ("", {"labelled": likeliest, "uncertain": "", "unknown": "unknown"}[status])


def check_encoding(text: str, path: Path, line: int) -> None:
    """Raise DataError, naming the encoding that it looks like, for text with bytes that are no UTF-8."""
    content = text.encode("utf-8", "surrogateescape")
    if text.isascii() or content.decode("utf-8", "ignore") == text:
        return
    raise DataError(
        f"{path}, line {line} is not in UTF-8: {_likely_encoding(content)}. Save it as UTF-8 (in Excel: CSV UTF-8)"
    )


def _likely_encoding(content: bytes) -> str:
    """In words. Western letters beyond ASCII stand alone; in Chinese, Japanese and Korean they come in pairs."""
    alone = all(not (a > 127 and b > 127) for a, b in pairwise(content))
    try:
        western = content.decode("cp1252")
    except UnicodeDecodeError:
        alone = False
    if alone:
        return f"it looks like Windows-1252 or Latin-1, in which it reads {shortened(western)!r}"
    return "it looks like an older encoding such as GBK, Shift JIS or Windows-1251"


def read_lines(path: Path) -> list[tuple[int, list[str]]]:
    """(line number, cells) of each line of a CSV file; a blank line has no cells. Bytes that are not UTF-8 are kept as
    they are, as in the names of files."""
    text = _read_text(path)
    separator = _EXCEL.match(text)  # told to Excel in a line of its own
    text = text[separator.end() :] if separator else text
    first = text.partition("\n")[0]
    delimiter = separator[1] if separator else max(_DELIMITERS, key=first.count)
    # Written as `file, label`, a space is part of the comma: before a quote it would make the quotes part of the label.
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=f"{delimiter} " in first)
    skipped = 1 if separator else 0
    most, lines = _FREE_LINES + len(text) // _LETTERS_A_LINE, []
    try:
        for cells in reader:
            lines.append((reader.line_num + skipped, cells or _BLANK))
            if len(lines) > most:
                raise DataError(f"{path} has more than {most} nearly empty lines: it is not a file of labels")
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num + skipped} is not CSV: {error}") from error
    return lines


def keep_label(given: dict[int, LabelRow], number: int, row: LabelRow, file: Path) -> None:
    """Note the label of an item; raises DataError if it has another one already."""
    before = given.setdefault(number, row)
    if before.label != row.label:
        raise DataError(
            f"{file} gives {shortened(row.key)!r} two labels: {shortened(str(before.label))!r} in line {before.line} "
            f"and {shortened(str(row.label))!r} in line {row.line}. Keep one of them"
        )


def label_or_none(value: Any) -> str | None:
    """A label as text; None for a missing one: nothing, "", NaN, -1."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # what pandas makes of whole numbers with gaps
    text = str(value).strip()
    return None if text in _MISSING else text


def as_numbers(labels: Sequence[str | None]) -> list[str | None]:
    """Where all labels are numbers, those that NumPy and pandas write for numbers with gaps are read as such: nan and
    -1.0 are missing, 3.0 is 3. Among other labels, nan is a kind of bread.

    >>> as_numbers(["3.0", "nan", "12", "-1.0"]), as_numbers(["pita", "nan"])
    (['3', None, '12', None], ['pita', 'nan'])
    """
    if not all(label is None or _NUMBER.fullmatch(label) for label in labels):
        return list(labels)
    return [label_or_none(float(label)) if label and not label.isdigit() else label for label in labels]


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"the labels {str(path)!r} cannot be read ({error.strerror}): {_GIVE}") from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{path} is in UTF-16; needed UTF-8. Save it as CSV UTF-8")
    if content.startswith((b"PK\3\4", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{path} is a spreadsheet or an archive, not a CSV file: save the sheet as CSV UTF-8")
    if content.startswith(b"\x93NUMPY"):
        raise DataError(
            f"{path} is an array of NumPy, not a CSV file: write it as text with "
            "numpy.savetxt('labels.csv', labels, fmt='%s')"
        )
    if b"\0" in content:
        raise DataError(f"{path} is not a CSV file in UTF-8: it has zero bytes. Save it as CSV UTF-8")
    return content.decode("utf-8-sig", errors="surrogateescape")


def _column(path: Path, header: list[str], names: Sequence[str]) -> int:
    for name in names:
        if name in header[: None if name else 1]:  # an index has no name, and comes first
            return header.index(name)
    needed = " or ".join(repr(name) for name in names if name)
    raise DataError(
        f"{path} has no column {needed} in its first line, which names the columns, such as file,label; rename the one "
        f"that you mean to {names[0]!r}; {nearest(names[0], [name or '(no name)' for name in header])}"
    )


def _cell(cells: list[str], column: int) -> str:
    return cells[column] if column < len(cells) else ""


def read_label_studio(path: Path) -> list[LabelRow]:
    """A row for each task: the file of its picture, and the choice of its last annotation that was not cancelled. The
    full export (JSON) and the short one (JSON-MIN) are both read."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"the labels {str(path)!r} cannot be read ({error.strerror}): {_GIVE}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}. Needed an export of Label Studio, or a CSV file") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is not an export of Label Studio: needed a list of tasks")
    rows = [LabelRow(number + 1, _file(task), _choice(task)) for number, task in enumerate(tasks)]
    if tasks and not any(row.key for row in rows):
        raise DataError(f"{path} is not an export of Label Studio: no task has data with an image")
    return [row for row in rows if row.key]


def _file(task: dict[str, Any]) -> str:
    """The path of the picture."""
    data = task.get("data", task)
    image = data.get("image") if isinstance(data, dict) else None
    if not isinstance(image, str):
        return ""
    return _served(image)


def _served(image: str) -> str:
    """The path of a picture. Of the folder that Label Studio serves files from, the first part is left out: it is the
    folder of the pictures."""
    _, is_local, local = image.partition("/data/local-files/?d=")
    return unquote(local, errors="surrogateescape").partition("/")[2] if is_local else image


def _choice(task: dict[str, Any]) -> str | None:
    if isinstance(task.get("choice"), str):  # JSON-MIN, by the usual name
        return task["choice"].strip() or None
    if "annotations" not in task and isinstance(task.get("label"), str):  # JSON-MIN, by the name in our config.xml
        return task["label"].strip() or None
    annotations = task.get("annotations", [])
    for annotation in reversed(annotations if isinstance(annotations, list) else []):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result")
        for result in results if isinstance(results, list) else []:
            value = result.get("value") if isinstance(result, dict) else None
            choices = value.get("choices") if isinstance(value, dict) else None
            if isinstance(choices, list) and choices and isinstance(choices[0], str):
                return choices[0].strip() or None
    return None
