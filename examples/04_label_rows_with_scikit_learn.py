"""Two labels a class, a heap of unlabelled rows: ReMPClassifier in a pipeline of scikit-learn, with words as labels.

python examples/04_label_rows_with_scikit_learn.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from remp import ReMPClassifier

X, digits = load_digits(return_X_y=True)
words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
truth = words[digits]

# Two pictures of each digit keep their label; "" is no label. None, NaN and, for numbers, -1 would do as well.
random = np.random.default_rng(0)
labelled = np.concatenate([random.choice(np.flatnonzero(digits == digit), 2, replace=False) for digit in range(10)])
y = np.full(len(X), "", dtype=truth.dtype)
y[labelled] = truth[labelled]

unlabelled = y == ""
print(f"{len(labelled)} labels, {unlabelled.sum()} rows without one")
for layers in (0, 10):  # without a layer it is the nearest class mean
    model = make_pipeline(MinMaxScaler(), ReMPClassifier(layers=layers)).fit(X, y)
    labels = model[-1].transduction_  # one for every row; model.predict(new_rows) labels others
    print(f"{layers:2} layers: {100 * (labels == truth)[unlabelled].mean():.1f} % right")
