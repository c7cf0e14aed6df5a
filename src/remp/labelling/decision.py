"""One pass over all rows: the likeliest classes of each, their probabilities, and what they sum to; then who keeps a
label.

Unknown are items that resemble no class: those less at home than labelled items whose label was hidden. How much an
item is at home is its resemblance to the nearest class plus its largest score without rectification, each in units of
its spread among the held-out items: a stranger is unlike the examples of every class, and none claims it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import STATUSES
from remp.labelling.tasks import LabellingTask
from remp.propagation.fit import Fitted
from remp.rows import Block, Rows, Shard

# The share of items of the known classes that may be called unknown, were they normal; 5 % of real ones are.
_FALSE_ALARMS = 0.065
# Without held-out items: this many standard deviations below the middle of all items.
_FAR = 3.0


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


def status_of(task: LabellingTask, decision: Decision, fitted: Fitted | None, reject: float | None) -> np.ndarray:
    """(n,) index into STATUSES. reject: the least probability of a label. Without `fitted`, nothing is unknown."""
    status = np.full(len(task.names), STATUSES.index("labelled"), np.int8)
    if reject is not None:
        status[decision.probability < reject] = STATUSES.index("uncertain")
    if fitted is not None:
        held_out = fitted.held_out.resemblance, fitted.held_out.plain.amax(-1).numpy()
        spreads = spreads_of(*held_out)
        values = at_home(decision.resemblance, decision.top_score, spreads)
        status[values < smallest_known(at_home(*held_out, spreads), values[~task.is_labelled])] = STATUSES.index(
            "unknown"
        )
    status[task.is_labelled] = STATUSES.index("given")
    return status


def at_home(resemblance: np.ndarray, top_score: np.ndarray, spreads: tuple[float, float]) -> np.ndarray:
    """(m,) and (m,) -> (m,), larger is more at home. spreads: standard deviations of either among held-out items."""
    return resemblance / spreads[0] + top_score / spreads[1]


def spreads_of(resemblance: np.ndarray, top_score: np.ndarray) -> tuple[float, float]:
    """The standard deviations of held-out items (m,), none of them 0; a score counts for nothing without two items."""
    if len(resemblance) < 2:
        return 1.0, float("inf")
    return tuple(float(max(values.std(ddof=1), 1e-6)) for values in (resemblance, top_score))  # type: ignore[return-value]


def smallest_known(held_out: np.ndarray, everything: np.ndarray) -> float:
    """What is less at home than this is unknown: the limit of prediction for one more item like the held-out ones (m,),
    or, without two of these, far below all items (k,), of which most should be known."""
    if len(held_out) > 1:
        from scipy.special import stdtrit

        quantile = float(stdtrit(len(held_out) - 1, 1 - _FALSE_ALARMS))
        return float(held_out.mean() - quantile * held_out.std(ddof=1) * np.sqrt(1 + 1 / len(held_out)))
    if not len(everything):
        return -np.inf
    middle = np.median(everything)
    deviation = 1.4826 * np.median(np.abs(everything - middle))  # the factor makes it that of a normal distribution
    return float(middle - _FAR * deviation)
