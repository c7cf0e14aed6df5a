"""What a user should look at before trusting the labels: doubtful or easy labels, thin classes, classes alike;
duplicates are in a file of their own."""

import re
import unicodedata

import numpy as np

from remp.labelling.outcome import Finding
from remp.labelling.tasks import Items
from remp.propagation.calibration import WRONG_SHARES, Calibration
from remp.propagation.held_out import HeldOut, ease_of
from remp.rectification.similarity import cosine
from remp.untrusted import listed

# Findings of a kind that are told one by one; names in a list.
MOST, MOST_NAMES = 20, 5
# Suspicious labels that are told.
_MOST_SUSPICIOUS = 200
# A label is suspicious if it is wrong with more than this probability: results/tries/robustness.md.
LEAST_WRONG = 0.25
# Hidden labels are guessed if so large a share of guesses would have as many right, among so many labels or more.
_AS_GUESSED, _LEAST_HIDDEN = 0.15, 8
# Labelled items are told to be easy ones if they are so by more than this, as of `ease_of` with 2 standard errors.
_CLEARLY_EASY, _ERRORS = 0.05, 2.0
# Two classes are alike if more than this share of their items is expected to get the label of the other.
_MIXED = 0.15


def suspicious_labels(task: Items, held_out: HeldOut, calibration: Calibration) -> list[Finding]:
    """Labelled items that would be of another class without their label, and whose label may well be wrong; the worst
    first, with the nearest other example of either class. Where a whole class is not recognised, that says nothing
    against a single label."""
    if not len(held_out) or held_out.scores.shape[1] == 1:
        return []
    probabilities = calibration.probabilities(held_out.scores).numpy()
    wrong = wrong_probabilities(probabilities, held_out.labels)
    is_known = ~np.isin(held_out.labels, _unrecognised(held_out))
    doubtful = np.flatnonzero((wrong > LEAST_WRONG) & is_known)
    doubtful = doubtful[np.argsort(-wrong[doubtful], kind="stable")][:_MOST_SUSPICIOUS]
    return [_suspicion(task, held_out, int(i), probabilities[i]) for i in doubtful]


def wrong_probabilities(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How probably each label (m,) is wrong, by the probabilities (m, N) of the classes while it was hidden; 0 if it is
    of the likeliest class.

    A share of the labels is taken to be given at random, and the others by the probabilities. How large that share is
    follows from all labels together: where nearly all are predicted, a single one that is not is hardly suspected.
    """
    n_classes, shares = probabilities.shape[1], np.array(WRONG_SHARES)
    own = probabilities[np.arange(len(labels)), labels]
    likelihood = np.log((1 - shares) * own[:, None] + shares / n_classes).sum(0)
    weights = np.exp(likelihood - likelihood.max())
    share = weights @ shares / weights.sum()
    at_random = share / n_classes / (share / n_classes + (1 - share) * own)
    return np.where(probabilities.argmax(1) == labels, 0.0, at_random)


def _suspicion(task: Items, held_out: HeldOut, place: int, probabilities: np.ndarray) -> Finding:
    """Of the held-out item at this place, with its probabilities (N,)."""
    item, own = int(held_out.items[place]), int(held_out.labels[place])
    other = int(np.where(np.arange(len(probabilities)) == own, -1, probabilities).argmax())
    similar = cosine(held_out.features[place : place + 1], held_out.features)[0].numpy()
    similar[place] = -2
    beside = [
        int(held_out.items[np.where(held_out.labels == number, similar, -3).argmax()])
        for number in (own, other)
        if (held_out.labels[np.arange(len(held_out)) != place] == number).any()
    ]
    share = f"{probabilities[other]:.0%}" if probabilities[other] < 0.995 else ">99%"
    text = (
        f"{task.names[item]} is labelled {task.class_names[own]!r}, but without that label it would be "
        f"{task.class_names[other]!r} ({share})"
    )
    return Finding("suspicious label", text, (item,), (task.class_names[other],), tuple(beside))


def guessed_labels(held_out: HeldOut) -> list[Finding]:
    """One finding if no more hidden labels were predicted than guessing might have predicted, too."""
    n_hidden, n_classes = held_out.scores.shape
    if n_classes == 1 or n_hidden < _LEAST_HIDDEN:
        return []
    from scipy.special import bdtrc

    n_right = int((held_out.scores.argmax(-1).numpy() == held_out.labels).sum())
    if n_right and bdtrc(n_right - 1, n_hidden, 1 / n_classes) < _AS_GUESSED:
        return []
    text = (
        f"{n_right:,} of {n_hidden:,} labels were predicted while they were hidden, and guessing would give "
        f"{n_hidden / n_classes:,.0f}: these features may not show what tells the classes apart. See whether these "
        "labels are right, label more items, or try other features"
    )
    return [Finding("hardly better than guessing", text)]


def easy_examples(held_out: HeldOut, resemblance: np.ndarray) -> list[Finding]:
    """One finding if the labelled items resemble their classes clearly more than the others do, (k,) as of Likeness."""
    if ease_of(held_out.resemblance, resemblance, _ERRORS) <= _CLEARLY_EASY:
        return []
    text = (
        f"a labelled item resembles its class more than {0.5 + ease_of(held_out.resemblance, resemblance, 0.0):.0%} of "
        "the others do; if labelled items were like the others, that would be half of them. The labelled ones may be "
        "typical, or some of the others of no class. Probabilities are lowered for that, and more items are called "
        "unknown; labels of items that are not typical would mend both"
    )
    return [Finding("easy examples", text)]


def unrecognised_classes(task: Items, held_out: HeldOut) -> list[Finding]:
    """The classes of which no label was predicted while it was hidden, in one finding."""
    lost = _unrecognised(held_out)
    if not len(lost):
        return []
    hidden = np.isin(held_out.labels, lost)
    names = listed([repr(task.class_names[number]) for number in lost], MOST_NAMES)
    if len(lost) == 1:
        subject, whose, these = f"class {names} is", f"its {hidden.sum():,}", "this class"
    else:
        subject, whose, these = f"{len(lost)} classes ({names}) are", f"their {hidden.sum():,}", "these classes"
    text = (
        f"{subject} not recognised: none of {whose} labelled items would get its label if that were hidden. See "
        f"whether these labels are right, and label more items of {these}"
    )
    items = tuple(np.sort(held_out.items[hidden]).tolist())
    return [Finding("unrecognised class", text, items, tuple(task.class_names[number] for number in lost))]


def _unrecognised(held_out: HeldOut) -> np.ndarray:
    """Numbers of the classes none of whose hidden labels was predicted."""
    is_right = held_out.scores.argmax(-1).numpy() == held_out.labels
    return np.setdiff1d(held_out.labels, held_out.labels[is_right])


def single_examples(task: Items) -> list[Finding]:
    """The classes with one labelled item, in one finding."""
    counts = np.bincount(task.labels[task.is_labelled], minlength=len(task.class_names))
    thin = np.flatnonzero(counts == 1)
    if not len(thin):
        return []
    names = listed([repr(task.class_names[number]) for number in thin], MOST_NAMES)
    if len(thin) == 1:
        text = f"class {names} has one labelled item: a second one would tell how well it is recognised"
    else:
        text = (
            f"{len(thin)} classes ({names}) have one labelled item each: a second one of each would tell how well they "
            "are recognised"
        )
    items = tuple(np.flatnonzero(np.isin(task.labels, thin)).tolist())
    return [Finding("single example", text, items, tuple(task.class_names[number] for number in thin))]


def similar_names(task: Items) -> list[Finding]:
    """Classes whose names differ only in case, or in what stands between words, as two spellings of one class do."""
    read_alike: dict[str, list[str]] = {}
    for name in task.class_names:
        folded = unicodedata.normalize("NFKC", name).casefold()
        read_alike.setdefault(re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", folded.strip()), []).append(name)
    return [
        Finding(
            "similar classes",
            f"{listed([repr(name) for name in names], MOST_NAMES)} are classes of their own, but read alike: if they "
            "are one, give them one name",
            classes=tuple(names),
        )
        for names in read_alike.values()
        if len(names) > 1
    ][:MOST]


def similar_classes(task: Items, confusion: np.ndarray) -> list[Finding]:
    """Pairs of classes that are expected to be mixed up, the worst first. confusion: (N, N) as in Labelling."""
    mixed = np.triu(confusion + confusion.T, 1)
    sizes = confusion.sum(1)
    share = mixed / np.maximum(sizes[:, None] + sizes[None], 1e-9)
    first, second = np.nonzero(share > _MIXED)
    order = np.argsort(-share[first, second], kind="stable")[:MOST]
    return [
        Finding(
            "similar classes",
            f"{task.class_names[i]!r} and {task.class_names[j]!r} look alike: about {mixed[i, j]:,.0f} of their "
            f"{sizes[i] + sizes[j]:,.0f} items are expected to get the label of the other",
            classes=(task.class_names[i], task.class_names[j]),
        )
        for i, j in zip(first[order], second[order], strict=True)
    ]
