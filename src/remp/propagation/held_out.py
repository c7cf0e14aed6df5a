"""What the labelled rows get when their label is hidden: all that can be known of the quality of the others. And how
much a row resembles a class at all, which is known of every row."""

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

MOST_FOLDS = 5
# Unlabelled rows that the propagation of a fold sees: this many, or this many per class, but never more than the last.
_ITEMS, _ITEMS_PER_CLASS, _MOST_ITEMS = 1000, 50, 20_000
# Labelled rows that are looked at: more would take long, and tell little more.
_MOST_LABELLED = 10_000
# Unlabelled rows that every fold answers, too: this many, or this many per class, up to the last; of more classes than
# these, none.
_OTHERS, _OTHERS_PER_CLASS, _MOST_OTHERS, _MOST_CLASSES = 500, 10, 1000, 400


@dataclass(frozen=True)
class Likeness:
    """How much a row resembles the nearest class, to find rows of no class: by the labelled rows alone, not centred.

    Not by rectified prototypes: many rows of an unknown class pull the nearest prototype towards themselves, and then
    seem to resemble it. Nor by centred rows: the centre lies between the known classes, and says nothing of others.

    transform: of rows, without centring. means: (N, d) of the labelled rows of each class, transformed, of norm 1; of a
    class with more labels than others shorter, of one with fewer longer: see `fit_likeness`.
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
    """What models that lack the labels of one fold say of some unlabelled rows. items: (m,) numbers of these rows.
    regression, graph, cosine: (F, m, N) logits by each kind of evidence."""

    items: np.ndarray
    regression: Tensor
    graph: Tensor
    cosine: Tensor

    def scores(self, evidence: EvidenceWeights) -> Tensor:
        """(F, m, N), each kind of evidence counting as much as this."""
        return evidence.weigh(self.regression, self.graph, self.cosine)


@dataclass(frozen=True)
class HeldOut:
    """items: (m,) numbers of labelled rows whose class has another; labels: (m,) theirs. What they get without their
    label: scores (m, N); of these, what is by the regression: plain (m, N), and by the graph: graph (m, N), which is 0
    for the paper's rule; and resemblance (m,) as by Likeness. features: (m, d), transformed. others: what unlabelled
    rows get, until the shares of the classes are found; None where these are not looked for."""

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


def learn(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Adaptive | Propagation,
    shard: Shard | None = None,
) -> Adapted | Propagated:
    """The classes by the rule that the settings are of."""
    if isinstance(settings, Adaptive):
        shifts = fair_shifts(rows, labels, n_classes, settings, shard or shard_of(rows))
        return adapt(rows, labels, n_classes, settings, shard=shard, shifts=shifts)
    return propagate(rows, labels, n_classes, settings, shard=shard)


def hold_out(model: Adapted | Propagated, rows: Rows, labels: np.ndarray) -> HeldOut:
    """Learn again without the label of one row of each class (or a fifth of them), in turn, and score these.

    labels: (n,), -1 for unlabelled. The features are transformed once, with the centre of the model.
    """
    n_classes = len(model.prototypes)
    labelled = _few_labelled(labels, n_classes)
    folds = np.full(len(labels), -1)
    folds[labelled] = fold_numbers(labels[labelled], n_classes)  # of these alone: each fold leaves one of every class
    unlabelled = sample_of(np.flatnonzero(labels < 0), min(max(_ITEMS, _ITEMS_PER_CLASS * n_classes), _MOST_ITEMS))
    items = np.concatenate([labelled, unlabelled])
    raw = rows.take(items)
    features = model.features(raw)
    transform = "l2" if model.settings.parts.l2 else "none"
    around = model.surroundings if isinstance(model, Adapted) else None
    scores, plain, graph = torch.zeros(3, len(labelled), n_classes)
    similar = torch.zeros(len(labelled))
    n_folds = folds.max(initial=-1) + 1
    others = _others(model, items[len(labelled) :], n_folds)
    asked = len(labelled) + np.flatnonzero(np.isin(items[len(labelled) :], others.items)) if others else None

    def score(fold: int) -> None:
        is_out = np.flatnonzero(folds[labelled] == fold)  # labelled rows are the first of the items
        given = np.where(folds[items] == fold, -1, labels[items])
        if isinstance(model, Adapted):
            local = around.evidence(np.where(folds == fold, -1, labels), n_classes) if around else None
            settings = replace(model.settings, transform=transform)
            without = adapt(ArrayRows(features), given, n_classes, settings, local=local, shifts=model.shifts)
            parts = without.evidence_logits(features[is_out])
            plain[is_out], graph[is_out] = parts.regression.float(), parts.graph.float()
            scores[is_out] = (parts.regression + parts.graph + parts.cosine).float()
            if others:
                parts = without.evidence_logits(features[asked])
                others.regression[fold], others.graph[fold], others.cosine[fold] = parts[:3]
        else:
            paper = replace(model.settings, transform=transform)
            rectified = propagate(ArrayRows(features), given, n_classes, paper)
            scores[is_out] = rectified.logits(features[is_out]).float()
            plain[is_out] = rectified.logits(features[is_out], rectified=False).float()
        similar[is_out] = fit_likeness(ArrayRows(raw), given, n_classes, model.settings.parts, Shard())(raw[is_out])

    deque(on_all_cores(score, range(n_folds)), maxlen=0)  # each fold writes rows of its own
    found = np.flatnonzero(folds[labelled] >= 0)
    return HeldOut(
        items=labelled[found],
        labels=labels[labelled[found]],
        scores=scores[found],
        plain=plain[found],
        graph=graph[found],
        resemblance=similar[found].numpy(),
        features=features[found],
        others=others,
    )


def _others(model: Adapted | Propagated, unlabelled: np.ndarray, n_folds: int) -> Others | None:
    """Of some unlabelled rows, to be filled in fold by fold; None where the shares of the classes are known or cannot
    be told."""
    n_classes = len(model.prototypes)
    if not isinstance(model, Adapted) or model.settings.balanced or not model.settings.layers:
        return None
    if n_folds < 2 or not 1 < n_classes <= _MOST_CLASSES or not len(unlabelled):
        return None
    chosen = sample_of(unlabelled, min(max(_OTHERS, _OTHERS_PER_CLASS * n_classes), _MOST_OTHERS))
    return Others(chosen, *torch.zeros(3, n_folds, len(chosen), n_classes))


def fold_numbers(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """(n,) in which fold the label of a row is hidden; -1 for unlabelled ones and for the only one of its class."""
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
