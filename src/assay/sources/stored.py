"""Columns of Parquet files as they lie there: which bytes they are, and how the file describes them.

Lives here: a look into the footer, row group by row group. Not here: copying them (`sinks/spliced.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from assay.footers import Footer, OfChunk, OfFile, OfGroup
from assay.records import StoredColumn, StoredRows
from assay.thrift import Struct, read_struct


def stored_rows(
    path: Path, footer: bytes, groups: range, columns: Collection[str], types: pa.Schema
) -> StoredRows | None:
    """Columns of those of the row groups that have rows. types: of all columns of the file, as they are read.

    None where the footer does not say plainly which bytes they are.
    """
    file = _read(footer)
    if file is None or not frozenset(columns) <= file.elements.keys():
        return None
    chosen = [group for group in file.groups[groups.start : groups.stop] if group[OfGroup.NUM_ROWS].value]
    chunks = {name: tuple(file.chunks(group, name) for group in chosen) for name in columns}
    if not all(map(_is_clear, (chunk for several in chunks.values() for group in several for chunk in group))):
        return None
    return StoredRows(
        path=path,
        group_rows=tuple(group[OfGroup.NUM_ROWS].value for group in chosen),
        columns={name: StoredColumn(file.elements[name], file.orders(name), chunks[name]) for name in columns},
        types=pa.schema([types.field(name) for name in columns]),
    )


@lru_cache(maxsize=1)
def _read(footer: bytes) -> Footer | None:
    """The one that was looked into last: row groups are asked for one after the other."""
    try:
        found = Footer(read_struct(footer)[0])
    except ValueError:
        return None
    return None if OfFile.ENCRYPTION in found.file else found


def _is_clear(chunk: Struct) -> bool:
    """It lies in the same file, and is described."""
    return OfChunk.METADATA in chunk and OfChunk.FILE not in chunk and OfChunk.ENCRYPTION not in chunk
