"""Footers as pyarrow writes them: which parts of the schema, and which chunks, are which column's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.footers import Footer, OfColumn, OfElement, OfGroup
from assay.thrift import write_struct

TABLE = pa.table(
    {
        "a": [1, 2, 3],
        "b": pa.array([{"x": 1, "y": ["z"]}] * 3),
        "c.d": [[1.0]] * 3,
        "m": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
        "e": ["text"] * 3,
    }
)


@pytest.fixture
def file() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, row_group_size=2, write_page_index=True)
    return bytes(sink.getvalue())


def test_each_column_has_its_leaves_in_their_order(file: bytes) -> None:
    footer = Footer.of(memoryview(file))
    assert list(footer.elements) == TABLE.schema.names
    numbers = {name: len(footer.chunks(footer.groups[0], name)) for name in footer.elements}
    assert numbers == {"a": 1, "b": 2, "c.d": 1, "m": 2, "e": 1}
    chunk = footer.chunks(footer.groups[0], "b")[1]
    assert b".".join(chunk.metadata[OfColumn.PATH].value.values) == b"b.y.list.element"
    known = pq.read_metadata(pa.BufferReader(file)).row_group(0).column(2)
    assert (chunk.start, chunk.num_bytes) == (known.dictionary_page_offset, known.total_compressed_size)
    assert (chunk.num_values, chunk.decompressed_bytes) == (known.num_values, known.total_uncompressed_size)
    assert [element[OfElement.NAME].value for element in footer.elements["c.d"]] == [b"c.d", b"list", b"element"]
    assert {name: len(footer.orders(name)) for name in footer.elements} == numbers


def test_row_groups_are_those_that_arrow_sees(file: bytes) -> None:
    found = [group[OfGroup.NUM_ROWS].value for group in Footer.of(memoryview(file)).groups]
    metadata = pq.read_metadata(pa.BufferReader(file))
    assert found == [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [2, 1]


def test_a_footer_is_written_as_it_was_read(file: bytes) -> None:
    length = int.from_bytes(file[-8:-4], "little")
    assert write_struct(Footer.of(memoryview(file)).file) == file[-8 - length : -8]


def test_a_file_without_rows_has_no_row_groups() -> None:
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, TABLE.schema).close()
    footer = Footer.of(memoryview(bytes(sink.getvalue())))
    assert (list(footer.groups), list(footer.elements)) == ([], TABLE.schema.names)
