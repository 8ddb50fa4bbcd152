"""A spec that says `recalibrate` measures probabilities also after recalibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import assay
from assay.errors import SpecError
from assay.metrics.calibration import ECE, ECEDebiased
from assay.metrics.probability import Brier, LogLoss
from assay.metrics.ranking import AUC
from assay.metrics.recalibrated import RecalibratedECE
from assay.pipeline.asked import resolve_tasks
from assay.pipeline.recalibrate import recalibrate_fault, with_recalibrated
from assay.spec.model import Spec


def names(*metrics: Any, method: str | None) -> list[str]:
    return [one.name for one in with_recalibrated(metrics, method)]


def spec(**changes: Any) -> Spec:
    variants = [{"name": "old", "column": "p"}, {"name": "new", "column": "q"}]
    return Spec.model_validate({"data": {"path": "x.parquet", "label": "y"}, "variants": variants, **changes})


def test_each_metric_of_probabilities_is_followed_by_its_twin() -> None:
    assert names(AUC(), LogLoss(), Brier(), ECE(bins=10), ECEDebiased(), method="platt") == [
        "auc",
        "log_loss",
        "recalibrated_log_loss(method=platt)",
        "brier",
        "recalibrated_brier(method=platt)",
        "ece(bins=10)",
        "recalibrated_ece(bins=10, method=platt)",
        "ece_debiased",
    ]


def test_each_name_comes_once() -> None:
    assert names(RecalibratedECE(), ECE(), method="isotonic") == ["recalibrated_ece", "ece"]


def test_without_recalibrate_nothing_changes() -> None:
    assert names(LogLoss(), Brier(), method=None) == ["log_loss", "brier"]
    assert recalibrate_fault([AUC()], None) is None


def test_twins_are_among_the_metrics_of_the_task() -> None:
    [task] = resolve_tasks(spec(recalibrate="isotonic", metrics=["brier"], output={"is": "logit"}))
    assert task.metrics == ("brier", "recalibrated_brier")
    [task] = resolve_tasks(spec(recalibrate="isotonic", output={"is": "probability"}))
    assert {"recalibrated_log_loss", "recalibrated_ece"} <= set(task.metrics)


@pytest.mark.parametrize("changes", [{"metrics": ["auc"]}, {"output": {"is": "score"}}])
def test_recalibrate_without_effect_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        resolve_tasks(spec(recalibrate="platt", **changes))
    assert [str(fault) for fault in caught.value.faults] == [
        "recalibrate: platt changes nothing, since no task of 0/1 labels has the metric log_loss, brier or ece; name "
        "one of them, or take recalibrate out."
    ]


def test_a_metric_at_fault_is_the_only_fault() -> None:
    with pytest.raises(SpecError) as caught:
        resolve_tasks(spec(recalibrate="platt", metrics=["log_los"]))
    assert [fault.path for fault in caught.value.faults] == ["metrics[0]"]


def test_a_variant_that_is_only_miscalibrated_is_told_from_one_that_ranks_worse() -> None:
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1.0, 1.0, 8000)
    given = {
        "right": log_odds,
        "skewed": 1.5 * log_odds + 1.0,
        "noisy": 0.5 * log_odds - 0.7 + rng.normal(0.0, 0.5, 8000),
        "label": rng.random(8000) < 1 / (1 + np.exp(-log_odds)),
        "user": rng.integers(0, 1000, 8000),
    }
    found = assay.evaluate(
        pa.table(given),
        label="label",
        scores=["right", "skewed", "noisy"],
        baseline="right",
        output="logit",
        metrics=["log_loss"],
        cluster="user",
        recalibrate="isotonic",
    )
    rows = {(one["variant"], one["metric"]): one for one in found.comparisons.to_pylist()}
    assert rows["skewed", "log_loss"]["low"] > 0.03
    assert rows["skewed", "recalibrated_log_loss"]["low"] < 0.0 < rows["skewed", "recalibrated_log_loss"]["high"]
    assert rows["noisy", "recalibrated_log_loss"]["low"] > 0.02
