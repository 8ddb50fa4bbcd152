"""Every row is counted once, in each dimension, under the first thing that holds for it."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.registers import NUM_REGISTERS, raise_registers
from assay.ledgers import (
    Fate,
    TaskCounts,
    TaskLedger,
    VariantCounts,
    VariantLedger,
    cluster_estimate,
    failed_ledger,
    task_ledger,
    variant_ledger,
)
from assay.records import Sizes, State

SIZES = Sizes(num_slices=3, num_buckets=2, num_dimensions=2)


def six_rows() -> State:
    """One row of each fate, four more that the run's filter dropped; odd ones are in slice 1 and bucket 0."""
    slices = np.array([[0] * 6, [1, 2, 1, 2, 1, 2]], np.int32)
    bucket = np.array([0, 1, 0, 1, 0, 1], np.int32)
    cluster = np.arange(6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    shares = np.array([True, True, True, True, False, True])
    return task_ledger(TaskCounts(4, np.array(list(Fate), np.int32), slices, bucket, cluster, shares), SIZES)


def test_a_task_ledger_accounts_for_every_row() -> None:
    state = six_rows()
    assert state["rows_read"].tolist() == [10, 2, 3]
    assert state["rows_filtered"].tolist() == [5]
    assert state["null_label"].tolist() == [1, 1, 0]
    assert state["null_weight"].tolist() == [1, 0, 1]
    assert state["null_cluster"].tolist() == [1, 1, 0]
    assert state["shared_bucket"].tolist() == [1, 0, 1]
    assert state["bucket_rows"].tolist() == [[1, 1], [1, 0], [0, 1]]
    assert np.count_nonzero(state["cluster_registers"]) == 2
    usable, weightless = state["bucket_rows"].sum(axis=1), [1, 0, 1]
    assert (state["rows_read"] - [5, 0, 0] == state["null_label"] + state["null_weight"] + usable + weightless).all()


def test_a_ledger_has_the_fields_and_types_of_its_zero() -> None:
    variant = VariantCounts(
        np.ones(1, np.bool_), np.zeros((1, 1), np.int32), np.ones(1, np.int64), np.ones(1, np.uint64)
    )
    for zero, state in (
        (TaskLedger().zero(SIZES), six_rows()),
        (VariantLedger().zero(SIZES), variant_ledger(variant, 3)),
        (VariantLedger().zero(SIZES), failed_ledger(six_rows(), np.uint64(1))),
    ):
        assert {name: (one.dtype, one.shape) for name, one in state.items()} == {
            name: (one.dtype, one.shape) for name, one in zero.items()
        }


def test_task_ledgers_merge_counts_by_sum_and_registers_by_maximum() -> None:
    once = six_rows()
    twice = TaskLedger().merge(once, once)
    assert twice["rows_read"].tolist() == [20, 4, 6]
    assert twice["cluster_registers"].tolist() == once["cluster_registers"].tolist()


def test_a_variant_ledger_counts_the_rows_that_were_missed() -> None:
    slices = np.array([[0, 0, 0], [1, 2, 2]], np.int32)
    weight, hashes = np.array([5, 6, 7]), np.array([2**64 - 1, 3, 4], np.uint64)
    state = variant_ledger(VariantCounts(np.array([False, True, False]), slices, weight, hashes), 3)
    assert state["scored"].tolist() == [1, 0, 1]
    assert state["null_score"].tolist() == [2, 1, 1]
    assert state["weight"].tolist() == [6, 0, 6]
    assert state["missed_hash"].tolist() == [3]  # 2^64 - 1 + 4 wraps
    assert VariantLedger().merge(state, state)["missed_hash"].tolist() == [6]


def test_a_variant_that_failed_missed_all_usable_rows() -> None:
    state = failed_ledger(six_rows(), np.uint64(7))
    assert state["failed"].tolist() == [2, 1, 1]
    assert state["null_score"].tolist() == state["scored"].tolist() == state["weight"].tolist() == [0, 0, 0]
    assert state["missed_hash"].tolist() == [7]


def registers_of(hashes: np.ndarray) -> np.ndarray:
    registers = np.zeros(NUM_REGISTERS, np.int64)
    raise_registers(hashes, np.ones(len(hashes), np.bool_), registers)
    return registers


@pytest.mark.parametrize(("num_clusters", "tolerance"), [(0, 0), (1, 0), (100, 0.03), (5_000, 0.05), (200_000, 0.06)])
def test_the_clusters_are_estimated(num_clusters: int, tolerance: float) -> None:
    hashes = np.random.default_rng(7).integers(0, 2**64, num_clusters, np.uint64, endpoint=False)
    registers = np.maximum(registers_of(hashes), registers_of(hashes[: num_clusters // 2]))
    assert abs(cluster_estimate(registers) - num_clusters) <= tolerance * num_clusters
