"""The sparse confusion matrix: two ways to count it, and what it declares."""

from __future__ import annotations

import numpy as np
import pytest

from assay.metrics.confusion_matrix import ConfusionMatrix
from assay.records import Sizes
from assay.testing import make_block


def test_the_identity_says_all_that_the_state_depends_on():
    assert ConfusionMatrix(5).identity == "confusion_matrix(classes=5).v1"


def test_a_confusion_matrix_is_the_same_by_table_and_by_sorting(monkeypatch):
    rng = np.random.default_rng(0)
    label, predicted = rng.integers(0, 4, 60), rng.integers(-1, 4, 60)
    slices = np.stack([np.zeros(60), rng.integers(1, 3, 60)])
    block = make_block(predicted, label, label_kind="class", weight=rng.integers(1, 9, 60), slices=slices)
    matrix = ConfusionMatrix(4)
    by_table = matrix.update(matrix.zero(Sizes(3, 64)), block)
    monkeypatch.setattr("assay.metrics.confusion_matrix._TABLE_CELLS", 0)
    few = [matrix.update(matrix.zero(Sizes(3, 64)), block.take(np.arange(60) == i)) for i in range(60)]
    by_sorting = few[0]
    for one in few[1:]:
        by_sorting = matrix.merge(by_sorting, one)
    assert {name: one.tolist() for name, one in by_table.items()} == {
        name: one.tolist() for name, one in by_sorting.items()
    }


def test_a_sparse_matrix_declares_no_more_than_it_can_hold():
    assert ConfusionMatrix(1000).num_bytes(Sizes(10, 64, 2), 500) == 500 * 2 * 24
    assert ConfusionMatrix(3).num_bytes(Sizes(10, 64, 2), 500) == 10 * 12 * 24
    assert ConfusionMatrix(3).num_bytes(Sizes(10, 64, 2), None) == 10 * 12 * 24
    with pytest.raises(
        ValueError,
        match=r"^A confusion matrix of 2000000 classes in 1 slices is too large; it takes at most 1048576 classes\.$",
    ):
        ConfusionMatrix(2_000_000).zero(Sizes(1, 64))
