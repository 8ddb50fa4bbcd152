"""Which rows count, what an accumulator is given, and the corrections for exact pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, ScoreSum, read_rows

from assay.ledgers import TaskLedger, VariantLedger
from assay.partial import ChunkRows, Layout, Partial, TaskScores
from assay.records import Chunk, Rows, StateKey, TaskRows

LAYOUT = Layout(
    outputs={("main", "base"): "score", ("main", "other"): "score"},
    accumulators={"main": (ScoreSum(),)},
    sizes=SIZES,
    baseline="base",
)
NAN = float("nan")


def rows(label: list[float], *, weight: list[int] | None = None, member: list[bool] | None = None) -> Rows:
    """Rows at positions 0, 1, ...; slices 1 and 2 are the even and the odd ones."""
    plain = read_rows(Chunk("rows.parquet", 0, pa.table({"x": np.arange(len(label), dtype=np.float64)})))
    task = TaskRows(np.array(label, np.float64), np.array(member or [True] * len(label), np.bool_))
    return replace(plain, tasks={"main": task}, weight=np.array(weight or [1] * len(label), np.int64))


def filled(of: Rows, base: list[float], other: list[float]) -> Partial:
    partial, chunk = Partial(LAYOUT), ChunkRows(of, LAYOUT)
    partial.count(chunk)
    baseline = chunk.scored("base", {"main": np.array(base)})
    partial.add("base", baseline, None)
    partial.add("other", chunk.scored("other", {"main": np.array(other)}), baseline)
    return partial


def total(partial: Partial, variant: str, part: str = "scored") -> float | None:
    """Sum of scores in all buckets of `overall`; None where there is no such state."""
    state = partial.states.get(StateKey("main", variant, "score_sum.v1", part))
    return None if state is None else state["sum"][0].sum() / 256


def task_ledger(partial: Partial) -> dict[str, list[int]]:
    state = partial.states[StateKey("main", "", TaskLedger.identity, "scored")]
    return {name: state[name].tolist() for name in ("rows_read", "rows_filtered", "null_label", "null_weight")}


def variant_ledger(partial: Partial, variant: str) -> dict[str, list[int]]:
    state = partial.states[StateKey("main", variant, VariantLedger.identity, "scored")]
    return {name: array.tolist() for name, array in state.items() if name != "missed_hash"}


# ---- which rows count ------------------------------------------------------------------------------------------------


def test_only_rows_with_label_weight_and_membership_count() -> None:
    of = rows([1, NAN, 1, 1, 0], weight=[1, 1, -1, 2, 1], member=[True, True, True, True, False])
    partial = filled(of, [1, 2, 4, 8, 16], [0, 0, 0, 0, 0])
    assert total(partial, "base") == 1 + 2 * 8
    assert task_ledger(partial) == {
        "rows_read": [5, 2, 2],  # the filtered row is in no slice but overall
        "rows_filtered": [1],
        "null_label": [1, 0, 1],
        "null_weight": [1, 1, 0],
    }
    assert variant_ledger(partial, "base") == {
        "null_score": [0, 0, 0],
        "failed": [0, 0, 0],
        "scored": [2, 1, 1],
        "weight": [3, 1, 2],
    }


def test_a_row_of_weight_0_is_read_and_nothing_else() -> None:
    with_it = filled(rows([1, 0, NAN], weight=[1, 0, 0]), [1, 2, 4], [1, NAN, NAN])
    without = filled(rows([1]), [1], [1])
    assert task_ledger(with_it) == {**task_ledger(without), "rows_read": [3, 2, 1]}
    for key in without.states:
        if key.accumulator != TaskLedger.identity:
            for name, array in without.states[key].items():
                np.testing.assert_array_equal(with_it.states[key][name], array)


def test_rows_that_the_run_filtered_are_counted() -> None:
    of = replace(rows([1, 1]), num_read=10)
    assert task_ledger(filled(of, [1, 1], [1, 1]))["rows_read"] == [10, 1, 1]
    assert filled(of, [1, 1], [1, 1]).num_read == 10


def test_a_chunk_without_rows_leaves_zeros() -> None:
    partial = filled(rows([]), [], [])
    assert total(partial, "base") == total(partial, "other") == 0


# ---- what a score becomes --------------------------------------------------------------------------------------------


def scored(scores: list[float], kind: str) -> TaskScores:
    chunk = ChunkRows(rows([0] * len(scores)), LAYOUT)
    return TaskScores.of(chunk.usable["main"], np.array(scores), kind)


def test_a_missing_score_is_nan_or_infinite() -> None:
    one = scored([NAN, 1, float("inf"), -float("inf"), 2], "score")
    assert one.present.tolist() == [False, True, False, False, True]
    assert one.block.raw.tolist() == [1, 2]
    assert len(one.block.label) == len(one.block.bucket) == one.block.slices.shape[1] == 2


def test_minus_zero_ranks_with_zero() -> None:
    assert np.signbit(scored([-0.0, 0.0], "score").block.ranking).tolist() == [False, False]


def test_a_score_beyond_float32_ranks_first_and_stays_itself() -> None:
    block = scored([1e300, 1.0], "score").block
    assert block.ranking.tolist() == [float("inf"), 1.0]
    assert block.raw.tolist() == [1e300, 1.0]


def test_a_probability_is_itself_a_logit_becomes_one_and_a_score_has_none() -> None:
    block = scored([0.25], "probability").block
    assert block.probability is not None
    assert (block.probability.dtype, block.probability.tolist()) == (np.float32, [0.25])
    block = scored([np.log(3)], "logit").block
    assert block.probability is not None
    assert block.probability.tolist() == pytest.approx([0.75])
    assert block.ranking.tolist() == [np.float32(np.log(3))]
    assert scored([3.0], "score").block.probability is None


# ---- exact pairs -----------------------------------------------------------------------------------------------------


def test_a_variant_that_scored_all_rows_of_the_baseline_needs_no_correction() -> None:
    partial = filled(rows([0, 0, 0]), [1, 2, 4], [8, 16, 32])
    assert total(partial, "other", "baseline_only") is None
    assert total(partial, "other", "variant_only") is None


def test_rows_that_only_one_of_the_pair_scored_are_kept_apart() -> None:
    partial = filled(rows([0, 0, 0, 0]), [1, NAN, 4, NAN], [NAN, 16, 32, NAN])
    assert total(partial, "base") == 1 + 4
    assert total(partial, "other") == 16 + 32
    assert total(partial, "other", "baseline_only") == 1
    assert total(partial, "other", "variant_only") == 16
    assert variant_ledger(partial, "other")["null_score"] == [2, 1, 1]


def test_equal_misses_have_equal_hashes() -> None:
    partial = filled(rows([0, 0, 0, 0]), [NAN, 2, 4, NAN], [NAN, 16, 32, NAN])
    base, other = (partial.states[StateKey("main", one, VariantLedger.identity, "scored")] for one in ("base", "other"))
    assert base["missed_hash"] == other["missed_hash"] != 0


# ---- failures --------------------------------------------------------------------------------------------------------


def test_a_variant_that_failed_leaves_its_rows_as_failed_and_the_baseline_as_what_it_missed() -> None:
    partial = filled(rows([0, 0, NAN]), [1, NAN, 4], [NAN, 16, 32])
    partial.fail({"other"})
    assert total(partial, "base") == 1
    assert total(partial, "other") is None
    assert total(partial, "other", "variant_only") is None
    assert total(partial, "other", "baseline_only") == 1
    assert variant_ledger(partial, "other") == {
        "null_score": [0, 0, 0],
        "failed": [2, 1, 1],
        "scored": [0, 0, 0],
        "weight": [0, 0, 0],
    }


def test_a_baseline_that_failed_leaves_no_states_at_all() -> None:
    partial = filled(rows([0, 0]), [1, 2], [4, 8])
    partial.fail({"base", "other"})
    assert {key.accumulator for key in partial.states} == {TaskLedger.identity, VariantLedger.identity}
    assert variant_ledger(partial, "base")["failed"] == variant_ledger(partial, "other")["failed"] == [2, 1, 1]
