"""Whether the files of predictions are those that a manifest lists: there, and with its content, columns and rows.

Not here: whether the manifest can be that of its run (`audit_manifest.py`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assay.hashing import content_digest
from assay.protocols import Place
from assay.records import ListedPart, PartFile
from assay.sinks.names import claim_of, is_hidden, owner_of
from assay.spec.words import count, listing

_CODECS = {"gz": "gzip", "zst": "zstd"}
_EXTENSION = b"ARROW:extension:name"
_OF_MAP = re.compile(r" \('.*?'\)")
"""How Arrow names the values of a map, which files do not keep."""

Column = tuple[str, str | None]
"""Name, and type in words; None where it is not known, as in text."""


class Wrong(NamedTuple):
    """A file that is not as the manifest says."""

    what: str
    remedy: str


class _Inside(NamedTuple):
    columns: tuple[Column, ...]
    rows: int


def wrong_files(place: Place, run: str, parts: Sequence[ListedPart], columns: Sequence[Column]) -> Iterator[Wrong]:
    """Files that are missing, altered, not listed, or another run's; those that readers pass over are left out.

    columns: that each file has.
    """
    found = place.list()
    listed = {one.file.path: one.file for one in parts}
    there = {path for path in found if not is_hidden(path)}
    again = _again(place, run, unclaimed=bool(there) and claim_of(run) not in found)
    yield from (Wrong(f"{path} is missing", again) for path in sorted(listed.keys() - there))
    for path in sorted(listed.keys() & there):
        what = _wrong(place.get(path), listed[path], columns)
        if what is not None:
            yield Wrong(what, again)
    for path in sorted(there - listed.keys()):
        yield Wrong(f"{path} is not listed", f"Move it out of {place.url}, whose readers read it too.")
    for path in found:
        if owner_of(path) not in (None, run):
            remedy = f"Remove {path} if that run is gone, else write its predictions to another folder."
            yield Wrong(f"{path} in {place.url} says that the folder is of another run, not of {run!r}", remedy)


def _again(place: Place, run: str, *, unclaimed: bool) -> str:
    """How all is written again, into a folder that the run does not take for another's."""
    claim = f"put an empty file {claim_of(run)} into {place.url}, " if unclaimed else ""
    return f"To have all written again, {claim}remove predictions.json of the run and resume it."


def _wrong(content: bytes, file: PartFile, columns: Sequence[Column]) -> str | None:
    path = file.path
    if content_digest([content]) != file.digest:
        return f"{path} was altered"
    if len(content) != file.bytes:
        return f"{path} has {len(content):,} bytes and not {file.bytes:,}"
    try:
        inside = _inside(content, path)
    except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return f"{path} cannot be read ({reason})"
    names, expected = [name for name, _ in inside.columns], [name for name, _ in columns]
    if names != expected:
        return f"{path} has the columns {listing(names)} and not {listing(expected)}"
    for (name, own), (_, kind) in zip(inside.columns, columns, strict=True):
        if own is not None and kind is not None and _OF_MAP.sub("", own) != _OF_MAP.sub("", kind):
            return f"{path} has the column {name!r} of type {own} and not {kind}"
    if inside.rows != file.rows:
        return f"{path} has {count(inside.rows, 'row')} and not {file.rows:,}"
    return None


# ---- what a file says of itself --------------------------------------------------------------------------------------


def _inside(content: bytes, path: str) -> _Inside:
    """Errors of Arrow, OSError, ValueError or csv.Error where it is no file of its kind."""
    if path.endswith(".parquet"):
        parquet = pq.ParquetFile(pa.BufferReader(content))
        return _Inside(_columns(parquet.schema_arrow), parquet.metadata.num_rows)
    if path.endswith(".arrow"):
        schema = pa.ipc.open_file(pa.BufferReader(content)).schema
        first = pa.ipc.IpcReadOptions(included_fields=[0])  # of a file with columns; the others are not decoded
        reader = pa.ipc.open_file(pa.BufferReader(content), options=first)
        rows = sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
        return _Inside(_columns(schema), rows)
    codec = _CODECS.get(path.rpartition(".")[2])
    with pa.input_stream(pa.BufferReader(content), compression=codec) as stream:
        text = stream.read()
    names, rows = _of_csv(text) if ".csv" in path.rpartition("/")[2] else _of_json_lines(text)
    return _Inside(tuple((name, None) for name in names), rows)


def _columns(schema: pa.Schema) -> tuple[Column, ...]:
    """An extension type that this process does not know reads as what it is stored as: its name is in the metadata."""
    return tuple((field.name, None if _EXTENSION in (field.metadata or {}) else str(field.type)) for field in schema)


def _of_csv(text: bytes) -> tuple[list[str], int]:
    """The header, and how many lines follow it; one that is in quotes ends no row."""
    header = next(csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")), [])
    letters = np.frombuffer(text, np.uint8)
    quoted = np.logical_xor.accumulate(letters == ord('"'))
    return header, int(((letters == ord("\n")) & ~quoted).sum()) - 1


def _of_json_lines(text: bytes) -> tuple[list[str], int]:
    first = json.loads(text.split(b"\n", 1)[0])
    if not isinstance(first, dict):
        raise ValueError("its first line is no object")
    return list(first), text.count(b"\n")
