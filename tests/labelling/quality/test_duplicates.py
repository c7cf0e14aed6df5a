"""Groups of equal and of nearly equal hashes, against a loop over all pairs; copies without edges, against a search."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from remp.labelling.embedding.pictures import picture_hash
from remp.labelling.quality import duplicates as module
from remp.labelling.quality.duplicates import (
    _best_correlation,
    confirmed_groups,
    cropped_pairs,
    duplicates,
    equal_groups,
    joined_groups,
    near_groups,
)
from remp.labelling.tasks import Items

PATTERN = 0x5A5A_1234_F0F0_99CC


def naive_groups(hashes, near):
    """Connected groups of two or more, by joining sets over all pairs."""
    groups = [{i} for i in range(len(hashes))]
    for i in range(len(hashes)):
        for j in range(i):
            if near(int(hashes[i]), int(hashes[j])):
                first, second = (next(group for group in groups if k in group) for k in (i, j))
                if first is not second:
                    groups.remove(second)
                    first |= second
    return sorted(sorted(group) for group in groups if len(group) > 1)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_equal_groups_are_those_of_all_pairs(values):
    found = [group.tolist() for group in equal_groups(np.array(values, dtype=np.int64))]
    assert found == naive_groups(values, lambda a, b: a == b)


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 63), max_size=4), max_size=25))
def test_near_groups_are_those_of_all_pairs(flips):
    hashes = np.array([PATTERN ^ sum(1 << bit for bit in flipped) for flipped in flips], dtype=np.uint64)
    found = [group.tolist() for group in near_groups(hashes)]
    assert found == naive_groups(hashes, lambda a, b: bin(a ^ b).count("1") <= 3)


def test_plain_pictures_are_not_compared():
    hashes = np.array([0, 0, 1, 2**64 - 1, 2**64 - 1, PATTERN, PATTERN], dtype=np.uint64)
    assert [group.tolist() for group in near_groups(hashes)] == [[5, 6]]


def test_pictures_with_the_same_margin_are_not_compared_each_with_each(monkeypatch):
    """The first and the last two rows of these hashes are 0, as those of goods on white are."""
    random, n = np.random.default_rng(0), 4000
    hashes = random.integers(0, 2**64, n, dtype=np.uint64) & np.uint64(0x0000_FFFF_FFFF_0000)
    hashes[7] = hashes[2000] ^ np.uint64(1 << 20) ^ np.uint64(1 << 33) ^ np.uint64(1)
    compared, bit_count = [], module.bit_count
    monkeypatch.setattr(module, "bit_count", lambda values: compared.append(len(values)) or bit_count(values))
    assert [7, 2000] in [group.tolist() for group in near_groups(hashes)]
    assert sum(compared) < 20 * n


def test_a_large_group_is_confirmed_block_by_block(monkeypatch):
    """Six directions that turn by 1 degree from item to item, so that only neighbours are linked."""
    turned = torch.linspace(0, 10, 90).deg2rad()
    rows = torch.stack([turned.cos(), turned.sin()], 1)
    group, sample = np.random.default_rng(0).permutation(90), np.array([0, 89])
    features = torch.eye(6).repeat_interleave(15, 0).repeat_interleave(2, 1) * rows.repeat(1, 6)
    (whole,) = confirmed_groups([group[group < 15]], lambda items: features[items], sample)
    monkeypatch.setattr(module, "_BLOCK", 4)
    parts = confirmed_groups([group], lambda items: features[items], sample)
    assert sorted(sorted(part.tolist()) for part in parts) == [list(range(at, at + 15)) for at in range(0, 90, 15)]
    assert any(np.array_equal(np.sort(part), np.sort(whole)) for part in parts)


def test_no_items_have_no_duplicates():
    assert equal_groups(np.empty(0, np.int64)) == [] == near_groups(np.empty(0, np.uint64))


def test_equal_groups_of_strings():
    assert [group.tolist() for group in equal_groups(np.array(["b", "a", "b"]))] == [[0, 2]]


N, SIDE = 60, 120


def photographs() -> list[np.ndarray]:
    """Smooth spots of random brightness: (120, 120, 3) uint8 each."""
    random = np.random.default_rng(0)
    spots = [random.integers(0, 256, (7, 7, 3)).astype(np.uint8) for _ in range(N)]
    return [np.asarray(Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for one in spots]


def without_edges(picture: np.ndarray, left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return picture[round(top * SIDE) : SIDE - round(bottom * SIDE), round(left * SIDE) : SIDE - round(right * SIDE)]


def scaled(picture: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.BOX))


def collection(copies: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray, torch.Tensor]:
    """Pictures, their hashes, and features of which a copy shares most with its original, as those of a network do."""
    pictures, random = [*photographs(), *copies], np.random.default_rng(1)
    features = random.normal(size=(N, 200))
    copied = features[: len(copies)] + 0.4 * random.normal(size=(len(copies), 200))
    hashes = np.array([picture_hash(scaled(one, 96)) for one in pictures], np.uint64)
    return pictures, hashes, torch.from_numpy(np.concatenate([features, copied]))


def grey(picture: np.ndarray) -> np.ndarray:
    return scaled(picture, 32).mean(-1)


MARGINS = [(0.03, 0.03, 0.03, 0.03), (0.08, 0.08, 0.08, 0.08), (0.12, 0.0, 0.0, 0.06)]


@pytest.mark.parametrize("margins", MARGINS)
def test_pictures_without_their_edges_are_found_and_no_others(margins):
    copies = [without_edges(picture, *margins) for picture in photographs()[:10]]
    pictures, hashes, features = collection(copies)
    found = cropped_pairs(hashes, lambda items: features[items], np.arange(N), lambda item: grey(pictures[item]))
    assert sorted(map(tuple, found.tolist())) == [(number, N + number) for number in range(10)]


def test_near_features_are_not_enough():
    pictures, hashes, features = collection(photographs()[20:30])  # other pictures with the features of the first ten
    found = cropped_pairs(hashes, lambda items: features[items], np.arange(N), lambda item: grey(pictures[item]))
    assert not len(found)


@pytest.mark.parametrize("seen", [None, np.full((32, 32), 100.0)])
def test_pictures_that_cannot_be_read_or_are_plain_are_left_out(seen):
    _, hashes, features = collection([without_edges(photographs()[0], *MARGINS[0])])
    assert cropped_pairs(hashes, lambda items: features[items], np.arange(N), lambda item: seen).shape == (0, 2)


def test_the_correlation_is_that_of_the_best_part():
    whole, margins = photographs()[3], (0.06, 0.03, 0.0, 0.09)
    part = without_edges(whole, *margins)
    expected = 0.0
    for left, top, right, bottom in np.ndindex(5, 5, 5, 5):
        window = scaled(without_edges(whole, *(0.03 * np.array([left, top, right, bottom]))), 16).mean(-1)
        expected = max(expected, np.corrcoef(window.ravel(), scaled(part, 16).mean(-1).ravel())[0, 1])
    assert _best_correlation(grey(whole), grey(part)) == pytest.approx(expected, abs=0.005)


def test_groups_and_pairs_become_groups():
    groups = joined_groups([np.array([1, 4, 5])], np.array([[5, 7], [2, 3]]), 9)
    assert [group.tolist() for group in groups] == [[1, 4, 5, 7], [2, 3]]


def test_files_of_a_task_are_looked_at(tmp_path):
    pictures, hashes, features = collection([without_edges(photographs()[0], *MARGINS[1])])
    names = tuple(f"{number}.png" for number in range(len(pictures)))
    for name, picture in zip(names, pictures, strict=True):
        Image.fromarray(picture).save(tmp_path / name)
    paths = tuple(tmp_path / name for name in names)
    task = Items(names, np.full(len(names), -1), ("a", "b"), paths)
    (found,) = duplicates(task, None, hashes, lambda items: features[items])
    assert (found.kind, found.items) == ("near duplicates", (0, N))
    assert "0.png, 60.png look the same" in found.text
