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
        "30 of 100 rows read have weight 0, or too little to count beside the largest.",
        "a: of 55 usable rows 1 scores are missing and it failed on 2.",
    ]
