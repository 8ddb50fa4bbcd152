"""Parquet files put together: columns that are copied as they lie in another file, beside columns that are encoded.

Lives here: which columns may be copied, the copying, and the footer. A copied column is neither decompressed nor
decoded: its pages are the same bytes at another place. They are looked through, page by page, before anything is
written. Not here: where they lie (`sources/stored.py`), and encoding (`parquet.py`, with Arrow's writer).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from assay.footers import MAGIC, Footer, OfChunk, OfColumn, OfElement, OfFile, OfGroup, OfPage
from assay.records import StoredRows
from assay.thrift import I16, I64, LIST, STRUCT, Field, Items, Struct, read_struct, write_struct

CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
"""Of parquet.thrift, as they are named here; others are not in use any more."""
LEAST_GROUP_ROWS = 4_096
"""Row groups that are shorter on the average are not copied: readers of the predictions would be slow."""
MOST_ORDINAL = 1 << 15


def may_be_spliced(template: Footer, schema: pa.Schema, stored: StoredRows, compression: str | None) -> bool:
    """Whether columns are in their file just as Arrow would describe them in the new one, with this compression.

    template: of a file without rows; compression: None where any will do.
    """
    if sum(stored.group_rows) < LEAST_GROUP_ROWS * len(stored.group_rows):
        return False
    codecs = set(CODECS.values()) if compression is None else {CODECS[compression]}
    return all(
        schema.field(name).type == stored.types.field(name).type
        and _described(template.elements[name]) == _described(column.elements)
        and {_metadata(chunk)[OfColumn.CODEC].value for group in column.chunks for chunk in group} <= codecs
        for name, column in stored.columns.items()
    )


def splice(place: Path, template: Footer, stored: StoredRows, own: memoryview) -> bool:
    """Write the file. own: a file with the other columns, in the same row groups. False, with nothing written, where a
    copied column is not made of whole pages; OSError."""
    with (
        open(stored.path, "rb") as source,
        mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        chunks = [chunk for column in stored.columns.values() for group in column.chunks for chunk in group]
        if not all(_is_whole(view, _metadata(chunk)) for chunk in chunks):
            return False
        with open(place, "wb") as file:
            _Splice(file, template, stored, view, own).write()
    return True


class _Splice:
    """One file as it is written."""

    def __init__(
        self, file: BinaryIO, template: Footer, stored: StoredRows, source: memoryview, own: memoryview
    ) -> None:
        self._file = file
        self._template = template
        self._stored = stored
        self._source = source
        self._own = own
        self._own_footer = Footer.of(own)

    def write(self) -> None:
        self._file.write(MAGIC)
        groups = [self._group(number, rows) for number, rows in enumerate(self._stored.group_rows)]
        footer = write_struct(
            self._template.file
            | {
                OfFile.NUM_ROWS: Field(I64, sum(self._stored.group_rows)),
                OfFile.ROW_GROUPS: Field(LIST, Items(STRUCT, groups)),
            }
        )
        self._file.write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _group(self, number: int, rows: int) -> Struct:
        begin = self._file.tell()
        chunks = [chunk for column in self._template.elements for chunk in self._column(number, column)]
        sizes = [
            sum(_metadata(chunk)[which].value for chunk in chunks)
            for which in (OfColumn.TOTAL_BYTES, OfColumn.COMPRESSED_BYTES)
        ]
        group = {
            OfGroup.COLUMNS: Field(LIST, Items(STRUCT, chunks)),
            OfGroup.TOTAL_BYTES: Field(I64, sizes[0]),
            OfGroup.NUM_ROWS: Field(I64, rows),
            OfGroup.OFFSET: Field(I64, begin),
            OfGroup.COMPRESSED_BYTES: Field(I64, sizes[1]),
        }
        return group | ({OfGroup.ORDINAL: Field(I16, number)} if number < MOST_ORDINAL else {})

    def _column(self, group: int, name: str) -> Iterator[Struct]:
        """The column's chunks, as they are described in the new file; their bytes are written."""
        if name in self._stored.columns:
            column, orders = self._stored.columns[name], self._template.orders(name)
            for chunk in column.chunks[group]:
                yield self._copied(chunk, self._source, with_statistics=column.orders == orders)
        else:
            for chunk in self._own_footer.chunks(self._own_footer.groups[group], name):
                yield self._copied(chunk, self._own, with_statistics=True)

    def _copied(self, chunk: Struct, source: memoryview, *, with_statistics: bool) -> Struct:
        """Indexes of pages and filters lie elsewhere, and are left behind."""
        metadata, start = _metadata(chunk), _start(_metadata(chunk))
        moved = self._file.tell() - start
        self._file.write(source[start : start + metadata[OfColumn.COMPRESSED_BYTES].value])
        left = {OfColumn.INDEX_OFFSET, OfColumn.BLOOM_OFFSET, OfColumn.BLOOM_BYTES}
        left |= set() if with_statistics else {OfColumn.STATISTICS}
        kept = {number: field for number, field in metadata.items() if number not in left}
        for offset in (OfColumn.DATA_OFFSET, OfColumn.DICTIONARY_OFFSET):
            if offset in kept:
                kept[offset] = Field(I64, kept[offset].value + moved)
        return {OfChunk.OFFSET: Field(I64, 0), OfChunk.METADATA: Field(STRUCT, kept)}


def _described(elements: Sequence[Struct]) -> list[Struct]:
    """Without ids, by which readers do not find these columns."""
    return [{number: one for number, one in element.items() if number != OfElement.FIELD_ID} for element in elements]


def _metadata(chunk: Struct) -> Struct:
    found: Struct = chunk[OfChunk.METADATA].value
    return found


def _start(metadata: Struct) -> int:
    """Where a chunk begins: with its dictionary, if it has one."""
    data = int(metadata[OfColumn.DATA_OFFSET].value)
    dictionary = int(metadata[OfColumn.DICTIONARY_OFFSET].value) if OfColumn.DICTIONARY_OFFSET in metadata else 0
    return dictionary if 0 < dictionary < data else data


def _is_whole(source: memoryview, metadata: Struct) -> bool:
    """Whether a chunk is what it says: pages without a gap, with all its values. Some writers counted wrongly."""
    at = _start(metadata)
    end, values = at + metadata[OfColumn.COMPRESSED_BYTES].value, 0
    try:
        while at < end:
            header, at = read_struct(source, at)
            data = header.get(OfPage.DATA) or header.get(OfPage.DATA_V2)
            values += 0 if data is None else data.value[OfPage.NUM_VALUES].value
            at += header[OfPage.COMPRESSED_BYTES].value
    except (ValueError, KeyError):
        return False
    return bool(at == end <= len(source) and values == metadata[OfColumn.NUM_VALUES].value)
