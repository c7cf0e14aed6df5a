"""BD-CSPN against plain loops over features, in each of its readings."""

from dataclasses import replace

import pytest
import torch

from naive_bd_cspn import completed_prototypes, cosine, normalised, shifted
from remp.errors import ConfigError
from remp.methods import METHODS
from remp.methods.bd_cspn import BDCSPN
from small_episodes import N_WAY, small_episodes

READINGS = [
    {},
    {"weighting": "within-class", "scale": 1.0},
    {"shift": False},
    {"relabel_support": True},
    {"similarity": "euclidean", "match_shifted": False},
]


def naive_logits(episodes, e, *, scale=10.0, shift=True, similarity="cosine", match_shifted=True, **reading):
    """The rows of one episode, query by query."""
    reading["across_classes"] = reading.pop("weighting", "across-classes") == "across-classes"
    support, query = normalised(episodes.support[e]), normalised(episodes.query[e])
    moved = shifted(support, query) if shift else query
    labels = episodes.support_labels[e].tolist()
    prototypes = completed_prototypes(support, labels, moved, N_WAY, scale=scale, **reading)
    matched = moved if match_shifted else query
    if similarity == "cosine":
        return [[scale * cosine(q, c) for c in prototypes] for q in matched]
    return [[-scale * float(sum((q - c) ** 2)) for c in prototypes] for q in matched]


@pytest.mark.parametrize("reading", READINGS)
def test_logits_are_those_of_plain_loops(reading):
    episodes = small_episodes(5)
    logits = BDCSPN(**reading).logits(episodes)
    for e in range(len(episodes)):
        torch.testing.assert_close(logits[e].tolist(), naive_logits(episodes, e, **reading), rtol=1e-6, atol=1e-6)


def test_a_bias_of_all_queries_is_forgiven():
    """Queries of two classes, all pushed towards the first: only the shift tells them apart."""
    support = torch.tensor([[[1.0, 0.2], [0.2, 1.0]]])
    biased = support + torch.tensor([5.0, 0.0])
    episodes = replace(small_episodes(2), support=support, support_labels=torch.tensor([[0, 1]]), query=biased, n_way=2)
    assert BDCSPN().logits(episodes).argmax(-1).tolist() == [[0, 1]]
    assert BDCSPN(shift=False).logits(episodes).argmax(-1).tolist() == [[0, 0]]


def test_features_are_centred_on_the_mean_of_the_training_classes():
    episodes, mean = small_episodes(5), torch.arange(5.0, dtype=torch.float64)
    method = BDCSPN()
    method.base_mean = mean
    expected = BDCSPN().logits(episodes.map(lambda items: items - mean))
    torch.testing.assert_close(method.logits(episodes), expected)


def test_it_says_what_it_assumes():
    method = METHODS["bd-cspn"]
    assert (method.transductive, method.assumes_balance, method.frozen) == (True, True, True)


@pytest.mark.parametrize("setting", [{"scale": 0.0}, {"weighting": "none"}, {"similarity": "dot"}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        BDCSPN(**setting)
