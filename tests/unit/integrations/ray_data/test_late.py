"""Wide columns by row number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from assay.errors import DataError
from assay.integrations.ray_data.columns import carry_over_of
from assay.integrations.ray_data.late import Late, take_rows

TABLE = pa.table(
    [pa.array([f"row {number}" for number in range(10)]), pa.array(range(10), pa.int32()), pa.array(["w"] * 10)],
    schema=pa.schema(
        [pa.field("text", pa.string(), metadata={"a": "b"}), ("x", pa.int32()), ("w", pa.string())], {"k": "v"}
    ),
)


class Pieces:
    """A table in pieces of 4, 4 and 2 rows, that notes what is read."""

    schema = TABLE.schema
    starts = np.array([0, 4, 8, 10])

    def __init__(self) -> None:
        self.read: list[tuple[int, list[str]]] = []

    def read_piece(self, piece: int, columns: Sequence[str]) -> pa.Table:
        self.read.append((piece, list(columns)))
        start, stop = self.starts[piece : piece + 2]
        return TABLE.slice(start, stop - start).select(list(columns))


@pytest.mark.parametrize(
    "numbers",
    [list(range(10)), [2, 3, 4, 5], [0, 3, 9], [5], [], [1, 1, 1, 4], [9, 0, 5, 5, 2], [3, 2]],
    ids=str,
)
def test_rows_come_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    found = list(take_rows(Pieces(), np.array(numbers, np.int64), ["text"]))
    assert [number for rows, _ in found for number in range(rows.start, rows.stop)] == list(range(len(numbers)))
    texts = [text for _, table in found for text in table["text"].to_pylist()]
    assert texts == [f"row {number}" for number in numbers]


def test_a_piece_is_read_once_and_only_where_it_is_needed() -> None:
    pieces = Pieces()
    list(take_rows(pieces, np.array([0, 3, 9]), ["text", "x"]))
    assert pieces.read == [(0, ["text", "x"]), (2, ["text", "x"])]
    list(take_rows(pieces, np.array([0, 3, 9]), []))
    assert len(pieces.read) == 2


def test_rows_that_follow_one_another_are_not_copied() -> None:
    [(_, table)] = take_rows(Pieces(), np.array([5, 6]), ["text"])
    assert table["text"].chunk(0).buffers()[2].address == TABLE["text"].chunk(0).buffers()[2].address


def test_row_numbers_of_other_data_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        list(take_rows(Pieces(), np.array([4, 12, 10, -1]), ["text"]))
    assert str(caught.value) == (
        "3 row numbers are outside the 10 rows of the data, the first is 12. The dataset was read from other data than "
        "those named as late."
    )


def block(numbers: list[int]) -> pa.Table:
    column = pa.array(numbers, pa.int64())
    return pa.table({"extra": column, "x": pc.add(column, 100), "row_number": column, "p": column})


def appended(numbers: list[int], carry_over: str | list[str] = "all") -> tuple[Pieces, pa.Table]:
    pieces = Pieces()
    join = Late(pieces, carry_over_of(carry_over), "row_number", ["p"])
    return pieces, pa.concat_tables(join(block(numbers)))


def test_columns_are_in_the_order_of_the_source_and_the_blocks_own_are_its() -> None:
    pieces, result = appended([3, 4])
    assert result.to_pydict() == {
        "text": ["row 3", "row 4"],
        "x": [103, 104],  # as some step between has made it
        "w": ["w", "w"],
        "extra": [3, 4],
        "p": [3, 4],
    }
    assert result.schema.field("text").metadata == {b"a": b"b"}
    assert result.schema.metadata == {b"k": b"v"}
    assert pieces.read == [(0, ["text", "w"]), (1, ["text", "w"])]


def test_what_is_not_carried_over_is_not_read() -> None:
    pieces, result = appended([3, 4], ["w", "e*"])
    assert result.column_names == ["w", "extra", "p"]
    assert [columns for _, columns in pieces.read] == [["w"], ["w"]]


def test_rows_out_of_order_keep_their_outputs() -> None:
    _, result = appended([9, 1, 5])
    assert result["text"].to_pylist() == ["row 9", "row 1", "row 5"]
    assert result["p"].to_pylist() == [9, 1, 5]


def test_no_rows_and_no_columns() -> None:
    _, result = appended([])
    assert (result.num_rows, result.column_names) == (0, ["text", "x", "w", "extra", "p"])
    assert [one.num_columns for one in Late(Pieces(), carry_over_of("all"), "row_number", ["p"])(pa.table({}))] == [0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda table: table.drop_columns("row_number"),
            "The dataset has no column 'row_number' any more, by which wide columns are found. Keep it in all steps "
            "between ParquetRows.dataset and here.",
        ),
        (
            lambda table: table.set_column(2, "row_number", pa.array([1, None])),
            "The column 'row_number' is int64 with 1 null; expected int64 without nulls, as ParquetRows.dataset gives "
            "it.",
        ),
        (
            lambda table: table.set_column(2, "row_number", pa.array([1.0, 2.0])),
            "The column 'row_number' is double; expected int64 without nulls, as ParquetRows.dataset gives it.",
        ),
    ],
)
def test_row_numbers_that_are_lost_or_changed(change: object, sentence: str) -> None:
    assert callable(change)
    with pytest.raises(DataError) as caught:
        list(Late(Pieces(), carry_over_of("all"), "row_number", ["p"])(change(block([1, 2]))))
    assert str(caught.value) == sentence
