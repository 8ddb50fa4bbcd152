"""Every metric against a second implementation in exact rationals, over the edge cases of its inputs.

A new metric is a line in `REFERENCES`: a function of labels, scores and weights that says what the value is, or None
where it is undefined. The same function says what every leave-one-bucket-out value is. Scores of a block are float32
where they are ranked or are probabilities, so that is what the references are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import groupby, pairwise, product
from operator import itemgetter

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from assay import catalogue
from assay.protocols import Metric
from assay.records import Block, Replicates, Sizes, State, StateChoice, Undefined
from assay.testing import make_block

EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all")
CHOICES = {"exact": EXACT, "binned": BINNED}
NUM_BUCKETS = 4
UNIT = 2.0**-32
"""What bounded contributions are rounded to, row by row."""
DOUBLE_UNIT = 2.0**-128
"""The same for doubles."""
CLIP = 2.0**-24
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Rows:
    """What a reference is given: every number as it stands in the block."""

    label: tuple[float, ...]
    raw: tuple[float, ...]  # in float64
    score: tuple[float, ...]  # in float32
    weight: tuple[int, ...]
    probability: bool

    def __iter__(self) -> Iterator[tuple[Fraction, Fraction, int]]:
        return iter(zip(map(Fraction, self.label), map(Fraction, self.score), self.weight, strict=True))

    @property
    def total(self) -> int:
        return sum(self.weight)

    @property
    def positive(self) -> int:
        return sum(weight for label, weight in zip(self.label, self.weight, strict=True) if label)

    def take(self, kept: np.ndarray) -> Rows:
        columns = {name: tuple(np.array(getattr(self, name))[kept].tolist()) for name in ("label", "raw", "score")}
        return Rows(**columns, weight=tuple(np.array(self.weight)[kept].tolist()), probability=self.probability)


Known = Fraction | float | None
Reference = Callable[[Rows], Known]


def ratio(numerator: Known, denominator: Known) -> Known:
    return None if numerator is None or not denominator else numerator / denominator


# ---- what the values are ---------------------------------------------------------------------------------------------


def roc_auc(rows: Rows) -> Known:
    every = list(zip(rows.label, rows.score, rows.weight, strict=True))
    pairs = [
        (w * v, (high > low) - (high < low))
        for label, high, w in every
        if label
        for other, low, v in every
        if not other
    ]
    won = Fraction(sum(weight * (1 + sign) for weight, sign in pairs), 2)
    return ratio(won, sum(weight for weight, _ in pairs))


def swept(rows: Rows) -> list[tuple[int, int]]:
    """(false, true) positive weight at or above each score, from none to all."""
    points = [(0, 0)]
    every = sorted(zip(rows.score, rows.label, rows.weight, strict=True), reverse=True)
    for _, tied in groupby(every, key=itemgetter(0)):
        false, true = points[-1]
        for _, label, weight in tied:
            false, true = (false, true + weight) if label else (false + weight, true)
        points.append((false, true))
    return points


def average_precision(rows: Rows) -> Known:
    steps = (Fraction((true - before) * true, false + true) for (_, before), (false, true) in pairwise(swept(rows)))
    return ratio(sum(steps, Fraction(0)), rows.positive)


def log_loss(rows: Rows) -> Known:
    """Of losses in units of 2^-32, since that is what a state holds, and normalised entropy makes more of it."""

    def loss(label: float, score: float) -> int:
        p = min(max(score, CLIP), 1.0 - CLIP)
        return round((-math.log(p) if label else -math.log1p(-p)) / UNIT)

    losses = [w * loss(label, score) for label, score, w in zip(rows.label, rows.score, rows.weight, strict=True)]
    return ratio(Fraction(sum(losses)) * Fraction(UNIT), rows.total)


def normalised_entropy(rows: Rows) -> Known:
    share = ratio(Fraction(rows.positive), rows.total)
    if share is None or not 0 < share < 1:
        return None
    entropy = -float(share) * math.log(share) - float(1 - share) * math.log1p(-float(share))
    return ratio(float(log_loss(rows) or 0.0), entropy)


def brier(rows: Rows) -> Known:
    return ratio(sum((w * (score - label) ** 2 for label, score, w in rows), Fraction(0)), rows.total)


def calibration_ratio(rows: Rows) -> Known:
    return ratio(sum((w * score for _, score, w in rows), Fraction(0)), rows.positive)


def ece(bins: int) -> Reference:
    def reference(rows: Rows) -> Known:
        gaps = [Fraction(0)] * bins
        for label, score, weight in rows:
            gaps[min(int(score * bins), bins - 1)] += weight * (score - label)
        return ratio(sum(map(abs, gaps), Fraction(0)), rows.total)

    return reference


def mean_score(rows: Rows) -> Known:
    scores = rows.score if rows.probability else rows.raw
    return ratio(sum((w * Fraction(one) for one, w in zip(scores, rows.weight, strict=True)), Fraction(0)), rows.total)


@dataclass(frozen=True)
class Cells:
    """A confusion matrix by weight."""

    tp: int
    fp: int
    tn: int
    fn: int


def at_threshold(threshold: float, value: Callable[[Cells], Known]) -> Reference:
    def reference(rows: Rows) -> Known:
        scores, limit = (rows.score, float(np.float32(threshold))) if rows.probability else (rows.raw, threshold)
        sums = dict.fromkeys(product((False, True), repeat=2), 0)
        for label, score, weight in zip(rows.label, scores, rows.weight, strict=True):
            sums[bool(label), score >= limit] += weight
        return value(Cells(sums[True, True], sums[False, True], sums[False, False], sums[True, False]))

    return reference


def errors(rows: Rows) -> Iterator[tuple[Fraction, int]]:
    """The error of each row, which is a difference of doubles and rounded to one, and its weight."""
    for label, raw, weight in zip(rows.label, rows.raw, rows.weight, strict=True):
        yield Fraction(raw - label), weight


def rmse(rows: Rows) -> Known:
    mean = ratio(sum((w * Fraction(float(e) ** 2) for e, w in errors(rows)), Fraction(0)), rows.total)
    return None if mean is None else math.sqrt(mean)


def mae(rows: Rows) -> Known:
    return ratio(sum((w * abs(e) for e, w in errors(rows)), Fraction(0)), rows.total)


def mse(rows: Rows) -> Known:
    return ratio(sum((w * Fraction(float(e) ** 2) for e, w in errors(rows)), Fraction(0)), rows.total)


def mean_of(loss: Callable[[float, float], float | None]) -> Reference:
    """The weighted mean of a loss of (label, prediction); undefined where it is undefined for a row."""

    def reference(rows: Rows) -> Known:
        losses = [loss(label, raw) for label, raw in zip(rows.label, rows.raw, strict=True)]
        if None in losses:
            return None
        return ratio(
            sum((w * Fraction(one) for one, w in zip(losses, rows.weight, strict=True)), Fraction(0)), rows.total
        )

    return reference


def explained(rows: Rows, forgives_bias: bool) -> Known:
    """1 - (sum of squares, or variance, of errors) / variance of labels."""
    if not rows.label:
        return None
    label = [(Fraction(one), weight) for one, weight in zip(rows.label, rows.weight, strict=True)]
    shift = sum(e * w for e, w in errors(rows)) / rows.total if forgives_bias else Fraction(0)
    mean = sum(one * w for one, w in label) / Fraction(rows.total)
    lost = ratio(sum(w * (e - shift) ** 2 for e, w in errors(rows)), sum(w * (one - mean) ** 2 for one, w in label))
    return None if lost is None else 1 - lost


def bias(rows: Rows) -> Known:
    gaps = (Fraction(raw) - Fraction(label) for label, raw in zip(rows.label, rows.raw, strict=True))
    return ratio(sum((w * gap for gap, w in zip(gaps, rows.weight, strict=True)), Fraction(0)), rows.total)


def deviance(power: int) -> Reference:
    """Poisson's (1) or gamma's (2), in decimals, since near label = prediction nearly all digits cancel."""

    def loss(label: float, raw: float) -> float | None:
        if raw <= 0 or label < 0 or (power == 2 and label == 0):
            return None
        with localcontext(prec=60):
            y, mu = Decimal(label), Decimal(raw)
            if power == 1:
                return float(2 * ((y * (y / mu).ln() if y else 0) - y + mu))
            return float(2 * ((mu / y).ln() + y / mu - 1))

    return mean_of(loss)


def gini(rows: Rows) -> Known:
    area = roc_auc(rows)
    return None if area is None else 2 * area - 1


def partial_auc(rows: Rows) -> Known:
    most = Fraction(0.1)
    if not 0 < rows.positive < rows.total:
        return None
    negative = rows.total - rows.positive
    curve = [(Fraction(false, negative), Fraction(true, rows.positive)) for false, true in swept(rows)]
    area = Fraction(0)
    for (x, y), (x_next, y_next) in pairwise(curve):
        end = min(x_next, most)
        if x < end:
            area += (end - x) * (y + (y_next - y) * (end - x) / (x_next - x) / 2)
    least = most**2 / 2
    return Fraction(1, 2) * (1 + (area - least) / (most - least))


def ks(rows: Rows) -> Known:
    if not 0 < rows.positive < rows.total:
        return None
    negative = rows.total - rows.positive
    return max(Fraction(true, rows.positive) - Fraction(false, negative) for false, true in swept(rows))


def true_at_top(rows: Rows, fraction: float) -> Fraction:
    """Positive weight in the top of the ranking; ties at the cut enter in part, all alike."""
    wanted = Fraction(fraction) * rows.total
    for (false, true), (false_next, true_next) in pairwise(swept(rows)):
        if false_next + true_next >= wanted:
            return true + (true_next - true) * (wanted - false - true) / (false_next + true_next - false - true)
    return Fraction(rows.positive)


def at_top(value: Callable[[Fraction, Rows, Fraction], Known]) -> Reference:
    return lambda rows: value(true_at_top(rows, 0.1), rows, Fraction(0.1)) if rows.total else None


def by_bin(value: Callable[[list[tuple[Fraction, Fraction, int]]], Fraction], largest: bool = False) -> Reference:
    """A mean over 32 bins, or the largest of them, of what `value` makes of the rows of a bin."""

    def reference(rows: Rows) -> Known:
        bins: dict[int, list[tuple[Fraction, Fraction, int]]] = {}
        for row in rows:
            bins.setdefault(min(int(row[1] * 32), 31), []).append(row)
        weights = [sum(weight for _, _, weight in one) for one in bins.values()]
        values = [value(one) for one in bins.values()]
        if largest:
            return max(values, default=None)
        return ratio(sum((v * w for v, w in zip(values, weights, strict=True)), Fraction(0)), rows.total)

    return reference


def gap(rows: list[tuple[Fraction, Fraction, int]]) -> Fraction:
    return sum((w * (score - label) for label, score, w in rows), Fraction(0)) / sum(w for _, _, w in rows)


def accuracy(cells: Cells) -> Known:
    return ratio(Fraction(cells.tp + cells.tn), cells.tp + cells.fp + cells.tn + cells.fn)


def precision(cells: Cells) -> Known:
    return ratio(Fraction(cells.tp), cells.tp + cells.fp)


def recall(cells: Cells) -> Known:
    return ratio(Fraction(cells.tp), cells.tp + cells.fn)


def f1(cells: Cells) -> Known:
    return ratio(Fraction(2 * cells.tp), 2 * cells.tp + cells.fp + cells.fn)


def specificity(cells: Cells) -> Known:
    return ratio(Fraction(cells.tn), cells.tn + cells.fp)


def balanced_accuracy(cells: Cells) -> Known:
    one, other = recall(cells), specificity(cells)
    return None if one is None or other is None else (one + other) / 2


def matthews(cells: Cells) -> Known:
    margins = (cells.tp + cells.fp) * (cells.tp + cells.fn) * (cells.tn + cells.fp) * (cells.tn + cells.fn)
    return ratio(float(cells.tp * cells.tn - cells.fp * cells.fn), math.sqrt(margins))


@dataclass(frozen=True)
class Golden:
    """A reference and how near to it the metric must come: `relative`, or `absolute` for what is rounded row by row."""

    reference: Reference
    absolute: float = 0.0
    relative: float = 1e-14


CELLS: dict[str, Callable[[Cells], Known]] = {
    "accuracy": accuracy,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "f_beta": lambda cells: ratio(Fraction(5 * cells.tp), 5 * cells.tp + 4 * cells.fn + cells.fp),
    "matthews": matthews,
    "balanced_accuracy": balanced_accuracy,
    "specificity": specificity,
    "false_positive_rate": lambda cells: ratio(Fraction(cells.fp), cells.fp + cells.tn),
    "expected_cost": lambda cells: ratio(Fraction(cells.fp + 5 * cells.fn), cells.tp + cells.fp + cells.tn + cells.fn),
}
REFERENCES = {
    "count": Golden(lambda rows: float(len(rows.label))),
    "positive_rate": Golden(lambda rows: ratio(Fraction(rows.positive), rows.total)),
    "mean_score": Golden(mean_score, absolute=DOUBLE_UNIT),
    "log_loss": Golden(log_loss, absolute=UNIT),
    "normalised_entropy": Golden(normalised_entropy, relative=1e-8),
    "brier": Golden(brier, absolute=UNIT),
    "calibration_ratio": Golden(calibration_ratio, absolute=64 * UNIT),
    "auc": Golden(roc_auc),
    "average_precision": Golden(average_precision),
    "ece": Golden(ece(32), absolute=UNIT),
    "ece(bins=7)": Golden(ece(7), absolute=UNIT),
    **{
        name if threshold == 0.5 else f"{name}(threshold={threshold})": Golden(at_threshold(threshold, value))
        for name, value in CELLS.items()
        for threshold in (0.5, 1e-5, 0.1)
    },
    "rmse": Golden(rmse, absolute=math.sqrt(DOUBLE_UNIT)),
    "mae": Golden(mae, absolute=DOUBLE_UNIT),
    "mse": Golden(mse, absolute=DOUBLE_UNIT),
    "bias": Golden(bias, absolute=DOUBLE_UNIT),
    "mape": Golden(mean_of(lambda y, p: abs(p - y) / abs(y) if y else None), absolute=DOUBLE_UNIT),
    "smape": Golden(mean_of(lambda y, p: 2 * abs(p - y) / (abs(p) + abs(y)) if p or y else 0.0), absolute=DOUBLE_UNIT),
    "r2": Golden(lambda rows: explained(rows, forgives_bias=False), relative=1e-13),
    "explained_variance": Golden(lambda rows: explained(rows, forgives_bias=True), relative=1e-13),
    "pinball(quantile=0.9)": Golden(
        mean_of(lambda y, p: max(0.9 * (y - p), (1 - 0.9) * (p - y))), absolute=DOUBLE_UNIT
    ),
    "huber(delta=2)": Golden(
        mean_of(lambda y, p: min(abs(p - y), 2) * (abs(p - y) - min(abs(p - y), 2) / 2)), absolute=DOUBLE_UNIT
    ),
    "poisson_deviance": Golden(deviance(1), relative=1e-9, absolute=DOUBLE_UNIT),
    "gamma_deviance": Golden(deviance(2), relative=1e-9, absolute=DOUBLE_UNIT),
    "gini": Golden(gini, absolute=1e-15),
    "partial_auc(max_fpr=0.1)": Golden(partial_auc),
    "ks": Golden(ks, absolute=1e-15),
    "precision_at(fraction=0.1)": Golden(at_top(lambda true, rows, share: ratio(true, share * rows.total))),
    "recall_at(fraction=0.1)": Golden(at_top(lambda true, rows, share: ratio(true, rows.positive))),
    "lift(fraction=0.1)": Golden(at_top(lambda true, rows, share: ratio(true, share * rows.positive))),
    "max_calibration_error(bins=32)": Golden(by_bin(lambda rows: abs(gap(rows)), largest=True), absolute=UNIT),
    "brier_reliability(bins=32)": Golden(by_bin(lambda rows: gap(rows) ** 2), absolute=UNIT),
    "brier_uncertainty": Golden(
        lambda rows: ratio(Fraction(rows.positive * (rows.total - rows.positive)), rows.total**2)
    ),
}


# ---- the edge cases --------------------------------------------------------------------------------------------------


def rows_of(score: object, label: object, weight: object = None, probability: bool = True) -> Block:
    return make_block(score, label, weight=weight, probability=probability)


def ulps(start: float, number: int) -> np.ndarray:
    """So many neighbouring float32, from `start`."""
    return (np.float32(start).view(np.uint32) + np.arange(number, dtype=np.uint32)).view(np.float32)


RNG = np.random.default_rng(20_240)
COIN = RNG.integers(0, 2, 60)
WEIGHTS = RNG.integers(1, 1 << 20, 60)
UNIFORM = RNG.random(60)
EXTREME = np.array([0.0, 2.0**-149, 2.0**-126, 2.0**-25, 1e-5, 0.5, 1 - 2.0**-24, 1.0], np.float32)

PROBABILITIES = {
    "distinct": rows_of(UNIFORM, COIN),
    "ties": rows_of(np.round(UNIFORM, 1), COIN),
    "weights": rows_of(np.round(UNIFORM, 1), COIN, WEIGHTS),
    "one weighs more than all others": rows_of(UNIFORM[:9], COIN[:9], [1, 1, 1, 1, 1 << 26, 1, 1, 1, 1]),
    "two rows of each bucket": rows_of(UNIFORM[:6].repeat(2), COIN[:12]),
    "only positives": rows_of([0.1, 0.9, 0.9], [1, 1, 1]),
    "only negatives": rows_of([0.1, 0.9, 0.9], [0, 0, 0]),
    "one positive": rows_of([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 0]),
    "one row, positive": rows_of([0.3], [1]),
    "one row, negative": rows_of([0.3], [0], [7]),
    "no row": rows_of([], []),
    "constant": rows_of([0.25] * 10, [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
    "perfect": rows_of([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]),
    "all wrong": rows_of([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1]),
    "extreme": rows_of(EXTREME, [0, 1, 0, 1, 0, 1, 0, 1]),
    "extreme, the other way": rows_of(EXTREME, [1, 0, 1, 0, 1, 0, 1, 0], [1, 2, 3, 4, 5, 6, 7, 8]),
    "one ulp apart at 1e-5": rows_of(ulps(1e-5, 40), COIN[:40]),
    "one ulp apart at 1": rows_of(ulps(1.0 - 40 * 2.0**-24, 40), COIN[:40]),
    "one ulp apart at the threshold": rows_of(ulps(0.1, 3) - np.float32(2.0**-27), [0, 1, 1]),
    "near 1e-5": rows_of(1e-5 * (1 + UNIFORM), COIN, WEIGHTS),
    "on the edges of the bins": rows_of(np.arange(33) / 32, np.arange(33) % 2),
    "inside the edges of the bins": rows_of(
        np.nextafter(np.arange(1, 33) / 32, 0, dtype=np.float32), np.arange(32) % 2
    ),
}
SCORES = {
    "of both signs": rows_of(UNIFORM * 20 - 10, COIN, probability=False),
    "negative zero": rows_of([-0.0, 0.0, -1.0, 1.0], [1, 0, 0, 1], probability=False),
    "of any size": rows_of([-1e30, -1.0, -1e-30, 0.0, 1e-30, 1.0, 1e30], [0, 0, 1, 0, 1, 1, 1], probability=False),
    "equal in float32": rows_of([1.0, 1.0 + 1e-12, 1.0 - 1e-12], [0, 1, 0], probability=False),
    "huge offset": rows_of(1e6 + np.round(UNIFORM), COIN, probability=False),
    "cancelling": rows_of([1e30, 1.0, -1e30], [1, 0, 0], probability=False),
}
REALS = {
    "plain": rows_of(UNIFORM * 10, UNIFORM[::-1] * 10, probability=False),
    "weights": rows_of(UNIFORM * 10, UNIFORM[::-1] * 10, WEIGHTS, probability=False),
    "offset of 1e9": rows_of(1e9 + UNIFORM, 1e9 + UNIFORM[::-1], probability=False),
    "offset of -1e15": rows_of(-1e15 + UNIFORM, -1e15 + UNIFORM[::-1], WEIGHTS, probability=False),
    "one large error among small ones": rows_of([1e15, *[1e-9] * 9], np.zeros(10), probability=False),
    "sums that cancel": rows_of([1e17, 1.0, -1e17], [0.0, 0.0, 0.0], probability=False),
    "constant label": rows_of(UNIFORM, np.full(60, 3.25), probability=False),
    "constant prediction": rows_of(np.full(60, 3.25), UNIFORM, probability=False),
    "both constant": rows_of(np.full(5, 0.1), np.full(5, 0.1), probability=False),
    "all errors one ulp": rows_of(np.nextafter(UNIFORM, 1), UNIFORM, probability=False),
    "tiny": rows_of([1e-15, -1e-15], [0.0, 0.0], probability=False),
    "one row": rows_of([2.5], [-1.0], [3], probability=False),
    "no row": rows_of([], [], probability=False),
}
CASES = {
    **{f"probabilities, {name}": block for name, block in PROBABILITIES.items()},
    **{f"scores, {name}": block for name, block in SCORES.items()},
    **{f"reals, {name}": block for name, block in REALS.items()},
}


@cache
def metric_named(name: str) -> Metric:
    """Once for each name: `catalogue.metric` asks every installed package for metrics of its own."""
    return catalogue.metric(name)


def suits(name: str, case: str) -> bool:
    metric = metric_named(name)
    if metric.label_kind == "real":
        return case.startswith("reals")
    return case.startswith("probabilities") or (case.startswith("scores") and not metric.needs_probability)


def cases_of(name: str) -> dict[str, Block]:
    return {case: block for case, block in CASES.items() if suits(name, case)}


def given(block: Block) -> Rows:
    columns = (block.label, block.raw, block.ranking)
    label, raw, score = (tuple(column.astype(np.float64).tolist()) for column in columns)
    return Rows(label, raw, score, tuple(block.weight.tolist()), block.probability is not None)


def states_of(name: str, choice: StateChoice, block: Block, sizes: Sizes) -> dict[str, State]:
    accumulators = metric_named(name).accumulators(choice)
    return {one.identity: one.update(one.zero(sizes), block) for one in accumulators}


def evaluated(name: str, choice: StateChoice, block: Block) -> Replicates:
    few = replace(block, bucket=block.bucket % NUM_BUCKETS)
    return metric_named(name).evaluate(states_of(name, choice, few, Sizes(1, NUM_BUCKETS)), choice, 1.0)


def near(golden: Golden, expected: Known) -> object:
    if expected is None:
        return pytest.approx(math.nan, nan_ok=True)
    return pytest.approx(float(expected), rel=golden.relative, abs=golden.absolute)


def forms(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each metric with each choice under which its states are others."""
    chosen = []
    for name in names:
        every = {one.identity for one in metric_named(name).accumulators(EXACT)}
        binned = {one.identity for one in metric_named(name).accumulators(BINNED)}
        chosen += [(name, "exact")] if every == binned else [(name, "exact"), (name, "binned")]
    return chosen


@pytest.mark.parametrize(("name", "choice"), forms(REFERENCES))
def test_the_value_is_the_reference_s(name, choice):
    golden = REFERENCES[name]
    for case, block in cases_of(name).items():
        result, expected = evaluated(name, CHOICES[choice], block), golden.reference(given(block))
        assert result.value[0] == near(golden, expected), case
        assert (result.reason[0] is None) == (expected is not None), case
        assert result.error_bound[0] == 0.0, case


@pytest.mark.parametrize("name", REFERENCES)
def test_so_is_the_value_without_each_bucket(name):
    golden = REFERENCES[name]
    for case, block in cases_of(name).items():
        bucket = np.arange(len(block.label), dtype=np.int32) % 3  # several rows in each, none in the last
        result = evaluated(name, EXACT, replace(block, bucket=bucket))
        for one in range(4):
            expected = golden.reference(given(block).take(bucket != one))
            assert result.without[0, one] == near(golden, expected), (case, one)


# ---- large counts: a state merged with itself again and again --------------------------------------------------------

BINARY_NAMES = [name for name in REFERENCES if metric_named(name).label_kind != "real"]


def doubled(name: str, choice: StateChoice, block: Block, times: int, last: Block | None = None) -> Replicates:
    """`block` 2^times times, and `last` once."""
    metric, sizes = metric_named(name), Sizes(1, NUM_BUCKETS)
    states, more = states_of(name, choice, block, sizes), states_of(name, choice, last or block.take(NOTHING), sizes)
    for one in metric.accumulators(choice):
        for _ in range(times):
            states[one.identity] = one.merge(states[one.identity], states[one.identity])
        states[one.identity] = one.merge(states[one.identity], more[one.identity])
    return metric.evaluate(states, choice, 1.0)


@pytest.mark.parametrize("times", [24, 53])
@pytest.mark.parametrize(("name", "choice"), forms(name for name in REFERENCES if name != "count"))
def test_so_many_times_the_rows_is_the_same_value(name, times, choice):
    real = metric_named(name).label_kind == "real"
    block = CASES["reals, offset of 1e9" if real else "probabilities, ties"]
    block = replace(block, bucket=block.bucket % NUM_BUCKETS)
    once, often = (doubled(name, CHOICES[choice], block, number) for number in (0, times))
    np.testing.assert_allclose(often.value, once.value, rtol=1e-15)
    np.testing.assert_allclose(often.without, once.without, rtol=2e-15)


@pytest.mark.parametrize("times", [24, 53])
@pytest.mark.parametrize(("name", "choice"), forms(BINARY_NAMES))
def test_one_row_beside_so_many_is_not_lost(name, times, choice):
    many, one = rows_of([0.25], [0]), rows_of([0.75], [1])
    golden = REFERENCES[name]
    expected = golden.reference(given(rows_of([0.25, 0.75], [0, 1], [1 << times, 1])))
    if name == "count":
        expected = float((1 << times) + 1)
    assert doubled(name, CHOICES[choice], many, times, one).value[0] == near(golden, expected)


@pytest.mark.parametrize("name", ["accuracy", "specificity", "false_positive_rate", "balanced_accuracy", "matthews"])
def test_one_negative_beside_2_to_the_53_positives_is_not_lost(name):
    many, one = rows_of([0.75], [1]), rows_of([0.25], [0])
    expected = REFERENCES[name].reference(given(rows_of([0.75, 0.25], [1, 0], [1 << 53, 1])))
    assert doubled(name, EXACT, many, 53, one).value[0] == near(REFERENCES[name], expected)


@pytest.mark.parametrize("times", [24, 53])
@pytest.mark.parametrize("name", ["rmse", "mae"])
def test_one_error_beside_so_many_perfect_rows_is_not_lost(name, times):
    many, one = rows_of([1e9], [1e9], probability=False), rows_of([1e9 + 1], [1e9], probability=False)
    share = Fraction(1, (1 << times) + 1)
    expected = math.sqrt(share) if name == "rmse" else float(share)
    assert doubled(name, EXACT, many, times, one).value[0] == pytest.approx(expected, rel=1e-15)


# ---- against the usual libraries, on more rows -----------------------------------------------------------------------

LIBRARIES = {
    "log_loss": lambda y, p, w: sk.log_loss(y, p, sample_weight=w),
    "brier": lambda y, p, w: sk.brier_score_loss(y, p, sample_weight=w),
    "auc": lambda y, p, w: sk.roc_auc_score(y, p, sample_weight=w),
    "average_precision": lambda y, p, w: sk.average_precision_score(y, p, sample_weight=w),
    "accuracy(threshold=0.3)": lambda y, p, w: sk.accuracy_score(y, p >= 0.3, sample_weight=w),
    "precision(threshold=0.3)": lambda y, p, w: sk.precision_score(y, p >= 0.3, sample_weight=w),
    "recall(threshold=0.3)": lambda y, p, w: sk.recall_score(y, p >= 0.3, sample_weight=w),
    "f1(threshold=0.3)": lambda y, p, w: sk.f1_score(y, p >= 0.3, sample_weight=w),
    "rmse": lambda y, p, w: sk.root_mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: sk.mean_absolute_error(y, p, sample_weight=w),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LIBRARIES)
def test_equal_to_the_usual_library(name, weighted):
    rng = np.random.default_rng(7)
    real = metric_named(name).label_kind == "real"
    score = rng.beta(1, 3, 5000).astype(np.float32)
    label = rng.normal(0.3, 1.0, 5000) if real else (rng.random(5000) < score).astype(float)
    weight = rng.integers(1, 50, 5000) if weighted else None
    result = evaluated(name, EXACT, rows_of(score, label, weight, probability=not real))
    expected = LIBRARIES[name](label, score.astype(np.float64), weight)
    assert result.value[0] == pytest.approx(expected, rel=1e-12, abs=UNIT)


def test_auc_is_the_mann_whitney_statistic():
    block = CASES["probabilities, ties"]
    ones, zeros = (block.ranking[block.label == one].astype(np.float64) for one in (1, 0))
    statistic = stats.mannwhitneyu(ones, zeros).statistic
    assert evaluated("auc", EXACT, block).value[0] == pytest.approx(statistic / (len(ones) * len(zeros)), rel=1e-15)


def test_infinities_of_float32_tie_and_are_not_lost():
    """Scores beyond float32's range rank above, or below, all others, and tie with each other."""
    block = rows_of([1e39, 1e300, 1.0, -1e300], [1, 0, 1, 0], probability=False)
    assert evaluated("auc", EXACT, block).value[0] == (0.5 + 1 + 0 + 1) / 4


def test_values_past_the_range_are_undefined_by_name():
    block = rows_of([1e300, 0.0], [0.0, 0.0], probability=False)
    assert evaluated("rmse", EXACT, block).reason == (Undefined.OVERFLOW,)


def test_the_median_error_is_the_least_that_half_of_the_weight_does_not_exceed():
    for case, block in cases_of("rmse").items():
        error, weight = np.abs(block.raw - block.label), block.weight
        order = np.argsort(error, kind="stable")
        half = np.searchsorted(2 * np.cumsum(weight[order]), weight.sum())
        expected = error[order][half] if len(error) else math.nan
        result = evaluated("error_quantile(q=0.5)", EXACT, block)
        assert result.value[0] == pytest.approx(expected, rel=2.0**-23, abs=1e-37, nan_ok=True), case
        assert len(error) == 0 or abs(result.value[0] - expected) <= result.error_bound[0], case
