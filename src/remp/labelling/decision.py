"""One pass over all rows: the likeliest classes of each, their probabilities, and what they sum to; then which items
keep a label.

An item that resembles no class is unknown. How familiar an item is: its likeness to the nearest class plus its largest
score without rectification, each divided by its standard deviation among the held-out items. Half of that, if there are
neighbours to ask, is replaced with the mean over its ten nearest unlabelled items: those of an item of an unknown class
are mostly of the same class, and ten tell more than one. The limit is where few labelled items were while their label
was hidden.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import STATUSES
from remp.propagation import sample_of
from remp.propagation.adaptive import OF_A_PAIR
from remp.propagation.fit import Fitted, check_answers
from remp.rectification.similarity import unit
from remp.rows import Block, Rows, Shard

# The share of held-out items below the limit, with the neighbours and without; then about 5 % of the other items of
# known classes lie below it, too: results/tries/robustness.md.
_BELOW_WITH_NEIGHBOURS, _BELOW = 0.045, 0.06
# With 20 held-out items, the limit is half by their order and half by a normal distribution; by their order if many.
_FEW = 20
# An item's neighbours are the 10 nearest of at most 1000 unlabelled ones; they are looked for if that takes no more
# multiplications than these, half a second.
_NEIGHBOURS, _AMONG, _MOST_WORK = 10, 1000, 2.5e10
# With fewer held-out items than these, the limit lies at least 3 standard deviations below the median of all items.
_VERY_FEW, _FAR = 4, 3.0


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


_CHOICE = np.dtype([("best", np.int64), ("runner_up", np.int64), ("probability", np.float32), ("margin", np.float32)])
_DECISION = np.dtype([*_CHOICE.descr, ("before", np.int64), ("resemblance", np.float32), ("top_score", np.float32)])


def decide(fitted: Fitted, rows: Rows, labels: np.ndarray, shard: Shard) -> Decision | None:
    """The decision of all rows in the first process, None in the others."""
    first, stop = shard.span(len(rows))
    own, n_classes = np.empty(stop - first, _DECISION), len(fitted.model.prototypes)
    confusion, start = torch.zeros(n_classes, n_classes, dtype=torch.float64), 0
    for of_block, confusion_of_block in shard.each(partial(_decide_block, fitted=fitted), rows, labels):
        own[start : start + len(of_block)] = of_block
        confusion, start = confusion + confusion_of_block, start + len(of_block)
    confusion, decided = shard.sum(confusion), shard.gather(own, len(rows))
    if decided is None:
        return None
    return Decision(**{name: decided[name].copy() for name in _DECISION.names or ()}, confusion=confusion.numpy())


def _decide_block(block: Block, *, fitted: Fitted) -> tuple[np.ndarray, Tensor]:
    """The decision of the rows of a block (m,), an array of _DECISION, and its confusion (N, N)."""
    n_classes = len(fitted.model.prototypes)
    decided, start = np.empty(len(block), _DECISION), 0
    confusion = torch.zeros(n_classes, n_classes, dtype=torch.float64)
    for chunk in block.chunks():
        stop = start + len(chunk)
        given = torch.from_numpy(np.array(block.labels[start:stop]))
        views = fitted.model.views(chunk)
        probabilities = fitted.calibration.probabilities(views.logits)  # (m, N)
        check_answers(probabilities, block.first + start)
        here = decided[start:stop]
        _choose(probabilities, given, here)
        here["before"] = views.before.argmax(-1).numpy()
        here["resemblance"] = fitted.likeness(chunk).numpy()
        here["top_score"] = views.plain.amax(-1).numpy()
        free = given < 0
        best = torch.from_numpy(here["best"].copy())
        confusion.T.index_add_(0, best[free], probabilities[free])
        start = stop
    return decided, confusion


def choose(fitted: Fitted, rows: Rows, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Of a decision only best, runner_up, probability and margin, by these names, in half of the time."""
    chosen, start = np.empty(len(rows), _CHOICE), 0
    for chunk in rows.chunks():
        stop = start + len(chunk)
        _choose(fitted.probabilities(chunk), torch.from_numpy(labels[start:stop]), chosen[start:stop])
        start = stop
    return {name: chosen[name].copy() for name in _CHOICE.names or ()}


def _choose(probabilities: Tensor, given: Tensor, chosen: np.ndarray) -> None:
    """Fill in the two likeliest classes of each row, a given label first: probabilities (m, N), given (m,), chosen (m,)
    with the fields of _CHOICE."""
    n_classes = probabilities.shape[1]
    if n_classes == 1:
        chosen["best"], chosen["runner_up"], chosen["probability"], chosen["margin"] = 0, -1, 1, 1
        return
    is_given = given >= 0
    certain = torch.nn.functional.one_hot(given[is_given], n_classes).to(probabilities)
    probabilities = probabilities.clone()
    probabilities[is_given] = certain + probabilities[is_given] * 1e-9  # the likeliest of the others comes second
    top = probabilities.topk(2)
    values = top.values.clamp(max=1).numpy()
    chosen["best"], chosen["runner_up"] = top.indices.T.numpy()
    chosen["probability"], chosen["margin"] = values[:, 0], values[:, 0] - values[:, 1]


def status_of(decision: Decision, is_labelled: np.ndarray, is_unknown: np.ndarray, reject: float | None) -> np.ndarray:
    """(n,) index into STATUSES. is_labelled, is_unknown: (n,) bool. reject: the least probability of a label."""
    status = np.full(len(is_labelled), STATUSES.index("labelled"), np.int8)
    if reject is not None:
        status[decision.probability < reject] = STATUSES.index("uncertain")
    status[is_unknown] = STATUSES.index("unknown")
    status[is_labelled] = STATUSES.index("given")
    return status


def find_unknown(decision: Decision, fitted: Fitted, rows: Rows, labels: np.ndarray) -> np.ndarray:
    """(n,) bool: which unlabelled items resemble no class. labels: (n,), -1 for unlabelled."""
    of_held_out, of_items, below = familiarities(decision, fitted, rows, labels)
    is_free = labels < 0
    return is_free & (of_items < least_familiar(of_held_out, of_items[is_free], below))


def familiarities(
    decision: Decision, fitted: Fitted, rows: Rows, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """How familiar the held-out items (m,) and all items (n,) are, and the share of the former below the limit."""
    held_out = fitted.held_out
    top_score = held_out.plain.amax(-1).numpy()
    spreads = spreads_of(held_out.resemblance, top_score)
    of_held_out = familiarity(held_out.resemblance, top_score, spreads)
    of_items = familiarity(decision.resemblance, decision.top_score, spreads)
    if (nearby := _with_neighbours(fitted, rows, labels, of_held_out, of_items)) is not None:
        return *nearby, _BELOW_WITH_NEIGHBOURS
    return of_held_out, of_items, _BELOW


def _with_neighbours(
    fitted: Fitted, rows: Rows, labels: np.ndarray, of_held_out: np.ndarray, of_items: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The familiarity of held-out items (m,) and of all n, half of it replaced with the mean of their nearest
    unlabelled items. None if either are too few, if it would take too long, or if the features of the held-out items
    are not known, as with a saved model."""
    among, features = sample_of(np.flatnonzero(labels < 0), _AMONG), fitted.held_out.features
    if len(features) != len(of_held_out) or len(of_held_out) < 2 or len(among) <= _NEIGHBOURS:
        return None
    if len(rows) * len(among) * (rows.dim + OF_A_PAIR) > _MOST_WORK:
        return None
    directions, theirs = unit(fitted.model.features(rows.take(among)).float()), torch.from_numpy(of_items[among])

    def averaged(features: Tensor, own: np.ndarray, first: int) -> np.ndarray:
        """Of items first, first + 1, …, by their features (m, d) and their own familiarity (m,)."""
        cosines = unit(features.float()) @ directions.T
        here = np.flatnonzero((among >= first) & (among < first + len(features)))
        cosines[among[here] - first, here] = -2  # an item is no neighbour of itself
        return 0.5 * own + 0.5 * theirs[cosines.topk(_NEIGHBOURS, dim=1).indices].mean(1).numpy()

    found, start = np.empty_like(of_items), 0
    for chunk in rows.chunks():
        stop = start + len(chunk)
        found[start:stop] = averaged(fitted.model.features(chunk), of_items[start:stop], start)
        start = stop
    return averaged(features, of_held_out, len(labels)), found  # numbers after all others: none of these is unlabelled


def familiarity(resemblance: np.ndarray, top_score: np.ndarray, spreads: tuple[float, float]) -> np.ndarray:
    """(m,) and (m,) -> (m,). spreads: the standard deviation of each among held-out items."""
    return resemblance / spreads[0] + top_score / spreads[1]


def spreads_of(resemblance: np.ndarray, top_score: np.ndarray) -> tuple[float, float]:
    """The standard deviations of held-out items (m,), none of them 0; with fewer than two items, such that the score
    counts for nothing."""
    if len(resemblance) < 2:
        return 1.0, float("inf")
    return tuple(float(max(values.std(ddof=1), 1e-6)) for values in (resemblance, top_score))  # type: ignore[return-value]


def least_familiar(held_out: np.ndarray, everything: np.ndarray, below: float) -> float:
    """The limit below which an item is unknown: so large a share of items like the held-out ones (m,) lies below it, by
    their order if they are many, as if they were normal if they are few. With very few of these, the limit also lies
    far below the median of all items (k,), of which most should be known."""
    far = np.inf
    if len(held_out) < _VERY_FEW and len(everything):
        middle = np.median(everything)
        deviation = 1.4826 * np.median(np.abs(everything - middle))  # the factor makes it that of a normal distribution
        far = float(middle - _FAR * deviation)
    if len(held_out) > 1:
        from scipy.special import stdtrit

        m = len(held_out)
        normal = held_out.mean() - float(stdtrit(m - 1, 1 - below)) * held_out.std(ddof=1) * np.sqrt(1 + 1 / m)
        ordered = np.quantile(held_out, below, method="weibull")
        return min(far, float((m * ordered + _FEW * normal) / (m + _FEW)))
    return far
