"""DFMN-MCT by plain loops from the formulas of the paper."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones.base import Backbone
from remp.config import make_config
from remp.methods.dfmn_mct import DFMNMCT
from remp.trained import build_method
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

SHAPE = (4, 2, 2)


def make(shape: tuple[int, int, int] = SHAPE, **settings) -> DFMNMCT:
    """On maps, which are their only view."""
    settings = {"mirror_view": False, "block_view": False, **settings}
    return DFMNMCT(Pixels(), n_classes=N_CLASSES, feature_shape=shape, **settings).double().eval()


def length_scale(method: DFMNMCT, map_: Tensor) -> float:
    """g(a), written out for running statistics 0 and 1."""
    scale = method.length_scale
    response = F.conv2d(map_[None], scale.convolution.weight, scale.convolution.bias, padding=1)
    response = (response / math.sqrt(1 + 2e-5)).clamp(min=0).flatten()
    return math.log1p(math.exp((scale.linear.weight[0] @ response + scale.linear.bias).item()))


def scaled(method: DFMNMCT, map_: Tensor) -> Tensor:
    """u(a) = a / ‖a‖ / g(a)"""
    return map_.flatten() / map_.norm() / length_scale(method, map_)


class TwoBlocks(Backbone):
    """A first map that is not symmetric, and a last one; batch norm would tell training from evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, 2).double()
        self.norm = nn.BatchNorm2d(5).double()
        self.last = nn.Conv2d(5, 4, 2, stride=2).double()

    def stages(self, images: Tensor) -> list[Tensor]:
        first = self.norm(self.first(images))
        return [first, self.last(first)]

    def maps(self, images: Tensor) -> Tensor:
        return self.stages(images)[-1]


def naive_view_logits(method: DFMNMCT, batch, updates: int, *, mirror: bool, block: bool) -> list[Tensor]:
    """Logarithms of the confidences, averaged over the views, for each episode of images."""

    def views(image: Tensor) -> list[list[Tensor]]:
        """The maps of the last block and of the one before, of the image and of its mirror image."""
        sides = [image, image.flip(2)] if mirror else [image]
        stages = [method.backbone.stages(side[None]) for side in sides]
        return [[s[1][0], s[0][0]] if block else [s[1][0]] for s in stages]

    answers = []
    for support, labels, query in zip(batch.support, batch.support_labels, batch.query, strict=True):
        shares = torch.zeros(len(query), N_WAY, dtype=torch.float64)
        seen_support, seen_query = [views(image) for image in support], [views(image) for image in query]
        for _ in range(updates + 1):
            confidences = []
            for side in range(1 + mirror):
                scales = {}
                for depth in range(1 + block):
                    distances = torch.zeros_like(shares)
                    for n in range(N_WAY):
                        members = [seen_support[s][side][depth] for s in range(len(labels)) if labels[s] == n]
                        weighted = [p * seen_query[q][side][depth] for q, p in enumerate(shares[:, n])]
                        c = (sum(members) + sum(weighted)) / (len(members) + shares[:, n].sum())
                        if depth == 0:
                            scales[n] = length_scale(method, c)
                        for q in range(len(query)):
                            z = seen_query[q][side][depth]
                            of_query = length_scale(method, seen_query[q][side][0])
                            difference = z.flatten() / z.norm() / of_query - c.flatten() / c.norm() / scales[n]
                            distances[q, n] = difference.square().sum()
                    confidences.append((-distances).softmax(1))
            shares = sum(confidences) / len(confidences)
        answers.append(shares.log())
    return answers


def naive_logits(method: DFMNMCT, batch, updates: int) -> list[list[list[float]]]:
    answers = []
    for support, labels, query in zip(batch.support, batch.support_labels, batch.query, strict=True):
        members = [support[labels == n] for n in range(N_WAY)]
        prototypes = [m.mean(0) for m in members]
        for update in range(updates + 1):
            targets = [scaled(method, c) for c in prototypes]
            scores = [[-float((scaled(method, z) - u).square().sum()) for u in targets] for z in query]
            if update < updates:
                shares = torch.tensor(scores, dtype=torch.float64).softmax(1)
                prototypes = [
                    (members[n].sum(0) + sum(p * z for p, z in zip(shares[:, n], query, strict=True)))
                    / (len(members[n]) + shares[:, n].sum())
                    for n in range(N_WAY)
                ]
        answers.append(scores)
    return answers


@pytest.mark.parametrize("updates", [0, 1, 10])
def test_queries_join_the_class_means_by_their_confidence(updates):
    method, batch = make(updates=updates), small_episodes(*SHAPE)
    expected = torch.tensor(naive_logits(method, batch, updates), dtype=torch.float64)
    torch.testing.assert_close(method.logits(batch).detach(), expected.log_softmax(-1))


@pytest.mark.parametrize(("mirror", "block"), [(True, True), (True, False), (False, True), (False, False)])
@torch.no_grad()
def test_confidences_are_averaged_over_the_views(mirror, block):
    method = DFMNMCT(TwoBlocks(), feature_shape=SHAPE, updates=2, mirror_view=mirror, block_view=block).double().eval()
    batch = small_episodes(3, 5, 5)
    expected = naive_view_logits(method, batch, updates=2, mirror=mirror, block=block)
    torch.testing.assert_close(method.score(batch), torch.stack(expected))


def test_the_mirror_view_is_taken_in_evaluation_mode_and_without_gradient():
    method = DFMNMCT(TwoBlocks(), feature_shape=SHAPE).train()
    images = torch.randn(6, 3, 5, 5, dtype=torch.float64)
    rows = method.embed(images)
    assert method.backbone.training
    plain, mirrored = rows.chunk(2, dim=1)
    (of_mirrored,) = torch.autograd.grad(mirrored.sum() + 0 * plain.sum(), method.backbone.first.weight)
    assert not of_mirrored.any()
    method.backbone.norm.reset_running_stats()  # as they were before
    first, last = method.backbone.eval().stages(images.flip(3))
    torch.testing.assert_close(mirrored, torch.cat([last.flatten(1), first.flatten(1)], 1))
    assert method.backbone.norm.num_batches_tracked == 0


def test_images_embedded_once_have_the_answers_of_images_embedded_episode_by_episode():
    method = DFMNMCT(TwoBlocks(), feature_shape=SHAPE).double().eval()
    batch = small_episodes(3, 5, 5)
    one_by_one = torch.cat([method.logits(batch[e : e + 1].map(method.embed)) for e in range(2)])
    torch.testing.assert_close(method.score(batch), one_by_one)


@torch.no_grad()
def test_the_instance_term_is_of_the_last_map_after_an_update_by_all_views():
    method = DFMNMCT(TwoBlocks(), n_classes=N_CLASSES, feature_shape=SHAPE).double().eval()
    batch = small_episodes(3, 5, 5)
    shares = torch.stack(naive_view_logits(method, batch, updates=0, mirror=True, block=True)).exp()
    rows = []
    for e in range(2):
        maps, queries = method.backbone.maps(batch.support[e]), method.backbone.maps(batch.query[e])
        prototypes = []
        for n in range(N_WAY):
            members = maps[batch.support_labels[e] == n]
            weighted = sum(p * z for p, z in zip(shares[e, :, n], queries, strict=True))
            prototypes.append((members.sum(0) + weighted) / (len(members) + shares[e, :, n].sum()))
        for z, label in zip(queries, batch.query_labels[e], strict=True):
            scores = [-float((scaled(method, z) - scaled(method, c)).square().sum()) for c in prototypes]
            rows.append((scores, int(label)))
    assert method.loss(batch)["instance"].item() == pytest.approx(0.2 * mean_cross_entropy(rows))


def test_the_instance_term_is_taken_after_one_update():
    method, batch = make(), small_episodes(*SHAPE)
    logits = naive_logits(method, batch, updates=1)
    rows = [(logits[e][q], int(batch.query_labels[e, q])) for e in range(2) for q in range(7)]
    assert method.loss(batch)["instance"].item() == pytest.approx(0.2 * mean_cross_entropy(rows))


def test_the_dense_term_classifies_every_position_of_the_queries():
    method, batch = make(), small_episodes(*SHAPE)
    rows = []
    for e in range(2):
        for map_, label in zip(batch.query[e], batch.query_labels[e], strict=True):
            for pixel in map_.flatten(1).T:
                scores = [-float((pixel - w).square().sum()) for w in method.class_vectors.detach()]
                rows.append((scores, int(batch.class_ids[e, label])))
    assert method.loss(batch)["dense"].item() == pytest.approx(mean_cross_entropy(rows))


@pytest.mark.parametrize("side", [1, 2, 3, 5, 6])
def test_the_length_scale_takes_maps_of_any_size(side):
    method = make((3, side, side))
    scales = method.length_scale(torch.randn(2, 5, 3, side, side, dtype=torch.float64))
    assert scales.shape == (2, 5, 1)
    assert (scales > 0).all()
    assert method.length_scale.linear.in_features == {1: 1, 2: 4, 3: 1, 5: 9, 6: 16}[side]


def test_of_smaller_images_the_last_map_is_enlarged_and_comes_first():
    config = make_config({"data": "toy", "method": "dfmn-mct", "width": 4})
    method = build_method(config, (48, 48, 3), N_CLASSES).eval()  # maps of 3 x 3
    images = torch.randn(2, 3, 16, 16)
    last = method.backbone.maps(images)
    assert last.shape == (2, 4, 1, 1)
    torch.testing.assert_close(method.embed(images)[:, : 4 * 9], last.expand(2, 4, 3, 3).flatten(1))
