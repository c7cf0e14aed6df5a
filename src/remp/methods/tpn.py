"""TPN: transductive propagation network."""

from typing import Any

import torch
from torch import Tensor, nn

from remp.checks import require_at_least, require_below_one
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method, cross_entropy, map_shape
from remp.methods.maths.graph import keep_nearest, normalise, propagate, squared_distances
from remp.methods.maths.whole_episode import all_items, all_labels
from remp.rectification.number_range import to_dtype

# Between features of batch norm and ReLU, edges then weigh neither about 1 nor about 0: there gradients vanish.
FIRST_SCALE = 0.3


class TPN(Method):
    """Liu, Lee, Park, Kim, Yang, Hwang, Yang: Learning to Propagate Labels: Transductive Propagation Network for
    Few-shot Learning, 2019. https://arxiv.org/abs/1805.10002

    Support and queries of an episode are the nodes of one graph, joined to their nearest neighbours. A small network
    gives each its own length scale, by which its feature is divided before distances are taken. Labels of the support
    spread along the edges to the queries, in closed form, and training goes through that solution.

    Ours differs from the public code: scales start at 0.3 and learn at a tenth of the rate (see FIRST_SCALE),
    neighbours that tie for the last place are all kept, and equations are solved, not inverted after adding machine
    epsilon to every entry.

    neighbours: edges are kept between a node and this many nearest ones, itself included. alpha: how far labels
    spread, below 1. scale_width: channels of the network for the scales.
    """

    transductive = True
    uses_maps = True

    def __init__(
        self, *args: Any, neighbours: int = 20, alpha: float = 0.99, scale_width: int = 64, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(1, neighbours=neighbours, scale_width=scale_width)
        require_below_one(alpha=alpha)
        self.neighbours, self.alpha = neighbours, alpha
        self.scale = LengthScale(map_shape(self), scale_width)

    def logits(self, episodes: Episodes) -> Tensor:
        return self.spread(episodes)[:, episodes.support.shape[1] :]

    def spread(self, episodes: Episodes) -> Tensor:
        """Episodes of maps -> the labels after propagation, support first: (E, S + Q, n_way)."""
        maps = all_items(episodes)
        scales = self.scale(maps.flatten(0, 1)).unflatten(0, maps.shape[:2])  # (E, S + Q, 1)
        nodes = maps.flatten(2) / scales
        weights = torch.exp(-squared_distances(nodes) / (2 * nodes.shape[-1]))
        one_hot = one_hot_rows(episodes.support_labels, episodes.n_way, weights.dtype).transpose(-1, -2)
        unlabelled = one_hot.new_zeros(len(episodes), episodes.query.shape[1], episodes.n_way)
        similarity = normalise(keep_nearest(weights, self.neighbours))
        return to_dtype(propagate(similarity, torch.cat([one_hot, unlabelled], dim=1), self.alpha), nodes.dtype)

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        """Cross-entropy of all nodes, support included."""
        return {"local": cross_entropy(self.spread(episodes.map(self.embed)), all_labels(episodes))}

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        return 0.1 if parameter_name.startswith("scale.") else 1.0  # at the full rate scales run away


class LengthScale(nn.Module):
    """One number per map, of either sign, never zero."""

    def __init__(self, shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        channels, rows, columns = shape
        last = nn.Linear(8, 1)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, FIRST_SCALE)
        self.layers = nn.Sequential(
            *_block(channels, width),
            *_block(width, 1),
            nn.Flatten(),
            nn.Linear(_side(_side(rows)) * _side(_side(columns)), 8),
            nn.ReLU(inplace=True),
            last,
        )

    def forward(self, maps: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, 1)"""
        scales = self.layers(maps)
        smallest = torch.finfo(scales.dtype).eps
        return torch.where(scales.abs() < smallest, smallest, scales)


def _block(before: int, after: int) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, 3, padding=1),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2, padding=1),
    ]


def _side(side: int) -> int:
    """Side of a map after a block: 5 becomes 3, then 2; 2 and 1 stay."""
    return side // 2 + 1
