"""Every metric of the tables keeps every law, under every choice of states; and any split of any rows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.metrics.table import TABLES
from assay.testing import CHOICES, CLASSES, Case, check_metric, choices_of, random_block

KINDS = {"single": None, "classes": "class", "labels": "labels"}
ANY = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
SIGNED = (-1.0, 1.0)
CLIPPED = (0.0, 24 * np.log(2) + 1e-6)
OF_SINGLE = {
    ANY: "mean_score bias calibration_slope calibration_intercept prediction_mean_difference",
    POSITIVE: "count normalised_entropy calibration_ratio recalibrated_log_loss lift expected_cost "
    "rmse mae mse mape error_quantile pinball huber log_cosh poisson_deviance gamma_deviance tweedie_deviance "
    "interval_width interval_score prediction_absolute_difference",
    SIGNED: "gini matthews prediction_correlation brier_within_bins",
    CLIPPED: "log_loss",
    (0.0, 2.0): "smape",
    (-np.inf, 1.0): "r2 explained_variance",
}
BOUNDS = {
    **{("single", name): bounds for bounds, names in OF_SINGLE.items() for name in names.split()},
    ("classes", "count"): POSITIVE,
    ("classes", "log_loss"): CLIPPED,
    ("classes", "brier"): (0.0, 2.0),
    ("classes", "cohens_kappa"): SIGNED,
    ("classes", "matthews"): SIGNED,
    ("labels", "count"): POSITIVE,
}
"""What is not between 0 and 1."""
REQUIRED = {
    ("classes", "top_accuracy"): {"k": 2},
    **{("classes", name): {"class_": "cat"} for name in ("precision", "recall", "f1", "positive_rate")},
    **{("labels", name): {"label": "two words"} for name in ("precision", "recall", "f1", "positive_rate")},
}
"""What a metric has no default for."""
OTHERS = {
    ("single", "precision"): {"threshold": 0.3},
    ("single", "f1"): {"threshold": 0.25},
    ("single", "ece"): {"bins": 7},
    ("classes", "recall"): {"class_": "never"},
    ("classes", "precision"): {"class_": "two words"},
    ("labels", "macro_f1"): {"threshold": 0.3},
    ("labels", "f1"): {"label": "ant", "threshold": 0.1},
    ("labels", "subset_accuracy"): {"threshold": 0.25},
    ("labels", "hamming_loss"): {"threshold": -0.5},
}
NAMES = [(family, name) for family, table in TABLES.items() for name in table]


def made(family, name, parameters=None):
    module, attribute = TABLES[family][name].split(":")
    return getattr(import_module(module), attribute)(**(parameters or REQUIRED.get((family, name), {})))


def forms_of(metric, family):
    """The choices that give a metric other states; of several that give the same, the last."""
    choices = choices_of(metric.label_kind or KINDS[family])
    return {tuple(one.identity for one in metric.accumulators(choice)): choice for choice in choices}


def identities(family, name):
    """Of the states that a metric is made of, of every form."""
    return family, tuple(forms_of(made(family, name), family))


ONE_OF_EACH_STATE = list({identities(*one): one for one in NAMES}.values())
"""Of metrics that are made of the same states, the last."""


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_metric_keeps_the_laws(family, name):
    metric = made(family, name)
    if (family, name) not in REQUIRED:
        assert metric.name == name
    bounds = BOUNDS.get((family, name), (0.0, 1.0))
    choices = tuple(forms_of(metric, family).values())
    check_metric(metric, bounds=bounds, counts_rows=name == "count", label_kind=KINDS[family], choices=choices)


@pytest.mark.parametrize(("family", "name"), OTHERS)
def test_metric_with_parameters_keeps_the_laws(family, name):
    metric = made(family, name, OTHERS[family, name])
    check_metric(metric, bounds=(0.0, 1.0), choices=choices_of(metric.label_kind)[:2], seed=3)


@pytest.mark.parametrize("name", ["mape", "poisson_deviance", "gamma_deviance", "tweedie_deviance"])
def test_metric_of_amounts_keeps_the_laws(name):
    block = random_block(np.random.default_rng(6), 300, "real", probability=False)
    raw, label = np.abs(block.raw) + 0.125, np.abs(block.label) + 0.25
    amounts = replace(block, raw=raw, ranking=raw.astype(np.float32), label=label)
    check_metric(made("single", name), bounds=POSITIVE, blocks=[amounts])


@pytest.mark.parametrize(("family", "name"), ONE_OF_EACH_STATE)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_rows=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    largest_weight=st.sampled_from([1, 3, 1 << 26]),
    choice=st.sampled_from(range(len(CHOICES))),
)
def test_any_parts_merge_to_the_whole_and_come_off_again(family, name, seed, num_rows, cuts, largest_weight, choice):
    metric, kind = made(family, name), KINDS[family]
    kind, rng = metric.label_kind or kind, np.random.default_rng(seed)
    output = "interval" if metric.needs_interval else "score"
    block = random_block(rng, num_rows, kind, output=output, reference=metric.needs_baseline)
    block = replace(block, weight=rng.integers(1, largest_weight, num_rows, endpoint=True))
    case = Case(metric, choices_of(kind)[choice], block, (-np.inf, np.inf), counts_rows=False, ordered=False)
    bounds = [0, *sorted(min(cut, num_rows) for cut in cuts), num_rows]
    parts = [block.take(np.arange(*pair)) for pair in pairwise(bounds)]
    states = [case.states(parts[i]) for i in rng.permutation(len(parts))]
    merged = states[0]
    for one in states[1:]:
        merged = case.merge(one, merged) if rng.random() < 0.5 else case.merge(merged, one)
    whole = case.states(block)
    assert_same(merged, whole)
    for one in states[1:]:
        merged = case.subtract(merged, one)
    assert_same(merged, states[0])


def assert_same(ours, theirs):
    for identity, state in theirs.items():
        for name, array in state.items():
            assert ours[identity][name].dtype == array.dtype
            assert np.array_equal(ours[identity][name], array)


@pytest.mark.parametrize("name", TABLES["classes"])
@pytest.mark.parametrize("exact", [0, 3])
def test_a_class_that_is_declared_and_absent_changes_nothing(name, exact):
    metric, choice = made("classes", name), choices_of("class")[exact]
    block = random_block(np.random.default_rng(5), 200, "class")
    more = replace(block, outputs=np.concatenate([block.outputs, np.zeros_like(block.outputs[:1])]))
    wider = replace(choice, classes=(*CLASSES, "absent"))
    assert_values_agree(metric, (block, choice), (more, wider))


@pytest.mark.parametrize("name", [name for name in TABLES["labels"] if name not in ("hamming_loss", "micro_auc")])
def test_a_label_that_is_declared_and_absent_changes_nothing(name):
    metric, choice = made("labels", name), choices_of("labels")[0]
    block = random_block(np.random.default_rng(5), 200, "labels")
    low = np.full_like(block.outputs[:1], -1.0)
    more = replace(
        block,
        outputs=np.concatenate([block.outputs, low]),
        targets=np.concatenate([block.targets, np.zeros_like(block.targets[:1])]),
    )
    assert_values_agree(metric, (block, choice), (more, replace(choice, classes=(*CLASSES, "absent"))))


def assert_values_agree(metric, *cases):
    once, again = (
        case.evaluate(case.states(case.block))
        for case in (Case(metric, choice, block, ANY, counts_rows=False, ordered=False) for block, choice in cases)
    )
    np.testing.assert_allclose(again.value, once.value, rtol=1e-12)
    np.testing.assert_allclose(again.without, once.without, rtol=1e-12)
    assert again.reason == once.reason
