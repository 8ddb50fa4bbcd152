"""Columns get a dictionary where their values repeat, whatever their type, and only there."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assay.sinks.parquet import ParquetTableWriter
from assay.sinks.repeats import LOOKED_AT, repeating

ROWS = 1000
EVERY = range(ROWS)
COLUMNS = {
    "id": pa.array(EVERY, pa.int64()),
    "day": pa.array([row % 7 for row in EVERY], pa.int64()),
    "text": pa.array([f"text {row}" for row in EVERY]),
    "vector": pa.array([[row + 0.25, row + 0.5] for row in EVERY], pa.list_(pa.float32(), 2)),
    "tags": pa.array([["a"], ["b", "a"]] * (ROWS // 2), pa.list_(pa.string())),
    "pair": pa.array([{"id": row, "kind": "x"} for row in EVERY]),
    "map": pa.array([[("key", row)] for row in EVERY], pa.map_(pa.string(), pa.int32())),
    "empty": pa.nulls(ROWS, pa.string()),
    "uuid": pa.array([UUID(int=row).bytes for row in EVERY], pa.uuid()),
}
REPEATING = ["day", "tags.list.element", "pair.kind", "map.key_value.key", "empty", "uuid"]


def test_values_that_repeat() -> None:
    assert repeating(pa.table(COLUMNS)) == REPEATING


def test_rows_before_a_slice_have_no_part_in_it() -> None:
    before = pa.table({name: column.take([0] * LOOKED_AT) for name, column in COLUMNS.items()})
    both = pa.concat_tables([before, pa.table(COLUMNS)]).combine_chunks()
    assert repeating(both.slice(LOOKED_AT)) == REPEATING
    assert repeating(both) is True


def test_rows_that_no_chunk_holds_together() -> None:
    size = 1 << 30
    row = pa.ListArray.from_arrays(pa.array([0, size], pa.int32()), pa.array(np.zeros(size, np.int8)))  # memory of none
    assert repeating(pa.table({"x": pa.chunked_array([row] * 3)})) is True


def test_a_tenth_of_equal_values_is_enough() -> None:
    assert repeating(pa.table({"x": [*range(90), *range(10)]})) is True
    assert repeating(pa.table({"x": [*range(91), *range(9)]})) == []


def test_types_whose_values_cannot_be_counted_have_dictionaries() -> None:
    ids = pa.ListArray.from_arrays([0, 1], pa.array([UUID(int=1)], pa.uuid()))
    assert repeating(pa.table({"ids": ids, "null": pa.nulls(1)})) is True


def test_a_file_has_the_dictionaries_that_its_first_rows_ask_for(tmp_path: Path) -> None:
    table = pa.table({"id": range(ROWS), "a.b": ["x"] * ROWS})
    writer = ParquetTableWriter(tmp_path / "file.parquet", table.schema, "snappy")
    writer.write(table)
    writer.write(pa.table({"id": [1] * ROWS, "a.b": ["x"] * ROWS}))
    writer.close()
    with pq.ParquetFile(tmp_path / "file.parquet") as file:
        groups = [file.metadata.row_group(number) for number in range(2)]
        assert [group.column(0).has_dictionary_page for group in groups] == [False, False]
        assert [group.column(1).has_dictionary_page for group in groups] == [True, True]
        assert file.read().slice(0, ROWS).equals(table)
