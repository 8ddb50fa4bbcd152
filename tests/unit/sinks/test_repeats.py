"""Columns get a dictionary where their values repeat, whatever their type, and only there."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


def chunked(table: pa.Table, *sizes: int) -> pa.Table:
    """The same rows, each column in chunks of so many, the rest in one."""
    stops = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    pieces = [table.slice(start, size) for start, size in zip(stops, [*sizes, None], strict=True)]
    names = table.column_names
    arrays = {name: [pa.concat_arrays(piece[name].chunks) for piece in pieces] for name in names}  # of their own
    return pa.table({name: pa.chunked_array(arrays[name], table.schema.field(name).type) for name in names})


@pytest.mark.parametrize("sizes", [(1,), (7, 500), (0, 10, 0), (0, 0), (ROWS,)])
def test_chunks_change_nothing(sizes: tuple[int, ...]) -> None:
    found = chunked(pa.table(COLUMNS), *sizes)
    assert found["map"].num_chunks == len(sizes) + 1
    assert repeating(found) == REPEATING
    without = pa.table({name: column for name, column in COLUMNS.items() if name not in ("tags", "day")})
    assert repeating(chunked(without, *sizes)) == [name for name in REPEATING if name[:3] not in ("day", "tag")]


def test_values_that_repeat_from_chunk_to_chunk_alone() -> None:
    """In each chunk they are all different, and the lists and maps are slices of larger ones."""
    lists = pa.array([[0, 0], [1, 2], [3, 4], [0, 0]])
    maps = pa.array([[(0, 0)], [(1, 5), (2, 6)], [(3, 7), (4, 8)], [(0, 0)]], pa.map_(pa.int32(), pa.int32()))
    once = pa.table({"list": lists, "map": maps}).slice(1, 2)
    assert repeating(once) == []
    twice = pa.concat_tables([once, once])
    assert twice["map"].num_chunks == 2
    assert repeating(twice) is True
    assert repeating(twice.combine_chunks()) is True


def test_the_first_values_of_lists_are_looked_at_however_these_are_split() -> None:
    """So many that are different, then so many that are equal."""
    different = pa.array([list(range(start, start + 4)) for start in range(0, LOOKED_AT, 4)], pa.list_(pa.int32()))
    equal = pa.array([[1] * 4] * LOOKED_AT, pa.list_(pa.int32()))
    half = LOOKED_AT // 8
    split = pa.chunked_array([different[:3], different[3:half], pa.concat_arrays([different[half:], equal]), equal])
    assert repeating(pa.table({"x": split})) == []
    assert repeating(pa.table({"x": split}).combine_chunks()) == []
    sooner = pa.chunked_array([different[:3], equal[:1000], different[3:]])
    assert repeating(pa.table({"x": sooner})) is True
    assert repeating(pa.table({"x": sooner}).combine_chunks()) is True


def test_what_null_lists_and_structs_hide_is_not_looked_at() -> None:
    values = pa.array([*range(95), *[0] * 95], pa.int32())
    lists = pa.ListArray.from_arrays(pa.array([0, 95, 190], pa.int32()), values, mask=pa.array([False, True]))
    empty = pa.array([None, []], pa.list_(pa.int32()))
    assert repeating(pa.table({"x": pa.chunked_array([empty, lists, empty])})) == []
    structs = pa.StructArray.from_arrays([values], ["a"], mask=pa.array([False] * 95 + [True] * 95))
    assert repeating(pa.table({"x": pa.chunked_array([structs[:50], structs[50:]])})) == []


def test_dictionaries_that_differ_from_chunk_to_chunk_stay() -> None:
    first, second = (pa.array(texts).dictionary_encode() for texts in (["a", "b"], ["c", "a"]))
    table = pa.table({"id": range(4), "text": pa.chunked_array([first, second])})
    assert repeating(table) == ["text"]
    assert repeating(table.unify_dictionaries().combine_chunks()) == ["text"]


def test_columns_without_any_chunk() -> None:
    """Unknown is yes."""
    assert repeating(pa.table({name: pa.chunked_array([], column.type) for name, column in COLUMNS.items()})) is True


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
