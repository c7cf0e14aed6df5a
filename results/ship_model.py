"""Put a trained model into the package under a name, with the settings chosen on validation classes.

    python results/ship_model.py runs/NAME/best.safetensors NAME --scale 10 --layers 10

The weights stay as they are; only settings of the method in the header change.
"""

import sys
from pathlib import Path

from remp.checkpoint import read_checkpoint, write_checkpoint
from remp.cli.options import file_and_settings
from remp.config import make_config
from remp.models import FOLDER


def main() -> None:
    source, name, *settings = sys.argv[1:]
    tensors, info = read_checkpoint(Path(source))
    info["config"] = make_config({**info["config"], **file_and_settings(None, settings)[1]}).flat()
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{name}.safetensors"
    print(f"{target}: {write_checkpoint(target, tensors, info)}")


if __name__ == "__main__":
    main()
