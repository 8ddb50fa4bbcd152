"""Results for a terminal: rich renderables that also read well without colour and at 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from assay.protocols import Direction
from assay.records import Results, Verdict
from assay.report.board import ERROR_RULE, SLICES_TITLE, Board, Row, baseline_of, boards, coverage_notes, telling_slices
from assay.report.numbers import p_value, with_half_width, with_interval
from assay.spec.model import MAIN_TASK
from assay.spec.words import agree, count

STYLES = {"pass": "green", "fail": "red", "undecided": "yellow", "not gated": "dim", "baseline": "dim"}
_ORDER = ("fail", "undecided", "pass", "not gated")
MOST_VARIANTS = 50
MOST_SLICES = 5
MOST_REASONS = 20

Cell = Callable[[str, str], Text]
"""(variant, metric) -> what is shown of it."""

_NAME_WIDTH = 20
_GAP = 2


def render(results: Results, directions: Mapping[str, Direction] | None = None) -> RenderableType:
    """Leaderboard, telling slices, verdicts and notes.

    directions: by metric name; where given, the slices shown are those in which a variant is worse.
    """
    parts: list[RenderableType] = [Leaderboard(board, results) for board in boards(results)]
    slices = telling_slices(results, MOST_SLICES, directions or {})
    if slices:
        parts += [Text(SLICES_TITLE, "bold"), _slices_table(slices), Text()]
    parts += _verdict_lines(results)
    parts += [Text(f"Note: {note}") for note in (*results.notes, *coverage_notes(results.coverage))]
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Variants by metrics: the values, then the differences from the baseline with their intervals.

    Values have their half width where all metrics fit side by side with it. Of differences as many metrics are shown as
    fit, those of gates first.
    """

    board: Board
    results: Results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.board.task != MAIN_TASK:
            yield Text(f"task {self.board.task}", "bold")
        full = self._groups(self.board.metrics, options.max_width, self._full_value)
        cell = self._full_value if len(full) == 1 else self._value
        for metrics in self._groups(self.board.metrics, options.max_width, cell):
            yield self._table(metrics, cell)
            yield Text()
        if self.board.differences:
            yield from self._differences(options.max_width)
        left_out = len(self.board.variants) - MOST_VARIANTS
        if left_out > 0:
            yield Text(f"{count(left_out, 'more variant')} {agree(left_out, 'is', 'are')} in results/metrics.parquet.")

    def _differences(self, width: int) -> RenderResult:
        gated = {gate.metric for verdict in self.results.verdicts for gate in verdict.gates}
        telling = [metric for metric in self.board.metrics if self._differs(metric)]
        metrics = sorted(telling, key=lambda metric: metric not in gated)
        if not metrics:
            return
        first, *others = self._groups(metrics, width, self._difference)
        groups = [first, *(group for group in others if gated & set(group))]
        left_out = len(metrics) - sum(map(len, groups))
        rest = f" ({left_out} more in comparisons.parquet)" if left_out else ""
        yield Text(f"Difference from {baseline_of(self.results)}, with its 95 % interval{rest}", "bold")
        for group in groups:
            yield self._table(group, self._difference)
            yield Text()

    def _differs(self, metric: str) -> bool:
        return any(row["metric"] == metric and row["difference"] != 0 for row in self.board.differences.values())

    def _groups(self, metrics: Sequence[str], width: int, cell: Cell) -> list[list[str]]:
        """The metrics in order, in as few tables of the width as hold them."""
        names = max((len(variant) for variant in self._variants), default=0)
        room = width - min(_NAME_WIDTH, max(names, len("variant"))) - len("undecided") - 2 * _GAP
        groups: list[list[str]] = []
        left = 0
        for metric in metrics:
            needed = max(len(metric), *(cell(variant, metric).cell_len for variant in self._variants)) + _GAP
            if not groups or needed > left:
                groups.append([])
                left = room
            groups[-1].append(metric)
            left -= needed
        return groups

    @property
    def _variants(self) -> tuple[str, ...]:
        return self.board.variants[:MOST_VARIANTS]

    def _table(self, metrics: list[str], cell: Cell) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("variant", overflow="fold", max_width=_NAME_WIDTH)
        table.add_column("verdict")
        for metric in metrics:
            table.add_column(metric, justify="right", overflow="fold")
        outcomes: dict[str, str] = {verdict.variant: verdict.outcome for verdict in self.results.verdicts}
        outcomes[baseline_of(self.results) or ""] = "baseline"
        for variant in self._variants:
            outcome = outcomes.get(variant, "not gated")
            cells = [cell(variant, metric) for metric in metrics]
            table.add_row(variant, Text(outcome, STYLES[outcome]), *cells)
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
        return _missing(row) if row["difference"] is None else Text(_interval(row))


def _missing(row: Row) -> Text:
    return Text(f"- ({row['undefined']})", "dim")


def _interval(row: Row) -> str:
    return with_interval(row["difference"], row["low"], row["high"])


def _slices_table(rows: list[Row]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    several = len({row["task"] for row in rows}) > 1
    names = (*(["task"] if several else []), "slice", "variant", "metric")
    for name in names:
        table.add_column(name, overflow="fold")
    for name in ("rows", "difference", "p"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(Text(row[name]) for name in names), f"{row['rows']:,}", _interval(row), p_value(row["p_value"]))
    return table


def _verdict_lines(results: Results) -> Iterator[RenderableType]:
    if results.outcome == "not gated":
        yield Text("Not gated: the spec declares no gates.")
        return
    worst_first = sorted(results.verdicts, key=lambda verdict: _ORDER.index(verdict.outcome))
    for verdict in worst_first[:MOST_REASONS]:
        yield _verdict_line(verdict)
    left_out = len(worst_first) - MOST_REASONS
    if left_out > 0:
        yield Text(f"{count(left_out, 'more verdict')} {agree(left_out, 'is', 'are')} in results/verdicts.json.")
    yield Text.assemble("The run: ", (results.outcome, STYLES[results.outcome]), ".")
    yield Text(ERROR_RULE, "dim")


def _verdict_line(verdict: Verdict) -> Text:
    outcome = (verdict.outcome, STYLES[verdict.outcome])
    return Text.assemble((f"{verdict.variant}: ", "bold"), outcome, f". {verdict.reason}")
