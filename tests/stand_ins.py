"""Results and methods made up for tests, where nothing needs to be trained."""

from typing import Any

import numpy as np

from remp.backbones.embedding import Normalisation
from remp.config import make_config
from remp.episodes import Protocol
from remp.evaluation.result import Result
from remp.trained import Trained, build_method


def made_up_result(method: str, *, randomness: int = 0, **changes: Any) -> Result:
    """A result with random accuracies on 40 episodes; results agree in their episodes unless changed."""
    facts: dict[str, Any] = {
        "accuracies": np.random.default_rng(randomness).uniform(0.2, 1, 40),
        "protocol": Protocol(n_way=3, n_shot=1, n_query=4),
        "seed": 7,
        "episode_hash": "e1" * 32,
        "data": "toy",
        "split": "test",
        "fingerprint": "f2" * 32,
        "backbone": "conv4",
        "transform": "none",
        "transductive": False,
        "assumes_balance": False,
        "checkpoint": f"{method}.safetensors",
        "checkpoint_hash": f"{randomness:064x}"[::-1],
    }
    return Result(method=method, **{**facts, **changes})


def untrained(**settings: Any) -> Trained:
    """A method with fresh weights for the toy images of conftest."""
    config = make_config({"data": "toy", "width": 8, **settings})
    image_size = (16, 16, 3)
    method = build_method(config, image_size, n_classes=6).eval()
    return Trained("untrained", method, config, Normalisation((0.5,) * 3, (0.25,) * 3), image_size, {}, "a3" * 32)
