"""The coverage ledgers: what happened to every row of a task, and to every usable row under a variant.

Lives here: the ledgers as mergeable states, and how rows enter them. Not here: which rows are usable (`partial.py`).

Axes: n rows, S slices, D slicing dimensions, B buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.digests import add_digests
from assay.kernels.registers import NUM_REGISTERS, raise_registers
from assay.kernels.scatter import add_counts
from assay.records import IntArray, Sizes, State
from assay.states import add_states

# ---- of a task -------------------------------------------------------------------------------------------------------


class Fate(IntEnum):
    """What became of a row in one task. A row is counted under the first that holds for it."""

    FILTERED = 0  # by the task's own filter
    WEIGHTLESS = 1  # weight 0: read, and nothing else
    NULL_LABEL = 2
    NULL_WEIGHT = 3
    NULL_CLUSTER = 4  # usable
    USABLE = 5


@dataclass(frozen=True, slots=True)
class TaskLedger:
    """What happened to the rows of one task, whatever the variant.

    rows_read [S]: in slice 0 all rows read, also those that the filter dropped; in the others those that pass it.
    rows_filtered [1]: dropped by the run's or the task's filter. null_label, null_weight, null_cluster [S] (a row whose
    label is null is not counted again for its weight). bucket_rows [S, B]: usable rows. cluster_registers [4096]:
    HyperLogLog registers of the usable rows' cluster hashes. shared_bucket [S]: usable rows whose cluster has no bucket
    of its own. So rows_read = rows_filtered + null_label + null_weight +
    usable + those of weight 0, in slice 0 and, with no row filtered, in all others.
    """

    identity: ClassVar[str] = "task_ledger.v2"

    def zero(self, sizes: Sizes) -> State:
        counts = ("rows_read", "null_label", "null_weight", "null_cluster", "shared_bucket")
        return {
            **{name: np.zeros(sizes.num_slices, np.int64) for name in counts},
            "rows_filtered": np.zeros(1, np.int64),
            "cluster_registers": np.zeros(NUM_REGISTERS, np.int64),
            "bucket_rows": np.zeros((sizes.num_slices, sizes.num_buckets), np.int64),
        }

    def merge(self, left: State, right: State) -> State:
        registers = np.maximum(left["cluster_registers"], right["cluster_registers"])
        return {**add_states(left, right), "cluster_registers": registers}


class TaskCounts(NamedTuple):
    """n rows that passed the run's filter, for the task ledger."""

    num_dropped: int  # rows that did not pass
    fate: NDArray[np.int32]  # [n] of Fate
    slices: NDArray[np.int32]  # [D, n]
    bucket: NDArray[np.int32]  # [n]
    cluster: NDArray[np.uint64]  # [n] hashes
    shares: NDArray[np.bool_]  # [n] its cluster has no bucket of its own


def task_ledger(rows: TaskCounts, sizes: Sizes) -> State:
    """The state of a TaskLedger that holds these rows."""
    ones = np.ones(len(rows.fate), np.int64)
    counts = np.zeros((sizes.num_slices, len(Fate)), np.int64)
    add_counts(ones, rows.slices, rows.fate, counts)
    usable = rows.fate >= Fate.NULL_CLUSTER
    bucket_rows = np.zeros((sizes.num_slices, sizes.num_buckets), np.int64)
    add_counts(usable.astype(np.int64), rows.slices, rows.bucket, bucket_rows)
    shared = np.zeros((sizes.num_slices, 1), np.int64)
    add_counts((usable & rows.shares).astype(np.int64), rows.slices, np.zeros_like(rows.bucket), shared)
    registers = np.zeros(NUM_REGISTERS, np.int64)
    raise_registers(rows.cluster, usable, registers)
    num_filtered = rows.num_dropped + int(np.count_nonzero(rows.fate == Fate.FILTERED))
    rows_read = counts[:, Fate.WEIGHTLESS :].sum(axis=1)
    rows_read[0] += num_filtered
    return {
        "rows_read": rows_read,
        "null_label": counts[:, Fate.NULL_LABEL].copy(),
        "null_weight": counts[:, Fate.NULL_WEIGHT].copy(),
        "null_cluster": counts[:, Fate.NULL_CLUSTER].copy(),
        "shared_bucket": shared[:, 0].copy(),
        "rows_filtered": np.array([num_filtered]),
        "cluster_registers": registers,
        "bucket_rows": bucket_rows,
    }


def cluster_estimate(registers: IntArray) -> int:
    """About how many distinct clusters the registers saw: within some 1.6 %, nearly exact for few of them.

    Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", 2007, with linear counting below 2.5 registers' worth.
    """
    harmonic = float(np.ldexp(1.0, -registers.astype(np.int32)).sum())
    estimate = 0.7213 / (1 + 1.079 / NUM_REGISTERS) * NUM_REGISTERS**2 / harmonic
    empty = int(np.count_nonzero(registers == 0))
    if estimate <= 2.5 * NUM_REGISTERS and empty:
        return round(NUM_REGISTERS * math.log(NUM_REGISTERS / empty))
    return round(estimate)


# ---- of a variant ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VariantLedger:
    """What happened to the usable rows of one task under one variant.

    null_score, failed, scored [S] add up to the task's usable rows. weight [S]: integer weights of the scored rows.
    missed_hash [1]: sum, modulo 2^64, of the hashes of usable rows that were not scored: two variants with equal sums
    missed the same rows. score_digest [S]: the same of the rows that were scored, with their scores: two variants with
    equal ones gave the same scores to the same rows.
    """

    identity: ClassVar[str] = "variant_ledger.v2"

    def zero(self, sizes: Sizes) -> State:
        counts = ("null_score", "failed", "scored", "weight")
        state: State = {name: np.zeros(sizes.num_slices, np.int64) for name in counts}
        digests = {"missed_hash": np.zeros(1, np.uint64), "score_digest": np.zeros(sizes.num_slices, np.uint64)}
        return {**state, **digests}

    def merge(self, left: State, right: State) -> State:
        return add_states(left, right)


class VariantCounts(NamedTuple):
    """n usable rows of one task, for the variant ledger."""

    present: NDArray[np.bool_]  # [n] has a score
    slices: NDArray[np.int32]  # [D, n]
    weight: NDArray[np.int64]  # [n]
    row_hash: NDArray[np.uint64]  # [n]


def variant_ledger(rows: VariantCounts, num_slices: int) -> State:
    """The state of a VariantLedger that holds these rows, without the digest of their scores."""
    place = rows.present.astype(np.int32)
    counts, weights = np.zeros((num_slices, 2), np.int64), np.zeros((num_slices, 2), np.int64)
    add_counts(np.ones(len(place), np.int64), rows.slices, place, counts)
    add_counts(rows.weight, rows.slices, place, weights)
    return {
        "null_score": counts[:, 0].copy(),
        "failed": np.zeros(num_slices, np.int64),
        "scored": counts[:, 1].copy(),
        "weight": weights[:, 1].copy(),
        "missed_hash": rows.row_hash[~rows.present].sum(dtype=np.uint64, keepdims=True),
        "score_digest": np.zeros(num_slices, np.uint64),
    }


def with_scores(
    ledger: State, row_hash: NDArray[np.uint64], numbers: NDArray[np.float64], slices: NDArray[np.int32]
) -> State:
    """The state with the digest of the scored rows: their hashes [n], and their scores as numbers [K, n]."""
    digest = np.zeros(len(ledger["score_digest"]), np.uint64)
    add_digests(row_hash, numbers, slices, digest)
    return {**ledger, "score_digest": digest}


def failed_ledger(task: State, row_hash_sum: np.uint64) -> State:
    """The state of a VariantLedger whose variant failed on all usable rows of a task ledger's state.

    row_hash_sum: of all their hashes, modulo 2^64.
    """
    failed = task["bucket_rows"].sum(axis=1)
    zeros = {name: np.zeros_like(failed) for name in ("null_score", "scored", "weight")}
    digests = {"missed_hash": np.array([row_hash_sum]), "score_digest": np.zeros(len(failed), np.uint64)}
    return {**zeros, "failed": failed, **digests}
