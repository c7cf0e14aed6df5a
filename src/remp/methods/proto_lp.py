"""ProtoLP: prototypes and a label propagation over a graph of prototypes, in turn."""

from typing import Any

import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive, require_share
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.sinkhorn import Plan, balanced
from remp.methods.maths.whole_episode import (
    centred_on_sphere,
    inner_products,
    mean_weights,
    power_transform,
    squared_distances,
    stacked,
    unit_weights,
)
from remp.rectification.number_range import TINY
from remp.rectification.similarity import unit

_FEWEST_SHOTS = 1e-6  # stands for the shots of a class without support, which would make the system singular


class ProtoLP(Method):
    """Zhu, Koniusz: Transductive Few-shot Learning with Prototype-based Label Propagation by Iterative Graph
    Refinement, 2023. https://arxiv.org/abs/2304.11598

    Items are linked to each other through the prototypes they are assigned to, so the graph has only as many nodes as
    there are classes. Labels of the support are propagated over that graph in closed form. Prototypes go part of the
    way to the means under a mixture of propagated labels and assignments, and the graph is made anew.

    Ours differs from the public code in that both assignments are balanced by Sinkhorn to `tolerance` (theirs: 1e-3 and
    1e-2, where one sweep more or less shows in the answer), and support, whose labels are known, takes no part in it:
    the same fixed point as resetting its rows after each sweep. A negative feature keeps its sign under the power.

    exponent: of the power transform, 1 for none. dimensions: kept by an SVD of the episode. steps, step_size: updates
    of the prototypes and the share of the way. sharpness: of the assignments. smoothness: weight γ of the graph term.
    mixture: share of propagated labels. tolerance: by how much a balanced share may miss its target.
    """

    transductive = True
    assumes_balance = True
    frozen = True
    trainable = False

    def __init__(
        self,
        *args: Any,
        exponent: float = 0.5,
        dimensions: int = 40,
        steps: int = 100,
        step_size: float = 0.2,
        sharpness: float = 10.0,
        smoothness: float = 1.0,
        mixture: float = 0.6,
        tolerance: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(1, dimensions=dimensions)
        require_at_least(0, steps=steps, smoothness=smoothness)
        require_positive(exponent=exponent, sharpness=sharpness, tolerance=tolerance)
        require_share(step_size=step_size, mixture=mixture)
        self.exponent, self.dimensions = exponent, dimensions
        self.steps, self.step_size, self.tolerance = steps, step_size, tolerance
        self.sharpness, self.smoothness, self.mixture = sharpness, smoothness, mixture

    def logits(self, episodes: Episodes) -> Tensor:
        items = unit(power_transform(stacked(episodes), self.exponent))
        products = inner_products(centred_on_sphere(_reduced(items, self.dimensions)))
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)  # (E, N, S)
        weights = unit_weights(mean_weights(labels, items.shape[1]), products)
        assigned: Plan | None = None
        propagated: Plan | None = None
        for _ in range(self.steps):
            assigned = self._assign(weights, products, labels, assigned)
            propagated = self._propagate(assigned.matrix, labels, propagated)
            mixed = torch.lerp(assigned.matrix, propagated.matrix, self.mixture)
            target = mean_weights(torch.cat([labels, mixed], dim=-1))
            weights = torch.lerp(weights, target, self.step_size)
        assigned = self._assign(weights, products, labels, assigned)
        return assigned.matrix.clamp(min=TINY).log().transpose(-1, -2)

    def _assign(self, weights: Tensor, products: Tensor, labels: Tensor, before: Plan | None) -> Plan:
        """Queries shared out by their distances to the prototypes, (E, N, Q)."""
        distances = squared_distances(weights, products)[..., labels.shape[-1] :]
        return balanced(-self.sharpness * distances, tolerance=self.tolerance, start=before)

    def _propagate(self, assigned: Tensor, labels: Tensor, before: Plan | None) -> Plan:
        """The queries' share of the labels that spread from the support over the graph of prototypes, (E, N, Q)."""
        spread = _propagation(torch.cat([labels, assigned], dim=-1), labels.sum(-1), self.smoothness)
        scores = (spread.transpose(-1, -2) @ assigned).clamp(min=TINY).log()
        return balanced(scores, tolerance=self.tolerance, start=before)


def _propagation(assignments: Tensor, shots: Tensor, smoothness: float) -> Tensor:
    """A = (D + γ (I - ZᵀZ Λ⁻¹))⁻¹ D with Λ the column sums of Z and D the shots on a diagonal.

    assignments: Zᵀ (E, N, n); shots: (E, N) -> (E, N, N), from the class of the prototype to that of the label.
    """
    shares = inner_products(assignments) / assignments.sum(-1).clamp(min=TINY).unsqueeze(-2)
    diagonal = torch.diag_embed(shots.clamp(min=_FEWEST_SHOTS))
    identity = torch.eye(shots.shape[-1], dtype=shots.dtype, device=shots.device)
    return torch.linalg.solve(diagonal + smoothness * (identity - shares), diagonal)


def _reduced(items: Tensor, dimensions: int) -> Tensor:
    """Coordinates of the items (E, n, d) in the episode's first right singular vectors, up to a rotation."""
    if min(items.shape[1:]) <= dimensions:
        return items
    values, vectors = torch.linalg.eigh(inner_products(items))  # ascending
    return vectors[..., -dimensions:] * values[..., None, -dimensions:].clamp(min=0).sqrt()
