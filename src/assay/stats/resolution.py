"""Where binned scores leave a ranking metric less certain than chance does, and how many bits would mend it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from assay.records import Undefined
from assay.spec.model import MAIN_TASK, OVERALL
from assay.spec.words import count

MOST_BITS = 23
"""Mantissa bits of a float32: more cannot be told apart."""
LARGEST_SHARE = 0.25
"""Of the half width of an interval that an error bound may have."""
COARSER_BITS = 7
"""How many bits less than the histogram of all rows those by bucket have, about."""
WANTED_COARSE_BOUND = 0.025
"""How closely the latter should know the AUC: half of what metrics allow for an interval (`metrics/ranking.py`)."""

Key = tuple[str, str]  # task, metric
Row = Mapping[str, Any]  # Any: a row of a result table, whose columns have their own types


class _Limit(NamedTuple):
    bits: int  # more that are needed
    sentence: str


def resolution_notes(metrics: pa.Table, comparisons: pa.Table, ranked: Collection[Key], bits: int) -> tuple[str, ...]:
    """A sentence on the value or difference over all rows whose resolution falls shortest, if any does, and a remedy.

    An error bound falls short when it exceeds a quarter of the half width of its interval, and where scores are too
    close together for an interval. A bound falls about as 2^-bits. ranked: (task, metric) of the metrics whose bounds
    bits can mend. bits: of the run.
    """
    values = {(row["variant"], row["task"], row["metric"]): row for row in _overall(metrics, ranked)}
    limits = [one for row in values.values() if (one := _of_value(row)) is not None]
    limits += [one for row in _overall(comparisons, ranked) if (one := _of_difference(row, values)) is not None]
    if not limits:
        return ()
    worst = max(limits, key=lambda one: one.bits)
    others = f", and so for {count(len(limits) - 1, 'other number')}" if len(limits) > 1 else ""
    wanted = min(bits + worst.bits, MOST_BITS)
    remedy = (
        f"For a closer look, run it again with --set budget.auc_bits={wanted}."
        if bits < MOST_BITS
        else "Bins cannot be finer; a budget.exact_rows of all rows keeps every score apart."
    )
    return (f"AUC resolution is limited: {worst.sentence}{others}. {remedy}",)


def _overall(table: pa.Table, ranked: Collection[Key]) -> Iterator[Row]:
    whole = table.filter(pc.equal(table["slice"], OVERALL)) if table.num_rows else table
    for row in whole.to_pylist():
        if (row["task"], row["metric"]) in ranked:
            yield row


def _of_value(row: Row) -> _Limit | None:
    bound, name = row["error_bound"], f"{_name(row)} of {row['variant']!r}"
    if row["undefined"] == Undefined.RESOLUTION.value:
        more = _doublings((bound or 1.0) * 2.0**COARSER_BITS / WANTED_COARSE_BOUND)
        return _Limit(more, f"the scores of {row['variant']!r} are too close together for an interval of {_name(row)}")
    return _limit(f"the error bound of {name}", bound, row)


def _of_difference(row: Row, values: Mapping[tuple[str, str, str], Row]) -> _Limit | None:
    both = [values.get((row[one], row["task"], row["metric"])) for one in ("variant", "baseline")]
    bounds = [one["error_bound"] for one in both if one is not None]
    if len(bounds) < 2 or None in bounds:
        return None
    name = f"the error bound of the difference in {_name(row)} of {row['variant']!r} and {row['baseline']!r}"
    return _limit(name, sum(bounds), row)


def _limit(name: str, bound: float | None, row: Row) -> _Limit | None:
    if not bound or row["low"] is None:
        return None
    half = (row["high"] - row["low"]) / 2
    if not bound > LARGEST_SHARE * half:
        return None
    more = _doublings(bound / (LARGEST_SHARE * half)) if half else MOST_BITS
    return _Limit(more, f"{name} is {bound:.1e}, more than a quarter of the half width {half:.1e} of its interval")


def _doublings(factor: float) -> int:
    """How many bits surely lessen a bound by that factor, which is at least 1."""
    return math.floor(math.log2(max(factor, 1.0))) + 1 if math.isfinite(factor) else MOST_BITS


def _name(row: Row) -> str:
    task = "" if row["task"] == MAIN_TASK else f" of task {row['task']!r}"
    return f"{row['metric']}{task}"
