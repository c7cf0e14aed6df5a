"""Made-up labelling tasks: classes that are clouds around directions, as embeddings are."""

import numpy as np

from remp.labelling.tasks import Items


def clustered_task(
    seed: int = 0, *, n_classes: int = 4, n_shot: int = 3, n_unlabelled: int = 20, noise: float = 0.8, dim: int = 64
) -> tuple[Items, np.ndarray, np.ndarray]:
    """A task with n_shot labelled and n_unlabelled other items per class; its rows (n, dim) and true classes (n,)."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_classes, dim)) / np.sqrt(dim)
    truth = np.repeat(np.arange(n_classes), n_shot + n_unlabelled)
    rows = centres[truth] + noise * random.normal(size=(len(truth), dim)) / np.sqrt(dim)
    labels = np.where(np.arange(len(truth)) % (n_shot + n_unlabelled) < n_shot, truth, -1)
    names = tuple(f"item {number}" for number in range(len(truth)))
    task = Items(names, labels, tuple(f"class {number}" for number in range(n_classes)))
    return task, rows.astype(np.float32), truth
