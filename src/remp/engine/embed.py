"""`remp embed`: pictures to a Parquet dataset of embeddings, block by block; what is finished is not done again."""

import threading
import time
import warnings
from collections.abc import Generator, Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remp.backbones.embedding import Embedder
from remp.datasets.decode import UnreadablePicture
from remp.engine import Engine, Threads
from remp.engine.parts import EmbeddingParts, Part
from remp.engine.picture_blocks import Block, Item, find_blocks, picture_bytes
from remp.errors import ConfigError, DataError
from remp.labelling.embedding.cache import EmbeddingCache, digest
from remp.labelling.embedding.pictures import Picture, stacked
from remp.labelling.output.result_folder import check_outside
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.system.files import Place, home, place
from remp.system.memory import keep_freed_memory
from remp.system.progress import progress
from remp.system.threads import read_ahead

BLOCK = 1024  # pictures in a part: the most that is lost with a worker


@dataclass(frozen=True)
class EmbeddedParts:
    """What `embed` made. folder: where the parts are. n: pictures in them, n_before: of these, those of earlier runs.
    skipped: (name, reason) of the pictures that cannot be read. problems: what kept whole blocks from being read."""

    folder: Place
    n: int
    n_before: int
    skipped: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    seconds: float


def embed(
    source: str | Path,
    out: str | Path,
    *,
    backbone: str | Embedder = DEFAULT_EMBEDDER,
    side: int | None = None,
    block: int = BLOCK,
    engine: Engine | None = None,
) -> EmbeddedParts:
    """Embed all pictures of `source` into the Parquet dataset `out`; what is finished there is not done again.

    Parameters
    ----------
    source : str or Path
        A folder of pictures, or Parquet with a column `image` (bytes) or `path`; on this machine, or an address such as
        s3://bucket/folder.
    out : str or Path
        A new folder, or that of a run that was stopped or has new pictures to add.
    backbone, side
        As in :class:`remp.LabelOptions`.
    block : int
        Pictures in a part.
    engine : RayEngine, optional
        By default threads of this process, which take what `remp label` has embedded before from its cache.

    Returns
    -------
    EmbeddedParts
        `folder`, `n` embeddings in it and `n_before` that were there already, and what was `skipped`, with reasons.

    Examples
    --------
    >>> import remp
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Path("photos").mkdir()
    >>> for shade in (0, 90, 180):
    ...     Image.new("RGB", (40, 40), (shade, 128, 255 - shade)).save(f"photos/{shade}.png")
    >>> done = remp.embed("photos", "embedded", backbone="cifar-fs-convnet64-1shot")
    >>> done.n, done.n_before, done.skipped
    (3, 0, ())
    >>> rows = remp.parquet_dataset("embedded")
    >>> len(rows), rows.dim
    (3, 256)
    """
    if block < 1:
        raise ConfigError(f"got a block of {block} pictures; needed 1 or more")
    started, target = time.perf_counter(), place(out)
    if target.is_local and place(source).is_local:
        check_outside(target.path, place(source).path, "--out")
    embedder = find_embedder(backbone, side=side)
    found, left_out = find_blocks(place(source), block)
    parts = EmbeddingParts(target)
    blocks = parts.begin(place(source), embedder, found)
    done = parts.finished(blocks)
    left = [number for number in range(len(blocks)) if number not in done]
    n_before = sum(len(blocks[number]) - len(done[number]) for number in done)
    n, n_done = n_before, sum(len(blocks[number]) for number in done)
    skipped, problems = [*left_out, *(one for some in done.values() for one in some)], list[str]()
    with (
        closing(_SharedCache(embedder)) if engine is None else nullcontext() as cache,
        warnings.catch_warnings(),
        progress("embedding", sum(map(len, blocks)), unit="pictures", done=n_done) as bar,
    ):
        warnings.filterwarnings("ignore", module=r"PIL\.")  # such pictures are read, or skipped with a reason
        work = EmbedBlock(embedder, cache)
        for at, part in (engine or Threads()).finished(work, [blocks[number] for number in left]):
            number = left[at]
            if part.problem:
                problems.append(part.problem)
                bar.say(part.problem)
            else:
                parts.write(number, blocks[number], part)
                n += len(part.names)
                skipped += part.skipped
            bar.advance(len(blocks[number]))
    skipped.sort()
    if skipped:
        parts.write_skipped(skipped)
    seconds = time.perf_counter() - started
    return EmbeddedParts(target, n, n_before, tuple(skipped), tuple(problems), seconds)


@dataclass(frozen=True)
class EmbedBlock:
    """The part of a block. Pictures go through the network in batches that depend on the block alone, so that the
    numbers are the same whoever embeds it; those that a cache knows are taken from there."""

    embedder: Embedder
    cache: "_SharedCache | None" = None

    def stop(self) -> None:
        """Blocks that are begun end early. What they have embedded is in the cache, and no part comes of them."""
        if self.cache:
            self.cache.is_stopped.set()

    def __call__(self, block: Block) -> Part:
        keep_freed_memory()  # the next batch reuses it: fresh pages cost a fifth of the time
        try:
            return self._part(block)
        except DataError as error:  # of a Parquet file that cannot be read
            return Part(problem=str(error))

    def _part(self, block: Block) -> Part:
        made, skipped = _Made(self.embedder), list[tuple[str, str]]()
        known = self.cache.contents if self.cache else set[bytes]()
        read: list[tuple[Item, bytes]] = []  # each with its content hash
        with closing(self._readings(block.items(), known)) as readings:
            for item, picture in readings:
                if self.cache and self.cache.is_stopped.is_set():
                    break
                if picture.reason:
                    skipped.append((item.name, picture.reason))
                    continue
                made.take(picture)
                read.append((item, picture.content))
        made.flush()
        if self.cache:
            wanted = {content for _, content in read} - made.rows.keys()
            made.rows.update(self.cache.take(wanted))
            damaged = (item for item, content in read if content not in made.rows)
            for _, picture in self._readings(damaged, set()):
                made.take(picture)
            made.flush()
            self.cache.add(made)
        rows = [made.rows[content] for _, content in read]
        return Part(
            names=[item.name for item, _ in read],
            contents=[content for _, content in read],
            pictures=np.array([picture for _, picture in rows], np.uint64),
            values=np.stack([row for row, _ in rows]) if rows else np.empty((0, self.embedder.dim), np.float32),
            labels=[item.label for item, _ in read],
            skipped=skipped,
        )

    def _readings(self, items: Iterable[Item], known: set[bytes]) -> Generator[tuple[Item, Picture], None, None]:
        return read_ahead(lambda item: _read(item, self.embedder.side, known), items, ahead=16)


def _read(item: Item, side: int, known: set[bytes]) -> tuple[Item, Picture]:
    if item.content is None:
        return item, Picture(reason="an empty cell")
    picture = Picture()
    try:
        content = picture_bytes(item.content)
        picture.content = digest(content)
        if picture.content not in known:
            picture.decode(content, side)
    except UnreadablePicture as error:
        picture.reason = str(error)
    return item, picture


class _Made:
    """Embeds the pictures of a block, batch by batch. rows: content hash -> embedding and picture hash. new: content
    hashes of what was embedded here rather than taken from a cache."""

    def __init__(self, embedder: Embedder) -> None:
        self.rows: dict[bytes, tuple[np.ndarray, int]] = {}
        self.new: list[bytes] = []
        self._embedder, self._batch = embedder, dict[bytes, Picture]()

    def take(self, one: Picture) -> None:
        """Embed a picture with the next batch, unless its content is there already."""
        if one.pixels is None or one.content in self.rows or one.content in self._batch:
            return
        self._batch[one.content] = one
        if len(self._batch) == self._embedder.batch:
            self.flush()

    def flush(self) -> None:
        if not self._batch:
            return
        values = self._embedder.embed(stacked(self._batch.values()))
        for one, row in zip(self._batch.values(), values, strict=True):
            self.rows[one.content] = (row, one.picture)
        self.new += self._batch
        self._batch = {}


class _SharedCache:
    """The embeddings that `remp label` keeps, for several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._cache = EmbeddingCache(home() / "embeddings", embedder.hash, embedder.dim)
        self._lock, self.is_stopped = threading.Lock(), threading.Event()
        self.contents = self._cache.contents()

    def take(self, wanted: set[bytes]) -> dict[bytes, tuple[np.ndarray, int]]:
        if not wanted:
            return {}
        with self._lock:
            return {content: (row, picture) for content, row, picture in self._cache.take(wanted)}

    def add(self, made: _Made) -> None:
        if made.new:
            rows = [made.rows[content] for content in made.new]
            with self._lock:
                self._cache.add(made.new, np.stack([row for row, _ in rows]), np.array([p for _, p in rows], np.uint64))

    def close(self) -> None:
        self._cache.close()
