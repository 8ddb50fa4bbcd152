"""From a tally to evidence and result tables: on a small fake metric, the mean score by slice and bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from assay.ledgers import TaskLedger, VariantLedger
from assay.records import (
    Curve,
    Dimension,
    Plan,
    Replicates,
    Sizes,
    SliceTable,
    State,
    StateChoice,
    StateKey,
    Tally,
    Task,
    Undefined,
)
from assay.stats import tables
from assay.stats.estimate import compare_any, gather, selection_values
from assay.stats.tables import concatenate, tabulate

S, B = 3, 64
SLICES = ("overall", "country=US", "country=null")
WEIGHT_UNIT = 0.25


@dataclass(frozen=True)
class Added:
    """An accumulator of plain arrays that are added."""

    identity: str

    def zero(self, sizes: Sizes) -> State:
        if self.identity == "support.v1":
            cells = np.zeros((sizes.num_slices, sizes.num_buckets, 2), np.int64)
            return {"rows": cells, "weight": cells}
        return {"sum": np.zeros((sizes.num_slices, sizes.num_buckets), np.int64)}

    def subtract(self, whole: State, part: State) -> State:
        return {name: whole[name] - part[name] for name in whole}


@dataclass(frozen=True)
class MeanScore:
    """Sum of integer scores over rows."""

    name: str = "mean"
    label_kind: str | None = None

    def accumulators(self, choice: StateChoice) -> tuple[Added, ...]:
        return (Added("support.v1"), Added("scores.v1"))

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        rows, total = states["support.v1"]["rows"].sum(axis=2), states["scores.v1"]["sum"]
        with np.errstate(invalid="ignore"):
            value = total.sum(axis=1) / rows.sum(axis=1)
            without = (total.sum(axis=1)[:, None] - total) / (rows.sum(axis=1)[:, None] - rows)
        reason = tuple(Undefined.NO_ROWS if np.isnan(one) else None for one in value)
        return Replicates(value, reason, without, (None,) * S, np.full(S, 0.125))

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        rows = states["support.v1"]["rows"].sum(axis=(1, 2))
        x = np.array([0.25, 0.75])
        return (Curve("half", 0, x, x / 2, np.array([1, rows[0]]), x * 4, x),)


@dataclass(frozen=True)
class Rows:
    """n rows of one task: all in `overall`, the even ones in country=US too, none in country=null."""

    score: np.ndarray
    bucket: np.ndarray
    positive: np.ndarray

    def cells(self, values: np.ndarray) -> np.ndarray:
        out = np.zeros((S, B), np.int64)
        np.add.at(out[0], self.bucket, values)
        np.add.at(out[1], self.bucket[::2], values[::2])
        return out

    def states(self, keep: np.ndarray) -> dict[str, State]:
        by_class = [self.cells(keep & (self.positive == label)) for label in (0, 1)]
        rows = np.stack(by_class, axis=2)
        return {"support.v1": {"rows": rows, "weight": 8 * rows}, "scores.v1": {"sum": self.cells(self.score * keep)}}

    def ledgers(self, keep: np.ndarray, missed: int) -> State:
        counts = self.cells(keep).sum(axis=1)
        null = self.cells(~keep).sum(axis=1)
        zero = VariantLedger().zero(Sizes(S, B))
        return {
            **zero,
            "scored": counts,
            "null_score": null,
            "weight": 8 * counts,
            "missed_hash": np.array([missed], np.uint64),
        }


def make_rows(seed: int, n: int = 600) -> Rows:
    random = np.random.default_rng(seed)
    return Rows(random.integers(0, 1000, n), np.arange(n) % B, (np.arange(n) % 7 == 0).astype(np.int64))


def make_plan() -> Plan:
    dimension = Dimension("country", "country", ("US",), first_slice=1, num_slices=2)
    return Plan(
        units=(),
        fragments=(),
        tasks=(Task("main", "y", "binary", None, ("mean",)),),
        slices=SliceTable((dimension,), SLICES),
        sizes=Sizes(S, B),
        choice=StateChoice(True, "all"),
        weight_exponent=-2,
        columns=(),
        micro_batch=1024,
        seed=0,
        fingerprints={},
        identity="",
        identity_parts={},
        state_bytes=0,
        num_rows=None,
    )


def task_ledger(rows: Rows) -> State:
    usable = rows.cells(np.ones(len(rows.score), bool))
    read = usable.sum(axis=1) + np.array([10, 3, 0])
    zero = TaskLedger().zero(Sizes(S, B))
    return {
        **zero,
        "rows_read": read,
        "rows_filtered": np.array([5]),
        "null_label": np.array([4, 2, 0]),
        "null_weight": np.array([1, 1, 0]),
        "bucket_rows": usable,
    }


def make_tally(scored: Mapping[str, tuple[Rows, np.ndarray]], baseline: str) -> Tally:
    """variant -> its rows and which of them it scored; correction states where the sets differ."""
    base, base_keep = scored[baseline]
    states: dict[StateKey, State] = {StateKey("main", "", TaskLedger.identity, "scored"): task_ledger(base)}
    for variant, (rows, keep) in scored.items():
        for identity, state in rows.states(keep).items():
            states[StateKey("main", variant, identity, "scored")] = state
        missed = int(np.flatnonzero(~keep).sum())
        states[StateKey("main", variant, VariantLedger.identity, "scored")] = rows.ledgers(keep, missed)
        if (base_keep & ~keep).any():
            for identity, state in base.states(base_keep & ~keep).items():
                states[StateKey("main", variant, identity, "baseline_only")] = state
        if (keep & ~base_keep).any():
            for identity, state in rows.states(keep & ~base_keep).items():
                states[StateKey("main", variant, identity, "variant_only")] = state
    return Tally((), states)


def everything(rows: Rows) -> np.ndarray:
    return np.ones(len(rows.score), bool)


def evidence_on(tally: Tally, *variants: str, metric: MeanScore | None = None) -> list:
    return list(gather(tally, make_plan(), {"main": (metric or MeanScore(),)}, variants, "base"))


def test_variants_come_in_order_and_one_without_missing_rows_shares_the_baselines_replicates():
    base, other = make_rows(1), make_rows(2)
    tally = make_tally({"base": (base, everything(base)), "a": (other, everything(other))}, "base")

    a, baseline = evidence_on(tally, "a", "base")

    assert (a.variant, a.compared, baseline.variant, baseline.compared) == ("a", True, "base", False)
    assert a.tasks[0].metrics[0].pair.baseline is baseline.tasks[0].metrics[0].own
    assert a.tasks[0].metrics[0].pair.candidate is a.tasks[0].metrics[0].own
    assert baseline.tasks[0].metrics[0].pair is None


def test_difference_is_the_paired_t_interval_over_bucket_means():
    base, other = make_rows(1, B), make_rows(2, B)  # one row a bucket
    tally = make_tally({"base": (base, everything(base)), "a": (other, everything(other))}, "base")

    row = tabulate(evidence_on(tally, "a")[0], SLICES).comparisons.to_pylist()[0]

    paired = stats.ttest_rel(other.score, base.score)
    low, high = paired.confidence_interval(0.95)
    assert row["difference"] == pytest.approx((other.score - base.score).mean(), rel=1e-12)
    assert (row["low"], row["high"]) == (pytest.approx(low, rel=1e-9), pytest.approx(high, rel=1e-9))
    assert row["p_value"] == pytest.approx(paired.pvalue, rel=1e-9)
    assert (row["variant"], row["baseline"], row["rows"], row["undefined"]) == ("a", "base", B, None)


def test_rows_that_either_missed_are_taken_out_of_the_pair_and_stay_in_each_ones_own_value():
    base, other = make_rows(1), make_rows(2)
    base_keep, keep = everything(base), everything(other)
    base_keep[:30], keep[20:90] = False, False
    tally = make_tally({"base": (base, base_keep), "a": (other, keep)}, "base")

    (a,) = evidence_on(tally, "a")
    metric = a.tasks[0].metrics[0]

    common = keep & base_keep
    assert metric.own.replicates.value[0] == other.score[keep].mean()
    assert metric.pair.candidate.replicates.value[0] == other.score[common].mean()
    assert metric.pair.baseline.replicates.value[0] == base.score[common].mean()
    assert metric.pair.candidate.rows[0] == metric.pair.baseline.rows[0] == common.sum()
    assert metric.baseline_own.replicates.value[0] == base.score[base_keep].mean()


def test_a_variant_without_states_has_failed_and_is_not_dropped():
    base = make_rows(1)
    tally = make_tally({"base": (base, everything(base))}, "base")

    table = tabulate(evidence_on(tally, "lost")[0], SLICES)

    assert table.metrics["undefined"].to_pylist() == ["the variant failed", "the variant failed", "no rows"]
    assert table.metrics["value"].to_pylist() == [None] * 3
    assert table.comparisons["undefined"].to_pylist() == ["the variant failed", "the variant failed", "no rows"]
    assert table.comparisons["rows"].to_pylist() == [0] * 3
    assert table.coverage["failed"].to_pylist() == [600, 300, 0]
    assert table.coverage["scored"].to_pylist() == [0, 0, 0]


def test_when_the_baseline_failed_every_comparison_is_undefined():
    base, other = make_rows(1), make_rows(2)
    whole = make_tally({"base": (base, everything(base)), "a": (other, everything(other))}, "base")
    tally = Tally((), {key: state for key, state in whole.states.items() if key.variant != "base"})

    table = tabulate(evidence_on(tally, "a")[0], SLICES)

    assert table.comparisons["undefined"].to_pylist()[0] == "the variant failed"
    assert table.metrics["value"].to_pylist()[0] == other.score.mean()


def test_rows_read_but_none_usable_is_all_excluded():
    base = make_rows(1)
    keep = np.zeros(len(base.score), bool)
    tally = make_tally({"base": (base, everything(base)), "a": (base, keep)}, "base")

    (a,) = evidence_on(tally, "a")

    assert a.tasks[0].metrics[0].own.replicates.reason == (
        Undefined.ALL_EXCLUDED,
        Undefined.ALL_EXCLUDED,
        Undefined.NO_ROWS,
    )


def test_too_few_rows_of_a_class_take_the_interval_of_binary_metrics_only():
    rows = replace(make_rows(1), positive=(np.arange(600) < 9).astype(np.int64))
    tally = make_tally({"base": (rows, everything(rows))}, "base")

    binary = tabulate(evidence_on(tally, "base", metric=MeanScore(label_kind="binary"))[0], SLICES).metrics
    either = tabulate(evidence_on(tally, "base")[0], SLICES).metrics

    assert binary["undefined"][0].as_py() == "fewer than 10 rows of a class"
    assert binary["value"][0].as_py() == rows.score.mean()
    assert (binary["low"][0].as_py(), binary["high"][0].as_py()) == (None, None)
    assert either["undefined"][0].as_py() is None


def test_tables_have_the_public_columns_and_real_weights():
    base = make_rows(1)
    base_keep = everything(base)
    base_keep[:2] = False
    tally = make_tally({"base": (base, base_keep)}, "base")

    table = tabulate(evidence_on(tally, "base")[0], SLICES)

    assert table.metrics.schema.names == [
        "variant", "task", "metric", "slice", "rows", "weight", "value", "low", "high", "error_bound", "interval",
        "undefined",
    ]  # fmt: skip
    assert table.comparisons.schema.names == [
        "variant", "baseline", "task", "metric", "slice", "rows", "difference", "low", "high", "p_value", "q_value",
        "simultaneous_low", "simultaneous_high", "interval", "undefined",
    ]  # fmt: skip
    first = table.metrics.to_pylist()[0]
    assert (first["slice"], first["rows"], first["weight"], first["error_bound"]) == ("overall", 598, 598 * 2.0, 0.125)
    assert table.curves.to_pylist() == [
        {"variant": "base", "task": "main", "curve": "half", "slice": "overall", "x": 0.25, "y": 0.125, "rows": 1,
         "weight": 1.0, "positive_weight": 0.25},
        {"variant": "base", "task": "main", "curve": "half", "slice": "overall", "x": 0.75, "y": 0.375, "rows": 598,
         "weight": 3.0, "positive_weight": 0.75},
    ]  # fmt: skip
    assert table.coverage.to_pylist() == [
        {"variant": "base", "task": "main", "slice": "overall", "rows_read": 610, "rows_filtered": 5, "null_label": 4,
         "null_weight": 1, "null_score": 2, "failed": 0, "scored": 598, "weight": 1196.0},
        {"variant": "base", "task": "main", "slice": "country=US", "rows_read": 303, "rows_filtered": None,
         "null_label": 2, "null_weight": 1, "null_score": 1, "failed": 0, "scored": 299, "weight": 598.0},
        {"variant": "base", "task": "main", "slice": "country=null", "rows_read": 0, "rows_filtered": None,
         "null_label": 0, "null_weight": 0, "null_score": 0, "failed": 0, "scored": 0, "weight": 0.0},
    ]  # fmt: skip


# ---- the same rows in other buckets, other rows, other pairs ---------------------------------------------------------


def with_view(tally: Tally, view: str, states: Mapping[str, State], variant: str = "base") -> Tally:
    keys = {StateKey("main", variant, identity, "scored", view): state for identity, state in states.items()}
    return Tally((), {**tally.states, **keys})


def test_with_two_clusters_the_interval_is_made_of_all_three_views():
    rows = make_rows(1)
    second, both = (replace(rows, bucket=np.random.default_rng(seed).permutation(rows.bucket)) for seed in (5, 6))
    tally = make_tally({"base": (rows, everything(rows))}, "base")
    for view, one in (("second", second), ("both", both)):
        tally = with_view(tally, view, one.states(everything(rows)))
    plan = replace(make_plan(), clusters=((), (), ()))

    (evidence,) = gather(tally, plan, {"main": (MeanScore(),)}, ["base"], None)

    own = evidence.tasks[0].metrics[0].own
    alone = [rows.score[one.bucket != 3].mean() for one in (second, both)]
    assert [view[0, 3] for view in own.replicates.others] == alone
    assert [one.shape for one in own.other_occupied] == [(S, B)] * 2
    table = tabulate(evidence, SLICES).metrics
    assert table["interval"].to_pylist() == ["two-way", "two-way", None]
    errors = [one.standard_error[0] for one in (own.intervals(), replace(own, other_occupied=()).intervals())]
    assert errors[0] >= errors[1] > 0


def test_corrections_are_taken_out_of_every_view():
    base, other = make_rows(1), make_rows(2)
    keep = everything(other)
    keep[20:90] = False
    tally = make_tally({"base": (base, everything(base)), "a": (other, keep)}, "base")
    for view in ("second", "both"):
        tally = with_view(tally, view, base.states(everything(base)))
        tally = with_view(tally, view, other.states(keep), "a")
        for identity, state in base.states(~keep).items():
            tally.states[StateKey("main", "a", identity, "baseline_only", view)] = state
    plan = replace(make_plan(), clusters=((), (), ()))

    (evidence,) = gather(tally, plan, {"main": (MeanScore(),)}, ["a"], "base")

    pair = evidence.tasks[0].metrics[0].pair
    assert pair.baseline.replicates.others[1][0, 3] == base.score[keep & (base.bucket != 3)].mean()
    assert pair.baseline.other_occupied[0].tolist() == pair.candidate.other_occupied[0].tolist()


def test_values_to_select_by_are_of_the_rows_set_apart_alone():
    rows, apart, better = make_rows(1), make_rows(3, 100), make_rows(4, 100)
    tally = make_tally({"base": (rows, everything(rows))}, "base")
    tally = with_view(tally, "selection", apart.states(everything(apart)))
    tally = with_view(tally, "selection", better.states(everything(better)), "a")
    plan = make_plan()

    values = selection_values(tally, plan, MeanScore(), plan.tasks[0], ["a", "base", "lost"])

    assert list(values) == ["a", "base", "lost"]
    assert (values["a"], values["base"]) == (better.score.mean(), apart.score.mean())
    assert np.isnan(values["lost"])


def compared(tally: Tally, one: str, other: str) -> list[dict]:
    evidence = compare_any(tally, make_plan(), {"main": (MeanScore(),)}, one, other, "base")
    return tabulate(evidence, SLICES).comparisons.to_pylist()


def three(keep_a: np.ndarray, keep_b: np.ndarray) -> tuple[Tally, list[Rows]]:
    rows = [make_rows(seed) for seed in (1, 2, 3)]
    scored = {"base": (rows[0], everything(rows[0])), "a": (rows[1], keep_a), "b": (rows[2], keep_b)}
    return make_tally(scored, "base"), rows


def test_two_variants_that_missed_the_same_rows_are_compared_without_the_baseline():
    keep = np.arange(600) % 5 > 0
    tally, (_, a, b) = three(keep, keep)

    row, *_ = compared(tally, "a", "b")

    assert (row["variant"], row["baseline"], row["rows"]) == ("a", "b", 480)
    assert row["difference"] == a.score[keep].mean() - b.score[keep].mean()
    paired = [
        a.score[keep & (a.bucket != bucket)].mean() - b.score[keep & (a.bucket != bucket)].mean() for bucket in range(B)
    ]
    error = np.sqrt((B - 1) / B * ((np.array(paired) - np.mean(paired)) ** 2).sum())
    assert row["high"] - row["difference"] == pytest.approx(stats.t.ppf(0.975, B - 1) * error, rel=1e-9)


def test_two_variants_whose_rows_differ_are_not_comparable_but_in_slices_that_both_scored_whole():
    missed = np.arange(600) == 7  # an odd row is not in country=US
    tally, _ = three(~missed, everything(make_rows(1)))

    overall, us, _ = compared(tally, "a", "b")

    assert (overall["difference"], overall["undefined"]) == (None, "row sets differ")
    assert (us["undefined"], us["rows"]) == (None, 300)


@pytest.mark.parametrize("order", [("a", "base"), ("base", "a")])
def test_the_runs_own_baseline_is_compared_on_the_rows_that_both_scored_either_way_round(order):
    keep = np.arange(600) % 5 > 0
    tally, (base, a, _) = three(keep, keep)

    row, *_ = compared(tally, *order)

    difference = a.score[keep].mean() - base.score[keep].mean()
    assert row["difference"] == (difference if order[0] == "a" else -difference)
    assert row["rows"] == 480


def test_a_variant_that_failed_is_compared_with_none():
    tally, _ = three(everything(make_rows(1)), everything(make_rows(1)))

    assert compared(tally, "a", "lost")[0]["undefined"] == "the variant failed"


# ---- no variation ----------------------------------------------------------------------------------------------------


def test_a_variant_with_the_states_of_the_other_is_0_from_it_for_sure_where_they_are_equal():
    base = make_rows(1)
    changed = replace(base, score=base.score + np.arange(600) % 2 * 5)  # no row of country=US
    tally = make_tally({"base": (base, everything(base)), "a": (changed, everything(base))}, "base")

    overall, us, _ = tabulate(evidence_on(tally, "a")[0], SLICES).comparisons.to_pylist()

    assert overall["difference"] == pytest.approx(2.5)
    assert (us["difference"], us["low"], us["high"], us["p_value"]) == (0.0, 0.0, 0.0, 1.0)
    assert us["undefined"] is None


def test_a_difference_that_is_the_same_in_every_bucket_has_no_interval_unless_the_states_are_equal():
    base = make_rows(1)
    shifted = replace(base, score=base.score + 7)
    tally = make_tally({"base": (base, everything(base)), "a": (shifted, everything(base))}, "base")

    row, *_ = tabulate(evidence_on(tally, "a")[0], SLICES).comparisons.to_pylist()

    assert row["difference"] == pytest.approx(7)
    assert (row["low"], row["high"], row["p_value"], row["interval"]) == (None,) * 4
    assert row["undefined"] == "no variation between clusters"


def test_a_curve_that_two_metrics_draw_is_told_once():
    base = make_rows(1)
    tally = make_tally({"base": (base, everything(base))}, "base")
    two = {"main": (MeanScore("mean"), MeanScore("again"))}

    (evidence,) = gather(tally, make_plan(), two, ["base"], "base")

    assert len(evidence.tasks[0].curves) == 1
    assert [one.metric.name for one in evidence.tasks[0].metrics] == ["mean", "again"]


def test_without_a_baseline_there_are_values_and_no_comparisons():
    base = make_rows(1)
    tally = make_tally({"base": (base, everything(base))}, "base")

    (evidence,) = gather(tally, make_plan(), {"main": (MeanScore(),)}, ["base"], None)

    assert evidence.compared
    assert tabulate(evidence, SLICES).comparisons.equals(tables.COMPARISONS.empty_table())


def test_concatenated_tables_of_no_variants_keep_their_schemas():
    empty = concatenate([])

    assert (empty.metrics.schema, empty.comparisons.schema) == (tables.METRICS, tables.COMPARISONS)
    assert (empty.curves.schema, empty.coverage.schema) == (tables.CURVES, tables.COVERAGE)


def test_undefined_infinity_and_nan_survive_parquet(tmp_path):
    base = make_rows(1)
    (evidence,) = evidence_on(make_tally({"base": (base, everything(base))}, "base"), "base")
    metric = evidence.tasks[0].metrics[0]
    values = replace(
        metric.own.replicates, value=np.array([np.inf, np.nan, np.nan]), reason=(None, None, Undefined.NO_ROWS)
    )
    task = replace(evidence.tasks[0], metrics=(replace(metric, own=replace(metric.own, replicates=values)),))

    pq.write_table(tabulate(replace(evidence, tasks=(task,)), SLICES).metrics, tmp_path / "metrics.parquet")
    back = pq.read_table(tmp_path / "metrics.parquet")

    assert back["value"].is_null().to_pylist() == [False, False, True]
    assert back["value"][0].as_py() == np.inf
    assert np.isnan(back["value"][1].as_py())
    assert back["undefined"][2].as_py() == "no rows"
    assert isinstance(back, pa.Table)
