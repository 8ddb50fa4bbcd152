"""What a gate asks for: the rule in a gate's spec, its words, and whether its metric can be judged by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from assay.errors import Fault
from assay.protocols import Metric
from assay.spec.checks import RULES_WITHOUT_METRIC
from assay.spec.model import GateSpec
from assay.spec.names import offer
from assay.spec.words import either

Kind = Literal["margin", "improve", "harm", "min", "max", "coverage", "same_rows"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PAIRED = ("margin", "improve", "harm")  # judge the difference to the baseline
OF_ROWS = RULES_WITHOUT_METRIC


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
    """The one rule of a gate of a checked spec."""
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


def check_gates(gates: Sequence[GateSpec], metrics: Mapping[str, Sequence[Metric]]) -> list[Fault]:
    """Everything wrong with gates that the tree alone does not show (`spec/checks.py` looks at that).

    gates: with canonical metric names. metrics: by task, as resolved.
    """
    return [
        Fault(f"gates[{position}]{place}", message)
        for position, gate in enumerate(gates)
        for place, message in _faults(gate, metrics)
    ]


Finding = tuple[str, str]  # place in the gate, sentence


def _faults(gate: GateSpec, metrics: Mapping[str, Sequence[Metric]]) -> Iterator[Finding]:
    if gate.metric is None:
        return
    tasks = metrics if gate.task is None else {gate.task: metrics[gate.task]}
    known = {metric.name: metric for found in tasks.values() for metric in found}
    metric = known.get(gate.metric)
    if metric is None:
        among = "the spec" if gate.task is None else f"task {gate.task!r}"
        yield ".metric", f"{gate.metric!r} is not among the metrics of {among}{offer(gate.metric, known)}"
        return
    yield from _faults_of_direction(gate, _kinds(gate)[0], metric)


def _faults_of_direction(gate: GateSpec, kind: Kind, metric: Metric) -> Iterator[Finding]:
    if kind not in PAIRED:
        return
    if metric.direction is None:
        yield f".{kind}", f"{metric.name} is neither better when higher nor when lower; use {either(('min', 'max'))}."
    if _limit(getattr(gate, kind))[1] and not metric.nonnegative:
        yield (
            f".{kind}",
            f"{kind} is a share of the baseline, but {metric.name} may be negative or 0; "
            "give it in the metric's own units.",
        )


def _kinds(gate: GateSpec) -> list[Kind]:
    return [kind for kind in KINDS if getattr(gate, kind) is not None]


def _limit(value: float | str | bool) -> tuple[float, bool]:
    """A number, and whether it is a share of the baseline: `0.001`, `"0.001"`, `"0.1%"`."""
    if not isinstance(value, str):
        return float(value), False
    number, percent, _ = value.partition("%")
    return float(number) / (100 if percent else 1), bool(percent)
