"""From the picture files of a task to their embeddings, each made only once and kept."""

import time
import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from remp.backbones.embedding import Embedder
from remp.labelling.embedding.cache import EmbeddingCache, KnownFiles, identity
from remp.labelling.embedding.pictures import Picture, read_picture, stacked
from remp.labelling.tasks import Items
from remp.rows import Shard
from remp.system.files import home
from remp.system.progress import Progress, progress
from remp.system.threads import read_ahead


@dataclass
class Stage:
    """How many images a stage has done, and in how many seconds: those of its threads together."""

    images: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, images: int = 1) -> None:
        self.images += images if seconds else 0
        self.seconds += seconds

    @property
    def rate(self) -> float:
        """Images per second."""
        return self.images / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Embedded:
    """The pictures of a task and their embeddings.

    task: without what could not be read. values: (n, dim) float32. content_hashes: (n,) equal for equal files.
    picture_hashes: (n,) uint64, of few different bits for pictures that look the same. n_cached: how many embeddings
    were there before. stages: "hash", "decode" and "network". seconds: all in all.
    """

    task: Items
    values: np.ndarray
    content_hashes: np.ndarray
    picture_hashes: np.ndarray
    n_cached: int
    stages: dict[str, Stage]
    seconds: float


def embed_pictures(
    task: Items, embedder: Embedder, cache_folder: Path | None = None, *, shard: Shard | None = None
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
    """Wait until all processes have come to this place."""
    shard.sum(torch.zeros(1))


class EmbeddingRun:
    """Embeds n files, step by step: first `take_cached`, then `embed` for those that are `left`.

    values: (n, dim), pictures: (n,) picture hashes, contents: (n,) content hashes, of the files that are done. reasons:
    number of a file that cannot be read -> why.
    """

    def __init__(self, paths: tuple[Path, ...], embedder: Embedder, folder: Path) -> None:
        n = len(paths)
        self.values, self.pictures = np.empty((n, embedder.dim), np.float32), np.empty(n, np.uint64)
        self.contents: list[bytes] = [b""] * n
        self.is_done, self.reasons = np.zeros(n, bool), dict[int, str]()
        self.stages = {"hash": Stage(), "decode": Stage(), "network": Stage()}
        self._paths, self._embedder = paths, embedder
        self._cache, self._known = EmbeddingCache(folder, embedder.hash, embedder.dim), KnownFiles(folder)
        self._rows: dict[bytes, int] = {}  # content hash -> the row that its embedding is in, or will be soon

    def left(self) -> list[int]:
        """Numbers of the files that are still to be embedded."""
        return [number for number in np.flatnonzero(~self.is_done).tolist() if number not in self.reasons]

    def take_cached(self) -> None:
        """Fill in what is in the cache, and what this run made of another file of the same content."""
        unread = [number for number in self.left() if not self.contents[number]]
        known = self._known.contents([identity(self._paths[number]) for number in unread])
        for number, content in zip(unread, known, strict=True):  # files that were read before and have not changed
            self.contents[number] = content or b""
        numbers: dict[bytes, list[int]] = {}
        for number in self.left():
            numbers.setdefault(self.contents[number], []).append(number)
        for content, row in self._rows.items():
            self._fill(numbers.pop(content, []), self.values[row], self.pictures[row])
        for content, values, picture in self._cache.take(set(numbers) - {b""}):
            self._fill(numbers[content], values, picture)

    def embed(self, numbers: list[int]) -> None:
        """Embed these files, and keep the embeddings batch by batch."""
        if not numbers:
            return
        known = self._cache.contents()
        readings = read_ahead(lambda i: read_picture(self._paths[i], self._embedder.side, known), numbers)
        batch: list[tuple[int, Picture]] = []
        with warnings.catch_warnings(), closing(readings), progress("embedding", len(numbers), unit="images") as bar:
            warnings.filterwarnings("ignore", module=r"PIL\.")  # of pictures that are read or skipped all the same
            for number, picture in zip(numbers, readings, strict=True):
                if self._is_new(number, picture):
                    batch.append((number, picture))
                if len(batch) == self._embedder.batch:
                    self._embed(batch, bar)
                    batch = []
                bar.advance()
            if batch:
                self._embed(batch, bar)

    def close(self) -> None:
        self._cache.close()
        self._known.close()

    def _is_new(self, number: int, picture: Picture) -> bool:
        """Note what a file holds; whether that is still to be embedded."""
        self.stages["hash"].add(picture.hash_seconds)
        self.stages["decode"].add(picture.decode_seconds)
        if picture.reason:
            self.reasons[number] = picture.reason
            return False
        self.contents[number] = picture.content
        if picture.identity:
            self._known.add(picture.identity, picture.content)
        if picture.pixels is None or picture.content in self._rows:
            return False
        self._rows[picture.content] = number
        return True

    def _embed(self, batch: list[tuple[int, Picture]], bar: Progress) -> None:
        started = time.perf_counter()
        values = self._embedder.embed(stacked(picture for _, picture in batch))
        self.stages["network"].add(time.perf_counter() - started, len(batch))
        for (number, picture), row in zip(batch, values, strict=True):
            self._fill([number], row, picture.picture)
        was_kept = not self._cache.problem
        self._cache.add([p.content for _, p in batch], values, np.array([p.picture for _, p in batch], np.uint64))
        if was_kept and self._cache.problem:
            bar.say(f"Embeddings cannot be kept for the next run ({self._cache.problem}). This one goes on without.")

    def _fill(self, numbers: list[int], values: np.ndarray, picture: int) -> None:
        for number in numbers:
            self.values[number], self.pictures[number], self.is_done[number] = values, picture, True
