"""
Train on some characters, recognise others
==========================================

A short training on ``glyphs``, a data set that is drawn on your machine from fonts, and a test on scripts that the
network has never seen.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import remp

# %%
# Training classes and test classes have nothing in common: letters of some scripts for training, of other scripts for
# testing.

train_set, test_set = remp.open_data("glyphs", "train"), remp.open_data("glyphs", "test")
print(f"{train_set.n_classes} training classes, {test_set.n_classes} test classes")

figure, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for row, images in zip(axes, (train_set, test_set), strict=True):
    for cell, number in zip(row, np.linspace(0, len(images.images) - 1, 10).astype(int), strict=True):
        cell.imshow(images.images[number, :, :, 0], cmap="gray_r")
        cell.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("train")
axes[1, 0].set_ylabel("test")
plt.show()

# %%
# Settings are a plain mapping; `Training <../training.html>`_ explains them. This run takes ten seconds, with a
# quarter of the usual width: it shows how learning goes, not how far it gets.

settings = {
    "data": "glyphs",
    "width": 16,
    "n_way": 15,
    "n_query": 3,
    "episodes": 400,
    "learning_rate": 0.03,
    "schedule_of_rate": "cosine",
    "warmup": 20,
    "nesterov": True,
    "alpha": 1.0,
    "train_layers": 0,
    "crop_area": [0.7, 1.0],
    "flip": False,  # a mirrored letter may be another letter
    "validate_every": 50,
    "validation_episodes": 50,
}

with tempfile.TemporaryDirectory() as folder:
    checkpoint = remp.train(settings, out=Path(folder) / "run", print_settings=False)
    lines = [json.loads(line) for line in (Path(folder) / "run" / "log.jsonl").read_text().splitlines()]
    trained = {layers: remp.load(checkpoint, layers=layers) for layers in (0, 10)}

# %%
# The log of the run has one line for each validation.

history = [(line["episodes"], line["accuracy"]) for line in lines if "accuracy" in line]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(*zip(*((episodes, 100 * accuracy) for episodes, accuracy in history), strict=True), "o-")
axes.axhline(20, color="grey", lw=1)
axes.set(xlabel="training episodes", ylabel="validation accuracy, %", title="5-way 1-shot; grey: guessing")
plt.show()

# %%
# The same weights without and with rectification, on the same 100 episodes of the test classes.

protocol = remp.Protocol(n_way=5, n_shot=1, n_query=15)
results = {n: remp.evaluate(model, test_set, protocol, n_episodes=100) for n, model in trained.items()}
for n, result in results.items():
    print(f"{n:2} layers: {result.estimate.percent()}")
print("difference:", remp.paired_difference(results[10].accuracies, results[0].accuracies).percent())
