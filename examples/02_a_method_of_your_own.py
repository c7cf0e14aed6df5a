"""
A method of your own
====================

A few-shot method in ten lines: the class of the most similar labelled image, compared with Prototypical Networks on the
same episodes.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from remp import METHODS, Episodes, EpisodeSampler, Method, Protocol, mean_interval, paired_difference, score_episodes

# %%
# A method is a class with one function. It gets a batch of episodes whose items are features, and returns one number
# for each query and class; the largest wins.


class NearestNeighbour(Method):
    """The class of the most similar labelled image."""

    def logits(self, episodes: Episodes) -> Tensor:
        queries, examples = normalize(episodes.query, dim=2), normalize(episodes.support, dim=2)
        similarity = queries @ examples.transpose(1, 2)  # cosines (E, Q, S)
        classes = torch.arange(episodes.n_way).view(1, 1, -1, 1)
        of_class = episodes.support_labels[:, None, None] == classes  # (E, 1, N, S)
        return similarity[:, :, None].masked_fill(~of_class, -2.0).amax(-1)  # (E, Q, N)


# %%
# Episodes are drawn from a seed: they are the same on every machine, and the same for both methods.

rng = np.random.default_rng(0)
labels = np.repeat(np.arange(20), 50)
features = torch.from_numpy(rng.normal(size=(20, 32))[labels] + 1.5 * rng.normal(size=(1000, 32))).float()
episodes = EpisodeSampler(labels, Protocol(n_way=5, n_shot=5, n_query=15), seed=0).sample(500)

mine = score_episodes(NearestNeighbour(), episodes, features)
theirs = score_episodes(METHODS["protonet"](), episodes, features)
print("nearest neighbour", mean_interval(mine).percent())
print("ProtoNet         ", mean_interval(theirs).percent())
print("paired difference", paired_difference(mine, theirs).percent())

# %%
# Both methods find the same episodes hard. That is why the difference of the two is known more exactly than either
# accuracy: compare methods on the same episodes.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.scatter(100 * theirs, 100 * mine, s=8, alpha=0.4)
left.axline((70, 70), slope=1, color="grey", lw=1)
left.set(xlabel="ProtoNet, %", ylabel="nearest neighbour, %", title="One dot per episode")
right.hist(100 * (mine - theirs), bins=25)
right.axvline(0, color="grey", lw=1)
right.set(xlabel="difference in points", ylabel="episodes", title="Nearest neighbour minus ProtoNet")
plt.show()
