"""Which labels a linear classifier learns easily: the mean loss of each item while it is trained."""

import torch
from torch import Tensor

_MOMENTUM, _WEIGHT_DECAY = 0.9, 5e-4


def mean_losses(start: Tensor, products: Tensor, targets: Tensor, *, steps: int, rate: float) -> Tensor:
    """Cross-entropy of each item (E, n), averaged over `steps` steps of full-batch gradient descent with momentum.

    The classifier is a linear layer with bias whose weight vectors are sums of the items: gradients are such sums too,
    so its training needs the items' inner products only. start: (E, N, n), its first weights, as weights of the items.
    products: (E, n, n). targets: (E, N, n), one-hot.
    """
    weights, biases = start, torch.zeros_like(start[..., :1])
    pace, bias_pace = torch.zeros_like(weights), torch.zeros_like(biases)
    losses = torch.zeros_like(products[..., 0])
    for _ in range(steps):
        logs = (weights @ products + biases).log_softmax(-2)
        losses = losses - (targets * logs).sum(-2)
        slopes = (logs.exp() - targets) / targets.shape[-1]
        pace = _MOMENTUM * pace + slopes + _WEIGHT_DECAY * weights
        bias_pace = _MOMENTUM * bias_pace + slopes.sum(-1, keepdim=True) + _WEIGHT_DECAY * biases
        weights, biases = weights - rate * pace, biases - rate * bias_pace
    return losses / steps
