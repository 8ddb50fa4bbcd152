"""What a file of predictions says of itself: its columns and how many rows it has.

Lives here: each format's own way of telling, next to the ways they are written. Not here: what is expected of a file
(`pipeline/audit_files.py`).
"""

from __future__ import annotations

import csv
import io
import json
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assay.sinks.text_file import ENDINGS

CHUNK_BYTES = 4 << 20
_EXTENSION = b"ARROW:extension:name"

Column = tuple[str, str | None]
"""Name, and type in words; None where it is not known, as in text."""
Unreadable = (pa.ArrowException, OSError, ValueError, csv.Error)
"""What is raised where a file is none of its kind."""


class Inside(NamedTuple):
    """Of one file."""

    columns: tuple[Column, ...]
    rows: int


def inside(content: bytes, path: str) -> Inside:
    """By the ending of its path. One of `Unreadable` where it is no file of that kind."""
    if path.endswith(".parquet"):
        parquet = pq.ParquetFile(pa.BufferReader(content))
        return Inside(_columns(parquet.schema_arrow), parquet.metadata.num_rows)
    if path.endswith(".arrow"):
        schema = pa.ipc.open_file(pa.BufferReader(content)).schema
        first = pa.ipc.IpcReadOptions(included_fields=[0])  # of a file with columns; the others are not decoded
        reader = pa.ipc.open_file(pa.BufferReader(content), options=first)
        rows = sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
        return Inside(_columns(schema), rows)
    codec = next((name for name, ending in ENDINGS.items() if ending and path.endswith(ending)), None)
    is_csv = ".csv" in path.rpartition("/")[2]
    with pa.input_stream(pa.BufferReader(content), compression=codec) as text:
        lines = io.TextIOWrapper(text, "utf-8", newline="" if is_csv else "\n")
        names = next(csv.reader(lines), []) if is_csv else _keys(lines.readline())
    with pa.input_stream(pa.BufferReader(content), compression=codec) as text:
        rows = _count_lines(text, quotes=is_csv) - (1 if is_csv else 0)
    return Inside(tuple((name, None) for name in names), rows)


def _keys(line: str) -> list[str]:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("its first line is no object")
    return list(record)


def _columns(schema: pa.Schema) -> tuple[Column, ...]:
    """An extension type that this process does not know reads as what it is stored as: its name is in the metadata."""
    return tuple((field.name, None if _EXTENSION in (field.metadata or {}) else str(field.type)) for field in schema)


def _count_lines(text: pa.NativeFile, *, quotes: bool) -> int:
    """quotes: a line's end within them ends no line."""
    lines, quoted = 0, False
    while piece := text.read(CHUNK_BYTES):
        letters = np.frombuffer(piece, np.uint8)
        within = np.logical_xor.accumulate(letters == ord('"')) ^ quoted
        lines += int(((letters == ord("\n")) & ~(within & quotes)).sum())
        quoted = bool(within[-1])
    return lines
