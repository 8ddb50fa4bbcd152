"""Lists for a terminal: the runs of a folder, the metrics there are, the checks of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.protocols import Direction, Metric
from assay.records import LabelKind
from assay.report.fitting import Name
from assay.report.terminal import STYLES
from assay.spec.words import count

LABELS: Mapping[LabelKind | None, str] = {
    None: "",
    "binary": ", label 0 or 1",
    "real": ", label a number",
    "class": "",
    "labels": "",
}
"""What a heading says of the label, beside what the task is."""


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
        table.add_row(Name(run.path), run.state, outcome, units, f"{run.num_variants:,}", Name(run.baseline or "-"))
    return table


def render_metrics(metrics: Mapping[str, Sequence[Metric]]) -> RenderableType:
    """A table for each heading and kind of label, a line per metric: its name, which way is better, what it is, its
    parameters with their defaults, what it needs."""
    parts: list[RenderableType] = []
    for heading, several in metrics.items():
        for label in dict.fromkeys(one.label_kind for one in several):
            table = _table("metric", "better", "what it is")
            for one in several:
                if one.label_kind == label:
                    table.add_row(one.name, _better(one.direction), _described(one))
            parts += [Text(""), Text(f"{heading}{LABELS[label]}", "bold"), table]
    return Group(*parts[1:])


def parameters_of(metric: Metric) -> dict[str, float | str | None]:
    """Those that stand in its name, with their defaults; None for one that must be given."""
    known = signature(type(metric)).parameters.values()
    return {one.name.rstrip("_"): None if one.default is one.empty else one.default for one in known}


def _described(metric: Metric) -> Text:
    said = [name if default is None else f"{name}={default}" for name, default in parameters_of(metric).items()]
    needs = [f"needs {name}" for name in _needs(metric)]
    return Text.assemble(metric.description, (f" ({'; '.join([*said, *needs])})" if said or needs else "", "dim"))


def _needs(metric: Metric) -> list[str]:
    """Of the outputs, and of the spec."""
    needs = {
        "a probability": metric.needs_probability,
        "scores": metric.needs_outputs and not metric.needs_probability,
        "an interval": metric.needs_interval,
        "a baseline": metric.needs_baseline,
    }
    return [name for name, needed in needs.items() if needed]


def render_audit(checks: Sequence[tuple[str, bool, str]], *, finished: bool = True) -> RenderableType:
    """A line per check (name, passed, sentence), and whether all passed. finished: whether the whole run was there."""
    table = _table("check", "", "what was found")
    for name, passed, detail in checks:
        table.add_row(name, Text("ok", STYLES["pass"]) if passed else Text("FAILED", STYLES["fail"]), Text(detail))
    failed = sum(not passed for _, passed, _ in checks)
    whole = "All checks passed." if finished else "All checks of what there is passed; the run is not finished."
    return Group(table, Text(f"{failed} of {count(len(checks), 'check')} failed." if failed else whole))


def _better(direction: Direction) -> str:
    if direction is None:
        return "-"
    return direction if isinstance(direction, str) else f"near {direction:g}"


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
