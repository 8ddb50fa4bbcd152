"""Sentences on the rows that were left out."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from assay.records import Results
from assay.report.board import coverage_notes, interval_notes, missing_interval_notes, notes_of
from assay.stats import tables


def test_rows_of_weight_0_are_told_though_no_column_counts_them() -> None:
    row = {
        "variant": "a", "task": "main", "slice": "overall", "rows_read": 100, "rows_filtered": 10, "null_label": 0,
        "null_weight": 5, "null_score": 1, "failed": 2, "scored": 52, "weight": 52.0,
    }  # fmt: skip

    assert coverage_notes(pa.Table.from_pylist([row], tables.COVERAGE)) == [
        "10 of 100 rows read are left out by the filter.",
        "5 of 100 rows read have no weight.",
        "30 of 100 rows read have weight 0.",
        "a: of 55 usable rows 1 score is missing and it failed on 2.",
    ]


def test_one_row_is_told_as_one() -> None:
    row = {
        "variant": "a", "task": "main", "slice": "overall", "rows_read": 4, "rows_filtered": 1, "null_label": 1,
        "null_weight": 0, "null_score": 1, "failed": 0, "scored": 0, "weight": 0.0,
    }  # fmt: skip

    assert coverage_notes(pa.Table.from_pylist([row], tables.COVERAGE)) == [
        "1 of 4 rows read is left out by the filter.",
        "1 of 4 rows read has no label.",
        "1 of 4 rows read has weight 0.",
        "a: of 1 usable row 1 score is missing.",
    ]


def with_methods(results: Results, *methods: str | None) -> Results:
    """By row of the metrics table."""
    place = results.metrics.schema.get_field_index("interval")
    return replace(results, metrics=results.metrics.set_column(place, "interval", pa.array(methods, pa.string())))


def test_slices_with_intervals_of_few_clusters_or_of_two_are_named(results: Results) -> None:
    few, alone = "few clusters", "leave-one-cluster-out"
    plain = ["jackknife"] * 6

    assert interval_notes(with_methods(results, *plain, None).metrics) == []
    assert interval_notes(with_methods(results, *plain, few).metrics) == [
        "In country=<b> intervals are made of fewer than 40 groups of clusters."
    ]
    assert interval_notes(with_methods(results, *[alone] * 7).metrics) == [
        "In overall and 1 other slice intervals are made of fewer than 40 clusters, leaving out one at a time."
    ]
    assert notes_of(with_methods(results, *["two-way"] * 6, None))[:2] == [
        *results.notes,
        "In overall intervals allow for both clusters (two-way).",
    ]


def test_values_without_an_interval_are_told_by_the_reason(results):
    rows = results.metrics.to_pylist()
    for row in rows:
        if row["metric"] != "auc":
            row.update(low=None, high=None, undefined="too few clusters")

    notes = missing_interval_notes(pa.Table.from_pylist(rows, results.metrics.schema), "prod")

    assert notes == ["Without an interval: log_loss, count (too few clusters)."]
    assert missing_interval_notes(results.metrics, "prod") == []


def test_differences_without_an_interval_are_told_too(results):
    rows = results.comparisons.to_pylist()
    for row in rows:
        if row["metric"] == "log_loss":
            row.update(low=None, high=None, undefined="no variation between clusters")
    comparisons = pa.Table.from_pylist(rows, results.comparisons.schema)

    assert missing_interval_notes(comparisons, None, "difference") == [
        "Differences without an interval: log_loss (no variation between clusters)."
    ]


def test_they_are_told_by_task_where_there_are_several(results):
    rows = [row | {"undefined": "over budget"} for row in results.metrics.to_pylist() if row["metric"] == "count"]
    rows[0]["task"] = "cvr"

    notes = missing_interval_notes(pa.Table.from_pylist(rows, results.metrics.schema), None)

    assert notes == [
        "Without an interval in task cvr: count (over budget).",
        "Without an interval in task main: count (over budget).",
    ]
