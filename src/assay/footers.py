"""Footers of Parquet files, field by field: what Arrow's own reader does not give away, and its writer does not take.

Lives here: the numbers of the fields that we look at, as the format has them (parquet.thrift of apache/parquet-format),
and which of a file's leaves are which column's. Fields that nobody here knows are kept, so that what is put into
another footer loses nothing. Not here: which columns are copied (`sources/encoded.py`), and to where
(`sinks/spliced.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from assay.thrift import Items, Struct, read_struct

MAGIC = b"PAR1"
"""Before the first page and after the footer."""
TAIL_BYTES = 8
"""Of a file: the length of the footer, and MAGIC."""


class OfFile(IntEnum):
    """Fields of FileMetaData."""

    SCHEMA = 2
    NUM_ROWS = 3
    ROW_GROUPS = 4
    COLUMN_ORDERS = 7
    ENCRYPTION = 8


class OfElement(IntEnum):
    """Fields of SchemaElement."""

    TYPE = 1
    TYPE_BYTES = 2
    REPETITION = 3
    NAME = 4
    NUM_CHILDREN = 5


class OfGroup(IntEnum):
    """Fields of RowGroup."""

    COLUMNS = 1
    TOTAL_BYTES = 2
    NUM_ROWS = 3
    OFFSET = 5
    COMPRESSED_BYTES = 6
    ORDINAL = 7


class OfChunk(IntEnum):
    """Fields of ColumnChunk."""

    FILE = 1
    OFFSET = 2
    METADATA = 3
    ENCRYPTION = 8


class OfColumn(IntEnum):
    """Fields of ColumnMetaData."""

    PATH = 3
    CODEC = 4
    NUM_VALUES = 5
    TOTAL_BYTES = 6
    COMPRESSED_BYTES = 7
    DATA_OFFSET = 9
    INDEX_OFFSET = 10
    DICTIONARY_OFFSET = 11
    BLOOM_OFFSET = 14
    BLOOM_BYTES = 15


class OfPage(IntEnum):
    """Fields of PageHeader."""

    COMPRESSED_BYTES = 3
    DATA = 5
    DATA_V2 = 8


class OfDataPage(IntEnum):
    """Fields of DataPageHeader and of DataPageHeaderV2."""

    NUM_VALUES = 1


class EncodedChunk(NamedTuple):
    """A leaf of a column in one row group, as it is encoded: pages that follow one another."""

    start: int  # of the first byte, in its file
    num_bytes: int
    num_values: int  # those of lists, and nulls too
    codec: int
    decompressed_bytes: int
    metadata: Struct  # all that is said of it: ColumnMetaData


@dataclass(frozen=True)
class Footer:
    """A footer, read."""

    file: Struct

    @classmethod
    def of(cls, file: memoryview) -> Footer:
        """Of a whole file in memory, which has one."""
        length = int.from_bytes(file[-TAIL_BYTES : -len(MAGIC)], "little")
        return cls(read_struct(file[-TAIL_BYTES - length : -TAIL_BYTES])[0])

    @property
    def groups(self) -> Sequence[Struct]:
        """Its row groups."""
        return _values(self.file, OfFile.ROW_GROUPS)

    @cached_property
    def elements(self) -> Mapping[str, tuple[Struct, ...]]:
        """{column: its part of the schema}: of one that is nested, what is in it too."""
        root, *rest = _values(self.file, OfFile.SCHEMA)
        found: dict[str, tuple[Struct, ...]] = {}
        left = iter(rest)
        for _ in range(root[OfElement.NUM_CHILDREN].value):
            several = tuple(_with_children(left))
            found[several[0][OfElement.NAME].value.decode()] = several
        return found

    @cached_property
    def leaves(self) -> Mapping[str, slice]:
        """{column: which of the chunks of a row group are its own}."""
        found, begin = {}, 0
        for column, elements in self.elements.items():
            number = sum(not _num_children(element) for element in elements)
            found[column] = slice(begin, begin + number)
            begin += number
        return found

    def chunks(self, group: Struct, column: str) -> tuple[EncodedChunk, ...]:
        """The column's part of a row group, leaf by leaf. ValueError: it is encrypted, or lies in another file."""
        return tuple(map(_chunk, _values(group, OfGroup.COLUMNS)[self.leaves[column]]))

    def orders(self, column: str) -> tuple[Struct, ...]:
        """By which order the statistics of each leaf are meant; none where the file does not say so."""
        return tuple(_values(self.file, OfFile.COLUMN_ORDERS)[self.leaves[column]])


def integer(struct: Struct, number: int) -> int:
    """A field of a struct. ValueError: there is none, or it is of another kind."""
    value = struct[number].value if number in struct else None
    if not isinstance(value, int):
        raise ValueError(f"a Thrift struct has no number in its field {number}")
    return value


def _chunk(chunk: Struct) -> EncodedChunk:
    if OfChunk.METADATA not in chunk or OfChunk.FILE in chunk or OfChunk.ENCRYPTION in chunk:
        raise ValueError("a column is encrypted, or lies in another file")
    metadata: Struct = chunk[OfChunk.METADATA].value
    start = integer(metadata, OfColumn.DATA_OFFSET)
    if OfColumn.DICTIONARY_OFFSET in metadata:  # some writers say 0 where there is no dictionary
        dictionary = integer(metadata, OfColumn.DICTIONARY_OFFSET)
        start = dictionary if 0 < dictionary < start else start
    return EncodedChunk(
        start=start,
        num_bytes=integer(metadata, OfColumn.COMPRESSED_BYTES),
        num_values=integer(metadata, OfColumn.NUM_VALUES),
        codec=integer(metadata, OfColumn.CODEC),
        decompressed_bytes=integer(metadata, OfColumn.TOTAL_BYTES),
        metadata=metadata,
    )


def _values(struct: Struct, number: int) -> Sequence[Struct]:
    items: Items | None = struct[number].value if number in struct else None
    return () if items is None else items.values


def _num_children(element: Struct) -> int:
    return int(element[OfElement.NUM_CHILDREN].value) if OfElement.NUM_CHILDREN in element else 0


def _with_children(left: Iterator[Struct]) -> Iterator[Struct]:
    element = next(left)
    yield element
    for _ in range(_num_children(element)):
        yield from _with_children(left)
