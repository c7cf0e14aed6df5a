"""The one way from raw data to a prepared set."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remp.datasets.base import prepared_folder, write_prepared
from remp.datasets.raw import RawSet, ReadOptions
from remp.datasets.table import find_dataset
from remp.errors import DataError
from remp.progress import progress

DEFAULT_OPTIONS = ReadOptions()


def prepare(
    name: str,
    source: Path | None = None,
    *,
    options: ReadOptions = DEFAULT_OPTIONS,
    save_as: str | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Read the raw data of data set `name`, write it prepared under `save_as` (or `name`), return its index.

    `say` is told what was found. Raises DataError, and leaves nothing behind, where the raw data is not right.
    """
    dataset = find_dataset(name)
    target = save_as or name
    if source is None:
        raise DataError(f"{name} needs its raw data: pass --from PATH ({dataset.sources})")
    raw = dataset.read(source, options)
    say(describe(raw))
    _check_space(raw, target)
    return _write(raw, target, force)


def describe(raw: RawSet) -> str:
    """One line on what was found."""
    parts = [
        f"{split}: {len(classes)} classes, {_n_images(raw, split)} images" for split, classes in raw.splits.items()
    ]
    return f"Found {raw.source}. {'; '.join(parts)}; {'x'.join(str(n) for n in raw.image_size)}"


def _n_images(raw: RawSet, split: str) -> int:
    return sum(raw_class.count for raw_class in raw.splits[split].values())


def _check_space(raw: RawSet, target: str) -> None:
    folder = prepared_folder(target)
    while not folder.exists():
        folder = folder.parent
    needed = sum(_n_images(raw, split) for split in raw.splits) * math.prod(raw.image_size)
    free = shutil.disk_usage(folder).free
    if needed + 2**20 > free:
        raise DataError(
            f"preparing {target!r} needs {needed / 1e9:.2f} GB in {folder}, {free / 1e9:.2f} GB are free: "
            "make room, or set REMP_HOME to a folder on another disk"
        )


def _write(raw: RawSet, target: str, force: bool) -> dict[str, Any]:
    n_classes = sum(len(classes) for classes in raw.splits.values())
    with progress(f"preparing {target}", n_classes, unit="classes") as bar:
        return write_prepared(
            target,
            {split: {name: found.images for name, found in classes.items()} for split, classes in raw.splits.items()},
            image_size=raw.image_size,
            counts={split: [found.count for found in classes.values()] for split, classes in raw.splits.items()},
            source=raw.source,
            overwrite=force,
            on_class=lambda split, class_name: bar.advance(1, f"{split}: {class_name}"),
        )
