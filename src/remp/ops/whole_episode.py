"""Support and queries of an episode as one set, for graphs and losses that treat them alike."""

import torch
from torch import Tensor

from remp.episodes import Episodes


def all_items(episodes: Episodes) -> Tensor:
    """Support, then queries: (E, S + Q, …)."""
    return torch.cat([episodes.support, episodes.query], dim=1)


def all_labels(episodes: Episodes) -> Tensor:
    """Their labels 0 … n_way - 1, in training episodes: (E, S + Q)."""
    assert episodes.query_labels is not None, "training episodes carry query labels"
    return torch.cat([episodes.support_labels, episodes.query_labels], dim=1)


def all_class_ids(episodes: Episodes) -> Tensor:
    """Which class of the data set each is, in training episodes: (E, S + Q)."""
    assert episodes.class_ids is not None, "training episodes name their classes"
    return episodes.class_ids.gather(1, all_labels(episodes))
