"""
Several processes
=================

Label all rows of a file of embeddings from a few labels, with one process or as many as ``torchrun`` starts::

    python examples/05_label_rows_with_torchrun.py embeddings.npy labels.npy answers.npy
    torchrun --nproc-per-node 2 examples/05_label_rows_with_torchrun.py embeddings.npy labels.npy answers.npy

``embeddings.npy`` has the shape (n, dim); ``labels.npy`` has n class numbers from 0, -1 where the class is unknown.
Without files the script makes some up.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from remp import ArrayRows, Shard, current_shard, propagate

# %%
# Each process passes over its share of the rows. One message per layer adds up what they found, so that all have the
# same prototypes; ``gather`` brings the answers to the first process.


def label(embeddings: Path, labels_file: Path, answers: Path) -> None:
    shard = current_shard() or Shard()  # all rows if torchrun did not start this process
    rows, labels = ArrayRows(np.load(embeddings, mmap_mode="r")), np.load(labels_file)
    result = propagate(rows, labels, int(labels.max()) + 1, shard=shard)
    own = [result.logits(chunk).argmax(-1).numpy() for chunk in rows.chunks(*shard.span(len(rows)))]
    everything = shard.gather(np.concatenate([*own, np.empty(0, np.int64)]), len(rows))
    if everything is not None:  # the first process has the answers of all
        np.save(answers, np.where(labels < 0, everything, labels))
        print(f"labelled {np.sum(labels < 0)} of {len(rows)} rows with {shard.world} process(es)")


def make_up(folder: Path, n: int = 2000) -> list[Path]:
    random, truth = np.random.default_rng(0), np.arange(n) % 5
    np.save(folder / "embeddings.npy", random.normal(size=(5, 32))[truth] + random.normal(size=(n, 32)))
    np.save(folder / "labels.npy", np.where(np.arange(n) < 10, truth, -1))
    return [folder / "embeddings.npy", folder / "labels.npy", folder / "answers.npy"]


with tempfile.TemporaryDirectory() as folder:
    label(*([Path(name) for name in sys.argv[1:]] or make_up(Path(folder))))
