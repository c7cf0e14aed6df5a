"""Rows in parts: the same rows as in one piece, and the same sums whoever adds them up."""

import pickle

import numpy as np
import pytest
import torch

from remp.errors import DataError
from remp.rectification.propagate import propagate
from remp.rows import ArrayRows, JoinedRows, Shard
from remp.rows.blocks import MOST_BLOCKS, blocks_of

VALUES = (np.random.default_rng(0).normal(size=(60, 5)) + np.arange(60)[:, None] % 3).astype(np.float32)
LABELS = np.where(np.arange(60) < 9, np.arange(60) % 3, -1)


def joined(*ends, values=VALUES):
    """The values, cut at these places."""
    return JoinedRows(*(ArrayRows(part, chunk=4) for part in np.split(values, ends)))


def test_parts_give_the_rows_of_the_whole():
    rows = joined(0, 7, 7, 31)
    np.testing.assert_array_equal(torch.cat(list(rows.chunks())), VALUES)
    np.testing.assert_array_equal(torch.cat(list(rows.chunks(5, 33))), VALUES[5:33])
    np.testing.assert_array_equal(rows.take([59, 0, 7, 7, 30]), VALUES[[59, 0, 7, 7, 30]])
    with pytest.raises(IndexError, match="needed 0 … 59"):
        rows.take([60])


def test_parts_of_different_dimensions_are_refused():
    with pytest.raises(DataError, match=r"\[2, 3\] dimensions"):
        JoinedRows(ArrayRows(np.zeros((1, 2))), ArrayRows(np.zeros((1, 3))))


def test_blocks_cover_the_rows_in_order_and_are_not_too_many():
    rows = JoinedRows(*(ArrayRows(np.full((2, 1), number)) for number in range(MOST_BLOCKS + 3)))
    blocks = blocks_of(rows, np.arange(len(rows)))
    assert len(blocks) <= MOST_BLOCKS
    chunks = [chunk for block in blocks for chunk in block.chunks()]
    np.testing.assert_array_equal(torch.cat(chunks)[:, 0], np.repeat(np.arange(MOST_BLOCKS + 3), 2))
    np.testing.assert_array_equal(np.concatenate([block.labels for block in blocks]), np.arange(len(rows)))
    assert all(block.labels[0] == block.first for block in blocks)


def test_a_block_tells_labelled_rows_from_others():
    block = blocks_of(joined(20), LABELS)[0]
    ((rows, labels),) = block.labelled()
    np.testing.assert_array_equal(rows, VALUES[:9])
    np.testing.assert_array_equal(labels, LABELS[:9])
    np.testing.assert_array_equal(torch.cat(list(block.unlabelled())), VALUES[9:20])


@pytest.mark.parametrize("labels", [LABELS, np.broadcast_to(np.int8(-1), 60), np.arange(60)])
def test_a_block_is_sent_with_its_few_labels(labels):
    block = blocks_of(joined(20), labels)[1]
    sent = pickle.loads(pickle.dumps(block))
    assert (sent.start, sent.stop, sent.first) == (block.start, block.stop, block.first)
    np.testing.assert_array_equal(sent.labels, block.labels)
    np.testing.assert_array_equal(torch.cat(list(sent.chunks())), VALUES[20:])
    many = blocks_of(ArrayRows(np.zeros((10_000, 1), np.int8)), np.full(10_000, -1))[0]
    assert len(pickle.dumps(many)) < 20_000  # 10,000 bytes of rows, and no labels


def test_parts_give_the_prototypes_of_the_whole():
    whole, parted = (propagate(rows, LABELS, 3) for rows in (ArrayRows(VALUES), joined(0, 7, 31)))
    torch.testing.assert_close(parted.prototypes, whole.prototypes, rtol=1e-5, atol=1e-5)


def test_the_number_of_threads_changes_no_bit():
    values = np.random.default_rng(1).normal(size=(6000, 40)).astype(np.float32)
    labels = np.where(np.arange(6000) < 50, np.arange(6000) % 10, -1)
    rows, before, results = joined(*range(500, 6000, 500), values=values), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(propagate(rows, labels, 10).prototypes)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_row_that_is_not_finite_is_named_by_its_number_among_all():
    values = VALUES.copy()
    values[41, 2] = np.nan
    with pytest.raises(DataError, match="row 41 holds a number that is not finite"):
        propagate(joined(10, 20, 30, values=values), LABELS, 3)


def test_a_process_of_several_has_its_share_as_one_block():
    (block,) = Shard(1, 3).each(lambda block: block, joined(10, 50), LABELS)
    assert (block.first, len(block)) == (20, 20)
    np.testing.assert_array_equal(torch.cat(list(block.chunks())), VALUES[20:40])
