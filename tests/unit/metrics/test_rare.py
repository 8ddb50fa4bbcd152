"""Values that rest on few rows have no interval; their differences may."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import assay
from assay.metrics.rare import unless_rare
from assay.records import Replicates, Undefined

ROWS = 4000


def wrong_in(*rows):
    """A label and a probability that is on its wrong side in these rows alone; each row is a cluster of its own."""
    label = np.arange(ROWS) % 2
    probability = np.where(label == 1, 0.9, 0.1)
    probability[list(rows)] = 1.0 - probability[list(rows)]
    return label, probability


def found(metric, *rows, **words):
    label, probability = wrong_in(*rows)
    columns = {"y": label, "p": probability, "q": np.where(np.arange(ROWS) % 5 == 0, 0.5, probability)}
    table = {**columns, "user": np.arange(ROWS) // 2}
    result = assay.evaluate(
        pa.table(table),
        label="y",
        scores=["p", "q"],
        baseline="q",
        cluster="user",
        output="probability",
        metrics=[metric],
        **words,
    )
    (row,) = [one for one in result.metrics.to_pylist() if one["variant"] == "p"]
    return row, result


def test_events_are_counted_by_bucket():
    total, without = 10.0, np.full(64, 10.0)
    without[:9] -= 1.0
    nine, every = np.array([[total, *without]]), np.array([[total, *(without - 1.0)]])
    known = Replicates(np.zeros(1), (None,), np.zeros((1, 64)), (None,), np.zeros(1))
    assert unless_rare(known, every, every).alone == (None,)
    assert unless_rare(known, every, nine).alone == (Undefined.RARE,)
    assert unless_rare(known, nine, every).alone == (Undefined.RARE,)


@pytest.mark.parametrize("metric", ["accuracy", "precision", "recall", "f1", "balanced_accuracy", "specificity"])
def test_a_few_errors_give_a_value_and_a_difference_without_an_interval_of_the_value(metric):
    row, result = found(metric, 100, 201, 1000, 2003)
    assert row["value"] > 0.99
    assert (row["low"], row["undefined"]) == (None, "the value rests on rows in fewer than 10 groups of clusters")
    if metric != "recall":  # q finds as many
        assert result.comparisons["low"].null_count == 0


@pytest.mark.parametrize("metric", ["accuracy", "precision", "recall", "false_positive_rate", "f_beta"])
def test_many_errors_have_one(metric):
    row, _ = found(metric, *range(0, ROWS, 39))
    assert row["low"] is not None


def test_classes():
    label, guess = np.arange(ROWS) % 3, np.arange(ROWS) % 3
    guess[[7, 300, 901]] = (guess[[7, 300, 901]] + 1) % 3
    table = pa.table({"y": label, "g": guess, "user": np.arange(ROWS) // 2})
    words = {"label": "y", "classes": [0, 1, 2], "scores": ["g"], "output": "label", "cluster": "user"}
    (row,) = assay.evaluate(table, **words, metrics=["accuracy"]).metrics.to_pylist()
    assert (row["value"], row["undefined"]) == (1 - 3 / ROWS, str(Undefined.RARE))


def test_a_gate_on_few_errors_is_undecided():
    gates = [{"metric": "accuracy", "min": 0.998}]
    _, result = found("accuracy", 100, 201, 1000, gates=gates)
    assert result.outcome == "undecided"
