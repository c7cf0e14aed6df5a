"""UNEM: the updates of PADDLE as the layers of a network, with constants that were learned."""

from typing import Any

import torch
from torch import Tensor, nn

from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.whole_episode import stacked
from remp.methods.paddle import in_spread, mixture_scores
from remp.rectification.number_range import to_dtype

# Learned on the validation classes of CIFAR-FS by results/learn_unem.py, one value a layer.
_SCALES = (44.6, 49.2, 143.0, 184.0, 160.0, 224.0, 443.0, 302.0, 397.0, 571.0)
_PENALTIES = (1.0, 1.74, 1.02, 0.686, 0.439, 0.402, 0.435, 0.506, 0.516, 0.51)


class UNEM(Method):
    """Zhou, Shakeri, Sadraoui, Kaaniche, Pesquet, Ben Ayed: UNEM: UNrolled Generalized EM for Transductive Few-Shot
    Learning, 2025. https://arxiv.org/abs/2412.16739

    A mixture of Gaussians with free shares of the classes, as in PADDLE, but each update is a layer with two numbers of
    its own: how sharp its answers are, and how much the shares count. Both are learned from tasks with known answers
    instead of being searched for. It takes nothing for granted about how frequent the classes are.

    Ours is the paper's variant for vision features (UNEM-Gaussian). It differs in that features have L2 norm 1 and
    distances are in units of the spread of the queries, as in our PADDLE, so that the ten pairs of numbers, which were
    learned on validation classes of CIFAR-FS for 1 and 5 labelled images together, fit other features too. The paper
    learns them for each data set and number of labelled images. They are parameters: training goes on from them.
    """

    transductive = True
    frozen = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_scales = nn.Parameter(torch.tensor(_SCALES).log())
        self.log_penalties = nn.Parameter(torch.tensor(_PENALTIES).log())

    def logits(self, episodes: Episodes) -> Tensor:
        features = stacked(episodes)
        items = in_spread(features, episodes.support.shape[1])
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)  # (E, N, S)
        scores = mixture_scores(items, labels, self.log_scales.exp(), self.log_penalties.exp())
        return to_dtype(scores.log_softmax(-2), features.dtype).transpose(-1, -2)
