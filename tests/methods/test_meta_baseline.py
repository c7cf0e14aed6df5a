"""Meta-Baseline: scaled cosines by a plain loop, and its two stages."""

import math

import pytest
import torch

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods import MetaBaseline
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

DIM = 5


def make(**settings) -> MetaBaseline:
    return MetaBaseline(Pixels(), n_classes=N_CLASSES, feature_shape=(DIM,), **settings).double()


def test_a_case_worked_by_hand():
    """Class means (1, 0) and (2, 2): the query (0, 3) has cosines 0 and 1/√2."""
    support = torch.tensor([[[1.0, 1.0], [2.0, 2.0], [1.0, -1.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1, 0]]), torch.tensor([[[0.0, 3.0]]]), None, 2)
    assert MetaBaseline().logits(episodes).tolist()[0][0] == pytest.approx([0, 10 / math.sqrt(2)])


def test_the_second_stage_matches_queries_with_class_means_by_scaled_cosine():
    method, batch = make(cosine_scale=4.0), small_episodes(DIM, 1, 1)
    rows = []
    for e in range(2):
        means = [batch.support[e][batch.support_labels[e] == n].mean(0).flatten() for n in range(N_WAY)]
        for query, label in zip(batch.query[e].flatten(1), batch.query_labels[e], strict=True):
            rows.append(([4 * float(query @ mean / query.norm() / mean.norm()) for mean in means], int(label)))
    terms = method.loss(batch, progress=0.9)
    assert list(terms) == ["local"]
    assert terms["local"].item() == pytest.approx(mean_cross_entropy(rows))


def test_the_first_stage_classifies_support_and_queries_among_all_training_classes():
    method, batch = make(), small_episodes(DIM, 1, 1)
    weight, bias = method.classifier.weight.detach(), method.classifier.bias.detach()
    rows = []
    for items, labels in ((batch.support, batch.support_labels), (batch.query, batch.query_labels)):
        for e in range(2):
            for item, label in zip(items[e].flatten(1), labels[e], strict=True):
                rows.append(((weight @ item + bias).tolist(), int(batch.class_ids[e, label])))
    terms = method.loss(batch, progress=0.0)
    assert list(terms) == ["classes"]
    assert terms["classes"].item() == pytest.approx(mean_cross_entropy(rows))


@pytest.mark.parametrize(("progress", "stage"), [(0.0, "classes"), (0.29, "classes"), (0.3, "local"), (1.0, "local")])
def test_the_stages_follow_each_other(progress, stage):
    assert list(make(pretrain_share=0.3).loss(small_episodes(DIM, 1, 1), progress)) == [stage]


@pytest.mark.parametrize(("progress", "factor"), [(0.0, 1.0), (0.29, 1.0), (0.3, 0.02), (1.0, 0.02)])
def test_episodes_have_a_learning_rate_of_their_own(progress, factor):
    method = make(pretrain_share=0.3, episode_rate=0.02)
    assert {method.learning_rate_factor(name, progress) for name, _ in method.named_parameters()} == {factor}


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_episodes_alone_have_the_learning_rate_of_the_run(progress):
    assert make(pretrain_share=0.0, episode_rate=0.02).learning_rate_factor("scale", progress) == 1.0


def test_the_scale_learns_from_episodes():
    method = make()
    method.loss(small_episodes(DIM, 1, 1), progress=1.0)["local"].backward()
    assert method.scale.grad.abs() > 0


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_is_above_zero(rate):
    with pytest.raises(ConfigError, match=r"episode_rate is .*; needed a number above 0"):
        make(episode_rate=rate)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_between_nothing_and_all(share):
    with pytest.raises(ConfigError, match=r"pretrain_share is .*; needed a share"):
        make(pretrain_share=share)


def test_a_classifier_needs_the_size_of_a_feature():
    with pytest.raises(ConfigError, match="MetaBaseline learns layers on its features: give feature_shape"):
        MetaBaseline(n_classes=5)
