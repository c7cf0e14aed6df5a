"""tieredImageNet (Ren et al. 2018) from the authors' pickles: 351 / 97 / 160 classes, split by ImageNet category."""

import pickletools
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from remp.datasets.base import SPLITS
from remp.datasets.decode import decode
from remp.datasets.raw import RawClass, RawSet, ReadOptions
from remp.datasets.safe_pickle import as_text, get_names, get_numbers, load_pickle
from remp.errors import DataError
from remp.untrusted import border

_SIZE = 84
_N_CLASSES = {"train": 351, "val": 97, "test": 160}
_BYTES_PER_STEP, _FREE_STEPS = 100, 1_000_000  # of a pickle; a picture, of thousands of bytes, takes some thirty steps
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# bytes before the content: the opcode itself and the length
_PREFIX_BYTES = {
    "SHORT_BINSTRING": 2,
    "BINSTRING": 5,
    "SHORT_BINBYTES": 2,
    "BINBYTES": 5,
    "BINBYTES8": 9,
    "BYTEARRAY8": 9,
}


@dataclass(frozen=True)
class PickledPng:
    """Where a picture lies in its file."""

    path: Path
    offset: int
    n_bytes: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.n_bytes)


def read_tiered_imagenet(source: Path, options: ReadOptions) -> RawSet:
    """`{train,val,test}_images_png.pkl` beside `{train,val,test}_labels.pkl`; 13 GB, of which a class is in memory."""
    folder = source.parent if source.suffix == ".pkl" else source
    size = options.size or _SIZE
    splits = {split: _read_split(folder, split, size) for split in SPLITS}
    return RawSet(splits, (size, size, 3), "tieredImageNet")


def _read_split(folder: Path, split: str, size: int) -> dict[str, RawClass]:
    images_path, labels_path = folder / f"{split}_images_png.pkl", folder / f"{split}_labels.pkl"
    for path in (images_path, labels_path):
        if not path.is_file():
            raise DataError(f"{path} is missing: tiered-imagenet is {{train,val,test}}_images_png.pkl and *_labels.pkl")
    labels, classes = _read_labels(labels_path)
    if len(classes) != _N_CLASSES[split]:
        raise DataError(
            f"{labels_path} names {len(classes)} classes, needed {_N_CLASSES[split]}: wrong file, get it again"
        )
    if len(set(classes)) != len(classes) or not ((labels >= 0) & (labels < len(classes))).all():
        raise DataError(f"{labels_path} has labels that are none of its classes: it is damaged, get it again")
    pictures = find_pickled_pngs(images_path)
    if len(pictures) != len(labels):
        raise DataError(f"{images_path} holds {len(pictures)} PNG pictures, {labels_path.name} {len(labels)} labels")
    return {name: _raw_class(name, pictures, np.flatnonzero(labels == i), size) for i, name in enumerate(classes)}


def _read_labels(path: Path) -> tuple[np.ndarray, list[str]]:
    """The class of each image (n,), and the names of the classes, made distinct."""
    with path.open("rb") as file:
        content = as_text(load_pickle(file, str(path)))
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a label file of tieredImageNet: needed label_specific and label_specific_str")
    given = get_names(content, "label_specific_str", str(path))
    twice = {name for name, count in Counter(given).items() if count > 1}
    distinct = [f"{name} ({i})" if name in twice else name for i, name in enumerate(given)]
    return get_numbers(content, "label_specific", str(path)), distinct


def _raw_class(name: str, pictures: list[PickledPng], rows: np.ndarray, size: int) -> RawClass:
    if len(rows) == 0:
        raise DataError(f"class {name!r} of tiered-imagenet has no images: the label file is damaged, get it again")
    return RawClass(len(rows), partial(_decode_rows, pictures, rows, size))


def _decode_rows(pictures: list[PickledPng], rows: np.ndarray, size: int) -> np.ndarray:
    return np.stack([decode(pictures[row].read(), f"{pictures[row].path}, image {row}", size) for row in rows])


def find_pickled_pngs(path: Path) -> list[PickledPng]:
    """The pictures of a pickled list of PNG-encoded uint8 arrays, in the order of the list."""
    found = []
    most_steps = _FREE_STEPS + path.stat().st_size // _BYTES_PER_STEP
    with border(f"{path} is not a pickle, or it is truncated", "get it again"), path.open("rb") as file:
        for step, (opcode, argument, position) in enumerate(pickletools.genops(file)):
            if step > most_steps:
                raise DataError(f"{path} has more than {most_steps:,} steps, no list of pictures: get it again")
            prefix = _PREFIX_BYTES.get(opcode.name)
            if prefix and argument and position is not None and _is_png(argument):
                found.append(PickledPng(path, position + prefix, len(argument)))
    return found


def _is_png(content: bytes | str) -> bool:
    """pickletools shows strings of Python 2 as str."""
    start = content[: len(_PNG_SIGNATURE)]
    return (start.encode("latin1") if isinstance(start, str) else bytes(start)) == _PNG_SIGNATURE
