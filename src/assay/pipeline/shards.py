"""From the committed states of a shard of variants to what their results are made of: the part of the end of a run that
may be done anywhere, shard by shard, so that no process holds the states of all variants.

Lives here: how variants are dealt into shards, and what is kept of each once its states are forgotten. Not here: what
is made of all of them together (`finish.py`), reading and folding (`merge.py`), where tasks run (`cluster/reduce.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from assay import catalogue
from assay.catalogue import Metrics
from assay.errors import RunError
from assay.gates.cases import Case, measure
from assay.gates.selection import chosen_by
from assay.ledgers import TaskLedger, VariantLedger
from assay.merge import LEDGERS, Among, Listed, piled, read_variants
from assay.pipeline.asked import confirm_of
from assay.pipeline.notes import LeftOut, left_out
from assay.protocols import Accumulator
from assay.records import Plan, State, StateKey, Tally, View
from assay.spec.model import Spec, WorkersSpec
from assay.stats.estimate import gather, selection_values
from assay.stats.evidence import VariantEvidence
from assay.stats.families import Seeds, seeds_of
from assay.stats.max_t import Members, members_of
from assay.stats.tables import Tables, tabulate
from assay.store.run import RunDirectory

SHARD_BYTES = 64 << 20
"""Declared bytes of the states of one shard; those of a single variant may be more."""
MOST_LEAVES = 8
"""Of one tree: so many parts of a shard may wait to be folded."""


@dataclass(frozen=True, slots=True)
class VariantFindings:
    """What is kept of one variant."""

    variant: str
    tables: Tables
    cases: tuple[Case, ...]  # of every gate, not yet corrected; () for the baseline
    selection_value: float  # of the metric that variants are chosen by, on the rows that serve to choose; NaN without
    judged_value: float  # the same on the rows that are judged
    members: Members
    seeds: Seeds  # empty where it has no family
    left_out: tuple[LeftOut, ...]
    miscounted: tuple[str, ...]  # tasks in which some usable row is not counted once


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """What became of the rows of one task, whatever the variant; each shard finds the same."""

    task: str
    rows_read: int  # in all parts of the rows, those that serve to choose too
    rows_judged: int  # the same without these
    rows_filtered: int
    null_label: int
    null_weight: int
    any_usable: bool


@dataclass(frozen=True, slots=True)
class ShardFindings:
    variants: tuple[VariantFindings, ...]
    tasks: tuple[TaskCounts, ...]  # of those with a ledger: none where every unit was given up


@dataclass(frozen=True, slots=True)
class Leaf:
    """Some of the files, of which the states of some variants are read."""

    files: tuple[Listed, ...]
    variants: tuple[str, ...]


def trees(spec: Spec, plan: Plan, files: Sequence[Listed], num_leaves: int = 1) -> list[list[Leaf]]:
    """For each shard its leaves: the states of its variants in all files.

    By name, in which order files hold them; as many variants to a shard as the plan's declared bytes allow. num_leaves:
    of a tree at most, at least one.
    """
    held = max(map(len, plan.bundles), default=len(plan.fingerprints))  # by one tally
    size = max(1, SHARD_BYTES * held // max(plan.state_bytes, 1))
    ordered = sorted(variant.name for variant in spec.variants)
    number = max(1, math.ceil(len(ordered) / size))
    step = max(1, math.ceil(len(files) / num_leaves))
    groups = [tuple(files[first : first + step]) for first in range(0, len(files), step)] or [()]
    return [
        [
            Leaf(group, tuple(ordered[len(ordered) * at // number : len(ordered) * (at + 1) // number]))
            for group in groups
        ]
        for at in range(number)
    ]


def in_order(spec: Spec, shards: Iterable[ShardFindings]) -> list[VariantFindings]:
    """Of all variants, in the spec's order."""
    by_variant = {found.variant: found for shard in shards for found in shard.variants}
    return [by_variant[variant.name] for variant in spec.variants]


@dataclass(frozen=True)
class ShardReduction:
    """See protocols.Reduction: leaves are `Leaf`s, parts tallies without receipts, results `ShardFindings`."""

    run: str  # path or URL of the run directory
    base: str
    spec: Spec  # with gates by canonical metrics
    plan: Plan

    def __reduce__(self) -> tuple[type[ShardReduction], tuple[str, str, Spec, Plan]]:
        """Without what it has looked up: each process does for itself."""
        return ShardReduction, (self.run, self.base, self.spec, self.plan)

    @property
    def workers(self) -> WorkersSpec:
        return self.spec.workers

    def read(self, leaf: Leaf) -> Tally:
        wanted = {"", *leaf.variants, *(() if self.spec.baseline is None else (self.spec.baseline,))}
        among = Among(frozenset(task.name for task in self.plan.tasks), frozenset(self.plan.fingerprints))
        tally = self.fold(read_variants(self._directory.open_state, leaf.files, wanted, among))
        check_known(tally, self._accumulators, self.run)
        return tally

    def fold(self, parts: Iterator[Tally] | Sequence[Tally]) -> Tally:
        return piled(parts, self._accumulators)

    def conclude(self, leaf: Leaf, part: Tally) -> ShardFindings:
        selected = self._selected(part, leaf.variants)
        found = [
            self._findings(evidence, part, selected.get(evidence.variant, math.nan))
            for evidence in gather(part, self.plan, self._metrics, leaf.variants, self.spec.baseline)
        ]
        return ShardFindings(tuple(found), tuple(_task_counts(part, self.plan)))

    def _findings(self, evidence: VariantEvidence, tally: Tally, selected: float) -> VariantFindings:
        return VariantFindings(
            variant=evidence.variant,
            tables=tabulate(evidence, self.plan.slices.names),
            cases=tuple(measure(self.spec.gates, evidence, self.plan.slices)) if evidence.compared else (),
            selection_value=selected,
            judged_value=self._judged(evidence),
            members=members_of(evidence),
            seeds=seeds_of(evidence) if evidence.variant in self._with_family else {},
            left_out=left_out(self.plan, tally, evidence.variant),
            miscounted=tuple(_miscounted(tally, self.plan, evidence.variant)),
        )

    def _selected(self, tally: Tally, variants: Sequence[str]) -> Mapping[str, float]:
        """By variant the metric that variants are chosen by, where they are chosen; nothing where nobody is."""
        confirm = confirm_of(self.spec)
        if confirm is None:
            return {}
        name, metric = chosen_by(confirm, self._metrics)
        task = next(one for one in self.plan.tasks if one.name == name)
        return selection_values(tally, self.plan, metric, task, variants)

    def _judged(self, evidence: VariantEvidence) -> float:
        confirm = confirm_of(self.spec)
        if confirm is None:
            return math.nan
        name, metric = chosen_by(confirm, self._metrics)
        task = next(one for one in evidence.tasks if one.task.name == name)
        return float(next(one for one in task.metrics if one.metric.name == metric.name).own.replicates.value[0])

    @cached_property
    def _metrics(self) -> Metrics:
        return catalogue.metrics_of(self.plan.tasks)

    @cached_property
    def _accumulators(self) -> dict[str, Accumulator]:
        return run_accumulators(self.plan)

    @cached_property
    def _directory(self) -> RunDirectory:
        return RunDirectory.for_worker(self.run)

    @cached_property
    def _with_family(self) -> frozenset[str]:
        return frozenset(variant.name for variant in self.spec.variants if variant.family is not None)


def reduction_of(directory: RunDirectory, spec: Spec, plan: Plan, base: str = "") -> ShardReduction:
    """spec: as it was carried out. Without the units: there may be many, and no step needs them."""
    return ShardReduction(directory.store.url, base, spec, replace(plan, units=(), fragments=()))


def run_accumulators(plan: Plan) -> dict[str, Accumulator]:
    """All accumulators of a run, by identity."""
    metrics = catalogue.metrics_of(plan.tasks)
    every = (catalogue.accumulators(metrics[task.name], plan.choice.of(task)) for task in plan.tasks)
    return {one.identity: one for several in every for one in several}


def check_known(tally: Tally, accumulators: Collection[str], place: str) -> None:
    """RunError when there are states of other accumulators than these and the ledgers."""
    foreign = sorted({key.accumulator for key in tally.states} - {*accumulators, *LEDGERS})
    if foreign:
        raise RunError(
            f"The run at {place} holds states of {foreign[0]!r}, which this assay does not read: it was written by "
            "another version. Go on with the assay that wrote it, or start a new run."
        )


def parts_of_rows(plan: Plan) -> tuple[View, ...]:
    """Each row is in the ledgers of one."""
    return ("",) if plan.confirm_fraction is None else ("", "selection")


def _task_counts(tally: Tally, plan: Plan) -> Iterator[TaskCounts]:
    for task in plan.tasks:
        ledgers = {part: _ledger(tally, task.name, part) for part in parts_of_rows(plan)}
        judged = ledgers[""]
        if judged is not None:
            yield TaskCounts(
                task=task.name,
                rows_read=sum(int(one["rows_read"][0]) for one in ledgers.values() if one is not None),
                rows_judged=int(judged["rows_read"][0]),
                rows_filtered=int(judged["rows_filtered"][0]),
                null_label=int(judged["null_label"][0]),
                null_weight=int(judged["null_weight"][0]),
                any_usable=bool(judged["bucket_rows"][0].any()),
            )


def _miscounted(tally: Tally, plan: Plan, variant: str) -> Iterator[str]:
    """Tasks in which what became of the usable rows under a variant does not add up, in some slice."""
    for task in plan.tasks:
        for part in parts_of_rows(plan):
            ledger = _ledger(tally, task.name, part)
            if ledger is None:
                continue
            counts = tally.states.get(StateKey(task.name, variant, VariantLedger.identity, "scored", part))
            usable = ledger["bucket_rows"].sum(axis=1)
            if counts is None or not np.array_equal(counts["null_score"] + counts["failed"] + counts["scored"], usable):
                yield task.name


def _ledger(tally: Tally, task: str, part: View) -> State | None:
    """None where every unit was given up."""
    return tally.states.get(StateKey(task, "", TaskLedger.identity, "scored", part))
