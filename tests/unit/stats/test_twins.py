"""Slices in which two variants have the same states, of real accumulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import assay
from assay.metrics.class_counts import ClassCounts
from assay.metrics.ranking_states import BUCKET_BITS, BinnedRanking, ExactRanking
from assay.metrics.ranking_states import KEY_BITS as STATE_KEY_BITS
from assay.metrics.sums import Support
from assay.metrics.threshold import Confusion
from assay.records import Block, Sizes, State
from assay.stats.twins import KEY_BITS, SLICE_SHIFT, buckets_that_differ, same_slices, states_suffice
from assay.testing import make_block

SIZES = Sizes(4, 64, 2)


def block(score: np.ndarray) -> Block:
    """Row i is in slice 1 + i % 3."""
    rows = np.arange(len(score))
    return make_block(score, rows % 2, slices=np.stack([0 * rows, 1 + rows % 3]), bucket=rows % 64)


def states(accumulator, score: np.ndarray) -> dict[str, State]:
    return {accumulator.identity: accumulator.update(accumulator.zero(SIZES), block(score))}


def same(accumulator, one: np.ndarray, other: np.ndarray) -> list[bool]:
    return same_slices([accumulator], states(accumulator, one), states(accumulator, other), SIZES).tolist()


def test_codes_are_those_of_the_ranking_states():
    assert (SLICE_SHIFT, KEY_BITS) == (STATE_KEY_BITS + BUCKET_BITS, STATE_KEY_BITS)


SCORES = np.random.default_rng(1).uniform(0.2, 0.8, 300)
ACCUMULATORS = [ExactRanking(), BinnedRanking("all"), BinnedRanking("overall"), BinnedRanking("none")]


@pytest.mark.parametrize("accumulator", [*ACCUMULATORS, Support()], ids=lambda one: one.identity)
def test_equal_states_are_the_same_everywhere(accumulator):
    assert same(accumulator, SCORES, SCORES.copy()) == [True] * 4


@pytest.mark.parametrize("accumulator", ACCUMULATORS, ids=lambda one: one.identity)
def test_a_change_in_one_slice_is_one_there_and_overall(accumulator):
    changed = np.where(np.arange(300) % 3 == 1, 1 - SCORES, SCORES)

    assert same(accumulator, SCORES, changed) == [False, True, False, True]


def test_scores_in_the_same_order_rank_alike_where_every_one_is_kept():
    assert same(ExactRanking(), SCORES, SCORES / 2) == [True] * 4
    assert same(ExactRanking(), SCORES, np.round(SCORES, 1)) == [False] * 4


def test_a_state_that_does_not_say_of_which_slice_it_is_differs_everywhere():
    class Odd:
        identity = "odd.v1"

        def zero(self, sizes: Sizes) -> State:
            return {"codes": np.zeros(0, np.int64)}

    one, other = {"odd.v1": {"codes": np.arange(4)}}, {"odd.v1": {"codes": np.array([0, 1, 2, 4])}}
    assert same_slices([Odd()], one, other, SIZES).tolist() == [False] * 4
    assert same_slices([Odd()], one, one, SIZES).tolist() == [True] * 4


def test_the_axis_of_slices_is_found_wherever_it_is():
    class ByClass:
        identity = "by_class.v1"

        def zero(self, sizes: Sizes) -> State:
            return {"cells": np.zeros((4, sizes.num_slices), np.int64), "halves": np.zeros((4, 2), np.int64)}

    cells, halves = np.zeros((4, 4), np.int64), np.zeros((4, 2), np.int64)
    changed = cells.copy()
    changed[3, 1] = 1

    def compared(**one: np.ndarray) -> list[bool]:
        states = {"cells": cells, "halves": halves}
        return same_slices([ByClass()], {"by_class.v1": states}, {"by_class.v1": states | one}, SIZES).tolist()

    assert compared(cells=changed) == [True, False, True, True]
    assert compared(halves=halves + 1) == [False] * 4  # of no slice, though there are as many as slices


@pytest.mark.parametrize(
    ("accumulators", "suffice"),
    [
        ([Support()], True),
        ([Support(), ExactRanking()], True),
        ([Support(), BinnedRanking("all")], True),  # 300 scores are few enough to be kept
        ([Support(), Confusion(0.5)], False),
    ],
)
def test_equal_states_suffice_for_labels_and_for_an_order_that_is_kept(accumulators, suffice):
    several = {identity: state for one in accumulators for identity, state in states(one, SCORES).items()}
    assert states_suffice(accumulators, several, several) is suffice


def test_bins_without_the_scores_in_them_do_not_suffice():
    known = states(BinnedRanking("all"), SCORES)
    coarse = {identity: {**state, "coarse": np.ones(1, np.int64)} for identity, state in known.items()}
    assert not states_suffice([BinnedRanking("all")], known, coarse)


def compared(score: np.ndarray, other: np.ndarray, metric: str) -> dict[str, object]:
    """The overall comparison of two columns of scores for rows of 400 users."""
    rows = np.arange(len(score))
    table = pa.table({"y": rows % 7 == 0, "user": rows // 5, "p_old": score, "p_new": other})
    found = assay.evaluate(
        table, label="y", scores=["p_*"], baseline="p_old", cluster="user", output="probability", metrics=[metric]
    )
    return found.comparisons.to_pylist()[0]


LOW = np.random.default_rng(2).uniform(0.1, 0.3, 2000)


def test_models_that_never_reach_the_threshold_are_not_twins():
    told = compared(LOW, LOW[::-1].copy(), "accuracy")
    assert (told["difference"], told["low"], told["p_value"]) == (0.0, None, None)
    assert told["undefined"] == "no variation between clusters"


@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "auc", "ece"])
def test_the_same_scores_differ_by_exactly_0(metric):
    told = compared(LOW, LOW.copy(), metric)
    assert (told["difference"], told["low"], told["high"], told["p_value"]) == (0.0, 0.0, 0.0, 1.0)


def test_metrics_of_labels_alone_do_not_differ():
    told = compared(LOW, LOW[::-1].copy(), "positive_rate")
    assert (told["difference"], told["low"], told["high"]) == (0.0, 0.0, 0.0)


def differing(accumulator, one: np.ndarray, other: np.ndarray) -> list[int]:
    return buckets_that_differ([accumulator], states(accumulator, one), states(accumulator, other), SIZES).tolist()


def test_buckets_differ_where_rows_fall_on_two_sides_of_the_threshold():
    """Row i is in bucket i % 64 and in slice 1 + i % 3."""
    changed = SCORES.copy()
    changed[[3, 6, 67, 130]] = 1.0 - changed[[3, 6, 67, 130]]  # buckets 3, 6, 3 and 2; slices 1, 1, 2 and 2
    low, high = np.minimum(SCORES, 0.4), np.where(changed == SCORES, np.minimum(SCORES, 0.4), 0.7)

    assert differing(Confusion(0.5), low, high) == [3, 2, 2, 0]
    assert differing(Confusion(0.5), low, low.copy()) == [0, 0, 0, 0]
    assert differing(Confusion(0.5), low, 0.9 * low) == [0, 0, 0, 0]


def test_scores_that_are_all_kept_tell_their_buckets():
    changed = SCORES.copy()
    changed[[3, 6, 67, 130]] = 0.1
    assert differing(ExactRanking(), SCORES, changed) == [3, 2, 2, 0]
    assert differing(ExactRanking(), SCORES, np.round(SCORES, 1)) == [64, 64, 64, 64]


def test_what_cannot_be_told_by_bucket_counts_as_all_of_them():
    assert differing(BinnedRanking("overall"), SCORES, np.round(SCORES, 1)) == [64] * 4


@pytest.mark.parametrize("bucketed", ["all", "overall"])
def test_counts_of_classes_differ_where_predictions_do(bucketed):
    accumulator, rows = ClassCounts(3, bucketed), np.arange(300)
    sizes, predicted = Sizes(4, 64, 2), (rows // 3) % 3
    changed = np.where(np.isin(rows, [3, 6, 67]), (predicted + 1) % 3, predicted)

    def counted(classes: np.ndarray) -> dict[str, State]:
        of_rows = replace(block(SCORES), label=(rows % 3).astype(np.float64), raw=classes.astype(np.float64))
        return {accumulator.identity: accumulator.update(accumulator.zero(sizes), of_rows)}

    found = buckets_that_differ([accumulator], counted(predicted), counted(changed), sizes).tolist()
    assert found == ([2, 2, 1, 0] if bucketed == "all" else [2, 64, 64, 64])
