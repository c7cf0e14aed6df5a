"""A picture of what a prepared set holds: a row of examples for some classes of each split."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from remp.datasets.base import SPLITS, ImageSet, open_prepared, read_index
from remp.errors import DataError

_ROWS, _COLUMNS = 6, 10  # classes of each split, images of each class
_GAP, _CAPTION_WIDTH = 2, 180


def write_contact_sheet(name: str, path: Path, *, overwrite: bool = False) -> Path:
    """Write the sheet as PNG; raises DataError rather than overwrite a file unasked."""
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already: give another path with --sheet, or remove it")
    splits = [split for split in SPLITS if split in read_index(name)["splits"]]
    sheet = _draw_sheet([open_prepared(name, split) for split in splits])
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, "PNG")
    return path


def _draw_sheet(sets: list[ImageSet]) -> Image.Image:
    height, width, _ = sets[0].image_size
    rows = [(images, label) for images in sets for label in _spread(images.n_classes, _ROWS)]
    size = (_CAPTION_WIDTH + _COLUMNS * (width + _GAP), len(rows) * (height + _GAP))
    sheet = Image.new("RGB", size, "white")
    for row, (images, label) in enumerate(rows):
        top = row * (height + _GAP)
        caption = f"{images.split}: {images.class_names[label]}"
        caption = caption.encode("latin1", errors="replace").decode("latin1")  # the built-in font has no more
        caption = caption if len(caption) <= 28 else caption[:25] + "..."
        ImageDraw.Draw(sheet).text((4, top + height // 2 - 5), caption, fill="black")
        members = np.flatnonzero(images.labels == label)
        for column, index in enumerate(members[_spread(len(members), _COLUMNS)]):
            pixels = images.images[index]
            picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            sheet.paste(picture, (_CAPTION_WIDTH + column * (width + _GAP), top))
    return sheet


def _spread(n: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 … n - 1, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
