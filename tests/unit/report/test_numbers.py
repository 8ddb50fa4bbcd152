"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from assay.report.numbers import every, number, p_value, signed, signed_with_half_width, with_half_width, with_interval


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.123456789, 0.00123, "0.1235"),
        (0.123456789, 0.0123, "0.123"),
        (123456.7, 250.0, "123,457"),
        (123456.7, None, "123457"),
        (0.5, 0.0, "0.5"),
        (0.5, math.nan, "0.5"),
        (0.5, 1e-12, "0.500000000"),
        (7.7423e-10, 3.1e-11, "7.74e-10"),
        (3.1e-11, 3.1e-11, "3.1e-11"),
        (-1e-14, 3.1e-11, "-1e-14"),
        (0.0, 3.1e-11, "0"),
        (math.inf, 0.1, "inf"),
        (math.nan, None, "-"),
        (None, None, "-"),
    ],
)
def test_number(value, half, text):
    assert number(value, half) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "+0.25"), (-0.25, "-0.25"), (0.00253791, "+0.002538"), (-0.0386445, "-0.03864"), (0.0, "0"), (None, "-")],
)
def test_signed(value, text):
    assert signed(value) == text


def test_intervals():
    assert with_half_width(0.45, 0.44, 0.46) == "0.450 ±0.010"
    assert with_half_width(0.45, None, None) == "0.45"
    assert with_half_width(1200.0, 1200.0, 1200.0) == "1200"
    assert with_interval(-0.01, -0.03, 0.01) == "-0.010 [-0.030, +0.010]"
    assert with_interval(0.0, 0.0, 0.0) == "0"
    assert with_interval(5e-12, -1e-12, 1.1e-11) == "+5.0e-12 [-1.0e-12, +1.10e-11]"
    assert signed_with_half_width(0.00253791, None, None) == "+0.002538"
    assert signed_with_half_width(-0.01, -0.03, 0.01) == "-0.010 ±0.020"
    assert with_interval(None, None, None) == "-"


def test_p_values():
    assert [p_value(one) for one in (0.5, 0.04567, 0.001, 0.00099, math.nan, None)] == [
        "0.5",
        "0.046",
        "0.001",
        "<0.001",
        "-",
        "-",
    ]


def test_every():
    assert [every(one, "variant") for one in (1, 2, 3, 1200)] == [
        "the only variant",
        "both variants",
        "all 3 variants",
        "all 1,200 variants",
    ]
