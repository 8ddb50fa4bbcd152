"""What a run has cost, in one line."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from assay.records import Results
from assay.report.board import Row

MILLION = 1_000_000
ALWAYS = ("scoring", "reading", "idle")
"""Said even where they are 0."""


def cost_line(results: Results) -> str:
    """Seconds of workers and where they went, what they cost, and the dearest variant; "" where nothing is recorded."""
    if results.cost is None or not results.cost.num_rows:
        return ""
    rows = results.cost.to_pylist()
    total = _sum(rows, "seconds")
    if not total > 0:
        return ""
    by_kind: dict[str, float] = defaultdict(float)
    for row in rows:
        by_kind[row["kind"]] += row["seconds"]
    shares = {
        "scoring": by_kind["variant"],
        "reading": by_kind["reading"],
        "shared work": by_kind["shared"],
        "idle": by_kind["idle"],
        "thrown away": by_kind["thrown away"],
    }
    shares["other"] = total - math.fsum(shares.values())
    said = [
        f"{_percent(seconds / total)} {name}"
        for name, seconds in shares.items()
        if name in ALWAYS or seconds > 0.005 * total
    ]
    parts = [f"{_amount(total)} s of workers ({', '.join(said)})", *_prices(rows), *_dearest(rows)]
    return f"Cost: {'; '.join(parts)}."


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


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _amount(value: float) -> str:
    """Three digits, all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _sum(rows: list[Row], column: str) -> float:
    """NaN where one of them is unknown."""
    return math.fsum(math.nan if row[column] is None else row[column] for row in rows)
