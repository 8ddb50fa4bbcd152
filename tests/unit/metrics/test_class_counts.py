"""Counts by class: the states' shapes, bytes and identities."""

from __future__ import annotations

import pytest

from assay.metrics.class_counts import ClassCounts, LabelCounts
from assay.records import Sizes
from assay.states import num_bytes


@pytest.mark.parametrize(("bucketed", "kept"), [("all", 3), ("overall", 1), ("none", 0)])
def test_counts_take_what_they_declare(bucketed, kept):
    sizes = Sizes(3, 8)
    for counts in (ClassCounts(5, bucketed), LabelCounts(5, bucketed, 0.5)):
        state = counts.zero(sizes)
        assert state["buckets"].shape == (kept, 8, 5, 3)
        assert num_bytes(state) == counts.num_bytes(sizes, None) == (6 + 8 * kept) * 5 * 24


def test_identities_say_all_that_states_depend_on():
    assert ClassCounts(5, "all").identity == "class_counts(classes=5,buckets=all).v1"
    assert LabelCounts(5, "none", 0.3).identity == "label_counts(threshold=0.3,labels=5,buckets=none).v1"
