"""Metrics of the ROC curve as a whole: partial area, and the Kolmogorov-Smirnov distance.

Axes: B buckets, k distinct scores or bins.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from assay.metrics import parameters
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts
from assay.metrics.ranking import MOST_COARSE_BOUND, RankingMetric, one_class_reason
from assay.metrics.ranking_states import Entries
from assay.metrics.sweep import Sweep, between, sweep
from assay.records import Floats, Undefined

DEFAULT_FPR = 0.1

Formula = Callable[[Sweep], float]
"""From the sweep over some rows to the value there; NaN where it is undefined."""


def partial_roc_area(swept: Sweep, max_fpr: float) -> float:
    """The area under the ROC curve up to a false positive rate, standardised; NaN for one class.

    >>> partial_roc_area(Sweep(np.arange(2), np.array([0.0, 2.0, 2.0]), np.array([0.0, 0.0, 4.0])), 0.5)
    1.0
    """
    if not (swept.positives and swept.negatives):
        return np.nan
    cut = max_fpr * swept.negatives
    stop = int(np.searchsorted(swept.false, cut, side="right"))
    x, y = swept.false[:stop], swept.true[:stop]
    if stop < len(swept.false):
        x, y = np.append(x, cut), np.append(y, between(cut, swept.false, swept.true))
    area = float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2)
    return _standardised(area / (swept.positives * swept.negatives), max_fpr)


def partial_roc_area_bound(swept: Sweep, value: float, max_fpr: float) -> float:
    """How far `value` can be from the partial area over the scores in bins: positives come first in each, or last."""
    ends = np.minimum(swept.false, max_fpr * swept.negatives)
    width, pairs = np.diff(ends), swept.positives * swept.negatives
    highest, lowest = ((width * true).sum() / pairs for true in (swept.true[1:], swept.true[:-1]))
    return max(_standardised(highest, max_fpr) - value, value - _standardised(lowest, max_fpr), 0.0)


def _standardised(area: float, max_fpr: float) -> float:
    least, most = 0.5 * max_fpr * max_fpr, max_fpr
    return float(0.5 * (1.0 + (area - least) / (most - least)))


def kolmogorov_smirnov(swept: Sweep) -> float:
    """The largest of true positive rate - false positive rate over all thresholds; NaN for one class."""
    if not (swept.positives and swept.negatives):
        return np.nan
    return float((swept.true / swept.positives - swept.false / swept.negatives).max())


def kolmogorov_smirnov_bound(swept: Sweep, value: float) -> float:
    """How much larger it can be over the scores in bins: the positives of a bin come first."""
    first = swept.true[1:] / swept.positives - swept.false[:-1] / swept.negatives
    return max(float(first.max()) - value, 0.0)


@dataclass(frozen=True)
class SweepMetric(RankingMetric):
    """A ranking metric that is a function of a sweep: the same over all rows and without each bucket."""

    @abstractmethod
    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        """The metric as a function of a sweep over all rows or some. whole: over all; exact: keys are scores."""

    @abstractmethod
    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        """How far the value over bins can be from that over the scores in them."""

    def values(self, entries: Entries, num_buckets: int, exact: bool, weight_unit: float) -> Floats:
        whole = sweep(entries)
        formula = self.formula(whole, exact, weight_unit)
        return np.array([formula(whole), *(formula(sweep(entries, bucket)) for bucket in range(num_buckets))])

    def bound(self, fine: Entries, value: float, weight_unit: float) -> float:
        return self.sweep_bound(sweep(fine), value, weight_unit)


@dataclass(frozen=True)
class PartialAUC(SweepMetric):
    """Area under the ROC curve up to a false positive rate of `max_fpr`, standardised so that chance is one half.

    (1 + (area - least) / (most - least)) / 2, with least = max_fpr^2 / 2 of chance and most = max_fpr; 1 at best. Ties
    count one half. Undefined for one class. McClish, "Analyzing a portion of the ROC curve", 1989; scikit-learn's
    roc_auc_score(max_fpr=...).
    """

    max_fpr: float = DEFAULT_FPR
    description: ClassVar[str] = "standardised area under the ROC curve up to a false positive rate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_fpr", parameters.share_or_all("partial_auc", "max_fpr", self.max_fpr))

    @property
    def name(self) -> str:
        return canonical("partial_auc", {"max_fpr": self.max_fpr}, {"max_fpr": DEFAULT_FPR})

    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        return partial(partial_roc_area, max_fpr=self.max_fpr)

    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        return partial_roc_area_bound(whole, value, self.max_fpr)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_COARSE_BOUND

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return one_class_reason(counts, one)


@dataclass(frozen=True)
class KS(SweepMetric):
    """Kolmogorov-Smirnov: the largest distance, over all thresholds, of the true from the false positive rate; 0 to 1.

    The share of positives minus that of negatives at or above a score, where it is largest; not its absolute value, so
    that a score that ranks backwards has 0. Undefined for one class. On binned states it is the largest on the edges
    of bins, and the bound is on how much larger it can be inside one.
    """

    description: ClassVar[str] = "Kolmogorov-Smirnov: largest difference of true and false positive rate"
    name: ClassVar[str] = "ks"

    def formula(self, whole: Sweep, exact: bool, weight_unit: float) -> Formula:
        return kolmogorov_smirnov

    def sweep_bound(self, whole: Sweep, value: float, weight_unit: float) -> float:
        return kolmogorov_smirnov_bound(whole, value)

    def agrees(self, coarse: float, value: float) -> bool:
        return abs(coarse - value) <= MOST_COARSE_BOUND

    def reason(self, counts: Counts, one: int) -> Undefined | None:
        return one_class_reason(counts, one)
