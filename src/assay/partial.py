"""The states of one unit as they grow: blocks go into accumulators, and what became of each row into the ledgers.

Not here: which rows count and what a block is made of (`task_scores.py`), the arithmetic of states (`states.py`, the
accumulators). With two clusters each state is there in three views: the same rows in buckets of the first cluster, of
the second and of both.

A later bundle of a run leaves to the first what would otherwise count twice: the tasks' ledgers and the baseline's own
states, which it makes all the same, for they are what a variant that fails has missed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator
from assay.records import Block, State, StateKey, View
from assay.task_scores import ChunkRows, Layout, TaskScores

Part = Literal["scored", "baseline_only", "variant_only"]
PARTS: tuple[Part, ...] = ("scored", "variant_only", "baseline_only")


class Partial:
    """The states of one unit as they grow, chunk by chunk."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.num_read = 0
        self._failed = {(task, part): VariantLedger().zero(layout.sizes) for task, part in self._tasks_and_parts()}
        self._states: dict[StateKey, State] = {
            _task_key(task, part): TaskLedger().zero(layout.sizes) for task, part in self._tasks_and_parts()
        }
        for task, variant in layout.outputs:
            for part in layout.parts:
                self._states[_variant_key(task, variant, part)] = VariantLedger().zero(layout.sizes)
            for accumulator in layout.accumulators[task]:
                for view in dict.fromkeys((*layout.views, *layout.parts)):
                    self._states[_scored_key(task, variant, accumulator, view)] = accumulator.zero(layout.sizes)

    @property
    def states(self) -> Mapping[StateKey, State]:
        """All that counts here."""
        if self._layout.leads:
            return self._states
        counted = self._layout.counted
        return {key: state for key, state in self._states.items() if key.variant in counted}

    @property
    def missed(self) -> str:
        """Of one bundle of several, a digest of the rows that the baseline gave no score; "" where it gave all one."""
        baseline, found = self._layout.baseline, list[int]()
        for task, part in self._tasks_and_parts() if self._layout.bundled and baseline is not None else ():
            ledger = self._states.get(_variant_key(task, baseline or "", part))
            found.append(0 if ledger is None else int(ledger["missed_hash"][0]))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16] if any(found) else ""

    def _tasks_and_parts(self) -> Iterator[tuple[str, View]]:
        for task in self._layout.accumulators:
            for part in self._layout.parts:
                yield task, part

    def count(self, chunk: ChunkRows) -> None:
        """The chunk's rows in what does not depend on a variant; once for each chunk."""
        self.num_read += chunk.rows.num_read
        for task, part in self._tasks_and_parts():
            usable, key = chunk.parts[part][task], _task_key(task, part)
            self._states[key] = TaskLedger().merge(self._states[key], usable.counted)
            self._failed[task, part] = VariantLedger().merge(self._failed[task, part], usable.failed)

    def add(self, variant: str, scored: Mapping[str, TaskScores], baseline: Mapping[str, TaskScores] | None) -> None:
        """What a variant made of a chunk. baseline: the same of the baseline; None where there is none."""
        for task, scores in scored.items():
            self._add_ledger(_variant_key(task, variant), scores)
            for view, block in scores.views():
                self._update(task, variant, "scored", view, block)
            if baseline is not None and variant != self._layout.baseline:
                self._correct(task, variant, scores, baseline[task])
            if scores.selection is not None:
                self._add_ledger(_variant_key(task, variant, "selection"), scores.selection)
                self._update(task, variant, "scored", "selection", scores.selection.block)

    def _add_ledger(self, key: StateKey, scores: TaskScores) -> None:
        self._states[key] = VariantLedger().merge(self._states[key], scores.ledger())

    def fail(self, variants: Collection[str]) -> None:
        """All that these variants made of the unit is removed, their rows are counted as failed, and what the baseline
        scored (unless it is among them) becomes what they missed."""
        for task, variant in self._layout.outputs:
            if variant in variants:
                for part in self._layout.parts:
                    self._states[_variant_key(task, variant, part)] = self._failed[task, part]
                self._forget(task, variant, keep_baseline=self._layout.baseline not in variants)

    def _correct(self, task: str, variant: str, scores: TaskScores, baseline: TaskScores) -> None:
        missed, extra = baseline.present & ~scores.present, scores.present & ~baseline.present
        if missed.any():
            for view, block in baseline.views(missed):
                self._update(task, variant, "baseline_only", view, block)
        if extra.any():
            for view, block in scores.views(extra):
                self._update(task, variant, "variant_only", view, block)

    def _update(self, task: str, variant: str, part: Part, view: View, block: Block) -> None:
        if not len(block.label):
            return
        for accumulator in self._layout.accumulators[task]:
            key = StateKey(task, variant, accumulator.identity, part, view)
            state = self._states[key] if key in self._states else accumulator.zero(self._layout.sizes)
            self._states[key] = accumulator.update(state, block)

    def _forget(self, task: str, variant: str, *, keep_baseline: bool) -> None:
        baseline = self._layout.baseline
        scored_any = (
            keep_baseline and baseline is not None and self._states[_variant_key(task, baseline)]["scored"][0] > 0
        )
        for accumulator in self._layout.accumulators[task]:
            for view in dict.fromkeys((*self._layout.views, *self._layout.parts)):
                key = _scored_key(task, variant, accumulator, view)
                for part in PARTS:
                    self._states.pop(key._replace(part=part), None)
                if scored_any and baseline is not None and view != "selection":
                    missed = self._states[_scored_key(task, baseline, accumulator, view)]
                    self._states[key._replace(part="baseline_only")] = missed


def _task_key(task: str, view: View = "") -> StateKey:
    return StateKey(task, "", TaskLedger.identity, "scored", view)


def _variant_key(task: str, variant: str, view: View = "") -> StateKey:
    return StateKey(task, variant, VariantLedger.identity, "scored", view)


def _scored_key(task: str, variant: str, accumulator: Accumulator, view: View = "") -> StateKey:
    return StateKey(task, variant, accumulator.identity, "scored", view)
