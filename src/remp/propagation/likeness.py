"""How much a row resembles the nearest class, to find rows of no class: by the labelled rows alone, not centred.

Rectified prototypes would not do: a heap of strangers draws the nearest one to itself, and looks at home there.
Nor would centred rows: what lies between the classes is the centre, and strangers lie elsewhere.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.rectification.propagate import Passes
from remp.rectification.similarity import cosine
from remp.rectification.transform import FeatureTransform, RowTransform
from remp.rows import Rows, Shard


@dataclass(frozen=True)
class Likeness:
    """transform: of rows, without centring. means: (N, d) of the labelled rows of each class, transformed."""

    transform: RowTransform
    means: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Cosine with the nearest class mean: raw rows (m, d) -> (m,)."""
        return cosine(self.transform(rows.float()), self.means).amax(-1)


def fit_likeness(rows: Rows, labels: np.ndarray, n_classes: int, parts: FeatureTransform, shard: Shard) -> Likeness:
    """labels: (n,), -1 for unlabelled."""
    transform = RowTransform(replace(parts, centre=False))
    sums, counts = Passes(rows, labels, n_classes, transform, torch.float32, shard).label_sums()
    return Likeness(transform, (sums / counts[:, None]).float())
