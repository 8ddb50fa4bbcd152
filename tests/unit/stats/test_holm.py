"""Holm's correction against examples done by hand, and against its own definition as a procedure."""

from __future__ import annotations

import numpy as np
import pytest

from assay.stats.holm import holm, holm_beside


def rejected(p: list[float], alpha: float) -> list[bool]:
    """The procedure as Holm wrote it: step down from the smallest until one is not below alpha / (tests left)."""
    result = [False] * len(p)
    for step, number in enumerate(sorted(range(len(p)), key=lambda number: p[number])):
        if p[number] > alpha / (len(p) - step):
            break
        result[number] = True
    return result


def test_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never falling: .02 .03 .06 .06
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_ties_one_and_nan():
    assert holm(np.array([0.02, 0.02, np.nan, 1.0])).tolist() == pytest.approx([0.08, 0.08, 1.0, 1.0])


def test_members_that_could_not_be_tested_count_as_p_1():
    assert holm(np.array([0.001, 0.02, *[np.nan] * 8]))[:2].tolist() == pytest.approx([0.01, 0.18])


def test_no_tests():
    assert holm(np.array([])).tolist() == []


def test_adjusted_p_at_most_alpha_is_what_the_procedure_rejects():
    random = np.random.default_rng(1)
    for _ in range(300):
        p = random.random(random.integers(1, 12)) ** 4
        assert (holm(p) <= 0.05).tolist() == rejected(p.tolist(), 0.05)


def test_beside_is_holm_with_that_one_test_put_in():
    random = np.random.default_rng(2)
    for _ in range(100):
        others = np.round(random.random(random.integers(0, 8)) ** 3, 2)
        parts = np.array([*np.round(random.random(5) ** 3, 2), 0.0, np.nan])
        one_by_one = [holm(np.array([part, *others]))[0] for part in parts]
        assert holm_beside(parts, others).tolist() == pytest.approx(one_by_one)


def test_largest_part_beside_the_others_is_the_whole_and_a_certain_part_stays_certain():
    others, parts = np.array([0.011, 0.5]), np.array([0.0, 0.004, 0.012])

    assert holm_beside(parts, others).max() == holm(np.array([parts.max(), *others]))[0]
    assert holm_beside(parts, others)[0] == 0.0
