"""Choosing the best of many on one part of the clusters, so that they can be judged on the other.

The best of many is partly the luckiest: its value where it was chosen is too good. Its value on the other part is not,
and there the corrections are over the chosen variants alone, whose number does not depend on those data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.errors import Fault
from assay.protocols import Direction, Metric
from assay.records import Verdict
from assay.spec.model import MAIN_TASK, ConfirmSpec
from assay.spec.names import offer
from assay.spec.words import agree, count


class Ranked(NamedTuple):
    """One variant on the part that serves to choose."""

    variant: str
    value: float  # NaN where undefined: such variants come last


class Selection(NamedTuple):
    """Who was chosen, by what and among whom."""

    task: str
    metric: str
    fraction: float  # of the clusters, on which the chosen are judged
    keep: int
    ranked: tuple[Ranked, ...]  # the best first

    @property
    def variants(self) -> tuple[str, ...]:
        """The chosen ones, the best first; never one whose metric is undefined there."""
        return tuple(one.variant for one in self.ranked[: self.keep] if not math.isnan(one.value))


def chosen_by(confirm: ConfirmSpec, metrics: Mapping[str, Sequence[Metric]]) -> tuple[str, Metric]:
    """The task and the metric of a checked spec that variants are chosen by. metrics: by task, as resolved."""
    task = confirm.task or next(iter(metrics))
    among = metrics[task]
    return task, next((one for one in among if one.name == confirm.metric), among[0])


def check_confirm(confirm: ConfirmSpec, metrics: Mapping[str, Sequence[Metric]]) -> list[Fault]:
    """What is wrong with a selection that the tree alone does not show. metrics: by task, as resolved."""
    if confirm.task is not None and confirm.task not in metrics:
        return [Fault("confirm.task", f"there is no task {confirm.task!r}{offer(confirm.task, metrics)}")]
    task = confirm.task or next(iter(metrics))
    known = [one.name for one in metrics[task]]
    if confirm.metric is not None and confirm.metric not in known:
        message = f"{confirm.metric!r} is not among the metrics of task {task!r}{offer(confirm.metric, known)}"
        return [Fault("confirm.metric", message)]
    _, metric = chosen_by(confirm, metrics)
    if metric.direction is None:
        return [
            Fault("confirm.metric", f"{metric.name} is neither better when higher nor when lower; name another metric.")
        ]
    return []


def check_keep(confirm: ConfirmSpec, num_candidates: int) -> list[Fault]:
    """A selection that leaves nobody out has no effect but to lose data."""
    if confirm.keep < num_candidates:
        return []
    candidates = count(num_candidates, "variant")
    return [
        Fault(
            "confirm.keep",
            f"keeps {confirm.keep} of {candidates}, so nothing is chosen; drop confirm to judge all on all rows.",
        )
    ]


def ranked(values: Sequence[Ranked], direction: Direction) -> tuple[Ranked, ...]:
    """The best first: undefined ones last, ties in the order given."""
    return tuple(sorted(values, key=lambda one: _badness(one.value, direction)))


def _badness(value: float, direction: Direction) -> float:
    if math.isnan(value):
        return math.inf
    if direction == "higher":
        return -value
    return value if direction == "lower" else abs(value - float(direction or 0.0))


def verdicts_of_all(
    selection: Selection | None, variants: Sequence[str], judged: Sequence[Verdict]
) -> tuple[Verdict, ...]:
    """A verdict for every compared variant, in their order: those judged, and "not selected" for the others."""
    by_variant = {verdict.variant: verdict for verdict in judged}
    return tuple(
        by_variant[variant] if selection is None or variant in by_variant else _not_selected(selection, variant)
        for variant in variants
    )


def _not_selected(selection: Selection, variant: str) -> Verdict:
    rank, value = next((rank, one.value) for rank, one in enumerate(selection.ranked, 1) if one.variant == variant)
    return Verdict(
        variant,
        "not selected",
        f"Its {_measure(selection)} is {_number(value)} on the part that serves to choose, rank {rank} of "
        f"{len(selection.ranked)}; the best {agree(selection.keep, 'one was', f'{selection.keep} were')} judged.",
        (),
    )


def selection_notes(selection: Selection, judged: Mapping[str, float]) -> list[str]:
    """How it was chosen, and the optimism: each chosen variant's value on both parts. judged: value by variant."""
    among, share = count(len(selection.ranked), "variant"), 100 * selection.fraction
    chosen = [one for one in selection.ranked if one.variant in selection.variants]
    num = len(chosen)
    how = (
        f"{num} of {among} {agree(num, 'was', 'were')} chosen by {_measure(selection)} on {100 - share:g} % of the "
        f"clusters and judged on the other {share:g} %; all intervals and corrections are of the latter, over the "
        "chosen alone."
    )
    undefined = [] if num == selection.keep else [_too_few(selection, num)]
    return [how, *undefined, *(_optimism(selection, one, judged[one.variant]) for one in chosen)]


def _too_few(selection: Selection, num: int) -> str:
    return (
        f"{_measure(selection)} is undefined for the others on the part that serves to choose, so {num} of "
        f"{selection.keep} could be chosen; set confirm.fraction lower, or name another metric."
    )


def _optimism(selection: Selection, chosen: Ranked, judged: float) -> str:
    return (
        f"{chosen.variant}: {_measure(selection)} {_number(chosen.value)} where it was chosen, {_number(judged)} where "
        "it is judged."
    )


def _measure(selection: Selection) -> str:
    return selection.metric if selection.task == MAIN_TASK else f"{selection.metric} of task {selection.task}"


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.6g}"
