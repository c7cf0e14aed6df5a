"""The published class lists of the splits, shipped with the package."""

import json
from importlib import resources


def read_split_list(name: str) -> dict[str, list[str]]:
    """The classes of each split of data set `name`, in the published order: split -> class names."""
    path = resources.files("remp.datasets") / "splits" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))
