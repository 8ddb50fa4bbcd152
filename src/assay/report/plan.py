"""A plan for people and as JSON: what would be read, scored and compared, and what it takes. Nothing is scored yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.records import Dimension, Plan, Task
from assay.report.jsonable import Json, jsonable
from assay.spec.model import MAIN_TASK
from assay.spec.words import agree, count

MOST_NAMES = 12
"""Names listed in one line; of more only the number is told."""
LARGE = "ranking, calibration, quantiles and counts by class"
"""What the metrics are of whose intervals are kept as the budget allows."""
UNNAMED = {
    "slices": "overall",
    "clusters": "none: every row counts as independent",
    "baseline": "none: nothing is compared",
    "gates": "none: not gated",
}
"""Facts of which the spec names nothing; they are left out where scores are written and not measured."""
TALLIES = 2
"""A worker holds two: the open one, and the pending partial."""

_ONE_BY_ONE = (
    "tasks", "slices", "sizes", "choice", "columns", "micro_batch", "seed", "fingerprints", "bundles", "identity",
)  # fmt: skip


class Planned(NamedTuple):
    """What `assay plan` shows."""

    plan: Plan
    num_rows: int | None  # the plan's, or counted where files do not say; None: not known before reading
    baseline: str | None
    gates: Sequence[str]  # in words
    clusters: Sequence[str]  # columns or expressions; none where every row is independent
    choice: str  # how variants are chosen before they are judged, in words; "" where all are judged
    notes: Sequence[str]
    why_bundles: str = ""  # a sentence; "" where one worker holds all variants
    written: str = ""  # predictions: format, place and columns, in words; "" where none are written


def plan_json(planned: Planned) -> dict[str, Json]:
    """The plan without its long lists: files and units as numbers."""
    plan = planned.plan
    return {
        "num_files": len(plan.fragments),
        "num_units": len(plan.units),
        "num_rows": planned.num_rows,
        "state_bytes": plan.state_bytes,
        "baseline": planned.baseline,
        "gates": list(planned.gates),
        "clusters": list(planned.clusters),
        **{name: jsonable(getattr(plan, name)) for name in _ONE_BY_ONE},
        **({"written": planned.written} if planned.written else {}),
        "notes": list(planned.notes),
    }


def render_plan(planned: Planned, workers: int) -> RenderableType:
    """The plan as a table of two columns, then the notes. workers: how many would score."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for title, text in _facts(planned, workers).items():
        table.add_row(Text(title), Text(text))
    return Group(table, *(Text(f"Note: {note}") for note in planned.notes))


def _rows_per_call(plan: Plan) -> str:
    """How many rows models get at once, the fewest first."""
    by_rows: dict[int | None, list[str]] = {}
    for variant, rows in plan.batch_rows.items():
        by_rows.setdefault(rows, []).append(variant)
    ordered = sorted(by_rows.items(), key=lambda item: (item[0] is None, item[0] or 0))
    said = [f"{'a row group' if rows is None else f'{rows:,}'} ({_names(names)})" for rows, names in ordered]
    return "; ".join(said) if len(said) > 1 else "".join(said).partition(" (")[0]


def _facts(planned: Planned, workers: int) -> dict[str, str]:
    plan = planned.plan
    rows = "rows unknown until they are read" if planned.num_rows is None else count(planned.num_rows, "row")
    facts = {
        "data": f"{rows} in {count(len(plan.fragments), 'file')}",
        "units": _units(plan),
        "columns read": _names(plan.columns),
        **{_title(task): _task(task) for task in plan.tasks},
        "slices": "; ".join(
            [UNNAMED["slices"], *(_dimension(one) for one in plan.slices.dimensions if one.first_slice > 0)]
        ),
        "clusters": " and ".join(planned.clusters) or UNNAMED["clusters"],
        "variants": _names(list(plan.fingerprints)),
        **({"bundles": _bundles(planned)} if plan.bundles else {}),
        "rows per call": _rows_per_call(plan),
        "baseline": UNNAMED["baseline"] if planned.baseline is None else planned.baseline,
        **({"chosen": planned.choice} if planned.choice else {}),
        **({"written": planned.written} if planned.written else {}),
        "gates": "; ".join(planned.gates) or UNNAMED["gates"],
        "states": _states(plan, workers),
    }
    if any(task.metrics for task in plan.tasks):
        return facts
    return {name: fact for name, fact in facts.items() if name != "states" and fact != UNNAMED.get(name)}


def _units(plan: Plan) -> str:
    units = count(len(plan.units), "unit")
    if not plan.bundles:
        return units
    pieces = len(plan.units) // len(plan.bundles)
    return f"{units}: {count(pieces, 'piece')} of the data for each of {count(len(plan.bundles), 'bundle')}"


def _bundles(planned: Planned) -> str:
    """What a worker of each holds, and why that is not all."""
    held = "; ".join(f"{number}: {_names(names)}" for number, names in enumerate(planned.plan.bundles))
    baseline = "" if planned.baseline is None else f", each with {planned.baseline}"
    return f"{held}{baseline}. {planned.why_bundles}".strip()


def _title(task: Task) -> str:
    return "task" if task.name == MAIN_TASK else f"task {task.name}"


def _task(task: Task) -> str:
    where = f", where {task.where}" if task.where else ""
    return f"{_label(task)}{where}: {', '.join(task.metrics) or 'scores are written, not measured'}"


def _label(task: Task) -> str:
    if not task.has_label:
        return "no label"
    if not task.classes:
        return f"{task.label} ({task.label_kind})"
    number = len(task.classes)
    several = agree(number, "class", "classes") if task.label_kind == "class" else agree(number, "label", "labels")
    names = _names(task.classes if task.targets is None else [*map("{}: {}".format, task.classes, task.targets)])
    return f"{task.label} ({number:,} {several}: {names})".strip()


def _dimension(dimension: Dimension) -> str:
    return f"{dimension.name} ({count(dimension.num_slices, 'slice')})"


def _states(plan: Plan, workers: int) -> str:
    exact = "exact AUC" if plan.choice.exact_ranking else "AUC in bins, with its error bound"
    intervals = {
        "all": "intervals in all slices",
        "overall": f"intervals of {LARGE} over all rows only",
        "none": f"no intervals of {LARGE}",
    }[plan.choice.bucketed]
    total = f"{_mebibytes(TALLIES * workers * plan.state_bytes)} in {count(workers, 'worker')}"
    size = f"{TALLIES} of at most {_mebibytes(plan.state_bytes)} a worker, {total}"
    return f"{size}; {exact}; {intervals}"


def _mebibytes(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"
