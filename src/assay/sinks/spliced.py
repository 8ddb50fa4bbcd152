"""Parquet files put together: columns that are copied as they lie in another file, beside columns that are encoded.

Lives here: which columns may be copied, the copying, and the footer. A copied column is neither decompressed nor
decoded: its pages are the same bytes at another place. They are looked through, page by page, before anything is
written. Not here: where they lie (`sources/encoded.py`), and encoding (`parquet.py`, with Arrow's writer).
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from assay.errors import DataError
from assay.footers import (
    MAGIC,
    EncodedChunk,
    Footer,
    OfChunk,
    OfColumn,
    OfDataPage,
    OfElement,
    OfFile,
    OfGroup,
    OfPage,
    integer,
)
from assay.records import EncodedRows
from assay.thrift import I16, I64, LIST, STRUCT, Field, Items, Struct, read_struct, write_struct

CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
"""Of parquet.thrift, as they are named here; others are not in use any more."""
LEAST_GROUP_ROWS = 4_096
"""Row groups that are shorter on the average are not copied: readers of the predictions would be slow."""
MOST_GROUP_ROWS = 1 << 26
"""Arrow's writer makes several row groups of more."""
BLOCK_BYTES = 1 << 18
"""So much is copied at a time: it stays in a processor's cache."""
MOST_HEADER_BYTES = 1 << 20
"""Of a page; its statistics may hold two long values."""
_FORM = (OfElement.TYPE, OfElement.TYPE_BYTES, OfElement.REPETITION, OfElement.NAME, OfElement.NUM_CHILDREN)
NUM_ORDINALS = 1 << 15
"""Row groups have a number of 16 bits; those behind them have none, as Arrow's writer does it."""
_LEFT_BEHIND = {OfColumn.INDEX_OFFSET, OfColumn.BLOOM_OFFSET, OfColumn.BLOOM_BYTES, OfColumn.DICTIONARY_OFFSET}
"""Of a chunk that is copied: filters and indexes lie elsewhere in its file; where its dictionary is, is said anew."""


def may_be_spliced(template: Footer, schema: pa.Schema, rows: EncodedRows, compression: str | None) -> bool:
    """Whether columns are in their file just as Arrow would write them to the new one, with this compression.

    template: of a file without rows; compression: None where any will do. A file that does not say by which order its
    statistics are meant is of a writer of before 2018, for whose faults readers look at its name, which gets lost.
    """
    average = sum(rows.group_rows) / len(rows.group_rows)
    if average < LEAST_GROUP_ROWS or max(rows.group_rows) > MOST_GROUP_ROWS:
        return False
    codecs = set(CODECS.values()) if compression is None else {CODECS[compression]}
    return all(
        schema.field(name).type == rows.types.field(name).type
        and _form(template.elements[name]) == _form(column.elements)
        and template.orders(name) == column.orders
        and {chunk.codec for group in column.chunks for chunk in group} <= codecs
        for name, column in rows.columns.items()
    )


@contextmanager
def whole_pages(rows: EncodedRows) -> Iterator[BinaryIO | None]:
    """The file that the columns lie in, open as long as this lasts. DataError where it cannot be read.

    None where a column is not made of whole pages: who decodes it says what is wrong with it.
    """
    chunks = [chunk for column in rows.columns.values() for group in column.chunks for chunk in group]
    with ExitStack() as opened:
        try:
            file = opened.enter_context(open(rows.path, "rb", buffering=0))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                are_whole = all(_is_whole(view, chunk) for chunk in chunks)
        except ValueError:  # it is empty by now
            are_whole = False
        except OSError as error:
            raise DataError(f"The file {str(rows.path)!r} cannot be read: {error.strerror}.") from None
        yield file if are_whole else None


def splice(place: Path, template: Footer, rows: EncodedRows, source: BinaryIO, own: memoryview) -> None:
    """Write the file; OSError. own: a file with the other columns, in the same row groups; source: of `whole_pages`."""
    with open(place, "wb") as file:
        _Splice(file, template, rows, source, own).write()


class _Splice:
    """One file as it is written."""

    def __init__(self, file: BinaryIO, template: Footer, rows: EncodedRows, source: BinaryIO, own: memoryview) -> None:
        self._file = file
        self._template = template
        self._rows = rows
        self._source = source
        self._own = io.BytesIO(own)
        self._own_footer = Footer.of(own)
        self._block = memoryview(bytearray(BLOCK_BYTES))

    def write(self) -> None:
        self._file.write(MAGIC)
        groups = [self._group(number, num_rows) for number, num_rows in enumerate(self._rows.group_rows)]
        footer = write_struct(
            self._template.file
            | {
                OfFile.NUM_ROWS: Field(I64, sum(self._rows.group_rows)),
                OfFile.ROW_GROUPS: Field(LIST, Items(STRUCT, groups)),
            }
        )
        self._file.write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _group(self, number: int, num_rows: int) -> Struct:
        begin = self._file.tell()
        chunks = [one for column in self._template.elements for one in self._column(number, column)]
        group = {
            OfGroup.COLUMNS: Field(LIST, Items(STRUCT, [self._copied(*one) for one in chunks])),
            OfGroup.TOTAL_BYTES: Field(I64, sum(chunk.decompressed_bytes for chunk, _ in chunks)),
            OfGroup.NUM_ROWS: Field(I64, num_rows),
            OfGroup.OFFSET: Field(I64, begin),
            OfGroup.COMPRESSED_BYTES: Field(I64, sum(chunk.num_bytes for chunk, _ in chunks)),
        }
        return group | ({OfGroup.ORDINAL: Field(I16, number)} if number < NUM_ORDINALS else {})

    def _column(self, group: int, name: str) -> Iterator[tuple[EncodedChunk, BinaryIO]]:
        """The column's chunks, and what they lie in."""
        if name in self._rows.columns:
            yield from ((chunk, self._source) for chunk in self._rows.columns[name].chunks[group])
        else:
            own = self._own_footer
            yield from ((chunk, self._own) for chunk in own.chunks(own.groups[group], name))

    def _copied(self, chunk: EncodedChunk, source: BinaryIO) -> Struct:
        """The chunk as it is described in the new file; its bytes are written."""
        moved = self._file.tell() - chunk.start
        self._copy(chunk, source)
        kept = {number: field for number, field in chunk.metadata.items() if number not in _LEFT_BEHIND}
        data = integer(kept, OfColumn.DATA_OFFSET)
        kept[OfColumn.DATA_OFFSET] = Field(I64, data + moved)
        if chunk.start < data:
            kept[OfColumn.DICTIONARY_OFFSET] = Field(I64, chunk.start + moved)
        return {OfChunk.OFFSET: Field(I64, 0), OfChunk.METADATA: Field(STRUCT, dict(sorted(kept.items())))}

    def _copy(self, chunk: EncodedChunk, source: BinaryIO) -> None:
        """By blocks: of a file that is mapped the kernel would look up each page for itself."""
        source.seek(chunk.start)
        missing = chunk.num_bytes
        while missing:
            number = source.readinto(self._block[:missing])  # type: ignore[attr-defined]  # all binary files have it
            if not number:
                raise OSError("the file that is copied from has become shorter")
            self._file.write(self._block[:number])
            missing -= number


def _form(elements: Sequence[Struct]) -> list[Struct]:
    """What pages depend on. What values mean is in the type that Arrow reads: writers say it in several ways."""
    return [{number: element[number] for number in _FORM if number in element} for element in elements]


def _is_whole(source: memoryview, chunk: EncodedChunk) -> bool:
    """Whether a chunk is what it says: pages without a gap, with all its values. Some writers counted wrongly."""
    at, end, num_values = chunk.start, chunk.start + chunk.num_bytes, 0
    if end > len(source):
        return False
    try:
        while at < end:
            header, num_bytes = read_struct(source[at : min(end, at + MOST_HEADER_BYTES)])
            size = integer(header, OfPage.COMPRESSED_BYTES)
            data = header.get(OfPage.DATA) or header.get(OfPage.DATA_V2)
            if size < 0 or (data is not None and data.kind != STRUCT):
                return False
            num_values += 0 if data is None else integer(data.value, OfDataPage.NUM_VALUES)
            at += num_bytes + size
    except ValueError:
        return False
    return at == end and num_values == chunk.num_values
