"""Simultaneous intervals over many variants: the distribution of the largest |t| when buckets are drawn again.

With probability 0.95 all intervals of a family hold their truths at once. A redraw takes as many buckets as there are,
with replacement and the same ones for all variants, so that what these have in common (hard rows, busy users, one
baseline) counts once: closer than a correction that knows nothing of it. Each redrawn t is divided by its own standard
error, so that few heavy buckets, which make that unsteady, make the intervals wider. Romano, Wolf, "Stepwise multiple
testing as formalized data snooping", 2005 (its first step, with the studentized bootstrap).

Axes: V variants, B buckets, R redraws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from assay.records import Interval
from assay.stats.evidence import Pair, VariantEvidence
from assay.stats.jackknife import CONFIDENCE, ROUNDING, Bools, Floats, difference

NUM_REDRAWS = 4_999
SEED = 20_050_701
"""Of the redraws. It is the same for every run, so that the same states give the same intervals."""
_AT_ONCE = 256
_HALF_WORD = np.uint64(32)


class Member(NamedTuple):
    """One variant's difference over all rows: of a metric 64 numbers."""

    variant: str
    shown: Interval
    without: Floats  # [B]
    occupied: Bools  # [B]


Members = dict[tuple[str, str], Member]  # of one variant, by task and metric


def members_of(evidence: VariantEvidence) -> Members:
    """What a variant adds to the families of comparisons, of each metric one.

    Nothing where rows depend on one another through two clusters: no one set of buckets redraws both.
    """
    return {
        (task.task.name, one.metric.name): _member(evidence.variant, one.pair)
        for task in evidence.tasks
        for one in task.metrics
        if one.pair is not None and not one.pair.candidate.other_occupied
    }


class SimultaneousIntervals:
    """Takes in variant by variant, and gives the intervals."""

    def __init__(self) -> None:
        self._families: dict[tuple[str, str], list[Member]] = {}  # by task and metric

    def add(self, members: Members) -> None:
        for family, member in members.items():
            self._families.setdefault(family, []).append(member)

    def limits(self) -> dict[tuple[str, str, str], tuple[float, float]]:
        """(variant, task, metric) -> low and high, where there is an interval."""
        return {
            (variant, task, metric): ends
            for (task, metric), members in self._families.items()
            for variant, ends in _limits(members)
        }


def _member(variant: str, pair: Pair) -> Member:
    candidate, baseline = pair.candidate.overall(), pair.baseline.overall()
    contrast = difference(candidate.replicates, baseline.replicates)
    return Member(variant, candidate.intervals_of(contrast).at(0), contrast.without[0], candidate.occupied[0])


def _limits(members: Sequence[Member]) -> Iterator[tuple[str, tuple[float, float]]]:
    known = [one for one in members if one.shown.undefined is None]
    if not known:
        return
    varying = [one for one in known if one.shown.standard_error > 0.0]
    critical = math.nan
    if varying:
        without, occupied = ([getattr(one, name) for one in varying] for name in ("without", "occupied"))
        critical = critical_value(np.array(without), np.array(occupied))
    errors = np.array([one.shown.standard_error for one in known])
    degrees = np.array([one.shown.degrees for one in known])
    most = np.minimum(degrees, [effective_degrees(one.without[None], one.occupied[None])[0] for one in known])
    halves = half_widths(critical, errors, degrees, stdtrit(most, 1.0 - (1.0 - CONFIDENCE) / 2.0 / len(known)))
    for one, half in zip(known, halves, strict=True):
        yield one.variant, (one.shown.value - float(half), one.shown.value + float(half))


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def critical_value(without: Floats, occupied: Bools) -> float:
    """The |t| that the largest of the family exceeds with probability 0.05 where nothing differs.

    without: [V, B] leave-one-bucket-out values of each variant's difference. occupied: [V, B] buckets with rows. Each
    redrawn t is divided by its own standard error. A variant without a finite value in an occupied bucket, with fewer
    than 2 of them, or with all of them equal has no t and takes no part; NaN where none does. Infinite where in one
    redraw of 20 some variant is left with equal buckets alone.
    """
    deviations, count = _deviations(without, occupied)
    squares = (deviations**2).sum(axis=1)
    usable = (count >= 2) & np.isfinite(squares) & (squares > 0.0)
    if not usable.any():
        return math.nan
    deviations, taken = deviations[usable] / np.sqrt(squares[usable])[:, None], occupied[usable]
    drawn_from = np.flatnonzero(taken.any(axis=0))
    deviations, taken = deviations[:, drawn_from], taken[:, drawn_from]
    largest = [_t_squared(times, deviations, taken).max(axis=1) for times in _redraws(NUM_REDRAWS, len(drawn_from))]
    rank = math.ceil(CONFIDENCE * (NUM_REDRAWS + 1)) - 1
    return math.sqrt(float(np.sort(np.concatenate(largest))[rank]))


def half_widths(critical: float, standard_error: Floats, degrees: NDArray[np.int64], most: Floats) -> Floats:
    """Half widths [V] of the simultaneous intervals, never below those of the plain ones.

    standard_error: [V], NaN where there is no interval; so is the half width. 0 where it is 0. most: [V] the |t| that
    each needs at most, so that one variant of which a single bucket decides does not widen all; that of all where
    `critical` is NaN.
    """
    plain = stdtrit(np.maximum(degrees, 1), 0.5 + CONFIDENCE / 2)
    widened: Floats = standard_error * np.maximum(plain, np.fmin(critical, most))
    return widened


def effective_degrees(without: Floats, occupied: Bools) -> Floats:
    """Of freedom [V]: as many as say how unsteady the standard error is, where few buckets make most of it.

    2 V^2 / var V with V the sum of squares of what the buckets add and var V estimated from its terms: about B' where
    these are normal and alike, at least 1 (Satterthwaite, "An approximate distribution of estimates of variance
    components", 1946).
    """
    deviations, count = _deviations(without, occupied)
    squares, fourths = (deviations**2).sum(axis=1), (deviations**4).sum(axis=1)
    spread = fourths - squares**2 / np.maximum(count, 1.0)
    degrees = np.divide(2.0 * squares**2, spread, out=np.full(len(spread), np.inf), where=spread > 0.0)
    return np.asarray(np.clip(degrees, 1.0, np.maximum(count - 1.0, 1.0)))


def _deviations(without: Floats, occupied: Bools) -> tuple[Floats, Floats]:
    """What each bucket adds to the variant's difference, up to a factor; 0 where it has no rows. And B' [V]."""
    count = occupied.sum(axis=1).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        origin = np.take_along_axis(without, occupied.argmax(axis=1)[:, None], axis=1)  # as in `standard_errors`
        offset = np.where(occupied, without - origin, 0.0)
        mean = offset.sum(axis=1) / np.maximum(count, 1.0)
        return np.where(occupied, offset - mean[:, None], 0.0), count


def _t_squared(times: Floats, deviations: Floats, taken: Bools) -> Floats:
    """t^2 of every variant [R, V] when bucket b is there times[r, b] times: its mean over the error of that mean.

    Added bucket by bucket, not by a matrix product, whose last digits differ between processors.
    """
    total, squares, count = (np.zeros((len(times), len(deviations))) for _ in range(3))
    for bucket in range(deviations.shape[1]):
        often, one, has_rows = times[:, bucket, None], deviations[:, bucket], taken[:, bucket]
        total += often * one
        squares += often * one**2
        count += often if has_rows.all() else often * has_rows
    explained = total**2 / np.maximum(count, 1.0)
    rest = squares - explained
    spread = (count >= 2.0) & (rest > ROUNDING * squares)
    return np.divide(explained * (count - 1.0), rest, out=np.full_like(rest, np.inf), where=spread)


def _redraws(number: int, num_buckets: int) -> Iterator[Floats]:
    """How often each bucket is drawn [R, B] when as many are drawn as there are, some redraws at a time."""
    words = -(-num_buckets // 2)
    raw = np.random.Philox(key=SEED).random_raw(number * words).reshape(number, words)
    for first in range(0, number, _AT_ONCE):
        some = raw[first : first + _AT_ONCE]
        halves = np.concatenate([some >> _HALF_WORD, some & np.uint64(0xFFFFFFFF)], axis=1)[:, :num_buckets]
        drawn = (halves * np.uint64(num_buckets) >> _HALF_WORD).astype(np.int64)
        places = drawn + num_buckets * np.arange(len(drawn))[:, None]
        yield np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
