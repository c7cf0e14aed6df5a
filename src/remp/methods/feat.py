"""FEAT: few-shot embedding adaptation with a transformer."""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from remp.checks import check_choice, require_at_least, require_positive
from remp.episodes import Episodes
from remp.methods.base import cross_entropy, vector_size
from remp.methods.maths.whole_episode import all_items, all_labels
from remp.methods.pretraining import PretrainedMethod
from remp.rectification.rectify import class_means
from remp.rectification.similarity import negative_squared_distance, unit

Match = Literal["euclidean", "cosine"]
_LARGEST = 1e9  # squares of larger features would overflow in the attention


class FEAT(PretrainedMethod):
    """Ye, Hu, Zhan, Sha: Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions, 2020.
    https://arxiv.org/abs/1812.03664

    The prototypes of an episode look at each other through one layer of self-attention, which adapts them to the
    classes they must be told apart from. A query belongs to the nearest adapted prototype. In training, the same
    attention over all images of one class must give a centre that those images belong to: the regulariser.

    Ours differs from the public code: pre-training is a part of the same run, chosen by the same validation, and SGD
    trains both stages. The transductive variants (SemiFEAT) are not here.

    pretrain_share: share of the training that goes to a linear classifier over all training classes. episode_rate:
    factor of the learning rate after it; that of the attention is ten times as high. temperature: of the logits.
    regulariser_temperature, balance: temperature and weight of the regulariser; defaults are the paper's for ConvNet
    and 1 shot. match: "euclidean" (squared), or "cosine", where the query keeps its length. attention_dropout,
    output_dropout: in training. The layers are d x d: give wide backbones `readout: average`.
    """

    attention_rate = 10.0

    def __init__(
        self,
        *args: Any,
        pretrain_share: float = 0.5,
        episode_rate: float = 0.05,
        temperature: float = 64.0,
        regulariser_temperature: float = 16.0,
        balance: float = 1.0,
        match: Match = "euclidean",
        attention_dropout: float = 0.1,
        output_dropout: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, pretrain_share=pretrain_share, episode_rate=episode_rate, **kwargs)
        check_choice("match", match, Match)
        require_positive(temperature=temperature, regulariser_temperature=regulariser_temperature)
        require_at_least(0, balance=balance)
        self.temperature, self.regulariser_temperature = temperature, regulariser_temperature
        self.balance, self.match = balance, match
        self.attention = SetAttention(vector_size(self), attention_dropout, output_dropout)

    def logits(self, episodes: Episodes) -> Tensor:
        prototypes = class_means(_bounded(episodes.support), episodes.support_labels, episodes.n_way)
        return self._matched(episodes.query, self.attention(prototypes), self.temperature)

    def episode_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        features = episodes.map(self.embed)
        terms = {"local": cross_entropy(self.logits(features), features.known_query_labels)}
        if self.balance:
            terms["regulariser"] = self.balance * self.regulariser(features)
        return terms

    def regulariser(self, episodes: Episodes) -> Tensor:
        """Cross-entropy of all images against the centres of their classes, each adapted among its own images."""
        items, labels = _bounded(all_items(episodes)), all_labels(episodes)
        same_class = labels.unsqueeze(-1) == labels.unsqueeze(-2)  # (E, S + Q, S + Q)
        centres = class_means(self.attention(items, same_class), labels, episodes.n_way)
        return cross_entropy(self._matched(items, centres, self.regulariser_temperature), labels)

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        factor = super().learning_rate_factor(parameter_name, progress)
        return self.attention_rate * factor if parameter_name.startswith("attention.") else factor

    def _matched(self, items: Tensor, centres: Tensor, temperature: float) -> Tensor:
        """(E, n, d), (E, N, d) -> logits (E, n, N)"""
        if self.match == "cosine":
            return _bounded(items) @ unit(centres).transpose(-1, -2) / temperature
        return negative_squared_distance(items, centres) / temperature


class SetAttention(nn.Module):
    """LayerNorm(x + Dropout(FC(softmax(q kᵀ / √d) v))): one head, no feed-forward part, no order."""

    def __init__(self, dim: int, attention_dropout: float, output_dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.output = nn.Linear(dim, dim)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_normal_(layer.weight)
        self.attention_dropout = attention_dropout
        self.output_dropout = nn.Dropout(output_dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, items: Tensor, seen: Tensor | None = None) -> Tensor:
        """(E, n, d) -> (E, n, d). seen: (E, n, n), whether item i looks at item j; all look at all where it is None."""
        mixed = F.scaled_dot_product_attention(
            self.query(items),
            self.key(items),
            self.value(items),
            attn_mask=seen,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        return self.norm(items + self.output_dropout(self.output(mixed)))


def _bounded(items: Tensor) -> Tensor:
    return items.clamp(-_LARGEST, _LARGEST)
