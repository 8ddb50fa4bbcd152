"""The law suite lets a lawful metric pass and names the law that another one breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from assay.metrics.counts_metric import CountsMetric
from assay.metrics.multiclass import Accuracy, LogLoss, TopAccuracy
from assay.metrics.probability import Brier
from assay.metrics.sums import BRIER_SUM, SUPPORT, BoundedSum
from assay.metrics.threshold import Precision
from assay.testing import CHOICES, check_metric, choices_of, make_block, random_block

ONE = CHOICES[:1]


@dataclass(frozen=True)
class Broken(Brier):
    """A Brier score with a fault."""

    name: ClassVar[str] = "broken"
    change: ClassVar[dict[str, object]] = {}

    def accumulators(self, choice):
        faulty = type("Faulty", (BoundedSum,), self.change)(BRIER_SUM.identity, BRIER_SUM.contributions)
        return (SUPPORT, faulty)


def broken(**change):
    return type("Broken", (Broken,), {"change": change})()


def forget_weights(self, state, block):
    return BRIER_SUM.update(state, replace(block, weight=np.ones_like(block.weight)))


def first_row_counts_twice(self, state, block):
    return BRIER_SUM.update(BRIER_SUM.update(state, block.take(np.arange(min(1, len(block.raw))))), block)


def add_in_place(self, left, right):
    left["sum"] += right["sum"]
    return left


@pytest.mark.parametrize(
    ("change", "law"),
    [
        ({"update": first_row_counts_twice}, "2 parts and an empty one do not merge to the whole"),
        ({"update": forget_weights}, "a duplicate row is not a row of weight 2"),
        ({"merge": add_in_place}, "2 parts and an empty one do not merge to the whole"),
        ({"subtract": lambda self, whole, part: whole}, "subtract does not invert merge"),
        ({"num_bytes": lambda self, sizes, rows: 8}, "brier.v1 takes 6144 bytes and declares 8"),
    ],
)
def test_a_broken_accumulator_is_found(change, law):
    with pytest.raises(AssertionError) as caught:
        check_metric(broken(**change), choices=ONE)
    assert str(caught.value) == f"The metric 'broken' breaks a law under {ONE[0]}: {law}."


def test_a_value_out_of_bounds_is_found():
    with pytest.raises(AssertionError, match=r"a value leaves the bounds 0\.0 to 0\.1\.$"):
        check_metric(Brier(), bounds=(0.0, 0.1), choices=ONE)


def test_a_name_that_does_not_parse_back_is_found():
    class Renamed(Precision):
        name = "precision"

    with pytest.raises(
        AssertionError, match=r"^The metric 'precision' is not equal to the one that its name describes: "
    ):
        check_metric(Renamed(threshold=0.25), choices=ONE)


def test_a_metric_that_minds_the_order_of_classes_is_found():
    @dataclass(frozen=True)
    class First(CountsMetric):
        name: ClassVar[str] = "first"
        description: ClassVar[str] = "recall of the first class"

        def formula(self, counts, weight, choice):
            return counts[..., 0, 2] / counts[..., 0, 0]

    with (
        np.errstate(invalid="ignore"),
        pytest.raises(AssertionError, match=r"^The metric 'first' .*: the order of classes matters\.$"),
    ):
        check_metric(First(), choices=choices_of("class")[:1])
    with np.errstate(invalid="ignore"):
        check_metric(First(), choices=choices_of("class")[:1], ordered_classes=True)


def test_blocks_of_ones_own():
    check_metric(Brier(), blocks=[make_block([0.5, 1.0], [0, 1])], choices=ONE)
    with pytest.raises(AssertionError, match=r"a value leaves the bounds 0\.0 to 0\.1\.$"):
        check_metric(Brier(), blocks=[make_block([0.5], [0])], bounds=(0.0, 0.1), choices=ONE)


def test_predicted_classes_alone_are_checked_where_no_scores_are_needed(monkeypatch):
    seen = []

    def record(rng, num_rows, kind, probability, *, output, **kwargs):
        seen.append((probability, output))
        return random_block(rng, num_rows, kind, probability, output=output, **kwargs)

    monkeypatch.setattr("assay.testing.laws.random_block", record)
    for metric, kinds in (
        (Accuracy(), [(True, "score"), (False, "score"), (False, "label")]),
        (TopAccuracy(2), [(True, "score"), (False, "score")]),
        (LogLoss(), [(True, "score")]),
    ):
        seen.clear()
        check_metric(metric, choices=choices_of("class")[:1])
        assert seen == kinds
