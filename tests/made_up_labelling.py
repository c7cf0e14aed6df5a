"""A labelling made up from random features, where nothing needs to be computed well."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from remp.labelling.outcome import AccuracyEstimate, Advice, Finding, Labelling
from remp.labelling.tasks import Items

DIMENSIONS, N_UNKNOWN = 8, 3


def made_up_labelling(
    class_names: Sequence[str], n: int, *, n_given: int = 2, paths: Sequence[Path] = (), **changes: Any
) -> Labelling:
    """n items, the class of each drawn at random; the first n_given of each class are given, the last few unknown."""
    random = np.random.default_rng(0)
    n_classes = len(class_names)
    truth = np.concatenate([np.tile(np.arange(n_classes), n_given), random.integers(0, n_classes, n)])[:n]
    centres = random.normal(size=(n_classes, DIMENSIONS))
    features = centres[truth] + 0.6 * random.normal(size=(n, DIMENSIONS))
    given = np.arange(n) < n_given * n_classes
    examples = np.stack(
        [features[given & (truth == c)].mean(0) if given.any() else centres[c] for c in range(n_classes)]
    )
    made_up = labelling_from(features, np.where(given, truth, -1), examples, centres, class_names, paths)
    return replace(made_up, **changes)


def labelling_from(
    features: np.ndarray,
    labels: np.ndarray,
    prototypes_before: np.ndarray,
    prototypes: np.ndarray,
    class_names: Sequence[str],
    paths: Sequence[Path] = (),
) -> Labelling:
    """The labelling of items with these features: softmax over distances to the prototypes."""
    n, n_classes = len(features), len(class_names)
    probabilities = softmax_of_distances(features, prototypes)
    order = np.argsort(-probabilities, axis=1)
    best, runner_up = order[:, 0], order[:, 1] if n_classes > 1 else np.full(n, -1)
    probability = probabilities[np.arange(n), best]
    status = np.where(labels >= 0, 0, np.where(probability < min(0.5, 1.2 / n_classes + 0.2), 2, 1))
    status[np.flatnonzero(labels < 0)[-N_UNKNOWN:]] = 3
    unlabelled = probabilities[labels < 0]
    return Labelling(
        task=Items(
            tuple(path.name for path in paths) or tuple(map(str, range(n))), labels, tuple(class_names), tuple(paths)
        ),
        labels=np.where(labels >= 0, labels, np.where(status == 1, best, -1)),
        best=best,
        runner_up=runner_up,
        probability=probability,
        margin=probability - (probabilities[np.arange(n), runner_up] if n_classes > 1 else 0),
        status=status,
        before=softmax_of_distances(features, prototypes_before).argmax(1),
        confusion=unlabelled.T @ np.eye(n_classes)[best[labels < 0]],
        expected_sizes=unlabelled.sum(0),
        sample=np.arange(n),
        sample_features=features,
        prototypes_before=prototypes_before,
        prototypes=prototypes,
        estimate=AccuracyEstimate(0.873, 0.822, 0.914, 0.95, "the probabilities of the 40 unlabelled items."),
        findings=(),
        label_next=tuple(Advice(int(item), "between two classes") for item in np.flatnonzero(labels < 0)[:10]),
        seconds={"read": 1.25, "embed": 20.5},
    )


def softmax_of_distances(features: np.ndarray, prototypes: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """(n, d) and (N, d) -> (n, N)"""
    logits = -scale * ((features[:, None] - prototypes) ** 2).sum(-1)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def write_pictures(folder: Path, n: int, side: int = 24) -> list[Path]:
    """n small PNGs, each with noise of its own."""
    random = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"picture {number:05d}.png" for number in range(n)]
    for path in paths:
        Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path, compress_level=1)
    return paths


def every_finding(n: int = 4) -> tuple[Finding, ...]:
    return (
        Finding("suspicious label", "a.png was given as dog, but looks like cat.", (0,)),
        Finding("exact duplicates", "Two items are the same, byte for byte.", (1, 2)),
        Finding("near duplicates", "Two items are almost the same.", (2, 3)),
        Finding("single example", "wolf has one labelled example.", ()),
        Finding("similar classes", "wolf and dog look alike.", tuple(range(n))),
    )
