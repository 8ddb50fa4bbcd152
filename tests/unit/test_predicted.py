"""What variants gave, from a worker to the join: nothing is lost, types are kept, equal outputs are equal bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import RunError
from assay.predicted import (
    Capture,
    Key,
    Span,
    as_output,
    contents,
    digest,
    encode,
    key,
    key_of,
    misfits,
    read_span,
    widest,
)
from assay.records import Predicted, Task
from assay.spec.model import ScoreType

CLASSES = Task("kind", "", "class", None, (), ("cat", "dog"))


def position(*rows: int) -> np.ndarray:
    return np.array(rows, np.int64)


def unit(name: str, *rows: int, kind: pa.DataType | None = None) -> Predicted:
    column = pa.array([row / 2 for row in rows], kind or pa.float32())
    return Predicted(name, pa.table({"position": pa.array(rows, pa.int64()), key("new", "main"): column}))


def test_a_unit_is_gathered_chunk_by_chunk() -> None:
    capture = Capture("u1")
    capture.begin(position(0, 2))
    capture.add("new", "main", pa.array([0.5, None], pa.float32()))
    capture.begin(position(7))
    capture.add("new", "main", pa.array([0.25], pa.float32()))
    found = capture.whole()
    assert found.unit == "u1"
    assert found.table.to_pydict() == {"position": [0, 2, 7], key("new", "main"): [0.5, None, 0.25]}
    assert found.table.schema.field(key("new", "main")).type == pa.float32()


def test_what_a_failed_variant_gave_before_is_left_out() -> None:
    capture = Capture("u1")
    capture.begin(position(0))
    for name in ("new", "bad"):
        capture.add(name, "main", pa.array([0.5]))
    assert capture.whole(failed=["bad"]).table.schema.names == ["position", key("new", "main")]


def test_chunks_that_a_variant_gave_nothing_for_are_null() -> None:
    capture = Capture("u1")
    capture.begin(position(0))
    capture.begin(position(1))
    capture.add("new", "main", pa.array([0.5]))
    assert capture.whole().table[key("new", "main")].to_pylist() == [None, 0.5]


def test_a_unit_without_rows() -> None:
    assert Capture("u1").whole().table.num_rows == 0


def test_scores_keep_their_type_and_missing_ones_are_null() -> None:
    found = as_output(np.array([0.5, np.nan, np.inf], np.float32), "score", None)
    assert (found.type, found.to_pylist()) == (pa.float32(), [0.5, None, None])


def test_a_score_for_each_class_is_a_list_and_null_where_one_is_missing() -> None:
    found = as_output(np.array([[0.25, 0.75], [np.nan, 1.0]]), "probability", CLASSES)
    assert (found.type, found.to_pylist()) == (pa.list_(pa.float64(), 2), [[0.25, 0.75], None])


def test_a_predicted_class_is_its_name() -> None:
    assert as_output(np.array([1.0, np.nan, 0.0]), "label", CLASSES).to_pylist() == ["dog", None, "cat"]


def test_a_score_in_a_chosen_type() -> None:
    found = as_output(np.array([0.5, np.nan, np.inf]), "score", None, "float32")
    assert (found.type, found.to_pylist()) == (pa.float32(), [0.5, None, None])
    found = as_output(np.array([3.0, np.nan, -4.0]), "score", None, "int8")
    assert (found.type, found.to_pylist()) == (pa.int8(), [3, None, -4])
    found = as_output(np.array([[0.25, 0.75], [np.nan, 1.0]]), "probability", CLASSES, "float32")
    assert (found.type, found.to_pylist()) == (pa.list_(pa.float32(), 2), [[0.25, 0.75], None])


@pytest.mark.parametrize(
    ("scores", "chosen", "wrong"),
    [
        ([1.0, 0.5], "int32", [False, True]),
        ([127.0, 128.0], "int8", [False, True]),
        ([-128.0, -129.0], "int8", [False, True]),
        ([0.0, -1.0], "uint64", [False, True]),
        ([2.0**62, 2.0**63], "int64", [False, True]),
        ([2.0**63, 2.0**64], "uint64", [False, True]),
        ([np.nan, np.inf], "int8", [False, False]),
        ([[1.0, 2.0], [3.0, 0.5], [np.nan, 0.5]], "int8", [[False, False], [False, True], [False, False]]),
        ([0.5, 1e300, np.inf], "float32", [False, True, False]),
        ([0.5, 1e300], "float64", [False, False]),
    ],
)
def test_numbers_that_a_chosen_type_cannot_hold(scores: list[Any], chosen: ScoreType, wrong: list[Any]) -> None:
    assert misfits(np.array(scores), chosen).tolist() == wrong


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([pa.float32(), pa.float32()], pa.float32()),
        ([pa.float32(), pa.float64()], pa.float64()),
        ([pa.null(), pa.float32()], pa.float32()),
        ([pa.list_(pa.float64(), 2), pa.list_(pa.float32(), 2)], pa.list_(pa.float64(), 2)),
    ],
)
def test_one_type_for_all_units(types: list[pa.DataType], expected: pa.DataType) -> None:
    assert widest(types) == expected


def test_types_that_none_holds() -> None:
    with pytest.raises(RunError, match=re.escape("A variant gave outputs of type float and of type string; give all")):
        widest([pa.float32(), pa.string()])


def test_names_are_whole_whatever_a_variant_is_called() -> None:
    assert key_of(key('a.b"|,', "main")) == Key('a.b"|,', "main")


def test_an_object_tells_where_each_unit_lies() -> None:
    data = encode([unit("u2", 4, 5), unit("u1", *range(70_000)), unit("u3")])
    found = contents(pa.py_buffer(data), "it")
    assert found.spans == (Span("u1", 0, 2, 70_000), Span("u2", 2, 1, 2), Span("u3", 3, 0, 0))
    read = read_span(pa.py_buffer(data), found.spans[1], found.schema, "it")
    assert read.to_pydict() == {"position": [4, 5], key("new", "main"): [2.0, 2.5]}
    assert read_span(pa.py_buffer(data), found.spans[2], found.schema, "it").num_rows == 0


def test_equal_outputs_are_equal_bytes_in_any_order() -> None:
    first, second = unit("u1", 1), unit("u2", 2)
    assert encode([first, second]) == encode([second, first])
    assert digest(encode([first])) != digest(encode([second]))


def test_units_of_two_types_and_of_fewer_columns_lie_together() -> None:
    bare = Predicted("u3", pa.table({"position": pa.array([9], pa.int64())}))
    data = encode([unit("u1", 1), unit("u2", 3, kind=pa.float64()), bare])
    found = contents(pa.py_buffer(data), "it")
    assert found.schema.field(key("new", "main")).type == pa.float64()
    rows = [read_span(pa.py_buffer(data), span, found.schema, "it").to_pylist() for span in found.spans]
    assert rows == [
        [{"position": 1, key("new", "main"): 0.5}],
        [{"position": 3, key("new", "main"): 1.5}],
        [{"position": 9, key("new", "main"): None}],
    ]


def test_a_torn_object_is_refused() -> None:
    with pytest.raises(RunError, match=re.escape("outputs/x.arrow is torn or holds no outputs (")):
        contents(pa.py_buffer(encode([unit("u1", 1)])[:-20]), "outputs/x.arrow")
