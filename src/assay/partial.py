"""From scores to the partial of a unit: which rows count, what accumulators are updated with, and the ledgers.

A row counts for a task ("usable") when it passes the task's filter, its label is not null and its weight is above 0.
Rows of weight 0 touch nothing but the count of rows read. A usable row is "present" for a variant that has a score for
it.

Not here: calling models (`scoring.py`), the arithmetic of states (`states.py`, the accumulators).

Axes: n rows of a chunk, m usable rows of a task in it, S slices, D dimensions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.hashing import bucket_of
from assay.kernels.elementary import sigmoid
from assay.ledgers import (
    Fate,
    TaskCounts,
    TaskLedger,
    VariantCounts,
    VariantLedger,
    failed_ledger,
    task_ledger,
    variant_ledger,
)
from assay.protocols import Accumulator
from assay.records import Block, Rows, Sizes, State, StateKey, TaskRows
from assay.spec.model import OutputKind

Item = TypeVar("Item", bound=np.generic)
Scores = Mapping[str, NDArray[np.floating]]
"""{task: scores [n]}"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which states a partial has."""

    outputs: Mapping[tuple[str, str], OutputKind]  # (task, variant) -> what the score is
    accumulators: Mapping[str, tuple[Accumulator, ...]]  # by task
    sizes: Sizes
    baseline: str | None


# ---- the rows that count ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UsableRows:
    """The m usable rows of one task in one chunk, and how all its rows were counted."""

    mask: NDArray[np.bool_]  # [n]
    label: NDArray[np.float64]  # [m], and so all that follow
    positive: NDArray[np.uint8]
    weight: NDArray[np.int64]
    slices: NDArray[np.int32]  # [D, m]
    bucket: NDArray[np.int32]
    row_hash: NDArray[np.uint64]
    counted: State  # of the task's ledger, for all n rows
    num_slices: int

    @classmethod
    def of(cls, rows: Rows, task: TaskRows, bucket: NDArray[np.int32], sizes: Sizes) -> UsableRows:
        fate = _fates(rows, task)
        mask = fate >= Fate.NULL_CLUSTER
        num_dropped = rows.num_read - len(fate)
        label = _select(task.label, mask)
        return cls(
            mask=mask,
            label=label,
            positive=(label != 0).astype(np.uint8),
            weight=_select(rows.weight, mask),
            slices=_select(rows.slices, mask),
            bucket=_select(bucket, mask),
            row_hash=_select(rows.row_hash, mask),
            counted=task_ledger(TaskCounts(num_dropped, fate, rows.slices, bucket, rows.cluster), sizes),
            num_slices=sizes.num_slices,
        )

    @cached_property
    def all_present(self) -> State:
        """The variant ledger when each of these rows has a score: the same for all variants, so made once."""
        return self.ledger(np.ones(len(self.label), np.bool_))

    @property
    def failed(self) -> State:
        """The variant ledger when the variant failed on these rows."""
        return failed_ledger(self.counted, self.row_hash.sum(dtype=np.uint64))

    def ledger(self, present: NDArray[np.bool_]) -> State:
        """The variant ledger of these rows when some [m] have a score."""
        return variant_ledger(VariantCounts(present, self.slices, self.weight, self.row_hash), self.num_slices)


def _fates(rows: Rows, task: TaskRows) -> NDArray[np.int32]:
    """The Fate of each of the n rows: the least that holds for it."""
    fate = np.full(len(rows.weight), Fate.USABLE, np.int32)
    fate[rows.null_cluster] = Fate.NULL_CLUSTER
    fate[rows.weight < 0] = Fate.NULL_WEIGHT
    fate[np.isnan(task.label)] = Fate.NULL_LABEL
    fate[rows.weight == 0] = Fate.WEIGHTLESS
    fate[~task.member] = Fate.FILTERED
    return fate


@dataclass(frozen=True, slots=True)
class TaskScores:
    """What one variant made of the usable rows of one task."""

    usable: UsableRows
    present: NDArray[np.bool_]  # [m]
    block: Block  # of the rows present

    @classmethod
    def of(cls, usable: UsableRows, scores: NDArray[np.floating], kind: OutputKind) -> TaskScores:
        """scores: [n]; one that is NaN or infinite is missing."""
        raw = _select(scores, usable.mask).astype(np.float64, copy=False)
        present = np.isfinite(raw)
        with np.errstate(over="ignore"):  # a score beyond float32 ranks as infinite
            ranking = raw.astype(np.float32) + np.float32(0)  # -0.0 + 0.0 is 0.0
        block = Block(
            raw=raw,
            ranking=ranking,
            probability=None,
            label=usable.label,
            positive=usable.positive,
            weight=usable.weight,
            slices=usable.slices,
            bucket=usable.bucket,
        ).take(present)
        return cls(usable, present, replace(block, probability=_probability(block, kind)))

    def rows(self, chosen: NDArray[np.bool_]) -> Block:
        """The block of the rows chosen [m], each of which must be present."""
        return self.block.take(chosen[self.present])

    def ledger(self) -> State:
        return self.usable.all_present if self.present.all() else self.usable.ledger(self.present)


class ChunkRows:
    """The rows of one chunk with all that its variants share."""

    def __init__(self, rows: Rows, layout: Layout) -> None:
        self.rows = rows
        self._layout = layout
        bucket = bucket_of(rows.cluster, layout.sizes.num_buckets)
        self.usable = {
            task: UsableRows.of(rows, rows.tasks[task], bucket, layout.sizes) for task in layout.accumulators
        }

    def scored(self, variant: str, scores: Scores) -> dict[str, TaskScores]:
        kinds = self._layout.outputs
        return {task: TaskScores.of(self.usable[task], scores[task], kinds[task, variant]) for task in scores}


def _probability(block: Block, kind: OutputKind) -> NDArray[np.float32] | None:
    if kind == "score":
        return None
    return sigmoid(block.raw).astype(np.float32) if kind == "logit" else block.ranking


def _select(array: NDArray[Item], mask: NDArray[np.bool_]) -> NDArray[Item]:
    """The rows of [..., n] where mask [n] holds, contiguous; the array itself when that is all of them."""
    return array if mask.all() else np.ascontiguousarray(array[..., mask])


# ---- the states of one unit ------------------------------------------------------------------------------------------


class Partial:
    """The states of one unit as they grow, chunk by chunk."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.num_read = 0
        self._failed = {task: VariantLedger().zero(layout.sizes) for task in layout.accumulators}
        self.states: dict[StateKey, State] = {
            _task_key(task): TaskLedger().zero(layout.sizes) for task in layout.accumulators
        }
        for task, variant in layout.outputs:
            self.states[_variant_key(task, variant)] = VariantLedger().zero(layout.sizes)
            for accumulator in layout.accumulators[task]:
                self.states[_scored_key(task, variant, accumulator)] = accumulator.zero(layout.sizes)

    def count(self, chunk: ChunkRows) -> None:
        """The chunk's rows in what does not depend on a variant; once for each chunk."""
        self.num_read += chunk.rows.num_read
        for task, usable in chunk.usable.items():
            self.states[_task_key(task)] = TaskLedger().merge(self.states[_task_key(task)], usable.counted)
            self._failed[task] = VariantLedger().merge(self._failed[task], usable.failed)

    def add(self, variant: str, scored: Mapping[str, TaskScores], baseline: Mapping[str, TaskScores] | None) -> None:
        """What a variant made of a chunk. baseline: the same of the baseline; None where there is none."""
        for task, scores in scored.items():
            key = _variant_key(task, variant)
            self.states[key] = VariantLedger().merge(self.states[key], scores.ledger())
            self._update(task, variant, "scored", scores.block)
            if baseline is not None and variant != self._layout.baseline:
                self._correct(task, variant, scores, baseline[task])

    def fail(self, variants: Collection[str]) -> None:
        """All that these variants made of the unit is removed, their rows are counted as failed, and what the baseline
        scored (unless it is among them) becomes what they missed."""
        for task, variant in self._layout.outputs:
            if variant in variants:
                self.states[_variant_key(task, variant)] = self._failed[task]
                self._forget(task, variant, keep_baseline=self._layout.baseline not in variants)

    def _correct(self, task: str, variant: str, scores: TaskScores, baseline: TaskScores) -> None:
        missed, extra = baseline.present & ~scores.present, scores.present & ~baseline.present
        if missed.any():
            self._update(task, variant, "baseline_only", baseline.rows(missed))
        if extra.any():
            self._update(task, variant, "variant_only", scores.rows(extra))

    def _update(
        self, task: str, variant: str, part: Literal["scored", "baseline_only", "variant_only"], block: Block
    ) -> None:
        if not len(block.label):
            return
        for accumulator in self._layout.accumulators[task]:
            key = StateKey(task, variant, accumulator.identity, part)
            state = self.states[key] if key in self.states else accumulator.zero(self._layout.sizes)
            self.states[key] = accumulator.update(state, block)

    def _forget(self, task: str, variant: str, *, keep_baseline: bool) -> None:
        baseline = self._layout.baseline
        scored_any = (
            keep_baseline and baseline is not None and self.states[_variant_key(task, baseline)]["scored"][0] > 0
        )
        for accumulator in self._layout.accumulators[task]:
            key = _scored_key(task, variant, accumulator)
            for part in ("scored", "variant_only", "baseline_only"):
                self.states.pop(key._replace(part=part), None)
            if scored_any and baseline is not None:
                missed = self.states[_scored_key(task, baseline, accumulator)]
                self.states[key._replace(part="baseline_only")] = missed


def _task_key(task: str) -> StateKey:
    return StateKey(task, "", TaskLedger.identity, "scored")


def _variant_key(task: str, variant: str) -> StateKey:
    return StateKey(task, variant, VariantLedger.identity, "scored")


def _scored_key(task: str, variant: str, accumulator: Accumulator) -> StateKey:
    return StateKey(task, variant, accumulator.identity, "scored")
