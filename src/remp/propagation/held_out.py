"""What labelled rows get while their label is hidden, which is all that can be known of the quality of new labels; and
how much any row resembles the nearest class."""

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.propagation import SEED, of_each_class, sample_of, sample_of_each_class
from remp.propagation.adaptive import Adapted, Adaptive, EvidenceWeights, adapt
from remp.propagation.label_counts import about_equal, fair_shifts
from remp.rectification.propagate import Propagated, Propagation, class_sums, propagate
from remp.rectification.similarity import unit
from remp.rectification.transform import FeatureTransform, RowTransform
from remp.rows import ArrayRows, Rows, Shard, shard_of
from remp.system.threads import on_all_cores

# A class of K labels is hidden label by label, in K folds, or in 5 parts if it has more.
MOST_FOLDS = 5
# Unlabelled rows that a fold learns from: the larger of 1000 and 50 per class, but never more than the last.
_ITEMS, _ITEMS_PER_CLASS, _MOST_ITEMS = 1000, 50, 20_000
# Labelled rows that a fold learns from: more would take long, and tell little more.
_MOST_LABELLED = 10_000
# Fewer held-out rows are not compared with the unlabelled ones.
_LEAST_COMPARED = 4
# Unlabelled rows that every fold scores, too, to see how far the folds agree: the larger of 500 and 10 per class, but
# never more than 1000; with more than 400 classes, none.
_OTHERS, _OTHERS_PER_CLASS, _MOST_OTHERS, MOST_CLASSES = 500, 10, 1000, 400


@dataclass(frozen=True)
class Likeness:
    """How much a row resembles the nearest class, to find rows of no class: by the labelled rows alone, not centred.

    Not by rectified prototypes: many rows of an unknown class pull the nearest prototype towards themselves, and then
    seem to resemble it. Nor by centred rows: the centre lies between the known classes, and says nothing of others.

    transform: of rows, without centring. means: (N, d) of the transformed labelled rows of each class, of norm 1; where
    classes have different numbers of labels, those with fewer are longer (`fit_likeness`).
    """

    transform: RowTransform
    means: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Cosine with the nearest class mean: raw rows (m, d) -> (m,)."""
        return (unit(self.transform(rows.float())) @ self.means.T).amax(-1)


def fit_likeness(rows: Rows, labels: np.ndarray, n_classes: int, parts: FeatureTransform, shard: Shard) -> Likeness:
    """labels: (n,), -1 for unlabelled.

    The mean of many rows points to where its class is, that of one row also to where this row is by chance: its cosine
    with other rows of the class is smaller. Rows of norm 1 whose class has a mean of squared norm a have an expected
    cosine of a / √(a + (1 - a) / n) with the mean of n of them, so that the lengths √(a + (1 - a) / n) make classes of
    different n comparable; a is estimated from all classes together.
    """
    transform = RowTransform(replace(parts, centre=False))
    sums, counts = class_sums(rows, labels, n_classes, transform, shard)
    means = sums / counts[:, None]
    if not parts.l2 or about_equal(labels, n_classes):
        return Likeness(transform, unit(means).float())
    several = counts > 1
    pairs = (counts * (counts - 1))[several]
    agreed = ((sums.square().sum(1) - counts)[several].sum() / pairs.sum()).clamp(min=0.01, max=1)  # a
    lengths = (agreed + (1 - agreed) / counts).sqrt()
    return Likeness(transform, (unit(means) * (lengths / lengths.square().mean().sqrt())[:, None]).float())


@dataclass(frozen=True)
class Others:
    """Logits of some unlabelled rows by F models, each of which was learned without the labels of one fold.

    items: (m,) numbers of these rows. regression, graph, cosine: (F, m, N) logits by each kind of evidence.
    """

    items: np.ndarray
    regression: Tensor
    graph: Tensor
    cosine: Tensor

    def scores(self, evidence: EvidenceWeights) -> Tensor:
        """(F, m, N) the sum of all kinds of evidence, with these weights."""
        return evidence.weigh(self.regression, self.graph, self.cosine)


@dataclass(frozen=True)
class HeldOut:
    """Labelled rows whose class has another labelled row, and what they get from a model that lacks their label.

    items: (m,) their numbers; labels: (m,); features: (m, d), transformed.
    scores: (m, N) logits as if all classes had equal shares. plain, graph: (m, N) the parts of these by the regression
        and by the graph, at their usual weights; what is left is by the cosine. With the paper's rule, plain is by the
        prototypes before rectification, and graph is 0.
    resemblance: (m,) as by Likeness.
    others: the same of unlabelled rows, until the shares of the classes are found; None where these are not estimated.
    """

    items: np.ndarray
    labels: np.ndarray
    scores: Tensor
    plain: Tensor
    graph: Tensor
    resemblance: np.ndarray
    features: Tensor
    others: Others | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def covered(self) -> float:
        """The share of the classes of which a label could be hidden."""
        return len(np.unique(self.labels)) / max(1, self.scores.shape[1])

    def weighed(self, evidence: EvidenceWeights) -> "HeldOut":
        """The same with scores in which each kind of evidence counts as much as this."""
        return replace(self, scores=evidence.weigh(self.plain, self.graph, self.scores - self.plain - self.graph))


def ease_of(held_out: np.ndarray, unlabelled: np.ndarray, errors: float = 1.0) -> float:
    """How much more the labelled rows resemble their classes than others do, as when people label typical examples.

    held_out: (m,) resemblance of held-out rows; unlabelled: (k,) of unlabelled ones. The probability that one of the
    former has the larger value (Mann and Whitney, 1947), less 0.5 and so many standard errors: 0 … 0.5, and 0 of few.
    """
    m, k = len(held_out), len(unlabelled)
    if m < _LEAST_COMPARED or not k:
        return 0.0
    ordered = np.sort(unlabelled)
    below = (np.searchsorted(ordered, held_out, "left") + np.searchsorted(ordered, held_out, "right")) / 2
    return max(0.0, float(below.mean() / k - 0.5 - errors * np.sqrt((m + k + 1) / (12 * m * k))))


def learn(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Adaptive | Propagation,
    shard: Shard | None = None,
) -> Adapted | Propagated:
    """Learn the classes: by `adapt` with settings of Adaptive, by `propagate` with those of the paper's rule."""
    if isinstance(settings, Adaptive):
        shifts = fair_shifts(rows, labels, n_classes, settings, shard or shard_of(rows))
        return adapt(rows, labels, n_classes, settings, shard=shard, shifts=shifts)
    return propagate(rows, labels, n_classes, settings, shard=shard)


def hold_out(model: Adapted | Propagated, rows: Rows, labels: np.ndarray) -> HeldOut:
    """Hide the label of one row of each class (of a fifth of its rows if it has many), learn again, score these rows;
    and so in turn until each labelled row was hidden once, except the only one of its class.

    labels: (n,), -1 for unlabelled. The features are transformed once, with the centre of the model.
    """
    n_classes = len(model.prototypes)
    labelled = _few_labelled(labels, n_classes)
    folds = np.full(len(labels), -1)
    folds[labelled] = fold_numbers(labels[labelled], n_classes)  # of these alone, so that each fold keeps every class
    unlabelled = sample_of(np.flatnonzero(labels < 0), min(max(_ITEMS, _ITEMS_PER_CLASS * n_classes), _MOST_ITEMS))
    items = np.concatenate([labelled, unlabelled])  # all that a fold sees
    raw = rows.take(items)
    features = model.features(raw)
    transform = "l2" if model.settings.parts.l2 else "none"
    scores, plain, graph = torch.zeros(3, len(labelled), n_classes)
    resemblance = torch.zeros(len(labelled))
    n_folds = folds.max(initial=-1) + 1
    others = _others(model, unlabelled, n_folds)

    def score(fold: int) -> None:
        hidden = np.flatnonzero(folds[labelled] == fold)  # labelled rows are the first of the items
        kept = np.where(folds == fold, -1, labels)  # (n,)
        if isinstance(model, Adapted):
            local = model.surroundings.evidence(kept, n_classes) if model.surroundings else None
            settings = replace(model.settings, transform=transform)
            adapted = adapt(ArrayRows(features), kept[items], n_classes, settings, local=local, shifts=model.shifts)
            logits = adapted.evidence_logits(features[hidden])
            plain[hidden], graph[hidden] = logits.regression.float(), logits.graph.float()
            scores[hidden] = (logits.regression + logits.graph + logits.cosine).float()
            if others:
                places = len(labelled) + np.searchsorted(unlabelled, others.items)
                logits = adapted.evidence_logits(features[places])
                others.regression[fold], others.graph[fold], others.cosine[fold] = logits[:3]
        else:
            paper = replace(model.settings, transform=transform)
            propagated = propagate(ArrayRows(features), kept[items], n_classes, paper)
            scores[hidden] = propagated.logits(features[hidden]).float()
            plain[hidden] = propagated.logits(features[hidden], rectified=False).float()
        likeness = fit_likeness(ArrayRows(raw), kept[items], n_classes, model.settings.parts, Shard())
        resemblance[hidden] = likeness(raw[hidden])

    deque(on_all_cores(score, range(n_folds)), maxlen=0)  # each fold writes rows of its own
    scored = np.flatnonzero(folds[labelled] >= 0)
    return HeldOut(
        items=labelled[scored],
        labels=labels[labelled[scored]],
        scores=scores[scored],
        plain=plain[scored],
        graph=graph[scored],
        resemblance=resemblance[scored].numpy(),
        features=features[scored],
        others=others,
    )


def _others(model: Adapted | Propagated, unlabelled: np.ndarray, n_folds: int) -> Others | None:
    """A sample of the unlabelled rows, their logits to be filled in fold by fold; None where the shares of the classes
    are known or cannot be estimated."""
    n_classes = len(model.prototypes)
    if not isinstance(model, Adapted) or model.settings.balanced or not model.settings.layers:
        return None
    if n_folds < 2 or not 1 < n_classes <= MOST_CLASSES or not len(unlabelled):
        return None
    chosen = sample_of(unlabelled, min(max(_OTHERS, _OTHERS_PER_CLASS * n_classes), _MOST_OTHERS))
    return Others(chosen, *torch.zeros(3, n_folds, len(chosen), n_classes))


def fold_numbers(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """(n,) in which fold the label of a row is hidden; -1 for unlabelled rows and for the only one of its class."""
    random = np.random.default_rng(SEED)
    folds = np.full(len(labels), -1)
    for members in of_each_class(labels, n_classes):
        if len(members) > 1:
            folds[random.permutation(members)] = np.arange(len(members)) % MOST_FOLDS
    return folds


def _few_labelled(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The numbers of the labelled rows; if they are very many, of an equal share of them from each class."""
    labelled = np.flatnonzero(labels >= 0)
    if len(labelled) <= _MOST_LABELLED:
        return labelled
    return sample_of_each_class(labels, n_classes, max(2, _MOST_LABELLED // n_classes))
