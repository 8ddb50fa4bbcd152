"""The leaderboard as data: what the terminal and the notebook show, each in its own form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.protocols import Direction
from assay.records import Results
from assay.spec.words import agree, count

ERROR_RULE = (
    "Intervals are plain 95 %. A variant passes only if all its gates pass, at a one-sided 0.025 after Holm's "
    "correction over the variants; it fails if one of its gates is broken at that level after the correction over "
    "variants, gates and slices; anything else is undecided and does not pass."
)
"""The one rule for errors, said in every report that shows verdicts."""
SLICES_TITLE = "Slices in which a variant looks worse than the baseline (p < 0.05, uncorrected)"
MOST_P = 0.05

Row = dict[str, Any]  # Any: a row of a result table, whose columns have their own types


@dataclass(frozen=True, slots=True)
class Board:
    """One task over all rows: variants by metrics."""

    task: str
    metrics: tuple[str, ...]
    variants: tuple[str, ...]  # the baseline first, then as declared
    values: Mapping[tuple[str, str], Row]  # (variant, metric) -> row of the metrics table
    differences: Mapping[tuple[str, str], Row]  # (variant, metric) -> row of the comparisons table


def boards(results: Results) -> list[Board]:
    """A board per task, in the spec's order."""
    values = _overall(results.metrics)
    differences = _overall(results.comparisons)
    return [_board(task, values, differences, baseline_of(results)) for task in _distinct(values, "task")]


def baseline_of(results: Results) -> str | None:
    """The variant that the others were compared with; None where there is none."""
    names = results.comparisons["baseline"]
    return names[0].as_py() if len(names) else None


def telling_slices(results: Results, most: int, directions: Mapping[str, Direction]) -> list[Row]:
    """The slices in which a variant is worse than the baseline with p below 0.05, the surest first.

    A variant that failed its gates is left out: it needs no more reasons. directions: by metric; a metric that is
    missing shows differences either way, one that is better near an ideal value none.
    """
    table = results.comparisons
    mask = pc.and_(pc.not_equal(table["slice"], "overall"), pc.less(table["p_value"], MOST_P))
    failed = [verdict.variant for verdict in results.verdicts if verdict.outcome == "fail"]
    mask = pc.and_(mask, pc.invert(pc.is_in(table["variant"], pa.array(failed, pa.string()))))
    table = table.filter(pc.and_(mask, pc.not_equal(table["difference"], 0.0)))
    order = [("p_value", "ascending"), ("slice", "ascending"), ("variant", "ascending"), ("metric", "ascending")]
    rows: list[Row] = []
    for batch in table.sort_by(order).to_batches(max_chunksize=1000):
        rows += [row for row in batch.to_pylist() if _may_be_worse(row, directions)]
        if len(rows) >= most:
            break
    return rows[:most]


def coverage_notes(coverage: pa.Table) -> list[str]:
    """Sentences on the rows that were left out, over all slices: by task, then by variant."""
    notes = []
    rows = _overall(coverage)
    for task in _distinct(rows, "task"):
        of_task = [row for row in rows if row["task"] == task]
        where = f" of task {task}" if len(_distinct(rows, "task")) > 1 else ""
        notes += _task_notes(of_task[0], where)
        notes += [note for row in of_task for note in _variant_notes(row, where)]
    return notes


def _board(task: str, values: list[Row], differences: list[Row], baseline: str | None) -> Board:
    of_task = [row for row in values if row["task"] == task]
    variants = _distinct(of_task, "variant")
    return Board(
        task,
        _distinct(of_task, "metric"),
        tuple(sorted(variants, key=lambda variant: variant != baseline)),
        {(row["variant"], row["metric"]): row for row in of_task},
        {(row["variant"], row["metric"]): row for row in differences if row["task"] == task},
    )


def _overall(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.filter(pc.equal(table["slice"], "overall")).to_pylist()
    return rows


def _distinct(rows: Iterable[Row], column: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[column] for row in rows))


def _may_be_worse(row: Row, directions: Mapping[str, Direction]) -> bool:
    if row["metric"] not in directions:
        return True
    direction = directions[row["metric"]]
    if direction == "higher":
        return bool(row["difference"] < 0)
    return direction == "lower" and bool(row["difference"] > 0)


def _task_notes(row: Row, where: str) -> list[str]:
    read = f"of {count(row['rows_read'], 'row')} read{where}"
    weightless = row["rows_read"] - _accounted(row)
    parts = [
        (row["rows_filtered"], "is left out by the filter", "are left out by the filter"),
        (row["null_label"], "has no label", "have no label"),
        (row["null_weight"], "has no weight", "have no weight"),
        (weightless, "has weight 0", "have weight 0"),
    ]
    return [f"{number:,} {read} {agree(number, one, many)}." for number, one, many in parts if number]


def _accounted(row: Row) -> int:
    """All rows in `overall` but those of weight 0."""
    return sum(row[name] for name in ("rows_filtered", "null_label", "null_weight", "null_score", "failed", "scored"))


def _variant_notes(row: Row, where: str) -> list[str]:
    usable = row["null_score"] + row["failed"] + row["scored"]
    null = row["null_score"]
    missing = f"{count(null, 'score')} {agree(null, 'is', 'are')} missing" if null else ""
    failed = f"it failed on {row['failed']:,}" if row["failed"] else ""
    what = " and ".join(part for part in (missing, failed) if part)
    return [f"{row['variant']}{where}: of {count(usable, 'usable row')} {what}."] if what else []
