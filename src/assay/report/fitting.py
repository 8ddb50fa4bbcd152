"""Tables that fit a terminal: of several forms of one table, the first that needs no more than the width."""

from __future__ import annotations

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
_LEAST_REASON = 16
"""Letters in a line of a reason why there is no number."""


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


def table_of(names: tuple[str, ...], numbers: tuple[str, ...], rows: Sequence[tuple[str | Text, ...]]) -> Table:
    """A table without lines: columns of names, which may be folded, then of numbers. rows: a cell for each.

    A number is a str. A Text among them says why there is none, in lines that are as wide as the numbers.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, name in enumerate(names):
        longest = max((len(str(row[position])) for row in rows), default=0)
        table.add_column(Text(name), overflow="fold", min_width=min(_LEAST, max(longest, len(name))))
    widths = [len(name) for name in names]
    for position, name in enumerate(numbers, start=len(names)):
        table.add_column(Text(name), justify="right", overflow="fold", no_wrap=True)
        widths.append(max([_LEAST_REASON, *(len(row[position]) for row in rows if isinstance(row[position], str))]))
    for row in rows:
        table.add_row(*(_cell(cell, width) for cell, width in zip(row, widths, strict=True)))
    return table


def _cell(cell: str | Text, width: int) -> Text:
    return Text(cell) if isinstance(cell, str) else Text("\n".join(wrap(cell.plain, width)), cell.style)
