"""Rectification against the paper's equations, written out as plain loops in naive_remp.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from naive_remp import naive_probabilities, naive_prototypes, naive_rectify, naive_softmax
from rectification_cases import SHAPES, SWITCHES, episode, matrix, name
from remp.rectification import Rectification
from remp.rectification.rectify import class_means, rectify
from remp.rectification.similarity import negative_squared_distance


def assert_equals_the_paper(support, labels, query, settings, projection=None):
    n_way = int(labels.max()) + 1
    result = rectify(support, labels, query, n_way, settings, projection=projection, keep_attention=True)
    h = np.eye(support.shape[-1]) if projection is None else projection.numpy()
    for e in range(len(support)):
        prototypes, queries, attentions, bias = naive_rectify(
            support[e].numpy(), labels[e].tolist(), query[e].numpy(), n_way, settings, h
        )
        np.testing.assert_allclose(result.prototypes[e], prototypes, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(result.query[e], queries, rtol=1e-8, atol=1e-8)
        expected = naive_probabilities(prototypes, queries, settings, bias)
        np.testing.assert_allclose(result.logits[e].softmax(-1), expected, rtol=1e-6, atol=1e-8)
        for ours, theirs in zip(result.attention, attentions, strict=True):
            np.testing.assert_allclose(ours[e], theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("settings", SWITCHES, ids=name)
def test_every_switch_equals_the_equations(settings, projected):
    assert_equals_the_paper(*episode(), settings, matrix() if projected else None)


@pytest.mark.parametrize("settings", SWITCHES[::5], ids=name)
def test_a_small_matrix_projects_each_position_of_a_map(settings):
    """Maps of 2 channels at 3 positions, flattened: the channels of a position are 3 numbers apart."""
    support, labels, query = episode(dim=6)
    small, whole = matrix(2), torch.zeros(6, 6, dtype=torch.float64)
    for position in range(3):
        for i in range(2):
            for j in range(2):
                whole[3 * i + position, 3 * j + position] = small[i, j]
    ours, theirs = (rectify(support, labels, query, 3, settings, projection=h) for h in (small, whole))
    torch.testing.assert_close(ours.prototypes, theirs.prototypes)
    torch.testing.assert_close(ours.query, theirs.query)
    torch.testing.assert_close(ours.logits, theirs.logits)


def test_a_learned_projection_makes_no_matrix_of_the_size_of_itself():
    """One map of 18,432 numbers: a product of two such matrices would take 2.7 GB and minutes."""
    support, labels, query = episode(dim=18_432, n_episodes=1, dtype=torch.float32)
    h = (0.1 * torch.eye(512)).requires_grad_()
    result = rectify(support, labels, query, 3, Rectification(layers=10, scale=1e-4), projection=h)
    (gradient,) = torch.autograd.grad(result.logits.sum(), h)
    assert result.query.shape == query.shape
    assert gradient.isfinite().all()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_every_shape_equals_the_equations(shape, step):
    for settings in (Rectification(layers=4, scale=0.2, step=step), Rectification(layers=4, residual=False, step=step)):
        assert_equals_the_paper(*episode(**shape), settings, matrix())


def test_one_label_in_all_has_its_share_too():
    settings = Rectification(layers=2, residual=False, scale=0.3, label_share=0.7)
    assert_equals_the_paper(*episode(shots=(1,), n_query=4), settings)


def test_a_map_with_as_many_channels_as_there_are_classes_is_a_map_nevertheless():
    """A small matrix is the large one that does the same at each of two positions."""
    support, labels, query = episode(shots=(1, 2), dim=4)
    settings, small = Rectification(layers=2, scale=0.3), matrix(2)
    ours = rectify(support, labels, query, 2, settings, projection=small)
    large = rectify(support, labels, query, 2, settings, projection=torch.kron(small, torch.eye(2, dtype=small.dtype)))
    torch.testing.assert_close(ours.prototypes, large.prototypes)


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


def test_beta_is_the_published_sequence_and_rises():
    """METHODS C.4."""
    ten = [Rectification(layers=10).beta(layer, 5) for layer in range(10)]
    assert ten == pytest.approx([0.03, 0.0333, 0.0375, 0.0429, 0.05, 0.06, 0.075, 0.1, 0.15, 0.3], abs=1e-4)
    assert [Rectification(layers=2).beta(layer, 5) for layer in range(2)] == pytest.approx([0.15, 0.3])
    assert ten == sorted(set(ten))


def test_an_attention_of_exactly_beta_stays():
    """With one class every attention is 1, and β is the threshold in the last layer."""
    support, labels, query = episode(shots=(3,), n_query=4)
    at, above = Rectification(layers=1, threshold=1.0), Rectification(layers=1, threshold=1.001)
    kept, plain, masked = (
        rectify(support, labels, query, 1, settings).prototypes
        for settings in (at, replace(at, repulsion="none"), above)
    )
    assert torch.equal(kept, plain)
    assert not torch.allclose(masked, plain)


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
    result = rectify(support, labels, query, 3, settings, keep_attention=True)
    for rows in result.attention:
        torch.testing.assert_close(rows.abs().sum(-1), torch.ones(2, 3, dtype=rows.dtype))
    torch.testing.assert_close(result.attention[-1] @ torch.cat([support, query], dim=1), result.prototypes)


def test_supports_never_change_their_label():
    support, labels, query = episode(shots=(2, 3, 1))
    for rows in rectify(support, labels, query, 3, Rectification(), keep_attention=True).attention:
        on_support = rows[..., : labels.shape[1]]
        assert torch.equal(on_support > 0, labels[:, None] == torch.arange(3)[:, None])
        assert (on_support >= 0).all()


@pytest.mark.parametrize("settings", SWITCHES[::3], ids=name)
def test_renaming_the_classes_renames_the_answers(settings):
    support, labels, query = episode()
    order = torch.tensor([2, 0, 1])  # class n is now called order[n]
    before = rectify(support, labels, query, 3, settings)
    after = rectify(support, order[labels], query, 3, settings)
    torch.testing.assert_close(after.logits[..., order], before.logits)
    torch.testing.assert_close(after.prototypes[:, order], before.prototypes)


@pytest.mark.parametrize("settings", SWITCHES[::3], ids=name)
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


@pytest.mark.parametrize("settings", SWITCHES[::3], ids=name)
def test_gradients_are_right(settings):
    support, labels, query = episode(n_query=3, dim=3, n_episodes=1)
    # -min(P) is a constant to the gradient (METHODS C.5): a large scale makes it too small for finite differences.
    settings = (
        replace(settings, layers=2, scale=20.0) if settings.repulsion == "negative" else replace(settings, layers=2)
    )

    def outputs(support, query, projection):
        result = rectify(support, labels, query, 3, settings, projection=projection)
        return result.logits, result.prototypes

    assert torch.autograd.gradcheck(outputs, [x.requires_grad_() for x in (support, query, matrix(3))])


def test_the_minimum_that_repels_carries_no_gradient():
    """Prototypes for P fixed by hand: only the numbers of the support move them, by 1 / Σ|row| each."""
    support, labels, query = episode(n_episodes=1)
    settings = Rectification(layers=1, threshold=100.0, residual=False)  # every query is masked
    result = rectify(support.requires_grad_(), labels, query, 3, settings, keep_attention=True)
    (gradient,) = torch.autograd.grad(result.prototypes.sum(), support)
    own = result.attention[0][0, :, : labels.shape[1]].sum(0)  # the weight of each support in its prototype
    torch.testing.assert_close(gradient[0], own[:, None].expand(-1, support.shape[-1]))


@pytest.mark.parametrize(
    ("support", "labels", "query"),
    [
        ((5, 4), (5,), (9, 4)),
        ((1, 5, 4), (1, 5), (1, 9, 3)),
        ((1, 5, 4), (1, 5), (2, 9, 4)),
        ((1, 5, 4), (1, 4), (1, 9, 4)),
    ],
)
def test_tensors_that_are_no_batch_of_tasks_are_refused(support, labels, query):
    with pytest.raises(ValueError, match=r"needed \(E, S, d\), \(E, S\) and \(E, Q, d\)"):
        rectify(torch.zeros(support), torch.zeros(labels, dtype=torch.int64), torch.zeros(query), 5, Rectification())


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0]])
def test_labels_outside_of_the_classes_are_refused(labels):
    with pytest.raises(ValueError, match=r"support labels are .*; needed 0 … 1: number the 2 classes from 0"):
        rectify(torch.zeros(1, 2, 3), torch.tensor([labels]), torch.zeros(1, 1, 3), 2, Rectification())


def test_without_queries_there_is_nothing_to_rectify_with():
    with pytest.raises(ValueError, match="there are no queries"):
        rectify(torch.zeros(1, 2, 3), torch.tensor([[0, 1]]), torch.zeros(1, 0, 3), 2, Rectification())
