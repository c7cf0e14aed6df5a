"""A labelling in a few lines for a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from remp.labelling.embedding import Stage
from remp.labelling.outcome import FOLDERS, STATUSES, Labelling
from remp.labelling.quality.estimate import largest_threshold, rejection_table, with_a_label
from remp.report import percent
from remp.untrusted import visible

_MOST = 10  # findings and names that are shown; the report has all
_WEAK = 0.5  # rectification with less than this share of its usual weight is mentioned
_MEANING = {
    "given": ("example with a label", "examples with a label"),
    "labelled": ("got a label", "got a label"),
    "uncertain": ("too uncertain for a label", "too uncertain for a label"),
    "unknown": ("resembles no class", "resemble no class"),
}  # of one, of several


def summary(labelling: Labelling) -> str:
    """Counts, the accuracy to expect, what to look at, what to label next, and how long it took."""
    parts = (
        _counts(labelling),
        _estimate(labelling),
        _rejection(labelling),
        _findings(labelling),
        _next(labelling),
        _times(labelling),
    )
    return "\n".join(line for part in parts for line in part)


def _counts(labelling: Labelling) -> Iterator[str]:
    task = labelling.task
    numbers = np.bincount(labelling.status, minlength=len(STATUSES))
    n_classes = f"{len(task.class_names):,} class{'' if len(task.class_names) == 1 else 'es'}"
    for status, number in zip(STATUSES, numbers, strict=True):
        if status == "given" and "model" in labelling.made_with:
            yield f"{len(task.names):>9,}  without a label, for the {n_classes} of the model"
        elif number or status in ("given", "labelled"):
            classes = f" ({n_classes})" if status == "given" else ""
            yield f"{number:>9,}  {_MEANING[status][int(number != 1)]}{classes}"
    if task.skipped:
        yield f"{len(task.skipped):>9,}  skipped:"
        for reason, number in Counter(reason for _, reason in task.skipped).most_common(_MOST):
            first = next(name for name, why in task.skipped if why == reason)
            others = f" and {number - 1:,} more" if number > 1 else ""
            yield f"           {visible(first)}{others}: {visible(reason)}"
    if len(task.class_names) == 1:
        yield f"There is only one class, {visible(task.class_names[0])}: all that resembles it gets its label."


def _estimate(labelling: Labelling) -> Iterator[str]:
    estimate = labelling.estimate
    if estimate is None:
        reason = f": {visible(labelling.no_estimate)}" if labelling.no_estimate else "; label a few more"
        yield f"How many labels are right cannot be estimated{reason}."
    else:
        labelled = with_a_label(labelling)
        is_whole = labelled.n == (~labelling.task.is_labelled).sum()
        yield (
            f"Estimated right: {estimate.accuracy:.1%} of the unlabelled"
            f"{'' if is_whole else ', if each had its likeliest class'}, {estimate.level:.0%} interval "
            f"{estimate.low:.1%} to {estimate.high:.1%} ({visible(estimate.basis)})"
        )
        if not is_whole and labelled.right is not None:
            yield f"Right among the {labelled.n:,} new labels: {_plain(labelled.right)}, by their probabilities"
    if text := weakened(labelling):
        yield text


def weakened(labelling: Labelling) -> str:
    """Whether hidden labels spoke against rectification; empty if they did not."""
    if labelling.rectified == 0:
        return "Rectification was left out, because hidden labels were predicted better without it."
    if labelling.rectified < _WEAK:
        weight = f"{labelling.rectified:.0%} of its usual weight"
        return f"Rectification counts for {weight}, because that predicted hidden labels better."
    return ""


def _rejection(labelling: Labelling) -> Iterator[str]:
    """The table of thresholds, where one was asked for and there are two classes."""
    if labelling.reject is None or len(labelling.task.class_names) == 1:
        return
    if text := no_label_left(labelling):
        yield text
    yield "threshold   labelled   right, by estimate"
    for line in rejection_table(labelling):
        right = "-" if line.right is None else _plain(line.right)
        threshold = f"{line.threshold:g}" if line.threshold else "none"
        yield f"{threshold:>9}{line.n:>11,}{right:>11}"


def no_label_left(labelling: Labelling) -> str:
    """That the threshold leaves no label, and which one would; empty if it leaves some."""
    labelled, uncertain = ((labelling.status == STATUSES.index(name)).any() for name in ("labelled", "uncertain"))
    if labelling.reject is None or labelled or not uncertain:
        return ""
    largest = f"{largest_threshold(labelling):.8f}".rstrip("0")
    return f"--reject {labelling.reject:g} leaves no label; the largest threshold that leaves one is {largest}."


def _plain(share: float) -> str:
    return percent(share).replace("\u00a0", "")


def _findings(labelling: Labelling) -> Iterator[str]:
    if labelling.findings:
        yield "Look at these:"
    for finding in labelling.findings[:_MOST]:
        yield f"  {finding.kind}: {visible(finding.text)}"
    if len(labelling.findings) > _MOST:
        yield f"  … and {len(labelling.findings) - _MOST:,} more in the report"


def _next(labelling: Labelling) -> Iterator[str]:
    if labelling.label_next:
        n = len(labelling.label_next)
        yield "Label this one next:" if n == 1 else f"Label these {n} next:"
    for advice in labelling.label_next:
        yield f"  {visible(labelling.task.names[advice.item])}  ({visible(advice.reason)})"
    if labelling.label_next:
        yield f"  How: {how_to_label(labelling)}"


def how_to_label(labelling: Labelling) -> str:
    """What a user does to label an item, in a sentence."""
    if "model" in labelling.made_with:
        what = "pictures" if labelling.task.paths else "rows"
        return f"label them among the {what} that the model was made from, and save it again."
    in_a_file = (
        'write the class of each into the column label of labels.csv and "given" into the column status, and give that '
        "file with --labels"
    )
    if labelling.task.paths and labelling.made_with.get("labels") == FOLDERS:
        return f"move each into the folder of its class and run the same command again; or {in_a_file}."
    return f"{in_a_file}."


def said(value: Any) -> str:
    """A setting in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {said(inner)}" for name, inner in value.items())
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


def _times(labelling: Labelling) -> Iterator[str]:
    n = len(labelling.task.names)
    yield f"Time for {n:,} items: {', '.join(f'{stage} {took:.1f} s' for stage, took in labelling.seconds.items())}"


def stages_line(stages: Mapping[str, Stage]) -> str:
    """How fast each part of embedding was: the images it did, not those that were done before."""
    parts = [f"{name} {stage.rate:,.0f}" for name, stage in stages.items() if stage.images]
    return f"Images per second: {', '.join(parts)}" if parts else "All embeddings were made before."
