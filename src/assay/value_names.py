"""Values as the texts that name them: the same for equal values, whatever type, file or library they come from."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa

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
