"""One pass over all rows: the likeliest classes of each, their probabilities, and what they sum to; then which items
keep a label.

Unknown are items that resemble no class, compared with labelled items whose label was hidden. How much an item
resembles a class is its likeness to the nearest class plus its largest score without rectification, each in units of
its spread among the held-out items. Half of that is the mean over ten neighbours: those of an item of an unknown class
are mostly of the same class, and ten tell more than one.
"""

from dataclasses import dataclass
from functools import partial

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
