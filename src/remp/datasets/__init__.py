"""Raw archives and folders in, prepared image sets out."""

from remp.checks import nearest
from remp.datasets.base import ImageSet, list_prepared, open_prepared, prepared_folder, read_index
from remp.datasets.prepare import DATASETS, prepare
from remp.datasets.raw import ReadOptions
from remp.errors import DataError

__all__ = ["DATASETS", "ImageSet", "ReadOptions", "make_ready", "open_data", "open_prepared", "prepare", "read_index"]


def open_data(name: str, split: str) -> ImageSet:
    """Open one split of a prepared data set; takes milliseconds whatever its size.

    Parameters
    ----------
    name : str
        The name it was prepared under. A set that needs no raw data (glyphs) is prepared on first use.
    split : {"train", "val", "test"}
        Which classes.

    Returns
    -------
    ImageSet
        Images, labels and class names.

    Raises
    ------
    DataError
        If the set is not prepared; the message says how to prepare it.

    Examples
    --------
    >>> import remp
    >>> images = remp.open_data("glyphs", "test")
    >>> images.images.shape, images.n_classes, images.class_names[0]
    ((1984, 32, 32, 1), 31, 'georgian letter an')
    """
    make_ready(name)
    return open_prepared(name, split)


def make_ready(name: str) -> None:
    """Draw a set that needs no raw data, on first use. Raises DataError for others that are not prepared."""
    if prepared_folder(name).exists():
        return
    dataset = DATASETS.get(name)
    if dataset is None:
        known = nearest(name, dict.fromkeys([*DATASETS, *list_prepared()]))
        own = f"remp data prepare folder --from PATH --name {name}"
        raise DataError(f"there is no data set {name!r}; {known}; to prepare pictures of your own: {own}")
    if dataset.draw is None:
        command = f"remp data prepare {name}"
        download = f"{command} --download, or " if dataset.downloads else ""
        raise DataError(f"data set {name!r} is not prepared: {download}{command} --from PATH")
    # Two processes may get here at once and draw the same images: the last one to finish stays.
    dataset.draw(name, True)
