"""Exact rectification of any number of rows: the labelled ones are the support, the others the queries."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from remp.errors import ConfigError, DataError
from remp.rectification import Metric, Rectification
from remp.rectification.layer import QuerySums, State, attention_weights, evened, query_sums, scores
from remp.rectification.number_range import largest_safe, to_dtype_from_best
from remp.rectification.transform import RowTransform, TransformOfRows, fit_transform
from remp.rows import Block, Rows, Shard, shard_of
from remp.rows.dataset import as_rows


@dataclass(frozen=True, kw_only=True)
class Propagation(TransformOfRows, Rectification):
    """The switches of `propagate`: those of Rectification, with the defaults that serve thousands of rows best.

    Parameters
    ----------
    transform : str
        What is done to the rows first: "none", or parts of "power+l2+centre". centre takes the mean over all rows.
    layers, repulsion, row_norm, similarity, scale, residual, threshold, step, label_share, balanced
        As in :class:`remp.Rectification`.

    Examples
    --------
    >>> from remp import Propagation
    >>> Propagation().label_share, Propagation(layers=3, transform="l2").layers
    (0.5, 3)
    """

    similarity: Metric = "cosine"
    scale: float = 40.0
    residual: bool = False
    label_share: float = 0.5
    transform: str = "power+l2+centre"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_transform()


class Views(NamedTuple):
    """Logits (m, N) of the same rows: as they are decided by, with the prototypes before rectification, and without
    rectification at all."""

    logits: Tensor
    before: Tensor
    plain: Tensor


@dataclass(frozen=True)
class Propagated:
    """Prototypes of N classes, and what is needed to compare rows with them. `propagate` returns it.

    Parameters
    ----------
    settings : Propagation
        The switches it was made with.
    prototypes_before : Tensor
        (N, d) class means of the labelled rows, transformed.
    prototypes : Tensor
        (N, d) in the space of the last layer.
    centre : Tensor or None
        (d,) the mean that the transform subtracts.
    bias : Tensor or None
        (N,) added to the logits if balanced.
    growth : float
        By what factor `residual` has enlarged the space.
    moves : tuple of float
        For each layer, the largest distance that a prototype moved, relative to the mean norm of the prototypes.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from remp import ArrayRows, propagate
    >>> rows = np.array([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.8]], dtype=np.float32)
    >>> found = propagate(ArrayRows(rows), np.array([0, 1, -1, -1]), 2)
    >>> found.logits(torch.from_numpy(rows)).argmax(1).tolist()
    [0, 1, 0, 1]
    """

    settings: Propagation
    prototypes_before: Tensor
    prototypes: Tensor
    centre: Tensor | None
    bias: Tensor | None
    growth: float
    moves: tuple[float, ...]

    def features(self, rows: Tensor) -> Tensor:
        """Rows as they are compared with the prototypes: raw (m, d) -> transformed (m, d)."""
        return RowTransform(self.settings.parts, self.centre)(rows.to(_float_type(rows)))

    def logits(self, rows: Tensor, *, rectified: bool = True) -> Tensor:
        """How near rows are to the prototypes: raw (m, d) -> (m, N).

        Parameters
        ----------
        rows : Tensor
            (m, d), not transformed.
        rectified : bool
            Whether to compare with the rectified prototypes, or with those before.

        Returns
        -------
        Tensor
            (m, N)
        """
        prototypes, growth = (self.prototypes, self.growth) if rectified else (self.prototypes_before, 1.0)
        queries = self.features(rows).to(prototypes.dtype) * growth
        logits = to_dtype_from_best(scores(prototypes, queries, self.settings).transpose(-1, -2), _float_type(rows))
        return logits + self.bias if rectified and self.bias is not None else logits

    def views(self, rows: Tensor) -> Views:
        """The logits of raw rows (m, d) with and without rectification."""
        before = self.logits(rows, rectified=False)
        return Views(self.logits(rows), before, before)


_DEFAULTS = Propagation()


def propagate(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Propagation = _DEFAULTS,
    *,
    shard: Shard | None = None,
) -> Propagated:
    """Refine the class prototypes of the labelled rows with all the others, with only one chunk of rows in memory.

    The result is that of `rectify` on the transformed rows, for any number of them.

    Parameters
    ----------
    rows : Rows
        n rows of d numbers: ArrayRows, ParquetRows, `parquet_dataset`, or a materialised Ray dataset, which Ray's tasks
        pass over.
    labels : ndarray
        (n,) class 0 … n_classes - 1, or -1 for an unlabelled row.
    n_classes : int
        Number of classes N.
    settings : Propagation
        The switches.
    shard : Shard, optional
        This process's share of the rows, if others pass over the rest.

    Returns
    -------
    Propagated
        `prototypes` (N, d), `prototypes_before` (N, d), how far they moved in each layer (`moves`), and
        `logits(rows)`: (m, d) -> (m, N).

    Examples
    --------
    >>> import numpy as np
    >>> from remp import ArrayRows, propagate
    >>> rows = np.array([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.8]], dtype=np.float32)
    >>> found = propagate(ArrayRows(rows), np.array([0, 1, -1, -1]), n_classes=2)
    >>> answers = [found.logits(chunk).argmax(1).tolist() for chunk in ArrayRows(rows).chunks()]
    >>> answers
    [[0, 1, 0, 1]]
    """
    if not isinstance(settings, Propagation):
        raise ConfigError(f"settings are {settings!r}; needed Propagation(...)")
    rows = as_rows(rows)
    labels = checked_labels(rows, labels, n_classes)
    shard = shard or shard_of(rows)
    transform, largest = fit_transform(rows, settings.parts, shard)
    is_large = largest > largest_safe(settings, None, len(rows))
    dtype = torch.float64 if is_large else torch.float32  # of products; their sums over chunks are in float64
    sums, counts = class_sums(rows, labels, n_classes, transform, shard)
    sums, counts = sums[None], counts.reshape(1, -1, 1)  # (1, N, d), (1, N, 1)
    start = state = State(settings, sums / counts, sums, counts)
    bias = torch.zeros(n_classes, 1, dtype=torch.float64) if settings.balanced else None
    moves = []
    for layer in range(settings.layers if (labels < 0).any() else 0):
        beta = settings.beta(layer, n_classes)
        work = partial(_sums_of_queries, state=state, beta=beta, bias=bias, transform=transform, dtype=dtype)
        seen, masses = _over_processes(*shard.total(work, rows, labels), shard)
        if bias is not None:
            bias = evened(bias, masses + counts[0])
        before, state = state, state.next(seen)
        moves.append(largest_move(before.prototypes[0] * (state.scale / before.scale), state.prototypes[0]))
    return Propagated(
        settings=settings,
        prototypes_before=start.prototypes[0].to(dtype),
        prototypes=state.prototypes[0].to(dtype),
        centre=transform.centre,
        bias=None if bias is None else bias[:, 0].float(),
        growth=state.scale,
        moves=tuple(moves),
    )


def checked_labels(rows: Rows, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """A copy that nobody can write to, so that every pass sees the same."""
    labels = np.array(labels)
    labels.flags.writeable = False
    if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
        raise DataError(
            f"got labels of shape {labels.shape} and type {labels.dtype} for {len(rows)} rows; "
            "needed one integer per row, -1 for an unlabelled one"
        )
    if len(labels) and not -1 <= labels.min() <= labels.max() < n_classes:
        raise DataError(f"got labels from {labels.min()} to {labels.max()}; needed -1 … {n_classes - 1}")
    missing = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=n_classes) == 0)
    if len(missing):
        raise DataError(f"class {missing[0]} has no labelled row ({len(missing)} such): label one row of each class")
    return labels


def _float_type(rows: Tensor) -> torch.dtype:
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def largest_move(before: Tensor, after: Tensor) -> float:
    """The largest distance that a prototype of (N, d) moved, relative to their mean norm, both in the same space."""
    distances = torch.linalg.vector_norm(after - before, dim=-1)
    return float(distances.max() / torch.linalg.vector_norm(before, dim=-1).mean().clamp(min=1e-12))


def class_sums(
    rows: Rows, labels: np.ndarray, n_classes: int, transform: RowTransform, shard: Shard
) -> tuple[Tensor, Tensor]:
    """Sums of the labelled rows of each class (N, d), and how many it has (N,), in float64."""
    work = partial(_sums_of_labelled, n_classes=n_classes, transform=transform)
    sums = shard.sum(shard.total(work, rows, labels))
    return sums, torch.from_numpy(np.bincount(labels[labels >= 0], minlength=n_classes)).double()


def _sums_of_labelled(block: Block, *, n_classes: int, transform: RowTransform) -> Tensor:
    """Sums of the labelled rows of a block, class by class (N, d)."""
    sums = torch.zeros(n_classes, block.rows.dim, dtype=torch.float64)
    for rows, labels in block.labelled():
        sums.index_add_(0, labels, transform(rows).double())
    return sums


def _sums_of_queries(
    block: Block, *, state: State, beta: float, bias: Tensor | None, transform: RowTransform, dtype: torch.dtype
) -> tuple[QuerySums, Tensor]:
    """What a layer needs to know of the queries of a block, and the sum of their attention to each class (N, 1)."""
    total, masses = _nothing(state), torch.zeros(state.prototypes.shape[-2], 1, dtype=torch.float64)
    state = state.to(dtype)
    for chunk in block.unlabelled():
        queries = state.propagated(transform(chunk)[None].to(dtype))  # (1, m, d)
        weights = attention_weights(state, queries, bias)  # (1, N, m)
        total = total + query_sums(weights, queries, beta, state.settings)
        if bias is not None:
            masses += weights[0].sum(-1, keepdim=True)
    return total, masses


def _nothing(state: State) -> QuerySums:
    """The sums over no queries. An attention is at most 1."""
    vectors, numbers = torch.zeros_like(state.support_sums), torch.zeros_like(state.support_counts)
    return QuerySums(vectors, numbers, vectors, numbers, torch.ones(1, 1, 1, dtype=torch.float64))


def _over_processes(sums: QuerySums, masses: Tensor, shard: Shard) -> tuple[QuerySums, Tensor]:
    """One message per layer: each process puts its smallest attention in a place of its own."""
    smallest = torch.zeros(shard.world, dtype=torch.float64)
    smallest[shard.rank] = sums.smallest.item()
    near, near_weight, far, far_count, smallest, masses = shard.sums(
        sums.near, sums.near_weight, sums.far, sums.far_count, smallest, masses
    )
    return QuerySums(near, near_weight, far, far_count, smallest.min().reshape(1, 1, 1)), masses
