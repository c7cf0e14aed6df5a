"""
Label rows in a pipeline of scikit-learn
========================================

Two labelled rows of each class and many unlabelled ones: :class:`remp.ReMPClassifier` in a pipeline, with words as
labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from remp import ReMPClassifier

# Made-up embeddings, non-negative as after a ReLU: five classes that overlap.
random = np.random.default_rng(0)
words = np.array(["cat", "dog", "fox", "hen", "owl"])
numbers = np.arange(2000) % 5
X = np.maximum(random.normal(size=(5, 64))[numbers] + 2.5 * random.normal(size=(2000, 64)), 0)
truth = words[numbers]

# %%
# The first ten rows keep their label. An empty string means "no label"; ``None``, NaN and, for numbers, -1 do as
# well.

y = np.where(np.arange(2000) < 10, truth, "")

for layers in (0, 10):  # without a layer it is a logistic regression on the labelled rows
    model = make_pipeline(Normalizer(), ReMPClassifier(layers=layers)).fit(X, y)
    labels = model[-1].transduction_  # one for every row; model.predict(new_rows) labels others
    print(f"{layers:2} layers: {100 * (labels == truth)[10:].mean():.1f} % of {len(X) - 10} rows right")

# %%
# Rows with a high probability are right more often. Leaving out the less probable ones leaves labels to rely on.

probability = model[-1].label_distributions_[10:].max(1)
right = (labels == truth)[10:]
surest_first = np.argsort(-probability)
kept = np.arange(1, len(right) + 1)

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(100 * kept[50:] / len(right), 100 * np.cumsum(right[surest_first])[50:] / kept[50:])
axes.set(xlabel="share of the rows that are labelled, %", ylabel="of these right, %", title="The surest rows first")
plt.show()
