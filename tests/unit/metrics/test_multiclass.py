"""Metrics of several classes against scikit-learn, by hand, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from assay.metrics.averages import (
    MacroF1,
    MacroPrecision,
    MacroRecall,
    MicroF1,
    MicroPrecision,
    MicroRecall,
    WeightedF1,
    WeightedPrecision,
    WeightedRecall,
)
from assay.metrics.multiclass import (
    Accuracy,
    BalancedAccuracy,
    Brier,
    CohensKappa,
    ErrorRate,
    LogLoss,
    Matthews,
    TopAccuracy,
)
from assay.metrics.one_class import F1, PositiveRate, Precision, Recall, class_number
from assay.records import Sizes, StateChoice, Undefined
from assay.testing import evaluate, make_block

AVERAGES = [
    MacroPrecision, MacroRecall, MacroF1, MicroPrecision, MicroRecall, MicroF1,
    WeightedPrecision, WeightedRecall, WeightedF1,
]  # fmt: skip
FROM_COUNTS = [*AVERAGES, BalancedAccuracy, CohensKappa, Matthews]


def choice(num_classes, bucketed="all"):
    return StateChoice(exact_ranking=True, bucketed=bucketed, classes=tuple(f"c{i}" for i in range(num_classes)))


def value(metric, score, label, num_classes, **kwargs):
    result = evaluate(metric, make_block(score, label, label_kind="class", **kwargs), choice=choice(num_classes))
    return result.value[0]


def reason(metric, score, label, num_classes):
    return evaluate(metric, make_block(score, label, label_kind="class"), choice=choice(num_classes)).reason[0]


def rows(num_rows, num_classes, seed=0, present=None):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, present or num_classes, num_rows)
    score = rng.gamma(0.7, size=(num_classes, num_rows))
    score[label, np.arange(num_rows)] *= 4
    score = (score / score.sum(axis=0)).astype(np.float32)
    return score, label, rng.integers(1, 50, num_rows)


def sklearn_average(metric, predicted, label, weight):
    average, quantity = metric().name.split("_")
    position = ["precision", "recall", "f1"].index(quantity)
    both = sk.precision_recall_fscore_support(
        label, predicted, average=average, sample_weight=weight, zero_division=np.nan
    )
    return both[position]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("num_rows", "num_classes", "present"), [(500, 3, 3), (200, 10, 7), (3000, 300, 280)])
def test_against_scikit_learn(num_rows, num_classes, present, weighted):
    score, label, weight = rows(num_rows, num_classes, present=present)
    weight = weight if weighted else np.ones(num_rows, int)
    predicted = score.argmax(axis=0)

    def ours(metric):
        return value(metric, score, label, num_classes, weight=weight)

    assert ours(Accuracy()) == pytest.approx(sk.accuracy_score(label, predicted, sample_weight=weight), rel=1e-12)
    assert ours(CohensKappa()) == pytest.approx(sk.cohen_kappa_score(label, predicted, sample_weight=weight), rel=1e-9)
    assert ours(Matthews()) == pytest.approx(sk.matthews_corrcoef(label, predicted, sample_weight=weight), rel=1e-9)
    for metric in AVERAGES:
        assert ours(metric()) == pytest.approx(sklearn_average(metric, predicted, label, weight), rel=1e-12)
    recalls = sk.recall_score(
        label, predicted, labels=np.unique(label), average="macro", sample_weight=weight, zero_division=np.nan
    )
    assert ours(BalancedAccuracy()) == pytest.approx(recalls, rel=1e-12)
    every = np.arange(num_classes)
    probability = score.T.astype(float) / score.sum(axis=0, dtype=float)[:, None]
    log_loss = sk.log_loss(label, probability, sample_weight=weight, labels=every)
    assert ours(LogLoss()) == pytest.approx(log_loss, rel=1e-6)  # scores are float32 and sum to 1 but nearly
    truth = label == every[:, None]
    brier = np.average(((score.astype(float) - truth) ** 2).sum(axis=0), weights=weight)
    assert ours(Brier()) == pytest.approx(brier, rel=1e-8)
    for k in (1, 2, num_classes - 1):
        theirs = sk.top_k_accuracy_score(label, score.T, k=k, sample_weight=weight, labels=every)
        assert ours(TopAccuracy(k)) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("metric", [Precision, Recall, F1])
def test_of_one_class_against_scikit_learn(metric):
    score, label, weight = rows(400, 4)
    predicted = score.argmax(axis=0)
    theirs = sk.precision_recall_fscore_support(label, predicted, sample_weight=weight)
    ours = [value(metric(f"c{i}"), score, label, 4, weight=weight) for i in range(4)]
    assert ours == pytest.approx(theirs[["precision", "recall", "f1"].index(metric.word)].tolist(), rel=1e-12)


@pytest.mark.parametrize("metric", FROM_COUNTS)
def test_weights_are_repeated_rows_and_buckets_are_left_out(metric):
    score, label, weight = rows(60, 4, seed=1)
    bucket = np.arange(60) % 5
    result = evaluate(
        metric(),
        make_block(score, label, label_kind="class", weight=weight, bucket=bucket),
        choice=choice(4),
        sizes=Sizes(1, 5),
    )
    for one in range(5):
        kept = np.repeat(np.flatnonzero(bucket != one), weight[bucket != one])
        expected = value(metric(), score[:, kept], label[kept], 4)
        assert result.without[0, one] == pytest.approx(expected, rel=1e-12)


def test_predicted_classes_alone_and_one_that_is_none_of_them():
    predicted, label = [0, 1, 2, -1], [0, 0, 2, 1]
    assert value(Accuracy(), predicted, label, 3) == 0.5
    assert value(MicroRecall(), predicted, label, 3) == 0.5
    assert value(MicroPrecision(), predicted, label, 3) == pytest.approx(2 / 3)
    assert value(MacroPrecision(), predicted, label, 3) == pytest.approx((1 + 0 + 1) / 3)
    assert value(MacroRecall(), predicted, label, 3) == pytest.approx((1 / 2 + 0 + 1) / 3)
    assert value(CohensKappa(), predicted, label, 3) == pytest.approx(sk.cohen_kappa_score(label, predicted))
    assert value(Matthews(), predicted, label, 3) == pytest.approx(sk.matthews_corrcoef(label, predicted))


def test_a_class_only_in_predictions_changes_no_other_class():
    label, known, unknown = [0, 0, 1, 1], [0, 1, 1, 2], [0, 1, 1, -1]
    for metric in (Precision("c0"), Precision("c1"), Recall("c0"), Recall("c1"), F1("c1"), Accuracy(), MacroRecall()):
        assert value(metric, known, label, 3) == value(metric, unknown, label, 3)
    assert value(Precision("c2"), known, label, 3) == 0.0
    assert value(MacroPrecision(), known, label, 3) == pytest.approx((1 + 0.5 + 0) / 3)
    assert value(MacroPrecision(), unknown, label, 3) == pytest.approx((1 + 0.5) / 2)


def test_ties_go_to_the_lower_class_number():
    score = np.array([[0.25, 0.25], [0.5, 0.25], [0.25, 0.25]])
    assert value(TopAccuracy(1), score, [1, 0], 3) == 1.0
    assert value(TopAccuracy(1), score, [1, 2], 3) == 0.5
    assert value(TopAccuracy(2), score, [2, 2], 3) == 0.0  # rank 3 in both rows
    assert value(TopAccuracy(3), np.vstack([score, [[0.0, 0.0]]]), [2, 3], 4) == 0.5
    assert value(Accuracy(), score, [1, 0], 3) == 1.0


def test_one_row():
    assert value(Accuracy(), [1], [1], 2) == 1.0
    assert value(MacroF1(), [1], [1], 2) == 1.0
    assert value(Brier(), [[0.25], [0.75]], [1], 2) == 0.125
    assert value(LogLoss(), [[0.5], [0.5]], [1], 2) == pytest.approx(np.log(2), rel=1e-9)
    assert reason(Matthews(), [1], [1], 2) is Undefined.ZERO_DENOMINATOR
    assert reason(CohensKappa(), [1], [1], 2) is Undefined.ZERO_DENOMINATOR


def test_certain_and_wrong_is_clipped():
    assert value(LogLoss(), [[1.0], [0.0]], [1], 2) == pytest.approx(24 * np.log(2), rel=1e-9)


@pytest.mark.parametrize("metric", [*FROM_COUNTS, Accuracy, ErrorRate, LogLoss, Brier])
def test_no_rows(metric):
    assert reason(metric(), np.zeros((3, 0)), np.zeros(0), 3) is Undefined.NO_ROWS


def test_what_is_undefined_says_why():
    assert reason(Recall("c2"), [0, 1], [0, 1], 3) is Undefined.NO_POSITIVES
    assert reason(Precision("c2"), [0, 1], [0, 1], 3) is Undefined.NOTHING_PREDICTED
    assert reason(F1("c2"), [0, 1], [0, 1], 3) is Undefined.NO_POSITIVES
    assert reason(MacroPrecision(), [-1, -1], [0, 1], 3) is Undefined.NOTHING_PREDICTED
    assert value(Recall("c0"), [1, 1], [0, 1], 3) == 0.0  # has rows, so it is known
    assert value(PositiveRate("c0"), [1, 1, 1], [0, 1, 1], 3) == pytest.approx(1 / 3)


def test_without_buckets_values_stand_and_say_so():
    score, label, _ = rows(100, 3)
    block = make_block(score, label, label_kind="class", slices=[np.zeros(100), np.ones(100)])
    result = evaluate(MacroF1(), block, choice=choice(3, "overall"), sizes=Sizes(2, 64, 2))
    assert result.value[0] == result.value[1]
    assert result.interval_reason == (None, Undefined.OVER_BUDGET)
    assert np.isnan(result.without[1]).all()
    assert not np.isnan(result.without[0]).any()
    accuracy = evaluate(Accuracy(), block, choice=choice(3, "none"), sizes=Sizes(2, 64, 2))
    assert accuracy.interval_reason == (None, None)


def curves(metric, block, num_classes, weight_unit=1.0):
    states = {
        one.identity: one.update(one.zero(Sizes(1, 64)), block) for one in metric.accumulators(choice(num_classes))
    }
    return {one.curve: one for one in metric.curves(states, choice(num_classes), weight_unit)}


def test_confusion_matrix():
    block = make_block([0, 1, 1, -1, 1], [0, 0, 1, 2, 1], label_kind="class", weight=[1, 2, 3, 4, 5])
    curve = curves(ErrorRate(), block, 3, weight_unit=0.5)["confusion"]
    assert curve.x.tolist() == [0, 0, 1, 2]
    assert curve.y.tolist() == [0, 1, 1, -1]
    assert curve.rows.tolist() == [1, 1, 2, 1]
    assert curve.weight.tolist() == [0.5, 1.0, 4.0, 2.0]
    assert curve.positive_weight.tolist() == [0.5, 0.0, 4.0, 0.0]
    assert value(ErrorRate(), [0, 1, 1, -1, 1], [0, 0, 1, 2, 1], 3) == pytest.approx(0.4)


def test_confusion_matrix_of_many_classes_is_that_of_a_table():
    rng = np.random.default_rng(2)
    label, predicted = rng.integers(0, 2000, 500), rng.integers(-1, 2000, 500)
    curve = curves(ErrorRate(), make_block(predicted, label, label_kind="class"), 2000)["confusion"]
    expected, count = np.unique(np.stack([label, predicted]), axis=1, return_counts=True)
    assert np.stack([curve.x, curve.y]).tolist() == expected.tolist()
    assert curve.rows.tolist() == count.tolist()


def test_curves_of_the_classes_show_those_that_are_defined():
    block = make_block([0, 1, 1, 1], [0, 0, 1, 2], label_kind="class", weight=[1, 2, 3, 4])
    shown = curves(MacroF1(), block, 4)
    assert shown["class_recall"].x.tolist() == [0, 1, 2]
    assert shown["class_recall"].y.tolist() == pytest.approx([1 / 3, 1.0, 0.0])
    assert shown["class_recall"].rows.tolist() == [2, 1, 1]
    assert shown["class_recall"].weight.tolist() == [3.0, 3.0, 4.0]
    assert shown["class_recall"].positive_weight.tolist() == [1.0, 3.0, 0.0]
    assert shown["class_precision"].x.tolist() == [0, 1]
    assert shown["class_precision"].y.tolist() == pytest.approx([1.0, 3 / 9])
    assert shown["class_precision"].rows.tolist() == [1, 3]


def test_class_number():
    assert class_number(choice(2), "c1", "class") == 1
    with pytest.raises(ValueError, match=r"^There is no class 'c11'; did you mean 'c1'\?$"):
        class_number(choice(2), "c11", "class")


def test_refusals():
    with pytest.raises(ValueError, match=r"^There is no class 'C2'; did you mean 'c2'\?$"):
        Recall("C2").accumulators(choice(3))
    with pytest.raises(ValueError, match=r"^There is no class 'dog'; expected 'c0', 'c1' or 'c2'\.$"):
        Recall("dog").accumulators(choice(3))
    with pytest.raises(ValueError, match=r"^There is no class 'dog'; there are 300, from 'c0' to 'c299'\.$"):
        Recall("dog").accumulators(choice(300))
    with pytest.raises(ValueError, match=r"^The 'k' of the metric 'top_accuracy' is 0; expected 1 or more\.$"):
        TopAccuracy(0)
    with pytest.raises(ValueError, match=r"^Each of 3 classes is among the 3 best; expected a smaller k\.$"):
        TopAccuracy(3).accumulators(choice(3))
    with pytest.raises(
        ValueError, match=r"^A metric needs a score for each class, and the output is a predicted class alone\.$"
    ):
        value(TopAccuracy(1), [0, 1], [0, 1], 2)
    with pytest.raises(
        ValueError, match=r"^A metric needs class numbers from 0 to 1, and was given some from 0 to 2\.$"
    ):
        value(MacroF1(), [0, 1], [0, 2], 2)
    with pytest.raises(
        ValueError,
        match=r"^The metric 'brier' was given a row whose squared errors sum to 39; expected probabilities that sum to "
        r"1 over the classes\.$",
    ):
        value(Brier(), np.ones((40, 1)), [0], 40)


def test_names():
    assert Recall("two words").name == "recall(class='two words')"
    assert Recall(3).name == "recall(class=3)"
    assert TopAccuracy(5).name == "top_accuracy@5"


@pytest.mark.parametrize("weight", [1, 3, 12_345_679])
def test_kappa_of_one_class_is_exactly_0_with_and_without_each_bucket(weight):
    predicted = np.arange(200) % 7 % 3
    block = make_block(predicted, np.zeros(200), label_kind="class", weight=np.full(200, weight))
    result = evaluate(CohensKappa(), block, choice=choice(3))
    assert result.value.tolist() == [0.0]
    assert not result.without.any()
