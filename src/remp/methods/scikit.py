"""Classifiers of scikit-learn as methods: what users compare with first."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.rectification.similarity import unit


class LogisticRegression(Method):
    """Multinomial logistic regression of scikit-learn on the labelled features of each episode.

    normalise: whether features get L2 norm 1 first, as is usual in few-shot learning. cost: scikit-learn's C, the
    inverse of the L2 penalty.
    """

    frozen = True
    trainable = False

    def __init__(self, *args: Any, cost: float = 1.0, normalise: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_positive(cost=cost)
        self.cost, self.normalise = cost, normalise

    def logits(self, episodes: Episodes) -> Tensor:
        from sklearn.linear_model import LogisticRegression as Peer  # takes a second to import

        support, query = _items(episodes, self.normalise)
        found = np.full((len(query), query.shape[1], episodes.n_way), -1e4)  # a class without a label gets nothing
        for e, labels in enumerate(episodes.support_labels.cpu().numpy()):
            known = np.unique(labels)
            if len(known) == 1:
                found[e, :, known] = 0.0
                continue
            fitted = Peer(C=self.cost, max_iter=1000).fit(support[e], labels)
            scores = fitted.decision_function(query[e])
            # Of two classes scikit-learn gives one number, the logarithm of their odds.
            found[e][:, known] = np.stack([-scores / 2, scores / 2], 1) if len(known) == 2 else scores
        return torch.from_numpy(found).to(episodes.query)


class NearestNeighbours(Method):
    """The k nearest labelled features of each query vote, each with a weight that falls with its distance.

    neighbours: k; at most as many as an episode has labelled features. normalise: whether features get L2 norm 1 first,
    so that the nearest have the largest cosine.
    """

    frozen = True
    trainable = False

    def __init__(self, *args: Any, neighbours: int = 5, normalise: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(1, neighbours=neighbours)
        self.neighbours, self.normalise = neighbours, normalise

    def logits(self, episodes: Episodes) -> Tensor:
        """Logarithms of the shares of the votes, as KNeighborsClassifier(weights="distance") counts them."""
        support, query = (torch.from_numpy(part) for part in _items(episodes, self.normalise))
        distances = torch.cdist(query, support, compute_mode="donot_use_mm_for_euclid_dist")  # (E, Q, S)
        nearest = distances.topk(min(self.neighbours, support.shape[1]), largest=False)
        labels = episodes.support_labels.cpu()[:, None].expand(-1, query.shape[1], -1).gather(2, nearest.indices)
        exact = nearest.values == 0
        weights = torch.where(exact.any(-1, keepdim=True), exact.double(), 1 / nearest.values.clamp(min=1e-300))
        votes = torch.zeros(*query.shape[:2], episodes.n_way, dtype=torch.float64).scatter_add_(2, labels, weights)
        shares = votes / votes.sum(-1, keepdim=True)
        return shares.clamp(min=1e-12).log().to(episodes.query)


def _items(episodes: Episodes, normalise: bool) -> tuple[np.ndarray, np.ndarray]:
    """Support (E, S, d) and queries (E, Q, d) as float64, in units that cannot overflow."""
    parts = [part.detach().cpu().double().flatten(2) for part in (episodes.support, episodes.query)]
    if normalise:
        parts = [unit(part) for part in parts]
    return parts[0].numpy(), parts[1].numpy()
