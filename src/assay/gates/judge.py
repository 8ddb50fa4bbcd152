"""Verdicts: every case of every variant under one rule for errors, then outcomes, the run's outcome and its exit code.

A variant passes only when all its gates pass, so the largest of its p-values is corrected over the declared variants
alone; the claim that a gate fails is corrected over variants, gates and slices. Both by Holm, one-sided, at 0.025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.gates.cases import Case
from assay.gates.words import case_sentence, verdict_sentences
from assay.records import CaseOutcome, GateResult, Outcome, Verdict
from assay.spec.model import GateSpec
from assay.stats.holm import holm, holm_beside
from assay.stats.jackknife import critical

ALPHA = 0.025
"""One-sided level of the two families of claims, "passes" and "fails"."""
MOST_CLUSTERS_MORE = 1000
"""Beyond so many times the present clusters, no number that would decide is named."""

Floats = NDArray[np.float64]


class Family(NamedTuple):
    """How many claims each correction is over."""

    variants: int
    cases: int  # variants x gates x slices


def conclude(gates: Sequence[GateSpec], measured: Sequence[tuple[str, list[Case]]]) -> tuple[Verdict, ...]:
    """A verdict for every variant but the baseline, in the order of `measured`: (variant, its cases).

    measured: all declared variants, failed ones included: they make the family that claims are corrected over.
    """
    if not (gates and measured):
        return tuple(Verdict(variant, "not gated", "No gate was declared.", ()) for variant, _ in measured)
    flat = [case for _, cases in measured for case in cases]
    family = Family(len(measured), len(flat))
    adjusted_fail = holm(np.array([math.nan if case.skipped or case.unknown else case.p_fail for case in flat]))
    ends = np.cumsum([len(cases) for _, cases in measured])[:-1]
    fails = np.split(adjusted_fail, ends)
    passes = [_p_passes(cases, fail) for (_, cases), fail in zip(measured, fails, strict=True)]
    whole = np.array([_p_variant(cases, p, len(gates)) for (_, cases), p in zip(measured, passes, strict=True)])
    verdicts = []
    for number, (variant, cases) in enumerate(measured):
        adjusted = holm_beside(passes[number], np.delete(whole, number))
        results = tuple(
            _result(case, float(p), float(q), family) for case, p, q in zip(cases, adjusted, fails[number], strict=True)
        )
        verdicts.append(_verdict(variant, results, len(gates)))
    return tuple(verdicts)


def run_outcome(verdicts: Sequence[Verdict], decide: Literal["all", "any"]) -> Outcome:
    """The run's outcome. all: the worst of the verdicts; any: the best.

    Variants that were not selected don't count; where none could be, it is undecided.
    """
    if verdicts and all(verdict.outcome == "not selected" for verdict in verdicts):
        return "undecided"
    outcomes = {verdict.outcome for verdict in verdicts} - {"not gated", "not selected"}
    order: tuple[Outcome, ...] = ("fail", "undecided", "pass") if decide == "all" else ("pass", "undecided", "fail")
    return next((outcome for outcome in order if outcome in outcomes), "not gated")


def exit_code(outcome: Outcome) -> int:
    """What the command line ends with: 0 pass or not gated, 1 fail, 3 undecided."""
    return {"pass": 0, "not gated": 0, "fail": 1, "undecided": 3}[outcome]


def _p_passes(cases: Sequence[Case], adjusted_fail: Floats) -> Floats:
    """p-values of "passes". A harm gate claims nothing: it passes wherever it is judged and does not fail."""
    values = []
    for case, fail in zip(cases, adjusted_fail, strict=True):
        known = not (case.skipped or case.unknown)
        harmless = known and case.rule.kind == "harm"
        values.append(float(fail <= ALPHA) if harmless else case.p_pass if known else math.nan)
    return np.array(values, np.float64)


def _p_variant(cases: Sequence[Case], p_pass: Floats, num_gates: int) -> float:
    """p-value of "passes all its gates": the largest (intersection-union); 1 when one is unknown or judged nowhere."""
    judged = {case.position for case in cases if not case.skipped}
    if len(judged) < num_gates:
        return 1.0
    values = [1.0 if math.isnan(p) else float(p) for case, p in zip(cases, p_pass, strict=True) if not case.skipped]
    return max(values)


def _result(case: Case, adjusted_pass: float, adjusted_fail: float, family: Family) -> GateResult:
    outcome = _outcome(case, adjusted_pass, adjusted_fail)
    claims = not (case.skipped or case.unknown or case.rule.kind == "harm")
    known = not (case.skipped or case.unknown)
    more = clusters_more(case, family) if outcome == "undecided" and known else None
    towards_pass = outcome == "pass" or (outcome == "undecided" and case.distance > 0.0)
    adjusted = adjusted_pass if towards_pass and claims else adjusted_fail
    return GateResult(
        variant=case.variant,
        gate=case.words,
        position=case.position,
        task=case.task,
        metric=case.metric,
        slice=case.slice,
        outcome=outcome,
        value=case.value,
        baseline_value=case.baseline_value,
        difference=case.difference,
        low=case.low,
        high=case.high,
        limit=case.limit,
        p_pass=case.p_pass if claims else math.nan,
        p_fail=case.p_fail if known else math.nan,
        adjusted_p_pass=adjusted_pass if claims else math.nan,
        adjusted_p_fail=adjusted_fail if known else math.nan,
        rows=case.rows,
        clusters_more=more,
        reason=case_sentence(case, outcome, adjusted, more),
    )


def _outcome(case: Case, adjusted_pass: float, adjusted_fail: float) -> CaseOutcome:
    if case.skipped:
        return "not judged"
    if case.unknown:
        return "undecided"
    if adjusted_fail <= ALPHA:
        return "fail"
    return "pass" if adjusted_pass <= ALPHA else "undecided"


def clusters_more(case: Case, family: Family) -> int | None:
    """About how many more clusters would decide an undecided case, either way, if its estimate stays where it is.

    The standard error shrinks with the square root of the number of clusters n, so the distance from the limit reaches
    the quantile t of the first step of Holm's correction at n (t * standard_error / distance)^2 clusters. The side of
    the estimate says which claim that is: "passes" above the limit, "fails" below it. None where nothing can be said:
    no interval, two clusters, an estimate at the limit or within the state's resolution of it, more than 1,000 times
    the clusters there are; or where the case by itself has enough and waits for a variant that ranks before it.
    """
    slack = abs(case.distance) - case.error_bound
    if not (slack > 0.0 and case.standard_error > 0.0 and case.degrees and case.clusters):
        return None
    size = family.variants if case.distance > 0.0 else family.cases
    times = (critical(ALPHA / size, case.degrees) * case.standard_error / slack) ** 2
    if not 1.0 < times <= MOST_CLUSTERS_MORE:
        return None
    return math.ceil(case.clusters * (times - 1.0))


def _verdict(variant: str, results: tuple[GateResult, ...], num_gates: int) -> Verdict:
    outcomes = {result.outcome for result in results}
    judged = {result.position for result in results if result.outcome != "not judged"}
    outcome: Outcome = "pass"
    if "fail" in outcomes:
        outcome = "fail"
    elif "undecided" in outcomes or len(judged) < num_gates:
        outcome = "undecided"
    return Verdict(variant, outcome, verdict_sentences(outcome, results), results)
