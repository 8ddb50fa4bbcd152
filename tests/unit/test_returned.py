"""What calls gave for a chunk, and rows on which they raised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES

from assay.records import Task
from assay.returned import whole
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
