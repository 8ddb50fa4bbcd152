"""Sentences on the rows that were left out."""

from __future__ import annotations

import pyarrow as pa

from assay.report.board import coverage_notes
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
