"""The grammar of metric names, and every sentence it can refuse one with."""

from __future__ import annotations

import pytest

from assay.metrics.counts import Count
from assay.metrics.parse import canonical, make, parse
from assay.metrics.threshold import Precision


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auc", ("auc", {})),
        (" ndcg @ 10 ", ("ndcg", {"k": 10})),
        ("precision(threshold=0.3)", ("precision", {"threshold": 0.3})),
        ("x@5( a = -1e-3 , b=2)", ("x", {"k": 5, "a": -0.001, "b": 2})),
        ("auc()", ("auc", {})),
    ],
)
def test_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("@5", "'@5' is no metric name; expected one like 'auc', 'ndcg@10' or 'f1(threshold=0.3)'."),
        (
            "f1(threshold=0.3",
            "'f1(threshold=0.3' is no metric name; expected one like 'auc', 'ndcg@10' or 'f1(threshold=0.3)'.",
        ),
        ("f1(0.3)", "In the metric 'f1(0.3)', '0.3' is no parameter; expected 'name=number'."),
        ("f1(t=high)", "In the metric 'f1(t=high)', the parameter 't' is 'high'; expected a number."),
        ("f1(t=1,t=2)", "In the metric 'f1(t=1,t=2)', the parameter 't' is given twice."),
        ("x@5(k=3)", "In the metric 'x@5(k=3)', the parameter 'k' is given twice."),
    ],
)
def test_refusals(text, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        parse(text)
    assert str(caught.value) == sentence


def test_canonical_names_only_what_is_not_the_default():
    defaults = {"a": 1, "b": 0.5}
    assert canonical("x", {"a": 1, "b": 0.5}, defaults) == "x"
    assert canonical("x", {"a": 2.0, "b": 0.25}, defaults) == "x(a=2, b=0.25)"


def test_make():
    assert make(Precision, "precision", {"threshold": 0.3}) == Precision(threshold=0.3)
    with pytest.raises(
        ValueError, match=r"^The metric 'precision' has no parameter 'treshold'; did you mean 'threshold'\?$"
    ):
        make(Precision, "precision", {"treshold": 0.3})
    with pytest.raises(ValueError, match=r"^The metric 'count' has no parameter 'k'; it takes none\.$"):
        make(Count, "count", {"k": 3})
