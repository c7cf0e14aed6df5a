"""Labels in the form that other tools read, and the table of the formats."""

from collections.abc import Callable
from pathlib import Path

from remp.errors import ConfigError
from remp.export.formats import (
    write_classes,
    write_fiftyone,
    write_hugging_face,
    write_image_folder,
    write_label_studio,
)
from remp.export.labelled import ExportOptions, LabelledPictures

Writer = Callable[[LabelledPictures, Path, ExportOptions], None]

FORMATS: dict[str, Writer] = {
    "folders": write_classes,
    "imagefolder": write_image_folder,
    "huggingface": write_hugging_face,
    "labelstudio": write_label_studio,
    "fiftyone": write_fiftyone,
}


def find_format(name: str) -> Writer:
    """The writer of a format; raises ConfigError for one that is not there."""
    if name not in FORMATS:
        raise ConfigError(f"there is no format {str(name)[:40]!r}: give one of {', '.join(FORMATS)}")
    return FORMATS[name]
