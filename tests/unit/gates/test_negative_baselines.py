"""Metrics that may be negative have no shares of the baseline: -0.9 is no improvement on -0.5 by 80 %."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import assay
from assay.errors import Fault
from assay.gates.rules import check_gates
from assay.loading import load
from assay.metrics.own import FunctionMetric
from assay.metrics.regression import R2, Bias, ExplainedVariance
from assay.metrics.table import SINGLE
from assay.records import OwnMetric
from assay.spec.model import GateSpec

OWN = FunctionMetric.of(OwnMetric("revenue", "shop:revenue", "higher", (), {}, ""))


@pytest.mark.parametrize("metric", [R2(), ExplainedVariance(), Bias(), OWN])
@pytest.mark.parametrize("rule", ["improve", "margin"])
def test_shares_of_the_baseline_are_refused(metric, rule):
    gate = GateSpec.model_validate({"metric": metric.name, rule: "80%"})
    sentence = (
        f"{rule} is a share of the baseline, but {metric.name} may be negative or 0; give it in the metric's own units."
    )
    assert check_gates([gate], {"main": [metric]}) == [Fault(f"gates[0].{rule}", sentence)]
    in_units = GateSpec.model_validate({"metric": metric.name, rule: 0.1})
    assert check_gates([in_units], {"main": [metric]}) == []


def test_the_single_metrics_that_may_be_negative():
    made = {name: load(place) for name, place in SINGLE.items()}
    assert {name for name, metric in made.items() if not metric.nonnegative} >= {
        "bias",
        "explained_variance",
        "mean_score",
        "prediction_correlation",
        "prediction_mean_difference",
        "r2",
    }


def test_a_worse_value_below_zero_does_not_pass_as_an_improvement():
    rng = np.random.default_rng(0)
    label = rng.normal(size=4000)
    label = (label - label.mean()) / label.std()
    noise = rng.normal(size=4000)
    noise = (noise - noise.mean()) / noise.std()
    frame = pd.DataFrame(
        {"user": np.arange(4000), "y": label, "old": label + np.sqrt(1.5) * noise, "new": label + np.sqrt(1.9) * noise}
    )
    done = assay.evaluate(
        frame,
        label="y",
        scores=["old", "new"],
        baseline="old",
        cluster="user",
        metrics=["r2"],
        gates=[{"metric": "r2", "improve": 0.1}],
    )
    values = dict(zip(done.metrics["variant"].to_pylist(), done.metrics["value"].to_pylist(), strict=True))
    assert values == {"old": pytest.approx(-0.5), "new": pytest.approx(-0.9)}
    assert done.outcome == "fail"
