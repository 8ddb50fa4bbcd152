"""What a sample says of all the data: which differences they can detect. For people and as JSON."""

from __future__ import annotations

import math
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.report.fitting import Name
from assay.report.jsonable import Json, jsonable
from assay.report.numbers import rounded
from assay.spec.words import count


class Needed(NamedTuple):
    """What a gate asks of the data."""

    gate: str  # in words
    margin: float  # margin or required improvement, in the metric's units; NaN where the baseline's value is unknown
    clusters: int | None  # with which every variant's difference of that size is detected; None: cannot be said


class Detectable(NamedTuple):
    """The differences of one metric over all rows that all data can detect. NaN where unknown."""

    task: str
    metric: str
    typical: float  # of the median variant
    largest: float  # of the variant that varies most against the baseline
    variant: str  # that one; "" where unknown
    gates: tuple[Needed, ...]
    undefined: str | None  # why nothing can be said, as a clause


class Power(NamedTuple):
    """What the data can detect, with the power and at the level of `how`."""

    share: float  # of the clusters (of the rows, where no cluster is named) in the sample
    sample_clusters: int
    clusters: int  # in all data, on which variants are judged; estimated
    num_variants: int  # in the family of Holm's correction
    how: str  # a sentence on the sample
    metrics: tuple[Detectable, ...]
    more: float | None  # the share that would do, where this sample is too small for steady figures


def power_json(power: Power) -> dict[str, Json]:
    content: dict[str, Json] = jsonable(power)
    return content


def render_power(power: Power) -> RenderableType:
    """A line per task and metric, then one for each gate."""
    table = _table("metric", "median variant", "every variant", "which varies most")
    for one in power.metrics:
        name = one.metric if _one_task(power) else f"{one.task}: {one.metric}"
        if one.undefined is None:
            table.add_row(name, _number(one.typical), _number(one.largest), Name(one.variant))
        else:
            table.add_row(name, "-", "-", Text(f"({one.undefined})", "dim"))
    parts: list[RenderableType] = [
        Text("Differences from the baseline that all data detect, over all rows", "bold"),
        table,
        *_gates(power),
        Text(power.how),
        Text(_rule(power), "dim"),
    ]
    if power.more is not None:
        parts.append(Text(_too_small(power, power.more)))
    return Group(*parts)


def _gates(power: Power) -> list[RenderableType]:
    lines = [(one, needed) for one in power.metrics for needed in one.gates]
    if not lines:
        return []
    table = _table("gate", "difference", "clusters needed", "there are")
    for _, needed in lines:
        clusters = "-" if needed.clusters is None else f"{rounded(needed.clusters):,}"
        table.add_row(needed.gate, _number(needed.margin), clusters, f"{power.clusters:,}")
    return [Text(), table]


def _too_small(power: Power, more: float) -> str:
    what = f"The sample holds {count(power.sample_clusters, 'cluster')}"
    nothing = all(one.undefined is not None for one in power.metrics)
    return f"{what}, too few {'to say anything' if nothing else 'for steady figures'}; try --sample {100 * more:.3g}%."


def _rule(power: Power) -> str:
    several = f", at the first step of Holm's correction over {power.num_variants} variants"
    first = "" if power.num_variants == 1 else several
    return (
        f"Detected: with a power of 80 %, one-sided at 0.025{first}. A margin gate passes so a variant that equals the "
        "baseline; an improve gate one that is better by twice the improvement."
    )


def _one_task(power: Power) -> bool:
    return len({one.task for one in power.metrics}) == 1


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"
