"""A few rows of a table as JSON, for whoever looks into a failure. Any Arrow type goes; what is long is cut.

Not here: which rows (`calls.py`), and where they are kept (`store/`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

import pyarrow as pa

MOST_ROWS = 3
MOST_CHARACTERS = 200
"""Of one value; of a longer text or list the beginning is kept, with three dots."""
DOTS = "..."


def row_sample(table: pa.Table, columns: Iterable[str], rows: Iterable[int]) -> str:
    """`[{column: value}, ...]` of the first few of `rows`, without columns that the table does not have; "" where it
    has none of them. Null is null; a number that is not finite, and what JSON has no form for, is a text.

    >>> row_sample(pa.table({"x": [1.5, float("nan")], "y": ["a", None]}), ["y", "x"], [1, 0])
    '[{"y": null, "x": "nan"}, {"y": "a", "x": 1.5}]'
    """
    known = [name for name in columns if name in table.column_names]
    chosen = list(rows)[:MOST_ROWS]
    if not known or not chosen:
        return ""
    shown = [{name: _shown(_value(table.column(name)[row])) for name in known} for row in chosen]
    return json.dumps(shown, ensure_ascii=False)


def _value(scalar: pa.Scalar) -> object:
    """As Python has it. Some values it has no form for: a date of the year 100,000, an extension that is not loaded."""
    try:
        value: object = scalar.as_py()
    except (ValueError, OverflowError, TypeError, pa.ArrowException):
        return _as_text(scalar)
    return value


def _as_text(scalar: pa.Scalar) -> str:
    try:
        return str(scalar.cast(pa.string()).as_py())
    except pa.ArrowException:
        return f"a {scalar.type}"


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _shown(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return _shown_list(value)
    text = str(value[: MOST_CHARACTERS + 1]) if isinstance(value, bytes) else str(value)
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + DOTS


def _shown_list(values: list[object] | tuple[object, ...]) -> list[object]:
    shown: list[object] = []
    left = MOST_CHARACTERS
    for value in values:
        one = _shown(value)
        left -= len(json.dumps(one, ensure_ascii=False))
        if left < 0 and shown:
            return [*shown, DOTS]
        shown.append(one)
    return shown
