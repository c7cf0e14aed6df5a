"""The moving average of weights."""

import torch
from torch import nn

from remp.training.state import MovingAverage


def stepped(average, layer, n_steps):
    """Change the weights and update the average; the average by the formula, written out."""
    expected = layer.weight.detach().clone()
    for step in range(n_steps):
        with torch.no_grad():
            layer.weight.add_(torch.randn_like(layer.weight))
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * layer.weight.detach()
    return expected


def test_the_average_follows_its_formula():
    layer = nn.Linear(3, 2)
    average = MovingAverage(layer, 0.5)
    expected = stepped(average, layer, 20)
    torch.testing.assert_close(average.values["weight"], expected)


def test_running_statistics_are_averaged_and_counters_copied():
    norm = nn.BatchNorm1d(2)
    average = MovingAverage(norm, 0.5)
    norm(torch.randn(8, 2) + 5)
    average.update(0)
    torch.testing.assert_close(average.values["running_mean"], 0.9 * norm.running_mean)  # decay 1/10, from 0
    assert int(average.values["num_batches_tracked"]) == 1


def test_averaged_weights_are_applied_only_within():
    layer = nn.Linear(3, 2)
    average = MovingAverage(layer, 0.5)
    own = layer.weight.detach().clone() + 1
    layer.weight.data.copy_(own)
    with average.applied():
        assert torch.equal(layer.weight, average.values["weight"])
    assert torch.equal(layer.weight, own)


def test_own_weights_come_back_after_an_error():
    layer = nn.Linear(3, 2)
    average = MovingAverage(layer, 0.5)
    layer.weight.data.add_(1)
    own = layer.weight.detach().clone()
    try:
        with average.applied():
            raise RuntimeError
    except RuntimeError:
        assert torch.equal(layer.weight, own)


def test_loaded_averages_keep_the_memory_layout_of_the_weights():
    layer = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    average = MovingAverage(layer, 0.5)
    saved = {name: tensor.contiguous() + 1 for name, tensor in average.values.items()}
    average.load(saved)
    assert average.values["weight"].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(average.values["weight"], saved["weight"])
