"""Rectification against the paper's equations, written here as plain loops over numpy vectors."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from remp.errors import ConfigError
from remp.rectification import QuerySums, Rectification, class_means, rectify, rectify_chunked
from remp.similarity import negative_squared_distance

# --- the paper, one vector at a time -------------------------------------------------------------------------------


def naive_kappa(c, z, settings) -> float:
    if settings.similarity == "cosine":
        lengths = math.sqrt((c * c).sum()) * math.sqrt((z * z).sum())
        return settings.scale * float(c @ z) / lengths if lengths else 0.0
    return -settings.scale * float(((c - z) ** 2).sum())


def naive_softmax(scores: list[float]) -> list[float]:
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [value / sum(exponentials) for value in exponentials]


def naive_prototypes(support, labels, n_way) -> np.ndarray:
    """Eq. 4."""
    return np.array(
        [np.mean([z for z, y in zip(support, labels, strict=True) if y == n], axis=0) for n in range(n_way)]
    )


def naive_attention(prototypes, labels, query, beta, settings) -> np.ndarray:
    """Eqs. 8-10 and the mask of the repulsive attention: A = [A^S, A^Q], rows re-normalised."""
    n_way = len(prototypes)
    on_query = np.array([naive_softmax([naive_kappa(c, z, settings) for c in prototypes]) for z in query]).T
    smallest = on_query.min()
    rows = []
    for n in range(n_way):
        row = [1.0 if y == n else 0.0 for y in labels]
        for value in on_query[n]:
            is_masked = settings.repulsion != "none" and value < beta
            row.append((-smallest if settings.repulsion == "negative" else 0.0) if is_masked else value)
        total = sum(abs(value) for value in row) if settings.row_norm == "absolute" else sum(row)
        rows.append([value / total for value in row])
    return np.array(rows)


def naive_rectify(support, labels, query, n_way, settings, h):
    """Eqs. 7-11, layer by layer: prototypes, propagated queries, each layer's attention and AZ."""
    prototypes, z = naive_prototypes(support, labels, n_way), np.concatenate([support, query])
    attentions, targets = [], []
    for layer in range(settings.layers):
        beta = settings.threshold / (n_way * (settings.layers - layer))
        attention = naive_attention(prototypes, labels, z[len(support) :], beta, settings)
        target = attention @ z
        attentions.append(attention)
        targets.append(target)
        moved = settings.step * target + (1 - settings.step) * prototypes
        prototypes = np.array([h @ c for c in moved]) + prototypes if settings.residual else moved
        z = np.array([h @ x for x in z]) + z if settings.residual else z
    return prototypes, z[len(support) :], attentions, targets


def naive_probabilities(prototypes, query, settings) -> np.ndarray:
    """Eq. 3."""
    return np.array([naive_softmax([naive_kappa(c, z, settings) for c in prototypes]) for z in query])


# --- episodes ------------------------------------------------------------------------------------------------------


def episode(shots=(2, 2, 2), n_query=7, dim=4, n_episodes=2, seed=0, dtype=torch.float64):
    """Clustered support and queries: labels come shuffled, classes overlap."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((k,), n) for n, k in enumerate(shots)])
    labels = torch.stack([labels[torch.randperm(len(labels), generator=generator)] for _ in range(n_episodes)])
    centres = torch.randn(n_episodes, len(shots), dim, dtype=dtype, generator=generator)
    ways = torch.randint(len(shots), (n_episodes, n_query), generator=generator)
    rows = torch.arange(n_episodes)[:, None]
    noise = torch.randn(n_episodes, labels.shape[1] + n_query, dim, dtype=dtype, generator=generator)
    items = centres[rows, torch.cat([labels, ways], 1)] + 0.6 * noise
    return items[:, : labels.shape[1]], labels, items[:, labels.shape[1] :]


def matrix(dim=4, seed=5, dtype=torch.float64):
    return torch.randn(dim, dim, dtype=dtype, generator=torch.Generator().manual_seed(seed)) / dim


SWITCHES = [
    Rectification(
        layers=3, repulsion=repulsion, row_norm=row_norm, similarity=similarity, residual=residual, scale=scale
    )
    for repulsion, row_norm, (similarity, scale), residual in itertools.product(
        ("negative", "zero", "none"), ("absolute", "signed"), (("euclidean", 0.3), ("cosine", 3.0)), (True, False)
    )
]
SHAPES = {
    "unequal shots": {"shots": (1, 3, 2)},
    "one query": {"n_query": 1},
    "one class": {"shots": (3,), "n_query": 4},
    "twenty ways": {"shots": (1,) * 20, "n_query": 25},
}


def assert_equals_the_paper(support, labels, query, settings, projection=None):
    n_way = int(labels.max()) + 1
    result = rectify(support, labels, query, n_way, settings, projection=projection, keep_attention=True)
    h = np.eye(support.shape[-1]) if projection is None else projection.numpy()
    for e in range(len(support)):
        prototypes, queries, attentions, targets = naive_rectify(
            support[e].numpy(), labels[e].tolist(), query[e].numpy(), n_way, settings, h
        )
        np.testing.assert_allclose(result.prototypes[e], prototypes, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(result.query[e], queries, rtol=1e-8, atol=1e-8)
        expected = naive_probabilities(prototypes, queries, settings)
        np.testing.assert_allclose(result.logits[e].softmax(-1), expected, rtol=1e-6, atol=1e-8)
        for ours, theirs in zip(result.attention, attentions, strict=True):
            np.testing.assert_allclose(ours[e], theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("settings", SWITCHES, ids=str)
def test_every_switch_equals_the_equations(settings, projected):
    assert_equals_the_paper(*episode(), settings, matrix() if projected else None)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_every_shape_equals_the_equations(shape, step):
    for settings in (Rectification(layers=4, scale=0.2, step=step), Rectification(layers=4, residual=False, step=step)):
        assert_equals_the_paper(*episode(**shape), settings, matrix())


def test_ten_layers_and_float32_equal_the_equations_closely():
    support, labels, query = episode(dtype=torch.float32)
    settings = Rectification(layers=10, residual=False, scale=2.0)
    result = rectify(support, labels, query, 3, settings)
    expected = naive_rectify(
        support[0].double().numpy(), labels[0].tolist(), query[0].double().numpy(), 3, settings, None
    )
    np.testing.assert_allclose(result.prototypes[0], expected[0], atol=1e-5)


def test_class_means_are_those_of_equation_4():
    support, labels, _ = episode(shots=(1, 4, 2))
    for e in range(2):
        expected = naive_prototypes(support[e].numpy(), labels[e].tolist(), 3)
        np.testing.assert_allclose(class_means(support, labels, 3)[e], expected)


# --- properties of the method --------------------------------------------------------------------------------------


def test_beta_is_the_published_sequence_and_rises():
    """METHODS C.4."""
    ten = [Rectification(layers=10).beta(layer, 5) for layer in range(10)]
    assert ten == pytest.approx([0.03, 0.0333, 0.0375, 0.0429, 0.05, 0.06, 0.075, 0.1, 0.15, 0.3], abs=1e-4)
    assert [Rectification(layers=2).beta(layer, 5) for layer in range(2)] == pytest.approx([0.15, 0.3])
    assert ten == sorted(set(ten))


def test_without_layers_the_logits_are_those_of_prototypical_networks():
    support, labels, query = episode()
    ours = rectify(support, labels, query, 3, Rectification(layers=0)).logits
    theirs = negative_squared_distance(query, class_means(support, labels, 3))
    torch.testing.assert_close(ours - ours[..., :1], theirs - theirs[..., :1])
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_one_layer_without_repulsion_adds_a_step_of_soft_k_means():
    support, labels, query = episode(n_episodes=1)
    means = naive_prototypes(support[0].numpy(), labels[0].tolist(), 3)
    weights = np.array([naive_softmax([-((c - z) ** 2).sum() for c in means]) for z in query[0].numpy()])
    soft = [
        (support[0][labels[0] == n].numpy().sum(0) + weights[:, n] @ query[0].numpy())
        / ((labels[0] == n).sum().item() + weights[:, n].sum())
        for n in range(3)
    ]
    result = rectify(support, labels, query, 3, Rectification(layers=1, repulsion="none"))
    np.testing.assert_allclose(result.prototypes[0], means + np.array(soft))


@pytest.mark.parametrize("repulsion", ["negative", "zero", "none"])
def test_attention_rows_have_unit_length_and_make_the_prototypes(repulsion):
    support, labels, query = episode(shots=(1, 3, 2))
    settings = Rectification(layers=3, repulsion=repulsion, residual=False)
    attention = rectify(support, labels, query, 3, settings, keep_attention=True).attention
    z = torch.cat([support, query], dim=1)
    for layer, rows in enumerate(attention):
        torch.testing.assert_close(rows.abs().sum(-1), torch.ones(2, 3, dtype=rows.dtype))
        # The same thresholds, but stopped after this layer: β_l depends on L - l only.
        partial = replace(settings, layers=layer + 1, threshold=settings.threshold * (layer + 1) / 3)
        if layer == 0:
            torch.testing.assert_close(rows @ z, rectify(support, labels, query, 3, partial).prototypes)
    torch.testing.assert_close(attention[-1] @ z, rectify(support, labels, query, 3, settings).prototypes)


def test_supports_never_change_their_label():
    support, labels, query = episode(shots=(2, 3, 1))
    for rows in rectify(support, labels, query, 3, Rectification(), keep_attention=True).attention:
        on_support = rows[..., : labels.shape[1]]
        assert torch.equal(on_support > 0, labels[:, None] == torch.arange(3)[:, None])
        assert (on_support >= 0).all()


@pytest.mark.parametrize("settings", SWITCHES[::3], ids=str)
def test_renaming_the_classes_renames_the_answers(settings):
    support, labels, query = episode()
    order = torch.tensor([2, 0, 1])  # class n is now called order[n]
    before = rectify(support, labels, query, 3, settings)
    after = rectify(support, order[labels], query, 3, settings)
    torch.testing.assert_close(after.logits[..., order], before.logits)
    torch.testing.assert_close(after.prototypes[:, order], before.prototypes)


@pytest.mark.parametrize("settings", SWITCHES[::3], ids=str)
def test_the_order_of_support_and_queries_does_not_matter(settings):
    support, labels, query = episode()
    of_support, of_query = torch.randperm(labels.shape[1]), torch.randperm(query.shape[1])
    before = rectify(support, labels, query, 3, settings)
    after = rectify(support[:, of_support], labels[:, of_support], query[:, of_query], 3, settings)
    torch.testing.assert_close(after.logits, before.logits[:, of_query])
    torch.testing.assert_close(after.prototypes, before.prototypes)


def test_an_episode_does_not_see_the_others_of_its_batch():
    support, labels, query = episode(n_episodes=5)
    together = rectify(support, labels, query, 3, Rectification())
    for e in range(5):
        alone = rectify(support[e : e + 1], labels[e : e + 1], query[e : e + 1], 3, Rectification())
        torch.testing.assert_close(alone.logits[0], together.logits[e])


@pytest.mark.parametrize("settings", SWITCHES, ids=str)
def test_gradients_are_right(settings):
    support, labels, query = episode(n_query=4, dim=3)
    inputs = [tensor.requires_grad_() for tensor in (support, query, matrix(3))]

    def outputs(support, query, projection):
        result = rectify(support, labels, query, 3, replace(settings, layers=2), projection=projection)
        return result.logits, result.prototypes

    assert detached_minimum_or_gradcheck(outputs, inputs, settings)


def detached_minimum_or_gradcheck(outputs, inputs, settings) -> bool:
    """-min(P) is a constant to the gradient (METHODS C.5), so finite differences agree only without it."""
    if settings.repulsion != "negative":
        return torch.autograd.gradcheck(outputs, inputs)
    gradients = torch.autograd.grad(outputs(*inputs)[0].square().sum(), inputs, allow_unused=not settings.residual)
    return all(gradient is None or gradient.isfinite().all() for gradient in gradients)


# --- chunked = dense -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_chunks_of_any_size_give_the_dense_result(size, dtype):
    support, labels, query = episode(n_query=20, dtype=dtype)
    for settings, projection in itertools.product(SWITCHES[::5], (None, matrix(dtype=dtype))):
        dense = rectify(support, labels, query, 3, settings, projection=projection)
        prototypes, logits = rectify_chunked(
            support, labels, lambda: query.split(size, dim=1), 3, settings, projection=projection
        )
        assert prototypes.dtype == logits(query).dtype == dtype
        torch.testing.assert_close(prototypes, dense.prototypes, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(logits(query), dense.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", SWITCHES[::4], ids=str)
def test_two_processes_that_add_their_sums_give_the_dense_result(settings):
    """Both halves advance in step: what a process reduces is its own sums plus those of the other half."""
    support, labels, query = episode(n_query=20)
    halves = [query[:, :13], query[:, 13:]]
    seen: list[list[QuerySums]] = [[], []]

    def sums_of(half: int, other: list[QuerySums]):
        def reduce(own: QuerySums) -> QuerySums:
            layer = len(seen[half])
            seen[half].append(own)
            return own + other[layer] if layer < len(other) else own

        return lambda: rectify_chunked(
            support, labels, lambda: halves[half].split(4, dim=1), 3, settings, reduce=reduce
        )

    # One layer more is right after each round, as each half learns the other's sums of the layer before.
    for _ in range(settings.layers + 1):
        known, seen = seen, [[], []]
        prototypes = [sums_of(half, known[1 - half])()[0] for half in (0, 1)]
    dense = rectify(support, labels, query, 3, settings).prototypes
    torch.testing.assert_close(prototypes[0], dense)
    torch.testing.assert_close(prototypes[1], dense)


# --- finite, whatever comes ----------------------------------------------------------------------------------------

DEGENERATE = {
    "zeros": lambda items: torch.zeros_like(items),
    "identical": lambda items: torch.ones_like(items),
    "float16-sized": lambda items: items.sign() * 65504,
    "1e-30": lambda items: items * 1e-30,
    "1e9": lambda items: items * 1e9,
    "1e30": lambda items: items * 1e30,
    "largest": lambda items: items.sign() * torch.finfo(items.dtype).max,
    "one far": lambda items: torch.cat([items[:, :-1], items[:, -1:] * 1e20], dim=1),
}


def assert_finite(result) -> None:
    for tensor in (result.prototypes, result.query, result.logits, *result.attention):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("change", DEGENERATE.values(), ids=DEGENERATE)
def test_finite_input_gives_finite_output(change, dtype):
    for shape in ({}, *SHAPES.values()):
        support, labels, query = episode(**shape, dtype=torch.float32)
        support, query = (change(items).clamp(-1e38, 1e38).to(dtype).nan_to_num() for items in (support, query))
        for settings in SWITCHES[:: 5 if shape else 1]:
            n_way, ten = int(labels.max()) + 1, replace(settings, layers=10)
            assert_finite(rectify(support, labels, query, n_way, ten, keep_attention=True))
            prototypes, logits = rectify_chunked(support, labels, lambda q=query: [q], n_way, ten)
            assert prototypes.isfinite().all()
            assert logits(query).isfinite().all()


def test_a_signed_row_sum_of_zero_stays_finite():
    """One class: every query is masked to -1, and as many supports as queries cancel them."""
    support, labels, query = episode(shots=(4,), n_query=4)
    assert_finite(rectify(support, labels, query, 1, Rectification(layers=1, row_norm="signed"), keep_attention=True))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("layers", [0, 10, 70, 130])
def test_the_answer_survives_where_the_logits_leave_the_range(size, layers):
    """Two far clusters: the nearest prototype is beyond doubt, however large the numbers get."""
    support = torch.tensor([[[1.0, 0.0], [-1.0, 0.5]]]) * size
    query = torch.tensor([[[0.9, 0.1], [-0.8, 0.4], [-1.1, 0.6], [1.2, -0.1]]]) * size
    result = rectify(support, torch.tensor([[0, 1]]), query, 2, Rectification(layers=layers, scale=1 / min(size, 1)))
    assert_finite(result)
    assert result.logits.argmax(-1).tolist() == [[0, 1, 1, 0]]


def test_more_layers_than_float64_holds_are_refused():
    support, labels, query = episode()
    for projection, layers in ((None, 1000), (1e9 * matrix(), 10)):
        with pytest.raises(ConfigError, match="take fewer layers, a smaller projection, or none"):
            rectify(support, labels, query, 3, Rectification(layers=layers), projection=projection)
        with pytest.raises(ConfigError, match="take fewer layers"):
            rectify_chunked(support, labels, lambda: [query], 3, Rectification(layers=layers), projection=projection)
    assert_finite(rectify(support, labels, query, 3, Rectification(layers=1000, residual=False)))


def test_no_queries_are_refused():
    support, labels, query = episode()
    with pytest.raises(ValueError, match="give at least one"):
        rectify(support, labels, query[:, :0], 3, Rectification())
    with pytest.raises(ValueError, match="give at least one"):
        rectify_chunked(support, labels, lambda: [], 3, Rectification())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"repulsion": "neg"}, "repulsion is 'neg'; choose from: negative, zero, none"),
        ({"row_norm": "l1"}, "choose from: absolute, signed"),
        ({"similarity": "dot"}, "choose from: euclidean, cosine"),
        ({"layers": -1}, "needed 0 "),
        ({"scale": 0.0}, "above 0"),
        ({"scale": float("nan")}, "above 0"),
        ({"step": 1.5}, "at most 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        Rectification(**setting)
