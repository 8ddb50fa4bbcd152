"""Every gate measured on one variant, slice by slice, before anything is corrected or decided.

What is measured is the distance from the gate's limit, positive on the passing side. It is a contrast of replicates, so
that its standard error covers all that is estimated, the baseline of a relative margin too. Axes: S slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.gates.rules import PAIRED, Rule, dimensions_of, rule_of, words_of
from assay.protocols import Direction
from assay.records import Replicates, SliceTable, Undefined
from assay.spec.model import GateSpec
from assay.spec.words import count
from assay.stats.evidence import Coverage, MetricEvidence, TaskEvidence, VariantEvidence
from assay.stats.jackknife import Intervals, combine, difference, one_sided

Floats = NDArray[np.float64]

_OF_LIKENESS = (Undefined.HARDLY_DIFFERENT, Undefined.NO_VARIATION)


@dataclass(frozen=True, slots=True)
class Case:
    """One gate for one variant in one slice. Numbers are NaN where unknown."""

    variant: str
    position: int  # of the gate in the spec
    words: str
    rule: Rule
    task: str
    metric: str  # "" for gates of rows
    slice: str
    value: float
    baseline_value: float
    difference: float
    low: float
    high: float
    limit: float
    rows: int
    clusters: int  # estimated, over all slices; 0 with two clusters
    distance: float = math.nan
    standard_error: float = math.nan
    degrees: int = 0
    error_bound: float = 0.0  # of the distance: what the state's resolution leaves open
    p_pass: float = math.nan  # of "the distance is above 0"
    p_fail: float = math.nan
    unknown: str = ""  # why the gate cannot be measured
    skipped: str = ""  # why there is nothing to judge in this slice
    detail: str = ""  # counts behind a gate of rows


def measure(gates: Sequence[GateSpec], evidence: VariantEvidence, slices: SliceTable) -> list[Case]:
    """All cases of one variant: gates in the spec's order, each for its tasks and slices. As many for every variant."""
    return [
        case
        for position, gate in enumerate(gates)
        for task in evidence.tasks
        if gate.task in (None, task.task.name)
        for case in _cases(position, gate, evidence.variant, task, slices)
    ]


def _cases(position: int, gate: GateSpec, variant: str, task: TaskEvidence, slices: SliceTable) -> Iterator[Case]:
    rule, words = rule_of(gate), words_of(gate)
    dimensions = dimensions_of(gate)
    numbers = [number for name in dimensions for number in slices.of(name)] if dimensions else [0]
    for measured in _measured(rule, gate, task):
        for at in numbers:
            yield Case(
                variant=variant,
                position=position,
                words=words,
                rule=rule,
                task=task.task.name,
                metric=gate.metric or "",
                slice=slices.names[at],
                value=float(measured.value[at]),
                baseline_value=float(measured.baseline_value[at]),
                difference=float(measured.value[at] - measured.baseline_value[at]),
                low=float(measured.low[at]),
                high=float(measured.high[at]),
                limit=float(measured.limit[at]),
                rows=int(measured.rows[at]),
                clusters=task.clusters,
                distance=float(measured.distance.value[at]),
                standard_error=float(measured.distance.standard_error[at]),
                degrees=int(measured.distance.degrees[at]),
                error_bound=float(measured.error_bound[at]),
                p_pass=float(measured.p_pass[at]),
                p_fail=float(measured.p_fail[at]),
                unknown=measured.unknown[at],
                skipped=measured.skipped[at],
                detail=measured.detail[at],
            )


@dataclass(frozen=True, slots=True)
class _Measured:
    """One gate for one variant and task in all slices [S]; the fields of Case."""

    value: Floats
    baseline_value: Floats
    low: Floats
    high: Floats
    limit: Floats
    rows: NDArray[np.int64]
    distance: Intervals
    error_bound: Floats
    p_pass: Floats
    p_fail: Floats
    unknown: Sequence[str]
    skipped: Sequence[str]
    detail: Sequence[str]


def _measured(rule: Rule, gate: GateSpec, task: TaskEvidence) -> list[_Measured]:
    if rule.kind == "coverage":
        return [_coverage(rule, task.coverage, task.baseline_coverage)]
    if rule.kind == "same_rows":
        return [_same_rows(task.coverage, task.baseline_coverage)]
    return [_metric(rule, one, task.coverage) for one in task.metrics if one.metric.name == gate.metric]


# ---- gates of a metric -----------------------------------------------------------------------------------------------


def _metric(rule: Rule, evidence: MetricEvidence, coverage: Coverage) -> _Measured:
    judged, baseline = evidence.own, evidence.baseline_own
    if rule.kind in PAIRED and evidence.pair is not None:
        judged, baseline = evidence.pair.candidate, evidence.pair.baseline
    base = None if baseline is None else baseline.replicates
    baseline_value = np.full(len(judged.rows), np.nan) if base is None else base.value
    contrast = _distance(rule, evidence.metric.direction, judged.replicates, base)
    distance, bound = judged.intervals_of(contrast), contrast.error_bound
    p_pass, _ = one_sided(distance.value - bound, distance.standard_error, distance.degrees, rule.closed)
    _, p_fail = one_sided(distance.value + bound, distance.standard_error, distance.degrees, rule.closed)
    shown = judged.intervals_of(_shown(rule, judged.replicates, base))
    unknown = _unknown(rule, distance, judged.replicates, base if rule.kind in PAIRED else None)
    return _Measured(
        value=judged.replicates.value,
        baseline_value=baseline_value,
        low=shown.low,
        high=shown.high,
        limit=rule.limit * (np.abs(baseline_value) if rule.relative else np.ones_like(baseline_value)),
        rows=judged.rows,
        distance=distance,
        error_bound=bound,
        p_pass=p_pass,
        p_fail=p_fail,
        unknown=unknown,
        skipped=_skipped(rule, evidence, coverage, distance, unknown),
        detail=[""] * len(unknown),
    )


def _distance(rule: Rule, direction: Direction, candidate: Replicates, baseline: Replicates | None) -> Replicates:
    """How far the candidate is on the passing side of the limit."""
    if rule.kind == "min":
        return combine(lambda value: value - rule.limit, [candidate], candidate.error_bound)
    if rule.kind == "max" or baseline is None:
        return combine(lambda value: rule.limit - value, [candidate], candidate.error_bound)
    allowed = {"margin": rule.limit, "improve": -rule.limit, "harm": 0.0}[rule.kind]

    def distance(value: Floats, base: Floats) -> Floats:
        return gain(direction, value, base) + allowed * (np.abs(base) if rule.relative else 1.0)

    share = rule.limit if rule.relative else 0.0
    return combine(distance, [candidate, baseline], candidate.error_bound + (1.0 + share) * baseline.error_bound)


def gain(direction: Direction, value: Floats, base: Floats) -> Floats:
    """By how much `value` is better than `base`; towards an ideal value, by how much it is nearer to it."""
    if direction == "higher":
        return value - base
    if direction == "lower":
        return base - value
    ideal = float(direction or 0.0)
    return np.abs(base - ideal) - np.abs(value - ideal)


def _shown(rule: Rule, candidate: Replicates, baseline: Replicates | None) -> Replicates:
    """What the reader sees an interval of: the plain difference, or the value for min and max."""
    return candidate if baseline is None or rule.kind not in PAIRED else difference(candidate, baseline)


def _unknown(rule: Rule, distance: Intervals, candidate: Replicates, baseline: Replicates | None) -> list[str]:
    """Per slice, why the gate cannot be measured; "" where it can."""
    sentences = []
    for at, why in enumerate(distance.undefined):
        base_reason = None if baseline is None else baseline.reason[at]
        if candidate.reason[at] is not None:
            sentences.append(f"the candidate is undefined ({candidate.reason[at]})")
        elif base_reason is not None:
            sentences.append(f"the baseline is undefined ({base_reason})")
        elif rule.relative and baseline is not None and baseline.value[at] == 0.0:
            sentences.append("the baseline is 0, of which no share can be taken")
        else:
            sentences.append("" if why is None else f"there is no interval ({why})")
    return sentences


def _skipped(
    rule: Rule, evidence: MetricEvidence, coverage: Coverage, distance: Intervals, unknown: Sequence[str]
) -> list[str]:
    """Per slice, why there is nothing to judge: it is empty, or (harm) both hardly differ there, or not even the
    baseline can be judged."""
    skipped = ["" if rows else "no usable rows" for rows in coverage.usable]
    if rule.kind != "harm" or evidence.baseline_own is None:
        return skipped
    alike = None if evidence.pair is None else evidence.pair.candidate.alike
    if alike is not None:
        skipped = [
            why or (str(Undefined.HARDLY_DIFFERENT) if near and reason in _OF_LIKENESS else "")
            for why, near, reason in zip(skipped, alike, distance.undefined, strict=True)
        ]
    undefined = evidence.baseline_own.intervals().undefined
    return [
        why or (f"undefined for the baseline too: {base}" if base is not None and problem else "")
        for why, base, problem in zip(skipped, undefined, unknown, strict=True)
    ]


# ---- gates of rows: certain, for they are counts ---------------------------------------------------------------------


def _coverage(rule: Rule, coverage: Coverage, baseline: Coverage | None) -> _Measured:
    share = _share(coverage)
    detail = [
        f"{scored:,} of {count(usable, 'usable row')} scored, {count(null, 'score')} missing, "
        f"{count(failed, 'row')} failed"
        for scored, usable, null, failed in zip(
            coverage.scored, coverage.usable, coverage.null_score, coverage.failed, strict=True
        )
    ]
    base = np.full_like(share, np.nan) if baseline is None else _share(baseline)
    return _certain(share >= rule.limit, share, base, rule.limit, coverage.usable, detail)


def _share(coverage: Coverage) -> Floats:
    usable = coverage.usable
    share: Floats = np.divide(coverage.scored, usable, out=np.full(len(usable), np.nan), where=usable > 0)
    return share


def _same_rows(coverage: Coverage, baseline: Coverage | None) -> _Measured:
    same = baseline is not None and coverage.missed is not None and coverage.missed == baseline.missed
    usable = coverage.usable
    missed = usable - coverage.scored
    base_missed = missed if baseline is None else usable - baseline.scored
    detail = [
        f"the candidate missed {own:,} of {count(rows, 'usable row')} and the baseline {base:,}"
        for own, base, rows in zip(missed, base_missed, usable, strict=True)
    ]
    base = np.full(len(usable), np.nan) if baseline is None else _share(baseline)
    return _certain(np.full(len(usable), same), _share(coverage), base, 1.0, usable, detail)


def _certain(
    passes: NDArray[np.bool_],
    value: Floats,
    baseline: Floats,
    limit: float,
    rows: NDArray[np.int64],
    detail: Sequence[str],
) -> _Measured:
    unknown = np.full_like(value, np.nan)
    degrees = np.zeros(len(value), np.int64)
    return _Measured(
        value=value,
        baseline_value=baseline,
        low=unknown,
        high=unknown,
        limit=np.full_like(value, limit),
        rows=rows,
        distance=Intervals(value - limit, unknown, unknown, unknown, degrees, (None,) * len(value)),
        error_bound=np.zeros_like(value),
        p_pass=np.where(passes, 0.0, 1.0),
        p_fail=np.where(passes, 1.0, 0.0),
        unknown=[""] * len(value),
        skipped=["" if one else "no usable rows" for one in rows],
        detail=detail,
    )
