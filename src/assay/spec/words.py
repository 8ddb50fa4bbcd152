"""Words that sentences are made of: lists of names, and numbers of things."""

from __future__ import annotations

from collections.abc import Iterable

MOST_LISTED = 12


def either(names: Iterable[object]) -> str:
    """The names in quotes as a choice, cut after a dozen.

    >>> either(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    quoted = [repr(name) for name in names]
    if len(quoted) > MOST_LISTED:
        return f"{', '.join(quoted[:MOST_LISTED])} or one of {len(quoted) - MOST_LISTED} more"
    return _joined(quoted, "or")


def listing(names: Iterable[object]) -> str:
    """The names in quotes, all of them meant, cut after a dozen.

    >>> listing(["a", "b", "c"]), listing([])
    ("'a', 'b' and 'c'", 'none')
    """
    quoted = [repr(name) for name in names]
    if len(quoted) > MOST_LISTED:
        quoted = [*quoted[:MOST_LISTED], f"{len(quoted) - MOST_LISTED} more"]
    return _joined(quoted, "and") or "none"


def series(words: Iterable[str]) -> str:
    """
    >>> series(["1 CPU", "2 GPUs", "1 disk"])
    '1 CPU, 2 GPUs and 1 disk'
    """
    return _joined(list(words), "and")


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "row"), count(12000, "row")
    ('1 row', '12,000 rows')
    """
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def agree(number: int, one: str, many: str) -> str:
    """The form of a verb, or of an irregular noun, that goes with a number.

    >>> agree(1, "is", "are"), agree(2, "is", "are")
    ('is', 'are')
    """
    return one if number == 1 else many


def _joined(words: list[str], conjunction: str) -> str:
    return f" {conjunction} ".join(part for part in (", ".join(words[:-1]), "".join(words[-1:])) if part)
