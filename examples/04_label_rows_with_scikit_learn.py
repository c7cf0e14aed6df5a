"""Two labels a class, a heap of unlabelled rows: ReMPClassifier in a pipeline of scikit-learn, with words as labels.

python examples/04_label_rows_with_scikit_learn.py
"""

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

# The first ten rows keep their label; "" is no label. None, NaN and, for numbers, -1 would do as well.
y = np.where(np.arange(2000) < 10, truth, "")

for layers in (0, 10):  # without a layer it is the nearest class mean
    model = make_pipeline(Normalizer(), ReMPClassifier(layers=layers)).fit(X, y)
    labels = model[-1].transduction_  # one for every row; model.predict(new_rows) labels others
    print(f"{layers:2} layers: {100 * (labels == truth)[10:].mean():.1f} % of {len(X) - 10} rows right")
