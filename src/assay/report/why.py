"""Why a verdict is what it is, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from assay.errors import RunError
from assay.records import GateResult, Results, Verdict
from assay.report.board import baseline_of, coverage_notes, error_rule
from assay.spec.names import offer
from assay.spec.words import count

MOST_CASES = 30
"""Cases told of each gate; a gate over a thousand slices is not read to the end."""


def explain(results: Results, variant: str) -> str:
    """The verdict on one variant: every gate with its numbers, what was not scored, and the rule for errors.

    RunError when the run has no such variant.
    """
    if variant == baseline_of(results):
        return f"{variant} is the baseline: the other variants are compared with it, and it is not judged."
    verdict = next((one for one in results.verdicts if one.variant == variant), None)
    if verdict is None:
        known = [one.variant for one in results.verdicts]
        raise RunError(f"There is no variant {variant!r} in this run{offer(variant, known)}")
    mine = results.coverage.filter(pc.equal(results.coverage["variant"], variant))
    lines = [*_verdict_lines(verdict), *coverage_notes(mine, measured=results.metrics.num_rows > 0), *results.notes]
    rule = error_rule(results)
    return "\n".join([*lines, rule] if verdict.gates and rule else lines)


def _verdict_lines(verdict: Verdict) -> list[str]:
    if not verdict.gates:
        return [f"{verdict.variant}: {verdict.outcome}. {verdict.reason}"]
    positions = sorted({gate.position for gate in verdict.gates})
    by_gate = [[gate for gate in verdict.gates if gate.position == position] for position in positions]
    return [
        f"{verdict.variant}: {verdict.outcome}. {_head(verdict)}".rstrip(),
        *(line for cases in by_gate for line in _gate_lines(cases)),
    ]


def _head(verdict: Verdict) -> str:
    """What the lines of the gates don't say: that one of them was judged nowhere."""
    judged = {gate.position for gate in verdict.gates if gate.outcome != "not judged"}
    nowhere = dict.fromkeys(gate.gate for gate in verdict.gates if gate.position not in judged)
    return " ".join(f"{gate}: undecided, there was nothing to judge." for gate in nowhere)


def _gate_lines(cases: Sequence[GateResult]) -> list[str]:
    order = ("fail", "undecided", "pass", "not judged")
    ranked = sorted(cases, key=lambda case: order.index(case.outcome))
    lines = [f"- {case.reason}" for case in ranked[:MOST_CASES]]
    left_out = len(ranked) - MOST_CASES
    return [*lines, f"- {count(left_out, 'more slice')} of this gate."] if left_out > 0 else lines
