"""The sampler draws what it promises, the same everywhere, and explains what it cannot draw."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammainc
from scipy.stats import beta, chisquare

from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.episodes.sampler import dirichlet_counts, dirichlet_proportions
from remp.errors import EpisodeError

FIELDS = ("support", "support_labels", "query", "query_labels", "class_ids")


def labels_of(*counts: int) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts)


def shuffled(labels: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permutation(labels)


def same(a: Episodes, b: Episodes) -> bool:
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


def counts_of(labels: torch.Tensor, n_way: int) -> np.ndarray:
    """(E, n) labels -> how often each way comes (E, n_way), by a plain loop."""
    return np.array([[row.count(way) for way in range(n_way)] for row in labels.tolist()])


def assert_well_formed(episodes: Episodes, labels: np.ndarray, protocol: Protocol) -> None:
    for row in range(len(episodes)):
        support, query, classes = (getattr(episodes, n)[row].tolist() for n in ("support", "query", "class_ids"))
        ways = episodes.support_labels[row].tolist() + episodes.query_labels[row].tolist()
        assert len(set(support + query)) == len(support) + len(query)
        assert len(set(classes)) == protocol.n_way
        assert [labels[i] for i in support + query] == [classes[way] for way in ways]
        assert sorted(ways[: len(support)].count(way) for way in range(protocol.n_way)) == sorted(protocol.shots)
        assert len(query) == protocol.n_way * protocol.n_query


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (Protocol(), "85f9b828b83d822106646fa202f0133001c67b857124e639cb9afa8d5df8436d"),
        (
            Protocol(n_way=4, n_shot=(1, 2, 3, 5), n_query=3),
            "bb382faf8c5850c1353480e21f38764f0ee5f5077bebce908b8dc9522a02c8db",
        ),
        (
            Protocol(n_way=3, n_shot=2, n_query=5, distribution="dirichlet:2"),
            "416a6ec772643beb67d419d47f34f6c31388839a97402ec0a85672db5ce1cec1",
        ),
    ],
)
def test_a_seed_gives_these_very_episodes_on_every_machine(protocol, expected):
    episodes = EpisodeSampler(labels_of(30, 25, 40, 22, 20, 31), protocol, seed=42).sample(20)
    digest = hashlib.sha256()
    for name in FIELDS:
        digest.update(getattr(episodes, name).numpy().astype("<i8").tobytes())
    assert digest.hexdigest() == expected


@pytest.mark.parametrize("distribution", ["balanced", "dirichlet:1"])
def test_the_batch_size_does_not_change_the_episodes(distribution):
    make = lambda: EpisodeSampler(labels_of(*[30] * 8), Protocol(distribution=distribution), seed=5)  # noqa: E731
    in_parts, at_once = make(), make().sample(12)
    assert same(in_parts.sample(7), at_once[:7])
    assert same(in_parts.sample(5), at_once[7:])


def test_the_default_seed_is_0_and_one_episode_is_enough():
    labels = labels_of(*[30] * 8)
    assert same(EpisodeSampler(labels, Protocol()).sample(1), EpisodeSampler(labels, Protocol(), seed=0).sample(1))
    with pytest.raises(EpisodeError, match="0 episodes were asked for; at least 1 is needed"):
        EpisodeSampler(labels, Protocol()).sample(0)


def test_a_sampler_continues_from_a_position():
    labels = labels_of(*[30] * 8)
    assert same(
        EpisodeSampler(labels, Protocol(), position=9).sample(3), EpisodeSampler(labels, Protocol()).sample(12)[9:]
    )


@pytest.mark.parametrize("seed", [-1, -(2**70), 2**32, 2**63, 2**64, 2**64 + 1, 2**100, np.int64(7), np.uint64(8)])
def test_any_whole_number_is_a_seed_of_its_own(seed):
    labels, others = labels_of(*[30] * 8), (0, 1, 2**64 - 1)
    drawn = EpisodeSampler(labels, Protocol(), seed=seed).sample(2)
    assert_well_formed(drawn, labels, Protocol())
    assert not any(same(drawn, EpisodeSampler(labels, Protocol(), seed=other).sample(2)) for other in others)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_episode_is_well_formed(data):
    n_way = data.draw(st.integers(2, 5))
    shots = data.draw(st.integers(1, 4) | st.tuples(*[st.integers(1, 4)] * n_way))
    distribution = data.draw(st.sampled_from(["balanced", "dirichlet:0.05", "dirichlet:2", "dirichlet:1e300"]))
    protocol = Protocol(n_way, shots, data.draw(st.integers(1, 6)), distribution)
    least = max(protocol.shots) + protocol.n_query
    counts = data.draw(st.lists(st.integers(least, least + 12), min_size=n_way, max_size=n_way + 3))
    labels = shuffled(labels_of(*counts))
    episodes = EpisodeSampler(labels, protocol, seed=data.draw(st.integers())).sample(3)
    assert_well_formed(episodes, labels, protocol)


def test_queries_are_balanced_by_default():
    episodes = EpisodeSampler(labels_of(*[40] * 9), Protocol(n_query=7)).sample(30)
    assert (counts_of(episodes.query_labels, 5) == 7).all()


def test_queries_come_in_random_order():
    """Every place of the query holds every way about equally often."""
    labels = EpisodeSampler(labels_of(*[20] * 8), Protocol(n_way=4, n_query=3)).sample(2000).query_labels
    by_place = counts_of(labels.T, 4)  # (places, ways)
    assert chisquare(by_place, axis=1).pvalue.min() > 1e-4


def test_classes_and_images_are_chosen_uniformly():
    labels = shuffled(labels_of(8, 9, 12, 8, 10, 8))
    episodes = EpisodeSampler(labels, Protocol(n_way=3, n_shot=2, n_query=4)).sample(4000)
    assert chisquare(np.bincount(episodes.class_ids.flatten())).pvalue > 1e-4
    for items in (episodes.support, episodes.query):
        times = np.bincount(items.flatten(), minlength=len(labels))
        for label in range(6):
            assert chisquare(times[labels == label]).pvalue > 1e-4


def test_each_place_of_the_ways_holds_any_class():
    classes = EpisodeSampler(labels_of(*[5] * 6), Protocol(n_way=3, n_query=1)).sample(3000).class_ids
    for way in range(3):
        assert chisquare(np.bincount(classes[:, way], minlength=6)).pvalue > 1e-4


def test_unequal_shots_are_dealt_to_the_classes_at_random():
    labels = labels_of(*[12] * 4)
    episodes = EpisodeSampler(labels, Protocol(n_way=4, n_shot=(1, 2, 3, 6), n_query=2)).sample(2000)
    dealt = counts_of(episodes.support_labels, 4)  # (E, n_way)
    assert (np.sort(dealt, axis=1) == [1, 2, 3, 6]).all()
    for way in range(4):
        assert chisquare([np.sum(dealt[:, way] == n) for n in (1, 2, 3, 6)]).pvalue > 1e-4


def test_dirichlet_keeps_the_total_and_never_runs_out_of_images():
    labels, protocol = labels_of(6, 6, 40, 7), Protocol(n_way=3, n_shot=2, n_query=4, distribution="dirichlet:0.3")
    episodes = EpisodeSampler(labels, protocol).sample(500)
    assert_well_formed(episodes, labels, protocol)
    queries = counts_of(episodes.query_labels, 3)
    left = np.bincount(labels)[episodes.class_ids.numpy()] - 2
    assert (queries.sum(1) == 12).all()
    assert (queries <= left).all()
    assert (queries == left).any()  # the cap was needed


def test_dirichlet_ends_where_images_only_just_suffice():
    protocol = Protocol(n_way=3, n_shot=1, n_query=5, distribution="dirichlet:0.1")
    queries = counts_of(EpisodeSampler(labels_of(6, 6, 6), protocol).sample(50).query_labels, 3)
    assert (queries == 5).all()


@pytest.mark.parametrize("concentration", [0.01, 0.5, 2.0, 50.0])
def test_dirichlet_proportions_have_beta_marginals(concentration):
    uniform = np.random.default_rng(1).uniform(size=(4000, 5))
    proportions = dirichlet_proportions(uniform, concentration)
    np.testing.assert_allclose(proportions.sum(1), 1)
    levels = np.array([0.1, 0.3, 0.5, 0.7])
    # A share of a symmetric Dirichlet over five is Beta(a, 4a).
    cuts = beta.ppf(levels, concentration, 4 * concentration)
    np.testing.assert_allclose([(proportions < cut).mean() for cut in cuts], levels, atol=0.02)


def test_proportions_go_on_smoothly_below_the_smallest_quantile_that_is_reckoned_with():
    quantiles = 10.0 ** -np.array([[150.0, 160.0, 195.0, 205.0, 250.0]])
    proportions = dirichlet_proportions(gammainc(0.01, quantiles), 0.01)
    np.testing.assert_allclose(proportions, quantiles / quantiles.sum(), rtol=1e-6)


def test_the_smallest_and_the_largest_random_number_are_in_the_middle_of_their_share():
    """With concentration 1, numbers u become -ln(1 - u): 0 as (0 + 0.5) / 2³² nearly 0, 2³¹ ln 2, 2³² - 1 ln 2³³."""
    randoms = np.array([[0, 2**31, 2**32 - 1]], dtype=np.uint64)
    counts = dirichlet_counts(randoms, 1.0, 1000, np.full((1, 3), 1000))
    assert counts.tolist() == [[0, 29, 971]]  # 1000 / (1 + 33) = 29.4


def test_a_small_concentration_gives_nearly_all_queries_to_one_class():
    protocol = Protocol(distribution="dirichlet:0.001")
    queries = counts_of(EpisodeSampler(labels_of(*[80] * 6), protocol).sample(100).query_labels, 5)
    assert (queries.max(1) >= 70).mean() > 0.95


def test_a_large_concentration_is_balanced():
    protocol = Protocol(distribution="dirichlet:1e12")
    assert (counts_of(EpisodeSampler(labels_of(*[80] * 6), protocol).sample(20).query_labels, 5) == 15).all()


@pytest.mark.parametrize(
    ("counts", "protocol", "message"),
    [
        (
            (30, 12, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 12 examples; 5 shots + 15 queries need 20: lower n_query to 7",
        ),
        (
            (30, 12, 30),
            Protocol(3, (1, 5, 2), 15, "dirichlet:2"),
            "class 'cat' has 12 examples; 5 shots + 15 queries need 20: lower n_query to 7",
        ),
        (
            (30, 4, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 4 examples; 5 shots + 15 queries need 20: "
            "lower n_shot to 3 and n_query to 1, or drop the class",
        ),
        (
            (30, 5, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 5 examples; 5 shots + 15 queries need 20: "
            "lower n_shot to 4 and n_query to 1, or drop the class",
        ),
        (
            (30, 2, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 2 examples; 5 shots + 15 queries need 20: "
            "lower n_shot to 1 and n_query to 1, or drop the class",
        ),
        (
            (30, 1, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 1 examples; 5 shots + 15 queries need 20: "
            "drop the class, an episode needs at least 2 examples of each",
        ),
        (
            (30, 0, 30),
            Protocol(3, 5, 15),
            "class 'cat' has 0 examples; 5 shots + 15 queries need 20: "
            "drop the class, an episode needs at least 2 examples of each",
        ),
        (
            (30, 30),  # 'dog', the last of the names, has no image at all
            Protocol(2),
            "class 'dog' has 0 examples; 1 shots + 15 queries need 16: "
            "drop the class, an episode needs at least 2 examples of each",
        ),
        (
            (30, 30, 30),
            Protocol(5),
            "the set has 3 classes; 5 ways need 5: lower n_way to 3 or take a split with more classes",
        ),
        (
            (30, 30, 30, 30),
            Protocol(2),
            "3 class names for 4 classes: give one per class",
        ),
    ],
)
def test_what_cannot_be_drawn_is_explained(counts, protocol, message):
    with pytest.raises(EpisodeError) as raised:
        EpisodeSampler(labels_of(*counts), protocol, class_names=("bird", "cat", "dog"))
    assert str(raised.value) == message


def test_the_advice_works():
    labels = labels_of(30, 12, 30)
    assert len(EpisodeSampler(labels, Protocol(3, 5, 7)).sample(2)) == 2


def test_an_empty_set_is_refused():
    with pytest.raises(EpisodeError, match="the set has no images"):
        EpisodeSampler(np.zeros(0), Protocol())


@pytest.mark.parametrize("number", [1.5, 2.0, None, "1"])
def test_a_seed_and_a_number_of_episodes_are_whole(number):
    labels, protocol = np.repeat(np.arange(5), 20), Protocol()
    with pytest.raises(EpisodeError, match=f"seed is {number!r}; needed a whole number"):
        EpisodeSampler(labels, protocol, seed=number)
    with pytest.raises(EpisodeError, match=f"n_episodes is {number!r}; needed a whole number"):
        EpisodeSampler(labels, protocol).sample(number)


@pytest.mark.parametrize("labels", [np.array([-1, 0]), np.array([0.0, 1.0]), np.zeros((2, 2), int)])
def test_labels_that_are_no_class_numbers_are_refused(labels):
    with pytest.raises(EpisodeError, match=r"needed whole numbers of shape \(n,\), the classes numbered from 0"):
        EpisodeSampler(labels, Protocol())


@pytest.mark.parametrize("n", [0, -3])
def test_at_least_one_episode_is_drawn(n):
    with pytest.raises(EpisodeError, match="at least 1 is needed"):
        EpisodeSampler(labels_of(*[30] * 5), Protocol()).sample(n)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_way": 0}, "needed 2 classes or more"),
        ({"n_way": 1}, "needed 2 classes or more, since any answer is right with one"),
        ({"n_query": 0}, "at least 1 query per class is needed"),
        ({"n_shot": 0}, "every class needs at least 1 labelled image"),
        ({"n_shot": (1, 2)}, "n_shot lists 2 numbers for 5 classes: give one per class"),
        *[
            ({"distribution": text}, "give 'balanced' or 'dirichlet:A' with A > 0")
            for text in (
                "",
                "uniform",
                "dirichlet",
                "dirichlet:",
                "dirichlet:0",
                "dirichlet:-1",
                "dirichlet:nan",
                "x:2",
            )
        ],
    ],
)
def test_an_impossible_protocol_is_explained(settings, message):
    with pytest.raises(EpisodeError, match=message):
        Protocol(**settings)


def test_gathering_puts_the_items_where_the_ids_were():
    episodes = EpisodeSampler(labels_of(*[20] * 5), Protocol()).sample(3)
    items = torch.randn(100, 2, 3)
    gathered = episodes.gather(items)
    assert torch.equal(gathered.support, items[episodes.support])
    assert torch.equal(gathered.query, items[episodes.query])


def test_map_calls_the_function_once_for_all_items():
    calls = []
    episodes = EpisodeSampler(labels_of(*[20] * 5), Protocol()).sample(2)
    mapped = episodes.map(lambda ids: calls.append(ids.shape) or ids * 2)
    assert calls == [(2 * 80,)]
    assert torch.equal(mapped.query, episodes.query * 2)
    assert torch.equal(mapped.query_labels, episodes.query_labels)


def test_episodes_without_query_labels_keep_the_rest():
    blind = EpisodeSampler(labels_of(*[20] * 5), Protocol()).sample(2).without_query_labels()
    assert blind.query_labels is None
    assert blind[:1].to("cpu").query.shape == (1, 75)


def test_whole_numbers_of_numpy_are_taken():
    protocol = Protocol(np.int64(3), np.array([1, 1, 2]), np.uint8(4))
    assert protocol == Protocol(3, (1, 1, 2), 4)
    assert all(type(number) is int for number in (protocol.n_way, protocol.n_query, *protocol.n_shot))
    with pytest.raises(EpisodeError, match="whole numbers"):
        Protocol(5, 1.0, 15)


def test_what_does_not_fit_in_memory_is_refused_at_once():
    with pytest.raises(EpisodeError, match="needed at most 1,000,000"):
        Protocol(n_way=10**12)
    sampler = EpisodeSampler(np.repeat(np.arange(5), 20), Protocol(5, 1, 15), seed=0)
    with pytest.raises(
        EpisodeError, match=r"1,000,000,000,000,000 episodes of this size do not fit in memory: at most"
    ):
        sampler.sample(10**15)


def test_names_in_place_of_labels_are_refused():
    with pytest.raises(EpisodeError, match=r"labels are <U1 of shape \(3,\); needed whole numbers"):
        EpisodeSampler(np.array(["a", "b", "c"]), Protocol(2, 1, 1))
