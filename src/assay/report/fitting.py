"""Tables that fit a terminal: of several forms of one table, the first that needs no more than the width; and names,
which are folded between their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_WIDEST = 10_000
_LEAST = 10
"""Letters of a name that stay in one line where nothing fits."""
_WORDS = re.compile(r"[^_\-./:,() ]*[_\-./:,() ]+|[^_\-./:,() ]+")
"""Of a name, each with the signs after it."""
_LEAST_REASON = 16
"""Letters in a line of a reason why there is no number."""


@dataclass(frozen=True, slots=True)
class Name:
    """In one line where there is room, else folded after a sign between its words; a word that is too long is cut."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(map(len, _WORDS.findall(self.text)), default=0)
        return Measurement(longest, len(self.text)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(folded(self.text, options.max_width)), overflow="fold")

    def __str__(self) -> str:
        return self.text


def folded(name: str, width: int) -> list[str]:
    """width: at least 1, else ValueError.

    >>> folded("ranker_v2_with_embeddings", 14), folded("ab" * 4, 6), folded("", 6)
    (['ranker_v2_', 'with_', 'embeddings'], ['ababab', 'ab'], [''])
    """
    if width < 1:
        raise ValueError(f"A name cannot be folded to a width of {width}; give 1 or more.")
    lines = [""]
    for word in _WORDS.findall(name):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines


@dataclass(frozen=True, slots=True)
class FirstThatFits:
    """The widest form comes first. The last one is shown where none fits: its names are folded, its numbers never."""

    forms: tuple[Table, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in self.forms[:-1]:
            if Measurement.get(console, options.update_width(_WIDEST), table).maximum <= options.max_width:
                yield table
                return
        yield self.forms[-1]


def table_of(
    names: tuple[str, ...],
    numbers: tuple[str, ...],
    rows: Sequence[tuple[str | Text, ...]],
    *,
    fold_headings: bool = False,
) -> Table:
    """A table without lines: columns of names, which may be folded, then of numbers. rows: a cell for each.

    fold_headings: those of numbers are about as wide as the numbers, which matters where they are names.

    A number is a str. A Text among them says why there is none, in lines that are as wide as the numbers.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, name in enumerate(names):
        longest = max((len(str(row[position])) for row in rows), default=0)
        table.add_column(Text(name), overflow="fold", min_width=min(_LEAST, max(longest, len(name))))
    widths = [len(name) for name in names]
    for position, name in enumerate(numbers, start=len(names)):
        width = max([_LEAST_REASON, *(len(row[position]) for row in rows if isinstance(row[position], str))])
        heading = "\n".join(folded(name, width)) if fold_headings else name
        table.add_column(Text(heading), justify="right", overflow="fold", no_wrap=True)
        widths.append(width)
    for row in rows:
        named = [Name(str(cell)) for cell in row[: len(names)]]
        numbered = zip(row[len(names) :], widths[len(names) :], strict=True)
        table.add_row(*named, *(_cell(cell, width) for cell, width in numbered))
    return table


def _cell(cell: str | Text, width: int) -> Text:
    return Text(cell) if isinstance(cell, str) else Text("\n".join(wrap(cell.plain, width)), cell.style)
