"""Trained models that ship with the package, found by name."""

from pathlib import Path
from typing import Any

from remp.checkpoint import Trained, load_trained
from remp.errors import CheckpointError

FOLDER = Path(__file__).parent / "weights"


def shipped_models() -> dict[str, Path]:
    """Name -> checkpoint."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.safetensors"))}


def find_checkpoint(name: str | Path) -> Path:
    """The checkpoint of a file, of a run folder, or of a shipped model by its name."""
    path = Path(name)
    if path.is_dir():
        path = path / "best.safetensors"
    if path.is_file():
        return path
    if str(name) in shipped_models():
        return shipped_models()[str(name)]
    raise CheckpointError(
        f"there is no checkpoint {str(name)!r}: give a .safetensors file, the folder of a run, or one of the models "
        f"that ship with remp: {', '.join(shipped_models()) or 'none'}"
    )


def load(name: str | Path, **settings: Any) -> Trained:
    """A trained method by file, run folder or shipped name; `settings` change it, e.g. layers=0."""
    return load_trained(find_checkpoint(name), settings)
