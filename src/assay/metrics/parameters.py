"""What parameters of metrics may be. A check returns the parameter in its one form, so that 1 and 1.0 are one metric.

ValueError, a sentence with the metric and the parameter, where it may not be that.
"""

from __future__ import annotations

import math

MOST_BINS = 10_000


def finite(metric: str, parameter: str, value: float) -> float:
    """Any number."""
    return _checked(metric, parameter, value, math.isfinite(value), "a number.")


def positive(metric: str, parameter: str, value: float) -> float:
    """A number above 0."""
    return _checked(metric, parameter, value, 0.0 < value < math.inf, "a number above 0.")


def cost(metric: str, parameter: str, value: float) -> float:
    """A number that is not negative."""
    return _checked(metric, parameter, value, 0.0 <= value < math.inf, "a cost, 0 or more.")


def share(metric: str, parameter: str, value: float) -> float:
    """A share that is neither nothing nor all."""
    return _checked(metric, parameter, value, 0.0 < value < 1.0, "a number above 0 and below 1.")


def share_or_all(metric: str, parameter: str, value: float) -> float:
    """A share that is not nothing."""
    return _checked(metric, parameter, value, 0.0 < value <= 1.0, "a number above 0 and at most 1.")


def bins(metric: str, value: int) -> int:
    """How many bins a metric can have."""
    if not isinstance(value, int) or not 1 <= value <= MOST_BINS:
        raise ValueError(f"The 'bins' of the metric {metric!r} are {value!r}; expected 1 to {MOST_BINS}.")
    return value


def _checked(metric: str, parameter: str, value: float, allowed: bool, expected: str) -> float:
    if not allowed:
        raise ValueError(f"The {parameter!r} of the metric {metric!r} is {value!r}; expected {expected}")
    return float(value)
