"""What is known of one variant after merging: the records between the tally and the tables, gates and verdicts.

One `VariantEvidence` at a time is in memory, so that nothing here grows with the number of variants.
Axes: S slices, B buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.protocols import Metric
from assay.records import Curve, Replicates, Task
from assay.stats.jackknife import Basis, Intervals, intervals


@dataclass(frozen=True, slots=True)
class Estimate:
    """One metric over one set of rows."""

    replicates: Replicates
    rows: NDArray[np.int64]  # [S]
    weight: NDArray[np.float64]  # [S] real weight
    occupied: NDArray[np.bool_]  # [S, B] buckets with rows
    few: NDArray[np.bool_]  # [S] a class has too few rows for an interval
    alone: NDArray[np.bool_] | None = None  # [S] each bucket holds one cluster; None: nowhere
    other_occupied: tuple[NDArray[np.bool_], ...] = ()  # [S, B] in buckets of the second cluster, then of both
    twin: NDArray[np.bool_] | None = None  # [S] its states are those of the other side of the pair; None: nowhere
    alike: NDArray[np.bool_] | None = None  # [S] they differ from those in too few buckets; None: nowhere

    def beside(self, twin: NDArray[np.bool_], alike: NDArray[np.bool_] | None = None) -> Estimate:
        """As one side of a pair whose states are the same in the slices `twin` [S], and nearly so in `alike` [S]."""
        known = None if alike is None or not alike.any() else alike
        return replace(self, twin=twin, alike=known) if twin.any() or known is not None else self

    def overall(self) -> Estimate:
        """Of the slice of all rows alone; copied, so that the arrays of all slices can go."""
        return Estimate(
            replicates=_overall(self.replicates),
            rows=self.rows[:1].copy(),
            weight=self.weight[:1].copy(),
            occupied=self.occupied[:1].copy(),
            few=self.few[:1].copy(),
            alone=None if self.alone is None else self.alone[:1].copy(),
            other_occupied=tuple(view[:1].copy() for view in self.other_occupied),
            twin=None if self.twin is None else self.twin[:1].copy(),
            alike=None if self.alike is None else self.alike[:1].copy(),
        )

    def intervals(self) -> Intervals:
        """The value with its 95 % interval."""
        return self.intervals_of(self.replicates)

    def intervals_of(self, contrast: Replicates) -> Intervals:
        """The same for a contrast that is made of this estimate's replicates and others over the same rows."""
        basis = Basis(
            self.occupied,
            self.few,
            self.alone,
            self.other_occupied,
            certain=self.twin,
            alike=self.alike,
            magnitude=self.replicates.value,
        )
        return intervals(contrast, basis)


def _overall(several: Replicates) -> Replicates:
    return Replicates(
        several.value[:1].copy(),
        several.reason[:1],
        several.without[:1].copy(),
        several.interval_reason[:1],
        several.error_bound[:1].copy(),
        tuple(view[:1].copy() for view in several.others),
        several.alone[:1],
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric of a variant and of the baseline, both over the rows that both scored."""

    candidate: Estimate
    baseline: Estimate

    @property
    def reversed(self) -> Pair:
        """The baseline against the candidate."""
        return Pair(self.baseline, self.candidate)


@dataclass(frozen=True, slots=True)
class MetricEvidence:
    metric: Metric
    own: Estimate  # over all rows that the variant scored
    baseline_own: Estimate | None  # over all rows that the baseline scored; None without a baseline
    pair: Pair | None  # None without a baseline, and for the baseline itself


@dataclass(frozen=True, slots=True)
class Coverage:
    """What happened to every row, per slice [S]. usable = null_score + failed + scored, for each variant."""

    rows_read: NDArray[np.int64]
    rows_filtered: int  # overall: read, but the condition of the data is not true
    null_label: NDArray[np.int64]
    null_weight: NDArray[np.int64]
    null_score: NDArray[np.int64]
    failed: NDArray[np.int64]
    scored: NDArray[np.int64]
    weight: NDArray[np.float64]  # real weight of the scored rows
    missed: int | None  # order-free hash of the rows without a score; None where the variant has no ledger

    @property
    def usable(self) -> NDArray[np.int64]:
        return self.null_score + self.failed + self.scored


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    task: Task
    metrics: tuple[MetricEvidence, ...]  # in the task's order
    curves: tuple[Curve, ...]
    coverage: Coverage
    baseline_coverage: Coverage | None  # None without a baseline
    clusters: int  # estimated number of clusters of the usable rows; 0 with two clusters


@dataclass(frozen=True, slots=True)
class VariantEvidence:
    variant: str
    baseline: str | None
    tasks: tuple[TaskEvidence, ...]  # in the plan's order

    @property
    def compared(self) -> bool:
        """Whether this is a variant to judge: any but the baseline."""
        return self.variant != self.baseline
