"""Keys keep the order of scores, bins keep it between bins, and coarse bins are shifts of fine ones."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.keys import (
    NUM_OCTAVES,
    float_keys,
    key_scores,
    probability_bins,
    probability_edges,
    raw_bins,
    raw_edges,
)

BINS = pytest.mark.parametrize("bins", [probability_bins, raw_bins])


def scores(bins):
    rng = np.random.default_rng(0)
    if bins is probability_bins:
        near = np.exp2(rng.uniform(-40, -1, 4000))
        return np.sort(np.concatenate([near, 1 - near, [0.0, 0.5, 1.0]]).astype(np.float32))
    signed = rng.choice([-1.0, 1.0], 8000) * np.exp2(rng.uniform(-20, 20, 8000))
    return np.sort(np.concatenate([signed, [0.0]]).astype(np.float32))


def test_float_keys_are_in_the_order_of_floats():
    x = np.array(
        [-np.inf, -3.0, -1e-40, 0.0, 1e-45, 1.0, np.nextafter(np.float32(1), np.float32(2)), np.inf], np.float32
    )
    assert (np.diff(float_keys(x).astype(np.int64)) > 0).all()
    assert float_keys(x).dtype == np.uint32


@BINS
def test_bins_keep_the_order_and_stay_in_range(bins):
    places = bins(scores(bins), 7)
    assert places.dtype == np.int32
    assert (np.diff(places) >= 0).all()
    assert places.min() >= 0
    assert places.max() < NUM_OCTAVES << 7


@BINS
@pytest.mark.parametrize("fewer", [0, 3, 5])
def test_fewer_bits_are_a_shift(bins, fewer):
    x = scores(bins)
    assert (bins(x, fewer) == bins(x, 7) >> (7 - fewer)).all()


def test_probability_bins_are_symmetric_and_fine_near_both_ends():
    p = np.exp2(np.random.default_rng(1).uniform(-20, -1.01, 1000)).astype(np.float32)
    mirrored = np.float32(1) - p
    p = np.float32(1) - mirrored  # so that both are exact
    assert (probability_bins(p, 5) + probability_bins(mirrored, 5) == (NUM_OCTAVES << 5) - 1).all()


def test_scores_in_one_probability_bin_are_close():
    p = scores(probability_bins)
    p = p[(p > 2.0**-27) & (p < 0.5)].astype(np.float64)
    places = probability_bins(p.astype(np.float32), 7)
    same = places[1:] == places[:-1]
    assert (p[1:][same] / p[:-1][same] <= 1 + 2.0**-7).all()


def test_raw_scores_saturate_outside_their_octaves():
    x = np.array([-1e30, -65536, -(2.0**-17), 0, 2.0**-17, 65535, 65536, 1e30], np.float32)
    half, last = (NUM_OCTAVES // 2) << 3, (NUM_OCTAVES << 3) - 1
    assert raw_bins(x, 3).tolist() == [0, 0, half - 1, half, half, last, last, last]


def test_scores_come_back_from_their_keys():
    x = np.array([-3e38, -3.0, -1e-40, 0.0, 1e-45, 1.0, 3e38], np.float32)
    assert key_scores(float_keys(x).astype(np.int64)).tolist() == x.tolist()


@pytest.mark.parametrize("bits", [5, 7, 11, 16, 23])
@pytest.mark.parametrize(("bins", "edges"), [(probability_bins, probability_edges), (raw_bins, raw_edges)])
def test_a_bin_starts_at_its_edge_and_ends_before_the_next(bins, edges, bits):
    x = scores(bins)
    places = bins(x, bits).astype(np.int64)
    least, most = edges(places, bits), edges(places + 1, bits)
    assert (least <= x).all()
    assert ((x < most) | (x == 1.0) & (bins is probability_bins)).all()
    known = np.isfinite(least)
    assert (bins(least[known], bits) == places[known]).all()


def test_the_outermost_edges():
    assert probability_edges(np.array([(32 - 28) << 7, 32 << 7, (32 + 28) << 7]), 7).tolist() == [0.0, 0.5, 1.0]
    assert raw_edges(np.array([0, 32 << 7, 64 << 7]), 7).tolist() == [-np.inf, 0.0, np.inf]
