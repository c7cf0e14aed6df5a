"""Meta-Baseline."""

from typing import Any

import torch
from torch import Tensor, nn

from remp.episodes import Episodes
from remp.methods.pretraining import PretrainedMethod
from remp.rectification.rectify import class_means
from remp.rectification.similarity import cosine


class MetaBaseline(PretrainedMethod):
    """Chen, Liu, Xu, Darrell, Wang: Meta-Baseline: Exploring Simple Meta-Learning for Few-Shot Learning, 2021.
    https://arxiv.org/abs/2003.04390

    The backbone first learns to classify all training classes with a linear layer, which is then thrown away. It goes
    on learning by episodes: a query belongs to the class mean with the largest cosine, and one learned number scales
    the cosines before the softmax.

    Ours differs from the public code in that both stages are parts of one run, on episodes.

    pretrain_share: share of the training that goes to the linear classifier. episode_rate: factor of the learning rate
    after it (the paper goes from 0.1, which falls to 0.01, to 0.001). cosine_scale: the scale at the start.
    """

    frozen = True

    def __init__(
        self,
        *args: Any,
        pretrain_share: float = 0.75,
        episode_rate: float = 0.05,
        cosine_scale: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, pretrain_share=pretrain_share, episode_rate=episode_rate, **kwargs)
        self.scale = nn.Parameter(torch.tensor(float(cosine_scale)))

    def logits(self, episodes: Episodes) -> Tensor:
        prototypes = class_means(episodes.support, episodes.support_labels, episodes.n_way)
        return self.scale * cosine(episodes.query, prototypes)
