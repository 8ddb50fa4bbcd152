"""Which rows count, what an accumulator is given, and the corrections for exact pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, ScoreSum, read_rows

from assay.hashing import in_part, pair_hash
from assay.ledgers import TaskLedger, VariantLedger
from assay.partial import Partial
from assay.records import Block, Chunk, Rows, StateKey, Task, TaskRows
from assay.spec.model import OutputKind
from assay.task_scores import ChunkRows, Layout, TaskScores

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


def filled(of: Rows, base: list[float], other: list[float], layout: Layout = LAYOUT) -> Partial:
    partial, chunk = Partial(layout), ChunkRows(of, layout)
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
    return {name: array.tolist() for name, array in state.items() if name not in ("missed_hash", "score_digest")}


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


# ---- two clusters ----------------------------------------------------------------------------------------------------


def sums(partial: Partial, variant: str, view: str, part: str = "scored") -> list[float]:
    """By bucket of `overall`."""
    return (partial.states[StateKey("main", variant, "score_sum.v1", part, view)]["sum"][0] / 256).tolist()


def crossed(layout: Layout, clusters: list[int], others: list[int], base: list[float], other: list[float]) -> Partial:
    of = replace(
        rows([1] * len(clusters)),
        cluster=np.array(clusters, np.uint64),
        second_cluster=np.array(others, np.uint64),
    )
    return filled(of, base, other, layout)


def test_clusters_of_the_plan_have_a_bucket_each_and_others_share_by_hash() -> None:
    layout = replace(LAYOUT, clusters=((5, 7),))
    of = replace(rows([1, 1, 1, 1]), cluster=np.array([7, 5, 7, 3 << 62], np.uint64))
    partial = filled(of, [1, 2, 4, 8], [0, 0, 0, 0], layout)
    assert sums(partial, "base", "") == [2, 5, 0, 8]
    ledger = partial.states[StateKey("main", "", TaskLedger.identity, "scored")]
    assert ledger["shared_bucket"].tolist() == [1, 0, 1]
    assert ledger["bucket_rows"][0].tolist() == [1, 2, 0, 1]


def test_with_two_clusters_the_same_rows_are_counted_by_each_and_by_both() -> None:
    pairs = np.sort(pair_hash(np.array([1, 1, 2], np.uint64), np.array([8, 9, 9], np.uint64)))
    layout = replace(LAYOUT, clusters=((1, 2), (8, 9), tuple(pairs.tolist())))
    partial = crossed(layout, [1, 1, 2, 2], [8, 9, 9, 9], [1, 2, 4, 8], [NAN, 1, 1, 1])
    assert sums(partial, "base", "") == [1 + 2, 4 + 8, 0, 0]
    assert sums(partial, "base", "second") == [1, 2 + 4 + 8, 0, 0]
    assert sorted(sums(partial, "base", "both")) == [0, 1, 2, 4 + 8]
    for view in ("", "second", "both"):
        assert sum(sums(partial, "other", view)) == 3
        assert sum(sums(partial, "other", view, "baseline_only")) == 1
    assert sums(partial, "other", "second", "baseline_only") == [1, 0, 0, 0]


def test_a_variant_that_fails_is_removed_from_every_view() -> None:
    layout = replace(LAYOUT, clusters=((), (8, 9), ()))
    partial = crossed(layout, [1, 1, 2, 2], [8, 9, 9, 9], [1, 2, 4, 8], [NAN, 1, 1, 1])
    partial.fail({"other"})
    for view in ("", "second", "both"):
        assert StateKey("main", "other", "score_sum.v1", "scored", view) not in partial.states
        assert sums(partial, "other", view, "baseline_only") == sums(partial, "base", view)


# ---- rows set apart to select by -------------------------------------------------------------------------------------


def test_rows_that_serve_to_select_are_in_no_judged_state_and_have_ledgers_of_their_own() -> None:
    of = replace(rows([1] * 40 + [NAN] * 8, weight=[1] * 48), num_read=50)
    judged = in_part(of.cluster, 0.5)
    layout = replace(LAYOUT, confirm_fraction=0.5)
    scores = np.arange(48, dtype=np.float64)
    other = np.where(np.arange(48) % 7 == 0, NAN, 1.0)
    partial = filled(of, scores.tolist(), other.tolist(), layout)

    usable = np.arange(48) < 40
    assert 8 < judged[:40].sum() < 32
    assert sum(sums(partial, "base", "")) == scores[usable & judged].sum()
    assert sum(sums(partial, "base", "selection")) == scores[usable & ~judged].sum()
    assert sum(sums(partial, "other", "", "baseline_only")) == scores[usable & judged & np.isnan(other)].sum()
    assert not any(key.part != "scored" and key.view == "selection" for key in partial.states)
    for view, part, dropped in (("", judged, 2), ("selection", ~judged, 0)):
        task = partial.states[StateKey("main", "", TaskLedger.identity, "scored", view)]
        assert task["rows_read"][0] == part.sum() + dropped
        assert task["null_label"][0] == (part & ~usable).sum()
        for variant in ("base", "other"):
            one = partial.states[StateKey("main", variant, VariantLedger.identity, "scored", view)]
            assert (one["null_score"] + one["failed"] + one["scored"] == task["bucket_rows"].sum(axis=1)).all()


def test_a_variant_that_fails_is_removed_from_the_rows_to_select_by_too() -> None:
    layout = replace(LAYOUT, confirm_fraction=0.5)
    partial = filled(rows([1] * 40), [1.0] * 40, [1.0] * 40, layout)
    partial.fail({"other"})
    assert StateKey("main", "other", "score_sum.v1", "scored", "selection") not in partial.states
    assert StateKey("main", "other", "score_sum.v1", "baseline_only", "selection") not in partial.states
    failed = partial.states[StateKey("main", "other", VariantLedger.identity, "scored", "selection")]
    assert failed["failed"][0] == sum(sums(partial, "base", "selection")) > 0


# ---- several classes, sets of labels, intervals


ABC = ("a", "b", "c")
OF_CLASSES = Task("main", "y", "class", None, (), ABC)
OF_LABELS = Task("main", "y", "labels", None, (), ABC)


def block_of(
    kind: OutputKind, scores: object, label: list[float], task: Task | None = None, **task_rows: object
) -> Block:
    """What the baseline's accumulators are given of rows with these labels."""
    layout = replace(LAYOUT, outputs={("main", "base"): kind}, tasks={} if task is None else {"main": task})
    of = rows(label)
    of = replace(of, tasks={"main": replace(of.tasks["main"], **task_rows)})
    return ChunkRows(of, layout).scored("base", {"main": np.asarray(scores)})["main"].block


def test_a_matrix_of_probabilities_is_kept_and_its_largest_is_the_prediction() -> None:
    scores = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [NAN, 0.5, 0.5], [0.25, 0.375, 0.375], [0.1, 0.2, 0.7]]
    block = block_of("probability", scores, [0, 2, 1, 1, NAN], OF_CLASSES)
    assert block.raw.tolist() == [0, 1, 1]  # the first of equal ones; a row with a NaN is missing
    assert block.label.tolist() == [0, 2, 1]
    assert block.positive.tolist() == [0, 0, 0]
    assert block.outputs is not None
    assert (block.outputs.dtype, block.outputs.flags.c_contiguous) == (np.float32, True)
    assert block.outputs.tolist() == [[0.5, 0.25, 0.25], [0.25, 0.5, 0.375], [0.25, 0.25, 0.375]]
    assert block.probability is not None
    assert block.probability.tolist() == [0.5, 0.5, 0.375]


def test_logits_of_classes_become_probabilities_and_scores_stay() -> None:
    scores = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, np.inf]])
    block = block_of("logit", scores, [0, 1], OF_CLASSES)
    assert block.outputs is not None
    np.testing.assert_allclose(block.outputs[:, 0], np.exp(scores[0]) / np.exp(scores[0]).sum(), rtol=1e-6)
    assert block.raw.tolist() == [2]
    plain = block_of("score", scores[:1], [0], OF_CLASSES)
    assert plain.probability is None
    assert plain.outputs is not None
    assert plain.outputs.tolist() == [[1], [2], [3]]


def test_predicted_classes_have_no_scores() -> None:
    block = block_of("label", [2.0, -1.0, NAN], [0, 1, 2], OF_CLASSES)
    assert (block.raw.tolist(), block.label.tolist()) == ([2, -1], [0, 1])
    assert (block.outputs, block.probability) == (None, None)


def test_sets_of_labels_have_targets() -> None:
    targets = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 1]], np.uint8)
    scores = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, NAN, 8.0]]
    block = block_of("score", scores, [0, 0, 0], OF_LABELS, targets=targets)
    assert block.targets is not None
    assert block.outputs is not None
    assert block.targets.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert block.outputs.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (block.raw.tolist(), block.label.tolist()) == ([0, 0], [0, 0])
    sigmoids = block_of("logit", [[0.0, -1.0, 800.0]], [0], OF_LABELS, targets=targets[:, :1]).outputs
    assert sigmoids is not None
    np.testing.assert_allclose(sigmoids[:, 0], [0.5, 1 / (1 + np.e), 1], rtol=1e-6)


def test_an_interval_is_kept_in_double_precision_and_scored_by_its_middle() -> None:
    block = block_of("interval", [[1e9, 1e9 + 3], [1.7e308, 1.7e308], [NAN, 1]], [1, 2, 3])
    assert block.outputs is not None
    assert block.outputs.dtype == np.float64
    assert block.outputs.tolist() == [[1e9, 1.7e308], [1e9 + 3, 1.7e308]]
    assert block.raw.tolist() == [1e9 + 1.5, 1.7e308]
    assert block.probability is None


@pytest.mark.parametrize(("kind", "task"), [("probability", OF_CLASSES), ("score", OF_LABELS), ("interval", None)])
def test_a_chunk_without_rows(kind: OutputKind, task: Task | None) -> None:
    block = block_of(kind, np.zeros(0), [], task, targets=np.zeros((3, 0), np.uint8))
    assert block.outputs is not None
    assert block.outputs.shape == (2 if task is None else 3, 0)


def test_columns_of_metrics_follow_the_rows() -> None:
    block = block_of("score", [1.0, NAN, 3.0], [1, 1, 1], columns={"price": np.array([7.0, 8.0, NAN])})
    np.testing.assert_array_equal(block.columns["price"], [7, NAN])


# ---- the baseline's scores


def references(base: list[float], other: list[float], **layout: object) -> list[list[float] | None]:
    of, compared = rows([1] * len(base)), replace(LAYOUT, compared=frozenset({"main"}), **layout)
    chunk = ChunkRows(of, compared)
    baseline = chunk.scored("base", {"main": np.array(base)})
    scored = [baseline, chunk.scored("other", {"main": np.array(other)}, baseline)]
    blocks = [one["main"].block for one in scored]
    return [None if one.reference is None else one.reference.tolist() for one in blocks]


def test_a_metric_that_compares_gets_the_baselines_scores() -> None:
    own, others = references([0.5, NAN, 2.0], [1.0, 1.0, NAN])
    assert own == [0.5, 2.0]
    np.testing.assert_array_equal(others, [0.5, NAN])


def test_the_baselines_probability_is_what_is_compared_with() -> None:
    outputs = {("main", "base"): "logit", ("main", "other"): "probability"}
    assert references([0.0], [0.25], outputs=outputs) == [[0.5], [0.5]]


def test_with_classes_it_is_the_predicted_one() -> None:
    compared = replace(
        LAYOUT,
        outputs={("main", "base"): "probability", ("main", "other"): "label"},
        tasks={"main": OF_CLASSES},
        compared=frozenset({"main"}),
    )
    chunk = ChunkRows(rows([0, 1]), compared)
    baseline = chunk.scored("base", {"main": np.array([[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])})
    other = chunk.scored("other", {"main": np.array([-1.0, 0.0])}, baseline)["main"].block
    assert other.reference is not None
    assert (other.reference.tolist(), other.raw.tolist()) == ([2, 0], [-1, 0])


def test_where_the_baseline_failed_its_scores_are_unknown_and_else_they_are_not_there() -> None:
    chunk = ChunkRows(rows([1, 1]), replace(LAYOUT, compared=frozenset({"main"})))
    failed = chunk.scored("other", {"main": np.array([1.0, 2.0])})["main"].block.reference
    np.testing.assert_array_equal(failed, [NAN, NAN])
    plain = ChunkRows(rows([1, 1]), LAYOUT)
    baseline = plain.scored("base", {"main": np.array([1.0, 2.0])})
    assert plain.scored("other", {"main": np.array([1.0, 2.0])}, baseline)["main"].block.reference is None


# ---- a later bundle


LATER = replace(LAYOUT, leads=False)
SPLIT = replace(LAYOUT, clusters=((), (), ()), confirm_fraction=0.5)


@pytest.mark.parametrize("layout", [LAYOUT, SPLIT])
@pytest.mark.parametrize("failed", [set(), {"other"}, {"base", "other"}])
def test_a_later_bundle_has_the_states_of_its_own_variants_alone_and_has_them_all(
    layout: Layout, failed: set[str]
) -> None:
    scores = [1.0, 2.0, NAN, 4.0, NAN, 6.0], [NAN, 1.0, 1.0, 1.0, 1.0, NAN]
    of = rows([1, 0, 1, 0, 1, NAN])
    if layout is SPLIT:
        of = replace(of, second_cluster=of.cluster[::-1].copy())
    whole, later = filled(of, *scores, layout), filled(of, *scores, replace(layout, leads=False))
    for partial in (whole, later):
        partial.fail(failed)
    own = {key for key in whole.states if key.variant == "other"}
    assert later.states.keys() == own
    assert own < whole.states.keys()
    for key in own:
        for name, array in whole.states[key].items():
            np.testing.assert_array_equal(later.states[key][name], array)
    assert later.num_read == whole.num_read


def test_what_counts_in_a_later_bundle() -> None:
    assert LAYOUT.counted == {"base", "other"}
    assert LATER.counted == {"other"}


@pytest.mark.parametrize("layout", [LAYOUT, SPLIT])
def test_in_bundles_it_is_told_which_rows_the_baseline_missed(layout: Layout) -> None:
    of, others = rows([1, 0, 1, 0, 1, NAN]), [1.0] * 6
    if layout is SPLIT:
        of = replace(of, second_cluster=of.cluster[::-1].copy())
    bundled = replace(layout, bundled=True)
    some, fewer = [1.0, 2.0, NAN, 4.0, NAN, 6.0], [1.0, 2.0, NAN, 4.0, 5.0, 6.0]
    first, later = (filled(of, some, others, replace(bundled, leads=leads)).missed for leads in (True, False))
    assert first == later != ""
    assert first != filled(of, fewer, others, bundled).missed != ""
    assert first == filled(of, [7 * one for one in some], others, bundled).missed
    assert filled(of, [*some[:2], 3.0, 4.0, 5.0, NAN], others, bundled).missed == ""  # the last row has no label
    assert filled(of, some, others, layout).missed == ""
