"""Numbers as people read them: as many digits as the interval justifies."""

from __future__ import annotations

import math

MOST_DECIMALS = 9
"""A small number that needs more is written with an exponent."""
SMALL = 1e-6
DIGITS_OF_DIFFERENCES = 4


def number(value: float | None, half_width: float | None = None) -> str:
    """A value, rounded where its half width has two significant digits; to six digits where there is none.

    >>> number(0.4501234, 0.00094), number(0.4501234), number(None)
    ('0.45012', '0.450123', '-')
    >>> number(7.7423e-10, 3.1e-11)
    '7.74e-10'
    """
    if value is None or math.isnan(value):
        return "-"
    if not _usable(half_width) or not math.isfinite(value):
        return f"{value:.6g}"
    decimals = _decimals(half_width)
    if decimals > MOST_DECIMALS and abs(value) < SMALL:
        return "0" if value == 0.0 else f"{value:.{max(0, decimals + math.floor(math.log10(abs(value))))}e}"
    return f"{value:,.{min(decimals, MOST_DECIMALS)}f}"


def with_half_width(value: float | None, low: float | None, high: float | None) -> str:
    """`0.45012 ±0.00094`; the value alone where there is no interval.

    >>> with_half_width(0.45012, 0.44918, 0.45106)
    '0.45012 ±0.00094'
    """
    if value is None or low is None or high is None or low == high:
        return number(value)
    half = (high - low) / 2
    return f"{number(value, half)} ±{number(half, half)}"


def signed_with_half_width(value: float | None, low: float | None, high: float | None) -> str:
    """`+0.0066 ±0.0015`: a difference where there is no room for both ends.

    >>> signed_with_half_width(0.0066, 0.0051, 0.0081)
    '+0.0066 ±0.0015'
    """
    if value is None or low is None or high is None or low == high:
        return signed(value)
    half = (high - low) / 2
    return f"{signed(value, half)} ±{number(half, half)}"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """`+0.0066 [+0.0051, +0.0081]`, for differences.

    >>> with_interval(0.0066, 0.0051, 0.0081)
    '+0.0066 [+0.0051, +0.0081]'
    """
    if value is None or low is None or high is None or low == high:
        return signed(value)
    half = (high - low) / 2
    return f"{signed(value, half)} [{signed(low, half)}, {signed(high, half)}]"


def signed(value: float | None, half_width: float | None = None) -> str:
    """`number` with a sign for what is above 0; to four digits where there is no half width.

    >>> signed(0.00253791), signed(-0.25)
    ('+0.002538', '-0.25')
    """
    if value is None or math.isnan(value):
        return "-"
    text = number(value, half_width) if _usable(half_width) else f"{value:.{DIGITS_OF_DIFFERENCES}g}"
    return f"+{text}" if value > 0 else text


def p_value(value: float | None) -> str:
    """
    >>> p_value(0.0312), p_value(1e-9), p_value(None)
    ('0.031', '<0.001', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.2g}"


def every(number: int, noun: str) -> str:
    """
    >>> every(1, "variant"), every(2, "variant"), every(1200, "variant")
    ('the only variant', 'both variants', 'all 1,200 variants')
    """
    if number == 1:
        return f"the only {noun}"
    return f"both {noun}s" if number == 2 else f"all {number:,} {noun}s"


def rounded(number: int) -> int:
    """To two significant digits, for what is an estimate.

    >>> rounded(439_942)
    440000
    """
    return int(float(f"{number:.1e}"))


def _usable(half_width: float | None) -> bool:
    return half_width is not None and math.isfinite(half_width) and half_width > 0


def _decimals(half_width: float | None) -> int:
    exponent = math.floor(math.log10(half_width)) if half_width else 0
    return max(0, 1 - exponent)
