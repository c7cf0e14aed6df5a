"""Omniglot (Lake et al. 2015) in the split of Vinyals et al. (2016): 1,028 / 172 / 423 characters of 20 drawings."""

from functools import partial
from pathlib import Path

import numpy as np

from remp.datasets.archives import Members, open_members
from remp.datasets.decode import decode_members
from remp.datasets.raw import (
    RawClass,
    RawSet,
    ReadOptions,
    check_counts,
    group_by_folder,
    last_parts,
    read_split_list,
)
from remp.errors import DataError

_SIZE, _DRAWINGS = 28, 20
_PARTS = ("images_background", "images_evaluation")


def read_omniglot(source: Path, options: ReadOptions) -> RawSet:
    """The official two zips, or the folders they unpack to, side by side in `source`.

    One channel, ink is 255 on 0. With rotations every character turned by 90, 180 and 270 degrees is a class of its
    own, named `Alphabet/character01/90`.
    """
    size = options.size or _SIZE
    characters = _find_characters(source if source.is_dir() else source.parent)
    turns = range(4 if options.rotations else 1)
    splits = {}
    for split, names in read_split_list("omniglot").items():
        counts = {name: len(characters[name][1]) if name in characters else 0 for name in names}
        check_counts(counts, _DRAWINGS, f"{source} ({split})")
        splits[split] = {
            f"{name}/{90 * turn}" if turn else name: RawClass(_DRAWINGS, partial(_draw, *characters[name], size, turn))
            for turn in turns
            for name in names
        }
    return RawSet(splits, (size, size, 1), "Omniglot" + (" with rotations" if options.rotations else ""))


def _find_characters(folder: Path) -> dict[str, tuple[Members, list[str]]]:
    """`Alphabet/character01` -> where its drawings are and their names."""
    characters = {}
    for part in _PARTS:
        found = next((path for path in (folder / f"{part}.zip", folder / part) if path.exists()), None)
        if found is None:
            raise DataError(f"{folder} has neither {part}.zip nor a folder {part}: omniglot needs both official zips")
        members = open_members(found)
        for path, files in group_by_folder(members.names()).items():
            characters[last_parts(path, 2)] = (members, files)
    return characters


def _draw(members: Members, files: list[str], size: int, turn: int) -> np.ndarray:
    ink = 255 - decode_members(members, files, size, channels=1)  # the files have black ink on white
    return np.rot90(ink, turn, axes=(1, 2))
