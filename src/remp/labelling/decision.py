"""One pass over all rows: the likeliest classes of each, their probabilities, and what they sum to."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.propagation.fit import Fitted
from remp.rows import Block, Rows, Shard


@dataclass(frozen=True)
class Decision:
    """(n,) arrays as in Labelling, and confusion (N, N). A given label has probability 1.

    resemblance: (n,) cosine with the nearest class mean of labelled items, not centred. top_score: (n,) the largest
    score of a class without rectification."""

    best: np.ndarray
    runner_up: np.ndarray
    probability: np.ndarray
    margin: np.ndarray
    before: np.ndarray
    resemblance: np.ndarray
    top_score: np.ndarray
    confusion: np.ndarray


def decide(fitted: Fitted, rows: Rows, labels: np.ndarray, shard: Shard) -> Decision | None:
    """The decision of all rows in the first process, None in the others."""
    n_classes, (first, stop) = len(fitted.model.prototypes), shard.span(len(rows))
    parts = {name: np.empty(stop - first, kind) for name, kind in _KINDS.items()}
    confusion, at = torch.zeros(n_classes, n_classes, dtype=torch.float64), 0
    for values, confused in shard.each(_Deciding(fitted), rows, labels):
        for name, here in values.items():
            parts[name][at : at + len(here)] = here
        confusion, at = confusion + confused, at + len(values["best"])
    confusion = shard.sum(confusion)
    gathered = {name: shard.gather(values, len(rows)) for name, values in parts.items()}
    return None if shard.rank else Decision(**gathered, confusion=confusion.numpy())  # type: ignore[arg-type]


def choose(fitted: Fitted, rows: Rows, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Of a decision only best, runner_up, probability and margin, by these names, in half of the time."""
    parts, at = {name: np.empty(len(rows), _KINDS[name]) for name in _CHOICE}, 0
    for chunk in rows.chunks():
        given = torch.from_numpy(labels[at : at + len(chunk)])
        for name, values in _chosen(fitted.probabilities(chunk), given).items():
            parts[name][at : at + len(chunk)] = values.numpy()
        at += len(chunk)
    return parts


@dataclass(frozen=True)
class _Deciding:
    """The decision of the rows of a block, as arrays by their names, and its confusion (N, N)."""

    fitted: Fitted

    def __call__(self, block: Block) -> tuple[dict[str, np.ndarray], Tensor]:
        model, n_classes = self.fitted.model, len(self.fitted.model.prototypes)
        parts = {name: np.empty(len(block), kind) for name, kind in _KINDS.items()}
        confusion, at = torch.zeros(n_classes, n_classes, dtype=torch.float64), 0
        for chunk in block.chunks():
            given = torch.from_numpy(np.array(block.labels[at : at + len(chunk)]))
            views = model.views(chunk)
            probabilities = self.fitted.calibration.probabilities(views.logits)  # (m, N)
            here = _chosen(probabilities, given)
            here["before"] = views.before.argmax(-1)
            here["resemblance"] = self.fitted.likeness(chunk)
            here["top_score"] = views.plain.amax(-1)
            for name, values in here.items():
                parts[name][at : at + len(chunk)] = values.numpy()
            free = given < 0
            confusion.T.index_add_(0, here["best"][free], probabilities[free])
            at += len(chunk)
        return parts, confusion


_KINDS = {
    "best": np.int64,
    "runner_up": np.int64,
    "probability": np.float32,
    "margin": np.float32,
    "before": np.int64,
    "resemblance": np.float32,
    "top_score": np.float32,
}
_CHOICE = ("best", "runner_up", "probability", "margin")


def _chosen(probabilities: Tensor, given: Tensor) -> dict[str, Tensor]:
    """The two likeliest classes of each row, a given label first: probabilities (m, N), given (m,) -> (m,) each."""
    is_given = given >= 0
    probabilities = probabilities.clone()
    probabilities[is_given] = torch.nn.functional.one_hot(given[is_given], probabilities.shape[1]).to(probabilities) + (
        probabilities[is_given] * 1e-9
    )
    if probabilities.shape[1] == 1:
        one, nobody = torch.ones(len(given)), torch.full((len(given),), -1)
        return {"best": torch.zeros_like(given), "runner_up": nobody, "probability": one, "margin": one}
    top = probabilities.topk(2)
    values = top.values.clamp(max=1)
    return {
        "best": top.indices[:, 0],
        "runner_up": top.indices[:, 1],
        "probability": values[:, 0],
        "margin": values[:, 0] - values[:, 1],
    }
