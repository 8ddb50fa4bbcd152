"""What table formats have in common: the sentences on a table that a run cannot add its rows to."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import pyarrow as pa

from assay.errors import DataError
from assay.sinks.kinds import retyped

COMMITS = 5
"""Tries to commit where others commit to the same table at the same time."""


def check_same(table: str, existing: pa.Schema, stored: pa.Schema, floats: Collection[str] = ()) -> None:
    """DataError unless the table has these columns, in any order, and takes null where a row may have it. floats: for
    which 32 bits do as well as 64."""
    faults = [
        *(f"has no column {name!r}, which the output has" for name in stored.names if name not in existing.names),
        *(f"has a column {name!r}, which the output has not" for name in existing.names if name not in stored.names),
        *(_fault(existing.field(one.name), one, one.name in floats) for one in stored if one.name in existing.names),
    ]
    found = [fault for fault in faults if fault]
    if found:
        raise DataError(f"{table} does not fit the output: it {', it '.join(found)}. Name another table.")


def of_64_bits(existing: pa.Schema, floats: Collection[str]) -> frozenset[str]:
    """Those of the columns that the table has as 64-bit floats, or as lists of them."""
    return frozenset(one.name for one in existing if one.name in floats and _narrow(one.type) != one.type)


def _fault(existing: pa.Field, stored: pa.Field, is_float: bool) -> str:
    fits = existing.type == stored.type or (is_float and _wide(existing.type) == _wide(stored.type))
    if not fits:
        return f"has {existing.name!r} as {existing.type}, not as {stored.type}"
    return f"takes no null in {existing.name!r}" if stored.nullable and not existing.nullable else ""


def _wide(kind: pa.DataType) -> pa.DataType:
    return retyped(kind, lambda leaf: pa.float64() if pa.types.is_float32(leaf) else leaf)


def _narrow(kind: pa.DataType) -> pa.DataType:
    return retyped(kind, lambda leaf: pa.float32() if pa.types.is_float64(leaf) else leaf)


def other_partitions(table: str, existing: Sequence[str], wanted: Sequence[str]) -> DataError:
    return DataError(
        f"{table} is partitioned by {_listed(existing)}, and predictions.partition_by says {_listed(wanted)}. Make "
        "them the same, or name another table."
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns)) or "nothing"


def part_of(run: str, part: str) -> str:
    """The part's name in a table that other runs add to: equal rows of two runs are two files, and both count."""
    return f"{hashlib.sha256(run.encode()).hexdigest()[:12]}-{part}"


def as_reason(error: Exception) -> str:
    """An error's first line, to end a sentence."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
