"""Labels in the form that other tools read: one file per format, and the table of them."""

from collections.abc import Callable
from pathlib import Path

from remp.errors import ConfigError
from remp.export.class_folders import write_classes
from remp.export.fiftyone import write_fiftyone
from remp.export.hugging_face import write_hugging_face
from remp.export.image_folder import write_image_folder
from remp.export.label_studio import write_label_studio
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
