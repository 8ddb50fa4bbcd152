"""FrameSource: pandas, polars and Arrow alike, as slices of one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from assay.errors import DataError
from assay.records import Chunk, ColumnStatistics, Unit
from assay.sources.frame import GROUP_ROWS, FrameSource

COLUMNS = {"x": [1, 2, 3], "s": ["a", "b", None]}


def read(source: FrameSource, first: int, rows: int | None) -> list[Chunk]:
    return list(source.read(Unit("u", "frame", first, rows, 0), ["x"]))


@pytest.mark.parametrize(
    "frame",
    [
        pa.table(COLUMNS),
        pa.RecordBatch.from_pydict(COLUMNS),
        pd.DataFrame(COLUMNS, index=["p", "q", "r"]),
        pl.DataFrame(COLUMNS),
    ],
    ids=["table", "batch", "pandas", "polars"],
)
def test_frames_of_any_library(frame: Any) -> None:  # Any: a frame of any library
    source = FrameSource(frame)
    assert source.schema.names == ["x", "s"]
    assert read(source, 0, None)[0].table.to_pydict() == {"x": [1, 2, 3]}
    assert [(one.path, one.row_groups) for one in source.fragments] == [("frame", (3,))]
    assert source.resumable is False


def test_row_groups_are_virtual_and_slices_share_memory() -> None:
    table = pa.table({"x": np.arange(GROUP_ROWS + 10)})
    source = FrameSource(table)
    assert source.fragments[0].row_groups == (GROUP_ROWS, 10)
    chunks = read(source, GROUP_ROWS - 2, 4)
    assert [(chunk.first_row, chunk.table.num_rows) for chunk in chunks] == [(GROUP_ROWS - 2, 2), (GROUP_ROWS, 2)]
    assert chunks[0].table["x"].chunk(0).buffers()[1].address == table["x"].chunk(0).buffers()[1].address


def test_statistics_are_those_of_the_data() -> None:
    source = FrameSource(pa.table({"w": pa.array([0.5, None, float("nan"), 2.0]), "s": ["a", None, "b", "c"]}))
    assert source.statistics("w") == ColumnStatistics(0.5, 2.0, 1)
    assert source.statistics("s") == ColumnStatistics(None, None, 1)
    assert source.statistics("missing") is None
    assert FrameSource(pa.table({"w": pa.array([None], pa.float64())})).statistics("w") == ColumnStatistics(
        None, None, 1
    )


def test_half_floats_have_statistics_too() -> None:
    halves = pa.array(np.array([0.5, 2.0], np.float16))
    source = FrameSource(pa.table({"w": halves}))
    assert source.statistics("w") == ColumnStatistics(0.5, 2.0, 0)
    assert source.first_values("w") == {"frame": (0.5,)}


def test_categories_of_polars_are_dictionaries_of_plain_texts_wherever_they_are() -> None:
    frame = pl.DataFrame({"kind": ["a", "b", None]}, schema={"kind": pl.Categorical})
    source = FrameSource(frame.with_columns(pair=pl.struct("kind"), several=pl.concat_list("kind"), text=pl.lit("x")))
    coded, text = pa.dictionary(pa.uint32(), pa.large_string()), pa.string_view()
    assert [field.type for field in source.original] == [
        coded,
        pa.struct([("kind", coded)]),
        pa.large_list(pa.field("element", coded)),
        text,
    ]
    [chunk] = source.read_original(Unit("u", "frame", 0, 3, 0), ["kind", "pair"])
    assert chunk.table.to_pylist() == [{"kind": kind, "pair": {"kind": kind}} for kind in ("a", "b", None)]
    assert pa.types.is_large_string(source.schema.field("kind").type.value_type)


def test_texts_as_polars_has_them_can_be_filtered() -> None:
    views = pa.table({"s": pa.array(["a", None], pa.string_view())})
    (chunk,) = FrameSource(views).read(Unit("u", "frame", 0, None, 0), ["s"])
    assert chunk.table.filter(pa.array([True, True])).to_pydict() == {"s": ["a", None]}


def coded(*words: Any, kind: pa.DataType) -> pa.DictionaryArray:  # Any: of several types
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(words, kind))


def test_dictionaries_that_arrow_cannot_put_together_are_read_by_value_and_carried_over_as_they_are() -> None:
    halves = [coded(np.float16(one), np.float16(2.5), kind=pa.float16()) for one in (0.5, 1.5)]
    words = [coded("a", None, kind=pa.string()), coded("b", "a", kind=pa.string())]
    frame = pa.table({"x": pa.chunked_array(halves), "word": pa.chunked_array(words)})
    source = FrameSource(frame)
    assert source.schema.types == [pa.float16(), pa.string()]
    [chunk] = source.read(Unit("u", "frame", 0, None, 0), ["x", "word"])
    assert chunk.table.to_pydict() == {
        "x": [0.5, 2.5, None, 1.5, 2.5, None],
        "word": ["a", None, None, "b", "a", None],
    }
    [original] = source.read_original(Unit("u", "frame", 0, None, 0), ["x", "word"])
    assert original.table.equals(frame)


def test_a_slice_of_lists_of_nulls_is_left_alone() -> None:
    """Which Arrow spoils where it casts them to their own type."""
    lists = pa.LargeListArray.from_arrays([0, 2, 3, 5, 6], pa.nulls(6)).slice(2)
    source = FrameSource(pa.table({"x": lists, "view": pa.array(["a", "b"], pa.string_view())}))
    [chunk] = read(source, 0, None)
    assert chunk.table["x"].to_pylist() == [[None, None], [None]]


def test_first_values() -> None:
    source = FrameSource(pa.table({"ts": pa.array([3, 2], pa.timestamp("s")), "x": [7, 8], "s": ["a", "b"]}))
    assert source.first_values("ts") == {"frame": (2e6,)}
    assert source.first_values("x") == {"frame": (7.0,)}
    assert source.first_values("s") is None


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "A list is no frame. Give a pandas, polars or Arrow table, or a path to files."),
        (pl.LazyFrame(COLUMNS), "A LazyFrame has no rows yet. Call its collect() first."),
        (
            pa.table({"x": pa.array([], pa.int64())}),
            "The data have no rows: the frame is empty. Give one with rows; there is nothing to score.",
        ),
        (pa.table([[1], [2]], names=["x", "x"]), "The frame has two columns of the name 'x'. Rename one of them."),
        (
            pd.DataFrame([[1, 2, 3]], columns=["y", "x", "x"]),
            "The frame has two columns of the name 'x'. Rename one of them.",
        ),
        (
            pl.DataFrame({"x": [1], "y": pl.Series([1], dtype=pl.Int128)}),
            "The column 'y' of the frame, of type Int128, cannot be taken as an Arrow column: Invalid or unsupported "
            "format string: '_pli128'. Cast it to a type that Arrow has, or leave it out of the frame.",
        ),
        (
            pd.DataFrame({"x": [1], "y": [1j]}),
            "The column 'y' of the frame, of type complex128, cannot be taken as an Arrow column: Unsupported numpy "
            "type 15. Cast it to a type that Arrow has, or leave it out of the frame.",
        ),
        (
            pd.DataFrame({"x": pd.Series(["a", 1], dtype=object)}),
            "The column 'x' of the frame, of type object, cannot be taken as an Arrow column: Expected bytes, got a "
            "'int' object. Give all its values one type that Arrow has.",
        ),
        (
            pd.DataFrame({"x": [2**70, 1]}),
            "The column 'x' of the frame, of type object, cannot be taken as an Arrow column: Python int too large to "
            "convert to C long. Give all its values one type that Arrow has.",
        ),
        (
            pl.Series([1]),
            "A Series cannot be taken as an Arrow table: Cannot import schema: ArrowSchema describes non-struct type "
            "int64. Give a pandas, polars or Arrow table, or a path to files.",
        ),
    ],
)
def test_frames_that_are_refused(frame: Any, message: str) -> None:  # Any: whatever is given
    with pytest.raises(DataError) as caught:
        FrameSource(frame)
    assert str(caught.value) == message
