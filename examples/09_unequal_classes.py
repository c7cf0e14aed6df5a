"""
When classes are not equally frequent
=====================================

Some transductive methods assume that all classes are equally frequent among the queries. What that is worth when it is
true, and what it costs when it is not.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from remp import METHODS, EpisodeSampler, Protocol, mean_interval, score_episodes

digits = load_digits()
features = torch.from_numpy(digits.data / 16).float()

# %%
# The proportions of the classes are drawn anew for each episode from a Dirichlet distribution. The lower its number,
# the more unequal they are; there are always 75 queries in all.

distributions = ["balanced", "dirichlet:10", "dirichlet:2", "dirichlet:1", "dirichlet:0.5"]
names = ["protonet", "label-spreading", "remp", "bd-cspn", "pt-map"]
scores = {}
for distribution in distributions:
    protocol = Protocol(n_way=5, n_shot=1, n_query=15, distribution=distribution)
    episodes = EpisodeSampler(digits.target, protocol, seed=0).sample(300)
    for name in names:
        scores[name, distribution] = mean_interval(score_episodes(METHODS[name](), episodes, features))

for name in names:
    print(f"{name:15}", "  ".join(scores[name, distribution].percent() for distribution in distributions))

# %%
# Every method says of itself whether it assumes balance (``METHODS[name].assumes_balance``), and every result prints
# it. Not to assume it is no guarantee: a prototype of ReMP follows the queries that resemble it most, and where its
# own class has hardly any, these are the queries of another class. :class:`remp.ReMPClassifier` estimates
# the shares of the classes instead.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name in names:
    kind = "assumes balance" if METHODS[name].assumes_balance else "does not"
    estimates = [scores[name, distribution] for distribution in distributions]
    means, widths = [100 * e.mean for e in estimates], [100 * e.half_width for e in estimates]
    axes.errorbar(range(len(distributions)), means, widths, marker="o", capsize=3, label=f"{name} ({kind})")
axes.set_xticks(range(len(distributions)), distributions)
axes.set(ylabel="accuracy, %", title="5-way 1-shot on handwritten digits, 300 episodes")
axes.legend()
plt.show()
