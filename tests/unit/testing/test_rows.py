"""Seeded rows have what the laws need: ties, weights, empty slices, absent classes."""

from __future__ import annotations

import numpy as np

from assay.testing import CLASSES, SIZES, random_block


def test_random_blocks_are_seeded_and_leave_one_slice_empty():
    one, other = (random_block(np.random.default_rng(4), 50) for _ in range(2))
    assert one.raw.tolist() == other.raw.tolist()
    assert one.slices.shape == (SIZES.num_dimensions, 50)
    assert set(one.slices.ravel().tolist()) == set(range(SIZES.num_slices - 1))
    assert one.probability is not None
    assert random_block(np.random.default_rng(4), 50, "real", probability=False).probability is None


def test_random_blocks_of_classes():
    block = random_block(np.random.default_rng(4), 200, "class")
    assert block.outputs.shape == (len(CLASSES), 200)
    assert set(block.label) == {0.0, 1.0, 2.0}
    assert set(block.raw) == {0.0, 1.0, 2.0, 3.0}
    assert block.raw.tolist() == block.outputs.argmax(axis=0).tolist()
    assert block.probability.tolist() == block.outputs.max(axis=0).tolist()
    assert not block.positive.any()
    plain = random_block(np.random.default_rng(4), 200, "class", probability=False)
    assert plain.probability is None
    assert plain.outputs.min() < 0.0
    alone = random_block(np.random.default_rng(4), 200, "class", output="label")
    assert (alone.outputs, alone.probability) == (None, None)
    assert alone.raw.min() == -1.0


def test_random_blocks_of_labels():
    block = random_block(np.random.default_rng(4), 200, "labels")
    assert block.outputs.shape == block.targets.shape == (len(CLASSES), 200)
    assert block.targets.any(axis=1).tolist() == [True, True, True, False, False]
    assert (block.raw.any(), block.label.any(), block.positive.any()) == (False, False, False)


def test_random_blocks_of_intervals_with_a_baseline_and_columns():
    rng = np.random.default_rng(4)
    block = random_block(rng, 200, "real", output="interval", reference=True, columns=["price"])
    lower, upper = block.outputs
    assert (lower <= upper).all()
    assert block.raw.tolist() == ((lower + upper) / 2).tolist()
    assert block.probability is None
    assert 0 < np.isnan(block.reference).sum() < 200
    assert block.columns["price"].shape == (200,)
