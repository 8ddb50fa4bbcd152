"""Structs in Thrift's compact protocol, read into plain values and written back.

Lives here: the encoding, as the Thrift project specifies it (doc/specs/thrift-compact-protocol.md), without maps, which
Parquet does not use. Fields that nobody here knows are kept. Not here: what the fields are (`footers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
"""Kinds of fields. A boolean has its value in its kind, but in lists."""
_INTEGERS = frozenset((I16, I32, I64))
_DOUBLE_BYTES = 8
_MOST_SHIFT = 63
_LONG = 15
"""Lists of so many items or more, and ids of fields that are farther apart, have a form of their own."""


class Field(NamedTuple):
    """A field of a struct."""

    kind: int
    value: Any  # bool, int, bytes (of a double its 8), Items, or Struct


class Items(NamedTuple):
    """A list."""

    kind: int  # of all items
    values: Sequence[Any]  # as of a field


Struct = dict[int, Field]
"""By the fields' ids, in ascending order."""


def read_struct(data: bytes | memoryview, start: int = 0) -> tuple[Struct, int]:
    """The struct that begins at a byte, and where it ends. ValueError: there is none, or one that Parquet has not.

    >>> read_struct(bytes([0x15, 0x06, 0x18, 0x02, 0x61, 0x62, 0x00]))
    ({1: Field(kind=5, value=3), 2: Field(kind=8, value=b'ab')}, 7)
    """
    try:
        return _struct(data, start)
    except IndexError:
        raise ValueError("a Thrift struct is cut off") from None
    except RecursionError:
        raise ValueError("a Thrift struct has too many others in it") from None


def write_struct(struct: Struct) -> bytes:
    """What `read_struct` reads.

    >>> write_struct({1: Field(I32, 3), 2: Field(BINARY, b"ab")}).hex(" ")
    '15 06 18 02 61 62 00'
    """
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _struct(data: bytes | memoryview, at: int) -> tuple[Struct, int]:
    """As `read_struct`. IndexError where the data end.

    A footer has tens of values for each column of each row group, so numbers of one byte, most of them, are read here.
    """
    found: Struct = {}
    number = 0
    while byte := data[at]:
        at += 1
        kind, step = byte & 0x0F, byte >> 4
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        value: Any  # Any: see Field
        if kind in _INTEGERS:
            value = data[at]
            at += 1
            if value < 0x80:
                value = (value >> 1) ^ -(value & 1)
            else:
                value, at = _integer(data, at - 1)
        elif kind == BINARY:
            size, at = _varint(data, at)
            value, at = _bytes(data, at, size)
        else:
            value, at = _value(data, at, kind)
        found[number] = Field(kind, value)
    return found, at + 1


def _value(data: bytes | memoryview, at: int, kind: int) -> tuple[Any, int]:  # Any: see Field
    """One that has its kind before it, and where it ends."""
    if kind == STRUCT:
        return _struct(data, at)
    if kind in _INTEGERS:
        return _integer(data, at)
    if kind == BINARY:
        size, at = _varint(data, at)
        return _bytes(data, at, size)
    if kind in (LIST, SET):
        return _items(data, at)
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return _bytes(data, at, _DOUBLE_BYTES)
    raise ValueError(f"a Thrift struct has a field of kind {kind}, which Parquet does not use")


def _items(data: bytes | memoryview, at: int) -> tuple[Items, int]:
    kind, number = data[at] & 0x0F, data[at] >> 4
    at += 1
    if number == _LONG:
        number, at = _varint(data, at)
    values = []
    for _ in range(number):
        if kind in (TRUE, FALSE):
            value, at = data[at] == TRUE, at + 1
        else:
            value, at = _value(data, at, kind)
        values.append(value)
    return Items(kind, values), at


def _bytes(data: bytes | memoryview, at: int, number: int) -> tuple[bytes, int]:
    return bytes(data[at : at + number]), at + number  # where the data end, the byte after it is missed


def _integer(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """In zigzag: the sign is the last bit."""
    found, at = _varint(data, at)
    return (found >> 1) ^ -(found & 1), at


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    found, shift = 0, 0
    while (byte := data[at]) & 0x80:
        found |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MOST_SHIFT:
            raise ValueError("a Thrift struct has a number of more than 64 bits")
    return found | byte << shift, at + 1


def _write_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in struct.items():
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - before
        out.append((step << 4 | kind) if 0 < step <= _LONG else kind)
        if not 0 < step <= _LONG:
            _write_integer(out, number)
        before = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:  # Any: see Field
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        number = len(value.values)
        out.append(min(number, _LONG) << 4 | value.kind)
        if number >= _LONG:
            _write_varint(out, number)
        for one in value.values:
            _write_value(out, value.kind, one)
    elif kind in (TRUE, FALSE):  # in a list
        out.append(TRUE if value else FALSE)
    elif kind == BYTE:
        out.append(value)
    else:
        out += value


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
