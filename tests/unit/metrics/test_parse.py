"""The grammar of metric names, and every sentence it can refuse one with."""

from __future__ import annotations

import pytest

from assay.metrics import multiclass, one_class, one_label
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
        ("f1(class=cat)", ("f1", {"class": "cat"})),
        ("f1(class=3)", ("f1", {"class": 3})),
        ("f1( class = big_cat.v2-b , threshold=1e-3)", ("f1", {"class": "big_cat.v2-b", "threshold": 0.001})),
        ("f1(class='two words')", ("f1", {"class": "two words"})),
        ('f1(class="it\'s, (a) = b")', ("f1", {"class": "it's, (a) = b"})),
        (r"f1(class='it\'s \\')", ("f1", {"class": "it's \\"})),
        ("f1(class='')", ("f1", {"class": ""})),
        ("f1(class='3')", ("f1", {"class": "3"})),
        ("f1(class=nan)", ("f1", {"class": "nan"})),
        ("f1(class=Größe)", ("f1", {"class": "Größe"})),
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
        ("f1(0.3)", "In the metric 'f1(0.3)', '0.3' is no parameter; expected 'name=value'."),
        ("f1(t=1,)", "In the metric 'f1(t=1,)', '' is no parameter; expected 'name=value'."),
        (
            "f1(t=so high)",
            "In the metric 'f1(t=so high)', the parameter 't' is 'so high'; expected a number, a word or a text in "
            "quotes.",
        ),
        ("f1(class='cat)", 'In the metric "f1(class=\'cat)", "class=\'cat" has a quote that is not closed.'),
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
    with pytest.raises(
        ValueError, match=r"^In the metric 'precision', the parameter 'threshold' is 'high'; expected a number\.$"
    ):
        make(Precision, "precision", {"threshold": "high"})
    with pytest.raises(ValueError, match=r"^The metric 'count' has no parameter 'k'; it takes none\.$"):
        make(Count, "count", {"k": 3})


def test_a_keyword_of_python_is_a_parameter_too():
    assert make(one_class.Recall, "recall", {"class": "cat"}) == one_class.Recall(class_="cat")
    assert make(one_class.Recall, "recall", {"class": 3}) == one_class.Recall(class_="3")
    with pytest.raises(ValueError, match=r"^The metric 'recall' has no parameter 'clas'; did you mean 'class'\?$"):
        make(one_class.Recall, "recall", {"clas": "cat"})


def test_what_has_no_default_is_asked_for():
    sentence = r"^The metric 'recall' needs the parameter 'class', as in 'recall\(class=\.\.\.\)'\.$"
    with pytest.raises(ValueError, match=sentence):
        make(one_class.Recall, "recall", {})
    sentence = r"^The metric 'top_accuracy' needs the parameter 'k', as in 'top_accuracy@5'\.$"
    with pytest.raises(ValueError, match=sentence):
        make(multiclass.TopAccuracy, "top_accuracy", {})


CLASS_NAMES = [
    "cat",
    "two words",
    "3",
    "03",
    "-1",
    "+1",
    "1.50",
    "1e3",
    "nan",
    "it's",
    'say "a"',
    "a\\b",
    "",
    "a,b=c(d)",
]


@pytest.mark.parametrize("text", [*CLASS_NAMES, " ", "Ü"])
def test_any_class_name_survives_the_metric_name(text):
    for metric in (one_class.Recall(class_=text), one_label.Recall(label=text, threshold=0.25)):
        name, parameters = parse(metric.name)
        again = make(type(metric), name, parameters)
        assert again == metric
        assert again.name == metric.name
