"""q-values against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from assay.stats.benjamini_hochberg import q_values


@given(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=40))
def test_they_are_scipys(p: list[float]) -> None:
    np.testing.assert_allclose(q_values(np.array(p)), false_discovery_control(p), rtol=1e-12)


def test_the_table_of_benjamini_and_hochberg() -> None:
    """Their example of 1995: at a rate of 0.05 the first four of 15 are discoveries."""
    p = np.array([0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240,
                  0.4262, 0.5719, 0.6528, 0.7590, 1.0000])  # fmt: skip

    assert (q_values(p) <= 0.05).tolist() == [True] * 4 + [False] * 11
    assert q_values(p)[3] == pytest.approx(0.0095 * 15 / 4)


def test_what_was_not_tested_does_not_count() -> None:
    q = q_values(np.array([np.nan, 0.02, np.nan, 0.5]))

    np.testing.assert_array_equal(q, [np.nan, 0.04, np.nan, 0.5])


@pytest.mark.parametrize("p", [[], [np.nan]])
def test_nothing_to_test(p: list[float]) -> None:
    np.testing.assert_array_equal(q_values(np.array(p)), p)
