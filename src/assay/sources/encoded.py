"""Columns of Parquet files as they lie there: which bytes they are, and how the file describes them.

Lives here: a look into the footer, row group by row group. Not here: copying them (`sinks/spliced.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from assay.footers import Footer, OfFile, OfGroup, integer
from assay.records import EncodedColumn, EncodedRows
from assay.thrift import read_struct


def encoded_rows(
    path: Path, footer: bytes, groups: range, columns: Collection[str], types: pa.Schema
) -> EncodedRows | None:
    """Columns of those of the row groups that have rows. types: of all columns of the file, as they are read.

    None where the footer does not say plainly which bytes they are.
    """
    try:
        with _READING:
            file = _read(footer)
        chosen = [group for group in file.groups[groups.start : groups.stop] if integer(group, OfGroup.NUM_ROWS)]
        found = {
            name: EncodedColumn(
                file.elements[name], file.orders(name), tuple(file.chunks(group, name) for group in chosen)
            )
            for name in columns
        }
    except (ValueError, KeyError):
        return None
    return EncodedRows(
        path=path,
        group_rows=tuple(integer(group, OfGroup.NUM_ROWS) for group in chosen),
        columns=found,
        types=pa.schema([types.field(name) for name in columns]),
    )


_READING = threading.Lock()
"""Two threads that come to a file at once wait for one look into it."""


@lru_cache(maxsize=4)
def _read(footer: bytes) -> Footer:
    """One that was looked into of late: row groups of a file are asked for again and again. ValueError."""
    found = Footer(read_struct(footer)[0])
    if OfFile.ENCRYPTION in found.file:
        raise ValueError("the file is encrypted")
    return found
