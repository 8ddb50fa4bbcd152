"""What calls gave for a chunk, and rows on which they raised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, read_rows

from assay.errors import ModelError
from assay.records import Chunk, Task
from assay.returned import Given, as_kept, whole
from assay.spec.model import OutputKind
from assay.task_scores import Layout

CLASSES = ("u", "v", "w")


def layout(kind: OutputKind, *classes: str) -> Layout:
    task = Task("main", "y", "class" if classes else "real", None, (), classes)
    return Layout({("main", "m"): kind, ("main", "other"): kind}, {"main": ()}, SIZES, None, tasks={"main": task})


def test_parts_stand_in_their_order_and_reasons_by_row() -> None:
    given = whole("m", layout("score"), {}, [{"main": np.array([1, 2], np.float32)}, "no", {"main": np.ones(1)}, "nor"])
    assert given.scores["main"].dtype == np.float64
    assert np.array_equal(given.scores["main"], [1, 2, np.nan, 1, np.nan], equal_nan=True)
    assert given.reasons == {2: "no", 4: "nor"}


@pytest.mark.parametrize(
    ("kind", "classes", "shape"),
    [
        ("score", (), (2,)),
        ("probability", CLASSES, (2, 3)),
        ("label", CLASSES, (2,)),
        ("interval", (), (2, 2)),
    ],
)
def test_where_no_call_gave_anything(kind: OutputKind, classes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    scores = whole("m", layout(kind, *classes), {}, ["no", "no"]).scores["main"]
    assert (scores.shape, scores.dtype) == (shape, np.float32)
    assert np.isnan(scores).all()


def test_where_no_call_gave_anything_to_one_without_a_score() -> None:
    assert whole("m", layout("none", *CLASSES), {}, ["no"]).scores["main"].shape == (1,)


def test_what_is_kept_of_a_chunk() -> None:
    """A score in the type that is chosen, and reasons by row: of calls, and of scores that the type cannot hold."""
    rows = read_rows(Chunk("a.parquet", 10, pa.table({"x": np.zeros(4)})))
    given = Given({"main": np.array([1.0, 0.5, np.nan, 3.0])}, {"word": pa.array(["a", "b", "c", None])}, {2: "no"})
    kept = as_kept("m", given, rows, layout("score"), {("m", "main"): "int8"}, tolerant=True)
    assert kept["main"].equals(pa.array([1, None, None, 3], pa.int8()))
    assert kept["word"] is given.more["word"]
    said = "the score 0.5 is none that int8 can hold (predictions.types)."
    assert kept[""].to_pylist() == [None, said, "no", None]
    with pytest.raises(ModelError, match=r"the score 0.5 is none .* In the data that is row 11 of a.parquet\.$"):
        as_kept("m", given, rows, layout("score"), {("m", "main"): "int8"}, tolerant=False)


def test_one_without_a_score_keeps_none() -> None:
    rows = read_rows(Chunk("a.parquet", 0, pa.table({"x": np.zeros(1)})))
    given = Given({"main": np.ones(1)}, {"word": pa.array(["a"])}, {})
    assert list(as_kept("m", given, rows, layout("none"), {}, tolerant=False)) == ["word"]


def test_without_rows_there_is_no_score_and_no_other_output() -> None:
    given = whole("m", layout("score"), {"v": pa.string()}, [])
    assert given.scores["main"].shape == (0,)
    assert (given.more, given.reasons) == ({}, {})


def test_other_outputs_are_null_where_a_call_raised() -> None:
    one, row = np.ones(1), pa.array([[1, 2, 3]], pa.list_(pa.float32(), 3))
    found = whole("m", layout("score"), {"v": pa.list_(pa.float32(), 1)}, ["no", {"main": one, "v": row}]).more["v"]
    assert found.type == pa.list_(pa.float32(), 3)
    assert found.to_pylist() == [None, [1, 2, 3]]
    assert whole("m", layout("score"), {"v": pa.string()}, ["no"]).more["v"].equals(pa.nulls(1, pa.string()))
