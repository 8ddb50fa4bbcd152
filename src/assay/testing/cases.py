"""A metric on some rows: from blocks to states to values, under every form that states can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assay.protocols import Accumulator, Metric
from assay.records import Block, LabelKind, Replicates, Sizes, State, StateChoice
from assay.testing.rows import CLASSES, SIZES

CHOICES = tuple(
    StateChoice(exact_ranking, bucketed) for exact_ranking in (True, False) for bucketed in ("all", "overall", "none")
)
"""Every form that states can take in a run. For metrics of classes and of labels see `choices_of`."""


def choices_of(label_kind: LabelKind | None) -> tuple[StateChoice, ...]:
    """Every form of states of a task with that kind of label; with classes or labels, those are `CLASSES`."""
    classes = CLASSES if label_kind in ("class", "labels") else ()
    return tuple(replace(choice, classes=classes) for choice in CHOICES)


def evaluate(metric: Metric, *blocks: Block, choice: StateChoice, sizes: Sizes | None = None) -> Replicates:
    """The metric on all rows of the blocks; by default with slice 0 alone and 64 buckets.

    >>> from assay.metrics.ranking import AUC
    >>> from assay.testing import make_block
    >>> rows = make_block([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> evaluate(AUC(), rows, choice=CHOICES[0]).value.tolist()
    [0.75]
    """
    sizes = Sizes(1, SIZES.num_buckets) if sizes is None else sizes
    states = {one.identity: _update(one, blocks, sizes) for one in metric.accumulators(choice)}
    return metric.evaluate(states, choice, 1.0)


States = Mapping[str, State]


@dataclass(frozen=True, slots=True)
class Case:
    """A metric under one choice of states, with rows to check it on."""

    metric: Metric
    choice: StateChoice
    block: Block
    bounds: tuple[float, float]
    counts_rows: bool
    ordered: bool

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return self.metric.accumulators(self.choice)

    def states(self, *parts: Block) -> States:
        """States that are updated with one part after the other."""
        return {one.identity: _update(one, parts, SIZES) for one in self.accumulators}

    def merge(self, left: States, right: States) -> States:
        return {one.identity: one.merge(left[one.identity], right[one.identity]) for one in self.accumulators}

    def subtract(self, whole: States, part: States) -> States:
        return {one.identity: one.subtract(whole[one.identity], part[one.identity]) for one in self.accumulators}

    def evaluate(self, states: States, weight_unit: float = 1.0) -> Replicates:
        return self.metric.evaluate(states, self.choice, weight_unit)

    def require(self, condition: bool, law: str) -> None:
        if not condition:
            raise AssertionError(f"The metric {self.metric.name!r} breaks a law under {self.choice}: {law}.")


def _update(accumulator: Accumulator, parts: Iterable[Block], sizes: Sizes) -> State:
    state = accumulator.zero(sizes)
    for part in parts:
        state = accumulator.update(state, part)
    return state
