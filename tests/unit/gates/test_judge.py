"""Verdicts over small cases: evidence is made by hand, with chosen values and standard errors, in 64 buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from assay.gates.cases import gain, measure
from assay.gates.judge import conclude, exit_code, run_outcome
from assay.protocols import Direction
from assay.records import Dimension, GateResult, Replicates, SliceTable, Task, Undefined, Verdict
from assay.spec.model import GateSpec
from assay.stats.evidence import Coverage, Estimate, MetricEvidence, Pair, TaskEvidence, VariantEvidence
from assay.stats.holm import holm

B = 64
ALPHA = 0.025
PATTERN = np.where(np.arange(B) % 2, 1.0, -1.0) / math.sqrt(B - 1)
"""Leave-one-out offsets whose jackknife standard error is 1."""
COUNTRIES = SliceTable(
    (Dimension("country", "country", ("DE", "US"), first_slice=1, num_slices=2),),
    ("overall", "country=DE", "country=US"),
)


@dataclass(frozen=True)
class Named:
    name: str
    direction: Direction


def estimate(
    *slices: tuple[float, float] | Undefined, rows: int = 1000, bound: float = 0.0, buckets: int = B
) -> Estimate:
    """One (value, standard error) per slice, or the reason why it is undefined."""
    value = [math.nan if isinstance(one, Undefined) else one[0] for one in slices]
    error = [math.nan if isinstance(one, Undefined) else one[1] for one in slices]
    reason = tuple(one if isinstance(one, Undefined) else None for one in slices)
    without = np.array(value)[:, None] + np.array(error)[:, None] * PATTERN
    count = len(slices)
    replicates = Replicates(np.array(value), reason, without, (None,) * count, np.full(count, bound))
    occupied = np.tile(np.arange(B) < buckets, (count, 1))
    return Estimate(replicates, np.full(count, rows), np.full(count, float(rows)), occupied, np.zeros(count, bool))


def coverage(count: int, scored: int = 1000, null: int = 0, failed: int = 0, missed: int | None = 0) -> Coverage:
    def full(number: int) -> np.ndarray:
        return np.full(count, number)

    usable = scored + null + failed
    return Coverage(full(usable), 0, full(0), full(0), full(null), full(failed), full(scored), np.ones(count), missed)


def variant(
    name: str,
    candidate: Estimate,
    baseline: Estimate | None,
    metric: Named = Named("log_loss", "lower"),
    covered: Coverage | None = None,
    task: str = "main",
) -> VariantEvidence:
    count = len(candidate.rows)
    pair = None if baseline is None else Pair(candidate, baseline)
    evidence = MetricEvidence(metric, candidate, baseline, pair)
    base_coverage = None if baseline is None else coverage(count)
    tasks = TaskEvidence(
        Task(task, "y", "binary", None, (metric.name,)), (evidence,), (), covered or coverage(count), base_coverage, 500
    )
    return VariantEvidence(name, None if baseline is None else "prod", (tasks,))


def judge(gates: list[GateSpec], evidence: list[VariantEvidence], slices: SliceTable) -> tuple[Verdict, ...]:
    return conclude(gates, [(one.variant, measure(gates, one, slices)) for one in evidence if one.compared])


def only(verdicts: tuple[Verdict, ...]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def judge_one(gate: dict, candidate: Estimate, baseline: Estimate | None, **more) -> Verdict:
    return only(judge([GateSpec.model_validate(gate)], [variant("new", candidate, baseline, **more)], COUNTRIES))


def judge_gate(gate: dict, candidate: Estimate, baseline: Estimate | None, **more) -> GateResult:
    return judge_one(gate, candidate, baseline, **more).gates[0]


BASE = estimate((0.45, 0.0))
MARGIN = {"metric": "log_loss", "margin": 0.001}
IMPROVE = {"metric": "log_loss", "improve": 0.001}


# ---- each rule, with its p-values and sentences ----------------------------------------------------------------------


def test_margin_passes_when_the_distance_to_it_is_sure():
    result = judge_gate(MARGIN, estimate((0.4502, 0.0002)), BASE)  # worse by .0002, 4 standard errors inside

    assert result.outcome == "pass"
    assert result.p_pass == result.adjusted_p_pass == pytest.approx(stats.t.sf(4.0, B - 1), rel=1e-6)
    assert result.p_fail == pytest.approx(stats.t.cdf(4.0, B - 1), rel=1e-6)
    assert (result.value, result.baseline_value, result.limit, result.rows) == (0.4502, 0.45, 0.001, 1000)
    assert result.difference == pytest.approx(0.0002)
    half = stats.t.ppf(0.975, B - 1) * 0.0002
    assert (result.low, result.high) == (pytest.approx(0.0002 - half), pytest.approx(0.0002 + half))
    assert result.reason == (
        "log_loss not worse by more than 0.001: pass in overall, candidate 0.4502, baseline 0.45, difference +0.0002, "
        "95 % interval [-0.0001997, 0.0005997], margin 0.001, 1,000 rows; adjusted p of passing 8.5e-05."
    )


def test_margin_fails_when_it_is_surely_broken():
    result = judge_gate(MARGIN, estimate((0.452, 0.0002)), BASE)

    assert result.outcome == "fail"
    assert result.reason == (
        "log_loss not worse by more than 0.001: fail in overall, candidate 0.452, baseline 0.45, difference +0.002, "
        "95 % interval [0.0016, 0.0024], margin 0.001, 1,000 rows; adjusted p of failing 2.4e-06."
    )


def test_margin_between_is_undecided_and_says_how_many_clusters_would_decide():
    result = judge_gate(MARGIN, estimate((0.4505, 0.0005)), BASE)  # one standard error inside

    times = stats.t.ppf(1 - ALPHA, B - 1) ** 2
    assert result.outcome == "undecided"
    assert result.clusters_more == math.ceil(500 * (times - 1))
    assert result.reason == (
        "log_loss not worse by more than 0.001: undecided in overall, neither claim is sure; about 1,500 more clusters "
        "would show that it passes, if the estimate stays. candidate 0.4505, baseline 0.45, difference +0.0005, "
        "95 % interval [-0.0004992, 0.001499], margin 0.001, 1,000 rows; adjusted p of passing 0.16."
    )


def test_undecided_on_the_wrong_side_of_the_limit_counts_towards_failing():
    result = judge_gate(MARGIN, estimate((0.4515, 0.0005)), BASE)

    assert result.outcome == "undecided"
    assert result.clusters_more == math.ceil(500 * (stats.t.ppf(1 - ALPHA, B - 1) ** 2 - 1))
    assert "about 1,500 more clusters would show that it fails, if the estimate stays." in result.reason


@pytest.mark.parametrize(
    ("value", "error", "why"),
    [
        (0.451 + 1e-6, 0.001, "neither claim is sure after the correction for all variants"),  # beyond 1,000 times
        (0.75, 0.3, "the estimate is at the limit"),
    ],
)
def test_undecided_where_no_number_of_clusters_can_be_said(value, error, why):
    gate = {"metric": "log_loss", "margin": 0.25} if value == 0.75 else MARGIN
    result = judge_gate(gate, estimate((value, error)), estimate((0.5, 0.0)) if value == 0.75 else BASE)

    assert result.outcome == "undecided"
    assert result.clusters_more is None
    assert f"undecided in overall, {why}. candidate" in result.reason


def test_what_the_states_resolution_leaves_open_counts_against_both_claims():
    inside = estimate((0.4504, 1e-5), bound=0.0005)
    resolved = judge_gate(MARGIN, inside, estimate((0.45, 0.0), bound=0.00005))
    unresolved = judge_gate(MARGIN, inside, estimate((0.45, 0.0), bound=0.0005))

    assert resolved.outcome == "pass"
    assert unresolved.outcome == "undecided"
    assert unresolved.clusters_more is None
    assert "the estimate is at the limit to within the resolution of its state (0.001)." in unresolved.reason


def test_direction_higher_judges_the_other_way():
    gate, auc = {"metric": "auc", "margin": 0.001}, Named("auc", "higher")

    assert judge_gate(gate, estimate((0.70, 0.0002)), estimate((0.69, 0.0)), metric=auc).outcome == "pass"
    assert judge_gate(gate, estimate((0.68, 0.0002)), estimate((0.69, 0.0)), metric=auc).outcome == "fail"


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.447, "pass"), (0.4495, "fail"), (0.4489, "undecided"), (0.46, "fail")]
)
def test_improve(value, outcome):
    assert judge_gate(IMPROVE, estimate((value, 0.0001)), BASE).outcome == outcome


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ({"metric": "log_loss", "margin": 0}, "pass"),
        ({"metric": "log_loss", "improve": 0}, "fail"),
        ({"metric": "log_loss", "harm": True}, "pass"),
    ],
)
def test_the_baseline_against_itself_is_known_exactly(gate, outcome):
    twin = estimate((0.45, 0.01)).beside(np.ones(1, bool))

    assert judge_gate(gate, twin, twin).outcome == outcome


@pytest.mark.parametrize("gate", [MARGIN, IMPROVE, {"metric": "log_loss", "max": 0.5}])
def test_what_does_not_vary_between_clusters_is_undecided_unless_the_states_are_equal(gate):
    result = judge_gate(gate, estimate((0.2, 0.0)), estimate((0.45, 0.0)))

    assert result.outcome == "undecided"
    assert math.isnan(result.p_pass)
    assert "there is no interval (no variation between clusters)" in result.reason


def test_relative_margin_is_a_share_of_the_baseline_and_its_error_counts():
    # both move together: the distance is v' - b' with 0.9 * b = b', so only 0.1 of the error stays
    gate = {"metric": "log_loss", "margin": "10%"}
    result = judge_gate(gate, estimate((0.5, 0.02)), estimate((0.5, 0.02)))

    assert result.limit == pytest.approx(0.05)
    assert result.p_pass == pytest.approx(stats.t.sf(0.05 / (0.1 * 0.02), B - 1), rel=1e-6)
    assert result.outcome == "pass"


def test_a_share_of_a_baseline_of_0_is_undecided():
    result = judge_gate({"metric": "log_loss", "improve": "1%"}, estimate((0.1, 0.001)), estimate((0.0, 0.0)))

    assert result.outcome == "undecided"
    assert math.isnan(result.p_pass)
    assert math.isnan(result.p_fail)
    assert result.reason.startswith(
        "log_loss better by more than 1% of the baseline: undecided in overall, the baseline is 0, of which no share "
        "can be taken. candidate 0.1, baseline 0,"
    )


@pytest.mark.parametrize(("value", "outcome"), [(1.01, "pass"), (0.98, "pass"), (1.1, "fail"), (0.9, "fail")])
def test_an_ideal_value_is_judged_by_the_distance_from_it(value, outcome):
    gate, ratio = {"metric": "calibration_ratio", "margin": 0.01}, Named("calibration_ratio", 1.0)

    assert judge_gate(gate, estimate((value, 0.001)), estimate((1.02, 0.0)), metric=ratio).outcome == outcome


def test_gain_is_positive_when_better():
    one, two = np.array([1.0]), np.array([2.0])

    assert gain("higher", two, one) == gain("lower", one, two) == 1.0
    assert gain(1.0, one, two) == 1.0
    assert gain(0.0, -one, two) == 1.0


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ({"metric": "auc", "min": 0.70}, "pass"),
        ({"metric": "auc", "min": 0.72}, "undecided"),
        ({"metric": "auc", "min": 0.75}, "fail"),
        ({"metric": "auc", "max": 0.75}, "pass"),
        ({"metric": "auc", "max": 0.70}, "fail"),
    ],
)
def test_min_and_max_judge_the_value_with_or_without_a_baseline(gate, outcome):
    auc = Named("auc", "higher")
    candidate = estimate((0.721, 0.002))

    assert judge_gate(gate, candidate, None, metric=auc).outcome == outcome
    assert judge_gate(gate, candidate, estimate(Undefined.FAILED), metric=auc).outcome == outcome


def test_min_shows_the_interval_of_the_value():
    result = judge_gate(
        {"metric": "auc", "min": 0.75}, estimate((0.7, 0.01)), estimate((0.71, 0.0)), metric=Named("auc", "higher")
    )

    assert result.low == pytest.approx(0.7 - stats.t.ppf(0.975, B - 1) * 0.01)
    assert result.reason == (
        "auc at least 0.75: fail in overall, candidate 0.7, baseline 0.71, 95 % interval [0.68, 0.72], minimum 0.75, "
        "1,000 rows; adjusted p of failing 2.4e-06."
    )


# ---- unknown is never a pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gate", [MARGIN, IMPROVE, {"metric": "log_loss", "max": 1}, {"metric": "log_loss", "harm": True}]
)
@pytest.mark.parametrize("reason", [Undefined.FAILED, Undefined.ONE_CLASS])
def test_an_undefined_candidate_never_passes(gate, reason):
    verdict = judge_one(gate, estimate(reason), estimate((0.45, 0.001)))

    assert verdict.outcome == verdict.gates[0].outcome == "undecided"
    assert math.isnan(verdict.gates[0].value)
    assert verdict.gates[0].reason.startswith(
        f"{verdict.gates[0].gate}: undecided in overall, the candidate is undefined ({reason}). candidate undefined, "
        "baseline 0.45,"
    )


def test_an_undefined_baseline_and_a_missing_interval_are_undecided():
    no_baseline = judge_gate(MARGIN, estimate((0.45, 0.001)), estimate(Undefined.ONE_CLASS))
    no_interval = judge_gate(MARGIN, estimate((0.45, 0.001), buckets=9), BASE)

    assert (
        "undecided in overall, the baseline is undefined (one class). candidate 0.45, baseline undefined,"
        in no_baseline.reason
    )
    assert no_interval.outcome == "undecided"
    assert no_interval.reason == (
        "log_loss not worse by more than 0.001: undecided in overall, there is no interval (too few clusters). "
        "candidate 0.45, baseline 0.45, difference +0, no interval, margin 0.001, 1,000 rows."
    )


# ---- harm ------------------------------------------------------------------------------------------------------------

HARM = {"metric": "log_loss", "slices": "country", "harm": True}


def test_harm_fails_only_where_surely_worse_and_makes_no_claim_when_it_passes():
    verdict = judge_one(
        HARM, estimate((9, 0), (0.452, 0.0003), (0.4505, 0.001)), estimate((9, 0), (0.45, 0), (0.45, 0))
    )

    worse, not_surely = verdict.gates
    assert (worse.slice, worse.outcome, not_surely.slice, not_surely.outcome) == (
        "country=DE",
        "fail",
        "country=US",
        "pass",
    )
    assert math.isnan(not_surely.p_pass)
    assert worse.adjusted_p_fail == pytest.approx(2 * worse.p_fail)  # two slices of one gate of one variant
    assert verdict.outcome == "fail"
    assert verdict.reason == (
        "1 of 1 gate failed. log_loss not significantly worse in each country: fail in country=DE, candidate 0.452, "
        "baseline 0.45, difference +0.002, 95 % interval [0.0014, 0.0026], margin 0, 1,000 rows; adjusted p of being "
        "worse 7.6e-09."
    )


def test_slices_in_which_two_variants_hardly_differ_are_not_judged_for_harm_and_counted():
    alike = np.array([False, True, False])
    new, base = (
        estimate(*[(value, error)] * 3).beside(np.zeros(3, bool), alike)
        for value, error in ((0.45, 0.01), (0.46, 0.02))
    )
    verdict = judge_one(HARM, new, base)

    assert [gate.outcome for gate in verdict.gates] == ["not judged", "pass"]
    assert verdict.gates[0].reason == (
        "log_loss not significantly worse in each country: not judged in country=DE "
        "(the two differ in fewer than 10 groups of clusters)."
    )
    assert verdict.reason == ("1 gate passed. Not judged, since the two hardly differ there: 1 slice.")


def test_slices_in_which_two_variants_hardly_differ_leave_a_margin_undecided():
    alike = np.array([False, True, False])
    new, base = (
        estimate(*[(value, error)] * 3).beside(np.zeros(3, bool), alike)
        for value, error in ((0.45, 0.001), (0.5, 0.002))
    )

    (gate, other) = judge_one({**MARGIN, "slices": "country"}, new, base).gates

    assert (gate.outcome, other.outcome) == ("undecided", "pass")
    assert "there is no interval (the two differ in fewer than 10 groups of clusters)" in gate.reason


def test_slices_that_not_even_the_baseline_is_known_in_are_not_judged_and_counted():
    base = estimate((0.45, 0), Undefined.ONE_CLASS, (0.45, 0))
    verdict = judge_one(HARM, estimate((0.45, 0), Undefined.ONE_CLASS, (0.45, 0.001)), base)

    assert [gate.outcome for gate in verdict.gates] == ["not judged", "pass"]
    assert verdict.gates[0].reason == (
        "log_loss not significantly worse in each country: not judged in country=DE "
        "(undefined for the baseline too: one class)."
    )
    assert verdict.outcome == "pass"
    assert verdict.reason == ("1 gate passed. Not judged, being undefined for the baseline too: 1 slice.")


def test_a_slice_known_for_the_baseline_and_not_for_the_candidate_is_undecided():
    base = estimate((0.45, 0), (0.45, 0.001), (0.45, 0.001))
    verdict = judge_one(HARM, estimate((0.45, 0), Undefined.ALL_EXCLUDED, (0.45, 0.002)), base)

    assert [gate.outcome for gate in verdict.gates] == ["undecided", "pass"]
    assert verdict.outcome == "undecided"


def test_where_nothing_is_judged_the_verdict_is_undecided():
    lost = estimate((0.45, 0), Undefined.ONE_CLASS, Undefined.OVER_BUDGET)
    verdict = judge_one(HARM, lost, lost)

    assert verdict.outcome == "undecided"
    assert verdict.reason == (
        "No gate failed, 1 of 1 gate undecided. "
        "log_loss not significantly worse in each country: undecided, there was nothing to judge."
    )


def test_an_empty_slice_is_not_judged_by_any_gate():
    gate = {"metric": "log_loss", "slices": "country", "margin": 0.01}
    empty = coverage(3)
    empty.scored[1] = 0
    base = estimate((0.45, 0), Undefined.NO_ROWS, (0.45, 0))

    verdict = judge_one(gate, estimate((0.45, 0), Undefined.NO_ROWS, (0.45, 0.001)), base, covered=empty)

    assert [result.outcome for result in verdict.gates] == ["not judged", "pass"]
    assert verdict.gates[0].reason.endswith(": not judged in country=DE (no usable rows).")


# ---- gates of rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("floor", "outcome"), [(0.95, "pass"), (0.951, "fail")])
def test_coverage_is_certain(floor, outcome):
    covered = coverage(1, scored=950, null=40, failed=10)
    result = judge_gate({"coverage": floor}, BASE, BASE, covered=covered)

    assert result.outcome == outcome
    assert (result.p_pass, result.p_fail) == ((0.0, 1.0) if outcome == "pass" else (1.0, 0.0))
    assert (result.metric, result.value, result.baseline_value, result.rows) == ("", 0.95, 1.0, 1000)
    assert result.reason == (
        f"at least {100 * floor:g}% of the usable rows scored: {outcome} in overall, 950 of 1,000 usable rows scored, "
        "40 scores missing, 10 rows failed."
    )


@pytest.mark.parametrize(("missed", "outcome"), [(0, "pass"), (77, "fail"), (None, "fail")])
def test_same_rows_compares_the_hashes_of_missed_rows(missed, outcome):
    covered = coverage(1, scored=990, null=10, missed=missed)
    result = judge_gate({"same_rows": True}, BASE, BASE, covered=covered)

    assert result.outcome == outcome
    assert result.reason == (
        f"the same rows scored as by the baseline: {outcome} in overall, the candidate missed 10 of 1,000 usable rows "
        "and the baseline 0."
    )


# ---- many variants ---------------------------------------------------------------------------------------------------


def test_passing_is_corrected_over_variants_and_not_over_one_variants_gates():
    gates = [GateSpec(metric="log_loss", margin=0.001), GateSpec(metric="log_loss", margin=0.0012)]
    evidence = [variant(f"v{i}", estimate((0.4502 + i / 5e3, 0.0003)), BASE) for i in range(3)]

    verdicts = judge(gates, evidence, COUNTRIES)

    largest = [max(gate.p_pass for gate in verdict.gates) for verdict in verdicts]
    adjusted = [max(gate.adjusted_p_pass for gate in verdict.gates) for verdict in verdicts]
    assert adjusted == pytest.approx(holm(np.array(largest)).tolist())
    assert [verdict.outcome for verdict in verdicts] == ["pass" if p <= ALPHA else "undecided" for p in adjusted]
    assert {verdict.outcome for verdict in verdicts} == {"pass", "undecided"}


def test_failing_is_corrected_over_variants_gates_and_slices():
    gates = [GateSpec(metric="log_loss", slices="country", harm=True), GateSpec(metric="log_loss", margin=0.001)]
    three = estimate((0.45, 0.001), (0.4535, 0.001), (0.45, 0.001))
    evidence = [variant(f"v{i}", three, estimate((0.45, 0), (0.45, 0), (0.45, 0))) for i in range(4)]

    verdicts = judge(gates, evidence, COUNTRIES)

    every = [gate for verdict in verdicts for gate in verdict.gates]
    assert [gate.adjusted_p_fail for gate in every] == pytest.approx(
        holm(np.array([gate.p_fail for gate in every])).tolist()
    )
    assert len(every) == 4 * 3


def test_a_failed_variant_stays_in_the_family():
    fine = variant("fine", estimate((0.4502, 0.00035)), BASE)  # p about .013: passes alone, not beside another
    lost = variant("lost", estimate(Undefined.FAILED), BASE)
    gates = [GateSpec.model_validate(MARGIN)]

    assert [one.outcome for one in judge(gates, [fine], COUNTRIES)] == ["pass"]
    assert [one.outcome for one in judge(gates, [fine, lost], COUNTRIES)] == ["undecided", "undecided"]


def test_a_certain_gate_stays_passed_while_another_is_undecided():
    gates = [GateSpec(coverage=0.9), GateSpec.model_validate(MARGIN)]
    verdict = only(judge(gates, [variant("new", estimate((0.4505, 0.0005)), BASE)], COUNTRIES))

    assert [gate.outcome for gate in verdict.gates] == ["pass", "undecided"]
    assert verdict.outcome == "undecided"
    assert verdict.reason.startswith("No gate failed, 1 of 2 gates undecided. log_loss not worse")


def test_the_baseline_is_not_judged_and_without_gates_nobody_is():
    base = VariantEvidence("prod", "prod", ())
    new = variant("new", BASE, BASE)

    assert judge([], [base, new], COUNTRIES) == (Verdict("new", "not gated", "No gate was declared.", ()),)
    assert [one.variant for one in judge([GateSpec.model_validate(MARGIN)], [base, new], COUNTRIES)] == ["new"]


def test_a_gate_without_a_task_is_judged_in_each_task_that_has_the_metric():
    one = variant("new", estimate((0.46, 0.0001)), BASE, task="click")
    two = variant("new", estimate((0.45, 0.0001)), BASE, task="buy")
    both = VariantEvidence("new", "prod", one.tasks + two.tasks)

    everywhere = only(judge([GateSpec.model_validate(MARGIN)], [both], COUNTRIES))
    named = only(judge([GateSpec.model_validate({**MARGIN, "task": "buy"})], [both], COUNTRIES))

    assert [(gate.task, gate.outcome) for gate in everywhere.gates] == [("click", "fail"), ("buy", "pass")]
    assert "fail in overall of task click, candidate 0.46" in everywhere.gates[0].reason
    assert [(gate.task, gate.outcome) for gate in named.gates] == [("buy", "pass")]


def test_a_verdict_tells_the_surest_case_and_names_the_other_gates():
    gates = [GateSpec(metric="log_loss", margin=limit) for limit in (0.001, 0.002, 0.003)]
    verdict = only(judge(gates, [variant("new", estimate((0.47, 0.001)), BASE)], COUNTRIES))

    assert verdict.reason == (
        f"3 of 3 gates failed. {verdict.gates[0].reason} Also failed: 'log_loss not worse by more than 0.002' and "
        "'log_loss not worse by more than 0.003'."
    )


def test_only_further_slices_of_the_same_gate_are_likewise():
    gates = [GateSpec(metric="log_loss", slices="country", margin=0.001), GateSpec(metric="log_loss", margin=0.002)]
    candidate = estimate((0.47, 0.001), (0.48, 0.001), (0.49, 0.001))
    base = estimate((0.45, 0), (0.45, 0), (0.45, 0))
    verdict = only(judge(gates, [variant("new", candidate, base)], COUNTRIES))

    assert [(gate.slice, gate.outcome) for gate in verdict.gates] == [
        ("country=DE", "fail"),
        ("country=US", "fail"),
        ("overall", "fail"),
    ]
    assert verdict.reason == (
        f"2 of 2 gates failed. {verdict.gates[1].reason} Likewise 1 more case. "
        "Also failed: 'log_loss not worse by more than 0.002'."
    )


def test_another_undecided_gate_is_named_too():
    gates = [GateSpec(metric="log_loss", margin=0.001), GateSpec(metric="log_loss", margin=0.0011)]
    verdict = only(judge(gates, [variant("new", estimate((0.4505, 0.0005)), BASE)], COUNTRIES))

    assert verdict.reason == (
        f"No gate failed, 2 of 2 gates undecided. {verdict.gates[0].reason} "
        "Also undecided: 'log_loss not worse by more than 0.0011'."
    )


# ---- the run ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "for_all", "for_any"),
    [
        (["pass", "pass"], "pass", "pass"),
        (["pass", "undecided"], "undecided", "pass"),
        (["pass", "fail", "undecided"], "fail", "pass"),
        (["undecided", "fail"], "fail", "undecided"),
        (["fail"], "fail", "fail"),
        (["not gated"], "not gated", "not gated"),
        ([], "not gated", "not gated"),
    ],
)
def test_run_outcome(outcomes, for_all, for_any):
    verdicts = [Verdict("v", outcome, "", ()) for outcome in outcomes]

    assert (run_outcome(verdicts, "all"), run_outcome(verdicts, "any")) == (for_all, for_any)


def test_exit_codes():
    assert [exit_code(one) for one in ("pass", "fail", "undecided", "not gated")] == [0, 1, 3, 0]


def test_without_a_variant_beside_the_baseline_there_are_no_verdicts():
    assert judge([GateSpec(metric="log_loss", margin=0.1)], [], COUNTRIES) == ()
