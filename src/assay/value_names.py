"""Values as the texts that name them: the same for equal values, whatever type, file or library they come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assay.errors import DataError


def names_of(values: pa.Array, label: str) -> pa.Array:
    """Each value as the string that names it, null where it is null or NaN: `3` (also for 3.0), `true`, `2013-01-31`
    (also for midnight of that day), `2013-01-31T08:30:00`. DataError for lists, structs and others without one.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return names_of(values.dictionary, label).take(values.indices)
    if pa.types.is_floating(kind):
        wide = values.cast(pa.float32()) if pa.types.is_float16(kind) else values
        return pa.array([_float_name(text) for text in wide.cast(pa.string()).to_pylist()], pa.string())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.array([_time_name(value) for value in _moments(values).to_pylist()], pa.string())
    if pa.types.is_decimal(kind):
        return pa.array([_decimal_name(value) for value in values.to_pylist()], pa.string())
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise nameless(label, kind) from None


def value_name(value: str | int | bool) -> str:
    """The name of a value that a spec declares.

    >>> value_name(True), value_name(3), value_name("a")
    ('true', '3', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def numbers_of(values: pa.Array | pa.ChunkedArray, names: Sequence[str], label: str) -> NDArray[np.float64]:
    """[n] the position of each value's name among `names`; -1 where it is none of them, NaN where null or NaN.

    DataError as of `names_of`.
    """
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_null(flat.type):
        return np.full(len(flat), np.nan)
    encoded = distinct(flat, label)
    known = names_of(encoded.dictionary, label)
    numbers = pc.index_in(known, value_set=pa.array(list(names), known.type)).cast(pa.float64()).fill_null(-1.0)
    table = pc.if_else(known.is_null(), np.nan, numbers).to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = np.append(table, np.nan)[
        encoded.indices.cast(pa.int64()).fill_null(len(table)).to_numpy()
    ]
    return found


class Items(NamedTuple):
    """What a column of lists holds."""

    values: pa.Array  # all items, row after row
    lengths: NDArray[np.int64]  # [n] how many each row has; 0 where the list is null
    missing: NDArray[np.bool_]  # [n] where the list is null

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each item."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def items_of(column: pa.Array | pa.ChunkedArray) -> Items:
    """The items of a column of lists, large or of fixed size too; a null list has none."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lists = flat.cast(pa.large_list(flat.type.value_type))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    return Items(lists.flatten(), lengths, missing)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds a list in each row."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def distinct(values: pa.Array, label: str) -> pa.DictionaryArray:
    """The values as codes of their distinct ones. DataError for lists, structs and others without a name."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return values
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        raise nameless(label, kind)
    if pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
    elif pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    return values.dictionary_encode()


def _float_name(text: str | None) -> str | None:
    if text is None or text == "nan":
        return None
    return number_name(float(text)) if float(text).is_integer() else text


def _decimal_name(value: Decimal | None) -> str | None:
    if value is None:
        return None
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moments(values: pa.Array) -> pa.Array:
    """Times to the microsecond, which is as far as Python's go."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", "UTC" if kind.tz else None), safe=False)
    return values.cast(pa.time64("us"), safe=False) if pa.types.is_time(kind) else values.cast(pa.date32())


def _time_name(value: date | time | None) -> str | None:
    if isinstance(value, datetime) and value.time() == time(0):
        return value.date().isoformat()
    return None if value is None else value.isoformat()


def number_name(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def nameless(label: str, kind: pa.DataType) -> DataError:
    return DataError(f"{label}: values of type {kind} cannot name slices. Use a number, text or time.")
