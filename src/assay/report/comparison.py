"""Two variants of a run side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.report.board import Row
from assay.report.fitting import FirstThatFits, table_of
from assay.report.numbers import number, p_value, signed_with_half_width, with_interval
from assay.spec.model import MAIN_TASK, OVERALL
from assay.spec.words import agree, count

UNCORRECTED = (
    "Intervals are plain 95 %, p-values uncorrected: of 20 comparisons without any difference one has p < 0.05."
)


def render_comparison(variant: str, other: str, comparisons: pa.Table) -> RenderableType:
    """A table per task and metric with a line per slice, in the order of the table `Evaluation.compare` gives; where
    only all rows are compared, a table per task with a line per metric. Slices without rows are counted below."""
    every: list[Row] = comparisons.to_pylist()
    if not every:
        return Text(f"{variant} against {other}: nothing is compared, since the run has no metrics.")
    rows = [row for row in every if row["rows"] or row["slice"] == OVERALL]
    empty = len({row["slice"] for row in every} - {row["slice"] for row in rows})
    by, name = (("task",), "metric") if {row["slice"] for row in rows} <= {OVERALL} else (("task", "metric"), "slice")
    parts: list[RenderableType] = [Text(f"{variant} against {other}", "bold")]
    for group in _groups(rows, by):
        title = _title(group[0], by)
        parts += [*([Text(title)] if title else []), _table(variant, other, group, name), Text()]
    parts.append(Text(UNCORRECTED, "dim"))
    if empty:
        parts.append(Text(f"{count(empty, 'slice')} without rows {agree(empty, 'is', 'are')} left out.", "dim"))
    return Group(*parts)


def _groups(rows: list[Row], by: Sequence[str]) -> list[list[Row]]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return list(groups.values())


def _title(row: Row, by: Sequence[str]) -> str:
    task = "" if row["task"] == MAIN_TASK else f"task {row['task']}"
    return ", ".join(part for part in (task, row["metric"] if "metric" in by else "") if part)


def _table(variant: str, other: str, rows: list[Row], name: str) -> FirstThatFits:
    def form(shown: Callable[[float | None, float | None, float | None], str], fold_headings: bool) -> Table:
        cells: list[tuple[str | Text, ...]] = [
            (
                row[name],
                f"{row['rows']:,}",
                *(number(row[end], _half(row)) for end in ("value", "other_value")),
                _missing(row) if row["difference"] is None else shown(row["difference"], row["low"], row["high"]),
                p_value(row["p_value"]),
            )
            for row in rows
        ]
        numbers = ("rows", variant, other, "difference", "p")
        return table_of((name,), numbers, cells, fold_headings=fold_headings)

    shorter = signed_with_half_width
    return FirstThatFits(tuple(form(one, fold) for fold in (False, True) for one in (with_interval, shorter)))


def _half(row: Row) -> float | None:
    return None if row["low"] is None or row["high"] is None else (row["high"] - row["low"]) / 2


def _missing(row: Row) -> Text:
    return Text(f"- ({row['undefined']})", "dim")
