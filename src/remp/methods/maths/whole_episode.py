"""Support and queries of an episode as one set, for graphs and losses that treat them alike."""

import torch
from torch import Tensor

from remp.episodes import Episodes


def all_items(episodes: Episodes) -> Tensor:
    """Support, then queries: (E, S + Q, …). Not to be written to, see `joined`."""
    return joined(episodes.support, episodes.query)


def joined(support: Tensor, query: Tensor) -> Tensor:
    """(E, S, …), (E, Q, …) -> (E, S + Q, …). Not to be written to: it may share memory with both.

    Nothing is copied if they are neighbouring slices of one tensor, as `Episodes.map` makes them, without gradient.
    """
    length = support.shape[1] * support.stride(1)
    lie_together = (
        support.untyped_storage().data_ptr() == query.untyped_storage().data_ptr()
        and query.storage_offset() == support.storage_offset() + length
        and (query.stride(), query.dtype) == (support.stride(), support.dtype)
    )
    if not lie_together or support.requires_grad or query.requires_grad:
        return torch.cat([support, query], dim=1)
    return support.as_strided((len(support), support.shape[1] + query.shape[1], *support.shape[2:]), support.stride())


def all_labels(episodes: Episodes) -> Tensor:
    """Their labels 0 … n_way - 1, in training episodes: (E, S + Q)."""
    assert episodes.query_labels is not None, "training episodes carry query labels"
    return torch.cat([episodes.support_labels, episodes.query_labels], dim=1)


def all_class_ids(episodes: Episodes) -> Tensor:
    """Which class of the data set each is, in training episodes: (E, S + Q)."""
    assert episodes.class_ids is not None, "training episodes name their classes"
    return episodes.class_ids.gather(1, all_labels(episodes))
