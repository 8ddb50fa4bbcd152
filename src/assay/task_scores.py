"""From scores to blocks: which rows of a chunk count for a task, and what one variant made of them.

A row counts for a task ("usable") when it passes the task's filter, its label is not null and its weight is above 0.
Rows of weight 0 touch nothing but the count of rows read. A usable row is "present" for a variant that has a score for
it.

Not here: calling models (`scoring.py`), and the states that blocks go into (`partial.py`).

With two clusters each row stands in buckets of the first cluster, of the second and of both. Where clusters are set
apart to select by, their rows are in no other state than their own ledgers and what each variant scored, of the view
"selection".

Axes: n rows of a chunk, m usable rows of a task in it, S slices, D dimensions, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.hashing import in_part, own_buckets, pair_hash
from assay.kernels.elementary import sigmoid, softmax
from assay.ledgers import (
    Fate,
    TaskCounts,
    VariantCounts,
    failed_ledger,
    task_ledger,
    variant_ledger,
    with_scores,
)
from assay.protocols import Accumulator
from assay.records import Block, Rows, Sizes, State, Task, TaskRows, View
from assay.spec.model import NO_SCORE, OutputKind

Item = TypeVar("Item", bound=np.generic)
Scores = Mapping[str, NDArray[np.floating]]
"""{task: scores [n]; [n, C] of several classes or labels, [n, 2] of intervals}"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which states a partial has."""

    outputs: Mapping[tuple[str, str], OutputKind]  # (task, variant) -> what the score is
    accumulators: Mapping[str, tuple[Accumulator, ...]]  # by task
    sizes: Sizes
    baseline: str | None
    clusters: tuple[tuple[int, ...], ...] = ((),)  # see `Plan`
    confirm_fraction: float | None = None  # see `Plan`
    tasks: Mapping[str, Task] = field(default_factory=dict)  # by name; one that is not there has a plain label
    compared: frozenset[str] = frozenset()  # tasks with a metric that looks at the baseline's scores
    bundled: bool = False  # Is it that of one bundle of several?
    leads: bool = True  # False: a later bundle, which has the baseline to compare with alone; see `counted`
    beside: frozenset[str] = frozenset()  # variants whose outputs the baseline takes: they are where it is

    @property
    def counted(self) -> frozenset[str]:
        """The variants whose states count here; the baseline's, those of what it takes, and the ledgers of tasks, are
        the first bundle's."""
        variants = frozenset(variant for _, variant in self.outputs)
        return variants if self.leads else variants - {self.baseline} - self.beside

    @property
    def views(self) -> tuple[View, ...]:
        """Of the rows that are judged."""
        return ("",) if len(self.clusters) == 1 else ("", "second", "both")

    @property
    def parts(self) -> tuple[View, ...]:
        """The parts of the rows that have ledgers of their own."""
        return ("",) if self.confirm_fraction is None else ("", "selection")


# ---- the rows that count ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Places:
    """Where the n rows of a chunk stand: in which bucket of which cluster, and in which part of the clusters."""

    bucket: NDArray[np.int32]  # [n]
    shares: NDArray[np.bool_]  # [n] its cluster has no bucket of its own
    others: Mapping[View, NDArray[np.int32]]  # [n] each: by the second cluster and by both
    judged: NDArray[np.bool_]  # [n]; the others serve to select

    @classmethod
    def of(cls, rows: Rows, layout: Layout) -> Places:
        own = [np.array(hashes, np.uint64) for hashes in layout.clusters]
        num_buckets = layout.sizes.num_buckets
        bucket, shares = own_buckets(rows.cluster, own[0], num_buckets)
        others: dict[View, NDArray[np.int32]] = {}
        if rows.second_cluster is not None:
            both = pair_hash(rows.cluster, rows.second_cluster)
            others["second"] = own_buckets(rows.second_cluster, own[1], num_buckets)[0]
            others["both"] = own_buckets(both, own[2], num_buckets)[0]
        fraction = layout.confirm_fraction
        judged = np.ones(len(bucket), np.bool_) if fraction is None else in_part(rows.cluster, fraction)
        return cls(bucket, shares, others, judged)


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
    counted: State  # of the task's ledger, for all n rows of the part
    num_slices: int
    others: Mapping[View, NDArray[np.int32]] = field(default_factory=dict)  # [m] each: bucket by another cluster
    targets: NDArray[np.uint8] | None = None  # [C, m]
    columns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # [m] each

    @classmethod
    def of(cls, rows: Rows, task: TaskRows, places: Places, sizes: Sizes, part: View = "") -> UsableRows:
        """Of one part of the rows: those that are judged, or those that serve to select."""
        fate = _fates(rows, task)
        inside = places.judged if part == "" else ~places.judged
        mask = (fate >= Fate.NULL_CLUSTER) & inside
        label = _select(task.label, mask)
        return cls(
            mask=mask,
            label=label,
            positive=(label != 0).astype(np.uint8),
            weight=_select(rows.weight, mask),
            slices=_select(rows.slices, mask),
            bucket=_select(places.bucket, mask),
            row_hash=_select(rows.row_hash, mask),
            counted=task_ledger(_counts(rows, fate, places, inside, part), sizes),
            num_slices=sizes.num_slices,
            others={view: _select(bucket, mask) for view, bucket in places.others.items()} if part == "" else {},
            targets=None if task.targets is None else _select(task.targets, mask),
            columns={name: _select(column, mask) for name, column in task.columns.items()},
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


def _counts(rows: Rows, fate: NDArray[np.int32], places: Places, inside: NDArray[np.bool_], part: View) -> TaskCounts:
    """The rows of a part for its ledger; those that the filter dropped, whose cluster is not known, are judged ones."""
    return TaskCounts(
        num_dropped=rows.num_read - len(fate) if part == "" else 0,
        fate=_select(fate, inside),
        slices=_select(rows.slices, inside),
        bucket=_select(places.bucket, inside),
        cluster=_select(rows.cluster, inside),
        shares=_select(places.shares, inside),
    )


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
    selection: TaskScores | None = None  # of the rows that serve to select

    @classmethod
    def of(
        cls,
        usable: UsableRows,
        scores: NDArray[np.floating],
        kind: OutputKind,
        task: Task | None = None,
    ) -> TaskScores:
        """scores: as a model gives them for the n rows; one that is NaN or infinite is missing."""
        raw, outputs = _read(scores if usable.mask.all() else scores[usable.mask], kind, task)
        present = np.isfinite(raw)
        with np.errstate(over="ignore"):  # a score beyond float32 ranks as infinite
            ranking = raw.astype(np.float32) + np.float32(0)  # -0.0 + 0.0 is 0.0
        block = Block(
            raw=raw,
            ranking=ranking,
            probability=None,
            label=usable.label,
            positive=np.zeros_like(usable.positive) if _is_class(task) else usable.positive,
            weight=usable.weight,
            slices=usable.slices,
            bucket=usable.bucket,
            outputs=outputs,
            targets=usable.targets,
            columns=usable.columns,
        ).take(present)
        return cls(usable, present, replace(block, probability=_probability(block, kind)))

    def as_reference(self) -> NDArray[np.float64]:
        """[m] what others are compared with: the probability where there is one, the number of the predicted class
        where there are several, else the score; NaN where missing."""
        plain = self.block.probability is None or self.block.outputs is not None
        known = self.block.raw if plain else self.block.probability
        reference = np.full(len(self.present), np.nan)
        reference[self.present] = known
        return reference

    def rows(self, chosen: NDArray[np.bool_]) -> Block:
        """The block of the rows chosen [m], each of which must be present."""
        return self.block.take(chosen[self.present])

    def views(self, chosen: NDArray[np.bool_] | None = None) -> Iterator[tuple[View, Block]]:
        """The block of the rows present, or of those chosen among them, in the buckets of each view."""
        block = self.block if chosen is None else self.rows(chosen)
        yield "", block
        for view, bucket in self.usable.others.items():
            yield view, replace(block, bucket=_select(bucket, self.present if chosen is None else chosen))

    def ledger(self) -> State:
        counted = self.usable.all_present if self.present.all() else self.usable.ledger(self.present)
        block = self.block
        scores = block.raw if block.probability is None else block.probability
        numbers = np.asarray(scores[None] if block.outputs is None else block.outputs, np.float64)
        return with_scores(counted, _select(self.usable.row_hash, self.present), numbers, block.slices)


class ChunkRows:
    """The rows of one chunk with all that its variants share."""

    def __init__(self, rows: Rows, layout: Layout) -> None:
        self.rows = rows
        self._layout = layout
        places = Places.of(rows, layout)
        self.parts: dict[View, dict[str, UsableRows]] = {
            part: {
                task: UsableRows.of(rows, rows.tasks[task], places, layout.sizes, part) for task in layout.accumulators
            }
            for part in layout.parts
        }

    @property
    def usable(self) -> dict[str, UsableRows]:
        """By task, the rows that are judged."""
        return self.parts[""]

    def scored(
        self, variant: str, scores: Scores, baseline: Mapping[str, TaskScores] | None = None
    ) -> dict[str, TaskScores]:
        """baseline: what it made of the chunk, for others than itself; None where it made nothing."""
        own = variant == self._layout.baseline
        return {task: self._scored(task, variant, scores[task], None if own else baseline) for task in scores}

    def _scored(
        self, task: str, variant: str, scores: NDArray[np.floating], baseline: Mapping[str, TaskScores] | None
    ) -> TaskScores:
        compared = None if baseline is None else baseline[task]
        judged = self._of_part(task, variant, scores, "", compared)
        if "selection" not in self.parts:
            return judged
        compared = None if compared is None else compared.selection
        return replace(judged, selection=self._of_part(task, variant, scores, "selection", compared))

    def _of_part(
        self, task: str, variant: str, scores: NDArray[np.floating], part: View, baseline: TaskScores | None
    ) -> TaskScores:
        layout, usable = self._layout, self.parts[part][task]
        made = TaskScores.of(usable, scores, layout.outputs[task, variant], layout.tasks.get(task))
        if task not in layout.compared:
            return made
        compared = made if variant == layout.baseline else baseline
        reference = np.full(len(usable.label), np.nan) if compared is None else compared.as_reference()
        return replace(made, block=replace(made.block, reference=reference[made.present]))


class _Read(NamedTuple):
    """What a model's scores say of m rows."""

    raw: NDArray[np.float64]  # [m], NaN where missing
    outputs: NDArray[np.float32] | NDArray[np.float64] | None  # [C, m]


def _read(scores: NDArray[np.floating], kind: OutputKind, task: Task | None) -> _Read:
    if kind == "interval":
        lower, upper = np.ascontiguousarray(scores.reshape(-1, 2).T, np.float64)
        return _Read(lower / 2 + upper / 2, np.stack([lower, upper]))
    if kind == NO_SCORE or task is None or not task.classes or (kind == "label" and task.label_kind == "class"):
        return _Read(scores.astype(np.float64, copy=False), None)
    scores = scores.reshape(-1, len(task.classes))
    missing = ~np.isfinite(scores).all(axis=1)
    if task.label_kind == "labels":
        raw, outputs = np.zeros(len(scores)), np.ascontiguousarray(scores.T, np.float32)
        if kind == "logit":
            outputs = sigmoid(scores.T.astype(np.float64).ravel()).reshape(outputs.shape).astype(np.float32)
    else:
        raw = scores.astype(np.float32).argmax(axis=1).astype(np.float64)  # the first of several equal ones
        chances = softmax(scores.astype(np.float64)) if kind == "logit" else scores
        outputs = np.ascontiguousarray(chances.T, np.float32)
    raw[missing] = np.nan
    return _Read(raw, outputs)


def _is_class(task: Task | None) -> bool:
    return task is not None and task.label_kind == "class"


def _probability(block: Block, kind: OutputKind) -> NDArray[np.float32] | None:
    """With several classes or labels, of the most likely one."""
    if kind in ("score", "interval", NO_SCORE):
        return None
    if block.outputs is not None:
        return np.asarray(block.outputs.max(axis=0, initial=0.0), np.float32)
    if kind == "label":
        return None
    return sigmoid(block.raw).astype(np.float32) if kind == "logit" else block.ranking


def _select(array: NDArray[Item], mask: NDArray[np.bool_]) -> NDArray[Item]:
    """The rows of [..., n] where mask [n] holds, contiguous; the array itself when that is all of them."""
    return array if mask.all() else np.ascontiguousarray(array[..., mask])
