"""From the picture files of a task to their embeddings, each made only once."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from remp.embedder import Embedder
from remp.labelling.embedding.run import EmbeddingRun, Stage
from remp.labelling.tasks.task import LabellingTask
from remp.rows import Shard
from remp.system.home import home


@dataclass(frozen=True)
class Embedded:
    """task: without what could not be read. values: (n, dim) float32. content_hashes: (n,) equal for equal files.
    picture_hashes: (n,) uint64, of few different bits for pictures that look the same. n_cached: how many embeddings
    were there before. stages: "hash", "decode" and "network". seconds: all in all."""

    task: LabellingTask
    values: np.ndarray
    content_hashes: np.ndarray
    picture_hashes: np.ndarray
    n_cached: int
    stages: dict[str, Stage]
    seconds: float


def embed_pictures(
    task: LabellingTask, embedder: Embedder, cache_folder: Path | None = None, *, shard: Shard | None = None
) -> Embedded:
    """The embeddings of all pictures of `task` that can be read; the others go to `skipped` with the reason.

    What was embedded before is taken from the cache, by default REMP_HOME/embeddings, and what is new is kept there
    batch by batch: a run that is stopped goes on where it was. shard: under torchrun, each process embeds its share
    and takes that of the others from the cache, which must be on a disk that they share.
    """
    shard, started = shard or Shard(), time.perf_counter()
    run = EmbeddingRun(task.paths, embedder, cache_folder or home() / "embeddings")
    try:
        run.take_cached()
        n_cached = int(run.is_done.sum())
        _wait(shard)  # nobody adds before all have looked, so that all see the same left to do
        run.embed(run.left()[shard.rank :: shard.world])
        _wait(shard)
        run.take_cached()
        while run.left():  # what the others could not read or not keep, and what is damaged in the cache
            run.embed(run.left())
            run.take_cached()
    finally:
        run.close()
    kept = np.flatnonzero(run.is_done)
    return Embedded(
        task=task.without(run.reasons),
        values=run.values if len(kept) == len(run.values) else run.values[kept],
        content_hashes=np.array([run.contents[number].hex() for number in kept], dtype=str),
        picture_hashes=run.pictures[kept],
        n_cached=n_cached,
        stages=run.stages,
        seconds=time.perf_counter() - started,
    )


def _wait(shard: Shard) -> None:
    """Until all processes are here."""
    shard.sum(torch.zeros(1))
