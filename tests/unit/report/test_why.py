"""The explanation of a verdict, sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.errors import RunError
from assay.records import Verdict
from assay.report.board import ERROR_RULE
from assay.report.why import MOST_CASES, explain


def test_gates_then_coverage_then_notes_then_the_rule(results):
    assert explain(results, "new").splitlines() == [
        "new: undecided.",
        "- gate 0: undecided in overall.",
        "- gate 1: pass in overall.",
        "60 of 1,300 rows read are left out by the filter.",
        "40 of 1,300 rows read have no label.",
        "new: of 1,200 usable rows 7 scores are missing and it failed on 3.",
        "Rows are the clusters.",
        ERROR_RULE,
    ]


def test_the_baseline_is_not_judged(results):
    assert explain(results, "prod") == (
        "prod is the baseline: the other variants are compared with it, and it is not judged."
    )


def test_an_unknown_variant_offers_the_nearest(results):
    with pytest.raises(RunError, match=r"^There is no variant 'nww' in this run; did you mean 'new'\?$"):
        explain(results, "nww")


def test_without_gates(results):
    verdict = Verdict("new", "not gated", "No gate was declared.", ())

    lines = explain(replace(results, verdicts=(verdict,), outcome="not gated"), "new").splitlines()

    assert lines[0] == "new: not gated. No gate was declared."
    assert ERROR_RULE not in lines


def test_where_nothing_is_measured_no_score_is_missing(results):
    """Dead letters tell which outputs are, and they may be no scores."""
    told = explain(replace(results, metrics=results.metrics.slice(0, 0)), "new")
    assert "40 of 1,300 rows read have no label." in told
    assert "missing" not in told


def test_the_rule_for_errors_says_nothing_of_gates_that_count_rows(results):
    (verdict,) = results.verdicts
    counting = replace(verdict, gates=tuple(replace(gate, metric="") for gate in verdict.gates))
    assert ERROR_RULE not in explain(replace(results, verdicts=(counting,)), "new")
    assert ERROR_RULE in explain(
        replace(results, verdicts=(replace(counting, gates=(*counting.gates, verdict.gates[0])),)), "new"
    )


def test_of_a_gate_over_many_slices_the_failed_ones_come_first_and_the_rest_is_counted(results):
    verdict = results.verdicts[0]
    passed = replace(verdict.gates[1], reason="fine")
    failed = replace(verdict.gates[1], outcome="fail", reason="broken")
    many = replace(verdict, gates=(*[passed] * (MOST_CASES + 1), failed))

    lines = explain(replace(results, verdicts=(many,)), "new").splitlines()

    assert lines[1:3] == ["- broken", "- fine"]
    assert lines[MOST_CASES + 1] == "- 2 more slices of this gate."
