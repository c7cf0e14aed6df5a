"""What every method in the table keeps to."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from remp.config import settings_model
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods import METHODS, Method

DOCS = Path(__file__).parents[2] / "docs" / "methods"
N_WAY = 3
MAP, VECTOR = (4, 3, 3), (12,)


@pytest.fixture(params=METHODS)
def method(request) -> Method:
    torch.manual_seed(0)
    owner = METHODS[request.param]
    return owner(feature_shape=MAP if owner.uses_maps else VECTOR, n_classes=5).eval()


def features(method: Method, n_episodes: int = 8, n_query: int = 6, shots: tuple[int, ...] = (2, 1, 3)) -> Episodes:
    """Episodes of random features with shots that differ between classes."""
    generator = torch.Generator().manual_seed(1)
    shape = MAP if method.uses_maps else VECTOR
    labels = torch.cat([torch.full((k,), way) for way, k in enumerate(shots)]).expand(n_episodes, -1)
    ways = torch.randint(len(shots), (n_episodes, n_query), generator=generator)
    support = torch.rand(n_episodes, labels.shape[1], *shape, generator=generator)
    query = torch.rand(n_episodes, n_query, *shape, generator=generator)
    class_ids = torch.arange(len(shots)).expand(n_episodes, -1)
    return Episodes(support, labels, query, ways, len(shots), class_ids)


def test_one_row_of_logits_a_query(method):
    assert method.logits(features(method)).shape == (8, 6, N_WAY)
    assert method.logits(features(method, n_episodes=1, n_query=1, shots=(1,))).shape == (1, 1, 1)
    assert method.logits(features(method, shots=(1,) * 20)).shape == (8, 6, 20)


def test_an_episode_does_not_see_the_others_of_its_batch(method):
    episodes = features(method)
    together = method.logits(episodes)
    for e in range(len(episodes)):
        torch.testing.assert_close(method.logits(episodes[e : e + 1])[0], together[e], rtol=1e-4, atol=1e-4)


def test_the_answers_follow_the_order_of_the_queries(method):
    episodes, order = features(method), torch.tensor([3, 0, 5, 1, 4, 2])
    moved = replace(episodes, query=episodes.query[:, order], query_labels=None)
    torch.testing.assert_close(method.logits(moved), method.logits(episodes)[:, order], rtol=1e-4, atol=1e-4)


def test_the_order_of_the_support_does_not_matter(method):
    episodes, order = features(method), torch.tensor([3, 0, 5, 1, 4, 2])
    moved = replace(episodes, support=episodes.support[:, order], support_labels=episodes.support_labels[:, order])
    torch.testing.assert_close(method.logits(moved), method.logits(episodes), rtol=1e-4, atol=1e-4)


def test_renaming_the_classes_renames_the_answers(method):
    episodes, names = features(method), torch.tensor([2, 0, 1])
    renamed = replace(episodes, support_labels=names[episodes.support_labels], query_labels=None)
    torch.testing.assert_close(method.logits(renamed)[..., names], method.logits(episodes), rtol=1e-4, atol=1e-4)


def test_query_labels_are_not_looked_at(method):
    episodes = features(method)
    wrong = replace(episodes, query_labels=(episodes.query_labels + 1) % N_WAY)
    assert torch.equal(method.logits(wrong), method.logits(episodes))
    assert torch.equal(method.logits(episodes.without_query_labels()), method.logits(episodes))


def test_only_a_transductive_method_looks_at_the_other_queries(method):
    episodes = features(method, n_episodes=64)  # in some tasks both answers are as good as certain
    alone = method.logits(replace(episodes, query=episodes.query[:, :1], query_labels=None))
    together = method.logits(episodes)[:, :1]
    differs = (alone.softmax(-1) - together.softmax(-1)).abs().max() > 1e-4
    assert differs == method.transductive


@pytest.mark.parametrize("size", [0.0, 1e-30, 65504.0, 1e30])
def test_degenerate_features_have_finite_logits(method, size):
    for shots in ((2, 1, 3), (1,)):
        episodes = features(method, shots=shots)
        same = replace(episodes, support=torch.ones_like(episodes.support), query=torch.ones_like(episodes.query))
        for case in (episodes, same, features(method, n_query=1, shots=shots)):
            assert method.logits(case.map(lambda items: items * size)).isfinite().all()


def test_features_without_gradient_stay_without(method):
    episodes = features(method)
    before = episodes.support.clone(), episodes.query.clone()
    with torch.no_grad():
        assert not method.logits(episodes).requires_grad
    assert torch.equal(episodes.support, before[0])
    assert torch.equal(episodes.query, before[1])


@pytest.mark.parametrize("name", [name for name, owner in METHODS.items() if owner.frozen])
def test_a_method_for_ready_made_features_needs_no_arguments(name):
    method = METHODS[name]().eval()
    episodes = features(method, n_episodes=2).without_query_labels()
    assert method.logits(episodes).shape == (2, episodes.query.shape[1], N_WAY)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_a_page_that_names_its_settings(name):
    page = DOCS / f"{name}.md"
    assert page.is_file(), f"write {page.relative_to(DOCS.parents[1])}: idea, formula, settings, what was measured"
    shared = re.search(r"see \[[^]]*\]\((\S+\.md)\)", page.read_text(encoding="utf-8"))
    text = (DOCS / shared[1] if shared else page).read_text(encoding="utf-8")
    missing = [setting for setting in settings_model(METHODS[name]).model_fields if f"`{setting}`" not in text]
    assert not missing


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("can", {"attention_temperature": 0.0}),
        ("can-t", {"joining_share": -0.5}),
        ("dfmn-mct", {"updates": -1}),
        ("feat", {"temperature": 0.0}),
        ("label-shift-em", {"steps": -1}),
        ("maml", {"inner_rate": -0.01}),
        ("metaoptnet-ridge", {"ridge": -50.0}),
        ("metaoptnet-svm", {"cost": 0.0}),
        ("protonet", {"scale": -1.0}),
        ("remp", {"alpha": -0.1}),
        ("remp", {"train_layers": -1}),
        ("tadam", {"metric_scale": 0.0}),
    ],
    ids=str,
)
def test_a_setting_that_would_turn_answers_around_or_overflow_is_refused_when_the_method_is_made(name, settings):
    (setting,) = settings
    with pytest.raises(ConfigError, match=f"{setting} is"):
        METHODS[name](feature_shape=MAP if METHODS[name].uses_maps else VECTOR, n_classes=5, **settings)
