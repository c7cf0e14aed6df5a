"""EPNet: both propagations in numpy from the formulas, and its two stages."""

import numpy as np
import pytest
import torch

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods import EPNet
from remp.methods.epnet import rotations
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

SIDE = 2
DIM = 3 * SIDE * SIDE


def make(**settings) -> EPNet:
    torch.manual_seed(0)
    return EPNet(Pixels(), n_classes=N_CLASSES, feature_shape=(DIM,), **settings).double()


def images() -> Episodes:
    return small_episodes(3, SIDE, SIDE)


def naive_propagator(nodes: np.ndarray, alpha: float) -> np.ndarray:
    n, dim = nodes.shape
    distances = np.array([[((a - b) ** 2).sum() / np.sqrt(dim) for b in nodes] for a in nodes])
    distances /= distances[distances > 0].std(ddof=1)
    weights = np.exp(-distances)
    np.fill_diagonal(weights, 0)
    degrees = weights.sum(1) + 1e-4
    similarity = weights / np.sqrt(degrees[:, None] * degrees[None, :])
    return np.linalg.inv(np.eye(n) - alpha * similarity)


def naive_logits(support: np.ndarray, labels: list[int], query: np.ndarray, alphas: tuple[float, float]) -> np.ndarray:
    nodes = np.concatenate([support, query])
    nodes = naive_propagator(nodes, alphas[0]) @ nodes
    walks = naive_propagator(nodes, alphas[1])
    walks /= walks.sum(1, keepdims=True)
    return np.log(walks[len(support) :, : len(support)] @ np.eye(N_WAY)[labels] + 1e-6)


@pytest.mark.parametrize("alphas", [(0.5, 0.2), (0.0, 0.9)])
def test_logits_are_those_of_the_formulas(alphas):
    batch = images().map(lambda items: items.flatten(1))
    logits = EPNet(embedding_alpha=alphas[0], label_alpha=alphas[1]).logits(batch).numpy()
    for e in range(2):
        labels = batch.support_labels[e].tolist()
        expected = naive_logits(batch.support[e].numpy(), labels, batch.query[e].numpy(), alphas)
        np.testing.assert_allclose(logits[e], expected, rtol=1e-6)


def test_pretraining_classifies_smoothed_features_and_recognises_rotations_from_plain_ones():
    method, batch = make(), images()
    class_rows, turn_rows = [], []
    for e in range(2):
        items = torch.cat([batch.support[e], batch.query[e]]).numpy()
        labels = torch.cat([batch.support_labels[e], batch.query_labels[e]])
        class_ids = batch.class_ids[e][labels].tolist()
        plain = np.array([np.rot90(item, turns, (1, 2)).flatten() for turns in range(4) for item in items])
        smooth = naive_propagator(plain, 0.5) @ plain
        class_logits = method.classifier(torch.from_numpy(smooth)).tolist()
        turn_logits = method.rotation(torch.from_numpy(plain)).tolist()
        class_rows += list(zip(class_logits, class_ids * 4, strict=True))
        turn_rows += list(zip(turn_logits, [turns for turns in range(4) for _ in items], strict=True))
    terms = method.loss(batch, progress=0.0)
    assert terms["classes"].item() == pytest.approx(mean_cross_entropy(class_rows))
    assert terms["rotation"].item() == pytest.approx(mean_cross_entropy(turn_rows))


def test_the_second_stage_adds_a_little_of_the_classifier_on_plain_features():
    method, batch = make(classification_weight=0.25), images()
    rows, class_rows = [], []
    for e in range(2):
        support, query = (part[e].flatten(1).numpy() for part in (batch.support, batch.query))
        labels = batch.support_labels[e].tolist()
        logits = naive_logits(support, labels, query, (0.5, 0.2)).tolist()
        rows += list(zip(logits, batch.query_labels[e].tolist(), strict=True))
        class_logits = method.classifier(torch.from_numpy(np.concatenate([support, query]))).tolist()
        class_ids = batch.class_ids[e][labels + batch.query_labels[e].tolist()].tolist()
        class_rows += list(zip(class_logits, class_ids, strict=True))
    terms = method.loss(batch, progress=1.0)
    assert terms["local"].item() == pytest.approx(mean_cross_entropy(rows))
    assert terms["classes"].item() == pytest.approx(0.25 * mean_cross_entropy(class_rows))


def test_episodes_learn_at_a_twentieth_of_the_rate_of_the_pre_training():
    assert [make().learning_rate_factor("rotation.weight", done) for done in (0.0, 0.49, 0.5)] == [1.0, 1.0, 0.05]


def test_without_a_weight_the_second_stage_has_one_term():
    assert list(make(classification_weight=0.0).loss(images(), progress=1.0)) == ["local"]


def test_equidistant_and_equal_nodes_have_finite_gradients():
    corners = torch.eye(DIM, dtype=torch.float64)[:11].expand(2, -1, -1)
    for items in (corners, torch.ones_like(corners)):
        leaf = items.clone().requires_grad_()
        batch = images().map(lambda flat, leaf=leaf: leaf.flatten(0, 1))
        EPNet().logits(batch).sum().backward()
        assert leaf.grad.isfinite().all()


def test_rotations_need_square_images():
    with pytest.raises(ConfigError, match="got images of 4 x 6; rotations need squares"):
        rotations(torch.zeros(1, 2, 3, 4, 6))


@pytest.mark.parametrize("settings", [{"embedding_alpha": 1.0}, {"label_alpha": -0.2}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ConfigError, match=r"alpha is .* below 1"):
        make(**settings)
