"""MAML: weights from which a few gradient steps lead to a classifier of any task."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad

from remp.backbones.base import changed_batch_norms
from remp.checks import require_at_least, require_positive
from remp.episodes import Episodes
from remp.methods.base import Method, backbone_of, evaluation_mode, vector_size
from remp.methods.maths.whole_episode import all_items
from remp.rectification.number_range import at_least_single, in_safe_range, to_dtype

Weights = dict[str, Tensor]
Loss = Callable[[Tensor, Weights], Tensor]


class MAML(Method):
    """Finn, Abbeel, Levine: Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, 2017.
    https://arxiv.org/abs/1703.03400

    For each task the whole network, backbone and linear classifier, takes a few gradient steps on the support.
    Training learns the weights from which those steps start, by the loss of the queries after them, differentiated
    through the steps; `first_order` takes the steps' own gradients as constant.

    Ours differs in: the classifier starts at zero (a start that all classes share cancels in the softmax), so any
    number of classes in any order will do. Batch norm takes its statistics from the support alone, for the queries
    too: the paper's code takes those of the queries and so looks at them all at once. On ready-made features
    only the classifier takes steps.

    inner_rate: learning rate of the steps. train_steps, test_steps: how many in training and in testing.
    first_order: whether the steps' own gradients are taken as constant.
    """

    def __init__(
        self,
        *args: Any,
        inner_rate: float = 0.01,
        train_steps: int = 5,
        test_steps: int = 10,
        first_order: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_positive(inner_rate=inner_rate)
        require_at_least(0, train_steps=train_steps, test_steps=test_steps)
        self.inner_rate, self.train_steps, self.test_steps = inner_rate, train_steps, test_steps
        self.first_order = first_order

    def logits(self, episodes: Episodes) -> Tensor:
        with _differentiable():
            own = _own(episodes)
            support, query = in_safe_range(own.support, own.query)

            def loss(head: Tensor, _: Weights) -> Tensor:
                return _support_loss(_apply(head, support), own)

            zero = support.new_zeros(len(own), own.n_way, support.shape[2] + 1)
            head, _ = self._adapted(loss, zero, {})
            return to_dtype(_apply(head, query), episodes.query.dtype)

    def score(self, episodes: Episodes) -> Tensor:
        # A task has weights of its own, so tasks go through the backbone one by one.
        with _differentiable():
            tasks = [_own(episodes[i : i + 1]) for i in range(len(episodes))]
            return torch.cat([self._score_task(task) for task in tasks])

    def _score_task(self, task: Episodes) -> Tensor:
        """One episode of images -> (1, Q, N)"""
        backbone = backbone_of(self)
        weights = dict[str, Tensor](backbone.named_parameters())
        images, n_support = all_items(task)[0], task.support.shape[1]

        def loss(head: Tensor, weights: Weights) -> Tensor:
            return _support_loss(_apply(head, self._features(weights, task.support[0], n_support)), task)

        with evaluation_mode(backbone):  # steps neither drop out nor count
            head, weights = self._adapted(loss, images.new_zeros(1, task.n_way, vector_size(self) + 1), weights)
        return _apply(head, self._features(weights, images, n_support)[:, n_support:])

    def _features(self, weights: Weights, images: Tensor, n_support: int) -> Tensor:
        """Images (n, channels, height, width), the support first, by a backbone of these weights -> (1, n, dim)"""
        backbone = backbone_of(self)
        with changed_batch_norms(backbone, lambda _, layer, maps, normed: norm_by_first(layer, maps, n_support)):
            return at_least_single(functional_call(backbone, weights, (images,))).unsqueeze(0)

    def _adapted(self, loss: Loss, head: Tensor, weights: Weights) -> tuple[Tensor, Weights]:
        """Head and weights after the steps."""
        for _ in range(self.train_steps if self.training else self.test_steps):
            of_head, of_weights = grad(loss, argnums=(0, 1))(head, weights)
            head = head - self._step(of_head)
            weights = {name: weight - self._step(of_weights[name]) for name, weight in weights.items()}
        return head, weights

    def _step(self, gradient: Tensor) -> Tensor:
        return self.inner_rate * (gradient.detach() if self.first_order else gradient)


def norm_by_first(layer: nn.BatchNorm2d, maps: Tensor, count: int) -> Tensor:
    """Batch norm of all maps by the statistics of the first `count` of them: (n, width, h, w) -> the same shape."""
    variance, mean = torch.var_mean(maps[:count], dim=(0, 2, 3), correction=0)
    factor = layer.weight * (variance + layer.eps).rsqrt()
    return maps * factor[:, None, None] + (layer.bias - mean * factor)[:, None, None]


def _apply(head: Tensor, features: Tensor) -> Tensor:
    """Linear classifiers (E, N, dim + 1), the bias last, and features (E, n, dim) -> (E, n, N)"""
    return features @ head[..., :-1].transpose(1, 2) + head[..., -1].unsqueeze(1)


def _support_loss(logits: Tensor, episodes: Episodes) -> Tensor:
    """Mean cross-entropy of the support of each episode, summed, so that no episode sees how many there are."""
    return F.cross_entropy(logits.transpose(1, 2), episodes.support_labels, reduction="none").mean(1).sum()


@contextmanager
def _differentiable() -> Iterator[None]:
    """Steps need gradients even where the result needs none, in inference mode."""
    wanted = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(wanted):
        yield


def _own(episodes: Episodes) -> Episodes:
    """The same episodes as tensors that were not made in inference mode."""
    copied = episodes.map(torch.clone)
    return replace(copied, support_labels=episodes.support_labels.clone())
