"""What a user should look at before trusting the labels: doubtful labels, thin classes, classes alike; duplicates are
in a file of their own."""

import numpy as np

from remp.labelling.outcome import Finding
from remp.labelling.tasks import Items
from remp.propagation.calibration import Calibration
from remp.propagation.held_out import HeldOut
from remp.rectification.similarity import cosine
from remp.untrusted import listed

# Findings of a kind that are told one by one; names in a list.
MOST, MOST_NAMES = 20, 5
# Suspicious labels that are told.
_MOST_SUSPICIOUS = 200
# The share of right labels that may be suspected, if the probabilities are right.
_FALSE_ALARMS = 0.035
# Hidden labels are guessed if so large a share of guesses would have as many right, among so many labels or more.
_AS_GUESSED, _LEAST_HIDDEN = 0.05, 8
# Two classes are alike if more than this share of their items is expected to get the label of the other.
_MIXED = 0.15


def suspicious_labels(task: Items, held_out: HeldOut, calibration: Calibration) -> list[Finding]:
    """Labelled items that would be of another class without their label, by odds that few right labels have against
    them; the worst first, with the nearest other example of either class. Where a whole class is not recognised, that
    says nothing against a single label."""
    if not len(held_out) or held_out.scores.shape[1] == 1:
        return []
    probabilities = calibration.probabilities(held_out.scores).numpy()
    odds = odds_against(probabilities)
    own = odds[np.arange(len(held_out)), held_out.labels]
    is_known = ~np.isin(held_out.labels, _unrecognised(held_out))
    doubtful = np.flatnonzero((own > least_odds(probabilities, odds, _FALSE_ALARMS)) & is_known)
    doubtful = doubtful[np.argsort(-own[doubtful], kind="stable")][:_MOST_SUSPICIOUS]
    return [_suspicion(task, held_out, int(i), probabilities[i]) for i in doubtful]


def odds_against(probabilities: np.ndarray) -> np.ndarray:
    """(m, N) logarithm of the largest probability of another class over that of each class."""
    logs = np.log(np.maximum(probabilities, 1e-300))
    best, second = np.sort(logs, axis=1)[:, [-1, -2]].T[:, :, None]
    return np.where(np.arange(logs.shape[1]) == logs.argmax(1)[:, None], second, best) - logs


def least_odds(probabilities: np.ndarray, odds: np.ndarray, share: float) -> float:
    """The odds that this share of right labels has against it or more, were labels drawn by the probabilities; no
    label is doubtful while its own class is the likeliest, so at least 0."""
    order = np.argsort(-odds, axis=None, kind="stable")
    reached = np.cumsum(probabilities.ravel()[order]) / len(probabilities)
    place = min(int(np.searchsorted(reached, share)), len(order) - 1)
    return max(0.0, float(odds.ravel()[order[place]]))


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
    text = (
        f"{task.names[item]} is labelled {task.class_names[own]!r}, but without that label it would be "
        f"{task.class_names[other]!r} ({probabilities[other]:.0%})"
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
