"""Which columns come out beside the outputs, and that no two of them have one name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from assay.errors import DataError
from assay.spec.names import offer
from assay.spec.words import agree, listing


class CarryOver(NamedTuple):
    """What a user asked for: all columns, or those of these names and globs."""

    patterns: tuple[str, ...] | None  # None: all
    without: tuple[str, ...] = ()  # of all

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are carried over, in their order. DataError for a pattern that matches none."""
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"The data have several columns of the name {listing(twice)}. Rename all but one of each.")
        if self.patterns is None:
            return [name for name in names if name not in self.without]
        idle = [one for one in self.patterns if not any(_matches(name, one) for name in names)]
        if idle:
            hint = offer(idle[0], names) if len(idle) == 1 else f". They have {listing(names)}."
            raise DataError(
                f"carry_over names {listing(idle)}, which {agree(len(idle), 'matches', 'match')} no column of the "
                f"data{hint}"
            )
        return [name for name in names if any(_matches(name, one) for one in self.patterns)]


def carry_over_of(asked: str | Sequence[str]) -> CarryOver:
    """`asked`: "all", one name or glob, or several.

    >>> carry_over_of("all").chosen(["user", "text"])
    ['user', 'text']
    >>> carry_over_of(["user*"]).chosen(["user", "text", "user_country"])
    ['user', 'user_country']
    """
    if asked == "all":
        return CarryOver(None)
    return CarryOver((asked,) if isinstance(asked, str) else tuple(asked))


def check_clash(outputs: Sequence[str], carried: Sequence[str]) -> None:
    """DataError when an output has the name of a column that comes out too."""
    both = [name for name in outputs if name in carried]
    if both:
        them = agree(len(both), "it", "them")
        raise DataError(
            f"The {agree(len(both), 'output', 'outputs')} {listing(both)} {agree(len(both), 'has', 'have')} the name "
            f"of {agree(len(both), 'a column', 'columns')} that {agree(len(both), 'is', 'are')} carried over. Give "
            f"{them} another name, or leave {them} out of carry_over."
        )


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
