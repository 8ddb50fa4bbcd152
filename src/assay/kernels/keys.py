"""Scores as integers: order-preserving keys and log-spaced bins. Exact integer and IEEE operations only.

A bin is a range of scores, so histograms keep the order between bins and lose it inside one. Every form has
`NUM_OCTAVES << bits` bins, and one with fewer bits is a shift of one with more: `bin >> (more - fewer)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


def probability_bins(probability: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    """Bins [n] of probabilities in [0, 1]: log2-spaced in min(p, 1 - p), with `bits` mantissa bits each octave."""
    half = (NUM_OCTAVES // 2) << bits
    below = probability < np.float32(0.5)
    distance = np.where(below, probability, np.float32(1.0) - probability).astype(np.float32)
    steps = _steps(distance, bits, first_octave=-1 - PROBABILITY_OCTAVES, num_octaves=PROBABILITY_OCTAVES)
    steps += half - (PROBABILITY_OCTAVES << bits)
    return np.where(below, steps, 2 * half - 1 - steps).astype(np.int32)


def raw_bins(score: NDArray[np.float32], bits: int) -> NDArray[np.int32]:
    """Bins [n] of real scores: log2-spaced in magnitude on either side of 0, saturating outside 2^-16 to 2^16."""
    half = (NUM_OCTAVES // 2) << bits
    steps = _steps(np.abs(score), bits, first_octave=-RAW_OCTAVES, num_octaves=2 * RAW_OCTAVES)
    return np.where(score < 0, half - 1 - steps, half + steps).astype(np.int32)


def _steps(magnitude: NDArray[np.float32], bits: int, first_octave: int, num_octaves: int) -> NDArray[np.int32]:
    """How many bins each magnitude lies above 2^first_octave, kept within the octaves."""
    steps = magnitude.view(np.int32) >> (_MANTISSA_BITS - bits)
    steps -= (first_octave + _BIAS) << bits
    return np.clip(steps, 0, (num_octaves << bits) - 1, out=steps)
