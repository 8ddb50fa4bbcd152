"""Probabilities after recalibration, cross-fitted by halves of the clusters: what the ranking alone is worth.

A calibrator is fitted on the rows of the even buckets and applied to those of the odd ones, and the other way round.
Buckets are hashes of the cluster, so the halves are random halves of the clusters, and no row meets a calibrator that
has seen its cluster. Without a bucket, the calibrator that had seen it is fitted again.

Not here: the metrics of what comes out (`recalibrated.py`).

All is computed from histograms of the overall slice: scores in one bin, 1/128 of an octave of min(p, 1 - p), are given
one probability; by bucket, 1/16 of an octave. Other slices are undefined (over budget).

Axes: B buckets, F bins, of which M have rows, G groups (the buckets, or the two halves of them), R replicates: of the
buckets 1 + B (all rows, then without each bucket), of the halves 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.kernels.elementary import log, sigmoid
from assay.kernels.isotonic import isotonic_fit
from assay.kernels.keys import NUM_OCTAVES, PROBABILITY_OCTAVES, probability_bins
from assay.kernels.logistic import logistic_fit
from assay.kernels.scatter import add_counts
from assay.metrics.additive import AdditiveState
from assay.metrics.sums import by_class, probability_of
from assay.records import Block, Floats, Sizes, State, Undefined
from assay.states import ints, pooled

FINE_BITS, COARSE_BITS = 7, 4
"""Mantissa bits of the bins: of the halves, which give the value; of the buckets."""
LARGEST_GRAIN = 2.0**-14
"""What isotonic regression adds to either end is at most this share of all weight."""

Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HalfBins(AdditiveState):
    """By half of the clusters and bin the weight of the overall slice [1, 2, F, 2] (negative, positive)."""

    identity: ClassVar[str] = f"half_bins(bits={FINE_BITS}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (1, 2, NUM_OCTAVES << FINE_BITS, 2)}

    def update(self, state: State, block: Block) -> State:
        return _updated(state, block, block.bucket & 1, FINE_BITS)


@dataclass(frozen=True, slots=True)
class BucketBins(AdditiveState):
    """By bucket and bin the weight of the overall slice [1, B, F, 2] (negative, positive)."""

    identity: ClassVar[str] = f"bucket_bins(bits={COARSE_BITS}).v1"

    def shapes(self, sizes: Sizes) -> Mapping[str, tuple[int, ...]]:
        return {"weight": (1, sizes.num_buckets, NUM_OCTAVES << COARSE_BITS, 2)}

    def update(self, state: State, block: Block) -> State:
        return _updated(state, block, block.bucket, COARSE_BITS)


def _updated(state: State, block: Block, group: NDArray[np.int32], bits: int) -> State:
    place = group * np.int32(NUM_OCTAVES << bits) + probability_bins(probability_of(block), bits)
    add_counts(block.weight, block.slices[:1], by_class(place, block), ints(state, "weight").reshape(1, -1))
    return state


HALF_BINS = HalfBins()
BUCKET_BINS = BucketBins()


def bin_probabilities(num_bins: int) -> Floats:
    """The probability [F] in the middle of each bin; of bins that no probability falls in, that of the nearest.

    >>> bin_probabilities(64 << 4)[511:513].tolist()
    [0.4921875, 0.5078125]
    """
    parts = num_bins // NUM_OCTAVES  # bins an octave
    steps = np.arange(num_bins // 2) - (NUM_OCTAVES // 2 - PROBABILITY_OCTAVES) * parts
    octave, part = np.divmod(np.maximum(steps, 0), parts)
    below = np.ldexp(1.0 + (part + 0.5) / parts, octave - PROBABILITY_OCTAVES - 1)
    return np.concatenate([below, 1.0 - below[::-1]])


class LogitBins(NamedTuple):
    """The bins that have rows, by their log-odds."""

    logits: Floats  # [M]
    weight: Cells  # [R, M, 2]


def logit_bins(groups: Cells, replicated: bool) -> LogitBins:
    """From weight [G, F, 2] by bucket (replicated) or by half."""
    used = np.flatnonzero(groups.any(axis=(0, 2)))
    weight, p = pooled(groups[None, :, used])[0], bin_probabilities(groups.shape[1])[used]
    return LogitBins(log(p / (1.0 - p)), weight if replicated else weight[:1])


# ---- calibrators -----------------------------------------------------------------------------------------------------


def platt(x: Floats, weight: Cells, grain: float) -> Floats:
    """[M] sigmoid(a logit x + b) of the greatest likelihood; NaN where the classes are separated.

    Platt, "Probabilistic Outputs for Support Vector Machines", 1999, without his pull of the targets.
    """
    logits = log(x / (1.0 - x))
    slope, intercept = logistic_fit(logits, weight, np.zeros(2))
    return np.asarray(sigmoid(slope * logits + intercept))


def isotonic(x: Floats, weight: Cells, grain: float) -> Floats:
    """[M] the never decreasing function of x that is nearest to the labels, linear between the x that have weight.

    Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates", 2002. So that
    no row is certain, which would let a single one cost any log loss, `grain` of a positive is added at the lowest x if
    it has none, and of a negative at the highest: the least weight of a bin and class, so about one row, but no more
    than 2^-14 of all weight.
    """
    return np.asarray(isotonic_fit(x, weight, grain))


METHODS: Mapping[str, Callable[[Floats, Cells, float], Floats]] = {"isotonic": isotonic, "platt": platt}


class CrossFit(NamedTuple):
    """All rows, recalibrated: those of the even buckets, then those of the odd ones."""

    probability: Floats  # [R, 2, M]
    weight: Cells  # [R, 2, M, 2] negative, positive
    undefined: Undefined | None  # why there is no value; the arrays are then empty


def cross_fit(groups: Cells, method: str, replicated: bool) -> CrossFit:
    """From weight [G, F, 2] by bucket (replicated) or by half, the cross-fitted probabilities of rows and replicates.

    A replicate is NaN where a half of it cannot be fitted.
    """
    used = np.flatnonzero(groups.any(axis=(0, 2)))
    cells, x = groups[:, used], bin_probabilities(groups.shape[1])[used]
    halves = np.stack([cells[0::2].sum(axis=0), cells[1::2].sum(axis=0)])
    reason = _unfit(halves)
    if reason is not None:
        return CrossFit(np.zeros((0, 2, 0)), np.zeros((0, 2, 0, 2), np.int64), reason)
    grain = min(float(cells[cells > 0].min()), LARGEST_GRAIN * float(cells.sum()))

    def fitted(weight: Cells) -> Floats:
        return np.full(len(x), np.nan) if lacks_class(weight) else METHODS[method](x, weight, grain)

    of_half = [fitted(halves[1]), fitted(halves[0])]  # a half has the calibrator of the other one
    if np.isnan(of_half).any():
        return CrossFit(np.zeros((0, 2, 0)), np.zeros((0, 2, 0, 2), np.int64), Undefined.SEPARATED)
    num_replicates = 1 + len(cells) if replicated else 1
    probability = np.tile(np.stack(of_half), (num_replicates, 1, 1))
    weight = np.tile(halves, (num_replicates, 1, 1, 1))
    for b in range(num_replicates - 1):
        half = b % 2
        weight[1 + b, half] -= cells[b]
        if cells[b].any():
            probability[1 + b, 1 - half] = fitted(weight[1 + b, half])
    return CrossFit(probability, weight, None)


def _unfit(halves: Cells) -> Undefined | None:
    """Why the halves [2, M, 2] cannot be fitted whatever the method."""
    if lacks_class(halves.sum(axis=0)):
        return Undefined.ONE_CLASS
    if not halves.any(axis=(1, 2)).all():
        return Undefined.TOO_FEW_CLUSTERS
    return Undefined.TOO_FEW_POSITIVES if any(lacks_class(half) for half in halves) else None


def lacks_class(weight: Cells) -> bool:
    """One of the classes has no weight [M, 2]."""
    return not weight.any(axis=0).all()
