"""Results for a terminal: rich renderables that also read well without colour and at 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from assay.protocols import Direction
from assay.records import Results, Verdict
from assay.report.board import (
    SLICES_TITLE,
    Board,
    Row,
    baseline_of,
    boards,
    error_rule,
    families_title,
    is_judged,
    left_out_note,
    not_selected,
    notes_of,
    outcomes_of,
    shown_variants,
    simultaneous_note,
    telling_slices,
)
from assay.report.cost import cost_line
from assay.report.fitting import FirstThatFits, Name, table_of
from assay.report.numbers import number, p_value, signed, signed_with_half_width, with_half_width, with_interval
from assay.spec.model import MAIN_TASK
from assay.spec.words import agree, count, listing

STYLES = {
    "pass": "green",
    "fail": "red",
    "undecided": "yellow",
    "not gated": "dim",
    "not selected": "dim",
    "baseline": "dim",
}
_ORDER = ("fail", "undecided", "pass", "not gated")
MOST_VARIANTS = 30
MOST_SLICES = 5
MOST_REASONS = 20

Cell = Callable[[str, str], Text]
"""(variant, metric) -> what is shown of it."""

_GAP = 2


def render(results: Results, directions: Mapping[str, Direction] | None = None) -> RenderableType:
    """Leaderboard, telling slices, verdicts and notes.

    directions: by metric name; where given, the slices shown are those in which a variant is worse.
    """
    parts: list[RenderableType] = [
        Leaderboard(board, results, shown_variants(board, results, MOST_VARIANTS, directions))
        for board in boards(results)
    ]
    if results.families.num_rows:
        parts += [Text(families_title(results), "bold"), families_table(results), Text()]
    slices = telling_slices(results, MOST_SLICES, directions or {})
    if slices:
        parts += [Text(SLICES_TITLE, "bold"), _slices_table(slices), Text()]
    parts += _verdict_lines(results) if is_judged(results) else []
    parts += [Text(f"Note: {note}") for note in notes_of(results)]
    parts += [Text(line, "dim") for line in [cost_line(results)] if line]
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Variants by metrics: the values, then the differences from the baseline with their intervals.

    Values have their half width where all metrics fit side by side with it. Of differences as many metrics are shown as
    fit, those of gates first.
    """

    board: Board
    results: Results
    variants: tuple[str, ...]  # that are shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.board.task != MAIN_TASK:
            yield Text(f"task {self.board.task}", "bold")
        full = self._groups(self.board.metrics, options.max_width, self._full_value)
        cell = self._full_value if len(full) == 1 else self._value
        for metrics in self._groups(self.board.metrics, options.max_width, cell):
            yield self._table(metrics, cell, options.max_width)
            yield Text()
        if self.board.differences:
            yield from self._differences(options.max_width)
        left_out = left_out_note(self.board, MOST_VARIANTS)
        if left_out:
            yield Text(left_out)

    def _differences(self, width: int) -> RenderResult:
        gated = {gate.metric for verdict in self.results.verdicts for gate in verdict.gates}
        telling = [metric for metric in self.board.metrics if self._differs(metric)]
        metrics = sorted(telling, key=lambda metric: metric not in gated)
        if not metrics:
            return
        first, *others = self._groups(metrics, width, self._difference)
        groups = [first, *(group for group in others if gated & set(group))]
        left_out = len(metrics) - sum(map(len, groups))
        rest = f" ({left_out} more of the metrics in results/comparisons.parquet)" if left_out else ""
        yield Text(f"Difference from {baseline_of(self.results)}, with its 95 % interval{rest}", "bold")
        note = simultaneous_note(self.board)
        for group in groups:
            yield self._table(group, self._difference, width)
            if note and any(self.board.mark(variant, metric) for variant in self.variants for metric in group):
                yield Text(note, "dim")
                note = ""
            yield Text()

    def _differs(self, metric: str) -> bool:
        return any(row["metric"] == metric and row["difference"] != 0 for row in self.board.differences.values())

    def _groups(self, metrics: Sequence[str], width: int, cell: Cell) -> list[list[str]]:
        """The metrics in order, in as few tables of the width as hold them."""
        widest = max((self._metric_width(metric, cell) for metric in metrics), default=0)
        room = width - self._name_width(width, widest + _GAP) - self._verdict_width() - _GAP
        groups: list[list[str]] = []
        left = 0
        for metric in metrics:
            needed = self._metric_width(metric, cell) + _GAP
            if not groups or needed > left:
                groups.append([])
                left = room
            groups[-1].append(metric)
            left -= needed
        return groups

    def _name_width(self, width: int, beside: int) -> int:
        """Of the column of variants: as wide as their names where what stands beside them has room, else a third.

        beside: of the columns of metrics, with the gaps before them."""
        names = max([len("variant"), *map(len, self.variants)])
        whole = names + _GAP + self._verdict_width() + beside <= width
        return names if whole else min(names, max(20, width // 3))

    def _verdict_width(self) -> int:
        outcomes = outcomes_of(self.results)
        return max([len("undecided"), *(len(outcomes.get(variant, "")) for variant in self.variants)])

    def _metric_width(self, metric: str, cell: Cell) -> int:
        return max([len(metric), *(cell(variant, metric).cell_len for variant in self.variants)])

    def _table(self, metrics: list[str], cell: Cell, width: int) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        beside = sum(self._metric_width(metric, cell) + _GAP for metric in metrics)
        table.add_column("variant", overflow="fold", max_width=self._name_width(width, beside))
        table.add_column("verdict")
        for metric in metrics:
            table.add_column(metric, justify="right", overflow="fold")
        outcomes = outcomes_of(self.results)
        for variant in self.variants:
            outcome = outcomes.get(variant, "not gated")
            cells = [cell(variant, metric) for metric in metrics]
            table.add_row(Name(variant), Text(outcome, STYLES[outcome]), *cells)
        return table

    def _full_value(self, variant: str, metric: str) -> Text:
        row = self.board.values[variant, metric]
        if row["value"] is None:
            return _missing(row)
        return Text(with_half_width(row["value"], row["low"], row["high"]))

    def _value(self, variant: str, metric: str) -> Text:
        row = self.board.values[variant, metric]
        return _missing(row) if row["value"] is None else Text(f"{row['value']:.4g}")

    def _difference(self, variant: str, metric: str) -> Text:
        row = self.board.differences.get((variant, metric))
        if row is None:
            return Text("")
        if row["difference"] is None:
            return _missing(row)
        return Text(_interval(row) + self.board.mark(variant, metric))


def _missing(row: Row) -> Text:
    return Text(f"- ({row['undefined']})", "dim")


def _interval(row: Row) -> str:
    return with_interval(row["difference"], row["low"], row["high"])


def _slices_table(rows: list[Row]) -> FirstThatFits:
    """Names stay whole while leaving numbers out makes room for them: p, which is below 0.05 in all, then the rows,
    then half widths. Where none of that does, all numbers are there and names are folded."""
    several = len({row["task"] for row in rows}) > 1
    names = (*(["task"] if several else []), "slice", "variant", "metric")

    def form(shown: Callable[[float | None, float | None, float | None], str], *numbers: str) -> Table:
        cells: list[tuple[str | Text, ...]] = []
        for row in rows:
            number_of = {
                "rows": f"{row['rows']:,}",
                "difference": shown(row["difference"], row["low"], row["high"]),
                "p": p_value(row["p_value"]),
                "q": p_value(row["q_value"]),
            }
            cells.append((*(row[name] for name in names), *(number_of[name] for name in numbers)))
        return table_of(names, numbers, cells)

    every = ("rows", "difference", "p", "q")
    half = signed_with_half_width
    fewer = (form(half, "rows", "difference", "q"), form(half, "difference", "q"), form(_alone, "difference", "q"))
    return FirstThatFits((form(with_interval, *every), form(half, *every), *fewer, form(half, *every)))


def _alone(difference: float | None, low: float | None, high: float | None) -> str:
    half = None if low is None or high is None else (high - low) / 2
    return signed(difference, half)


def families_table(results: Results) -> FirstThatFits:
    """A line per family, task and metric; without the least and the greatest where they don't fit."""
    rows = results.families.to_pylist()
    several = len({row["task"] for row in rows}) > 1
    names = ("family", *(["task"] if several else []), "metric")

    def form(*extremes: str) -> Table:
        cells = [
            (
                *(row[name] for name in names),
                f"{row['num_seeds']:,}",
                *(number(row[name], row["spread"]) for name in ("value", "spread", *extremes)),
                _mean_difference(row),
            )
            for row in rows
        ]
        return table_of(names, ("seeds", "mean", "sd", *extremes, "difference"), cells)

    return FirstThatFits((form("least", "greatest"), form()))


def _mean_difference(row: Row) -> Text:
    """Of a family; empty where the baseline is its only seed."""
    if row["difference"] is not None:
        return Text(signed_with_half_width(row["difference"], row["low"], row["high"]))
    return Text("") if row["undefined"] is None else _missing(row)


def _verdict_lines(results: Results) -> Iterator[RenderableType]:
    if results.outcome == "not gated":
        yield Text("Not gated: the spec declares no gates.")
        return
    yield from verdict_lines(results)


def verdict_lines(results: Results) -> Iterator[RenderableType]:
    """The verdicts, the worst first, what they make of the run, and the rule for errors."""
    judged = [verdict for verdict in results.verdicts if verdict.outcome != "not selected"]
    worst_first = sorted(judged, key=lambda verdict: _ORDER.index(verdict.outcome))
    for verdict in worst_first[:MOST_REASONS]:
        yield _verdict_line(verdict)
    left_out = len(worst_first) - MOST_REASONS
    if left_out > 0:
        sizes = Counter[str](verdict.outcome for verdict in worst_first)
        each = ", ".join(f"{sizes[outcome]:,} {outcome}" for outcome in _ORDER if sizes[outcome])
        more = f"{count(left_out, 'more verdict')} {agree(left_out, 'is', 'are')} in results/verdicts.json"
        yield Text(f"{more}. In all: {each}.")
        passed = [verdict.variant for verdict in worst_first if verdict.outcome == "pass"]
        if passed:
            yield Text(f"Passed: {listing(passed)}.")
    others = not_selected(results)
    if others:
        yield Text(others)
    yield Text.assemble("The run: ", (results.outcome, STYLES[results.outcome]), ".")
    if rule := error_rule(results):
        yield Text(rule, "dim")


def _verdict_line(verdict: Verdict) -> Text:
    outcome = (verdict.outcome, STYLES[verdict.outcome])
    return Text.assemble((f"{verdict.variant}: ", "bold"), outcome, f". {verdict.reason}")
