"""Metrics from a user's function: what the function is given, what it may return, and the laws."""

from __future__ import annotations

import pickle
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import assay
from assay.errors import AssayError, MetricError
from assay.metrics.own import Batch, FunctionMetric, own_sum
from assay.records import OwnMetric, Sizes, StateChoice, Undefined
from assay.testing import CHOICES, LAWS, Case, evaluate, make_block, random_block

CHOICE = StateChoice(exact_ranking=True, bucketed="all")
MODULE = """
import numpy as np

from assay.errors import DataError


def revenue(batch, fee=0.0, threshold=0.5):
    return np.where(batch.score >= threshold, batch.label * batch.columns["price"] - fee, 0.0)


def of_buyers(batch):
    return np.where(batch.label > 0, batch.score, np.nan)


def right(batch):
    return (batch.score > 0.5) == (batch.label > 0)


def of_lists(batch):
    return [len(batch)] * len(batch)


def fails(batch):
    return batch.columns["cost"]


def writes(batch):
    batch.score[:] = 0.0
    return batch.score


def short(batch):
    return batch.score[1:]


def words(batch):
    return np.full(len(batch), "much")


def ragged(batch):
    return [[1], [1, 2]]


def infinite(batch):
    return np.full(len(batch), np.inf)


def says(batch):
    raise DataError("The prices are of last year.")


NUMBER = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a user's module that can be imported."""
    (tmp_path / "shop_metrics.py").write_text(MODULE)
    (tmp_path / "broken_metrics.py").write_text("import nothing_like_this\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop_metrics", "broken_metrics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "shop_metrics"


def own(function, columns=(), settings=None, fingerprint="abc"):
    return OwnMetric("revenue", f"shop_metrics:{function}", "higher", tuple(columns), settings or {}, fingerprint)


def block(**kwargs):
    return make_block([0.9, 0.1, 0.6, 0.5], [1, 1, 0, 1], columns={"price": [10.0, 20.0, 30.0, 1.5]}, **kwargs)


def only(metric, rows):
    result = evaluate(FunctionMetric.of(metric), rows, choice=CHOICE)
    return result.reason[0] or result.value[0]


def test_the_weighted_mean_of_what_the_function_says(module):
    assert only(own("revenue", ["price"]), block()) == (10 + 0 + 0 + 1.5) / 4
    assert only(own("revenue", ["price"], {"fee": 1.0}), block()) == (9 + 0 - 1 + 0.5) / 4
    assert only(own("revenue", ["price"], {"threshold": 0.05}), block(weight=[1, 1, 1, 3])) == (10 + 20 + 3 * 1.5) / 6


def test_true_and_lists_are_numbers(module):
    assert only(own("right"), block()) == 0.25
    assert only(own("of_lists"), block()) == 4.0


def test_rows_without_a_value_do_not_enter(module):
    metric = own("of_buyers")
    assert only(metric, block()) == pytest.approx((0.9 + 0.1 + 0.5) / 3, rel=1e-7)
    assert only(metric, make_block([0.5], [0])) is Undefined.NO_VALUES
    assert only(metric, make_block([], [])) is Undefined.NO_ROWS
    sums = own_sum(metric)
    state = sums.update(sums.zero(Sizes(1, 64)), block())
    assert int(state["rows"].sum()) == 3


def test_infinite_values_make_it_undefined(module):
    assert only(own("infinite"), block()) is Undefined.OVERFLOW


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            "shop_metrics:short",
            "Metric 'revenue': 'shop_metrics:short' returned an array of shape [3]; expected an array of 4 numbers, "
            "one for each row of the batch.",
        ),
        (
            "shop_metrics:words",
            "Metric 'revenue': 'shop_metrics:words' returned values of type <U4; expected an array of 4 numbers, one "
            "for each row of the batch.",
        ),
        ("shop_metrics:ragged", "Metric 'revenue': 'shop_metrics:ragged' returned list, which is no array ("),
        ("shop_metrics:fails", "Metric 'revenue': 'shop_metrics:fails' failed with KeyError: 'cost' ("),
        (
            "shop_metrics:writes",
            "Metric 'revenue': 'shop_metrics:writes' failed with ValueError: assignment destination is read-only (",
        ),
        (
            "shop_metrics:revenu",
            "Metric 'revenue': module 'shop_metrics' has no function 'revenu'; did you mean 'revenue'?",
        ),
        ("shop_metrics:NUMBER", "Metric 'revenue': module 'shop_metrics' has no function 'NUMBER'"),
        (
            "broken_metrics:revenue",
            "Metric 'revenue': importing module 'broken_metrics' failed with ModuleNotFoundError: No module named "
            "'nothing_like_this'.",
        ),
        ("revenue", "Metric 'revenue': 'revenue' does not name a function; write \"module:function\"."),
    ],
)
def test_what_is_wrong_names_the_metric(module, function, sentence):
    with pytest.raises(MetricError) as caught:
        only(replace(own("revenue", ["price"]), function=function), block())
    assert str(caught.value).startswith(sentence)
    assert caught.value.metric == "revenue"


def test_the_functions_own_sentences_pass(module):
    with pytest.raises(AssayError, match=re.escape("The prices are of last year.")):
        only(own("says"), block())


def test_an_error_can_be_sent_between_processes():
    error = pickle.loads(pickle.dumps(MetricError("revenue", "it failed.")))
    assert (str(error), error.metric, error.message) == ("Metric 'revenue': it failed.", "revenue", "it failed.")


def test_a_batch_of_classes():
    rng = np.random.default_rng(0)
    rows = random_block(rng, 7, "class")
    batch = Batch.of(rows)
    assert len(batch) == 7
    assert batch.outputs.shape == (7, 5)
    assert batch.outputs[2].tolist() == rows.outputs[:, 2].tolist()
    assert (batch.targets, batch.columns) == (None, {})
    assert not any(one.flags.writeable for one in (batch.score, batch.label, batch.weight, batch.outputs))
    assert rows.raw.flags.writeable
    assert Batch.of(random_block(rng, 7, "labels")).targets.shape == (7, 5)
    assert Batch.of(make_block([0.5], [1], probability=False)).probability is None


def test_the_state_is_that_of_this_code_and_these_columns():
    name = FunctionMetric.of(own("revenue", ["price"])).accumulators(CHOICE)[1].identity
    assert name == "own(shop_metrics:revenue,columns=price,fingerprint=abc).v1"
    others = [own("revenue"), own("revenue", ["price"], fingerprint="abd"), own("right", ["price"])]
    assert name not in {own_sum(one).identity for one in others}


def test_it_is_what_the_spec_says():
    metric = FunctionMetric.of(own("revenue"))
    assert (metric.name, metric.direction, metric.nonnegative) == ("revenue", "higher", False)
    assert metric.label_kind is None
    assert metric.description == "mean of shop_metrics:revenue"
    assert pickle.loads(pickle.dumps(metric)) == metric


@pytest.mark.parametrize("choice", CHOICES[:2])
@pytest.mark.parametrize(("function", "columns"), [("revenue", ["price"]), ("of_buyers", [])])
def test_it_keeps_the_laws(module, choice, function, columns):
    rows = random_block(np.random.default_rng(0), 300, columns=columns)
    metric = FunctionMetric.of(own(function, columns))
    case = Case(metric, choice, rows, (-np.inf, np.inf), counts_rows=False, ordered=False)
    for law in LAWS:
        law(case)


def frame():
    rng = np.random.default_rng(0)
    clicked = rng.integers(0, 2, 900).astype(float)
    return pd.DataFrame(
        {
            "user": np.arange(900),
            "clicked": clicked,
            "price": rng.gamma(2.0, 5.0, 900),
            "old": np.clip(0.3 * clicked + 0.7 * rng.random(900), 0, 1),
            "new": np.clip(0.5 * clicked + 0.5 * rng.random(900), 0, 1),
        }
    )


def run(function, **kwargs):
    entry = {"metric": "revenue", "function": function, "columns": ["price"], "direction": "higher"}
    return assay.evaluate(
        frame(), label="clicked", scores=["old", "new"], baseline="old", cluster="user", metrics=[entry], **kwargs
    )


def test_a_function_in_a_run_has_pairs_and_gates(module):
    done = run("shop_metrics:revenue", gates=[{"metric": "revenue", "margin": 0.5}])
    data = frame()
    earned = {name: float(((data[name] >= 0.5) * data["clicked"] * data["price"]).mean()) for name in ("old", "new")}
    values = dict(zip(done.metrics["variant"].to_pylist(), done.metrics["value"].to_pylist(), strict=True))
    assert values == pytest.approx(earned, rel=1e-6)  # scores are float32
    (pair,) = done.comparisons.to_pylist()
    assert pair["difference"] == pytest.approx(earned["new"] - earned["old"], rel=1e-5)
    assert pair["low"] < pair["difference"] < pair["high"]
    assert done.outcome == "pass"


def test_a_function_that_fails_ends_the_run_with_its_name(module):
    with pytest.raises(MetricError, match=re.escape("Metric 'revenue': 'shop_metrics:fails' failed with KeyError")):
        run("shop_metrics:fails")


def test_an_edited_function_counts_in_the_next_run_of_the_process(module, tmp_path):
    first = run("shop_metrics:revenue").metrics["value"].to_pylist()
    text = MODULE.replace('batch.columns["price"] - fee', '2 * batch.columns["price"] - fee')
    (tmp_path / "shop_metrics.py").write_text(text)
    again = run("shop_metrics:revenue").metrics["value"].to_pylist()
    assert again == pytest.approx([2 * one for one in first])
