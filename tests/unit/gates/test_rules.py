"""What can be wrong with gates before the run, each with its whole sentence, and the words of gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from assay.errors import Fault
from assay.gates.rules import check_gates, rule_of, words_of
from assay.protocols import Direction
from assay.spec.model import GateSpec


@dataclass(frozen=True)
class Named:
    name: str
    direction: Direction
    nonnegative: bool = True


METRICS = {
    "click": (Named("auc", "higher"), Named("log_loss", "lower"), Named("count", None)),
    "buy": (Named("auc", "higher"), Named("r2", "higher", nonnegative=False), Named("calibration_ratio", 1.0)),
}


def faults(gate: dict[str, Any]) -> list[Fault]:
    return check_gates([GateSpec.model_validate(gate)], METRICS)


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
            {"metric": "log_los", "margin": 0.1},
            "gates[0].metric",
            "'log_los' is not among the metrics of the spec; did you mean 'log_loss'?",
        ),
        (
            {"metric": "log_loss", "task": "buy", "margin": 0.1},
            "gates[0].metric",
            "'log_loss' is not among the metrics of task 'buy'; expected 'auc', 'r2' or 'calibration_ratio'.",
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
    ],
)
def test_fault(gate: dict[str, Any], place: str, sentence: str) -> None:
    assert faults(gate) == [Fault(place, sentence)]


def test_all_faults_of_all_gates_at_once() -> None:
    gates = [GateSpec(metric="count", margin="1%"), GateSpec(metric="acu", min=0.5), GateSpec(coverage=0.9)]
    wrong = [*METRICS["click"][:2], Named("count", None, nonnegative=False)]
    assert [fault.path for fault in check_gates(gates, {"click": wrong})] == [
        "gates[0].margin",
        "gates[0].margin",
        "gates[1].metric",
    ]


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


@pytest.mark.parametrize(
    ("margin", "limit", "relative"),
    [("1e-1%", 0.001, True), ("5 %", 0.05, True), ("0.001", 0.001, False), (2, 2.0, False)],
)
def test_rule_of_a_margin(margin: float | str, limit: float, relative: bool) -> None:
    assert rule_of(GateSpec(metric="auc", margin=margin)) == ("margin", limit, relative)
