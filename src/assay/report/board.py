"""The leaderboard as data: what the terminal and the notebook show, each in its own form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from assay.protocols import Direction
from assay.records import Results
from assay.report.numbers import every
from assay.spec.words import agree, count

ERROR_RULE = (
    "Intervals are plain 95 %. A variant passes only if all its gates pass, at a one-sided 0.025 after Holm's "
    "correction over the variants; it fails if one of its gates is broken at that level after the correction over "
    "variants, gates and slices; anything else is undecided and does not pass."
)
"""The one rule for errors, said in every report that shows verdicts on metrics."""
SLICES_TITLE = (
    "Slices in which a variant looks worse than the baseline (p < 0.05, uncorrected; q: BH over slices, exploratory)"
)
FAMILIES_TITLE = "Families: means over seeds, the spread between seeds, and the mean difference with its 95 % interval"
OF_ALL_SEEDS = "; of all seeds, selected or not"
SURE = "*"
"""Marks a difference whose simultaneous interval excludes 0."""
MOST_P = 0.05
BEST_FIRST = ("baseline", "pass", "undecided", "not gated", "fail", "not selected")

METHODS = {
    "leave-one-cluster-out": "intervals are made of fewer than 40 clusters, leaving out one at a time",
    "few clusters": "intervals are made of fewer than 40 groups of clusters",
    "two-way": "intervals allow for both clusters (two-way)",
}
"""What is said of slices by the column `interval`, where it is not the usual jackknife."""

Row = dict[str, Any]  # Any: a row of a result table, whose columns have their own types


@dataclass(frozen=True, slots=True)
class Board:
    """One task over all rows: variants by metrics."""

    task: str
    metrics: tuple[str, ...]
    variants: tuple[str, ...]  # the baseline first, then as declared
    values: Mapping[tuple[str, str], Row]  # (variant, metric) -> row of the metrics table
    differences: Mapping[tuple[str, str], Row]  # (variant, metric) -> row of the comparisons table
    family: int  # most variants that have simultaneous intervals in one metric

    def mark(self, variant: str, metric: str) -> str:
        """`SURE` where the simultaneous interval of one of several variants excludes 0, else ""."""
        row = self.differences.get((variant, metric))
        if row is None or row["simultaneous_low"] is None or self.family < 2:
            return ""
        return SURE if row["simultaneous_low"] > 0 or row["simultaneous_high"] < 0 else ""


def boards(results: Results) -> list[Board]:
    """A board per task, in the spec's order."""
    values = _overall(results.metrics)
    differences = _overall(results.comparisons)
    return [_board(task, values, differences, baseline_of(results)) for task in _distinct(values, "task")]


def baseline_of(results: Results) -> str | None:
    """The variant that the others were compared with; None where there is none."""
    names = results.comparisons["baseline"]
    return names[0].as_py() if len(names) else None


def outcomes_of(results: Results) -> dict[str, str]:
    """Variant -> what its verdict is, or that it is the baseline."""
    outcomes: dict[str, str] = {verdict.variant: verdict.outcome for verdict in results.verdicts}
    outcomes[baseline_of(results) or ""] = "baseline"
    return outcomes


def shown_variants(
    board: Board, results: Results, most: int, directions: Mapping[str, Direction] | None = None
) -> tuple[str, ...]:
    """All of them in their order; of more than `most` the best: by verdict, then by the first metric.

    directions: by metric; without that of the first metric those of one verdict stay in their order.
    """
    if len(board.variants) <= most:
        return board.variants
    outcomes, metric = outcomes_of(results), board.metrics[0]
    sign = {"higher": -1.0, "lower": 1.0}.get(str((directions or {}).get(metric)), 0.0)

    def place(variant: str) -> tuple[int, float]:
        value = board.values[variant, metric]["value"]
        return BEST_FIRST.index(outcomes.get(variant, "not gated")), math.inf if value is None else sign * value

    return tuple(sorted(board.variants, key=place)[:most])


def error_rule(results: Results) -> str:
    """`ERROR_RULE` where it says something of the verdicts; "" where all gates count rows, or there are none."""
    return ERROR_RULE if any(gate.metric for verdict in results.verdicts for gate in verdict.gates) else ""


def is_judged(results: Results) -> bool:
    """False where there are neither metrics nor gates, as where outputs were written and not measured."""
    return results.metrics.num_rows > 0 or results.outcome != "not gated"


def left_out_note(board: Board, most: int) -> str:
    """How many variants are not shown, and which are; "" where all are."""
    number = len(board.variants) - most
    if number <= 0:
        return ""
    more = f"{count(number, 'more variant')} {agree(number, 'is', 'are')} in results/metrics.parquet"
    return f"{more}; shown are the best by verdict, then by {board.metrics[0]}."


def not_selected(results: Results) -> str:
    """How many variants were not chosen to be judged; "" where all were judged."""
    number = sum(verdict.outcome == "not selected" for verdict in results.verdicts)
    if not number:
        return ""
    return f"{count(number, 'variant')} {agree(number, 'was', 'were')} not selected, and not judged."


def simultaneous_note(board: Board) -> str:
    """What the mark says; "" where there is none."""
    if not any(board.mark(*key) for key in board.differences):
        return ""
    return (
        f"{SURE} its 95 % simultaneous (max-t) interval excludes 0 too: those of {every(board.family, 'variant')} hold "
        "at once with probability 0.95. They are in results/comparisons.parquet."
    )


def telling_slices(results: Results, most: int, directions: Mapping[str, Direction]) -> list[Row]:
    """The slices in which a variant is worse than the baseline with p below 0.05, the surest first.

    A variant that failed its gates is left out: it needs no more reasons, and one that was not selected needs none.
    directions: by metric; a metric that is
    missing shows differences either way, one that is better near an ideal value none.
    """
    table = results.comparisons
    mask = pc.and_(pc.not_equal(table["slice"], "overall"), pc.less(table["p_value"], MOST_P))
    settled = [verdict.variant for verdict in results.verdicts if verdict.outcome in ("fail", "not selected")]
    mask = pc.and_(mask, pc.invert(pc.is_in(table["variant"], pa.array(settled, pa.string()))))
    table = table.filter(pc.and_(mask, pc.not_equal(table["difference"], 0.0)))
    order = [("p_value", "ascending"), ("slice", "ascending"), ("variant", "ascending"), ("metric", "ascending")]
    rows: list[Row] = []
    for batch in table.sort_by(order).to_batches(max_chunksize=1000):
        rows += [row for row in batch.to_pylist() if _may_be_worse(row, directions)]
        if len(rows) >= most:
            break
    return rows[:most]


def families_title(results: Results) -> str:
    """The title; seeds that were not selected count too, lest a recipe be as good as its luckiest seeds."""
    selected = all(verdict.outcome != "not selected" for verdict in results.verdicts)
    return FAMILIES_TITLE if selected else f"{FAMILIES_TITLE}{OF_ALL_SEEDS}"


def notes_of(results: Results) -> list[str]:
    """All sentences that stand below the tables."""
    metrics = results.metrics
    return [
        *results.notes,
        *interval_notes(metrics),
        *missing_interval_notes(metrics, baseline_of(results)),
        *missing_interval_notes(results.comparisons, None, "difference"),
        *coverage_notes(results.coverage, measured=metrics.num_rows > 0),
    ]


def interval_notes(metrics: pa.Table) -> list[str]:
    """Sentences on the slices whose intervals are of another kind than those of many clusters."""
    notes = []
    for method, words in METHODS.items():
        of_method = metrics.filter(pc.equal(metrics["interval"], method))
        slices = pc.unique(of_method["slice"]).to_pylist()
        if slices:
            others = f" and {count(len(slices) - 1, 'other slice')}" if len(slices) > 1 else ""
            notes.append(f"In {slices[0]}{others} {words}.")
    return notes


def missing_interval_notes(
    table: pa.Table, baseline: str | None, what: Literal["value", "difference"] = "value"
) -> list[str]:
    """Sentences on the values (or differences) over all rows that have no interval, by the reason; not on the
    baseline's values, which may be what they are by definition."""
    without: dict[tuple[str, str], list[str]] = {}
    tasks = _distinct(rows := _overall(table), "task")
    of = "Differences without" if what == "difference" else "Without"
    for row in rows:
        if row[what] is not None and row["undefined"] is not None and row["variant"] != baseline:
            named = without.setdefault((row["task"], row["undefined"]), [])
            named += [] if row["metric"] in named else [row["metric"]]
    return [
        f"{of} an interval{f' in task {task}' if len(tasks) > 1 else ''}: {', '.join(named)} ({why})."
        for (task, why), named in without.items()
    ]


def coverage_notes(coverage: pa.Table, *, measured: bool = True) -> list[str]:
    """Sentences on the rows that were left out, over all slices: by task, then by variant.

    measured: False leaves out the variants, whose missing outputs dead letters tell of.
    """
    notes = []
    rows = _overall(coverage)
    for task in _distinct(rows, "task"):
        of_task = [row for row in rows if row["task"] == task]
        where = f" of task {task}" if len(_distinct(rows, "task")) > 1 else ""
        notes += _task_notes(of_task[0], where)
        notes += [note for row in of_task for note in _variant_notes(row, where)] if measured else []
    return notes


def _board(task: str, values: list[Row], differences: list[Row], baseline: str | None) -> Board:
    of_task = [row for row in values if row["task"] == task]
    compared = {(row["variant"], row["metric"]): row for row in differences if row["task"] == task}
    variants = _distinct(of_task, "variant")
    return Board(
        task,
        _distinct(of_task, "metric"),
        tuple(sorted(variants, key=lambda variant: variant != baseline)),
        {(row["variant"], row["metric"]): row for row in of_task},
        compared,
        _family(compared.values()),
    )


def _family(differences: Iterable[Row]) -> int:
    sizes = Counter(row["metric"] for row in differences if row["simultaneous_low"] is not None)
    return max(sizes.values(), default=0)


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
