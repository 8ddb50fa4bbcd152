"""From a merged tally to the evidence on each variant: values, replicates, pairs on common rows, coverage.

Lives here: which states are brought together. Not here: formulas (metrics), intervals (`jackknife.py`), the result
tables (`tables.py`). Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from assay.ledgers import TaskLedger, VariantLedger, cluster_estimate
from assay.protocols import Metric
from assay.records import Curve, Plan, Replicates, State, StateKey, Tally, Task, Undefined
from assay.stats.evidence import Coverage, Estimate, MetricEvidence, Pair, TaskEvidence, VariantEvidence

SUPPORT = "support.v1"
"""Identity of the accumulator that every metric includes: rows, weight [S, B, 2], the last axis negative, positive."""
MIN_CLASS_ROWS = 10
"""Rows of either class below which a binary metric has no interval."""

States = dict[str, State]  # accumulator identity -> state


def gather(
    tally: Tally,
    plan: Plan,
    metrics: Mapping[str, Sequence[Metric]],
    variants: Sequence[str],
    baseline: str | None,
) -> Iterator[VariantEvidence]:
    """The evidence on each of `variants`, in their order, one at a time.

    metrics: by task, in the task's order. variants: all that were declared, the baseline among them; one without
    states has failed, and its values are undefined for that reason.
    """
    reader = _Reader(tally, plan, metrics, baseline)
    base = None if baseline is None else [reader.alone(task, baseline) for task in plan.tasks]
    for variant in variants:
        if base is None or variant == baseline:
            tasks = base or [reader.alone(task, variant) for task in plan.tasks]
        else:
            tasks = [reader.compared(task, variant, one) for task, one in zip(plan.tasks, base, strict=True)]
        yield VariantEvidence(variant, baseline, tuple(tasks))


class _Reader:
    """Looks states up and has the metrics evaluate them."""

    def __init__(self, tally: Tally, plan: Plan, metrics: Mapping[str, Sequence[Metric]], baseline: str | None) -> None:
        self._states = tally.states
        self._plan = plan
        self._metrics = metrics
        self._baseline = baseline
        self._weight_unit = 2.0**plan.weight_exponent

    def alone(self, task: Task, variant: str) -> TaskEvidence:
        """The evidence on a variant by itself."""
        coverage = self._coverage(task, variant)
        evidence = []
        curves: dict[tuple[str, int], Curve] = {}  # several metrics may draw the same one
        for metric in self._metrics[task.name]:
            states = self._scored(task, variant, metric)
            evidence.append(MetricEvidence(metric, self._estimate(metric, states, coverage), None, None))
            for curve in () if states is None else metric.curves(states, self._plan.choice, self._weight_unit):
                curves.setdefault((curve.curve, curve.slice), curve)
        return TaskEvidence(task, tuple(evidence), tuple(curves.values()), coverage, None, self._clusters(task))

    def compared(self, task: Task, variant: str, baseline: TaskEvidence) -> TaskEvidence:
        """The same, with every metric paired with the baseline's."""
        alone = self.alone(task, variant)
        metrics = tuple(
            replace(one, baseline_own=base.own, pair=self._pair(task, variant, one, base.own, alone.coverage))
            for one, base in zip(alone.metrics, baseline.metrics, strict=True)
        )
        return replace(alone, metrics=metrics, baseline_coverage=baseline.coverage)

    def _pair(
        self, task: Task, variant: str, evidence: MetricEvidence, baseline_own: Estimate, coverage: Coverage
    ) -> Pair:
        metric = evidence.metric
        candidate = self._scored(task, variant, metric)
        baseline = self._scored(task, self._baseline or "", metric)
        if candidate is None or baseline is None:
            return Pair(evidence.own, baseline_own)
        candidate_common = self._subtract(candidate, task, variant, metric, "variant_only")
        baseline_common = self._subtract(baseline, task, variant, metric, "baseline_only")
        return Pair(
            evidence.own if candidate_common is None else self._estimate(metric, candidate_common, coverage),
            baseline_own if baseline_common is None else self._estimate(metric, baseline_common, coverage),
        )

    def _scored(self, task: Task, variant: str, metric: Metric) -> States | None:
        """The states of one metric; None when the variant has none, because it failed."""
        identities = [accumulator.identity for accumulator in metric.accumulators(self._plan.choice)]
        found = {one: self._states.get(StateKey(task.name, variant, one, "scored")) for one in identities}
        states = {identity: state for identity, state in found.items() if state is not None}
        return states if len(states) == len(identities) else None

    def _subtract(
        self,
        states: States,
        task: Task,
        variant: str,
        metric: Metric,
        part: Literal["baseline_only", "variant_only"],
    ) -> States | None:
        """`states` without the rows of a correction; None when there are no such rows."""
        result = dict(states)
        for accumulator in metric.accumulators(self._plan.choice):
            correction = self._states.get(StateKey(task.name, variant, accumulator.identity, part))
            if correction is not None:
                result[accumulator.identity] = accumulator.subtract(states[accumulator.identity], correction)
        unchanged = all(result[identity] is states[identity] for identity in states)
        return None if unchanged else result

    def _estimate(self, metric: Metric, states: States | None, coverage: Coverage) -> Estimate:
        sizes = self._plan.sizes
        if states is None:
            return _failed(sizes.num_slices, sizes.num_buckets, coverage)
        replicates = metric.evaluate(states, self._plan.choice, self._weight_unit)
        reason = tuple(
            Undefined.ALL_EXCLUDED if why is Undefined.NO_ROWS and rows else why
            for why, rows in zip(replicates.reason, coverage.rows_read, strict=True)
        )
        support = states[SUPPORT]
        by_class = support["rows"].astype(np.int64).sum(axis=1)
        few = by_class.min(axis=1) < MIN_CLASS_ROWS
        rows = support["rows"].astype(np.int64).sum(axis=2)
        weight = support["weight"].astype(np.int64).sum(axis=(1, 2)) * self._weight_unit
        return Estimate(
            replicates=replace(replicates, reason=reason),
            rows=rows.sum(axis=1),
            weight=weight,
            occupied=rows > 0,
            few=few if metric.label_kind == "binary" else np.zeros_like(few),
        )

    def _coverage(self, task: Task, variant: str) -> Coverage:
        task_state = self._task_ledger(task)
        usable = task_state["bucket_rows"].sum(axis=1)
        state = self._states.get(StateKey(task.name, variant, VariantLedger.identity, "scored"))
        missed = None if state is None else int(state["missed_hash"][0])
        if state is None:
            state = {**VariantLedger().zero(self._plan.sizes), "failed": usable}
        return Coverage(
            rows_read=task_state["rows_read"].astype(np.int64),
            rows_filtered=int(task_state["rows_filtered"][0]),
            null_label=task_state["null_label"].astype(np.int64),
            null_weight=task_state["null_weight"].astype(np.int64),
            null_score=state["null_score"].astype(np.int64),
            failed=state["failed"].astype(np.int64),
            scored=state["scored"].astype(np.int64),
            weight=state["weight"].astype(np.float64) * self._weight_unit,
            missed=missed,
        )

    def _clusters(self, task: Task) -> int:
        return cluster_estimate(self._task_ledger(task)["cluster_registers"])

    def _task_ledger(self, task: Task) -> State:
        key = StateKey(task.name, "", TaskLedger.identity, "scored")
        return self._states.get(key) or TaskLedger().zero(self._plan.sizes)


def _failed(num_slices: int, num_buckets: int, coverage: Coverage) -> Estimate:
    """Undefined everywhere: the variant failed, or where there was nothing to score, for that reason."""
    reasons = tuple(
        Undefined.FAILED if usable else Undefined.ALL_EXCLUDED if read else Undefined.NO_ROWS
        for usable, read in zip(coverage.usable, coverage.rows_read, strict=True)
    )
    unknown = Replicates(
        value=np.full(num_slices, np.nan),
        reason=reasons,
        without=np.full((num_slices, num_buckets), np.nan),
        interval_reason=(None,) * num_slices,
        error_bound=np.zeros(num_slices),
    )
    return Estimate(
        replicates=unknown,
        rows=np.zeros(num_slices, np.int64),
        weight=np.zeros(num_slices),
        occupied=np.zeros((num_slices, num_buckets), np.bool_),
        few=np.zeros(num_slices, np.bool_),
    )
