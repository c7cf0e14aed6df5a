"""Pictures in, labels out, by a trained method; and methods of one's own."""

import numpy as np
import pytest
import torch
from PIL import Image

import remp
from remp.config import make_config
from remp.errors import ConfigError, EpisodeError
from remp.methods import METHODS


@pytest.fixture
def model(train_tiny):
    return remp.load(train_tiny())


def test_labels_are_those_of_an_episode_scored_by_evaluation(model, test_images):
    """The same episode by way of `evaluate`: its accuracy is the share of these labels that are right."""
    protocol = remp.Protocol(3, 2, 4)
    episodes = remp.EpisodeSampler(test_images.labels, protocol, seed=5).sample(1)
    result = remp.evaluate(model, test_images, protocol, episodes=episodes)
    support, query = (test_images.images[ids[0].numpy()] for ids in (episodes.support, episodes.query))
    names = np.array(["z", "a", "k"])
    found = model.predict(support, names[episodes.support_labels[0]], query)
    right = found.labels == names[episodes.query_labels[0]]
    assert right.mean() == pytest.approx(result.accuracies[0])
    assert found.classes.tolist() == ["a", "k", "z"]
    np.testing.assert_allclose(found.probabilities.sum(1), 1)
    np.testing.assert_array_equal(found.classes[found.probabilities.argmax(1)], found.labels)


def test_pil_pictures_and_arrays_of_the_same_size_give_the_same(model, test_images):
    pictures = [Image.fromarray(image) for image in test_images.images[:8]]
    one = model.predict(test_images.images[:4], [0, 0, 1, 1], test_images.images[4:8])
    other = model.predict(pictures[:4], [0, 0, 1, 1], pictures[4:])
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert one.labels.dtype.kind == "i"


def test_pictures_of_any_size_are_scaled(model):
    large = [Image.new("RGB", (50, 30), colour) for colour in ("red", "blue", "darkred")]
    assert model.predict(large[:2], ["red", "blue"], large[2:]).labels.tolist() == ["red"]


def test_a_method_that_changes_its_network_from_task_to_task_predicts_too(train_tiny, test_images):
    model = remp.load(train_tiny("maml", method="maml", episodes=2, milestones=[]))
    found = model.predict(test_images.images[:4], [0, 0, 1, 1], test_images.images[4:8])
    assert found.probabilities.shape == (4, 2)
    with pytest.raises(ConfigError, match="MAML changes its features from task to task: set transform to none"):
        model.predict(test_images.images[:4], [0, 0, 1, 1], test_images.images[4:8], transform="l2")


@pytest.mark.parametrize(
    ("labels", "query", "message"),
    [
        ([0, 1], slice(4, 6), "4 labelled pictures and 2 labels"),
        ([0] * 4, slice(4, 6), "two classes or more"),
        ([0, 0, 1, 1], slice(0, 0), "no picture to label"),
        (["a", "a", 1, 1], slice(4, 6), "some labels are names and some are numbers"),
    ],
)
def test_what_cannot_be_predicted_is_told(model, test_images, labels, query, message):
    with pytest.raises(EpisodeError, match=message):
        model.predict(test_images.images[:4], labels, test_images.images[query])


def test_pictures_of_floats_are_refused(model, test_images):
    with pytest.raises(EpisodeError, match="needed uint8"):
        model.predict(test_images.images[:4] / 255, [0, 0, 1, 1], test_images.images[4:6])


class Mine(remp.Method):
    """The nearest class mean by the sum of absolute differences."""

    def __init__(self, *args, sharpness: float = 0.1, **kwargs):
        super().__init__(*args, **kwargs)
        self.sharpness = sharpness

    def logits(self, episodes):
        means = torch.stack(
            [episodes.support[:, episodes.support_labels[0] == way].mean(1) for way in range(episodes.n_way)], 1
        )
        return -self.sharpness * (episodes.query.unsqueeze(2) - means.unsqueeze(1)).abs().sum(-1)


def test_a_class_of_ones_own_trains_resumes_and_loads_without_a_table(
    tiny, train_images, validation_images, tmp_path, monkeypatch
):
    before = dict(METHODS)
    sets = {"train_set": train_images, "validation_set": validation_images}
    path = remp.train(tiny(sharpness=0.2), method=Mine, out=tmp_path / "run", **sets)
    assert before == METHODS
    model = remp.load(path, method=Mine)
    assert isinstance(model.method, Mine)
    assert model.method.sharpness == 0.2
    assert remp.resume(tmp_path / "run", method=Mine, **sets) == path
    of_another_method = make_config(tiny(alpha=0.3))
    changed = remp.train(of_another_method, method=Mine, out=tmp_path / "changed", **sets)
    assert remp.load(changed, method=Mine).config.method_settings == {"sharpness": 0.1}
    monkeypatch.setattr("remp.methods._OWN", {})
    monkeypatch.setattr("remp.config.KNOWN", METHODS)
    with pytest.raises(ConfigError, match=r"a class of your own: pass it as method="):
        remp.load(path)


def test_a_checkpoint_that_names_a_module_never_imports_it(tmp_path, train_tiny, monkeypatch):
    from remp.checkpoint import read_checkpoint, write_checkpoint

    tensors, info = read_checkpoint(train_tiny() / "best.safetensors")
    info["config"]["method"] = "antigravity:Method"
    write_checkpoint(tmp_path / "bad.safetensors", tensors, info)
    with pytest.raises(ConfigError, match="a class of your own"):
        remp.load(tmp_path / "bad.safetensors")
    import sys

    assert "antigravity" not in sys.modules


def test_only_a_subclass_of_method_is_taken():
    with pytest.raises(ConfigError, match=r"needed a subclass of remp\.Method"):
        remp.load("cifar-fs-convnet64-1shot", method="protonet")


def test_pictures_are_read_as_those_of_files_are(model, test_images):
    """Turned by EXIF, white where transparent, greys of 16 bits scaled to 8."""
    from remp.trained import as_images

    side = model.image_size[0]
    ramp = np.tile(np.linspace(0, 65535, side).astype(np.uint16), (side, 1))
    deep = as_images([Image.fromarray(ramp)], model.image_size)[0, 0, :, 0]
    np.testing.assert_allclose(deep, np.linspace(0, 255, side), atol=1)
    clear = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    assert (as_images([clear], model.image_size) == 255).all()
    turned = Image.fromarray(test_images.images[0])
    turned.getexif()[0x0112] = 3  # upside down
    np.testing.assert_array_equal(as_images([turned], model.image_size)[0], test_images.images[0][::-1, ::-1])


def test_one_picture_is_not_taken_for_many(model, test_images):
    pictures = test_images.images
    for one in (pictures[4], Image.fromarray(pictures[4])):
        with pytest.raises(EpisodeError, match="needed several pictures"):
            model.predict(pictures[:4], [0, 0, 1, 1], one)
    with pytest.raises(EpisodeError, match="with 1, 3 or 4 channels"):
        model.predict(pictures[:4], [0, 0, 1, 1], pictures[4:6].transpose(0, 3, 1, 2))
    with pytest.raises(EpisodeError, match="a label is None"):
        model.predict(pictures[:4], [0, 0, 1, None], pictures[4:6])
