"""From features and a few labels to the outcome, and the options of that: propagate, calibrate, decide, and judge."""

import time
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from remp.backbones.embedding import Embedder
from remp.checks import check_choice
from remp.errors import ConfigError
from remp.labelling.decision import Decision, decide, find_unknown, status_of
from remp.labelling.outcome import STATUSES, AccuracyEstimate, Advice, Labelling
from remp.labelling.output.class_folders import Way
from remp.labelling.quality.duplicates import duplicates
from remp.labelling.quality.estimate import estimate_accuracy
from remp.labelling.quality.findings import (
    easy_examples,
    guessed_labels,
    similar_classes,
    similar_names,
    single_examples,
    suspicious_labels,
    unrecognised_classes,
)
from remp.labelling.quality.label_next import MOST_CANDIDATES, advise
from remp.labelling.tasks import Items
from remp.models import DEFAULT_EMBEDDER
from remp.propagation import sample_of
from remp.propagation.adaptive import Adapted, Adaptive
from remp.propagation.fit import Fitted, Learned, fit_rows
from remp.propagation.held_out import HeldOut, ease_of
from remp.rectification.propagate import Propagated, Propagation
from remp.rows import Rows, Shard, shard_of

# Unlabelled items that the accuracy is estimated from, and items of either kind that the map shows.
_JUDGED, _MAPPED = 20_000, 2000
# Labelled items that candidates for labelling are compared with.
_MOST_LABELLED = 4000
# The accuracy is not estimated if more than this share of the unlabelled items resembles no class.
_MOST_UNKNOWN = 0.3
# Nor if labelled items resemble their classes so much more than others do, as of `ease_of`.
_MOST_EASY = 0.2
# An interval wider than this says nothing: then no number is stated. If more than this share of the unlabelled items
# resembles no class, that is given as the reason.
_TOO_WIDE, _MANY_UNKNOWN = 0.5, 0.1


@dataclass(frozen=True)
class LabelOptions:
    """How to label.

    Parameters
    ----------
    backbone : str or Embedder
        What makes features of pictures: "efficientnet-lite0", a checkpoint of remp, the folder of a run, a shipped
        name, "timm:NAME", or an Embedder.
    side : int, optional
        Side in pixels of the square images that the backbone gets; by default the side it was made for. Smaller is
        faster, larger is more accurate.
    reject : float, optional
        Leave items below this probability without a label.
    unknown : bool
        Leave items that resemble no class without a label.
    n_next : int
        How many items to propose for labelling.
    class_folders : {"copy", "link"}, optional
        Copy the pictures, or link to them, class by class.
    propagation : Adaptive or Propagation
        Settings of the rule: for any shares of the classes, or the paper's own.

    Examples
    --------
    >>> from remp import LabelOptions
    >>> LabelOptions(reject=0.9, class_folders="copy").n_next
    10
    """

    backbone: str | Embedder = DEFAULT_EMBEDDER
    side: int | None = None
    reject: float | None = None
    unknown: bool = True
    n_next: int = 10
    class_folders: Way | None = None
    propagation: Adaptive | Propagation = field(default_factory=Adaptive)

    def __post_init__(self) -> None:
        reject: Any = self.reject  # of any kind, as long as nobody has looked
        n_next: Any = self.n_next
        unknown: Any = self.unknown
        backbone: Any = self.backbone
        if reject is not None and not (isinstance(reject, Real) and 0 <= float(reject) <= 1):
            raise ConfigError(f"reject is {reject!r}; needed a probability: 0 … 1")
        if not isinstance(n_next, Integral) or int(n_next) < 0:
            raise ConfigError(f"n_next is {n_next!r}; needed a whole number, 0 or more")
        if not isinstance(unknown, bool | np.bool_):
            raise ConfigError(f"unknown is {unknown!r}; needed True or False")
        if self.class_folders is not None:
            check_choice("class_folders", self.class_folders, Way)
        if not isinstance(backbone, str | Embedder):
            raise ConfigError(f"backbone is {backbone!r}; needed the name of one, or an Embedder")
        if not isinstance(self.propagation, Adaptive | Propagation):
            raise ConfigError(f"propagation is {self.propagation!r}; needed remp.Adaptive() or remp.Propagation()")


_DEFAULTS = LabelOptions()


def label_rows(
    task: Items,
    rows: Rows,
    options: LabelOptions = _DEFAULTS,
    *,
    content_hashes: np.ndarray | None = None,
    picture_hashes: np.ndarray | None = None,
    shard: Shard | None = None,
    model: Learned | None = None,
    fitted: Fitted | None = None,
) -> Labelling | None:
    """Label all items of `task` from their features, and say how good that is.

    rows: (n, d), of the items of the task. options: those about pictures play no part here.
    content_hashes: (n,), equal for equal files. picture_hashes: (n,) uint64, with few different bits for pictures that
        look the same.
    shard: this process's share of the rows, if others pass over the rest; the first returns the labelling, the others
        None.
    model: what was learned before; then the task has no labels, and nothing is learned from its items.
    fitted: what `fit_rows` makes of these labels and rows, if that is known.
    """
    shard, n_classes, started = shard or shard_of(rows), len(task.class_names), time.perf_counter()
    if model:
        fitted, counts = model.fitted, model.counts
    else:
        fitted = fitted or fit_rows(rows, task.labels, n_classes, options.propagation, shard=shard)
        counts = np.bincount(task.labels[task.is_labelled], minlength=n_classes)
    seconds, started = {"propagate": time.perf_counter() - started}, time.perf_counter()
    decision = decide(fitted, rows, task.labels, shard)
    if decision is None:
        return None
    seconds["label"], started = time.perf_counter() - started, time.perf_counter()
    is_unknown = find_unknown(decision, fitted, rows, task.labels)
    left_out = is_unknown if options.unknown else np.zeros_like(is_unknown)
    status = status_of(decision, task.is_labelled, left_out, options.reject)
    held_out, transform = fitted.held_out, fitted.likeness.transform
    resemblance, n_unknown = decision.resemblance[~task.is_labelled], int(is_unknown.sum())
    estimate, no_estimate = None, ""
    if len(resemblance) and not (no_estimate := _why_unknowable(task, held_out, resemblance, n_unknown)):
        estimate, no_estimate = _estimate(task, rows, fitted, counts, n_unknown)
    findings = duplicates(task, content_hashes, picture_hashes, lambda items: transform(rows.take(items)))
    if not model:
        doubtful = guessed_labels(held_out) or [  # where these are guessed, they say nothing against single labels
            *unrecognised_classes(task, held_out),
            *suspicious_labels(task, held_out, fitted.calibration),
        ]
        easy = easy_examples(held_out, resemblance)
        findings = [*doubtful, *easy, *findings, *single_examples(task), *similar_names(task)]
    findings += similar_classes(task, decision.confusion)
    label_next = _label_next(task, rows, fitted.model, decision, status, options.n_next, model)
    mapped = np.union1d(*(sample_of(np.flatnonzero(part), _MAPPED) for part in (task.is_labelled, ~task.is_labelled)))
    mapped_features = fitted.model.features(rows.take(mapped)).numpy()
    seconds["judge"] = time.perf_counter() - started
    return Labelling(
        task=task,
        labels=np.where(status <= STATUSES.index("labelled"), decision.best, -1),
        best=decision.best,
        runner_up=decision.runner_up,
        probability=decision.probability,
        margin=decision.margin,
        status=status,
        before=decision.before,
        confusion=decision.confusion,
        expected_sizes=decision.confusion.sum(1),
        sample=mapped,
        sample_features=mapped_features,
        prototypes_before=fitted.model.prototypes_before.numpy(),
        prototypes=fitted.model.prototypes.numpy(),
        estimate=estimate,
        findings=tuple(findings),
        label_next=label_next,
        seconds=seconds,
        no_estimate=no_estimate,
        rectified=fitted.evidence.cosine,
        reject=options.reject,
        fitted=fitted,
    )


def _estimate(
    task: Items, rows: Rows, fitted: Fitted, counts: np.ndarray, n_unknown: int
) -> tuple[AccuracyEstimate | None, str]:
    """The accuracy, from a sample of the unlabelled items, or why an interval says nothing.

    counts: (N,) labelled items of each class. n_unknown: how many of the unlabelled items resemble no class.
    """
    unlabelled = np.flatnonzero(~task.is_labelled)
    logits = fitted.model.logits(rows.take(sample_of(unlabelled, _JUDGED)))
    unlike = n_unknown / len(unlabelled)
    estimate = estimate_accuracy(fitted.calibration, logits, len(unlabelled), fitted.held_out, counts, unlike)
    if estimate.high - estimate.low <= _TOO_WIDE:
        return estimate, ""
    if unlike > _MANY_UNKNOWN:
        return None, (
            f"{n_unknown:,} of {len(unlabelled):,} unlabelled items resemble no class, and others like them may "
            "have a label: label some of these, or add the classes that they belong to"
        )
    return None, (
        f"it may be anything from {estimate.low:.0%} to {estimate.high:.0%}: too few labels could be hidden to "
        "check it, so label one or two more items of each class"
    )


def _why_unknowable(task: Items, held_out: HeldOut, resemblance: np.ndarray, n_unknown: int) -> str:
    """Why nothing can be known of how many labels are right; empty if an estimate may be made.

    resemblance: (m,) of the unlabelled items with the nearest class. n_unknown: how many of them resemble no class."""
    if len(task.class_names) == 1:
        return "there is only one class: examples of something else would show how well it is recognised"
    if not len(held_out):
        return (
            "no class has two labelled items, so no label could be hidden to see whether it is found again: label a "
            "second item of each class"
        )
    if n_unknown > _MOST_UNKNOWN * len(resemblance):
        return (
            f"{n_unknown:,} of {len(resemblance):,} unlabelled items are unlike all labelled ones: label some of "
            "these, so that the labelled items are like the others"
        )
    if guessed_labels(held_out):
        return (
            "labels that were hidden were hardly predicted better than by guessing: see whether they are right, label "
            "more items, or try other features"
        )
    if ease_of(held_out.resemblance, resemblance) > _MOST_EASY:
        return (
            "labelled items resemble their classes much more than the unlabelled ones do, and say little of these: "
            "label some of those that are least like the labelled ones"
        )
    return ""


def _label_next(
    task: Items,
    rows: Rows,
    model: Adapted | Propagated,
    decision: Decision,
    status: np.ndarray,
    n_next: int,
    learned: Learned | None,
) -> tuple[Advice, ...]:
    """Advice about which to label of the unlabelled items that resemble a class, or of a sample of them. learned: as
    `model` of `label_rows`."""
    if n_next == 0:
        return ()
    free = (status != STATUSES.index("given")) & (status != STATUSES.index("unknown"))
    candidates = sample_of(np.flatnonzero(free), MOST_CANDIDATES)
    if learned:
        examples = torch.from_numpy(learned.examples[sample_of(np.arange(len(learned.examples)), _MOST_LABELLED)])
    else:
        examples = rows.take(sample_of(np.flatnonzero(task.is_labelled), _MOST_LABELLED))
    return advise(
        candidates,
        model.features(rows.take(candidates)),
        decision.margin[candidates],
        model.features(examples),
        [(task.class_names[decision.best[item]], task.class_name(decision.runner_up[item])) for item in candidates],
        n_next,
    )
