"""
What rectification does to a task
=================================

Two labelled feature vectors of each of five classes, 200 unlabelled ones, and no training: prototypes that start as
class means move to where the unlabelled rows are.
"""

import matplotlib.pyplot as plt
import torch

from remp import METHODS, Episodes, Rectification, rectify

torch.manual_seed(0)
n_way, n_shot, n_query, dim = 5, 2, 40, 64
centres = torch.randn(n_way, dim)
support_labels = torch.arange(n_way).repeat_interleave(n_shot)
query_labels = torch.randint(n_way, (n_way * n_query,))

# %%
# A task is a value of the class :class:`remp.Episodes`. It holds a batch of tasks, here one: every tensor has the
# tasks first. A method never sees the labels of the queries.

task = Episodes(
    support=(centres[support_labels] + 2.5 * torch.randn(n_way * n_shot, dim))[None],
    support_labels=support_labels[None],
    query=(centres[query_labels] + 2.5 * torch.randn(n_way * n_query, dim))[None],
    query_labels=None,
    n_way=n_way,
)

for name in ("protonet", "remp"):
    predicted = METHODS[name]().logits(task).argmax(-1)[0]
    print(f"{name:10} {100 * (predicted == query_labels).float().mean():.1f} % right")

# %%
# Both start with the class means of the labelled rows; ReMP then moves them. Here is their way, in the plane in which
# the true class centres lie farthest apart. Small dots are unlabelled rows, crosses are the class means of the two
# labelled ones, and arrows lead to the rectified prototypes.

settings = Rectification(layers=10, residual=False, similarity="cosine", scale=10)
start = rectify(task.support, task.support_labels, task.query, n_way, Rectification(layers=0)).prototypes[0]
end = rectify(task.support, task.support_labels, task.query, n_way, settings).prototypes[0]

mean = centres.mean(0)
plane = torch.linalg.svd(centres - mean).Vh[:2].T  # (dim, 2)
queries, start, end = ((points - mean) @ plane for points in (task.query[0], start, end))

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
for way in range(n_way):
    colour = f"C{way}"
    axes.scatter(*queries[query_labels == way].T, s=8, color=colour, alpha=0.5)
    axes.scatter(*start[way], marker="x", s=80, color=colour)
    axes.annotate("", end[way], start[way], arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
axes.set(title="Prototypes before (cross) and after (arrow) rectification", xticks=[], yticks=[])
plt.show()
