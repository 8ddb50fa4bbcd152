"""Seeds of one recipe as one: their mean, its difference from the baseline, and how far the seeds lie apart.

The interval of the mean difference is of the sampling of clusters alone; the spread says what another seed would do.

Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.records import Replicates, Undefined
from assay.spec.model import OVERALL
from assay.stats.evidence import Estimate, MetricEvidence, VariantEvidence
from assay.stats.jackknife import Bools, Intervals, combine, difference

FAMILIES = pa.schema(
    [
        *((name, pa.string()) for name in ("family", "task", "metric", "slice")),
        ("num_seeds", pa.int64()),
        *((name, pa.float64()) for name in ("value", "spread", "least", "greatest", "difference", "low", "high")),
        *((name, pa.string()) for name in ("interval", "undefined")),
    ]
)
"""`value` and `spread` are mean and standard deviation (n - 1) of the seeds' values."""


@dataclass(slots=True)
class _Seeds:
    """What is kept of the seeds of one family in one metric over all rows."""

    values: list[float] = field(default_factory=list)  # NaN where undefined
    reasons: list[Undefined | None] = field(default_factory=list)
    contrasts: list[Replicates] = field(default_factory=list)  # differences from the baseline, S = 1
    candidates: list[Estimate] = field(default_factory=list)  # behind each contrast, S = 1


class Families:
    """Takes in the evidence variant by variant, of each metric 64 numbers, and tells of the families at the end."""

    def __init__(self, family_of: Mapping[str, str]) -> None:
        """family_of: variant -> family, for those that have one."""
        self._family_of = family_of
        self._seeds: dict[tuple[str, str, str], _Seeds] = {}  # by family, task, metric

    def add(self, evidence: VariantEvidence) -> None:
        family = self._family_of.get(evidence.variant)
        if family is None:
            return
        for task in evidence.tasks:
            for metric in task.metrics:
                key = (family, task.task.name, metric.metric.name)
                _take(self._seeds.setdefault(key, _Seeds()), metric)

    def table(self) -> pa.Table:
        """A row per family, task and metric, in the order of their first seeds."""
        return pa.Table.from_pylist([_row(*key, seeds) for key, seeds in self._seeds.items()], FAMILIES)


def _take(seeds: _Seeds, evidence: MetricEvidence) -> None:
    own = evidence.own.replicates
    seeds.values.append(float(own.value[0]))
    seeds.reasons.append(own.reason[0])
    pair = evidence.pair
    if pair is not None:
        seeds.contrasts.append(_overall(difference(pair.candidate.replicates, pair.baseline.replicates)))
        seeds.candidates.append(_overall_estimate(pair.candidate))


def _row(family: str, task: str, metric: str, seeds: _Seeds) -> dict[str, object]:
    reason = next((why for why in seeds.reasons if why is not None), None)
    shown = _mean_difference(seeds)
    why = reason or (shown.undefined[0] if shown else None)
    return {
        "family": family,
        "task": task,
        "metric": metric,
        "slice": OVERALL,
        "num_seeds": len(seeds.values),
        **(_of_values(np.array(seeds.values)) if reason is None else {}),
        **(_of_difference(shown) if shown else {}),
        "undefined": None if why is None else why.value,
    }


def _of_values(values: NDArray[np.float64]) -> dict[str, float | None]:
    return {
        "value": float(values.mean()),
        "spread": float(values.std(ddof=1)) if len(values) > 1 else None,
        "least": float(values.min()),
        "greatest": float(values.max()),
    }


def _of_difference(shown: Intervals) -> dict[str, object]:
    numbers = {"difference": shown.value[0], "low": shown.low[0], "high": shown.high[0]}
    known = {name: None if np.isnan(one) else float(one) for name, one in numbers.items()}
    return {**known, "interval": shown.method[0] if shown.method else None}


def _mean_difference(seeds: _Seeds) -> Intervals | None:
    """Of the seeds that were compared with the baseline, over all rows; None where none was."""
    if not seeds.contrasts:
        return None
    bound = np.mean([one.error_bound for one in seeds.contrasts], axis=0)
    mean = combine(lambda *parts: sum(parts) / len(parts), seeds.contrasts, bound)
    return _together(seeds.candidates).intervals_of(mean)


def _together(seeds: Sequence[Estimate]) -> Estimate:
    """What the mean over several seeds rests on: buckets that any has rows in, and no more certainty than all have."""
    first = seeds[0]
    return replace(
        first,
        occupied=np.logical_or.reduce([one.occupied for one in seeds]),
        few=np.logical_or.reduce([one.few for one in seeds]),
        alone=_everywhere([one.alone for one in seeds]),
        twin=_everywhere([one.twin for one in seeds]),
        alike=_everywhere([one.alike for one in seeds]),
        other_occupied=tuple(
            np.logical_or.reduce(views) for views in zip(*(one.other_occupied for one in seeds), strict=True)
        ),
    )


def _everywhere(masks: Sequence[Bools | None]) -> Bools | None:
    """Where all masks hold; None, which is nowhere, when one of them is."""
    known = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(known) if len(known) == len(masks) else None


def _overall_estimate(estimate: Estimate) -> Estimate:
    """Of the slice of all rows alone; copied, so that the arrays of all slices can go."""
    return Estimate(
        replicates=_overall(estimate.replicates),
        rows=estimate.rows[:1].copy(),
        weight=estimate.weight[:1].copy(),
        occupied=estimate.occupied[:1].copy(),
        few=estimate.few[:1].copy(),
        alone=None if estimate.alone is None else estimate.alone[:1].copy(),
        other_occupied=tuple(view[:1].copy() for view in estimate.other_occupied),
        twin=None if estimate.twin is None else estimate.twin[:1].copy(),
        alike=None if estimate.alike is None else estimate.alike[:1].copy(),
    )


def _overall(several: Replicates) -> Replicates:
    return Replicates(
        several.value[:1].copy(),
        several.reason[:1],
        several.without[:1].copy(),
        several.interval_reason[:1],
        several.error_bound[:1].copy(),
        tuple(view[:1].copy() for view in several.others),
    )
