"""Passes over many rows, in memory for one chunk: what they sum up of the support, and of the queries for a layer."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.rectification.layer import QuerySums, Rectification, State, attention_weights, query_sums
from remp.rectification.row_transform import RowTransform
from remp.rows import Rows, Shard, chunk_rows


@dataclass(frozen=True)
class Passes:
    """labels: (n,) class 0 … n_classes - 1 of a row of the support, -1 of a query.

    Products of a chunk are made in `dtype`, and their sums over the chunks in float64.
    """

    rows: Rows
    labels: np.ndarray
    n_classes: int
    transform: RowTransform
    dtype: torch.dtype
    shard: Shard

    def start(self, settings: Rectification) -> State:
        """Class means of the support, in float64."""
        sums = torch.zeros(self.n_classes, self.rows.dim, dtype=torch.float64)
        for numbers in self._labelled():
            features = self.transform(self.rows.take(numbers))
            sums.index_add_(0, torch.from_numpy(self.labels[numbers]).long(), features.double())
        sums = self.shard.sum(sums)[None]  # (1, N, d)
        counts_of = np.bincount(self.labels[self.labels >= 0], minlength=self.n_classes)
        counts = torch.from_numpy(counts_of).double().reshape(1, -1, 1)
        no_support = torch.empty(1, self.n_classes, 0)
        return State(settings, sums / counts, sums, counts, one_hot=no_support, projection=None)

    def sums(self, state: State, beta: float, bias: Tensor | None = None) -> tuple[QuerySums, Tensor]:
        """All that a layer needs to know of the queries, and the sum of the attention (N,) to each class."""
        in_dtype = state.to(self.dtype)
        total, masses = _nothing(state), torch.zeros(self.n_classes, dtype=torch.float64)
        for chunk in self._unlabelled():
            queries = state.propagated(self.transform(chunk)[None].to(self.dtype))  # (1, m, d)
            weights = attention_weights(in_dtype, queries, bias)  # (1, N, m)
            total = total + query_sums(weights, queries, beta, state.settings)
            if bias is not None:
                masses += weights[0].sum(-1)
        return _over_processes(total, masses, self.shard)

    def _labelled(self) -> Iterator[np.ndarray]:
        """The numbers of the labelled rows of this share, in pieces."""
        first, stop = self.shard.span(len(self.rows))
        numbers, piece = first + np.flatnonzero(self.labels[first:stop] >= 0), chunk_rows(self.rows.dim)
        return (numbers[at : at + piece] for at in range(0, len(numbers), piece))

    def _unlabelled(self) -> Iterator[Tensor]:
        """The unlabelled rows of this share, in chunks."""
        first, stop = self.shard.span(len(self.rows))
        for chunk in self.rows.chunks(first, stop):
            is_query = self.labels[first : first + len(chunk)] < 0
            first += len(chunk)
            if is_query.any():
                yield chunk if is_query.all() else chunk[torch.from_numpy(is_query)]


def _nothing(state: State) -> QuerySums:
    """The sums over no queries. An attention is at most 1."""
    vectors, numbers = torch.zeros_like(state.support_sums), torch.zeros_like(state.support_counts)
    return QuerySums(vectors, numbers, vectors, numbers, torch.ones(1, 1, 1, dtype=torch.float64))


def _over_processes(sums: QuerySums, masses: Tensor, shard: Shard) -> tuple[QuerySums, Tensor]:
    """One message a layer: each process puts its smallest attention in a place of its own."""
    smallest = torch.zeros(shard.world, dtype=torch.float64)
    smallest[shard.rank] = sums.smallest.item()
    near, near_weight, far, far_count, smallest, masses = shard.sums(
        sums.near, sums.near_weight, sums.far, sums.far_count, smallest, masses
    )
    return QuerySums(near, near_weight, far, far_count, smallest.min().reshape(1, 1, 1)), masses
