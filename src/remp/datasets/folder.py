"""Own pictures: a tree `train|val|test/class/image`, or `class/image` with a seeded split of the classes."""

import hashlib
from pathlib import Path

from remp.datasets.archives import Members, open_members
from remp.datasets.base import SPLITS
from remp.datasets.raw import TO_LABEL, RawSet, ReadOptions, decoded_classes, is_picture
from remp.errors import DataError

_SIZE = 84
_SHARES = {"val": 0.16, "test": 0.20}  # of the classes; the rest are for training
_LEAST_CLASSES = 2  # in a split: one class alone makes no task

_Parts = tuple[str, ...]  # of a picture's path
_Classes = dict[str, list[str]]  # class -> its pictures


def read_folder(source: Path, options: ReadOptions) -> RawSet:
    """A folder, zip or tar of pictures. A class with the same name in two splits is refused: it would leak."""
    members = open_members(source)
    pictures, left_out = _without_unlabelled(_find_pictures(members))
    if not pictures:
        raise DataError(
            f"{source} has no pictures with a class, only {', '.join(left_out)}: put some into class folders"
        )
    if any(parts[0] in SPLITS and len(parts) > 2 for parts in pictures):
        splits, how = _given_split(pictures, members), "split as given"
    else:
        splits, how = _seeded_split(pictures, members, options.seed), f"classes split with seed {options.seed}"
    size = options.size or _SIZE
    return RawSet(
        {split: decoded_classes(members, classes, size) for split, classes in splits.items()},
        (size, size, 3),
        f"folder {source.name}, {how}",
        tuple(f"{name}/ is not a class: its {n} pictures are left out" for name, n in left_out.items()),
    )


def _without_unlabelled(pictures: dict[_Parts, str]) -> tuple[dict[_Parts, str], dict[str, int]]:
    """The pictures that are in no folder for pictures without a label, and how many are in each such folder."""
    left_out: dict[str, int] = {}
    kept = {}
    for parts, name in pictures.items():
        depth = 1 if parts[0] in SPLITS and len(parts) > 2 else 0
        if len(parts) > depth + 1 and parts[depth].casefold() in TO_LABEL:
            folder = "/".join(parts[: depth + 1])
            left_out[folder] = left_out.get(folder, 0) + 1
        else:
            kept[parts] = name
    return kept, left_out


def _find_pictures(members: Members) -> dict[_Parts, str]:
    """Parts of the path below the folder that holds the classes or splits -> the picture's full name."""
    pictures = {tuple(name.split("/")): name for name in sorted(members.names()) if is_picture(name)}
    if not pictures:
        raise DataError(
            f"{members.path} has no pictures (jpg, png, webp, ...): needed class/image or train/class/image"
        )
    # All may lie in folders, one in the other, that are neither splits nor classes.
    first, last, deepest = min(pictures), max(pictures), max(0, min(map(len, pictures)) - 2)
    depth = next((at for at in range(deepest) if first[at] != last[at] or first[at] in SPLITS), deepest)
    return {parts[depth:]: name for parts, name in pictures.items()}


def _group(pictures: dict[_Parts, str], depth: int, members: Members) -> _Classes:
    """Pictures by the part of their path at `depth`, the name of their class."""
    classes: _Classes = {}
    for parts, name in pictures.items():
        if len(parts) < depth + 2:
            raise DataError(f"{members.path}/{name} lies in no class folder: move it to one, or remove it")
        classes.setdefault(parts[depth], []).append(name)
    return classes


def _given_split(pictures: dict[_Parts, str], members: Members) -> dict[str, _Classes]:
    splits: dict[str, _Classes] = {}
    home_of: dict[str, str] = {}
    for split in SPLITS:
        classes = _group({parts: name for parts, name in pictures.items() if parts[0] == split}, 1, members)
        if len(classes) < _LEAST_CLASSES:
            raise DataError(
                f"{members.path} has {len(classes)} classes of pictures in {split}/, needed at least {_LEAST_CLASSES}: "
                "fill train/, val/ and test/, or give one tree class/image to have the classes split for you"
            )
        for name in classes:
            if home_of.setdefault(name, split) != split:
                raise DataError(
                    f"class {name!r} is in both {home_of[name]}/ and {split}/: a class may be in one split only"
                )
        splits[split] = classes
    return splits


def _seeded_split(pictures: dict[_Parts, str], members: Members, seed: int) -> dict[str, _Classes]:
    """Classes in an order drawn from seed and names alone, so that it is the same on every machine."""
    classes = _group(pictures, 0, members)
    n_of = {split: max(_LEAST_CLASSES, round(share * len(classes))) for split, share in _SHARES.items()}
    n_of = {"train": len(classes) - sum(n_of.values()), **n_of}
    if n_of["train"] < _LEAST_CLASSES:
        raise DataError(
            f"{members.path} has {len(classes)} classes ({', '.join(list(classes)[:5])}), needed at least "
            f"{_LEAST_CLASSES * len(SPLITS)} to split them into train, val and test: add classes"
        )
    # a name need not be UTF-8
    order = sorted(classes, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode(errors="surrogatepass")).digest())
    splits, start = {}, 0
    for split in SPLITS:
        chosen = sorted(order[start : start + n_of[split]])
        splits[split] = {name: classes[name] for name in chosen}
        start += n_of[split]
    return splits
