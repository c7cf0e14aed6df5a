"""iLPC: iterative label propagation and cleaning."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from remp.checks import require_at_least, require_below_one, require_positive
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.sinkhorn import sinkhorn
from remp.methods.maths.whole_episode import (
    centred_on_sphere,
    inner_products,
    mean_weights,
    power_transform,
    stacked,
    unit_weights,
)
from remp.rectification.number_range import TINY
from remp.rectification.similarity import unit

_EDGE_POWER = 3
_MOMENTUM, _WEIGHT_DECAY = 0.9, 5e-4


class ILPC(Method):
    """Lazarou, Stathaki, Avrithis: Iterative label cleaning for transductive and semi-supervised few-shot learning,
    2021. https://arxiv.org/abs/2012.07962

    Labels of the support spread over a nearest-neighbour graph to the queries and are balanced by Sinkhorn. A linear
    classifier is trained on these pseudo-labels; the queries it learns with the least loss are taken to be labelled
    rightly. They join the support, and what is left is labelled again, until no query is left.

    Ours differs from the public code in that the graph, which stays the same, is inverted once and exactly; the linear
    layer starts without bias and is trained as weights of the items, which is the same; every query is selected before
    the end; and a negative feature keeps its sign under the power. The defaults are those for a wide ResNet; for
    ResNet-12 the public code has `exponent: 1, centre: false, neighbours: 15`.

    exponent: of the power transform, 1 for none. centre: subtract the episode's mean. neighbours: of an item in the
    graph. spreading: weight of the graph against the labels, below 1. sharpness: power of the propagated labels.
    cleaning_steps, cleaning_rate: of gradient descent. selected: queries of a class that join the support in a round.
    """

    transductive = True
    assumes_balance = True
    frozen = True
    trainable = False

    def __init__(
        self,
        *args: Any,
        exponent: float = 0.5,
        centre: bool = True,
        neighbours: int = 20,
        spreading: float = 0.8,
        sharpness: float = 3.0,
        cleaning_steps: int = 1000,
        cleaning_rate: float = 0.1,
        selected: int = 3,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(1, neighbours=neighbours, selected=selected, cleaning_steps=cleaning_steps)
        require_positive(exponent=exponent, sharpness=sharpness, cleaning_rate=cleaning_rate, spreading=spreading)
        require_below_one(spreading=spreading)
        self.exponent, self.centre, self.neighbours = exponent, centre, neighbours
        self.spreading, self.sharpness, self.selected = spreading, sharpness, selected
        self.cleaning_steps, self.cleaning_rate = cleaning_steps, cleaning_rate

    def logits(self, episodes: Episodes) -> Tensor:
        items, n_support = unit(power_transform(stacked(episodes), self.exponent)), episodes.support.shape[1]
        products = inner_products(centred_on_sphere(items) if self.centre else items)
        propagation = _propagation(products, self.neighbours, self.spreading)
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, products.dtype)
        known = F.pad(labels, (0, products.shape[-1] - n_support))  # (E, N, S + Q), zero for what has no label yet
        logits = torch.zeros_like(known[..., n_support:])
        for _ in range(logits.shape[-1]):  # every round labels at least one query of a task
            tasks = (known.sum(-2) == 0).any(-1).nonzero()[:, 0]
            if len(tasks) == 0:
                break
            shares = self._shares(propagation[tasks], known[tasks], n_support)
            clean = self._cleanest(products[tasks], known[tasks], shares)  # (tasks, N, Q)
            known[tasks, :, n_support:] += clean
            logits[tasks] += clean.sum(-2, keepdim=True) * shares.clamp(min=TINY).log()
        return logits.transpose(-1, -2)

    def _shares(self, propagation: Tensor, known: Tensor, n_support: int) -> Tensor:
        """The queries without label, each shared out over the classes by propagated labels (E, N, Q); others zero."""
        labelled = known[..., n_support:]
        n_way, n_query = labelled.shape[-2:]
        left = (n_query / n_way - labelled.sum(-1)).clamp(min=0)  # (E, N)
        reached = (known @ propagation)[..., n_support:].clamp(min=0)
        reached = reached / reached.sum(-2, keepdim=True).clamp(min=TINY)
        return sinkhorn(self.sharpness * reached.clamp(min=TINY).log(), left, 1 - labelled.sum(-2)).matrix

    def _cleanest(self, products: Tensor, known: Tensor, shares: Tensor) -> Tensor:
        """Pseudo-labels (E, N, Q) of the `selected` queries of least loss of each class, zero for the others."""
        n_support = known.shape[-1] - shares.shape[-1]
        is_open = known[..., n_support:].sum(-2, keepdim=True) == 0
        pseudo = one_hot_rows(shares.argmax(-2), shares.shape[-2], shares.dtype) * is_open
        targets = known + F.pad(pseudo, (n_support, 0))
        start = unit_weights(mean_weights(known), products)
        losses = mean_losses(start, products, targets, steps=self.cleaning_steps, rate=self.cleaning_rate)
        of_class = torch.where(pseudo > 0, losses[:, None, n_support:], torch.inf)
        worst = of_class.sort(-1).values[..., : self.selected][..., -1:]
        return pseudo * (of_class <= worst)


def _propagation(cosines: Tensor, neighbours: int, spreading: float) -> Tensor:
    """(I - spreading · W)⁻¹ with W the symmetrically normalised graph of nearest neighbours: (E, n, n) -> (E, n, n)."""
    identity = torch.eye(cosines.shape[-1], dtype=cosines.dtype, device=cosines.device)
    others = cosines - 4 * identity  # no item is its own neighbour
    nearest = others.topk(min(neighbours, cosines.shape[-1] - 1), dim=-1)
    edges = torch.zeros_like(cosines).scatter(-1, nearest.indices, nearest.values.clamp(min=0) ** _EDGE_POWER)
    edges = edges + edges.transpose(-1, -2)
    scale = edges.sum(-1).clamp(min=TINY).rsqrt()
    return torch.linalg.inv(identity - spreading * scale.unsqueeze(-1) * edges * scale.unsqueeze(-2))


def mean_losses(start: Tensor, products: Tensor, targets: Tensor, *, steps: int, rate: float) -> Tensor:
    """Cross-entropy of each item (E, n), averaged over `steps` steps of full-batch gradient descent with momentum.

    The classifier is a linear layer with bias whose weight vectors are sums of the items: gradients are such sums too,
    so its training needs the items' inner products only. start: (E, N, n), its first weights, as weights of the items.
    products: (E, n, n). targets: (E, N, n), one-hot.
    """
    weights, biases = start, torch.zeros_like(start[..., :1])
    pace, bias_pace = torch.zeros_like(weights), torch.zeros_like(biases)
    losses = torch.zeros_like(products[..., 0])
    for _ in range(steps):
        logs = (weights @ products + biases).log_softmax(-2)
        losses = losses - (targets * logs).sum(-2)
        slopes = (logs.exp() - targets) / targets.shape[-1]
        pace = _MOMENTUM * pace + slopes + _WEIGHT_DECAY * weights
        bias_pace = _MOMENTUM * bias_pace + slopes.sum(-1, keepdim=True) + _WEIGHT_DECAY * biases
        weights, biases = weights - rate * pace, biases - rate * bias_pace
    return losses / steps
