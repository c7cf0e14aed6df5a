"""TPN: the graph by plain loops and an explicit inverse, and the network for the length scales layer by layer."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from remp.errors import ConfigError
from remp.methods import TPN
from small_episodes import N_WAY, Pixels, mean_cross_entropy, small_episodes

SHAPE = (4, 5, 5)


def make(shape: tuple[int, int, int] = SHAPE, **settings) -> TPN:
    return TPN(Pixels(), feature_shape=shape, scale_width=6, **settings).double().eval()


def naive_spread(nodes: np.ndarray, labels: list[int], neighbours: int, alpha: float) -> np.ndarray:
    """Nodes (n, d) divided by their scales, the first of them labelled -> F (n, n_way)."""
    n = len(nodes)
    weights = [[np.exp(-np.mean((a - b) ** 2) / 2) for b in nodes] for a in nodes]
    lists = [sorted(range(n), key=lambda j, row=row: -row[j])[:neighbours] for row in weights]
    for i in range(n):
        for j in range(n):
            if j not in lists[i] and i not in lists[j]:
                weights[i][j] = 0.0
    degrees = [sum(row) for row in weights]
    similarity = [[weights[i][j] / np.sqrt(degrees[i] * degrees[j]) for j in range(n)] for i in range(n)]
    one_hot = np.zeros((n, N_WAY))
    for i, label in enumerate(labels):
        one_hot[i, label] = 1
    return np.linalg.inv(np.eye(n) - alpha * np.array(similarity)) @ one_hot


@pytest.mark.parametrize(("neighbours", "alpha"), [(20, 0.99), (4, 0.99), (2, 0.5)])
def test_labels_spread_as_on_a_graph_made_by_loops(neighbours, alpha):
    method, batch = make(neighbours=neighbours, alpha=alpha), small_episodes(*SHAPE)
    logits, spread = method.logits(batch), method.spread(batch)
    for e in range(2):
        maps = torch.cat([batch.support[e], batch.query[e]])
        nodes = (maps.flatten(1) / method.scale(maps)).detach().numpy()
        expected = naive_spread(nodes, batch.support_labels[e].tolist(), neighbours, alpha)
        np.testing.assert_allclose(spread[e].detach().numpy(), expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(logits[e].detach().numpy(), expected[4:], rtol=1e-6, atol=1e-8)


def test_the_loss_is_the_cross_entropy_of_all_nodes():
    method, batch = make(), small_episodes(*SHAPE)
    labels = torch.cat([batch.support_labels, batch.query_labels], dim=1)
    rows = list(zip(method.spread(batch).flatten(0, 1).tolist(), labels.flatten().tolist(), strict=True))
    assert method.loss(batch)["local"].item() == pytest.approx(mean_cross_entropy(rows))


@pytest.mark.parametrize("side", [1, 2, 5, 6])
def test_a_scale_is_that_of_its_layers_written_out(side):
    method = make((4, side, side))
    tensors = method.scale.state_dict()
    maps = small_episodes(4, side, side).query[0]
    expected = maps
    for convolution, norm in ((0, 1), (4, 5)):
        weight, bias = tensors[f"layers.{convolution}.weight"], tensors[f"layers.{convolution}.bias"]
        expected = F.conv2d(expected, weight, bias, padding=1) / (1 + 1e-5) ** 0.5  # running variance 1, mean 0
        expected = expected * tensors[f"layers.{norm}.weight"].view(-1, 1, 1)
        expected = F.max_pool2d(expected.clamp(min=0), 2, padding=1)
    hidden = (expected.flatten(1) @ tensors["layers.9.weight"].T + tensors["layers.9.bias"]).clamp(min=0)
    torch.testing.assert_close(method.scale(maps), hidden @ tensors["layers.11.weight"].T + tensors["layers.11.bias"])


@pytest.mark.parametrize("side", [2, 5])
def test_small_maps_are_read_out_by_four_numbers_as_in_the_paper(side):
    assert make((64, side, side)).scale.layers[9].in_features == 4


def test_edges_between_random_features_start_neither_at_0_nor_at_1():
    torch.manual_seed(0)
    maps = torch.randn(40, 64, 2, 2).relu()  # as after batch norm
    nodes = (maps.flatten(1) / TPN(feature_shape=(64, 2, 2)).scale(maps)).detach()
    weights = torch.exp(-torch.cdist(nodes, nodes).square() / (2 * 256))[~torch.eye(40, dtype=torch.bool)]
    assert weights.quantile(0.1) > 0.001
    assert weights.quantile(0.9) < 0.5


def test_a_scale_is_never_zero():
    method = make()
    for parameter in method.scale.layers[11].parameters():
        torch.nn.init.zeros_(parameter)
    assert (method.scale(small_episodes(*SHAPE).query[0]) > 0).all()
    assert method.logits(small_episodes(*SHAPE)).isfinite().all()


@pytest.mark.parametrize("settings", [{"alpha": 1.0}, {"alpha": -0.1}, {"neighbours": 0}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ConfigError, match=r"alpha is|neighbours is"):
        make(**settings)
