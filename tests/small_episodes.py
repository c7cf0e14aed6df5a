"""Two small episodes with unequal shots and unequal query classes, for oracles that are plain loops."""

import math

import torch

from remp.backbones.base import Backbone
from remp.episodes import Episodes

N_CLASSES, N_WAY = 7, 3


class Pixels(Backbone):
    """The pixels themselves, as maps or vectors."""

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        return images


def small_episodes(*shape: int, seed: int = 0) -> Episodes:
    """Four labelled and seven unlabelled items of this shape in each; the training classes are 0 … 6."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(2, 11, *shape, dtype=torch.float64, generator=generator)
    support_labels = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 1]])
    query_labels = torch.randint(N_WAY, (2, 7), generator=generator)
    class_ids = torch.tensor([[4, 0, 6], [2, 5, 1]])
    return Episodes(items[:, :4], support_labels, items[:, 4:], query_labels, N_WAY, class_ids)


def mean_cross_entropy(rows: list[tuple[list[float], int]]) -> float:
    """Of pairs of logits and label."""
    terms = [math.log(sum(math.exp(value - logits[label]) for value in logits)) for logits, label in rows]
    return sum(terms) / len(terms)
