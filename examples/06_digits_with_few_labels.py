"""
Handwritten digits with few labels
==================================

How many labels does it take? :class:`remp.ReMPClassifier` and three classifiers of scikit-learn on scikit-learn's 1,797
handwritten digits, with 1 to 20 labels per class. The features are plain pixels; all classifiers get the same draws.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from remp import ReMPClassifier, mean_interval

warnings.simplefilter("ignore", ConvergenceWarning)  # of logistic regression on so few rows
digits = load_digits()
X, truth = digits.data / 16, digits.target

# %%
# ReMP and label spreading are semi-supervised: they get all rows, with -1 where the label is hidden. Logistic
# regression and nearest neighbours learn from the labelled rows alone. Nothing is tuned: label spreading uses its
# neighbour graph, because the default width of its kernel does not suit rows of this length.

SEMI_SUPERVISED = {
    "ReMPClassifier": ReMPClassifier(),
    "LabelSpreading (knn)": LabelSpreading(kernel="knn", n_neighbors=7),
}
SUPERVISED = {
    "LogisticRegression": LogisticRegression(max_iter=200),
    "KNeighborsClassifier(1)": KNeighborsClassifier(n_neighbors=1),
}


def accuracies(n_labels: int, draw: int) -> dict[str, float]:
    """Share of the unlabelled rows that each classifier gets right, for one draw of the labelled ones."""
    random = np.random.default_rng(draw)
    given = np.concatenate([random.choice(np.flatnonzero(truth == c), n_labels, replace=False) for c in range(10)])
    hidden = np.setdiff1d(np.arange(len(truth)), given)
    y = np.full(len(truth), -1)
    y[given] = truth[given]
    predicted = {name: model.fit(X, y).transduction_[hidden] for name, model in SEMI_SUPERVISED.items()}
    predicted |= {name: model.fit(X[given], truth[given]).predict(X[hidden]) for name, model in SUPERVISED.items()}
    return {name: float((labels == truth[hidden]).mean()) for name, labels in predicted.items()}


# %%
# Ten draws for each number of labels, with the 95 % interval of their mean.

n_labels = [1, 2, 5, 10, 20]
runs = {n: [accuracies(n, draw) for draw in range(10)] for n in n_labels}

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name in [*SEMI_SUPERVISED, *SUPERVISED]:
    estimates = [mean_interval(np.array([run[name] for run in runs[n]])) for n in n_labels]
    print(
        f"{name:24}", "  ".join(f"{n}: {estimate.percent()}" for n, estimate in zip(n_labels, estimates, strict=True))
    )
    means, widths = [100 * e.mean for e in estimates], [100 * e.half_width for e in estimates]
    axes.errorbar(n_labels, means, widths, marker="o", capsize=3, label=name)
axes.set(xscale="log", xlabel="labels per class", ylabel="unlabelled rows labelled correctly, %")
axes.set_xticks(n_labels, [str(n) for n in n_labels])
axes.legend()
plt.show()
