"""The laws that every metric must keep, as one function to run over a metric of your own.

    from assay.testing import check_metric

    def test_my_metric():
        check_metric(MyMetric(), bounds=(0.0, 1.0))

`make_block` and `evaluate` compare a metric with a second implementation.
"""

from __future__ import annotations

from assay.testing.cases import CHOICES, Case, choices_of, evaluate
from assay.testing.laws import LAWS, check_metric
from assay.testing.rows import CLASSES, SIZES, make_block, random_block

__all__ = [
    "CHOICES",
    "CLASSES",
    "LAWS",
    "SIZES",
    "Case",
    "check_metric",
    "choices_of",
    "evaluate",
    "make_block",
    "random_block",
]
