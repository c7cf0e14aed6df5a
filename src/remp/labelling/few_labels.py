"""How much the labelled items weigh against the others, by how many there are."""

from dataclasses import replace

import numpy as np

from remp.rectification.propagate import Propagation

# With this many labels a class, they get half of the weight at most.
_HALF_AT = 10


def with_fitting_share(settings: Propagation, counts: np.ndarray) -> Propagation:
    """The settings with a label_share of at most K / (K + 10), K being the harmonic mean of the labels of a class (N,).

    A prototype that leans on one or two labels stays where chance put them: on validation classes, half of the weight
    cost 2.7 points with one label a class, and 15 with squared distances (results/tries/label_quality.md).
    """
    n_shot = 1 / np.mean(1 / counts)
    return replace(settings, label_share=min(settings.label_share, float(n_shot / (n_shot + _HALF_AT))))
