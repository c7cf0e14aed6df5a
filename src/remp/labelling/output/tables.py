"""A labelling as labels.csv and labels.json, and as a Parquet dataset if it is large."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.quality.estimate import rejection_table
from remp.system.files import write_atomically
from remp.version import __version__

COLUMNS = ("file", "label", "probability", "runner-up", "margin", "status", "likeliest")


# From so many items on there is a Parquet dataset too, with so many in a file.
LARGE = 1_000_000


def write_labels(labelling: Labelling, folder: Path) -> None:
    """Write the files into a folder."""
    # A name that is not UTF-8 goes to the CSV file byte for byte, and to JSON as the escapes that Python gives it.
    write_atomically(folder / "labels.csv", (line.encode("utf-8", "surrogateescape") for line in csv_lines(labelling)))
    write_atomically(folder / "labels.json", (utf8(line).encode() for line in json_lines(labelling)))
    if len(labelling.task.names) > LARGE and find_spec("pyarrow"):
        write_parquet(labelling, folder / "labels-parquet")


def write_parquet(labelling: Labelling, folder: Path) -> None:
    """The columns of labels.csv as a Parquet dataset. Needs pyarrow."""
    import pyarrow
    import pyarrow.parquet as parquet

    names = pyarrow.array([utf8(name) for name in (*labelling.task.class_names, "unknown")])
    kinds = pyarrow.array(STATUSES)

    def classes(numbers: np.ndarray) -> Any:
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(numbers, pyarrow.int32(), mask=numbers < 0), names)

    folder.mkdir()
    is_unknown = labelling.status == STATUSES.index("unknown")
    labels = np.where(is_unknown, len(labelling.task.class_names), labelling.labels)
    for at in range(0, len(labels), LARGE):
        here = slice(at, at + LARGE)
        columns = {
            "file": pyarrow.array([utf8(name) for name in labelling.task.names[here]]),
            "label": classes(labels[here]),
            "probability": pyarrow.array(labelling.probability[here]),
            "runner-up": classes(labelling.runner_up[here]),
            "margin": pyarrow.array(labelling.margin[here]),
            "status": pyarrow.DictionaryArray.from_arrays(pyarrow.array(labelling.status[here]), kinds),
            "likeliest": classes(labelling.best[here]),
        }
        parquet.write_table(pyarrow.table(columns), folder / f"part-{at // LARGE:05d}.parquet", compression="zstd")


def utf8(name: str) -> str:
    """What Parquet can hold: bytes of a name that are no UTF-8 become escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def csv_lines(labelling: Labelling) -> Iterator[str]:
    """One line per item, in the order of the task; cells are exact, whatever is in them."""
    yield ",".join(COLUMNS) + "\n"
    for record in labelling.each_record():
        yield ",".join(csv_cell(record[column]) for column in COLUMNS) + "\n"


def json_lines(labelling: Labelling) -> Iterator[str]:
    """The same items, one in a line, with all else that is known of them."""
    names = labelling.task.names
    before = {"version": __version__, "made_with": labelling.made_with, "classes": _classes(labelling)}
    after = {
        "estimate": asdict(labelling.estimate) if labelling.estimate else None,
        "no_estimate": labelling.no_estimate,
        "rectification_weight": round(labelling.rectified, 3),
        "reject": [kept._asdict() for kept in rejection_table(labelling)],
        "findings": [
            {
                "kind": finding.kind,
                "text": finding.text,
                "files": [names[item] for item in finding.items],
                "beside": [names[item] for item in finding.beside],
            }
            for finding in labelling.findings
        ],
        "label_next": [{"file": names[advice.item], "reason": advice.reason} for advice in labelling.label_next],
        "skipped": [{"file": name, "reason": reason} for name, reason in labelling.task.skipped],
        "seconds": {stage: round(seconds, 3) for stage, seconds in labelling.seconds.items()},
    }
    everything, one = (
        json.JSONEncoder(ensure_ascii=False, indent=wide, allow_nan=False, default=np.generic.item)  # of settings
        for wide in (1, None)
    )
    yield everything.encode(before).removesuffix("\n}") + ',\n "items": ['
    for number, record in enumerate(labelling.each_record()):
        yield ("\n  " if number == 0 else ",\n  ") + one.encode(record)
    yield "\n ],\n" + everything.encode(after).removeprefix("{\n") + "\n"


def csv_cell(value: str | float | None) -> str:
    """Quoted where it must be; the csv module of some Pythons leaves a lone carriage return bare, which ends a line."""
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _classes(labelling: Labelling) -> list[dict[str, Any]]:
    task = labelling.task
    given = np.bincount(task.labels[task.is_labelled], minlength=len(task.class_names))
    return [
        {"label": name, "examples": int(examples), "expected": round(float(expected), 2)}
        for name, examples, expected in zip(task.class_names, given, labelling.expected_sizes, strict=True)
    ]
