from __future__ import annotations

import pytest

from assay.spec.names import either, nearest, offer


@pytest.mark.parametrize(
    ("name", "expected"),
    [("lable", "label"), ("LABEL", "label"), ("log-loss", "log_loss"), ("zzz", None), ("", None)],
)
def test_nearest(name: str, expected: str | None) -> None:
    assert nearest(name, ["label", "log_loss", "weight"]) == expected


def test_an_offer_ends_the_sentence() -> None:
    assert offer("lable", ["label"]) == "; did you mean 'label'?"
    assert offer("zzz", ["a", "b", "a", "c"]) == "; expected 'a', 'b' or 'c'."
    assert offer("zzz", []) == "; there are none."


def test_long_lists_are_cut() -> None:
    names = [f"n{position}" for position in range(15)]
    assert either(names).endswith("'n10', 'n11' or one of 3 more")
