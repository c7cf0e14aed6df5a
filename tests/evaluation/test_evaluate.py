"""Evaluation: each image embedded once, each episode's accuracy kept, all that a number depends on named."""

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from remp.backbones.embedding import Normalisation
from remp.config import make_config
from remp.datasets.base import ImageSet
from remp.episodes import EpisodeSampler, Protocol
from remp.episodes.files import episode_hash, load_episodes, save_episodes
from remp.errors import CheckpointError, ConfigError, EpisodeError
from remp.evaluation.evaluate import accuracies, embed, evaluate
from remp.methods import ProtoNet
from remp.methods.base import Method
from remp.rectification.transform import FeatureTransform
from remp.trained import Trained, build_method

PROTOCOL = Protocol(n_way=3, n_shot=2, n_query=4)
NORMALISATION = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


class Counting(ProtoNet):
    """Counts the images it embeds and notes what it is shown."""

    n_embedded = 0
    saw_query_labels = False

    def embed(self, images):
        self.n_embedded += len(images)
        return super().embed(images)

    def logits(self, episodes):
        self.saw_query_labels |= episodes.query_labels is not None
        return super().logits(episodes)


class PerTask(Method):
    """Overrides `score`: its features depend on the task."""

    batches: list[int]

    def score(self, episodes):
        self.batches = [*getattr(self, "batches", []), len(episodes)]
        mean = episodes.support.mean(dim=(1, 2, 3, 4), keepdim=True)
        return ProtoNet().logits(episodes.map(lambda images: images.flatten(1) - mean.mean()))


@pytest.fixture
def trained(tiny) -> Trained:
    config = make_config(tiny(method="protonet"))
    method = build_method(config, (16, 16, 3), 6).eval()
    return Trained("toy.safetensors", method, config, NORMALISATION, (16, 16, 3), {}, "c0ffee" * 8)


@pytest.fixture
def counting(trained) -> Counting:
    return Counting(trained.method.backbone)


def drawn(images, protocol=PROTOCOL, n=8):
    return EpisodeSampler(images.labels, protocol, seed=0).sample(n)


def naive_accuracy(method, images, episodes):
    """Image by image, episode by episode: the nearest class mean by Euclidean distance."""
    pixels = (images.images / 255 - 0.5) / 0.25
    with torch.no_grad():
        each = [method.embed(torch.from_numpy(p).float().permute(2, 0, 1)[None])[0].numpy() for p in pixels]
    result = []
    for e in range(len(episodes)):
        support, labels = episodes.support[e].tolist(), episodes.support_labels[e].tolist()
        means = [
            np.mean([each[i] for i, y in zip(support, labels, strict=True) if y == way], axis=0)
            for way in range(episodes.n_way)
        ]
        nearest = [int(np.argmin([np.sum((each[q] - m) ** 2) for m in means])) for q in episodes.query[e].tolist()]
        result.append(np.mean(np.array(nearest) == episodes.query_labels[e].numpy()))
    return np.array(result)


def test_accuracies_are_those_of_a_loop_over_images(trained, test_images):
    result = evaluate(trained, test_images, PROTOCOL, n_episodes=8)
    np.testing.assert_allclose(
        result.accuracies, naive_accuracy(trained.method, test_images, drawn(test_images)), atol=1e-9
    )


def test_each_image_is_embedded_once_and_no_query_label_is_shown(counting, test_images):
    accuracies(counting, test_images, NORMALISATION, drawn(test_images, n=30))
    assert counting.n_embedded == len(test_images.images)
    assert not counting.saw_query_labels


def test_the_batch_size_changes_nothing(trained, test_images, monkeypatch):
    whole = embed(trained.method, test_images.images, NORMALISATION)
    one = accuracies(trained.method, test_images, NORMALISATION, drawn(test_images))
    height, width, _ = test_images.image_size
    monkeypatch.setattr("remp.backbones.embedding.BATCH_PIXELS", 7 * height * width + 1)
    monkeypatch.setattr("remp.evaluation.evaluate.SCORE_BYTES", 1)
    network, seen = trained.method.embed, []
    monkeypatch.setattr(trained.method, "embed", lambda images: seen.append(len(images)) or network(images))
    parts = embed(trained.method, test_images.images, NORMALISATION)
    assert max(seen) == 7  # the larger the images, the fewer at once: their maps take the memory
    torch.testing.assert_close(whole, parts, atol=1e-5, rtol=1e-5)
    np.testing.assert_array_equal(one, accuracies(trained.method, test_images, NORMALISATION, drawn(test_images)))


def test_the_mode_of_the_method_is_restored(trained, test_images):
    trained.method.train()
    statistics = trained.method.backbone.blocks[1].running_mean.clone()
    accuracies(trained.method, test_images, NORMALISATION, drawn(test_images))
    assert trained.method.training
    assert torch.equal(trained.method.backbone.blocks[1].running_mean, statistics)


def test_mirror_averages_the_embeddings_of_an_image_and_its_mirror(trained, test_images):
    transform = FeatureTransform.parse("mirror")
    plain = embed(trained.method, test_images.images, NORMALISATION)
    mirrored = embed(trained.method, test_images.images[:, :, ::-1], NORMALISATION)
    actual = embed(trained.method, test_images.images, NORMALISATION, transform)
    torch.testing.assert_close(actual, (plain + mirrored) / 2)


def test_zoom_averages_the_embeddings_of_an_image_and_of_its_enlarged_middle(trained, test_images):
    """The middle enlarged by Pillow, which is another code for the same bilinear scaling."""
    plain = embed(trained.method, test_images.images, NORMALISATION)
    side = test_images.image_size[0]
    middle = round(0.85 * side)
    start = (side - middle) // 2
    parts = test_images.images[:, start : start + middle, start : start + middle].astype(np.float32)
    enlarged = np.stack(
        [
            np.stack(
                [
                    np.asarray(Image.fromarray(c).resize((side, side), Image.Resampling.BILINEAR))
                    for c in image.transpose(2, 0, 1)
                ],
                axis=-1,
            )
            for image in parts
        ]
    )
    with torch.inference_mode():
        zoomed = trained.method.eval().embed(NORMALISATION(torch.from_numpy(enlarged)))
    actual = embed(trained.method, test_images.images, NORMALISATION, FeatureTransform.parse("zoom"))
    torch.testing.assert_close(actual, (plain + zoomed) / 2, atol=1e-3, rtol=1e-3)


def test_a_result_names_all_it_depends_on(trained, test_images):
    result = evaluate(trained, test_images, PROTOCOL, n_episodes=8, seed=3)
    episodes = EpisodeSampler(test_images.labels, PROTOCOL, seed=3).sample(8)
    assert result.episode_hash == episode_hash(episodes, test_images.fingerprint)
    for part in ("n = 8", "3-way", "2-shot", "4 queries", "seed 3", result.episode_hash[:16], "c0ffee", "inductive"):
        assert part in result.card()


def test_a_result_names_the_settings_that_were_changed_after_training(tiny, test_images):
    before, now = make_config(tiny()), make_config(tiny(layers=0, repulsion="none"))
    method, info = build_method(now, (16, 16, 3), 6).eval(), {"config": before.flat()}
    for config, changed in ((before, {}), (now, {"layers": 0, "repulsion": "none"})):
        loaded = Trained("toy.safetensors", method, config, NORMALISATION, (16, 16, 3), info, "c0ffee" * 8)
        result = evaluate(loaded, test_images, PROTOCOL, n_episodes=4)
        assert result.changed_settings == result.as_dict()["changed_settings"] == changed
        named = "remp (layers: 0, repulsion: none) on conv4" if changed else "remp on conv4"
        assert named in result.card()


def test_every_accuracy_is_saved_and_an_earlier_result_stays(trained, test_images, tmp_path):
    result = evaluate(trained, test_images, PROTOCOL, n_episodes=8)
    first, second = result.save(tmp_path / "r" / "a.json"), result.save(tmp_path / "r" / "a.json")
    saved = json.loads(second.read_text())
    np.testing.assert_allclose(saved["accuracies"], result.accuracies, atol=1e-6)
    assert (first.name, second.name) == ("a.json", "a-2.json")
    assert (saved["n_way"], saved["n_shot"], saved["seed"], saved["n_episodes"]) == (3, 2, 0, 8)
    assert saved["mean"] == pytest.approx(np.mean(saved["accuracies"]), abs=1e-5)


def test_centring_makes_the_result_transductive(trained, test_images):
    assert not evaluate(trained, test_images, PROTOCOL, n_episodes=2, transform="mirror+power+l2").transductive
    centred = evaluate(trained, test_images, PROTOCOL, n_episodes=2, transform="all")
    assert centred.transductive
    assert "transductive; transform: mirror+zoom+power+l2+centre" in centred.card()


def test_the_transform_of_the_settings_is_the_default(trained, tiny, test_images):
    config = make_config(tiny(method="protonet", transform="power+l2"))
    with_transform = Trained("t", trained.method, config, NORMALISATION, (16, 16, 3), {}, "")
    assert evaluate(with_transform, test_images, PROTOCOL, n_episodes=2).transform == "power+l2"
    assert evaluate(with_transform, test_images, PROTOCOL, n_episodes=2, transform="none").transform == "none"


@pytest.mark.parametrize(
    "protocol",
    [Protocol(3, 1, 4, "dirichlet:2"), Protocol(3, (1, 2, 5), 4), Protocol(3, (1, 2, 3), 4, "dirichlet:0.5")],
    ids=str,
)
def test_unequal_shots_and_queries_are_scored_as_in_the_loop(trained, test_images, protocol):
    result = evaluate(trained, test_images, protocol, n_episodes=4)
    expected = naive_accuracy(trained.method, test_images, drawn(test_images, protocol, 4))
    np.testing.assert_allclose(result.accuracies, expected, atol=1e-9)


def test_episodes_from_a_file_are_the_ones_scored(trained, test_images, tmp_path):
    episodes = EpisodeSampler(test_images.labels, PROTOCOL, seed=9).sample(5)
    digest = save_episodes(tmp_path / "e", episodes, PROTOCOL, test_images, seed=9)
    file = load_episodes(tmp_path / "e", test_images)
    result = evaluate(trained, test_images, file.protocol, episodes=file.episodes, seed=file.seed)
    assert result.episode_hash == digest
    np.testing.assert_array_equal(
        result.accuracies, evaluate(trained, test_images, PROTOCOL, n_episodes=5, seed=9).accuracies
    )


def test_given_episodes_claim_no_seed(trained, test_images):
    result = evaluate(trained, test_images, PROTOCOL, episodes=drawn(test_images))
    assert result.seed is None
    assert "episodes from a file" in result.card()


def test_episodes_and_protocol_must_agree(trained, test_images):
    with pytest.raises(EpisodeError, match="the episodes are 3-way, the protocol 5-way"):
        evaluate(trained, test_images, Protocol(5), episodes=drawn(test_images))


def test_images_of_another_size_are_refused_with_a_cure(trained, test_images):
    large = ImageSet(
        "big", "test", np.zeros((60, 32, 32, 3), np.uint8), test_images.labels, test_images.class_names, "f", (0,), (1,)
    )
    with pytest.raises(CheckpointError, match=r"images of 16x16x3 .* 'big' has 32x32x3: .*--size 16"):
        evaluate(trained, large, PROTOCOL)


def test_a_method_of_its_own_per_task_is_given_one_episode_of_images_at_a_time(test_images):
    method = PerTask()
    episodes = drawn(test_images)
    scored = accuracies(method, test_images, NORMALISATION, episodes)
    assert method.batches == [1] * 8
    assert scored.shape == (8,)
    assert scored.mean() > 0.9  # the toy classes are told apart by their pixels


def test_a_transform_is_refused_where_features_depend_on_the_task(test_images):
    with pytest.raises(ConfigError, match="PerTask changes its features from task to task: set transform to none"):
        accuracies(PerTask(), test_images, NORMALISATION, drawn(test_images), FeatureTransform.parse("l2"))


def test_a_path_a_name_and_features_are_refused_with_what_is_needed(trained, test_images, tmp_path):
    with pytest.raises(ConfigError, match=r"trained is .*; needed what remp.load returns"):
        evaluate(tmp_path / "best.safetensors", test_images, PROTOCOL)
    with pytest.raises(ConfigError, match="images is 'toy'; needed an ImageSet"):
        evaluate(trained, "toy", PROTOCOL)
    features = drawn(test_images).gather(torch.zeros(len(test_images.labels), 4))
    with pytest.raises(EpisodeError, match=r"the episodes hold torch.float32 .*; needed image ids \(E, S\)"):
        evaluate(trained, test_images, PROTOCOL, episodes=features)


def test_600_episodes_are_the_default():
    assert inspect.signature(evaluate).parameters["n_episodes"].default == 600


def test_given_episodes_must_be_as_the_protocol_says(trained, test_images):
    episodes = drawn(test_images)
    with pytest.raises(EpisodeError, match="have 6 labelled images and 12 queries, by the protocol they have 3 and 12"):
        evaluate(trained, test_images, Protocol(3, 1, 4), episodes=episodes)
    beyond = replace(episodes, query=episodes.query + len(test_images.labels))
    with pytest.raises(EpisodeError, match=r"got image ids \d+ … \d+; needed episodes of the \d+ images of toy/test"):
        evaluate(trained, test_images, PROTOCOL, episodes=beyond)
    with pytest.raises(EpisodeError, match="got no episode"):
        evaluate(trained, test_images, PROTOCOL, episodes=episodes[:0])


def test_no_size_is_advised_where_the_channels_differ(trained, test_images):
    grey = replace(test_images, images=test_images.images[..., :1])
    with pytest.raises(CheckpointError, match=r"has 16x16x1: take another checkpoint"):
        evaluate(trained, grey, PROTOCOL)


def test_features_of_other_images_are_refused(trained, test_images):
    features = embed(trained.method, test_images.images, trained.normalisation)
    given = evaluate(trained, test_images, Protocol(3, 1, 2), n_episodes=5, features=features)
    made = evaluate(trained, test_images, Protocol(3, 1, 2), n_episodes=5)
    np.testing.assert_array_equal(given.accuracies, made.accuracies)
    with pytest.raises(EpisodeError, match=r"got features of 61 images; needed those of all 60 of "):
        evaluate(trained, test_images, Protocol(3, 1, 2), features=torch.cat([features, features[:1]]))
