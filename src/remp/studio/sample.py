"""A collection to try the studio with: handwritten digits, from scikit-learn."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from remp.errors import ConfigError

SIDE, MARGIN = 80, 1  # pixels of a picture; white around the eight by eight of a digit
N_DIGITS = 1797
SIDE_FOR_NETWORK = 128  # pixels that the network is fed: digits have few


def write_sample(folder: Path) -> Path:
    """Write the digits as pictures with nothing about what they are; a folder that has them is left as it is."""
    if folder.exists() and any(folder.iterdir()):
        if sum(path.suffix == ".png" and path.name.startswith("digit-") for path in folder.iterdir()) >= N_DIGITS:
            return folder
        raise ConfigError(f"{folder} has something else in it: give the name of a new folder for the sample")
    from PIL import Image
    from sklearn.datasets import load_digits

    images = load_digits().images  # (1797, 8, 8), 0 … 16, ink is bright
    paper = 255 - np.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN))) * (255 / 16)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".digits-", dir=folder.parent) as partial:
        for number, image in enumerate(np.round(paper).astype(np.uint8)):
            large = Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            large.save(Path(partial) / f"digit-{number:04d}.png")
        if folder.exists():
            folder.rmdir()  # empty, as was seen above
        (Path(partial)).rename(folder)
        Path(partial).mkdir()  # for its end
    folder.chmod(0o755)
    return folder
