"""
Rows that do not fit in memory
==============================

Rectification of rows in a file: the same prototypes as all at once, in the memory of one chunk of the rows. Run it with
``--n 1000000`` for a million rows.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from remp import ArrayRows, Propagation, propagate, rectify

parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=20_000)
n = parser.parse_args().n

random = np.random.default_rng(0)
n_classes, dim = 10, 64
truth = random.integers(n_classes, size=n)
truth[:n_classes] = np.arange(n_classes)
centres = random.normal(size=(n_classes, dim))
labels = np.where(np.arange(n) < n_classes, truth, -1)  # one labelled row of each class, then unlabelled ones
settings = Propagation(layers=10)

# %%
# The rows lie in a file of NumPy, which is mapped into memory and read in chunks, once per layer. For comparison, the
# dense form gets all rows at once.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "embeddings.npy"
    np.save(file, (centres[truth] + 1.5 * random.normal(size=(n, dim))).astype(np.float32))
    rows = ArrayRows(np.load(file, mmap_mode="r"))

    result = propagate(rows, labels, n_classes, settings)
    answers = torch.cat([result.logits(chunk).argmax(-1) for chunk in rows.chunks()])

    everything = torch.cat([result.features(chunk) for chunk in rows.chunks()])
    support, query = everything[None, :n_classes], everything[None, n_classes:]
    dense = rectify(support, torch.arange(n_classes)[None], query, n_classes, settings)

print(f"{n} rows in chunks of {rows.chunk}")
print(f"largest difference to the dense form: {(result.prototypes - dense.prototypes[0]).abs().max():.1e}")
print(f"same answers: {float((answers[n_classes:] == dense.logits[0].argmax(-1)).double().mean()):.4%}")
print(f"right: {float((answers.numpy() == truth)[n_classes:].mean()):.1%}")

# %%
# ``moves`` says how far the prototypes still moved in each layer. Once they stand still, more layers change nothing.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogy(range(1, len(result.moves) + 1), result.moves, "o-")
axes.set(xlabel="layer", ylabel="largest move, share of the mean norm", title="The prototypes come to rest")
plt.show()
