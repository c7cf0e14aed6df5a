"""Rectification for any shares of the classes and any number of labels, exact for any number of rows.

The paper's rule assumes that every class is present, and lets many labels count no more than few. Here the logits of a
row are the sum of four:

- the regression: a logistic regression on the labelled rows;
- the graph: labels spread along a graph of rows (`surroundings`);
- the cosine with the prototypes, whose weight falls with the number of labels and grows with the dimensions of rows;
- the logarithm of the classes' estimated shares.

Each layer passes over all unlabelled rows. The attention of a row is the softmax of its logits; the prototypes are the
means of the labelled rows and of all others, weighted with their attention; the shares are the sums of attention. The
first half of the layers takes all shares as equal, except those of classes whose labels have no neighbours among the
unlabelled rows. The second half starts from the labelled rows again, with the shares that the first half found, and
with cosines as seen from the mean of the prototypes that it found.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from remp.errors import ConfigError, DataError
from remp.propagation import SEED, of_each_class, sample_of
from remp.propagation.dimensions import weight_of_cosines
from remp.propagation.logistic import Linear, fit_logistic
from remp.propagation.products import Lens, Products, features_of
from remp.propagation.shares import trust_in
from remp.propagation.surroundings import LocalEvidence, Neighbours, Surroundings, surroundings_of
from remp.rectification.propagate import Views, checked_labels, class_sums, largest_move
from remp.rectification.similarity import unit
from remp.rectification.transform import FeatureTransform, RowTransform, TransformOfRows, fit_transform
from remp.rows import ArrayRows, Block, Rows, Shard, shard_of

# How the settings were found, on validation data of many feature sets: results/tries/robustness.md.
# Weight of the cosine in the first half of the layers, and 35 / (K + 1.5) in the second, for K labels per class; in the
# usual number of dimensions.
_COSINE_FIRST, _COSINE, _COSINE_FADES = 30.0, 35.0, 1.5
# Weight of the graph: 1 + 0.5 / √K.
_GRAPH = 0.5
# The labelled rows together have at least this share of all weight in a prototype, and K / (K + 30) in the second half.
_LABELS_FIRST, _LABELS_HALF_AT = 0.05, 30.0
# The logarithms of the shares are multiplied with K / (K + 0.6): with one label of each class, one that lies in the
# middle of all rows attracts many of other classes.
_SHARES_FADE = 0.6
# So much of all rows is added to the classes' shares, in equal parts.
_EQUAL = 0.1
# The square root is for features like those after a ReLU: it is left out if, in a sample of so many rows, negative
# numbers make up more than this part of the sum of all sizes.
_NEGATIVE, _SIGN_ROWS = 0.25, 1000
# Labelled rows that the regression looks at, drawn by a fixed seed: of each class, and in all.
_MOST_OF_A_CLASS, _MOST_LABELLED = 200, 10_000
# The surroundings are those of at most so many labelled rows, among at most so many unlabelled ones; with more classes
# than these, they are not looked at.
_GRAPH_ROWS = 1000
# All rows are compared with those of the graph if that takes no more multiplications than these, a third of a second;
# else a linear function answers in place of the graph. Beside the product, a pair of rows costs as much as 500 more.
_MOST_WORK, OF_A_PAIR = 7e9, 500
# Transformed rows are kept from layer to layer if they are no more numbers than these: 64 MiB.
_KEPT = 2**24


@dataclass(frozen=True)
class Adaptive(TransformOfRows):
    """Settings of the rule for any shares of the classes, which `remp label` and `ReMPClassifier` follow by default.

    Parameters
    ----------
    transform : str
        What is done to the rows first: "none", or parts of "power+l2+centre". power is left out where many numbers are
        negative; centre takes the mean of the class means of the labelled rows, which does not move with the shares of
        the classes.
    layers : int
        Passes over the unlabelled rows; 0 is the logistic regression alone.
    balanced : bool
        The classes are known to be of equal size.

    Examples
    --------
    >>> from remp import Adaptive, LabelOptions
    >>> LabelOptions(propagation=Adaptive(balanced=True)).propagation
    Adaptive(transform='power+l2+centre', layers=6, balanced=True)
    """

    transform: str = "power+l2+centre"
    layers: int = 6
    balanced: bool = False

    def __post_init__(self) -> None:
        self._check_transform()
        layers: Any = self.layers  # of any kind, as long as nobody has looked
        balanced: Any = self.balanced
        if not isinstance(layers, Integral) or int(layers) < 0:
            raise ConfigError(f"layers is {layers!r}; needed a whole number, 0 (logistic regression alone) or more")
        if not isinstance(balanced, bool | np.bool_):
            raise ConfigError(f"balanced is {balanced!r}; needed True or False")


class EvidenceWeights(NamedTuple):
    """How much each kind of evidence counts, as a multiple of its usual weight."""

    regression: float = 1.0
    graph: float = 1.0
    cosine: float = 1.0

    def weigh(self, regression: Tensor, graph: Tensor, cosine: Tensor) -> Tensor:
        """The sum of logits of each kind, each counting as much as this."""
        return self.regression * regression + self.graph * graph + self.cosine * cosine


_USUAL, _REGRESSION = EvidenceWeights(), EvidenceWeights(1.0, 0.0, 0.0)


class Shifts(NamedTuple):
    """What makes the logits of classes with few labels and with many comparable: (N,) added to the logits of the
    regression in every layer, and (N,) more when the layers are done. `label_counts` finds them."""

    in_layers: Tensor
    at_end: Tensor


class EvidenceLogits(NamedTuple):
    """Logits (m, N) of the same rows by each kind of evidence, each at its usual weight; cosine_before: with the
    prototypes before rectification."""

    regression: Tensor
    graph: Tensor
    cosine: Tensor
    cosine_before: Tensor


@dataclass(frozen=True)
class Adapted:
    """What is needed to compare rows with N classes.

    settings: as given, without power if that was left out.
    regression: logistic regression on the labelled rows, shifts included.
    graph: a linear function that stands for the labels spread along a graph of rows; neighbours: that graph itself,
        which answers in place of the linear function, or None where that would take too long.
    prototypes_before, prototypes: (N, d) class means of the labelled rows, before and after rectification.
    cosine: the weight of the cosine of a row with a prototype, both as seen from the point middle (d,).
    log_shares: (N,) what the shares of the classes add to the logits.
    centre: (d,) what the transform subtracts, or None; size: what features are divided by.
    moves: for each layer, how far the prototypes moved, as of Propagated.
    evidence: how much the regression, the graph and the cosine count.
    shifts: what was added to the regression's logits, or None.
    surroundings: of the labelled rows, to hide some labels and look again; None but just after `adapt`, in the first
        process.
    """

    settings: Adaptive
    regression: Linear
    graph: Linear
    prototypes_before: Tensor
    prototypes: Tensor
    cosine: float
    middle: Tensor
    log_shares: Tensor
    centre: Tensor | None
    size: float
    moves: tuple[float, ...]
    neighbours: Neighbours | None = None
    evidence: EvidenceWeights = _USUAL
    shifts: Shifts | None = field(default=None, repr=False, compare=False)
    surroundings: Surroundings | None = field(default=None, repr=False, compare=False)

    @property
    def _transform(self) -> RowTransform:
        return RowTransform(self.settings.parts, self.centre)

    def features(self, rows: Tensor) -> Tensor:
        """Raw rows (m, d) as transformed rows (m, d)."""
        return features_of(rows, self._transform, self.size)

    def scores(self, rows: Tensor) -> Tensor:
        """Raw rows (m, d) -> logits (m, N) as if all classes had equal shares."""
        return self.evidence.weigh(*self.evidence_logits(rows)[:3])

    def logits(self, rows: Tensor) -> Tensor:
        """`scores` plus the logarithm of the shares, which only the unlabelled rows tell."""
        return self.views(rows).logits

    def views(self, rows: Tensor) -> Views:
        """Raw rows (m, d) -> logits with rectification, with the prototypes before it, and of the regression alone."""
        regression, graph, cosine, cosine_before = self.evidence_logits(rows)
        scores = self.evidence.weigh(regression, graph, cosine)
        before = self.evidence.weigh(regression, graph, cosine_before)
        return Views(scores + self.log_shares.to(scores), before, regression)

    def evidence_logits(self, rows: Tensor) -> EvidenceLogits:
        """Raw rows (m, d) -> logits by each kind of evidence."""
        lens, n_classes = Lens.of(self._transform, self.size), len(self.prototypes)
        features = lens.rows(rows)
        seen = lens.products(self._vectors, features.dtype)(features)
        n_graph = seen.values.shape[1] - 3 * n_classes - 1
        regression, near, near_before, along, graph = seen.values.split([n_classes] * 3 + [1, n_graph], dim=1)
        distances = _distances(seen.rows, along, float(self.middle @ self.middle), lens.is_unit)
        offsets = (self.middle.double() @ self._vectors[:, n_classes : 3 * n_classes]).to(near).split(n_classes)
        return EvidenceLogits(
            regression + self.regression.bias.to(regression),
            self.neighbours(graph) if self.neighbours else graph + self.graph.bias.to(graph),
            (near - offsets[0]) / distances,
            (near_before - offsets[1]) / distances,
        )

    @cached_property
    def _vectors(self) -> Tensor:
        """(d, 3 N + 1 + columns of the graph): what rows are multiplied with in `evidence_logits`, float64."""
        middle = self.middle.double()
        now, before = (
            self.cosine * unit(prototypes.double() - middle).T
            for prototypes in (self.prototypes, self.prototypes_before)
        )
        graph = self.neighbours.rows.double().T if self.neighbours else self.graph.weights
        return torch.cat([self.regression.weights, now, before, middle[:, None], graph], 1)


_DEFAULTS = Adaptive()


def adapt(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Adaptive = _DEFAULTS,
    *,
    shard: Shard | None = None,
    local: LocalEvidence | None = None,
    shifts: Shifts | None = None,
) -> Adapted:
    """Learn N classes from the labelled rows and all the others, in memory for one chunk of rows.

    labels: (n,) class 0 … n_classes - 1, or -1 for an unlabelled row. shard: this process's share of the rows, if
    others pass over the rest. local: what the surroundings of the labelled rows say of the classes, if that is known;
    else it is found here. shifts: for the regression, by `fair_shifts`.
    """
    labels, shard = checked_labels(rows, labels, n_classes), shard or shard_of(rows)
    counts = torch.from_numpy(np.bincount(labels[labels >= 0], minlength=n_classes)).double()
    n_shot, n_unlabelled = float(1 / (1 / counts).mean()), int((labels < 0).sum())

    # The features: transformed rows.
    settings = replace(settings, transform=str(without_root_of_signed(settings.parts, rows)))
    transform, size = _fit_transform(rows, labels, n_classes, settings.parts, shard)
    lens = Lens.of(transform, size)
    dtype = torch.float32 if lens.is_unit else torch.float64

    # Evidence that stays the same in all layers: what the surroundings of the labels say, and the regression.
    surroundings = None
    if local is None:
        surroundings, local = _look_around(rows, labels, n_classes, settings, transform, shard)
    graph_weight = 1 + _GRAPH / n_shot**0.5
    graph = local.graph * graph_weight
    presence = torch.zeros_like(local.presence) if settings.balanced else local.presence
    label_sums = class_sums(rows, labels, n_classes, transform, shard)[0] / size  # (N, d)
    _check_finite(label_sums, rows, shard)
    sample = _regression_sample(labels, n_classes)
    regression = fit_logistic(features_of(rows.take(sample), transform, size), labels[sample], n_classes, shard)
    if shifts:
        regression = replace(regression, bias=regression.bias + shifts.in_layers)

    # The layers: attention of all unlabelled rows to the classes, then new prototypes and shares by that.
    cosine_weight = weight_of_cosines(rows, labels, transform, size) if settings.layers else 0.0
    cosine_first, cosine_later = (cosine_weight * weight for weight in (_COSINE_FIRST, _fading_cosine(n_shot)))
    rows_of_layers, lens = _kept(rows, lens, shard)
    prototypes = prototypes_before = label_sums / counts[:, None]
    middle = torch.zeros(rows.dim, dtype=torch.float64)
    log_shares, moves = torch.zeros(n_classes, dtype=torch.float64), list[float]()
    first_of_second_half = settings.layers // 2
    for layer in range(settings.layers if n_unlabelled else 0):
        is_first_half = layer < first_of_second_half
        if layer == first_of_second_half and not settings.balanced:  # again from the labelled rows
            middle = prototypes.mean(0) if layer and n_classes > 1 else middle
            prototypes = prototypes_before
        cosine = cosine_first if is_first_half else cosine_later
        prior = presence if is_first_half and not settings.balanced else log_shares
        work = _layer_pass(lens, regression + graph, prototypes, middle, cosine, prior, dtype)
        sums, masses = shard.sums(*shard.total(work, rows_of_layers, labels))  # (N, d), (N,)
        _check_finite(masses, rows, shard)
        if settings.balanced:
            log_shares = log_shares + torch.log(masses.mean() / masses)
        else:
            log_shares = _log_shares(masses, n_shot) + presence
        share = _LABELS_FIRST if is_first_half else n_shot / (n_shot + _LABELS_HALF_AT)  # of the labels in all weight
        weight = max(1.0, share / (1 - share) * n_unlabelled / float(counts.sum()))  # of one labelled row
        old, prototypes = prototypes, (weight * label_sums + sums) / (weight * counts + masses)[:, None]
        moves.append(largest_move(old, prototypes))

    if not moves:
        fit_transform(rows, FeatureTransform(), shard)  # checks that every number is finite
    if shifts:
        regression = replace(regression, bias=regression.bias + shifts.at_end)
    return Adapted(
        settings=settings,
        regression=regression,
        graph=graph,
        prototypes_before=prototypes_before.to(dtype),
        prototypes=prototypes.to(dtype),
        cosine=cosine_later,
        middle=middle.to(dtype),
        log_shares=log_shares,
        centre=transform.centre,
        size=size,
        moves=tuple(moves),
        neighbours=local.neighbours * graph_weight if local.neighbours else None,
        evidence=_USUAL if settings.layers else _REGRESSION,
        shifts=shifts,
        surroundings=surroundings,
    )


def _look_around(
    rows: Rows, labels: np.ndarray, n_classes: int, settings: Adaptive, transform: RowTransform, shard: Shard
) -> tuple[Surroundings | None, LocalEvidence]:
    """The surroundings of some labelled rows of each class among a sample of the others, and what they say of the
    classes.

    The first process finds them; the others get None, and the same numbers. With very many classes they say nothing.
    Without l2 there is no graph, since its links are by direction.
    """
    chosen, surroundings, neighbours = np.empty(0, np.int64), None, None
    if settings.layers and 1 < n_classes <= _GRAPH_ROWS:
        labelled = _few_of_each(labels, n_classes, _GRAPH_ROWS // n_classes)
        chosen = np.sort(np.concatenate([labelled, sample_of(np.flatnonzero(labels < 0), _GRAPH_ROWS)]))
    asks_graph = settings.parts.l2 and 0 < len(rows) * len(chosen) * (rows.dim + OF_A_PAIR) <= _MOST_WORK
    if asks_graph:
        arrived = torch.zeros(len(chosen), n_classes, dtype=torch.float64)
        neighbours = Neighbours(torch.zeros(len(chosen), rows.dim), arrived)
    local = LocalEvidence(Linear.zero(rows.dim, n_classes), neighbours, torch.zeros(n_classes, dtype=torch.float64))
    if len(chosen) and shard.rank == 0:
        around = features_of(rows.take(chosen), RowTransform(transform.parts), 1.0)
        has_graph = transform.parts.l2
        surroundings = surroundings_of(chosen, around, transform.centre, has_graph=has_graph, asks_graph=asks_graph)
        local = surroundings.evidence(labels, n_classes)
    weights, bias, presence = shard.sums(local.graph.weights, local.graph.bias, local.presence)
    if local.neighbours:
        neighbours = Neighbours(shard.sum(local.neighbours.rows), shard.sum(local.neighbours.arrived))
    return surroundings, LocalEvidence(Linear(weights, bias), neighbours, presence)


def _kept(rows: Rows, lens: Lens, shard: Shard) -> tuple[Rows, Lens]:
    """The rows that the layers pass over, and the lens for them: if they are few and in memory, the rows that the lens
    makes of them, so that no layer has to take roots again. The results are the same."""
    is_few = isinstance(rows, ArrayRows) and len(rows) * rows.dim <= _KEPT and shard.world == 1
    if not is_few or lens.transform.parts == FeatureTransform() or not lens.is_unit:
        return rows, lens
    made = torch.cat([lens.rows(chunk) for chunk in rows.chunks()])
    return ArrayRows(made, chunk=rows.chunk), lens.rooted()  # type: ignore[attr-defined]


def _fit_transform(
    rows: Rows, labels: np.ndarray, n_classes: int, parts: FeatureTransform, shard: Shard
) -> tuple[RowTransform, float]:
    """The transform, centred on the mean of the class means, and what features are divided by: the root mean square
    norm of transformed rows; 1 with l2, where every norm is 1."""
    transform = RowTransform(parts)
    if parts.centre and n_classes > 1:  # the centre of one class would be the class itself
        sums, counts = class_sums(rows, labels, n_classes, transform, shard)
        transform = RowTransform(parts, (sums / counts[:, None]).mean(0).float())
    if parts.l2:
        return transform, 1.0
    sample = _regression_sample(labels, n_classes)
    norms = torch.linalg.vector_norm(transform(rows.take(sample)).double(), dim=1)
    size = float(norms.square().mean().sqrt())
    return transform, size if 0 < size < float("inf") else 1.0


def without_root_of_signed(parts: FeatureTransform, rows: Rows) -> FeatureTransform:
    """The parts without power, if too many numbers of a sample of the rows are negative for it."""
    if not parts.power or not len(rows):
        return parts
    numbers = rows.take(sample_of(np.arange(len(rows)), _SIGN_ROWS)).double()
    is_signed = float(-numbers.clamp(max=0).sum()) > _NEGATIVE * float(numbers.abs().sum())
    return replace(parts, power=False) if is_signed else parts


def _regression_sample(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Numbers of the labelled rows that the regression looks at, ascending: all of them, if they are not many."""
    return _few_of_each(labels, n_classes, max(1, min(_MOST_OF_A_CLASS, _MOST_LABELLED // n_classes)))


def _few_of_each(labels: np.ndarray, n_classes: int, most: int) -> np.ndarray:
    """Numbers of at most `most` labelled rows of each class, ascending, drawn by a fixed seed."""
    classes, random = of_each_class(labels, n_classes), np.random.default_rng(SEED)
    if max(map(len, classes)) > most:
        classes = [random.permutation(numbers)[:most] for numbers in classes]
    return np.sort(np.concatenate(classes))


def _layer_pass(
    lens: Lens,
    linear: Linear,
    prototypes: Tensor,
    middle: Tensor,
    cosine: float,
    prior: Tensor,
    dtype: torch.dtype,
) -> Callable[[Block], tuple[Tensor, Tensor]]:
    """`_layer_sums` with these classes.

    The attention of a row is the softmax of linear(row) + prior (N,) + cosine * the cosine of the row with the
    prototypes (N, d), both as seen from the middle (d,).
    """
    directions = cosine * unit(prototypes - middle)  # (N, d)
    bias, offsets = (linear.bias + prior).to(dtype), (directions @ middle).to(dtype)
    if lens.is_unit and not middle.any():  # all rows are at distance 1 from the middle: one product does for both
        products = lens.products(linear.weights + directions.T, dtype)
        return partial(_layer_sums, lens=lens, products=products, bias=bias, offsets=None, middle_square=0.0)
    products = lens.products(torch.cat([linear.weights, directions.T, middle[:, None]], 1), dtype)
    middle_square = float(middle @ middle)
    return partial(_layer_sums, lens=lens, products=products, bias=bias, offsets=offsets, middle_square=middle_square)


def _layer_sums(
    block: Block, *, lens: Lens, products: Products, bias: Tensor, offsets: Tensor | None, middle_square: float
) -> tuple[Tensor, Tensor]:
    """Sums of the features of a block's unlabelled rows, weighted with their attention to each class (N, d), and the
    sums of these weights (N,).

    products: N columns, which with the bias (N,) are the logits; or, with offsets (N,), 2 N + 1: of the linear
    function, with the directions of the prototypes from the middle, and with the middle, of squared norm middle_square.
    """
    n_classes = len(bias)
    sums = torch.zeros(n_classes, block.rows.dim, dtype=torch.float64)
    masses = torch.zeros(n_classes, dtype=torch.float64)
    for chunk, labels in block.chunks_with_labels():
        seen = products(lens.rows(chunk))
        logits = seen.values
        if offsets is not None:
            linear, near, along = seen.values.split([n_classes, n_classes, 1], dim=1)
            logits = linear + (near - offsets) / _distances(seen.rows, along, middle_square, lens.is_unit)
        attention = torch.softmax(logits + bias, dim=1)  # (m, N)
        attention[torch.from_numpy(labels >= 0)] = 0
        sums += seen.sums(attention)
        masses += attention.sum(0, dtype=torch.float64)
    return sums, masses


def _distances(rows: Tensor, along: Tensor, middle_square: float, is_unit: bool) -> Tensor:
    """Of features to the middle (m, 1). rows: (m, d) the features, looked at only if they are not all of norm 1. along:
    (m, 1) their products with the middle. middle_square: its squared norm."""
    squares = 1.0 if is_unit else rows.square().sum(1, keepdim=True)
    return (squares - 2 * along + middle_square).clamp(min=1e-24).sqrt()


def _fading_cosine(n_shot: float) -> float:
    return _COSINE / (n_shot + _COSINE_FADES)


def _log_shares(masses: Tensor, n_shot: float) -> Tensor:
    """What shares add to the logits (N,): their logarithm, relative to equal ones and shrunk towards these."""
    equal = masses.sum() / len(masses)
    trust = n_shot / (n_shot + _SHARES_FADE) * trust_in(float(masses.sum()))
    return trust * torch.log((masses + _EQUAL * equal) / (equal * (1 + _EQUAL)))


def _check_finite(numbers: Tensor, rows: Rows, shard: Shard) -> None:
    if not numbers.isfinite().all():
        fit_transform(rows, FeatureTransform(), shard)  # names the row
        raise DataError("some rows hold numbers too large to compare: scale them down, or transform with l2")
