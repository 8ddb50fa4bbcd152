"""What is public for metrics of one's own: every accumulator that a metric of the tables is made of."""

from __future__ import annotations

from importlib import import_module

import pytest

from assay import accumulators
from assay.accumulators import AdditiveState, BoundedSum, DoubleSum, TermSum
from assay.metrics.table import TABLES
from assay.testing import choices_of

KINDS = {"single": None, "classes": "class", "labels": "labels"}
REQUIRED = {
    ("classes", "top_accuracy"): {"k": 2},
    **{("classes", name): {"class_": "cat"} for name in ("precision", "recall", "f1", "positive_rate")},
    **{("labels", name): {"label": "cat"} for name in ("precision", "recall", "f1", "positive_rate")},
}
PUBLIC = {name: getattr(accumulators, name) for name in accumulators.__all__}
EVERY_SUM = (BoundedSum, DoubleSum, TermSum)
STATES = tuple(one for one in PUBLIC.values() if isinstance(one, type) and one not in (*EVERY_SUM, AdditiveState))
SUMS = {one.identity for one in PUBLIC.values() if isinstance(one, EVERY_SUM)} | {
    accumulators.top_sum(2).identity,
    accumulators.mistakes_sum(0.5).identity,
    accumulators.right_sets_sum(0.5).identity,
    accumulators.pinball_sum(0.9).identity,
    accumulators.huber_sum(1.0).identity,
    accumulators.interval_score_sum(0.05).identity,
    *(accumulators.deviance_sum(power).identity for power in (1.0, 1.5, 2.0)),
}


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, table in TABLES.items() for name in table])
def test_every_accumulator_of_a_metric_is_public(family, name):
    module, attribute = TABLES[family][name].split(":")
    metric = getattr(import_module(module), attribute)(**REQUIRED.get((family, name), {}))
    for choice in choices_of(metric.label_kind or KINDS[family]):
        for one in metric.accumulators(choice):
            assert isinstance(one, STATES) or one.identity in SUMS


def test_every_public_name_says_what_it_is():
    for name, one in PUBLIC.items():
        assert name == "Reasons" or one.__doc__
