"""Two variants side by side."""

from __future__ import annotations

from io import StringIO

import pyarrow as pa
from rich.console import Console

from assay.report.comparison import render_comparison

COLUMNS = (
    "task",
    "metric",
    "slice",
    "rows",
    "value",
    "other_value",
    "difference",
    "low",
    "high",
    "p_value",
    "undefined",
)


def row(task: str, metric: str, slice_: str, rows: int = 1200, **changes: object) -> dict[str, object]:
    numbers = (0.7388, 0.7415, -0.0027, -0.0113, 0.0060, 0.541, None)
    return dict(zip(COLUMNS, (task, metric, slice_, rows, *numbers), strict=True)) | changes


UNKNOWN = dict.fromkeys(("difference", "low", "high", "p_value"))
RULE = [
    "Intervals are plain 95 %, p-values uncorrected: of 20 comparisons without any",
    "difference one has p < 0.05.",
]


def lines_of(rows: list[dict[str, object]], width: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(render_comparison("new", "[old]", pa.Table.from_pylist(rows)))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_table_per_metric_with_a_line_per_slice() -> None:
    rows = [
        row("main", "auc", "overall"),
        row("main", "auc", "country=US", 600, undefined="row sets differ", **UNKNOWN),
        row("main", "auc", "country=null", 0, undefined="no rows", **UNKNOWN),
    ]

    assert lines_of(rows) == [
        "new against [old]",
        "auc",
        "slice        rows     new   [old]                  difference     p",
        "overall     1,200  0.7388  0.7415  -0.0027 [-0.0113, +0.0060]  0.54",
        "country=US    600  0.7388  0.7415         - (row sets differ)     -",
        "",
        *RULE,
        "1 slice without rows is left out.",
    ]


def test_a_line_per_metric_where_there_are_no_slices() -> None:
    rows = [row("ctr", "auc", "overall"), row("ctr", "ece", "overall"), row("cvr", "auc", "overall", 0)]

    assert lines_of(rows) == [
        "new against [old]",
        "task ctr",
        "metric   rows     new   [old]                  difference     p",
        "auc     1,200  0.7388  0.7415  -0.0027 [-0.0113, +0.0060]  0.54",
        "ece     1,200  0.7388  0.7415  -0.0027 [-0.0113, +0.0060]  0.54",
        "",
        "task cvr",
        "metric  rows     new   [old]                  difference     p",
        "auc        0  0.7388  0.7415  -0.0027 [-0.0113, +0.0060]  0.54",
        "",
        *RULE,
    ]


def test_where_both_ends_do_not_fit_the_half_width_is_shown_and_numbers_stay_whole() -> None:
    reason = "the metric is not smooth enough for an interval"
    rows = [
        row("main", "auc", "overall"),
        row("main", "auc", "country=DE,device=phone,day=1", undefined=reason, **UNKNOWN),
    ]

    assert lines_of(rows, 64)[2:8] == [
        "slice               rows     new   [old]        difference     p",
        "overall            1,200  0.7388  0.7415   -0.0027 ±0.0086  0.54",
        "country=DE,        1,200  0.7388  0.7415  - (the metric is     -",
        "device=phone,                                   not smooth",
        "day=1                                        enough for an",
        "                                                 interval)",
    ]


def test_long_names_of_both_variants_are_folded_between_words_before_a_number_is_cut() -> None:
    out = StringIO()
    found = pa.Table.from_pylist([row("main", "auc", "overall")])
    names = "ranker_v2_with_all_of_the_embeddings", "ranker_v1_before_the_embeddings"
    Console(file=out, width=80).print(render_comparison(*names, found))
    assert [line.rstrip() for line in out.getvalue().splitlines()][1:5] == [
        "               ranker_v2_with_   ranker_v1_",
        "                   all_of_the_  before_the_",
        "metric   rows       embeddings   embeddings                  difference     p",
        "auc     1,200           0.7388       0.7415  -0.0027 [-0.0113, +0.0060]  0.54",
    ]


def test_the_half_width_is_shown_before_names_are_folded() -> None:
    """Folded names would leave room for both ends."""
    out = StringIO()
    found = pa.Table.from_pylist([row("main", "auc", "overall")])
    Console(file=out, width=75).print(render_comparison("ranker_v2_embeddings", "ranker_v1", found))
    assert [line.rstrip() for line in out.getvalue().splitlines()][1:3] == [
        "metric   rows  ranker_v2_embeddings  ranker_v1       difference     p",
        "auc     1,200                0.7388     0.7415  -0.0027 ±0.0086  0.54",
    ]
