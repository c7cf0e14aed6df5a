"""A small collection of pictures for the tests of the studio: colours, embedded as their mean colour."""

import os
import time
from pathlib import Path

import numpy as np
from PIL import Image

from embedding_cases import mean_colour_embedder
from remp.studio.collection import open_collection
from remp.studio.session import Session, open_session

COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 200)}


def write_collection(folder: Path, n: int = 12, *, labelled: int = 0) -> Path:
    """n pictures of each colour, in turns; the first ones of each in a folder of its class, the others loose."""
    random = np.random.default_rng(0)
    for number in range(n):
        for name, colour in COLOURS.items():
            pixels = np.clip(np.array(colour) + random.normal(0, 12, 3) + random.normal(0, 8, (24, 32, 3)), 0, 255)
            path = folder / (f"{name}/{number:03d}.png" if number < labelled else f"{number:03d}-{name}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
            os.utime(path, (time.time() - 60,) * 2)
    return folder


def session_of(folder: Path) -> Session:
    """A session that is not started; its journal lies beside the folder."""
    journal = folder.with_name(f"{folder.name}-labelled.journal")
    return open_session(open_collection(folder), folder, journal, mean_colour_embedder())


def started(folder: Path) -> Session:
    """A session with all embedded and predicted."""
    session = session_of(folder)
    session.start()
    session.wait()
    return session


def numbers_of(session: Session, colour: str) -> list[int]:
    return [number for number, name in enumerate(session.task.names) if colour in name]
