"""What a gate asks for: the rule in a gate's spec, its words, and all that can be wrong with it before the run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from assay.errors import Fault
from assay.protocols import Metric
from assay.spec.model import GateSpec, Spec
from assay.spec.names import either, offer

Kind = Literal["margin", "improve", "harm", "min", "max", "coverage", "same_rows"]
KINDS: tuple[Kind, ...] = ("margin", "improve", "harm", "min", "max", "coverage", "same_rows")
PAIRED = ("margin", "improve", "harm")  # judge the difference to the baseline
OF_ROWS = ("coverage", "same_rows")  # judge rows, not a metric

_PERCENT = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*%\s*")


class Rule(NamedTuple):
    """The one rule of a gate."""

    kind: Kind
    limit: float  # 0 for harm, 1 for same_rows; a share of the baseline when relative
    relative: bool

    @property
    def closed(self) -> bool:
        """Whether a value that is exactly at the limit, and known without error, passes."""
        return self.kind != "improve"


def rule_of(gate: GateSpec) -> Rule:
    """The rule of a gate that `check_gates` finds no fault with."""
    kind = _kinds(gate)[0]
    limit, relative = _limit(getattr(gate, kind))
    return Rule(kind, 0.0 if kind == "harm" else limit, relative)


def words_of(gate: GateSpec) -> str:
    """The gate in words, without its task: `log_loss not worse by more than 0.1% of the baseline`."""
    rule = rule_of(gate)
    amount = f"{100 * rule.limit:g}% of the baseline" if rule.relative else f"{rule.limit:g}"
    words = {
        "margin": f"{gate.metric} not worse by more than {amount}",
        "improve": f"{gate.metric} better by more than {amount}",
        "harm": f"{gate.metric} not significantly worse",
        "min": f"{gate.metric} at least {amount}",
        "max": f"{gate.metric} at most {amount}",
        "coverage": f"at least {100 * rule.limit:g}% of the usable rows scored",
        "same_rows": "the same rows scored as by the baseline",
    }[rule.kind]
    return words + (f" in each {' and each '.join(dimensions_of(gate))}" if gate.slices else "")


def dimensions_of(gate: GateSpec) -> tuple[str, ...]:
    """The slicing dimensions that a gate judges; none: only `overall`."""
    return (gate.slices,) if isinstance(gate.slices, str) else gate.slices or ()


def check_gates(spec: Spec, metrics: Mapping[str, Sequence[Metric]], dimensions: Sequence[str]) -> list[Fault]:
    """Everything wrong with the gates of a spec that can be known before the run.

    metrics: by task, as resolved; a gate names a metric by its canonical name. dimensions: names of the slicing
    dimensions, a cross as `country,device`.
    """
    return [
        Fault(f"gates[{position}]{place}", message)
        for position, gate in enumerate(spec.gates)
        for place, message in _faults(gate, spec, metrics, dimensions)
    ]


Finding = tuple[str, str]  # place in the gate, sentence


def _faults(
    gate: GateSpec, spec: Spec, metrics: Mapping[str, Sequence[Metric]], dimensions: Sequence[str]
) -> Iterator[Finding]:
    kinds = _kinds(gate)
    if len(kinds) != 1:
        got = f"has the rules {', '.join(kinds)}: make each a gate of its own" if kinds else "has no rule"
        yield "", f"The gate {got}. Expected exactly one of {', '.join(KINDS)}."
        return
    kind = kinds[0]
    yield from _faults_of_number(kind, getattr(gate, kind))
    if (kind in PAIRED or kind == "same_rows") and spec.baseline is None:
        yield f".{kind}", f"{kind} compares with the baseline, and the spec names none; add `baseline: NAME`."
    yield from _faults_of_slices(gate, kind, dimensions)
    if gate.task is not None and gate.task not in metrics:
        yield ".task", f"There is no task {gate.task!r}{offer(gate.task, metrics)}"
        return
    yield from _faults_of_metric(gate, kind, metrics)


def _faults_of_number(kind: Kind, value: float | str | bool) -> Iterator[Finding]:
    try:
        limit, _ = _limit(value)
    except ValueError:
        yield f".{kind}", f"{kind} is {value!r}; expected a number like 0.001 or a share of the baseline like '0.1%'."
        return
    if not math.isfinite(limit):
        yield f".{kind}", f"{kind} is {limit}; expected a finite number."
    elif limit < 0 and kind in PAIRED:
        yield f".{kind}", f"{kind} is {limit:g}; expected 0 or more, in the direction in which the metric is better."


def _faults_of_slices(gate: GateSpec, kind: Kind, dimensions: Sequence[str]) -> Iterator[Finding]:
    if kind == "same_rows" and gate.slices:
        yield ".slices", "same_rows compares all rows at once; remove `slices`."
        return
    for name in dimensions_of(gate):
        if name not in dimensions:
            yield ".slices", f"There is no slicing dimension {name!r}{offer(name, dimensions)}"


def _faults_of_metric(gate: GateSpec, kind: Kind, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[Finding]:
    if kind in OF_ROWS:
        if gate.metric is not None:
            yield ".metric", f"{kind} judges rows, not a metric; remove `metric: {gate.metric}`."
        return
    if gate.metric is None:
        yield "", f"{kind} needs a metric; add `metric: NAME`."
        return
    tasks = metrics if gate.task is None else {gate.task: metrics[gate.task]}
    known = {metric.name: metric for found in tasks.values() for metric in found}
    metric = known.get(gate.metric)
    if metric is None:
        among = "the spec" if gate.task is None else f"task {gate.task!r}"
        yield ".metric", f"{gate.metric!r} is not among the metrics of {among}{offer(gate.metric, known)}"
        return
    yield from _faults_of_direction(gate, kind, metric)


def _faults_of_direction(gate: GateSpec, kind: Kind, metric: Metric) -> Iterator[Finding]:
    if kind not in PAIRED:
        return
    if metric.direction is None:
        yield f".{kind}", f"{metric.name} is neither better when higher nor when lower; use {either(('min', 'max'))}."
    if isinstance(getattr(gate, kind), str) and not metric.nonnegative:
        yield (
            f".{kind}",
            f"{kind} is a share of the baseline, but {metric.name} may be negative or 0; "
            "give it in the metric's own units.",
        )


def _kinds(gate: GateSpec) -> list[Kind]:
    return [kind for kind in KINDS if getattr(gate, kind) is not None]


def _limit(value: float | str | bool) -> tuple[float, bool]:
    """A number, and whether it is a share of the baseline. ValueError for any other text."""
    if not isinstance(value, str):
        return float(value), False
    found = _PERCENT.fullmatch(value)
    if found is None:
        raise ValueError(value)
    return float(cast(str, found[1])) / 100, True
