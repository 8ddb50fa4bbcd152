"""Who is chosen, what is said of the others, and what is wrong with a selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from assay.gates.selection import (
    Ranked,
    Selection,
    check_confirm,
    check_keep,
    chosen_by,
    ranked,
    selection_notes,
    verdicts_of_all,
)
from assay.protocols import Direction
from assay.records import Verdict
from assay.spec.model import ConfirmSpec

VALUES = (Ranked("a", 0.7), Ranked("b", math.nan), Ranked("c", 0.9), Ranked("d", 0.7), Ranked("e", 1.2))


@dataclass(frozen=True)
class Named:
    name: str
    direction: Direction


METRICS = {
    "click": (Named("auc", "higher"), Named("mean_score", None)),
    "buy": (Named("calibration_ratio", 1.0),),
}


def confirm(**said: Any) -> ConfirmSpec:
    return ConfirmSpec.model_validate(said)


@pytest.mark.parametrize(
    ("direction", "order"), [("higher", "ecadb"), ("lower", "adceb"), (1.0, "ceadb")], ids=["higher", "lower", "ideal"]
)
def test_the_best_come_first_ties_as_declared_and_undefined_last(direction: Direction, order: str) -> None:
    assert "".join(one.variant for one in ranked(VALUES, direction)) == order


def test_what_it_is_chosen_by() -> None:
    assert chosen_by(confirm(), METRICS) == ("click", METRICS["click"][0])
    assert chosen_by(confirm(metric="mean_score"), METRICS) == ("click", METRICS["click"][1])
    assert chosen_by(confirm(task="buy"), METRICS) == ("buy", METRICS["buy"][0])


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({}, None),
        ({"task": "buy", "metric": "calibration_ratio"}, None),
        ({"task": "by"}, "confirm.task: there is no task 'by'; did you mean 'buy'?"),
        (
            {"metric": "acu"},
            "confirm.metric: 'acu' is not among the metrics of task 'click'; did you mean 'auc'?",
        ),
        (
            {"metric": "mean_score"},
            "confirm.metric: mean_score is neither better when higher nor when lower; name another metric.",
        ),
    ],
)
def test_faults(said: dict[str, Any], fault: str | None) -> None:
    assert [str(one) for one in check_confirm(confirm(**said), METRICS)] == ([] if fault is None else [fault])


def test_a_choice_that_leaves_nobody_out() -> None:
    assert check_keep(confirm(keep=2), 3) == []
    assert [str(one) for one in check_keep(confirm(keep=3), 3)] == [
        "confirm.keep: keeps 3 of 3 variants, so nothing is chosen; drop confirm to judge all on all rows."
    ]


def test_the_others_are_not_selected() -> None:
    selection = Selection("main", "auc", 0.5, 1, ranked(VALUES, "higher"))
    judged = Verdict("e", "pass", "1 gate passed.", ())

    verdicts = verdicts_of_all(selection, ["a", "b", "e"], [judged])

    assert [one.outcome for one in verdicts] == ["not selected", "not selected", "pass"]
    assert (
        verdicts[0].reason == "Its auc is 0.7 on the part that serves to choose, rank 3 of 5; the best one was judged."
    )
    assert verdicts[1].reason == (
        "Its auc is undefined on the part that serves to choose, rank 5 of 5; the best one was judged."
    )
    assert verdicts_of_all(None, ["e"], [judged]) == (judged,)


def test_the_notes_show_the_optimism() -> None:
    selection = Selection("buy", "auc", 0.3, 2, ranked(VALUES, "higher"))

    assert selection_notes(selection, {"e": 0.8, "c": math.nan}) == [
        "2 of 5 variants were chosen by auc of task buy on 70 % of the clusters and judged on the other 30 %; all "
        "intervals and corrections are of the latter, over the chosen alone.",
        "e: auc of task buy 1.2 where it was chosen, 0.8 where it is judged.",
        "c: auc of task buy 0.9 where it was chosen, undefined where it is judged.",
    ]
