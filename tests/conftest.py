"""Tiny images and settings that the tests of training and evaluation share."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from remp.datasets.base import ImageSet, write_prepared
from remp.datasets.raw import RawClass, RawSet

# A shell starts what it puts in the background with Ctrl-C switched off, and so would be the commands that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile("the same examples in every run", derandomize=True)
settings.load_profile("the same examples in every run")

SIDE, PER_CLASS = 16, 12
CLASSES = {"train": 6, "val": 4, "test": 5}

TINY = {
    "data": "toy",
    "width": 8,
    "n_way": 3,
    "n_shot": 1,
    "n_query": 2,
    "episodes": 12,
    "milestones": [6, 9],
    "learning_rate": 0.05,
    "validate_every": 4,
    "validation_episodes": 6,
    "validation_way": 3,
    "validation_query": 4,
    "checkpoint_every": 3,
}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own REMP_HOME and the same random numbers."""
    home = tmp_path / "remp-home"
    monkeypatch.setenv("REMP_HOME", str(home))
    torch.manual_seed(0)
    return home


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """More threads only wait for each other on images this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pixels(split: str) -> np.ndarray:
    """(n, side, side, 3): each class is a random picture of its own, under noise."""
    random = np.random.default_rng(sorted(CLASSES).index(split))
    pictures = random.integers(40, 216, (CLASSES[split], 1, SIDE, SIDE, 3))
    noise = random.integers(-40, 40, (CLASSES[split], PER_CLASS, SIDE, SIDE, 3))
    return (pictures + noise).astype(np.uint8).reshape(-1, SIDE, SIDE, 3)


def image_set(split: str) -> ImageSet:
    n_classes = CLASSES[split]
    return ImageSet(
        name="toy",
        split=split,
        images=pixels(split),
        labels=np.repeat(np.arange(n_classes), PER_CLASS),
        class_names=tuple(f"{split}-{i}" for i in range(n_classes)),
        fingerprint=f"{split:f<64}",
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )


@pytest.fixture
def train_images() -> ImageSet:
    return image_set("train")


@pytest.fixture
def validation_images() -> ImageSet:
    return image_set("val")


@pytest.fixture
def test_images() -> ImageSet:
    return image_set("test")


@pytest.fixture
def tiny() -> Callable[..., dict[str, Any]]:
    """Settings of a run that takes a fraction of a second, with changes; None takes a setting away."""
    return lambda **changes: {name: value for name, value in {**TINY, **changes}.items() if value is not None}


@pytest.fixture
def train_tiny(tiny, train_images, validation_images, tmp_path: Path) -> Callable[..., Path]:
    """train_tiny("name", setting=value, …) trains in tmp_path/name and returns that folder."""
    from remp.training import train

    def run(name: str = "run", budget: str | int | None = None, **changes: Any) -> Path:
        sets = {"train_set": train_images, "validation_set": validation_images}
        return train(tiny(**changes), out=tmp_path / name, budget=budget, **sets).parent

    return run


@pytest.fixture
def resume_tiny(train_images, validation_images) -> Callable[[Path], Path]:
    """resume_tiny(folder) continues a run of train_tiny."""
    from remp.training import resume

    return lambda folder: resume(folder, train_set=train_images, validation_set=validation_images).parent


@pytest.fixture
def prepared(own_home: Path) -> str:
    """The same images as a prepared set on disk; returns its name."""
    splits = {
        split: {
            f"{split}-{i}": RawClass(PER_CLASS, lambda part=part: part)
            for i, part in enumerate(np.split(pixels(split), n))
        }
        for split, n in CLASSES.items()
    }
    write_prepared("toy", RawSet(splits, (SIDE, SIDE, 3), "made by the tests"))
    return "toy"


@pytest.fixture
def same_tensors() -> Callable[[Path, Path], bool]:
    """Whether two checkpoints hold the same tensors, bit for bit."""
    from remp.checkpoint import read_checkpoint

    def same(first: Path, second: Path) -> bool:
        one, other = read_checkpoint(first)[0], read_checkpoint(second)[0]
        return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)

    return same


@pytest.fixture
def remp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for every test that asks for one."""
    home = tmp_path / "home"
    monkeypatch.setenv("REMP_HOME", str(home))
    return home
