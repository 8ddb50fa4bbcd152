"""From a merged tally to the evidence on each variant: values, replicates, pairs on common rows, coverage.

Lives here: which states are brought together. Not here: formulas (metrics), intervals (`jackknife.py`), the result
tables (`tables.py`). Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.ledgers import TaskLedger, VariantLedger, cluster_estimate
from assay.protocols import Metric
from assay.records import Curve, Plan, Replicates, Sizes, State, StateKey, Tally, Task, Undefined, View
from assay.stats.evidence import Coverage, Estimate, MetricEvidence, Pair, TaskEvidence, VariantEvidence
from assay.stats.jackknife import MIN_BUCKETS
from assay.stats.twins import buckets_that_differ, same_slices, states_suffice

SUPPORT = "support.v1"
"""Identity of the accumulator that every metric includes: rows, weight [S, B, 2], the last axis negative, positive."""
MIN_CLASS_ROWS = 10
"""Rows of either class below which a binary metric has no interval."""

States = dict[str, State]  # accumulator identity -> state
Views = dict[View, States]  # "", and with two clusters "second" and "both" in this order: the same rows


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


def compare_any(
    tally: Tally,
    plan: Plan,
    metrics: Mapping[str, Sequence[Metric]],
    a: str,
    b: str,
    baseline: str | None = None,
) -> VariantEvidence:
    """The evidence on `a` with `b` in the place of the baseline, from the states alone.

    baseline: the run's own. Where it is one of the two, they are compared on the rows that both scored. Any other two
    are compared in the slices in which they scored the same rows; elsewhere the pair is undefined (ROWS_DIFFER), since
    states do not hold the rows that both scored.
    """
    reader = _Reader(tally, plan, metrics, baseline)
    tasks = [reader.against(task, a, b) for task in plan.tasks]
    return VariantEvidence(a, b, tuple(tasks))


def selection_values(tally: Tally, plan: Plan, metric: Metric, task: Task, variants: Sequence[str]) -> dict[str, float]:
    """The metric of each variant over all rows that it scored among those that serve to select; NaN where undefined.

    Of a run with `confirm`; in others there are no such rows.
    """
    reader = _Reader(tally, plan, {task.name: (metric,)}, None)
    return {variant: reader.selection_value(task, metric, variant) for variant in variants}


class _Reader:
    """Looks states up and has the metrics evaluate them."""

    def __init__(self, tally: Tally, plan: Plan, metrics: Mapping[str, Sequence[Metric]], baseline: str | None) -> None:
        self._states = tally.states
        self._plan = plan
        self._metrics = metrics
        self._baseline = baseline
        self._weight_unit = 2.0**plan.weight_exponent
        self._views: tuple[View, ...] = ("", "second", "both") if len(plan.clusters) > 1 else ("",)

    def alone(self, task: Task, variant: str) -> TaskEvidence:
        """The evidence on a variant by itself."""
        coverage = self._coverage(task, variant)
        evidence = []
        curves: dict[tuple[str, int], Curve] = {}  # several metrics may draw the same one
        for metric in self._metrics[task.name]:
            views = self._scored(task, variant, metric)
            evidence.append(MetricEvidence(metric, self._estimate(task, metric, views, coverage), None, None))
            choice = self._plan.choice.of(task)
            for curve in () if views is None else metric.curves(views[""], choice, self._weight_unit):
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

    def against(self, task: Task, variant: str, other: str) -> TaskEvidence:
        """The same with any other variant in the baseline's place."""
        base = self.alone(task, other)
        if other == self._baseline:
            return self.compared(task, variant, base)
        alone = self.alone(task, variant)
        if variant == self._baseline:
            reverse = self.compared(task, other, alone)
            pairs = [None if one.pair is None else one.pair.reversed for one in reverse.metrics]
        else:
            differ = _rows_differ(alone.coverage, base.coverage)
            pairs = [
                self._on_the_same_rows(task, (variant, other), (one, two), differ)
                for one, two in zip(alone.metrics, base.metrics, strict=True)
            ]
        metrics = tuple(
            replace(one, baseline_own=two.own, pair=pair)
            for one, two, pair in zip(alone.metrics, base.metrics, pairs, strict=True)
        )
        return replace(alone, metrics=metrics, baseline_coverage=base.coverage)

    def _pair(
        self, task: Task, variant: str, evidence: MetricEvidence, baseline_own: Estimate, coverage: Coverage
    ) -> Pair:
        metric = evidence.metric
        candidate = self._scored(task, variant, metric)
        base = self._scored(task, self._baseline or "", metric)
        if candidate is None or base is None:
            return Pair(evidence.own, baseline_own)
        candidate_common = self._common(candidate, task, variant, metric, "variant_only")
        base_common = self._common(base, task, variant, metric, "baseline_only")
        own, other = (
            known if common is views else self._estimate(task, metric, common, coverage)
            for known, common, views in (
                (evidence.own, candidate_common, candidate),
                (baseline_own, base_common, base),
            )
        )
        return self._paired(
            task, metric, (variant, self._baseline or ""), (own, other), (candidate_common, base_common)
        )

    def _on_the_same_rows(
        self,
        task: Task,
        variants: tuple[str, str],
        evidence: tuple[MetricEvidence, MetricEvidence],
        differ: NDArray[np.bool_],
    ) -> Pair:
        """Undefined in the slices where the rows of two variants differ."""
        metric = evidence[0].metric
        left, right = (self._scored(task, variant, metric) for variant in variants)
        if left is None or right is None:  # its own values say that it failed
            return Pair(evidence[0].own, evidence[1].own)
        one, other = (_without_value(each.own, differ) for each in evidence)
        return self._paired(task, metric, variants, (one, other), (left, right))

    def selection_value(self, task: Task, metric: Metric, variant: str) -> float:
        states = self._looked_up(task, variant, metric, "selection")
        if states is None:
            return float("nan")
        return float(metric.evaluate(states, self._plan.choice.of(task), self._weight_unit).value[0])

    def _scored(self, task: Task, variant: str, metric: Metric) -> Views | None:
        """The states of one metric; None when the variant has none, because it failed."""
        found = {view: self._looked_up(task, variant, metric, view) for view in self._views}
        views = {view: states for view, states in found.items() if states is not None}
        return views if len(views) == len(found) else None

    def _looked_up(self, task: Task, variant: str, metric: Metric, view: View) -> States | None:
        identities = [accumulator.identity for accumulator in metric.accumulators(self._plan.choice.of(task))]
        found = {one: self._states.get(StateKey(task.name, variant, one, "scored", view)) for one in identities}
        states = {identity: state for identity, state in found.items() if state is not None}
        return states if len(states) == len(identities) else None

    def _common(
        self, views: Views, task: Task, variant: str, metric: Metric, part: Literal["baseline_only", "variant_only"]
    ) -> Views:
        """The states without the rows of a correction; `views` itself when there are no such rows."""
        accumulators = metric.accumulators(self._plan.choice.of(task))
        result: Views = {}
        for view, states in views.items():
            result[view] = dict(states)
            for one in accumulators:
                correction = self._states.get(StateKey(task.name, variant, one.identity, part, view))
                if correction is not None:
                    result[view][one.identity] = one.subtract(states[one.identity], correction)
        unchanged = all(result[view][one] is state for view, states in views.items() for one, state in states.items())
        return views if unchanged else result

    def _paired(
        self,
        task: Task,
        metric: Metric,
        variants: tuple[str, str],
        pair: tuple[Estimate, Estimate],
        of: tuple[Views, Views],
    ) -> Pair:
        """The two estimates, which were made of the states `of`, with what these say of one another."""
        left, right = of
        accumulators = metric.accumulators(self._plan.choice.of(task))
        same_value = pair[0].replicates.value == pair[1].replicates.value
        twin = np.asarray(self._twin(task, metric, variants, left, right) & same_value, np.bool_)
        differ = buckets_that_differ(accumulators, left[""], right[""], self._plan.sizes)
        alike = np.asarray((differ < MIN_BUCKETS) & (pair[0].rows > 0), np.bool_)
        return Pair(*(one.beside(twin, alike) for one in pair))

    def _twin(
        self, task: Task, metric: Metric, variants: tuple[str, str], left: Views, right: Views
    ) -> NDArray[np.bool_]:
        """[S] where two variants are twins for a metric."""
        accumulators = metric.accumulators(self._plan.choice.of(task))
        if states_suffice(accumulators, left[""], right[""]):
            return same_slices(accumulators, left[""], right[""], self._plan.sizes)
        keys = [StateKey(task.name, variant, VariantLedger.identity, "scored") for variant in variants]
        one, other = (self._states.get(key) for key in keys)
        if one is None or other is None:
            return np.zeros(self._plan.sizes.num_slices, np.bool_)
        return np.asarray(one["score_digest"] == other["score_digest"], np.bool_)

    def _estimate(self, task: Task, metric: Metric, views: Views | None, coverage: Coverage) -> Estimate:
        sizes = self._plan.sizes
        if views is None:
            return _failed(sizes, len(self._views), coverage)
        first, *others = (
            metric.evaluate(states, self._plan.choice.of(task), self._weight_unit) for states in views.values()
        )
        reason = tuple(
            Undefined.ALL_EXCLUDED if why is Undefined.NO_ROWS and rows else why
            for why, rows in zip(first.reason, coverage.rows_read, strict=True)
        )
        support = views[""][SUPPORT]
        by_class = support["rows"].astype(np.int64).sum(axis=1)
        few = by_class.min(axis=1) < MIN_CLASS_ROWS
        occupied, *other_occupied = (_occupied(states) for states in views.values())
        return Estimate(
            replicates=replace(first, reason=reason, others=tuple(one.without for one in others)),
            rows=by_class.sum(axis=1),
            weight=support["weight"].astype(np.int64).sum(axis=(1, 2)) * self._weight_unit,
            occupied=occupied,
            few=few if metric.label_kind == "binary" else np.zeros_like(few),
            alone=self._task_ledger(task)["shared_bucket"] == 0,
            other_occupied=tuple(other_occupied),
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
        """0 with two clusters: which of them there should be more of cannot be said."""
        if len(self._views) > 1:
            return 0
        return cluster_estimate(self._task_ledger(task)["cluster_registers"])

    def _task_ledger(self, task: Task) -> State:
        key = StateKey(task.name, "", TaskLedger.identity, "scored")
        return self._states.get(key) or TaskLedger().zero(self._plan.sizes)


def _rows_differ(one: Coverage, two: Coverage) -> NDArray[np.bool_]:
    """[S] where two variants may have scored other rows: they missed some, and not the same ones."""
    missed_none = (one.usable == one.scored) & (two.usable == two.scored)
    same = one.missed is not None and one.missed == two.missed
    return np.asarray(~(missed_none | same), np.bool_)


def _without_value(estimate: Estimate, differ: NDArray[np.bool_]) -> Estimate:
    """The estimate, undefined in the slices where rows differ."""
    if not differ.any():
        return estimate
    old = estimate.replicates
    reason = tuple(why or (Undefined.ROWS_DIFFER if one else None) for why, one in zip(old.reason, differ, strict=True))
    return replace(estimate, replicates=replace(old, value=np.where(differ, np.nan, old.value), reason=reason))


def _occupied(states: States) -> NDArray[np.bool_]:
    """[S, B] buckets with rows."""
    return np.asarray(states[SUPPORT]["rows"].any(axis=2), np.bool_)


def _failed(sizes: Sizes, num_views: int, coverage: Coverage) -> Estimate:
    """Undefined everywhere: the variant failed, or where there was nothing to score, for that reason."""
    reasons = tuple(
        Undefined.FAILED if usable else Undefined.ALL_EXCLUDED if read else Undefined.NO_ROWS
        for usable, read in zip(coverage.usable, coverage.rows_read, strict=True)
    )
    cells = (sizes.num_slices, sizes.num_buckets)
    unknown = Replicates(
        value=np.full(sizes.num_slices, np.nan),
        reason=reasons,
        without=np.full(cells, np.nan),
        interval_reason=(None,) * sizes.num_slices,
        error_bound=np.zeros(sizes.num_slices),
        others=(np.full(cells, np.nan),) * (num_views - 1),
    )
    return Estimate(
        replicates=unknown,
        rows=np.zeros(sizes.num_slices, np.int64),
        weight=np.zeros(sizes.num_slices),
        occupied=np.zeros(cells, np.bool_),
        few=np.zeros(sizes.num_slices, np.bool_),
        other_occupied=(np.zeros(cells, np.bool_),) * (num_views - 1),
    )
