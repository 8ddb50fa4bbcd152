"""What parameters may be: the limits themselves, and the sentences that refuse others."""

from __future__ import annotations

import re

import pytest

from assay.metrics import parameters

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("check", "allowed", "refused", "expected"),
    [
        (parameters.finite, (-1.0, 0.0, 1e300), (INF, -INF, NAN), "a number."),
        (parameters.positive, (1e-300, 2.0), (0.0, -1.0, INF, NAN), "a number above 0."),
        (parameters.cost, (0.0, 5.0), (-1e-300, INF, NAN), "a cost, 0 or more."),
        (parameters.share, (1e-300, 0.5), (0.0, 1.0, NAN), "a number above 0 and below 1."),
        (parameters.share_or_all, (1e-300, 1.0), (0.0, 1.5, NAN), "a number above 0 and at most 1."),
    ],
)
def test_numbers(check, allowed, refused, expected):
    assert [check("x", "p", value) for value in allowed] == list(allowed)
    for value in refused:
        with pytest.raises(ValueError, match=re.escape(f"The 'p' of the metric 'x' is {value!r}; expected {expected}")):
            check("x", "p", value)


def test_a_whole_number_is_the_same_number():
    assert isinstance(parameters.positive("x", "p", 2), float)


@pytest.mark.parametrize("bins", [0, 10_001, 5.0])
def test_bins(bins):
    assert parameters.bins("ece", 10_000) == 10_000
    with pytest.raises(ValueError, match=rf"^The 'bins' of the metric 'ece' are {bins}; expected 1 to 10000\.$"):
        parameters.bins("ece", bins)
