"""SimpleShot on a hand-worked case and against scikit-learn's nearest centroid."""

import pytest
import torch
from sklearn.neighbors import NearestCentroid

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods import METHODS, ProtoNet
from remp.methods.simpleshot import SimpleShot
from small_episodes import small_episodes


def test_a_case_worked_by_hand():
    """Classes (3, 4) and (1, 0), query (2, 0). L2N: (0.6, 0.8), (1, 0), (1, 0), at squared distances 0.8 and 0."""
    support, query = torch.tensor([[[3.0, 4.0], [1.0, 0.0]]]), torch.tensor([[[2.0, 0.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1]]), query, None, 2)
    assert SimpleShot(normalisation="un").logits(episodes).flatten().tolist() == pytest.approx([-17.0, -1.0])
    assert SimpleShot(normalisation="l2n").logits(episodes).flatten().tolist() == pytest.approx([-0.8, 0.0], abs=1e-6)


def test_centring_comes_before_the_norm():
    """Minus (0, 4): (3, 0), (1, -4) and (2, -4); now the query is nearer to the second."""
    support, query = torch.tensor([[[3.0, 4.0], [1.0, 0.0]]]), torch.tensor([[[2.0, 0.0]]])
    method = SimpleShot()
    method.base_mean = torch.tensor([0.0, 4.0])
    logits = method.logits(Episodes(support, torch.tensor([[0, 1]]), query, None, 2))
    cosines = [2 / 20**0.5, 18 / 340**0.5]
    assert logits.flatten().tolist() == pytest.approx([2 * cosine - 2 for cosine in cosines], abs=1e-5)


def test_answers_are_those_of_the_nearest_centroid():
    episodes = small_episodes(5)
    answers = METHODS["simpleshot-l2n"]().logits(episodes).argmax(-1)
    for e in range(len(episodes)):
        support, query = (
            items[e] / items[e].norm(dim=-1, keepdim=True) for items in (episodes.support, episodes.query)
        )
        centroids = NearestCentroid().fit(support.numpy(), episodes.support_labels[e].numpy())
        assert answers[e].tolist() == centroids.predict(query.numpy()).tolist()


def test_un_is_protonet():
    episodes = small_episodes(5)
    ours, protonets = (method.logits(episodes).softmax(-1) for method in (METHODS["simpleshot-un"](), ProtoNet()))
    assert torch.allclose(ours, protonets, atol=1e-5)


def test_without_a_known_mean_cl2n_is_l2n():
    episodes = small_episodes(5)
    assert torch.equal(METHODS["simpleshot"]().logits(episodes), METHODS["simpleshot-l2n"]().logits(episodes))


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ConfigError, match="normalisation is 'l1n'; choose from: un, l2n, cl2n"):
        SimpleShot(normalisation="l1n")
