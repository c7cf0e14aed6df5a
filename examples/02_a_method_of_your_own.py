"""A few-shot method in ten lines: nearest labelled image by cosine, compared with ProtoNet on the same episodes.

python examples/02_a_method_of_your_own.py
"""

import numpy as np
import torch
from torch import Tensor

from remp import METHODS, Episodes, EpisodeSampler, Protocol
from remp.evaluation.evaluate import score_episodes
from remp.evaluation.statistics import mean_interval, paired_difference
from remp.methods import Method
from remp.rectification.similarity import cosine


class NearestNeighbour(Method):
    """The class of the most similar labelled image."""

    def logits(self, episodes: Episodes) -> Tensor:
        similarity = cosine(episodes.query, episodes.support)  # (E, Q, S)
        classes = torch.arange(episodes.n_way).view(1, 1, -1, 1)
        of_class = episodes.support_labels[:, None, None] == classes  # (E, 1, N, S)
        return similarity[:, :, None].masked_fill(~of_class, -2.0).amax(-1)  # (E, Q, N)


rng = np.random.default_rng(0)
labels = np.repeat(np.arange(20), 50)
features = torch.from_numpy(rng.normal(size=(20, 32))[labels] + 1.5 * rng.normal(size=(1000, 32))).float()
episodes = EpisodeSampler(labels, Protocol(n_way=5, n_shot=5, n_query=15), seed=0).sample(500)

mine = score_episodes(NearestNeighbour(), episodes, features)
theirs = score_episodes(METHODS["protonet"](), episodes, features)
print("nearest neighbour", mean_interval(mine).percent())
print("ProtoNet         ", mean_interval(theirs).percent())
print("paired difference", paired_difference(mine, theirs).percent())
