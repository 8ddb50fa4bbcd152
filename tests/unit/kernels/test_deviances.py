"""Deviances, log-cosh and exact products against arithmetic of 60 digits or of fractions."""

from __future__ import annotations

from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from assay.kernels.deviances import ddeviance, deviances, dgap, dlogcosh, dpow, log_coshes, products

getcontext().prec = 60


def exact_deviance(y, mu, p):
    y, mu, p = Decimal(y), Decimal(mu), Decimal(p)
    if p == 1:
        return 2 * (y * (y / mu).ln() - y + mu)
    if p == 2:
        return 2 * ((mu / y).ln() + y / mu - 1)
    return 2 * (y ** (2 - p) / ((1 - p) * (2 - p)) - y * mu ** (1 - p) / (1 - p) + mu ** (2 - p) / (2 - p))


@pytest.mark.parametrize("power", [1.0, 1.2, 1.5, 1.9, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("y", [1e-8, 0.3, 1.0, 7.0, 1e9])
def test_unit_deviances_near_and_far(power, y):
    for factor in (1e-6, 0.1, 0.74, 0.76, 0.88, 0.9, 1 - 1e-9, 1 + 1e-9, 1.01, 1.12, 1.13, 1.26, 3.0, 1e6):
        mu = y * factor
        expected = exact_deviance(y, mu, power)
        assert ddeviance(y, mu, power) == pytest.approx(float(expected), rel=1e-11)
        assert ddeviance.py_func(y, mu, power) == ddeviance(y, mu, power)


def test_unit_deviance_at_its_edges():
    assert ddeviance(3.0, 3.0, 1.5) == ddeviance(3.0, 3.0, 1.0) == ddeviance(3.0, 3.0, 2.0) == 0.0
    assert ddeviance(0.0, 3.0, 1.0) == 6.0
    assert ddeviance(0.0, 4.0, 1.5) == pytest.approx(2 * 4**0.5 / 0.5, rel=1e-15)
    outside = [(1.0, 0.0, 1.0), (1.0, -1.0, 1.5), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0), (np.nan, 1.0, 1.0)]
    assert np.isnan([ddeviance(*one) for one in outside]).all()
    assert ddeviance(1e-300, 1e300, 1.5) == np.inf
    assert ddeviance(1e-300, 1e300, 1.0) == ddeviance(1e300, 1e-300, 2.0) == np.inf


def test_gap_and_power():
    for x, y in ((3.0, 1.0), (1.0, 3.0), (1.0, 1.0 + 1e-8), (1e300, 0.9e300)):
        ratio = Decimal(x) / Decimal(y)
        exact = ratio - 1 - ratio.ln()
        assert dgap(x, y) == pytest.approx(float(exact), rel=1e-14)
        assert dgap.py_func(x, y) == dgap(x, y)
    assert dpow(2.0, 0.5) == pytest.approx(np.sqrt(2.0), rel=1e-15)
    assert dpow.py_func(1e9, -1.5) == dpow(1e9, -1.5) == pytest.approx(1e9**-1.5, rel=1e-14)


def test_log_cosh():
    for x in (0.0, 1e-9, 0.3, -0.999, 1.0, 5.0, -30.0, 1e300):
        far = abs(x) > 100
        exact = abs(x) - np.log(2) if far else float(((Decimal(x).exp() + Decimal(-x).exp()) / 2).ln())
        assert dlogcosh(x) == pytest.approx(exact, rel=1e-14, abs=0.0)
        assert dlogcosh.py_func(x) == dlogcosh(x)
    assert dlogcosh(1e-150) == pytest.approx(5e-301, rel=1e-15, abs=0.0)


def test_arrays_are_the_scalars():
    x = np.array([0.1, 2.0, -3.0])
    assert log_coshes(x).tolist() == log_coshes.py_func(x).tolist() == [dlogcosh(one) for one in x]
    y, mu = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    assert deviances(y, mu, 1.5).tolist() == deviances.py_func(y, mu, 1.5).tolist()


def test_products_are_exact():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500) * 10.0 ** rng.integers(-60, 60, 500)
    y = rng.normal(size=500) * 10.0 ** rng.integers(-60, 60, 500)
    high, low = products(x, y)
    assert all(
        Fraction(a) + Fraction(b) == Fraction(c) * Fraction(d)
        for a, b, c, d in zip(high.tolist(), low.tolist(), x.tolist(), y.tolist(), strict=True)
    )
    again = products.py_func(x[:50], y[:50])
    assert (again[0].tolist(), again[1].tolist()) == (high[:50].tolist(), low[:50].tolist())


def test_products_that_are_no_numbers():
    high, low = products(np.array([1e300, np.nan, np.inf]), np.array([1e300, 1.0, 2.0]))
    assert high[0] == high[2] == np.inf
    assert np.isnan(high[1])
    assert low.tolist() == [0.0, 0.0, 0.0]
