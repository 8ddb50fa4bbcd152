"""What can be wrong with gates before the run, each with its whole sentence, and the words of gates."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from assay.errors import Fault
from assay.gates.rules import check_gates, rule_of, words_of
from assay.protocols import Direction
from assay.spec.model import GateSpec, Spec


@dataclass(frozen=True)
class Named:
    name: str
    direction: Direction
    nonnegative: bool = True


METRICS = {
    "click": (Named("auc", "higher"), Named("log_loss", "lower"), Named("count", None)),
    "buy": (Named("auc", "higher"), Named("r2", "higher", nonnegative=False), Named("calibration_ratio", 1.0)),
}


def faults(gate: dict, baseline: str | None = "prod") -> list[Fault]:
    variants = [{"name": "prod", "column": "p"}, {"name": "new", "column": "q"}]
    spec = Spec.model_validate(
        {"data": {"path": "x", "label": "y"}, "variants": variants, "baseline": baseline, "gates": [gate]}
    )
    return check_gates(spec, METRICS, ["country", "device", "country,device"])


@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "log_loss", "margin": 0.001},
        {"metric": "log_loss", "improve": "0.1%"},
        {"metric": "auc", "slices": "country", "harm": True},
        {"metric": "auc", "task": "buy", "slices": ["country", "country,device"], "margin": 0},
        {"metric": "r2", "min": -0.5},
        {"metric": "count", "min": 1000},
        {"metric": "calibration_ratio", "margin": 0.01},
        {"coverage": 0.99, "slices": "country"},
        {"same_rows": True},
    ],
)
def test_without_fault(gate):
    assert faults(gate) == []


@pytest.mark.parametrize(
    ("gate", "place", "sentence"),
    [
        (
            {"metric": "auc"},
            "gates[0]",
            "The gate has no rule. Expected exactly one of margin, improve, harm, min, max, coverage, same_rows.",
        ),
        (
            {"metric": "auc", "margin": 0.1, "max": 1},
            "gates[0]",
            "The gate has the rules margin, max: make each a gate of its own. "
            "Expected exactly one of margin, improve, harm, min, max, coverage, same_rows.",
        ),
        ({"margin": 0.1}, "gates[0]", "margin needs a metric; add `metric: NAME`."),
        (
            {"metric": "auc", "coverage": 0.9},
            "gates[0].metric",
            "coverage judges rows, not a metric; remove `metric: auc`.",
        ),
        (
            {"metric": "log_los", "margin": 0.1},
            "gates[0].metric",
            "'log_los' is not among the metrics of the spec; did you mean 'log_loss'?",
        ),
        (
            {"metric": "log_loss", "task": "buy", "margin": 0.1},
            "gates[0].metric",
            "'log_loss' is not among the metrics of task 'buy'; expected 'auc', 'r2' or 'calibration_ratio'.",
        ),
        ({"coverage": 0.9, "task": "bye"}, "gates[0].task", "There is no task 'bye'; did you mean 'buy'?"),
        (
            {"metric": "auc", "slices": "contry", "harm": True},
            "gates[0].slices",
            "There is no slicing dimension 'contry'; did you mean 'country'?",
        ),
        (
            {"same_rows": True, "slices": "country"},
            "gates[0].slices",
            "same_rows compares all rows at once; remove `slices`.",
        ),
        (
            {"metric": "count", "margin": 5},
            "gates[0].margin",
            "count is neither better when higher nor when lower; use 'min' or 'max'.",
        ),
        (
            {"metric": "r2", "improve": "1%"},
            "gates[0].improve",
            "improve is a share of the baseline, but r2 may be negative or 0; give it in the metric's own units.",
        ),
        (
            {"metric": "auc", "margin": "a lot"},
            "gates[0].margin",
            "margin is 'a lot'; expected a number like 0.001 or a share of the baseline like '0.1%'.",
        ),
        (
            {"metric": "auc", "margin": "1.2.3%"},
            "gates[0].margin",
            "margin is '1.2.3%'; expected a number like 0.001 or a share of the baseline like '0.1%'.",
        ),
        (
            {"metric": "auc", "margin": -0.1},
            "gates[0].margin",
            "margin is -0.1; expected 0 or more, in the direction in which the metric is better.",
        ),
        ({"metric": "auc", "max": float("inf")}, "gates[0].max", "max is inf; expected a finite number."),
    ],
)
def test_fault(gate, place, sentence):
    assert faults(gate) == [Fault(place, sentence)]


@pytest.mark.parametrize(
    "rule", [{"metric": "auc", "margin": 0.1}, {"metric": "auc", "harm": True}, {"same_rows": True}]
)
def test_what_compares_needs_a_baseline(rule):
    kind = next(key for key in rule if key != "metric")

    assert faults(rule, baseline=None) == [
        Fault(f"gates[0].{kind}", f"{kind} compares with the baseline, and the spec names none; add `baseline: NAME`.")
    ]


def test_limits_need_no_baseline():
    assert faults({"metric": "auc", "min": 0.7}, baseline=None) == []
    assert faults({"coverage": 0.9}, baseline=None) == []


def test_all_faults_of_a_gate_at_once():
    places = [fault.path for fault in faults({"metric": "r2", "margin": "-1", "slices": "dvice"}, baseline=None)]

    assert places == ["gates[0].margin", "gates[0].margin", "gates[0].slices", "gates[0].margin"]


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"metric": "auc", "margin": 0.001}, "auc not worse by more than 0.001"),
        ({"metric": "log_loss", "margin": "0.1%"}, "log_loss not worse by more than 0.1% of the baseline"),
        ({"metric": "log_loss", "improve": "2 %"}, "log_loss better by more than 2% of the baseline"),
        (
            {"metric": "auc", "harm": True, "slices": ("country", "device")},
            "auc not significantly worse in each country and each device",
        ),
        ({"metric": "auc", "min": 0.7}, "auc at least 0.7"),
        ({"metric": "ece", "max": 0.01}, "ece at most 0.01"),
        ({"coverage": 0.995, "slices": "country"}, "at least 99.5% of the usable rows scored in each country"),
        ({"same_rows": True}, "the same rows scored as by the baseline"),
    ],
)
def test_words(gate, words):
    assert words_of(GateSpec.model_validate(gate)) == words


def test_rule_of_a_share():
    assert rule_of(GateSpec(metric="auc", margin="1e-1%")) == ("margin", 0.001, True)
