"""Seeds as one: means, spread, and the interval of the mean difference, from evidence made by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from assay.records import Replicates, Task, Undefined
from assay.stats.evidence import Coverage, Estimate, MetricEvidence, Pair, TaskEvidence, VariantEvidence
from assay.stats.families import FAMILIES, Families, seeds_of

B = 64
CHANCE = np.random.default_rng(3)
NOISE = CHANCE.normal(size=(3, B)) * 0.01
BASE = np.zeros(B)


@dataclass(frozen=True)
class Named:
    name: str = "auc"


def estimate(value: float, offsets: np.ndarray, reason: Undefined | None = None) -> Estimate:
    """Two slices, of which the second must not matter."""
    values = np.array([math.nan if reason else value, 99.0])
    without = np.array([np.full(B, np.nan) if reason else value + offsets, np.full(B, 99.0)])
    replicates = Replicates(values, (reason, None), without, (None, None), np.zeros(2))
    return Estimate(replicates, np.full(2, 900), np.full(2, 900.0), np.ones((2, B), bool), np.zeros(2, bool))


def evidence(variant: str, own: Estimate, baseline: Estimate | None) -> VariantEvidence:
    zeros = np.zeros(2, np.int64)
    covered = Coverage(zeros, 0, zeros, zeros, zeros, zeros, zeros, zeros.astype(float), None)
    pair = None if baseline is None else Pair(own, baseline)
    metric = MetricEvidence(Named(), own, baseline, pair)
    task = TaskEvidence(Task("main", "y", "binary", None, ("auc",)), (metric,), (), covered, None, 900)
    return VariantEvidence(variant, "prod", (task,))


def table_of(family_of: dict[str, str], *several: VariantEvidence) -> list[dict]:
    families = Families(family_of)
    for one in several:
        if one.variant in family_of:
            families.add(one.variant, seeds_of(one))
    table = families.table()
    assert table.schema == FAMILIES
    rows: list[dict] = table.to_pylist()
    return rows


def test_three_seeds() -> None:
    values = [0.71, 0.73, 0.75]
    seeds = [
        evidence(f"a{number}", estimate(value, NOISE[number]), estimate(0.70, BASE))
        for number, value in enumerate(values)
    ]

    (row,) = table_of({"a0": "a", "a1": "a", "a2": "a"}, *seeds)

    mean = NOISE.mean(axis=0)
    half = stats.t.ppf(0.975, B - 1) * math.sqrt((B - 1) / B * ((mean - mean.mean()) ** 2).sum())
    words = ("family", "task", "metric", "slice", "num_seeds", "interval", "undefined")
    assert {name: row[name] for name in words} == {
        "family": "a", "task": "main", "metric": "auc", "slice": "overall", "num_seeds": 3, "interval": "jackknife",
        "undefined": None,
    }  # fmt: skip
    assert (row["value"], row["spread"]) == (pytest.approx(0.73), pytest.approx(np.std(values, ddof=1)))
    assert (row["least"], row["greatest"]) == (0.71, 0.75)
    assert row["difference"] == pytest.approx(0.03)
    assert (row["low"], row["high"]) == (pytest.approx(0.03 - half), pytest.approx(0.03 + half))


def test_one_seed_has_no_spread() -> None:
    (row,) = table_of({"a0": "a"}, evidence("a0", estimate(0.71, NOISE[0]), estimate(0.70, BASE)))

    assert (row["num_seeds"], row["spread"], row["value"]) == (1, None, 0.71)


def test_variants_without_a_family_are_left_out() -> None:
    assert table_of({}, evidence("a0", estimate(0.71, NOISE[0]), estimate(0.70, BASE))) == []


def test_a_baseline_in_the_family_counts_as_a_seed_and_not_as_a_difference_of_0() -> None:
    base, other = estimate(0.70, NOISE[1]), estimate(0.74, NOISE[0])

    (row,) = table_of({"prod": "a", "a1": "a"}, evidence("prod", base, None), evidence("a1", other, base))

    assert (row["num_seeds"], row["value"], row["difference"]) == (2, pytest.approx(0.72), pytest.approx(0.04))


def test_a_seed_that_is_undefined_leaves_the_mean_undefined() -> None:
    failed = estimate(0.0, BASE, Undefined.FAILED)
    seeds = [
        evidence("a0", estimate(0.71, NOISE[0]), estimate(0.70, BASE)),
        evidence("a1", failed, estimate(0.7, BASE)),
    ]

    (row,) = table_of({"a0": "a", "a1": "a"}, *seeds)

    assert row["undefined"] == "the variant failed"
    assert {row[name] for name in ("value", "spread", "least", "greatest", "difference", "low", "high")} == {None}
