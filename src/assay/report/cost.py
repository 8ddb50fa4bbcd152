"""What a run has cost and how busy its machines were, in one line."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping

from assay.costs import Cause, Kind
from assay.records import Results
from assay.report.board import Row

MILLION = 1_000_000
APART: tuple[Kind, ...] = ("preparing", "places", "joining")
"""Kinds of seconds that are no worker's."""
SHARES: Mapping[str, Kind] = {
    "scoring": "variant",
    "reading": "reading",
    "shared work": "shared",
    "idle": "idle",
    "thrown away": "thrown away",
    "loading variants": "start-up",
}
"""All other kinds, by what is said of them."""
ALWAYS = ("scoring", "reading", "idle")
"""Said even where they are 0."""
CAUSES: Mapping[Cause, str] = {
    "copy": "units that another worker scored sooner",
    "error": "units that failed or could not be written",
    "preemption": "units of machines that were taken back",
    "lost worker": "units of workers that were lost",
    "not committed": "units that were scored and not committed",
}
"""What was thrown away, by the ledger's cause."""


def cost_line(results: Results) -> str:
    """Seconds of workers and where they went, what they cost, and the dearest variant; "" where nothing is recorded."""
    if results.cost is None or not results.cost.num_rows:
        return ""
    rows = results.cost.to_pylist()
    total = _sum([row for row in rows if row["kind"] not in APART], "seconds")
    if not total > 0:
        return ""
    by_kind: dict[Kind, float] = defaultdict(float)
    for row in rows:
        by_kind[row["kind"]] += row["seconds"]
    shares = {name: by_kind[kind] for name, kind in SHARES.items()}
    told = [name for name, seconds in shares.items() if name in ALWAYS or seconds > 0.005 * total]
    said = [f"{_percent(shares[name] / total)} {name}" for name in told]
    parts = [f"{_amount(total)} s of workers ({', '.join(said)})"]
    if by_kind["preparing"] > 0:
        parts.append(f"{_amount(by_kind['preparing'])} s of preparation tasks")
    if by_kind["joining"] > 0:
        parts.append(f"{_amount(by_kind['joining'])} s of joins")
    parts += [*_prices(rows), *_dearest(rows)]
    lost = _thrown_away(rows) if "thrown away" in told else []
    return " ".join([f"Cost: {'; '.join(parts)}.", *lost, *_balance(by_kind, rows, total)])


def _thrown_away(rows: list[Row]) -> list[str]:
    """What that is, the most of it first."""
    by_cause: dict[Cause, float] = defaultdict(float)
    for row in rows:
        if row["kind"] == "thrown away":
            by_cause[row["name"]] += row["seconds"]
    ordered = sorted(by_cause.items(), key=lambda item: -item[1])
    causes = [f"{CAUSES[cause]} ({_amount(seconds)} s)" for cause, seconds in ordered if seconds > 0]
    return [f"Thrown away: {', '.join(causes)}."]


def _prices(rows: list[Row]) -> list[str]:
    cost, on_demand = _sum(rows, "cost"), _sum(rows, "on_demand_cost")
    if math.isnan(cost):
        return []
    currency = f" {rows[0]['currency']}" if rows[0]["currency"] else ""
    num_rows = sum(row["rows"] for row in rows if row["kind"] == "reading")
    each = f", {_amount(cost / num_rows * MILLION)}{currency} per million rows" if num_rows else ""
    saved = f", {_amount(on_demand)}{currency} on demand" if on_demand > cost else ""
    return [f"{_amount(cost)}{currency}{each}{saved}"]


def _dearest(rows: list[Row]) -> list[str]:
    """By cost where that is known of all, else by seconds."""
    priced = not math.isnan(_sum(rows, "cost"))
    by_variant: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["kind"] == "variant":
            by_variant[row["name"]] += row["cost"] if priced else row["seconds"]
    whole = sum(by_variant.values())
    if len(by_variant) < 2 or not whole > 0:
        return []
    dearest: Callable[[str], float] = by_variant.__getitem__
    name = max(by_variant, key=dearest)
    return [f"{name} took most, {_percent(by_variant[name] / whole)} of scoring"]


def _balance(by_kind: Mapping[Kind, float], rows: list[Row], total: float) -> list[str]:
    """How busy both sides were, where units were prepared apart from the workers that scored them."""
    preparing, places = by_kind["preparing"], by_kind["places"]
    scoring, lived = by_kind["variant"] + by_kind["shared"], total - by_kind["start-up"]
    if not min(preparing, places, scoring, lived) > 0:
        return []
    wall = math.fsum(row["seconds"] / int(row["name"]) for row in rows if row["kind"] == "places")
    return [
        f"Preparing: {_count(places / wall, 'task')}, {_percent(preparing / places)} busy.",
        f"Scoring: {_count(lived / wall, 'worker')}, {_percent(scoring / lived)} busy.",
        f"{_ratio(preparing / scoring)} would balance them.",
    ]


def _ratio(tasks_per_worker: float) -> str:
    if tasks_per_worker >= 1:
        return f"About {_count(tasks_per_worker, 'task')} to a worker"
    return f"About {_count(1 / tasks_per_worker, 'worker')} to a task"


def _count(number: float, noun: str) -> str:
    """Of things that came and went: 2.5 on average."""
    said = f"{number:.2g}" if number < 9.5 else f"{number:,.0f}"
    return f"{said} {noun}{'' if said == '1' else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _amount(value: float) -> str:
    """Three digits, all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _sum(rows: list[Row], column: str) -> float:
    """NaN where one of them is unknown."""
    return math.fsum(math.nan if row[column] is None else row[column] for row in rows)
