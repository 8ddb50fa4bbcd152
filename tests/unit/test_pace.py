"""Rates as they are measured."""

from __future__ import annotations

import pytest

from assay.pace import MOST_STEP, Pace


def paced(*seconds: float, least_weight: float = 0.3) -> float:
    """The rate after units of 100 rows that took so long."""
    pace = Pace(least_weight)
    for one in seconds:
        pace.measure(100, one)
    assert pace.rate is not None
    return pace.rate


def test_the_first_measurements_weigh_the_same_in_logarithms() -> None:
    assert paced(1.0) == 100.0
    assert paced(1.0, 4.0) == pytest.approx(50.0)  # sqrt(100 * 25)
    assert paced(1.0, 1.0, 8.0) == pytest.approx(50.0)  # (100 * 100 * 12.5) ** (1/3)


def test_a_steady_rate_is_soon_found_after_a_slow_first_unit() -> None:
    assert paced(30.0, *[1.0] * 8) == pytest.approx(100.0, rel=0.2)


def test_one_outlier_moves_it_by_a_bounded_step() -> None:
    assert paced(*[1.0] * 20, 1e9) == pytest.approx(100.0 * MOST_STEP**-0.3)


def test_nothing_is_learned_from_no_time_or_no_rows() -> None:
    pace = Pace(0.3)
    pace.measure(100, 0.0)
    pace.measure(0, 1.0)
    assert (pace.rate, pace.num_measured) == (None, 0)
