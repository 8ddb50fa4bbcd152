from __future__ import annotations

import numpy as np

from assay.hashing import splitmix64
from assay.kernels.digests import add_digests

RNG = np.random.default_rng(0)
HASHES = RNG.integers(0, 1 << 63, 200).astype(np.uint64)
SCORES = RNG.normal(size=(2, 200))
SLICES = np.stack([np.zeros(200), 1 + np.arange(200) % 3]).astype(np.int32)


def digests(hashes: np.ndarray, scores: np.ndarray, slices: np.ndarray = SLICES) -> list[int]:
    cells = np.zeros(4, np.uint64)
    add_digests(hashes, scores, slices, cells)
    return cells.tolist()


def test_the_order_of_rows_does_not_matter():
    order = RNG.permutation(200)
    assert digests(HASHES[order], SCORES[:, order].copy(), SLICES[:, order].copy()) == digests(HASHES, SCORES)


def test_overall_is_the_sum_of_the_slices_of_a_dimension():
    overall, *parts = digests(HASHES, SCORES)
    assert sum(parts) % (1 << 64) == overall


def test_one_changed_score_changes_its_slices_alone():
    changed = SCORES.copy()
    changed[1, 7] = np.nextafter(changed[1, 7], 9.0)
    before, after = digests(HASHES, SCORES), digests(HASHES, changed)
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, False, True, False]


def test_scores_that_change_places_are_others():
    swapped = SCORES[:, np.r_[3, 1, 2, 0, 4:200]].copy()
    assert digests(HASHES, swapped)[0] != digests(HASHES, SCORES)[0]
    assert digests(HASHES, SCORES[::-1].copy())[0] != digests(HASHES, SCORES)[0]


def test_zero_has_one_sign():
    zeros = np.zeros((1, 200))
    assert digests(HASHES, -zeros) == digests(HASHES, zeros)


def test_a_digest_is_the_sum_of_mixed_hashes():
    mixed = HASHES
    for numbers in SCORES:
        mixed = splitmix64(mixed ^ numbers.view(np.uint64))
    assert digests(HASHES, SCORES)[0] == int(mixed.sum())


def test_compiled_and_plain_agree():
    cells = np.zeros(4, np.uint64)
    with np.errstate(over="ignore"):
        add_digests.py_func(HASHES, SCORES, SLICES, cells)
    assert cells.tolist() == digests(HASHES, SCORES)
