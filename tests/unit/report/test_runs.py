"""Lists for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from rich.console import Console

from assay.protocols import Direction
from assay.report.runs import RunSummary, render_audit, render_metrics, render_runs


@dataclass(frozen=True)
class Named:
    name: str
    direction: Direction
    description: str = "what it is"
    label_kind: str | None = "binary"
    needs_probability: bool = False


def lines_of(renderable) -> list[str]:
    out = StringIO()
    Console(file=out, width=100).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_runs():
    runs = [
        RunSummary("runs/a", "finished", "pass", 4, 4, 9, "prod"),
        RunSummary("runs/b", "unfinished", "", 1, 1200, 2, ""),
    ]

    assert lines_of(render_runs("runs", runs)) == [
        "run     state       outcome  units       variants  baseline",
        "runs/a  finished    pass     4 of 4      9         prod",
        "runs/b  unfinished  -        1 of 1,200  2         -",
    ]
    assert lines_of(render_runs("here", [])) == ["There are no runs in here."]


def test_metrics():
    metrics = [
        Named("auc", "higher"),
        Named("count", None, label_kind=None),
        Named("ratio", 1.0, needs_probability=True),
    ]

    assert lines_of(render_metrics(metrics)) == [
        "metric  better  label   output       what it is",
        "auc     higher  binary  any          what it is",
        "count   -       any     any          what it is",
        "ratio   near 1  binary  probability  what it is",
    ]


def test_audit():
    assert lines_of(render_audit([("units", True, "4 units.")])) == [
        "check      what was found",
        "units  ok  4 units.",
        "All checks passed.",
    ]
    assert (
        lines_of(render_audit([("units", False, "1 missing."), ("log", True, "Fine.")]))[-1] == "1 of 2 checks failed."
    )
