"""Maps as sets of positions, each classified on its own."""

from torch import Tensor

from remp.episodes import Episodes
from remp.methods.base import cross_entropy


def positions(maps: Tensor) -> Tensor:
    """A row of channels for each position of a map: (E, n, width, h, w) -> (E, n, h * w, width)"""
    return maps.flatten(3).transpose(2, 3)


def query_class_ids(episodes: Episodes) -> Tensor:
    """Which class of the data set each query is, in training episodes: (E, Q)"""
    assert episodes.class_ids is not None, "training episodes name their classes"
    assert episodes.query_labels is not None, "training episodes carry query labels"
    return episodes.class_ids.gather(1, episodes.query_labels)


def dense_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the positions of all items, each labelled as its item: (E, n, positions, classes), (E, n) -> scalar"""
    return cross_entropy(logits.flatten(1, 2), labels.repeat_interleave(logits.shape[2], dim=1))
