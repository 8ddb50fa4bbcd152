from __future__ import annotations

from assay.spec.words import agree, count, either, listing


def test_long_lists_are_cut() -> None:
    names = [f"n{position}" for position in range(15)]
    assert either(names).endswith("'n10', 'n11' or one of 3 more")
    assert listing(names).endswith("'n10', 'n11' and 3 more")


def test_short_lists() -> None:
    assert [either(names) for names in (["a"], ["a", "b"])] == ["'a'", "'a' or 'b'"]
    assert [listing(names) for names in ([], ["a"], ("a", 1))] == ["none", "'a'", "'a' and 1"]


def test_numbers_of_things() -> None:
    assert [count(number, "row") for number in (0, 1, 1234)] == ["0 rows", "1 row", "1,234 rows"]
    assert [agree(number, "has", "have") for number in (0, 1, 2)] == ["have", "has", "have"]
