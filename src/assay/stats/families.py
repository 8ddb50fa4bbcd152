"""Seeds of one recipe as one: their mean, its difference from the baseline, and how far the seeds lie apart.

The interval of the mean difference is of the sampling of clusters alone; the spread says what another seed would do.

Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Seed:
    """What is kept of one variant in one metric over all rows: of a metric some 64 numbers."""

    value: float  # NaN where undefined
    reason: Undefined | None
    contrast: Replicates | None  # its difference from the baseline, S = 1; None where it has none
    candidate: Estimate | None  # behind the contrast, S = 1


Seeds = dict[tuple[str, str], Seed]  # of one variant, by task and metric


def seeds_of(evidence: VariantEvidence) -> Seeds:
    """What a family needs of one of its variants."""
    return {(task.task.name, one.metric.name): _seed(one) for task in evidence.tasks for one in task.metrics}


class Families:
    """Takes in variant by variant, and tells of the families at the end."""

    def __init__(self, family_of: Mapping[str, str]) -> None:
        """family_of: variant -> family, for those that have one."""
        self._family_of = family_of
        self._seeds: dict[tuple[str, str, str], list[Seed]] = {}  # by family, task, metric

    def add(self, variant: str, seeds: Seeds) -> None:
        """Of a variant that has a family."""
        for (task, metric), seed in seeds.items():
            self._seeds.setdefault((self._family_of[variant], task, metric), []).append(seed)

    def table(self) -> pa.Table:
        """A row per family, task and metric, in the order of their first seeds."""
        return pa.Table.from_pylist([_row(*key, seeds) for key, seeds in self._seeds.items()], FAMILIES)


def _seed(evidence: MetricEvidence) -> Seed:
    own, pair = evidence.own.replicates, evidence.pair
    value, reason = float(own.value[0]), own.reason[0]
    if pair is None:
        return Seed(value, reason, None, None)
    candidate = pair.candidate.overall()
    return Seed(value, reason, difference(candidate.replicates, pair.baseline.overall().replicates), candidate)


def _row(family: str, task: str, metric: str, seeds: Sequence[Seed]) -> dict[str, object]:
    reason = next((one.reason for one in seeds if one.reason is not None), None)
    shown = _mean_difference(seeds)
    why = reason or (shown.undefined[0] if shown else None)
    return {
        "family": family,
        "task": task,
        "metric": metric,
        "slice": OVERALL,
        "num_seeds": len(seeds),
        **(_of_values(np.array([one.value for one in seeds])) if reason is None else {}),
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


def _mean_difference(seeds: Sequence[Seed]) -> Intervals | None:
    """Of the seeds that were compared with the baseline, over all rows; None where none was."""
    contrasts = [one.contrast for one in seeds if one.contrast is not None]
    if not contrasts:
        return None
    bound = np.mean([one.error_bound for one in contrasts], axis=0)
    mean = combine(lambda *parts: sum(parts) / len(parts), contrasts, bound)
    return _together([one.candidate for one in seeds if one.candidate is not None]).intervals_of(mean)


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
