"""Episode files keep episodes and their origin, and notice every kind of damage."""

import hashlib
import json
import pickle
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from bounds import bounded
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.episodes.files import episode_hash, load_episodes, save_episodes
from remp.errors import DataError, EpisodeError

PROTOCOL = Protocol(n_way=3, n_shot=2, n_query=4)


@pytest.fixture
def images() -> ImageSet:
    labels = np.repeat(np.arange(6), 10)
    return ImageSet(
        "toys", "test", np.zeros((60, 2, 2, 1), np.uint8), labels, tuple("abcdef"), "f1" * 32, (0.5,), (1.0,)
    )


@pytest.fixture
def episodes(images) -> Episodes:
    return EpisodeSampler(images.labels, PROTOCOL, seed=3).sample(5)


@pytest.fixture
def path(tmp_path, episodes, images):
    save_episodes(tmp_path / "toys.episodes", episodes, PROTOCOL, images, seed=3)
    return tmp_path / "toys.episodes"


def rewrite(path, change) -> None:
    """Let `change(header, arrays)` edit a file that is well-formed otherwise."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["remp"])
    arrays = load(content)
    change(header, arrays)
    path.write_bytes(save(arrays, metadata={"remp": json.dumps(header)}))


def test_what_was_saved_is_loaded(path, episodes, images):
    file = load_episodes(path, images)
    for name in ("support", "support_labels", "query", "query_labels", "class_ids"):
        assert torch.equal(getattr(file.episodes, name), getattr(episodes, name))
    assert (file.protocol, file.seed, file.data, file.split) == (PROTOCOL, 3, "toys", "test")
    assert file.fingerprint == images.fingerprint
    assert file.hash == episode_hash(episodes, images.fingerprint)


def test_unequal_shots_come_back_as_they_were(tmp_path, images):
    protocol = Protocol(n_way=3, n_shot=(1, 2, 3), n_query=4, distribution="dirichlet:2")
    drawn = EpisodeSampler(images.labels, protocol).sample(2)
    save_episodes(tmp_path / "x", drawn, protocol, images)
    assert load_episodes(tmp_path / "x").protocol == protocol
    assert load_episodes(tmp_path / "x").seed is None


def test_the_hash_is_that_of_little_endian_integers():
    """Recomputed byte by byte with struct, from a small episode written by hand."""
    one = Episodes(
        torch.tensor([[7]]), torch.tensor([[0]]), torch.tensor([[300]]), torch.tensor([[0]]), 1, torch.tensor([[9]])
    )
    expected = hashlib.sha256(b'["remp-episodes-1", "print", 1]')
    for name, value in (("support", 7), ("support_labels", 0), ("query", 300), ("query_labels", 0), ("class_ids", 9)):
        expected.update(f'["{name}", 1, 1]'.encode() + struct.pack("<q", value))
    assert episode_hash(one, "print") == expected.hexdigest()


def test_the_hash_does_not_depend_on_the_integer_type_or_memory_order(episodes):
    narrow = replace(episodes, support=episodes.support.int(), query=episodes.query.t().contiguous().t())
    assert episode_hash(narrow, "x") == episode_hash(episodes, "x")


@pytest.mark.parametrize("name", ["support", "support_labels", "query", "query_labels", "class_ids"])
def test_the_hash_changes_with_every_number(episodes, name):
    values = getattr(episodes, name).clone()
    values[-1, -1] += 1
    assert episode_hash(replace(episodes, **{name: values}), "x") != episode_hash(episodes, "x")


def test_the_hash_changes_with_the_fingerprint_and_the_shape(episodes):
    assert episode_hash(episodes, "x") != episode_hash(episodes, "y")
    assert episode_hash(episodes, "x") != episode_hash(episodes[:4], "x")
    assert episode_hash(episodes, "x") != episode_hash(episodes.without_query_labels(), "x")


def test_a_file_is_not_overwritten_unasked(path, episodes, images):
    before = path.read_bytes()
    with pytest.raises(EpisodeError, match="exists already: give another name"):
        save_episodes(path, episodes[:2], PROTOCOL, images)
    assert path.read_bytes() == before
    save_episodes(path, episodes[:2], PROTOCOL, images, overwrite=True)
    assert len(load_episodes(path).episodes) == 2


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, episodes, images, monkeypatch):
    def full_disk(file):
        raise OSError("No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_episodes(path, episodes[:2], PROTOCOL, images, overwrite=True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_episodes_of_another_protocol_are_not_saved(tmp_path, episodes, images):
    with pytest.raises(EpisodeError, match=r"support has shape \(5, 6\); needed \(5, 3\): give the protocol"):
        save_episodes(tmp_path / "x", episodes, replace(PROTOCOL, n_shot=1), images)


def test_episodes_without_labels_are_not_saved(tmp_path, episodes, images):
    with pytest.raises(EpisodeError, match="lack query labels"):
        save_episodes(tmp_path / "x", episodes.without_query_labels(), PROTOCOL, images)


def test_ids_beyond_the_set_are_not_saved(tmp_path, episodes, images):
    with pytest.raises(DataError, match="but toys/test has 60 images"):
        save_episodes(tmp_path / "x", replace(episodes, query=episodes.query + 60), PROTOCOL, images)


def test_a_missing_file_says_how_to_write_one(tmp_path):
    with pytest.raises(DataError, match="Write one with: remp episodes"):
        load_episodes(tmp_path / "none")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 0.5, -1])
def test_a_truncated_file_is_refused(path, kept):
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept == 0.5 else kept])
    with pytest.raises(DataError, match="not an episode file, or is cut short"):
        load_episodes(path)


def test_a_flipped_number_is_refused(path):
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|contradicts itself"):
        load_episodes(path)


@pytest.mark.parametrize("content", [b"PK\x03\x04 not a zip", b"hello", b'{"support": 1}', bytes(range(256)) * 9])
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match="not an episode file"):
        load_episodes(tmp_path / "x")


def test_weights_are_not_taken_for_episodes(tmp_path):
    (tmp_path / "x").write_bytes(save({"weight": np.zeros((2, 2), np.float32)}))
    with pytest.raises(DataError, match="not an episode file of this version"):
        load_episodes(tmp_path / "x")


def test_a_pickle_is_refused_and_never_run(tmp_path):
    class Malicious:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "x").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(DataError):
        load_episodes(tmp_path / "x")
    assert not (tmp_path / "ran").exists()


def set_in(target, key, value):
    return lambda header, arrays: ({"header": header, "arrays": arrays}[target]).__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("header", "format", "remp-episodes-0"), "not an episode file of this version"),
        (lambda header, arrays: header.pop("seed"), "lacks seed"),
        (lambda header, arrays: arrays.pop("query"), "not an episode file of this version"),
        (set_in("header", "fingerprint", "other"), "do not have the hash"),
        (set_in("header", "protocol", {"n_way": 3, "n_shot": 2, "n_query": 5}), "query has shape"),
        (set_in("header", "protocol", {"n_way": 3, "shots": 2}), "contradicts itself"),
        (set_in("header", "protocol", 7), "contradicts itself"),
        (set_in("arrays", "query", np.zeros((5, 12), np.float32)), "not int64"),
        (set_in("arrays", "query", np.zeros(60, np.int64)), "not int64"),
        (set_in("arrays", "query", np.zeros((5, 12), np.int64)), "comes twice"),
        (set_in("arrays", "query_labels", np.full((5, 12), 3)), "labels run from 0 to 3; needed 0 to 2"),
        (set_in("arrays", "class_ids", np.zeros((5, 3), np.int64)), "do not have the hash"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(path, change, message):
    rewrite(path, change)
    with pytest.raises(DataError, match=message):
        load_episodes(path)


def test_a_file_for_other_images_is_refused_with_what_to_do(path, images):
    with pytest.raises(DataError, match=r"made for toys/test .* other/val .* draw new episodes with: remp episodes"):
        load_episodes(path, replace(images, name="other", split="val", fingerprint="e2" * 32))


def test_images_of_another_class_than_the_file_says_are_noticed(path, images):
    with pytest.raises(DataError, match="not of the class"):
        load_episodes(path, replace(images, labels=np.roll(images.labels, 10)))


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": None},
        {"protocol": {"n_way": 10**10, "n_shot": 1, "n_query": 1, "distribution": "balanced"}},
        {"protocol": {"n_way": 3, "n_shot": "2", "n_query": 4, "distribution": "balanced"}},
        {"protocol": {"n_way": 3, "n_shot": [2, 2, None], "n_query": 4, "distribution": "balanced"}},
        {"protocol": {"n_way": 3, "n_shot": 2, "n_query": 4, "distribution": 7}},
        {"protocol": {"n_way": 3, "n_shot": 10**30, "n_query": 4, "distribution": "balanced"}},
        {"protocol": {"n_way": 3, "n_shot": 2, "n_query": 4, "distribution": "x" * 10**6}},
        {"protocol": {"n_way": 3}},
        {"seed": "three"},
        {"data": 5},
        {"fingerprint": None},
        {"hash": []},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_header_of_other_types_is_told_in_few_words(path, images, change):
    rewrite(path, lambda header, arrays: header.update(change))
    with pytest.raises(DataError, match=r"toys\.episodes .*copy it again") as caught:
        load_episodes(path, images)
    assert len(str(caught.value)) < 1000


def test_a_header_nested_too_deep_is_told(path):
    path.write_bytes(save({"a": np.zeros(1)}, metadata={"remp": "[" * 100_000}))
    with pytest.raises(DataError, match=r"toys\.episodes is not an episode file"):
        load_episodes(path)


@pytest.mark.parametrize("fields", [{"n_way": "5"}, {"n_query": 1.5}, {"n_shot": None}, {"distribution": 3}], ids=str)
def test_a_protocol_of_other_types_is_told(fields):
    with pytest.raises(EpisodeError, match="must be whole numbers"):
        Protocol(**fields)


def test_a_file_without_episodes_is_not_written(tmp_path, episodes, images):
    with pytest.raises(EpisodeError, match="there is no episode"):
        save_episodes(tmp_path / "none", episodes[:0], PROTOCOL, images)


def test_a_class_with_other_shots_than_the_protocol_says_is_noticed(tmp_path, episodes, images):
    labels = episodes.support_labels.clone()
    labels[2, :] = torch.tensor([0, 0, 0, 1, 1, 1])  # and none of class 2
    with pytest.raises(EpisodeError, match="not have as many labelled images as the protocol says, 2"):
        save_episodes(tmp_path / "few", replace(episodes, support_labels=labels), PROTOCOL, images)


def test_an_episode_of_many_classes_takes_memory_in_proportion_to_its_file(tmp_path):
    n, protocol = 20_000, Protocol(n_way=20_000, n_shot=1, n_query=1)
    numbers = torch.arange(n)[None]
    episodes = Episodes(numbers, numbers, numbers + n, numbers, n, numbers)
    images = SimpleNamespace(name="toys", split="test", fingerprint="x", labels=np.tile(np.arange(n), 2))
    outcome = bounded(lambda: save_episodes(tmp_path / "x", episodes, protocol, images), mebibytes=64)
    assert outcome.kind == "result", outcome
    assert bounded(lambda: load_episodes(tmp_path / "x"), mebibytes=64).kind == "result"
