"""
One layer, step by step
=======================

What a layer of rectification computes, on points of a plane: three classes, one labelled point of each, sixty
unlabelled ones.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from remp import Rectification, rectify

torch.manual_seed(3)
n_way, per_class = 3, 20
centres = torch.tensor([[-2.0, -1.0], [2.0, -1.0], [0.0, 2.2]])
truth = torch.arange(n_way).repeat_interleave(per_class)
query = (centres[truth] + 0.75 * torch.randn(n_way * per_class, 2))[None]
support = (centres + torch.tensor([[0.9, 1.1], [-0.3, -1.2], [-1.3, -0.4]]))[None]
labels = torch.arange(n_way)[None]


def rectified(layers: int, **settings):
    """The result after some layers, without residual: C ← A Z."""
    chosen = Rectification(layers=layers, residual=False, scale=0.5, **settings)
    return rectify(support, labels, query, n_way, chosen, keep_attention=True)


before, after_one, after_all = (rectified(layers).prototypes[0] for layers in (0, 1, 10))
attention = rectified(1).attention[0][0, :, n_way:]  # (N, Q): the part of the first layer that belongs to the queries

# %%
# 1. The prototypes start as class means; with one labelled point of each class, these are the points themselves.
# 2. Every query divides its attention among the prototypes. The second picture shows how much of it the first prototype
#    gets: large dots attend to it.
# 3. Attention below a threshold becomes slightly negative: these queries (red crosses) push the prototype away.
# 4. Each prototype moves to the weighted mean of its labelled point and of all queries.

figure, axes = plt.subplots(1, 4, figsize=(13, 3.7), layout="constrained", sharex=True, sharey=True)
points = query[0].numpy()
for axis, title in zip(axes, ("1. class means", "2. attention", "3. repulsion", "4. move"), strict=True):
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
for axis in axes[[0, 3]]:
    axis.scatter(*points.T, s=10, c=[f"C{way}" for way in truth], alpha=0.5)
for axis in axes[[0, 1, 2]]:
    axis.scatter(*before.T, marker="*", s=220, c=[f"C{way}" for way in range(n_way)], edgecolor="black")
weights = attention[0].numpy()
for axis in axes[[1, 2]]:
    axis.scatter(*points.T, s=3, color="grey")
    axis.scatter(*points.T, s=np.clip(weights, 0, None) / weights.max() * 90, color="C0", alpha=0.5)
axes[2].scatter(*points[weights < 0].T, marker="x", s=25, color="C3")
for way in range(n_way):
    style = {"arrowstyle": "-|>", "color": f"C{way}", "lw": 2}
    axes[3].annotate("", after_one[way], before[way], arrowprops=style)
    axes[3].scatter(*after_one[way], marker="*", s=220, color=f"C{way}", edgecolor="black")
plt.show()

# %%
# Ten such layers, and the prototypes are where the queries are. No gradient was needed, and no label of a query.

for name, prototypes in (("class means", before), ("1 layer", after_one), ("10 layers", after_all)):
    nearest = torch.cdist(query[0], prototypes).argmin(1)
    print(
        f"{name:12} {100 * (nearest == truth).double().mean():.0f} % of the queries are nearest to their own prototype"
    )
