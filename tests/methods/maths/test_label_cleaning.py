"""The loss of each item while a linear layer is trained, against torch's own layer and optimiser."""

import torch

from remp.methods.maths.label_cleaning import mean_losses


def test_the_mean_losses_are_those_of_a_linear_layer_trained_by_torch():
    torch.manual_seed(0)
    items, labels = torch.randn(6, 10), torch.tensor([0, 1, 2, 0, 1, 0])
    start = torch.rand(3, 6)
    layer = torch.nn.Linear(10, 3)
    with torch.no_grad():
        layer.weight.copy_(start @ items)
        layer.bias.zero_()
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    total = torch.zeros(6)
    for _ in range(25):
        losses = torch.nn.functional.cross_entropy(layer(items), labels, reduction="none")
        total += losses.detach()
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
    targets = torch.nn.functional.one_hot(labels, 3).T.float()
    ours = mean_losses(start[None], (items @ items.T)[None], targets[None], steps=25, rate=0.1)
    torch.testing.assert_close(ours[0], total / 25, rtol=1e-4, atol=1e-5)
