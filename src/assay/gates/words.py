"""The sentences of gates and verdicts: each refusal with metric, slice, both values, margin, interval and n."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.gates.cases import Case
from assay.gates.rules import OF_ROWS, PAIRED
from assay.records import CaseOutcome, GateResult, Undefined
from assay.spec.model import MAIN_TASK
from assay.spec.words import count, listing

_LIMIT = {"margin": "margin", "improve": "required improvement", "harm": "margin", "min": "minimum", "max": "maximum"}


def case_sentence(case: Case, outcome: CaseOutcome, adjusted: float, more: int | None) -> str:
    """One gate in one slice: what came out, why, and the numbers.

    adjusted: p-value of the claim that was made, or where neither was of the one on the estimate's side of the limit.
    """
    place = f"{case.words}: {outcome} in {_place(case)}"
    if outcome == "not judged":
        return f"{place} ({case.skipped})."
    numbers = case.detail if case.rule.kind in OF_ROWS else _numbers(case)
    if outcome == "undecided":
        place = f"{place}, {case.unknown or _why_undecided(case, more)}"
        if case.unknown or case.rule.kind in OF_ROWS:
            return f"{place}. {numbers}."
        return (
            f"{place}. {numbers}; adjusted p of {_claim(case, 'pass' if case.distance > 0 else 'fail')} {adjusted:.2g}."
        )
    if case.rule.kind in OF_ROWS:
        return f"{place}, {numbers}."
    return f"{place}, {numbers}; adjusted p of {_claim(case, outcome)} {adjusted:.2g}."


def _claim(case: Case, outcome: str) -> str:
    return "being worse" if case.rule.kind == "harm" else f"{outcome}ing"


def verdict_sentences(outcome: str, results: Sequence[GateResult]) -> str:
    """A variant's verdict: how many gates made it, the surest case of these in full, and the names of the others."""
    positions = {result.position for result in results}
    judged = {result.position for result in results if result.outcome != "not judged"}
    decisive = [result for result in results if result.outcome == outcome != "pass"]
    decisive.sort(key=lambda result: (math.inf if math.isnan(result.p_fail) else result.p_fail, result.position))
    unsure = len({result.position for result in decisive} | (positions - judged))
    sentences = {
        "pass": [f"{count(len(positions), 'gate')} passed."],
        "fail": [f"{len({result.position for result in decisive})} of {count(len(positions), 'gate')} failed."],
        "undecided": [f"No gate failed, {unsure} of {count(len(positions), 'gate')} undecided."],
    }[outcome]
    return " ".join([*sentences, *_decisive(outcome, decisive), *_not_judged(results, judged)])


def _decisive(outcome: str, decisive: Sequence[GateResult]) -> list[str]:
    """Sentences on the first case, the number of others of its gate, and the other gates."""
    if not decisive:
        return []
    first = decisive[0]
    sentences, alike = [first.reason], sum(one.position == first.position for one in decisive) - 1
    if alike:
        sentences.append(f"Likewise {count(alike, 'more case')}.")
    if others := {one.position: one.gate for one in decisive if one.position != first.position}:
        sentences.append(f"Also {'failed' if outcome == 'fail' else outcome}: {listing(others.values())}.")
    return sentences


def _not_judged(results: Sequence[GateResult], judged: set[int]) -> list[str]:
    """Sentences on gates that could be judged nowhere, and the number of slices with rows left out of the others."""
    nowhere = dict.fromkeys(result.gate for result in results if result.position not in judged)
    left_out = [one for one in results if one.outcome == "not judged" and one.position in judged and one.rows]
    sentences = [f"{gate}: undecided, there was nothing to judge." for gate in nowhere]
    if left_out:
        alike = sum(Undefined.HARDLY_DIFFERENT in one.reason for one in left_out)
        reasons = {
            "being undefined for the baseline too": len(left_out) - alike,
            "since the two hardly differ there": alike,
        }
        sentences += [f"Not judged, {why}: {count(number, 'slice')}." for why, number in reasons.items() if number]
    return sentences


def _place(case: Case) -> str:
    return case.slice if case.task == MAIN_TASK else f"{case.slice} of task {case.task}"


def _numbers(case: Case) -> str:
    interval = "no interval" if math.isnan(case.low) else f"95 % interval [{case.low:.4g}, {case.high:.4g}]"
    values = f"candidate {_number(case.value)}, baseline {_number(case.baseline_value)}"
    if case.rule.kind in PAIRED:
        values += f", difference {_number(case.difference, '+.4g')}"
    return f"{values}, {interval}, {_LIMIT[case.rule.kind]} {_number(case.limit)}, {count(case.rows, 'row')}"


def _why_undecided(case: Case, more: int | None) -> str:
    if more is not None:
        claim = "passes" if case.distance > 0 else "fails"
        return f"neither claim is sure; about {count(_rounded(more), 'more cluster')} would show that it {claim}, {_IF}"
    if abs(case.distance) <= case.error_bound:
        return f"the estimate is at the limit{_resolution(case)}"
    return "neither claim is sure after the correction for all variants"


_IF = "if the estimate stays"


def _resolution(case: Case) -> str:
    return f" to within the resolution of its state ({case.error_bound:.2g})" if case.error_bound else ""


def _number(value: float, how: str = ".6g") -> str:
    return "undefined" if math.isnan(value) else format(value, how)


def _rounded(number: int) -> int:
    """To two significant digits: it is an estimate."""
    return int(float(f"{number:.1e}"))
