"""Raw archives and folders in, prepared image sets out."""

from remp.datasets.base import ImageSet, open_prepared, prepared_folder, read_index
from remp.datasets.prepare import prepare
from remp.datasets.raw import ReadOptions
from remp.datasets.table import DATASETS

__all__ = ["DATASETS", "ImageSet", "ReadOptions", "open_data", "open_prepared", "prepare", "read_index"]


def open_data(name: str, split: str) -> ImageSet:
    """One split ("train", "val" or "test") of a prepared set, by the name it was prepared under.

    A set that needs no raw data (glyphs) is prepared on first use. Raises DataError where the set is not prepared.
    """
    dataset = DATASETS.get(name)
    if dataset and dataset.draw and not prepared_folder(name).exists():
        # Two processes may get here at once and draw the same images: the last one to finish stays.
        dataset.draw(name, True)
    return open_prepared(name, split)


open_set = open_data  # the name of before
