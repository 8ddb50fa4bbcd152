"""Scores as integers: order-preserving keys and log-spaced bins. Exact integer and IEEE operations only.

A bin is a range of scores, so histograms keep the order between bins and lose it inside one. Every form has
`NUM_OCTAVES << bits` bins, and one with fewer bits is a shift of one with more: `bin >> (more - fewer)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.kernels.compiled import kernel

NUM_OCTAVES = 64
"""Octaves of bins: 32 on each side of one half (probabilities, of which 28 are used) or of zero (raw scores)."""
PROBABILITY_OCTAVES = 28
"""Probabilities nearer to 0 or 1 than 2^-28 share the outermost bin that is used."""
RAW_OCTAVES = 16
"""Raw scores beyond 2^16 in magnitude share the outermost bins, those below 2^-16 the two next to zero."""

_MANTISSA_BITS = 23
_BIAS = 127


def float_keys(x: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Integers [n] in the order of the floats x [n]; equal for equal floats, -0.0 having been folded into 0.0."""
    bits = x.view(np.uint32)
    return np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint32)


def key_scores(keys: NDArray[np.int64]) -> NDArray[np.float32]:
    """The floats [n] of order-preserving keys [n]."""
    bits = keys.astype(np.uint32)
    return np.where(bits >> 31, bits & np.uint32((1 << 31) - 1), ~bits).astype(np.uint32).view(np.float32)


def probability_bins(probability: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    """Bins [...] of probabilities in [0, 1]: log2-spaced in min(p, 1 - p), with `bits` mantissa bits each octave."""
    flat = np.ascontiguousarray(probability, np.float32).reshape(-1)
    return np.asarray(_probability_bins(flat, bits)).reshape(probability.shape)


def raw_bins(score: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    """Bins [...] of real scores: log2-spaced in magnitude on either side of 0, saturating outside 2^-16 to 2^16."""
    flat = np.ascontiguousarray(score, np.float32).reshape(-1)
    return np.asarray(_raw_bins(flat, bits)).reshape(score.shape)


def probability_edges(bins: NDArray[np.int64], bits: int) -> NDArray[np.float32]:
    """The least probability [n] of each bin [n]; 1 for the one past the last that is used."""
    half, used = (NUM_OCTAVES // 2) << bits, PROBABILITY_OCTAVES << bits
    below = bins < half
    steps = np.clip(np.where(below, bins - (half - used), half + used - bins), 0, used)
    distance = _magnitudes(steps, bits, first_octave=-1 - PROBABILITY_OCTAVES)
    distance[steps == 0] = 0.0
    edges = np.where(below, distance, _above(1.0 - distance)).astype(np.float32)
    edges[bins == half] = 0.5  # one half itself lies in the bin above it
    return np.minimum(edges, np.float32(1.0))


def raw_edges(bins: NDArray[np.int64], bits: int) -> NDArray[np.float32]:
    """The least score [n] of each bin [n], -infinity for the first; infinity for the one past the last."""
    half = (NUM_OCTAVES // 2) << bits
    negative = bins < half
    steps = np.where(negative, half - bins, bins - half)
    magnitude = _magnitudes(steps, bits, first_octave=-RAW_OCTAVES)
    magnitude[steps == 0] = 0.0
    magnitude[steps >= (2 * RAW_OCTAVES) << bits] = np.inf
    return np.where(negative, _above(-magnitude), magnitude).astype(np.float32)


def _magnitudes(steps: NDArray[np.int64], bits: int, first_octave: int) -> NDArray[np.float64]:
    """The inverse of `_steps`: the least magnitude of each step."""
    pattern = (steps + ((first_octave + _BIAS) << bits)) << (_MANTISSA_BITS - bits)
    return pattern.astype(np.int32).view(np.float32).astype(np.float64)


def _above(edge: NDArray[np.float64]) -> NDArray[np.float32]:
    """The least float32 [n] above each edge; -infinity stays."""
    rounded = edge.astype(np.float32)
    return np.where((rounded > edge) | np.isneginf(edge), rounded, np.nextafter(rounded, np.float32(np.inf)))


@kernel
def _probability_bins(probability: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    places = np.empty(len(probability), np.int32)
    half, used = (NUM_OCTAVES // 2) << bits, PROBABILITY_OCTAVES << bits
    for i in range(len(probability)):
        below = probability[i] < np.float32(0.5)
        distance = probability[i] if below else np.float32(np.float32(1.0) - probability[i])
        steps = half - used + _steps(distance, bits, -1 - PROBABILITY_OCTAVES, PROBABILITY_OCTAVES)
        places[i] = steps if below else 2 * half - 1 - steps
    return places


@kernel
def _raw_bins(score: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    places = np.empty(len(score), np.int32)
    half = (NUM_OCTAVES // 2) << bits
    for i in range(len(score)):
        steps = _steps(np.float32(abs(score[i])), bits, -RAW_OCTAVES, 2 * RAW_OCTAVES)
        places[i] = half - 1 - steps if score[i] < 0 else half + steps
    return places


@kernel
def _steps(magnitude: np.float32, bits: int, first_octave: int, num_octaves: int) -> int:
    """How many bins a magnitude lies above 2^first_octave, kept within the octaves."""
    pattern = int(np.float32(magnitude).view(np.int32))
    steps = (pattern >> (_MANTISSA_BITS - bits)) - ((first_octave + _BIAS) << bits)
    return min(max(steps, 0), (num_octaves << bits) - 1)
