"""One pass over all rows: the likeliest classes of each, their probabilities, and what they sum to; then which items
keep a label.

Unknown are items that resemble no class, compared with labelled items whose label was hidden. How much an item
resembles a class is its likeness to the nearest class plus its largest score without rectification, each in units of
its spread among the held-out items. Half of that is the mean over ten neighbours: those of an item of an unknown class
are mostly of the same class, and ten tell more than one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import STATUSES
from remp.labelling.tasks import Items
from remp.propagation import sample_of
from remp.propagation.adaptive import OF_A_PAIR
from remp.propagation.fit import Fitted, check_answers
from remp.rectification.similarity import unit
from remp.rows import Block, Rows, Shard

# So large a share of the held-out items lies below the limit; then about 5 % of the other items of known classes do.
# results/tries/robustness.md has both numbers: with the neighbours and without.
_BELOW_WITH_NEIGHBOURS, _BELOW = 0.045, 0.06
# So few held-out items as these make the limit half that of a normal distribution.
_FEW = 20
# Neighbours of an item among at most so many unlabelled ones, if finding them takes no more multiplications than these:
# half a second.
_NEIGHBOURS, _AMONG, _MOST_WORK = 10, 1000, 2.5e10
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
    first, stop = shard.span(len(rows))
    confusion, parts = _no_confusion(fitted), {name: np.empty(stop - first, kind) for name, kind in _KINDS.items()}
    at = 0
    for values, confused in shard.each(_Deciding(fitted), rows, labels):
        at, confusion = _put(values, parts, at), confusion + confused
    confusion = shard.sum(confusion)
    gathered = {name: shard.gather(values, len(rows)) for name, values in parts.items()}
    return None if shard.rank else Decision(**gathered, confusion=confusion.numpy())  # type: ignore[arg-type]


def choose(fitted: Fitted, rows: Rows, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Of a decision only best, runner_up, probability and margin, by these names, in half of the time."""
    parts, at = {name: np.empty(len(rows), _KINDS[name]) for name in _CHOICE}, 0
    for chunk in rows.chunks():
        given = torch.from_numpy(labels[at : at + len(chunk)])
        at = _put(_chosen(fitted.probabilities(chunk), given), parts, at)
    return parts


def _put(values: dict[str, Any], parts: dict[str, np.ndarray], at: int) -> int:
    """Put the values (m,) of rows at, at + 1, … into their parts; returns the row after them."""
    stop = at + len(values["best"])
    for name, here in values.items():
        parts[name][at:stop] = torch.as_tensor(here).numpy()
    return stop


def _no_confusion(fitted: Fitted) -> Tensor:
    n_classes = len(fitted.model.prototypes)
    return torch.zeros(n_classes, n_classes, dtype=torch.float64)


@dataclass(frozen=True)
class _Deciding:
    """The decision of the rows of a block, as arrays by their names, and its confusion (N, N)."""

    fitted: Fitted

    def __call__(self, block: Block) -> tuple[dict[str, np.ndarray], Tensor]:
        confusion, parts = (
            _no_confusion(self.fitted),
            {name: np.empty(len(block), kind) for name, kind in _KINDS.items()},
        )
        at = 0
        for chunk in block.chunks():
            given = torch.from_numpy(np.array(block.labels[at : at + len(chunk)]))
            views = self.fitted.model.views(chunk)
            probabilities = self.fitted.calibration.probabilities(views.logits)  # (m, N)
            check_answers(probabilities, block.first + at)
            here = _chosen(probabilities, given)
            here["before"] = views.before.argmax(-1)
            here["resemblance"] = self.fitted.likeness(chunk)
            here["top_score"] = views.plain.amax(-1)
            free = given < 0
            confusion.T.index_add_(0, here["best"][free], probabilities[free])
            at = _put(here, parts, at)
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
    first = torch.nn.functional.one_hot(given[is_given], probabilities.shape[1]).to(probabilities)
    probabilities = probabilities.clone()
    probabilities[is_given] = first + probabilities[is_given] * 1e-9
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


def status_of(task: Items, decision: Decision, reject: float | None, fitted: Fitted | None, rows: Rows) -> np.ndarray:
    """(n,) index into STATUSES. reject: the least probability of a label. Without `fitted`, nothing is unknown."""
    status = np.full(len(task.names), STATUSES.index("labelled"), np.int8)
    if reject is not None:
        status[decision.probability < reject] = STATUSES.index("uncertain")
    if fitted is not None:
        held_out = fitted.held_out.resemblance, fitted.held_out.plain.amax(-1).numpy()
        spreads = spreads_of(*held_out)
        known, values = at_home(*held_out, spreads), at_home(decision.resemblance, decision.top_score, spreads)
        below = _BELOW
        if (nearby := _with_neighbours(fitted, rows, task.labels, known, values)) is not None:
            (known, values), below = nearby, _BELOW_WITH_NEIGHBOURS
        status[values < smallest_known(known, values[~task.is_labelled], below)] = STATUSES.index("unknown")
    status[task.is_labelled] = STATUSES.index("given")
    return status


def _with_neighbours(
    fitted: Fitted, rows: Rows, labels: np.ndarray, known: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """How much held-out items (m,) and all rows (n,) are at home, half of it as the mean of their nearest unlabelled
    rows; None if one or the other are too few, if it would take too long, or if the held-out items are of another
    collection."""
    among, features = sample_of(np.flatnonzero(labels < 0), _AMONG), fitted.held_out.features
    if len(features) != len(known) or len(known) < 2 or len(among) <= _NEIGHBOURS:
        return None
    if len(rows) * len(among) * (rows.dim + OF_A_PAIR) > _MOST_WORK:
        return None
    around, theirs = unit(fitted.model.features(rows.take(among)).float()), torch.from_numpy(values[among])

    def nearby(part: Tensor, own: np.ndarray, first: int) -> np.ndarray:
        """part: (m, d) features of rows that have the numbers first, first + 1, …, or of others, without a first."""
        cosines = unit(part.float()) @ around.T
        here = np.flatnonzero((among >= first) & (among < first + len(part)))
        cosines[among[here] - first, here] = -2  # not themselves
        return 0.5 * own + 0.5 * theirs[cosines.topk(_NEIGHBOURS, dim=1).indices].mean(1).numpy()

    found, at = np.empty_like(values), 0
    for chunk in rows.chunks():
        span = slice(at, at + len(chunk))
        found[span], at = nearby(fitted.model.features(chunk), values[span], at), at + len(chunk)
    return nearby(features, known, len(labels)), found


def at_home(resemblance: np.ndarray, top_score: np.ndarray, spreads: tuple[float, float]) -> np.ndarray:
    """(m,) and (m,) -> (m,), larger is more at home. spreads: standard deviations of either among held-out items."""
    return resemblance / spreads[0] + top_score / spreads[1]


def spreads_of(resemblance: np.ndarray, top_score: np.ndarray) -> tuple[float, float]:
    """The standard deviations of held-out items (m,), none of them 0; a score counts for nothing without two items."""
    if len(resemblance) < 2:
        return 1.0, float("inf")
    return tuple(float(max(values.std(ddof=1), 1e-6)) for values in (resemblance, top_score))  # type: ignore[return-value]


def smallest_known(held_out: np.ndarray, everything: np.ndarray, below: float) -> float:
    """What is less at home than this is unknown: so large a share of items like the held-out ones (m,) lies below it,
    by their order if they are many, as if they were normal if they are few. Without two of these, far below all items
    (k,), of which most should be known."""
    if len(held_out) > 1:
        from scipy.special import stdtrit

        m = len(held_out)
        normal = held_out.mean() - float(stdtrit(m - 1, 1 - below)) * held_out.std(ddof=1) * np.sqrt(1 + 1 / m)
        ordered = np.quantile(held_out, below, method="weibull")
        return float((m * ordered + _FEW * normal) / (m + _FEW))
    if not len(everything):
        return -np.inf
    middle = np.median(everything)
    deviation = 1.4826 * np.median(np.abs(everything - middle))  # the factor makes it that of a normal distribution
    return float(middle - _FAR * deviation)
