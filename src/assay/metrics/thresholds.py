"""The threshold that a wanted precision or recall asks for, and what it costs.

A row is predicted positive when its score is at least the threshold. Axes: S slices, B buckets, k distinct scores or
bins, from the highest; in a bin that a level is crossed in, rows are taken to be evenly mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import sigmoid
from assay.kernels.keys import key_scores, probability_edges, raw_edges
from assay.metrics import parameters
from assay.metrics.additive import AdditiveState
from assay.metrics.described import DescribedMetric
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, divide, support_of
from assay.metrics.ranking import no_positives_reason
from assay.metrics.ranking_states import Ranking, ranking_state
from assay.metrics.sums import SUPPORT
from assay.metrics.sweep import Sweep, sweep
from assay.protocols import Accumulator
from assay.records import Block, Bools, Floats, Replicates, Sizes, State, StateChoice, Undefined
from assay.states import ints

DEFAULT_PRECISION = 0.9


# ---- where a level is reached ----------------------------------------------------------------------------------------


def _precise(swept: Sweep, level: float) -> Bools:
    """[k] where the rows at or above a key have that precision."""
    return np.asarray(swept.true[1:] / swept.predicted[1:] >= level)


def _could_be_precise(swept: Sweep, level: float) -> Bools:
    """[k] where they could have it with some of a bin's rows: its positives, which come first."""
    return divide(swept.true[1:], swept.true[1:] + swept.false[:-1]) >= level


def _last(mask: Bools) -> int:
    """The last place where it holds; -1 where it never does."""
    return len(mask) - 1 - int(np.argmax(mask[::-1])) if mask.any() else -1


def _recalled(swept: Sweep, level: float) -> int:
    """The first key at or above which a share `level` of the positives is."""
    return int(np.argmax(swept.true[1:] / swept.positives >= level))


def recall_at_precision(swept: Sweep, level: float, mixed: bool) -> float:
    """The largest recall with a precision of `level`; NaN without positives, and where that precision is not reached.

    >>> swept = Sweep(np.arange(2), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 2.0]))
    >>> recall_at_precision(swept, 0.8, mixed=False), round(recall_at_precision(swept, 0.8, mixed=True), 4)
    (0.5, 0.5714)
    """
    last = _last(_precise(swept, level))
    if not swept.positives or last < 0:
        return np.nan
    true, predicted = float(swept.true[last + 1]), float(swept.predicted[last + 1])
    if mixed and last + 1 < len(swept.key):
        more_true = float(swept.true[last + 2]) - true
        more = float(swept.predicted[last + 2]) - predicted
        true += more_true * max((true - level * predicted) / (level * more - more_true), 0.0)
    return true / swept.positives


def recall_at_precision_bound(swept: Sweep, value: float, level: float) -> float:
    """How far `value` can be from the same over the scores in bins; the edge of a bin is one of the scores' own."""
    surely = float(swept.true[_last(_precise(swept, level)) + 1]) / swept.positives
    at_most = float(swept.true[_last(_could_be_precise(swept, level)) + 1]) / swept.positives
    return max(at_most - value, value - surely, 0.0)


def unreached_precision(swept: Sweep, level: float, exact: bool) -> Undefined:
    """Why no threshold was found for a precision: there is none, or bins are too wide to say."""
    unsure = not exact and bool(_could_be_precise(swept, level).any())
    return Undefined.RESOLUTION if unsure else Undefined.OUT_OF_REACH


def precision_at_recall(swept: Sweep, level: float, mixed: bool) -> float:
    """The precision at the highest score at or above which a share `level` of the positives is; NaN without positives.

    >>> swept = Sweep(np.arange(2), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 2.0]))
    >>> precision_at_recall(swept, 0.75, mixed=False), precision_at_recall(swept, 0.75, mixed=True)
    (0.5, 0.6)
    """
    if not swept.positives:
        return np.nan
    at = _recalled(swept, level)
    true, predicted = float(swept.true[at + 1]), float(swept.predicted[at + 1])
    if mixed:
        more_true, wanted = true - float(swept.true[at]), level * swept.positives
        predicted -= (predicted - float(swept.predicted[at])) * max((true - wanted) / more_true, 0.0)
        true = min(true, wanted)
    return true / predicted


def precision_at_recall_bound(swept: Sweep, value: float, level: float) -> float:
    """How far `value` can be from the same over the scores in bins: the bin's negatives come last, or first."""
    at = _recalled(swept, level)
    true, wanted = float(swept.true[at + 1]), min(level * swept.positives, float(swept.true[at + 1]))
    best = true / (true + float(swept.false[at]))
    worst = wanted / (wanted + float(swept.false[at + 1]))
    return max(best - value, value - worst, 0.0)


# ---- the threshold itself --------------------------------------------------------------------------------------------

PLAIN, PROBABILITY, LOGIT = range(3)


@dataclass(frozen=True, slots=True)
class ScoreForms(AdditiveState):
    """How many rows have a plain score, a probability, a probability made of a logit: rows [3].

    Of a variant all rows have the same; so this says what its keys and bins mean.
    """

    identity: ClassVar[str] = "score_forms.v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"rows": (3,)}

    def update(self, state: State, block: Block) -> State:
        if block.probability is None:
            form = PLAIN
        else:
            form = PROBABILITY if np.array_equal(block.probability, block.ranking) else LOGIT
        ints(state, "rows")[form] += len(block.weight)
        return state


FORMS = ScoreForms()


class _Limits(NamedTuple):
    """The scores [n] that a key or bin may stand for."""

    least: Floats
    most: Floats


def _limits(keys: NDArray[np.int64], bits: int | None, form: int) -> _Limits:
    if bits is None:
        score = key_scores(keys)
        shown = sigmoid(score.astype(np.float64)).astype(np.float32) if form == LOGIT else score
        return _Limits(shown.astype(np.float64), shown.astype(np.float64))
    edges = raw_edges if form == PLAIN else probability_edges
    return _Limits(edges(keys, bits).astype(np.float64), edges(keys + 1, bits).astype(np.float64))


@dataclass(frozen=True)
class ThresholdAt(DescribedMetric):
    """The lowest score at or above which rows have at least this `precision`; or the highest with this `recall`.

    A probability where the output has one (also of a logit), else a raw score. Undefined without positives, and where
    no threshold reaches the precision. On binned states it is the edge of a bin, so that precision and recall hold for
    certain, and the bound says how much further the score could be. It has no interval: compare the metrics there,
    `recall_at(precision=...)` and `precision_at(recall=...)`.
    """

    precision: float | None = None
    recall: float | None = None
    description: ClassVar[str] = "lowest score with a precision (0.9), or the highest with a recall"
    nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.precision is not None and self.recall is not None:
            raise ValueError("The metric 'threshold_at' has both 'precision' and 'recall'; give one of them.")
        if self.precision is None and self.recall is None:
            object.__setattr__(self, "precision", DEFAULT_PRECISION)
        for name in ("precision", "recall"):
            level = getattr(self, name)
            if level is not None:
                object.__setattr__(self, name, parameters.share_or_all("threshold_at", name, level))

    @property
    def name(self) -> str:
        if self.recall is not None:
            return canonical("threshold_at", {"recall": self.recall}, {"recall": np.nan})
        precision = DEFAULT_PRECISION if self.precision is None else self.precision
        return canonical("threshold_at", {"precision": precision}, {"precision": DEFAULT_PRECISION})

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, ranking_state(choice), FORMS)

    def evaluate(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> Replicates:
        counts, ranking = support_of(states), ranking_state(choice)
        num_slices, num_buckets = counts.rows.shape[0], counts.rows.shape[1] - 1
        form = int(np.argmax(ints(states[FORMS.identity], "rows")))
        value, bound = np.full(num_slices, np.nan), np.zeros(num_slices)
        reason: list[Undefined | None] = []
        for one, ranked in enumerate(ranking.of(states[ranking.identity], num_slices)):
            why = _undefined(counts, one)
            if why is None:
                value[one], bound[one], why = self._found(ranked, form)
            reason.append(why)
        nothing = np.full((num_slices, num_buckets), np.nan)
        return Replicates(value, tuple(reason), nothing, (Undefined.NO_INTERVAL,) * num_slices, bound)

    def _found(self, ranking: Ranking, form: int) -> tuple[float, float, Undefined | None]:
        """The threshold, its bound, and why there is none."""
        swept = sweep(ranking.buckets if ranking.fine is None else ranking.fine)
        if self.recall is not None:
            found = furthest = _recalled(swept, self.recall)
        else:
            level = DEFAULT_PRECISION if self.precision is None else self.precision
            found = furthest = _last(_precise(swept, level))
            if not ranking.exact:
                furthest = _last(_could_be_precise(swept, level))
            if found < 0:
                return np.nan, 0.0, unreached_precision(swept, level, ranking.exact)
        limits = _limits(swept.key[[found, furthest]], ranking.bits, form)
        value = float(limits.least[0])
        if ranking.exact:
            return value, 0.0, None
        return value, max(float(limits.most[0]) - value, value - float(limits.least[1])), None


def _undefined(counts: Counts, one: int) -> Undefined | None:
    return no_positives_reason(counts, one) if counts.rows[one, 0] else Undefined.NO_ROWS
