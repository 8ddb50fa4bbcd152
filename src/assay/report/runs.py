"""Lists for a terminal: the runs of a folder, the metrics there are, the checks of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.protocols import Direction, Metric
from assay.report.terminal import STYLES
from assay.spec.words import count


class RunSummary(NamedTuple):
    """One line of `assay ls`."""

    path: str
    state: Literal["finished", "unfinished", "unreadable"]
    outcome: str  # "" unless finished
    units_done: int
    num_units: int
    num_variants: int
    baseline: str  # "" without one


def render_runs(folder: str, runs: Sequence[RunSummary]) -> RenderableType:
    """A line per run."""
    if not runs:
        return Text(f"There are no runs in {folder}.")
    table = _table("run", "state", "outcome", "units", "variants", "baseline")
    for run in runs:
        outcome = Text(run.outcome or "-", STYLES.get(run.outcome, ""))
        units = f"{run.units_done:,} of {run.num_units:,}"
        table.add_row(Text(run.path), run.state, outcome, units, f"{run.num_variants:,}", Text(run.baseline or "-"))
    return table


def render_metrics(metrics: Sequence[Metric]) -> RenderableType:
    """A line per metric: its name, which way is better, what it needs, what it is."""
    table = _table("metric", "better", "label", "output", "what it is")
    for metric in metrics:
        output = "probability" if metric.needs_probability else "any"
        table.add_row(metric.name, _better(metric.direction), metric.label_kind or "any", output, metric.description)
    return table


def render_audit(checks: Sequence[tuple[str, bool, str]]) -> RenderableType:
    """A line per check (name, passed, sentence), and whether all passed."""
    table = _table("check", "", "what was found")
    for name, passed, detail in checks:
        table.add_row(name, Text("ok", STYLES["pass"]) if passed else Text("FAILED", STYLES["fail"]), Text(detail))
    failed = sum(not passed for _, passed, _ in checks)
    return Group(table, Text(f"{failed} of {count(len(checks), 'check')} failed." if failed else "All checks passed."))


def _better(direction: Direction) -> str:
    if direction is None:
        return "-"
    return direction if isinstance(direction, str) else f"near {direction:g}"


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
