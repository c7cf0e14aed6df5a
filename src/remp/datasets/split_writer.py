"""Writes the images of one split to an .npy file, class by class, taking their fingerprint on the way."""

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib.format import dtype_to_descr, write_array_header_1_0

from remp.errors import DataError


class SplitWriter:
    """A context that takes the classes of a split in their order: `add(images)` once for each.

    Plain writes, not a memory map: on a full disk a map kills the process, a write raises OSError.
    """

    def __init__(self, path: Path, classes: list[str], counts: list[int], image_size: tuple[int, int, int]) -> None:
        self._path, self._classes, self._counts, self._image_size = path, classes, counts, image_size
        self._digest = hashlib.sha256(json.dumps([classes, counts, image_size]).encode())
        self._histogram = np.zeros((image_size[2], 256), dtype=np.int64)
        self._n_added = 0

    def __enter__(self) -> "SplitWriter":
        self._file = self._path.open("wb")
        shape = (sum(self._counts), *self._image_size)
        header = {"descr": dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": shape}
        write_array_header_1_0(self._file, header)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())

    def add(self, images: np.ndarray) -> None:
        """Append the next class: uint8 (its count, height, width, channels)."""
        needed = (self._counts[self._n_added], *self._image_size)
        if images.shape != needed or images.dtype != np.uint8:
            name = self._classes[self._n_added]
            raise DataError(f"class {name!r}: got {images.dtype} {images.shape}, needed uint8 {needed}")
        content = images.tobytes()
        self._file.write(content)
        self._digest.update(content)
        for channel, histogram in enumerate(self._histogram):
            histogram += np.bincount(images[..., channel].ravel(), minlength=256)
        self._n_added += 1

    def entry(self) -> dict[str, Any]:
        """What the index says of the split."""
        return {"classes": self._classes, "counts": self._counts, "fingerprint": self._digest.hexdigest()}

    def pixel_statistics(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation per channel, in [0, 1]; a constant channel gets 1: nobody divides by 0."""
        values = np.arange(256) / 255
        weights = self._histogram / np.maximum(self._histogram.sum(axis=1, keepdims=True), 1)
        mean = weights @ values
        variance = weights @ values**2 - mean**2
        std = np.where(variance > 1e-8, np.sqrt(np.maximum(variance, 1e-8)), 1.0)
        return mean.round(6).tolist(), std.round(6).tolist()
