"""AUC over classes and labels against scikit-learn, on exact and on binned states."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from assay.metrics.class_ranking import LabelMacroAUC, LabelMicroAUC, LabelWeightedAUC, MacroAUC, WeightedAUC
from assay.metrics.class_ranking_states import MOST_BITS, BinnedClassRanking, ExactClassRanking, class_ranking_state
from assay.records import Sizes, StateChoice, Undefined
from assay.states import num_bytes
from assay.testing import evaluate, make_block

FORMS = [(True, "all"), (False, "all"), (False, "overall")]


def choice(num_classes, exact=True, bucketed="all"):
    return StateChoice(exact, bucketed, classes=tuple(f"c{i}" for i in range(num_classes)))


def class_rows(num_rows, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, num_classes, num_rows)
    score = rng.gamma(0.7, size=(num_classes, num_rows))
    score[label, np.arange(num_rows)] *= 3
    score = np.round(score / score.sum(axis=0), 3)
    score[0] += 1 - score.sum(axis=0)
    return np.clip(score, 0, 1).astype(np.float32), label, rng.integers(1, 20, num_rows)


def label_rows(num_rows, num_labels, seed=0):
    rng = np.random.default_rng(seed)
    targets = rng.random((num_labels, num_rows)) < np.linspace(0.05, 0.6, num_labels)[:, None]
    score = np.round(np.clip(rng.beta(1, 3, targets.shape) + 0.2 * targets, 0, 1), 2).astype(np.float32)
    return score, targets, rng.integers(1, 20, num_rows)


@pytest.mark.parametrize(("exact", "bucketed"), FORMS)
@pytest.mark.parametrize(("metric", "average"), [(MacroAUC, "macro"), (WeightedAUC, "weighted")])
def test_classes_against_scikit_learn(metric, average, exact, bucketed):
    score, label, weight = class_rows(800, 5)
    block = make_block(score, label, label_kind="class", weight=weight)
    result = evaluate(metric(), block, choice=choice(5, exact, bucketed))
    each = [roc_auc_score(label == c, score[c], sample_weight=weight) for c in range(5)]
    shares = [weight[label == c].sum() if average == "weighted" else 1.0 for c in range(5)]
    expected = np.average(each, weights=shares)
    tolerance = 1e-12 if exact else result.error_bound[0]
    assert abs(result.value[0] - expected) <= tolerance
    assert (result.error_bound[0] == 0.0) == exact
    assert result.error_bound[0] < 0.02
    assert result.interval_reason == (None,)
    for one in (0, 17, 63):
        kept = np.arange(800) % 64 != one
        left = [roc_auc_score((label == c)[kept], score[c, kept], sample_weight=weight[kept]) for c in range(5)]
        if average == "weighted":
            shares = [weight[kept & (label == c)].sum() for c in range(5)]
        assert result.without[0, one] == pytest.approx(np.average(left, weights=shares), abs=1e-12 if exact else 2e-3)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("metric", "average"), [(LabelMacroAUC, "macro"), (LabelWeightedAUC, "weighted"), (LabelMicroAUC, "micro")]
)
def test_labels_against_scikit_learn(metric, average, exact):
    score, targets, _ = label_rows(700, 6)
    result = evaluate(metric(), make_block(score, targets, label_kind="labels"), choice=choice(6, exact))
    expected = roc_auc_score(targets.T, score.T, average=average)
    assert abs(result.value[0] - expected) <= (1e-12 if exact else result.error_bound[0])
    kept = np.arange(700) % 64 != 5
    without = roc_auc_score(targets.T[kept], score.T[kept], average=average)
    assert result.without[0, 5] == pytest.approx(without, abs=1e-12 if exact else 2e-3)


def test_weights_are_repeated_rows():
    score, targets, weight = label_rows(90, 4)
    many = np.repeat(np.arange(90), weight)
    for metric in (LabelMacroAUC(), LabelMicroAUC()):
        block = make_block(score, targets, label_kind="labels", weight=weight)
        repeated = make_block(score[:, many], targets[:, many], label_kind="labels")
        once, again = (evaluate(metric, one, choice=choice(4)) for one in (block, repeated))
        assert once.value.tolist() == again.value.tolist()


@pytest.mark.parametrize("exact", [True, False])
def test_a_class_without_rows_enters_no_mean(exact):
    score, label, _ = class_rows(300, 4)
    label = np.minimum(label, 2)
    result = evaluate(MacroAUC(), make_block(score, label, label_kind="class"), choice=choice(4, exact))
    expected = np.mean([roc_auc_score(label == c, score[c]) for c in range(3)])
    assert abs(result.value[0] - expected) <= max(result.error_bound[0], 1e-12)


@pytest.mark.parametrize("exact", [True, False])
def test_one_class_and_no_rows(exact):
    one = make_block([[0.1, 0.2], [0.9, 0.8]], [1, 1], label_kind="class")
    none = make_block(np.zeros((2, 0)), np.zeros(0), label_kind="class")
    assert evaluate(MacroAUC(), one, choice=choice(2, exact)).reason == (Undefined.ONE_CLASS,)
    assert evaluate(MacroAUC(), none, choice=choice(2, exact)).reason == (Undefined.NO_ROWS,)
    everyone = make_block([[0.1, 0.2]], [[1, 1]], label_kind="labels")
    assert evaluate(LabelMicroAUC(), everyone, choice=choice(1, exact)).reason == (Undefined.ONE_CLASS,)


def test_slices_without_buckets_say_so():
    score, label, _ = class_rows(300, 3)
    block = make_block(score, label, label_kind="class", slices=[np.zeros(300), np.ones(300)])
    result = evaluate(MacroAUC(), block, choice=choice(3, exact=False, bucketed="overall"), sizes=Sizes(2, 64, 2))
    assert result.interval_reason == (None, Undefined.OVER_BUDGET)
    assert abs(result.value[0] - result.value[1]) <= result.error_bound[1]  # bins of 7 and of 5 bits
    assert result.error_bound[0] < result.error_bound[1]
    result = evaluate(MacroAUC(), block, choice=choice(3, exact=False, bucketed="none"), sizes=Sizes(2, 64, 2))
    assert result.interval_reason == (Undefined.OVER_BUDGET, Undefined.OVER_BUDGET)


def test_scores_too_close_together_have_no_interval():
    score = 0.5 + np.arange(200) * 1e-6
    block = make_block(np.stack([1 - score, score]), np.arange(200) % 2, label_kind="class")
    result = evaluate(MacroAUC(), block, choice=choice(2, exact=False))
    assert result.interval_reason == (Undefined.RESOLUTION,)
    assert result.error_bound[0] == pytest.approx(0.4975)  # all scores but 0.5 itself tie


def test_declared_bytes():
    sizes = Sizes(3, 64, 2)
    assert ExactClassRanking(5, "class").num_bytes(sizes, 1000) == 5 * 1000 * 2 * 24
    binned = BinnedClassRanking(5, "class", "overall", 7)
    assert binned.num_bytes(sizes, 1000) == num_bytes(binned.zero(sizes)) == 5 * 64 * (128 + 3 * 32 + 64 * 8) * 16


def test_too_many_classes_and_slices():
    with pytest.raises(
        ValueError, match=r"^2000 classes in 1000 slices are too many for an exact ranking; .* at most 1048576\.$"
    ):
        ExactClassRanking(2000, "class").zero(Sizes(1000, 64))


def test_more_bits_are_nearer_up_to_what_fits():
    score, label, _ = class_rows(2000, 3)
    block = make_block(score, label, label_kind="class")
    bounds = []
    for bits in (7, 10, 23):
        form = StateChoice(False, "overall", ranking_bits=bits, classes=("a", "b", "c"))
        bounds.append(evaluate(MacroAUC(), block, choice=form).error_bound[0])
    assert bounds[0] > bounds[1] >= bounds[2]
    assert class_ranking_state(form, "class").bits == MOST_BITS
