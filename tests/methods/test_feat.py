"""FEAT: attention written out in numpy, and the regulariser class by class."""

import numpy as np
import pytest
import torch

from remp.errors import ConfigError
from remp.methods import FEAT
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

DIM = 5


def make(**settings) -> FEAT:
    torch.manual_seed(0)
    method = FEAT(Pixels(), n_classes=N_CLASSES, feature_shape=(DIM,), **settings).double().eval()
    torch.nn.init.normal_(method.attention.norm.weight)
    torch.nn.init.normal_(method.attention.norm.bias)
    return method


def adapted(method: FEAT, items: np.ndarray) -> np.ndarray:
    """LayerNorm(x + FC(softmax(q kᵀ / √d) v)), item by item: (n, d) -> (n, d)."""
    tensors = {name: tensor.numpy() for name, tensor in method.attention.state_dict().items()}
    answers = []
    for item in items:
        scores = [tensors["query.weight"] @ item @ (tensors["key.weight"] @ other) / np.sqrt(DIM) for other in items]
        shares = np.exp(scores) / np.exp(scores).sum()
        mixed = sum(share * (tensors["value.weight"] @ other) for share, other in zip(shares, items, strict=True))
        raw = item + tensors["output.weight"] @ mixed + tensors["output.bias"]
        normed = (raw - raw.mean()) / np.sqrt(raw.var() + 1e-5)
        answers.append(normed * tensors["norm.weight"] + tensors["norm.bias"])
    return np.array(answers)


def matched(match: str, items: np.ndarray, centres: np.ndarray, temperature: float) -> list[list[float]]:
    if match == "cosine":
        return [[float(item @ c / np.linalg.norm(c)) / temperature for c in centres] for item in items]
    return [[-float(((item - c) ** 2).sum()) / temperature for c in centres] for item in items]


def vectors(e: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Support, its labels, queries and theirs of an episode."""
    batch = small_episodes(DIM)
    return tuple(part[e].numpy() for part in (batch.support, batch.support_labels, batch.query, batch.query_labels))


@pytest.mark.parametrize("match", ["euclidean", "cosine"])
def test_queries_are_matched_with_adapted_prototypes(match):
    logits = make(match=match, temperature=8.0).logits(small_episodes(DIM)).detach().numpy()
    for e in range(2):
        support, labels, query, _ = vectors(e)
        prototypes = np.array([support[labels == n].mean(0) for n in range(N_WAY)])
        expected = matched(match, query, adapted(make(), prototypes), 8.0)
        np.testing.assert_allclose(logits[e], expected, rtol=1e-6)


@pytest.mark.parametrize("match", ["euclidean", "cosine"])
def test_the_regulariser_adapts_each_class_among_its_own_images(match):
    method = make(match=match, regulariser_temperature=3.0, balance=0.5)
    rows = []
    for e in range(2):
        support, support_labels, query, query_labels = vectors(e)
        items, labels = np.concatenate([support, query]), np.concatenate([support_labels, query_labels])
        centres = np.array([adapted(method, items[labels == n]).mean(0) for n in range(N_WAY)])
        rows += list(zip(matched(match, items, centres, 3.0), labels.tolist(), strict=True))
    terms = method.loss(small_episodes(DIM, 1, 1), progress=1.0)
    assert list(terms) == ["local", "regulariser"]
    assert terms["regulariser"].item() == pytest.approx(0.5 * mean_cross_entropy(rows))


def test_the_local_term_is_the_cross_entropy_of_the_queries():
    method, batch = make(balance=0.0), small_episodes(DIM)
    rows = list(zip(method.logits(batch).flatten(0, 1).tolist(), batch.query_labels.flatten().tolist(), strict=True))
    terms = method.loss(small_episodes(DIM, 1, 1), progress=1.0)
    assert list(terms) == ["local"]
    assert terms["local"].item() == pytest.approx(mean_cross_entropy(rows))


def test_pretraining_comes_first():
    assert list(make(pretrain_share=0.4).loss(small_episodes(DIM, 1, 1), 0.39)) == ["classes"]
    assert list(make(pretrain_share=0.0).loss(small_episodes(DIM, 1, 1), 0.0)) == ["local", "regulariser"]


@pytest.mark.parametrize(("dim", "count"), [(640, 1_640_320), (64, 16_576)])
def test_the_attention_has_as_many_weights_as_in_the_paper(dim, count):
    attention = FEAT(feature_shape=(dim,)).attention
    assert sum(parameter.numel() for parameter in attention.parameters()) == count


@pytest.mark.parametrize(("progress", "rate"), [(0.0, 1.0), (0.49, 1.0), (0.5, 0.05), (1.0, 0.05)])
def test_the_attention_learns_ten_times_as_fast(progress, rate):
    factors = {name: make().learning_rate_factor(name, progress) for name, _ in make().named_parameters()}
    assert {name.split(".")[0] for name, factor in factors.items() if factor == 10 * rate} == {"attention"}
    assert {name.split(".")[0] for name, factor in factors.items() if factor == rate} == {"classifier"}


def test_dropout_only_acts_in_training():
    method, batch = make(), small_episodes(DIM)
    assert torch.equal(method.logits(batch), method.logits(batch))
    method.train()
    assert not torch.equal(method.logits(batch), method.logits(batch))


@pytest.mark.parametrize(("settings", "message"), [({"match": "dot"}, "choose from: euclidean, cosine"), ({}, "shape")])
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        FEAT(**settings)
