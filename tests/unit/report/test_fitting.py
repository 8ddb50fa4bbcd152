"""Names that are folded between their words."""

from __future__ import annotations

import pytest

from assay.report.fitting import folded


def test_a_word_that_fits_the_line_stays_in_it() -> None:
    assert folded("one_two", 7) == ["one_two"]
    assert folded("one_two", 6) == ["one_", "two"]


def test_where_a_line_has_one_letter_a_name_has_as_many_lines() -> None:
    assert folded("a_b", 1) == ["a", "_", "b"]


@pytest.mark.parametrize("width", [0, -1])
def test_a_line_without_room_for_a_letter_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"^A name cannot be folded to a width of {width}; give 1 or more.$"):
        folded("one", width)
