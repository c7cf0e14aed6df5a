"""
Label a folder of pictures
==========================

Three examples of each digit in folders of their names, 200 pictures beside them, and one call. The pictures are
scikit-learn's handwritten digits; the features come from a small network that ships with remp.
"""

import csv
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import remp

# %%
# The folder is laid out as you would do it by hand: a sub-folder per class with a few examples, and ``unlabelled``.

digits = load_digits()
workplace = tempfile.TemporaryDirectory()
photos = Path(workplace.name) / "photos"
truth = {}
for number in range(230):
    digit = str(digits.target[number])
    folder = photos / (digit if list(truth.values()).count(digit) < 3 else "unlabelled")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.png"
    picture = Image.fromarray((255 - digits.images[number] * 15.9).astype(np.uint8))
    picture.resize((64, 64), Image.Resampling.BICUBIC).save(path)
    truth[str(path.relative_to(photos))] = digit
print(sorted(folder.name for folder in photos.iterdir()))

# %%
# Files are only read. The results go to a folder beside: ``labels.csv``, ``labels.json`` and ``report.html``.

done = remp.label(photos, remp.LabelOptions(backbone="cifar-fs-convnet64-1shot"))
print(sorted(path.name for path in done.folder.iterdir()))

with open(done.folder / "labels.csv", newline="", encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["status"] != "given"]
print(rows[0])
print(Counter(row["status"] for row in rows))

# %%
# How many labels are right is estimated without knowing the truth. Here the truth is known, so that one can compare.

labelled = [row for row in rows if row["status"] == "labelled"]
right = [row["label"] == truth[row["file"]] for row in labelled]
print(f"right among those labelled: {100 * np.mean(right):.1f} %")
print(
    f"right among those with a probability of 0.9 or more: "
    f"{100 * np.mean([r for r, row in zip(right, labelled, strict=True) if float(row['probability']) >= 0.9]):.1f} %"
)

figure, axes = plt.subplots(3, 10, figsize=(9, 3.4), layout="constrained")
for cell, row in zip(axes.flat, labelled, strict=False):
    cell.imshow(Image.open(photos / row["file"]), cmap="gray", vmin=0, vmax=255)
    wrong = row["label"] != truth[row["file"]]
    cell.set_title(f"{row['label']}  {float(row['probability']):.2f}", fontsize=9, color="C3" if wrong else "black")
    cell.axis("off")
figure.suptitle("Label and probability; red: wrong")
plt.show()
workplace.cleanup()
