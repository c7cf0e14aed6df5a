"""ReMP's training objective by plain loops from Eqs. 1-6, and what its settings mean."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from remp.backbones import Conv4
from remp.backbones.base import Backbone
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods import ProtoNet, ReMP
from remp.rectification.rectify import rectify

N_CLASSES, DIM = 7, 5
PROJECTIONS = ["learned", "residual", "identity", "absent"]


class Flat(Backbone):
    """The pixels themselves."""

    def maps(self, images: Tensor) -> Tensor:
        return images


def make(**settings) -> ReMP:
    torch.manual_seed(0)
    return ReMP(Flat(), n_classes=N_CLASSES, feature_shape=(DIM,), **settings).double()


def episodes(seed: int = 0) -> Episodes:
    """Two episodes of images with one pixel and DIM channels, classes 0 … 6 as ways 0 … 2."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(2, 11, DIM, 1, 1, dtype=torch.float64, generator=generator)
    support_labels = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 1]])
    query_labels = torch.randint(3, (2, 7), generator=generator)
    return Episodes(images[:, :4], support_labels, images[:, 4:], query_labels, 3, torch.tensor([[4, 0, 6], [2, 5, 1]]))


def vectors(images: Tensor) -> Tensor:
    return images.flatten(2)


def kappa(name: str, a: Tensor, b: Tensor) -> float:
    if name == "cosine":
        return float(a @ b / (a.norm() * b.norm()))
    square = float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return -math.sqrt(square) if name == "plain-euclidean" else -square


def mean_cross_entropy(rows: list[tuple[list[float], int]]) -> float:
    """Eqs. 1 and 2, or 3 and 5: -log of the softmax of each (scores, label), averaged."""
    terms = [-math.log(math.exp(s[label]) / sum(math.exp(score) for score in s)) for s, label in rows]
    return sum(terms) / len(terms)


def naive_global(method: ReMP, batch: Episodes, metric: str, *, with_support: bool = False) -> float:
    rows = []
    parts = [(batch.query, batch.query_labels)] + [(batch.support, batch.support_labels)] * with_support
    for items, labels in parts:
        for e in range(2):
            for z, label in zip(vectors(items)[e], labels[e], strict=True):
                scores = [method.global_scale * kappa(metric, z, w) for w in method.global_prototypes.detach()]
                rows.append((scores, int(batch.class_ids[e, label])))
    return mean_cross_entropy(rows)


def naive_local(batch: Episodes, metric: str, scale: float) -> float:
    """Eqs. 3-5: prototypes are the means of the support."""
    rows = []
    for e in range(2):
        means = [vectors(batch.support)[e][batch.support_labels[e] == n].mean(0) for n in range(3)]
        for z, label in zip(vectors(batch.query)[e], batch.query_labels[e], strict=True):
            rows.append(([scale * kappa(metric, z, c) for c in means], int(label)))
    return mean_cross_entropy(rows)


@pytest.mark.parametrize("local_metric", ["euclidean", "plain-euclidean", "cosine"])
@pytest.mark.parametrize("global_metric", ["cosine", "euclidean", "plain-euclidean"])
def test_the_two_terms_are_those_of_the_paper_with_a_metric_each(global_metric, local_metric):
    method = make(
        train_layers=0, normalise=False, scale=0.7, similarity=local_metric, global_similarity=global_metric, alpha=0.3
    )
    terms = method.loss(episodes())
    assert terms["global"].item() == pytest.approx(naive_global(method, episodes(), global_metric))
    assert terms["local"].item() == pytest.approx(0.3 * naive_local(episodes(), local_metric, 0.7))


def test_the_global_term_takes_the_support_too_if_asked():
    method = make(global_on_support=True)
    expected = naive_global(method, episodes(), "cosine", with_support=True)
    assert method.loss(episodes())["global"].item() == pytest.approx(expected)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_local_term_is_matched_after_the_training_layers(projection):
    """With `rectify`, which has its own tests, for the prototypes; h is written out here."""
    method, batch = make(projection=projection, normalise=False, train_layers=2, layers=10, scale=0.2), episodes()
    h = {"identity": torch.eye(DIM, dtype=torch.float64), "absent": None}.get(projection)
    if projection in ("learned", "residual"):
        method.weight.data += 0.1 * torch.randn(DIM, DIM, dtype=torch.float64)
        h = method.weight.detach() + (torch.eye(DIM) if projection == "residual" else 0)
    two = replace(method.rectification, layers=2)
    result = rectify(vectors(batch.support), batch.support_labels, vectors(batch.query), 3, two, projection=h)
    rows = [
        ([0.2 * kappa("euclidean", z, c) for c in result.prototypes[e]], int(batch.query_labels[e, q]))
        for e in range(2)
        for q, z in enumerate(result.query[e])
    ]
    assert method.loss(batch)["local"].item() == pytest.approx(0.1 * mean_cross_entropy(rows))


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_projections_start_as_the_identity(projection):
    batch = episodes().map(lambda images: images.flatten(1))
    start = make(projection=projection).logits(batch)
    expected = make(projection="absent" if projection == "absent" else "identity").logits(batch)
    torch.testing.assert_close(start, expected)


@pytest.mark.parametrize("kind", ["learned", "residual"])
def test_a_1x1_convolution_is_the_same_on_every_position_of_the_map(kind):
    torch.manual_seed(0)
    settings = {"n_classes": N_CLASSES, "feature_shape": (256,), "projection": f"{kind}-1x1", "layers": 3}
    method = ReMP(Conv4(), **settings).double().eval()
    assert method.weight.shape == (64, 64)
    with torch.no_grad():
        method.weight += 0.1 * torch.randn_like(method.weight)
    whole = ReMP(Conv4(), **{**settings, "projection": kind}).double().eval()
    whole.load_state_dict({**method.state_dict(), "weight": torch.kron(method.weight, torch.eye(4).double())})
    labels, images = episodes(), torch.randn(2, 11, 3, 32, 32, dtype=torch.float64)
    batch = replace(labels, support=images[:, :4], query=images[:, 4:])
    torch.testing.assert_close(method.score(batch), whole.score(batch))


def test_the_channels_of_ready_made_maps_are_those_of_their_shape():
    assert ReMP(feature_shape=(8, 5, 5), projection="learned-1x1").weight.shape == (8, 8)


def test_an_absent_projection_differs_from_the_identity():
    batch = episodes().map(lambda images: images.flatten(1))
    assert make(projection="absent").rectification.residual is False
    assert not torch.allclose(make(projection="absent").logits(batch), make(projection="identity").logits(batch))


@pytest.mark.parametrize(
    ("schedule", "progress", "names"),
    [
        ("cooperative", 0.0, {"global", "local"}),
        ("cooperative", 0.9, {"global", "local"}),
        ("global-then-local", 0.0, {"global"}),
        ("global-then-local", 0.29, {"global"}),
        ("global-then-local", 0.3, {"local"}),
        ("global-then-local", 1.0, {"local"}),
        ("local", 0.0, {"local"}),
        ("global", 1.0, {"global"}),
    ],
)
def test_a_schedule_says_which_terms_are_minimised_when(schedule, progress, names):
    assert set(make(schedule=schedule, global_share=0.3).loss(episodes(), progress)) == names


def test_alpha_weighs_the_local_term_only_beside_the_global_one():
    both, alone = (make(schedule=schedule, alpha=0.25).loss(episodes()) for schedule in ("cooperative", "local"))
    assert both["local"].item() == pytest.approx(0.25 * alone["local"].item())


def test_without_layers_it_is_prototypical_networks():
    batch = episodes().map(lambda images: images.flatten(1))
    ours = make(layers=0, normalise=False, scale=1.0).logits(batch)
    theirs = ProtoNet().logits(batch)
    torch.testing.assert_close(ours - ours[..., :1], theirs - theirs[..., :1])
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_normalised_features_make_the_size_of_a_feature_irrelevant():
    batch = episodes().map(lambda images: images.flatten(1))
    torch.testing.assert_close(make().logits(batch.map(lambda z: 7 * z)), make().logits(batch))
    assert not torch.allclose(
        make(normalise=False).logits(batch.map(lambda z: 7 * z)), make(normalise=False).logits(batch)
    )


def test_training_uses_its_own_number_of_layers():
    batch = episodes().map(lambda images: images.flatten(1))
    method = make(train_layers=2, layers=10)
    assert len(method.rectified(batch, keep_attention=True).attention) == 10
    assert len(method.rectified(batch, keep_attention=True, layers=2).attention) == 2


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_every_parameter_learns_from_both_terms_together(projection):
    method, batch = make(projection=projection), episodes()
    sum(method.loss(batch).values()).backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
        assert parameter.grad.isfinite().all(), name


def test_an_image_without_any_feature_does_not_spoil_the_gradient():
    method, batch = make(), episodes()
    images = batch.query.clone()
    images[:, 0] = 0
    images.requires_grad_()
    sum(method.loss(replace(batch, query=images)).values()).backward()
    assert images.grad.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "globall"}, "schedule is 'globall'; choose from: cooperative, global-then-local, local, global"),
        ({"projection": "linear"}, "choose from: learned, residual, learned-1x1, residual-1x1, identity, absent"),
        ({"projection": "learned-1x1", "feature_shape": (256,)}, r"needs their \(channels, height, width\)"),
        ({"global_similarity": "dot"}, "choose from: euclidean, plain-euclidean, cosine"),
        ({"repulsion": "neg"}, "choose from: negative, zero, none"),
        ({"projection": "learned"}, "give feature_shape"),
        ({"n_classes": 5}, "give feature_shape"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ReMP(**settings)
