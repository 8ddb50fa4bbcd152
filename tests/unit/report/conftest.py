"""One small set of results that the report's tests read."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from assay.records import GateResult, Results, Verdict
from assay.stats import tables
from assay.stats.families import FAMILIES


def metric_row(variant: str, metric: str, value: float | None, half: float | None, slice_: str = "overall") -> dict:
    undefined = "one class" if value is None else "too few clusters" if half is None else None
    low, high = (None, None) if half is None or value is None else (value - half, value + half)
    return {
        "variant": variant, "task": "main", "metric": metric, "slice": slice_, "rows": 1200, "weight": 1200.0,
        "value": value, "low": low, "high": high, "error_bound": 0.0, "undefined": undefined,
    }  # fmt: skip


def comparison_row(metric: str, difference: float | None, half: float | None, p: float | None, slice_: str) -> dict:
    low, high = (None, None) if half is None or difference is None else (difference - half, difference + half)
    return {
        "variant": "new", "baseline": "prod", "task": "main", "metric": metric, "slice": slice_, "rows": 1200,
        "difference": difference, "low": low, "high": high, "p_value": p,
        "undefined": "one class" if difference is None else None,
    }  # fmt: skip


def coverage_row(variant: str, null_score: int, failed: int) -> dict:
    return {
        "variant": variant, "task": "main", "slice": "overall", "rows_read": 1300, "rows_filtered": 60,
        "null_label": 40, "null_weight": 0, "null_score": null_score, "failed": failed,
        "scored": 1200 - null_score - failed, "weight": 1200.0,
    }  # fmt: skip


def gate_result(position: int, outcome: str, slice_: str = "overall", **changes: object) -> GateResult:
    fields = {
        "variant": "new", "gate": f"gate {position}", "position": position, "task": "main", "metric": "log_loss",
        "slice": slice_, "outcome": outcome, "value": 0.45, "baseline_value": 0.44, "difference": 0.01, "low": 0.0,
        "high": 0.02, "limit": 0.001, "p_pass": 0.9, "p_fail": 0.1, "adjusted_p_pass": 0.9, "adjusted_p_fail": 0.2,
        "rows": 1200, "clusters_more": None, "reason": f"gate {position}: {outcome} in {slice_}.",
    }  # fmt: skip
    return GateResult(**(fields | changes))


@pytest.fixture
def results() -> Results:
    metrics = [
        metric_row("new", "log_loss", 0.4412345, 0.00094),
        metric_row("new", "auc", None, None),
        metric_row("new", "count", 1200.0, None) | {"undefined": None},
        metric_row("prod", "log_loss", 0.4501234, 0.00101),
        metric_row("prod", "auc", 0.71, 0.01),
        metric_row("prod", "count", 1200.0, None) | {"undefined": None},
        metric_row("new", "log_loss", 0.9, 0.1, "country=<b>"),
    ]
    comparisons = [
        comparison_row("log_loss", -0.0088889, 0.0004, 1e-9, "overall"),
        comparison_row("auc", None, None, None, "overall"),
        comparison_row("count", 0.0, 0.0, 1.0, "overall"),
        comparison_row("log_loss", 0.02, 0.015, 0.0102, "country=<b>") | {"q_value": 0.0306},
        comparison_row("log_loss", -0.03, 0.001, 1e-8, "country=US"),
        comparison_row("count", 0.0, 0.0, 1.0, "country=US"),
    ]
    gates = (gate_result(0, "undecided", clusters_more=120), gate_result(1, "pass", p_pass=math.nan))
    return Results(
        metrics=pa.Table.from_pylist(metrics, tables.METRICS),
        comparisons=pa.Table.from_pylist(comparisons, tables.COMPARISONS),
        curves=tables.CURVES.empty_table(),
        coverage=pa.Table.from_pylist([coverage_row("new", 7, 3), coverage_row("prod", 0, 0)], tables.COVERAGE),
        families=FAMILIES.empty_table(),
        verdicts=(Verdict("new", "undecided", "No gate failed, 1 of 2 gates undecided.", gates),),
        outcome="undecided",
        notes=("Rows are the clusters.",),
    )
