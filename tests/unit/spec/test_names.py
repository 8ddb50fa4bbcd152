from __future__ import annotations

import pytest

from assay.spec.names import nearest, offer


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
