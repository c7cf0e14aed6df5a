"""Relation Network."""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from remp.checks import check_choice
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method, cross_entropy, map_shape
from remp.rectification.rectify import class_means

ClassMap = Literal["sum", "mean"]
Objective = Literal["mse", "cross-entropy"]


class RelationNet(Method):
    """Sung, Yang, Zhang, Xiang, Torr, Hospedales: Learning to Compare: Relation Network for Few-Shot Learning, 2018.
    https://arxiv.org/abs/1711.06025

    Instead of a fixed metric, a small network learns to compare. It sees the map of a query beside the map of a class,
    the sum of its support maps, and answers with a relation score in 0 … 1. Training pulls the score to 1 for the
    query's own class and to 0 for the others.

    Ours differs from the public code: the head pads its convolutions and pools with the border, so that it takes maps
    down to 1 x 1 (the paper's needs 10 x 10); batch norm uses its running statistics in testing, so the method is
    inductive, where the public code uses those of the test batch and so looks at the other queries; layers have
    PyTorch's initial weights. The paper's encoder pools only twice: the ConvNet of ours does with `pools: 2`.

    class_map: "sum" of the support maps, or their "mean". objective: "mse" between scores and one-hot labels, as in the
    paper, or "cross-entropy" over the classes. relation_width: channels of the head.
    """

    uses_maps = True

    def __init__(
        self,
        *args: Any,
        class_map: ClassMap = "sum",
        objective: Objective = "mse",
        relation_width: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_choice("class_map", class_map, ClassMap)
        check_choice("objective", objective, Objective)
        self.class_map, self.objective = class_map, objective
        self.head = RelationHead(map_shape(self), relation_width)

    def logits(self, episodes: Episodes) -> Tensor:
        """Relation scores before the sigmoid."""
        return self.head(self.class_maps(episodes), episodes.query)

    def class_maps(self, episodes: Episodes) -> Tensor:
        """(E, n_way, width, h, w)"""
        support, labels, n_way = episodes.support.flatten(2), episodes.support_labels, episodes.n_way
        if self.class_map == "mean":
            maps = class_means(support, labels, n_way)
        else:
            maps = one_hot_rows(labels, n_way, support.dtype) @ support
        return maps.unflatten(-1, episodes.support.shape[2:])

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        logits, labels = self.score(episodes), episodes.known_query_labels
        if self.objective == "cross-entropy":
            return {"local": cross_entropy(logits, labels)}
        return {"local": F.mse_loss(logits.sigmoid(), F.one_hot(labels, episodes.n_way).to(logits.dtype))}


class RelationHead(nn.Module):
    """Two blocks of convolution, batch norm, ReLU and pooling on a pair of maps, then two linear layers."""

    def __init__(self, shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        self.channels, rows, columns = shape
        self.pair = nn.Conv2d(2 * self.channels, width, 3, padding=1)
        self.rest = nn.Sequential(
            # A maximum commutes with ReLU: pooling first gives the same numbers and rectifies a quarter of them.
            nn.BatchNorm2d(width),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(width * -(-rows // 4) * -(-columns // 4), 8),
            nn.ReLU(inplace=True),
            nn.Linear(8, 1),
        )

    def forward(self, classes: Tensor, queries: Tensor) -> Tensor:
        """(E, N, channels, h, w), (E, Q, channels, h, w) -> (E, Q, N)"""
        # A convolution of two maps side by side is the sum of one on each: N + Q of them instead of N · Q.
        of_class, of_query = self.pair.weight.split(self.channels, dim=1)
        seen_classes = F.conv2d(classes.flatten(0, 1), of_class, self.pair.bias, padding=1)
        seen_queries = F.conv2d(queries.flatten(0, 1), of_query, padding=1)
        pairs = seen_queries.unflatten(0, queries.shape[:2]).unsqueeze(2) + seen_classes.unflatten(
            0, classes.shape[:2]
        ).unsqueeze(1)  # (E, Q, N, width, h, w)
        return self.rest(pairs.flatten(0, 2)).view(pairs.shape[:3])
