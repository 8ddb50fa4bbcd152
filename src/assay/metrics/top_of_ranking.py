"""What is found at the top of the ranking: precision, recall, F-beta and lift of a share of the rows, or of k of them.

The cut is at a share of the weight. Rows that tie at the cut, and those of a bin that it falls into, enter in part, all
alike: the order of rows never matters. Axes: k distinct scores or bins.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from assay.metrics import parameters
from assay.metrics.parse import Number, canonical
from assay.metrics.pooled import Counts
from assay.metrics.ranking import MOST_RELATIVE_GAP, no_positives_reason
from assay.metrics.ranking_curves import Formula, SweepMetric
from assay.metrics.ranking_states import Entries, Ranking
from assay.metrics.sweep import Sweep, between, sweep
from assay.metrics.threshold import DEFAULT_BETA
from assay.metrics.thresholds import (
    precision_at_recall,
    precision_at_recall_bound,
    recall_at_precision,
    recall_at_precision_bound,
    unreached_precision,
)
from assay.records import Undefined

DEFAULT_FRACTION = 0.01
DEFAULT_LIFT_FRACTION = 0.1


def true_at_top(swept: Sweep, share: float) -> float:
    """The positive weight in the top `share` of the weight of all rows.

    >>> swept = Sweep(np.arange(2), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 2.0]))
    >>> true_at_top(swept, 0.25), true_at_top(swept, 0.5)
    (1.0, 1.3333333333333333)
    """
    predicted = swept.predicted
    return between(share * float(predicted[-1]), predicted, swept.true)


def true_at_top_bound(swept: Sweep, share: float) -> float:
    """How far that can be from the same over the scores in bins: positives come first in the bin cut, or last."""
    predicted, true = swept.predicted, swept.true
    cut = share * float(predicted[-1])
    after = min(int(np.searchsorted(predicted, cut, side="right")), len(true) - 1)
    value = between(cut, predicted, true)
    most = min(float(true[after]), float(true[after - 1]) + cut - float(predicted[after - 1]))
    least = max(float(true[after - 1]), float(true[after]) - (float(predicted[after]) - cut))
    return max(most - value, value - least, 0.0)


# Each of these is proportional to `true`, the positive weight at the top.


def _precision(true: float, share: float, swept: Sweep) -> float:
    return true / (share * float(swept.predicted[-1]))


def _recall(true: float, share: float, swept: Sweep) -> float:
    return true / swept.positives if swept.positives else np.nan


def _f_beta(true: float, share: float, swept: Sweep, beta: float) -> float:
    recalled = beta * beta
    of = recalled * swept.positives + share * float(swept.predicted[-1])
    return (1.0 + recalled) * true / of if swept.positives else np.nan


def _lift(true: float, share: float, swept: Sweep) -> float:
    return true / (share * swept.positives) if swept.positives else np.nan


@dataclass(frozen=True)
class TopMetric(SweepMetric):
    """A metric of the top of the ranking, whose end is a share of the weight, or k in weight."""

    fraction: float | None = None
    k: int | None = None
    word: ClassVar[str]
    default_fraction: ClassVar[float] = DEFAULT_FRACTION

    def __post_init__(self) -> None:
        given = [name for name in self._ends() if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"The metric {self.word!r} has both {given[0]!r} and {given[1]!r}; give one of them.")
        if not given:
            object.__setattr__(self, "fraction", self.default_fraction)
        for name in self._ends():
            end = getattr(self, name)
            if end is not None and name != "k":
                object.__setattr__(self, name, parameters.share_or_all(self.word, name, end))
        if self.k is not None and not (self.k == int(self.k) and self.k >= 1):
            raise ValueError(f"The 'k' of the metric {self.word!r} is {self.k!r}; expected whole rows, 1 or more.")

    @property
    def name(self) -> str:
        given = {name: getattr(self, name) for name in self._ends() if getattr(self, name) is not None}
        return canonical(self.word, given, self._defaults(given))

    @abstractmethod
    def at_top(self, true: float, share: float, swept: Sweep) -> float:
        """The metric when the top `share` holds the positive weight `true`: proportional to it."""

    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        return partial(self._value, share=self._share(whole, weight_unit))

    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        share = self._share(whole, weight_unit)
        return self.at_top(true_at_top_bound(whole, share), share, whole)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_RELATIVE_GAP * value

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return no_positives_reason(counts, one)

    def _value(self, swept: Sweep, share: float) -> float:
        return self.at_top(true_at_top(swept, share), share, swept) if len(swept.key) else np.nan

    def _share(self, whole: Sweep, weight_unit: float) -> float:
        """Of the weight; the same without a bucket, so that the cut stays at the same quantile of the scores."""
        if self.k is None:
            return self.fraction or self.default_fraction
        return min(self.k / (weight_unit * float(whole.predicted[-1])), 1.0)

    def _ends(self) -> tuple[str, ...]:
        return ("fraction", "k")

    def _defaults(self, given: dict[str, Number]) -> dict[str, Number]:
        """Of the parameters given; NaN equals none."""
        return {name: self.default_fraction if name == "fraction" else np.nan for name in given}


@dataclass(frozen=True)
class PrecisionAt(TopMetric):
    """Share of positives, by weight, in the top of the ranking: a `fraction` of all rows, or `k` of them.

    Or at the highest score whose `recall` is reached. 0 to 1. `k` counts weight: a row of weight 2 is two rows; where
    there are fewer than k, all are the top. Ties at the cut enter in part, all alike. Undefined without rows, and for
    `recall` without positives.
    """

    recall: float | None = None
    word: ClassVar[str] = "precision_at"
    description: ClassVar[str] = "precision of the top fraction (0.01) or k rows, or where a recall is reached"

    def at_top(self, true: float, share: float, swept: Sweep) -> float:
        return _precision(true, share, swept)

    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        if self.recall is None:
            return TopMetric.formula(self, whole, exact, weight_unit)
        return partial(precision_at_recall, level=self.recall, mixed=not exact)

    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        if self.recall is None:
            return TopMetric.sweep_bound(self, whole, value, weight_unit)
        return precision_at_recall_bound(whole, value, self.recall)

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return None if self.recall is None else no_positives_reason(counts, one)

    def _ends(self) -> tuple[str, ...]:
        return ("fraction", "k", "recall")


@dataclass(frozen=True)
class RecallAt(TopMetric):
    """Share of the positives, by weight, that are in the top of the ranking: a `fraction` of all rows, or `k` of them.

    Or at the lowest score whose `precision` is still reached, which is the largest recall with that precision. 0 to 1.
    `k` and ties as for `precision_at`. Undefined without positives, and where no threshold reaches the precision.
    """

    precision: float | None = None
    word: ClassVar[str] = "recall_at"
    description: ClassVar[str] = "recall of the top fraction (0.01) or k rows, or the largest with a precision"
    drawn: ClassVar[tuple[str, ...]] = ("gains",)

    def at_top(self, true: float, share: float, swept: Sweep) -> float:
        return _recall(true, share, swept)

    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        if self.precision is None:
            return TopMetric.formula(self, whole, exact, weight_unit)
        return partial(recall_at_precision, level=self.precision, mixed=not exact)

    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        if self.precision is None:
            return TopMetric.sweep_bound(self, whole, value, weight_unit)
        return recall_at_precision_bound(whole, value, self.precision)

    def unreached(self, ranking: Ranking) -> Undefined:
        return unreached_precision(_swept(ranking), self.precision or 0.0, ranking.exact)

    def _ends(self) -> tuple[str, ...]:
        return ("fraction", "k", "precision")


@dataclass(frozen=True)
class FBetaAt(TopMetric):
    """Weighted harmonic mean of precision and recall of the top of the ranking; recall counts beta times as much.

    (1 + beta^2) T / (beta^2 P + C) with the positive weight T among the weight C of the top, and P of all; 0 to 1. Top
    and ties as for `precision_at`. Undefined without positives. van Rijsbergen, "Information Retrieval", 1979.
    """

    beta: float = DEFAULT_BETA
    word: ClassVar[str] = "f_beta_at"
    description: ClassVar[str] = "F-beta of the top fraction (0.01) or k rows; recall counts beta (2) times as much"

    def __post_init__(self) -> None:
        TopMetric.__post_init__(self)
        object.__setattr__(self, "beta", parameters.positive(self.word, "beta", self.beta))

    @property
    def name(self) -> str:
        given = {name: getattr(self, name) for name in self._ends() if getattr(self, name) is not None}
        return canonical(self.word, {**given, "beta": self.beta}, {**self._defaults(given), "beta": DEFAULT_BETA})

    def at_top(self, true: float, share: float, swept: Sweep) -> float:
        return _f_beta(true, share, swept, self.beta)


@dataclass(frozen=True)
class Lift(TopMetric):
    """Precision of the top of the ranking over that of all rows: how many times richer in positives it is.

    From 0 to 1 / fraction; 1 by chance. Top and ties as for `precision_at`, with a fraction of 0.1 by default.
    Undefined without positives.
    """

    word: ClassVar[str] = "lift"
    description: ClassVar[str] = "precision of the top fraction (0.1) or k rows, over the share of positives"
    default_fraction: ClassVar[float] = DEFAULT_LIFT_FRACTION
    drawn: ClassVar[tuple[str, ...]] = ("gains",)

    def at_top(self, true: float, share: float, swept: Sweep) -> float:
        return _lift(true, share, swept)


def _swept(ranking: Ranking) -> Sweep:
    entries: Entries = ranking.buckets if ranking.fine is None else ranking.fine
    return sweep(entries)
