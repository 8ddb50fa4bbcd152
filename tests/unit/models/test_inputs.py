from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import ModelError
from assay.models.inputs import Argument, InputReader, feature_columns, input_reader, positional_columns, rows_of
from assay.spec.model import Inputs, Receive, VariantSpec

TABLE = pa.table(
    {
        "age": pa.array([30, 40], pa.int32()),
        "price": pa.array([1.5, None], pa.float32()),
        "city": pa.array(["x", None]).dictionary_encode(),
        "sure": [True, False],
        "when": pa.array([datetime.date(2024, 1, 2), None]),
        "money": pa.array([1, 2], pa.decimal128(5, 2)),
        "vector": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        "gaps": pa.array([1, None]),
    }
)


def reader(inputs: Inputs, receive: Receive | None = None, tensors: bool = False) -> InputReader:
    return input_reader(VariantSpec(name="v", callable="m:f", inputs=inputs, receive=receive), tensors)


# ---- forms


def test_a_mapping_is_received_as_arguments_and_a_list_as_a_matrix() -> None:
    assert reader({"a": "age"}).receive == "arguments"
    assert reader(("age",)).receive == "matrix"


def test_an_argument_of_one_column_keeps_its_own_type() -> None:
    one = reader({"a": "age", "p": "price", "c": "city", "s": "sure", "w": "when", "m": "money", "v": "vector"})
    received = one.read(TABLE)
    assert {name: array.dtype for name, array in received.items()} == {
        "a": np.int32,
        "p": np.float32,
        "c": np.dtype(object),
        "s": np.bool_,
        "w": np.dtype("datetime64[D]"),
        "m": np.float64,
        "v": np.float32,
    }
    np.testing.assert_array_equal(received["a"], [30, 40])
    np.testing.assert_array_equal(received["p"], [1.5, np.nan])
    assert received["c"].tolist() == ["x", None]
    assert received["s"].tolist() == [True, False]
    assert received["w"][0] == np.datetime64("2024-01-02")
    assert np.isnat(received["w"][1])
    assert received["m"].tolist() == [1.0, 2.0]
    assert received["v"].tolist() == [[1, 2], [3, 4]]


def test_tensors_of_one_shape_keep_it() -> None:
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(images)
    table = pa.table({"image": pa.chunked_array([column, column.slice(1, 1)])})
    tensors = InputReader("v", (Argument("x", ("image",), single=True),), "arguments", tensors=True)
    tensors.check(table.schema)
    np.testing.assert_array_equal(tensors.read(table)["x"], np.concatenate([images, images[1:2]]))


def test_an_argument_of_several_columns_is_a_float_matrix() -> None:
    received = reader({"dense": ("age", "gaps", "sure"), "one": ("age",)}).read(TABLE)
    assert received["dense"].dtype == np.float64
    np.testing.assert_array_equal(received["dense"], [[30, 1, 1], [40, np.nan, 0]])
    assert received["one"].tolist() == [[30.0], [40.0]]


def test_a_matrix_holds_all_columns_in_the_order_of_the_inputs() -> None:
    np.testing.assert_array_equal(reader(("price", "age")).read(TABLE), [[1.5, 30], [np.nan, 40]])
    flattened = reader({"b": "price", "a": ("age", "price")}, "matrix").read(TABLE)
    np.testing.assert_array_equal(flattened, [[1.5, 30, 1.5], [np.nan, 40, np.nan]])


def test_a_list_received_by_name_is_named_by_its_columns() -> None:
    assert list(reader(("age", "city"), "dict").read(TABLE)) == ["age", "city"]
    assert list(reader(("age", "city"), "arguments").read(TABLE)) == ["age", "city"]


def test_arrow_is_a_table_by_argument_with_dictionaries_decoded() -> None:
    received = reader({"town": "city", "gaps": "gaps"}, "arrow").read(TABLE)
    assert received.equals(pa.table({"town": pa.array(["x", None]), "gaps": pa.array([1, None])}))


def test_pandas_is_a_frame_by_argument_with_plain_categories() -> None:
    received = reader({"town": "city", "age": "age", "sure": "sure", "price": "price"}, "pandas").read(TABLE)
    assert list(received.columns) == ["town", "age", "sure", "price"]
    assert received["town"].tolist()[0] == "x"
    assert received["town"].dtype != "category"
    assert [received[name].dtype for name in ("age", "sure", "price")] == [np.int32, np.bool_, np.float32]


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([True, None])])
def test_a_null_in_an_integer_of_a_frame_is_refused(column: pa.Array) -> None:
    with pytest.raises(ModelError) as caught:
        reader({"a": "gaps"}, "pandas").read(pa.table({"gaps": column}))
    assert str(caught.value) == (
        f"Variant 'v': input 'a' is of type {column.type} and has nulls (1 in this batch), which it cannot hold; say "
        "receive: matrix for floats with NaN, or receive: arrow."
    )


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.bool_()])
def test_floats_for_integers_do_not_depend_on_the_batch(kind: pa.DataType) -> None:
    one = InputReader("v", (Argument("a", ("a",), True),), "pandas", floats=True)
    whole = pa.table({"a": pa.array([1, 0, None]).cast(kind)})
    frames = [one.read(table) for table in (whole, whole.slice(0, 2), whole.slice(2))]
    assert [frame["a"].dtype for frame in frames] == [np.float64] * 3
    np.testing.assert_array_equal(frames[0]["a"], [1.0, 0.0, np.nan])


def test_an_integer_that_a_float_cannot_hold_is_refused() -> None:
    one = InputReader("v", (Argument("a", ("a",), True),), "pandas", floats=True)
    with pytest.raises(pa.ArrowInvalid, match=r"^Integer value 9007199254740993 not in range"):
        one.read(pa.table({"a": [2**53 + 1]}))


def test_dictionaries_are_read_by_value_whatever_their_codes() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1]), ["x", "y"])
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1]), ["y", "x"])
    table = pa.table({"city": pa.chunked_array([first, second])})
    assert reader({"c": "city"}).read(table)["c"].tolist() == ["x", "y", "y", "x"]


def test_a_slice_of_a_table_gives_its_own_rows() -> None:
    received = reader({"v": "vector", "a": "age"}).read(TABLE.slice(1))
    assert received["v"].tolist() == [[3, 4]]
    assert received["a"].tolist() == [40]


def test_no_rows_keep_shapes_and_types() -> None:
    received = reader({"v": "vector", "d": ("age", "price")}).read(TABLE.slice(2))
    assert received["v"].shape == (0, 2)
    assert received["d"].shape == (0, 2)


def test_columns_are_named_once_in_order() -> None:
    assert reader({"a": "age", "d": ("price", "age")}).columns == ("age", "price")


def test_nulls_in_an_integer_argument_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        reader({"a": "gaps"}).read(TABLE)
    assert str(caught.value) == (
        "Variant 'v': input 'a' is of type int64 and has nulls (1 in this batch), which it cannot hold; write "
        "inputs: {a: [column]} to receive floats with NaN, as a matrix [n, 1] whose vector is a[:, 0], or receive: "
        "arrow."
    )


def test_nulls_among_arrays_cannot_be_a_matrix_either() -> None:
    pairs = pa.array([[1, 2], None], pa.list_(pa.int16(), 2))
    with pytest.raises(ModelError) as caught:
        reader({"a": "pair"}).read(pa.table({"pair": pairs}))
    assert str(caught.value) == (
        "Variant 'v': input 'a' is of type fixed_size_list<item: int16>[2] and has nulls (1 in this batch), which it "
        "cannot hold; say receive: arrow."
    )


# ---- what the spec may ask for


def test_inputs_are_needed() -> None:
    for inputs in (None, ()):
        with pytest.raises(ModelError) as caught:
            input_reader(VariantSpec(name="v", callable="m:f", inputs=inputs))
        assert str(caught.value) == (
            "Variant 'v': the spec does not say what the model reads; write inputs: [column, ...] or inputs: "
            "{argument: column}."
        )


def test_a_column_is_listed_once() -> None:
    with pytest.raises(ModelError, match=r"^Variant 'v': inputs name column 'age' twice\.$"):
        reader(("age", "price", "age"))


def test_a_frame_has_one_column_a_name() -> None:
    with pytest.raises(ModelError) as caught:
        reader({"dense": ("age", "price")}, "pandas")
    assert str(caught.value) == (
        "Variant 'v': inputs give 'dense' several columns, which receive: pandas cannot do; give each column a name of "
        "its own."
    )


# ---- the data's schema


def test_all_forms_take_what_they_can() -> None:
    reader({"c": "city", "w": "when", "v": "vector", "d": ("age", "money", "sure")}).check(TABLE.schema)
    reader(("city", "when"), "pandas").check(TABLE.schema)
    reader({"a": "age", "v": "vector"}, tensors=True).check(TABLE.schema)
    reader({"c": "city"}, "arrow", tensors=True).check(TABLE.schema)


def test_a_missing_column_offers_the_nearest() -> None:
    with pytest.raises(ModelError) as caught:
        reader({"p": "prize", "x": "zzz"}).check(TABLE.schema)
    assert str(caught.value) == (
        "Variant 'v': the model wants column 'prize', which the data do not have; did you mean 'price'? It also wants "
        "'zzz'."
    )


@pytest.mark.parametrize("inputs", [("age", "city"), {"dense": ("city",)}])
def test_text_cannot_go_in_a_matrix(inputs: Inputs) -> None:
    with pytest.raises(ModelError) as caught:
        reader(inputs).check(TABLE.schema)
    assert str(caught.value) == (
        "Variant 'v': column 'city' is of type dictionary<values=string, indices=int32, ordered=0>, which cannot go in "
        "a matrix of numbers; give it as an argument of its own, or say receive: arrow or receive: pandas."
    )


@pytest.mark.parametrize(("column", "kind"), [("when", "date32[day]"), ("list", "list<item: double>")])
def test_only_numbers_can_be_tensors(column: str, kind: str) -> None:
    schema = TABLE.schema.append(pa.field("list", pa.list_(pa.float64())))
    with pytest.raises(ModelError) as caught:
        reader({"a": column}, tensors=True).check(schema)
    assert str(caught.value) == (
        f"Variant 'v': column {column!r} is of type {kind}, which cannot be a tensor; say receive: arrow or receive: "
        "pandas and convert it in the model."
    )


# ---- models that recorded their features


def test_recorded_features_are_read_from_the_columns_of_their_names() -> None:
    assert feature_columns("v", ["b", "a"], None) == ("b", "a")
    assert feature_columns("v", ["b", "a"], ("a", "b")) == ("b", "a")
    assert feature_columns("v", ["b", "a"], {"a": "column_a"}) == ("b", "column_a")


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            {"aeg": "age"},
            "inputs name 'aeg', which is no feature of the model; did you mean 'age'? To read a feature from a column "
            "of another name, write inputs: {feature: column}.",
        ),
        (("age",), "inputs leave out 'price', which the model was trained on."),
        ({"age": ("a", "b")}, "inputs give feature 'age' several columns; expected one."),
    ],
)
def test_inputs_that_do_not_fit_the_features_are_refused(inputs: Inputs, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        feature_columns("v", ["age", "price"], inputs)
    assert str(caught.value) == f"Variant 'v': {sentence}"


def test_a_model_without_names_needs_as_many_inputs_as_it_was_trained_on() -> None:
    assert positional_columns("v", 2, ("b", "a")) == ("b", "a")
    with pytest.raises(
        ModelError, match=r"^Variant 'v': inputs give 1 of the 2 columns that the model was trained on\.$"
    ):
        positional_columns("v", 2, ("b",))
    with pytest.raises(ModelError) as caught:
        positional_columns("v", 2, None)
    assert str(caught.value) == (
        "Variant 'v': the model was trained without column names; write inputs: [column, ...], in the order of its "
        "training."
    )


@pytest.mark.parametrize("receive", ["arguments", "matrix", "pandas"])
def test_who_gets_rows_may_change_them(receive: str) -> None:
    table = pa.table({"age": [1.0, 2.0, 3.0]})
    prepared = input_reader(VariantSpec(name="v", callable="m:f", inputs={"age": "age"}, receive=receive)).read(table)

    own = rows_of(prepared, slice(1, 3))
    array = own if receive == "matrix" else own["age"]
    array[:] = 0.0

    again = rows_of(prepared, slice(1, 3))
    assert np.asarray(again if receive == "matrix" else again["age"]).ravel().tolist() == [2.0, 3.0]
