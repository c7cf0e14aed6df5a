"""Adam without autograd against torch.optim.Adam."""

import torch

from remp.methods.maths.adam import adam


def test_the_way_is_that_of_the_optimiser_of_torch():
    torch.manual_seed(0)
    start, goal = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    values = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.Adam([values], lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        (values - goal).pow(4).sum().backward()
        optimiser.step()
    ours = adam(start, lambda at: 4 * (at - goal) ** 3, steps=30, step_size=0.01)
    torch.testing.assert_close(ours, values.detach(), rtol=1e-4, atol=1e-5)


def test_a_flat_loss_does_not_move_anything():
    start = torch.arange(4.0)
    assert torch.equal(adam(start, torch.zeros_like, steps=10, step_size=0.1), start)
