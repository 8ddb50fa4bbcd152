"""Which columns are carried over."""

from __future__ import annotations

import pytest

from assay.errors import DataError
from assay.integrations.ray_data.columns import carry_over_of, check_clash

NAMES = ["user_id", "user_country", "text", "odd[1]"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("all", NAMES),
        ([], []),
        ("text", ["text"]),
        (["text", "user_*"], ["user_id", "user_country", "text"]),  # in the data's order
        (["odd[1]"], ["odd[1]"]),  # a name, though it is a glob of "odd1" too
        (["*"], NAMES),
    ],
)
def test_names_and_globs(asked: str | list[str], chosen: list[str]) -> None:
    assert carry_over_of(asked).chosen(NAMES) == chosen


def test_patterns_that_match_nothing_are_all_named() -> None:
    with pytest.raises(DataError) as caught:
        carry_over_of(["text", "usr_*", "txet"]).chosen(NAMES)
    assert str(caught.value) == (
        "carry_over names 'usr_*' and 'txet', which match no column of the data. "
        "They have 'user_id', 'user_country', 'text' and 'odd[1]'."
    )


def test_one_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(DataError) as caught:
        carry_over_of("txet").chosen(NAMES)
    assert str(caught.value) == ("carry_over names 'txet', which matches no column of the data; did you mean 'text'?")


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        carry_over_of("all").chosen(["a", "b", "a"])
    assert str(caught.value) == "The data have several columns of the name 'a'. Rename all but one of each."


def test_clashes_are_all_named() -> None:
    check_clash(["p"], ["x"])
    with pytest.raises(DataError) as caught:
        check_clash(["p", "x", "text"], ["text", "x"])
    assert str(caught.value) == (
        "The outputs 'x' and 'text' have the name of columns that are carried over. Give them another name, or leave "
        "them out of carry_over."
    )
