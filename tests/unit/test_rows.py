"""Rows: the filter, labels, weights, clusters, and a sentence naming the row for each bad value."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import DataError
from assay.hashing import hash_values, row_hash, with_seed
from assay.records import Chunk, OwnMetric, Rows, SliceTable, Task
from assay.rows import RowReader
from assay.slices import SliceEncoder, fit
from assay.spec.model import DataSpec

TABLE = pa.table(
    {
        "y": pa.array([1, 0, None, 1], pa.int8()),
        "w": [1.0, 0.5, 2.0, None],
        "user": ["u1", "u2", None, "u1"],
        "country": ["US", "DE", None, "FR"],
        "score": [0.1, 0.2, 0.3, 0.4],
    }
)
CHUNK = Chunk("a.parquet", 100, TABLE)
MAIN = Task("main", "y", "binary", None, ("auc",))


def reader(data: dict[str, Any], *tasks: Task, table: pa.Table = TABLE, exponent: int = 0) -> RowReader:
    # Any: as in a spec file
    spec = DataSpec.model_validate({"label": "y", **data})
    slices: SliceTable = fit(spec, table)
    return RowReader(table.schema, spec, tasks or (MAIN,), SliceEncoder(slices), exponent, 7, ["score"])


def read(data: dict[str, Any], *tasks: Task, **columns: Any) -> Rows:  # Any: as in a spec file, and values
    table = TABLE
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    return reader(data, *tasks, table=table)(Chunk("a.parquet", 100, table))


def refusal(data: dict[str, Any], *tasks: Task, **columns: Any) -> str:  # Any: as in a spec file, and values
    with pytest.raises(DataError) as caught:
        read(data, *tasks, **columns)
    return str(caught.value)


def test_a_plain_chunk() -> None:
    rows = read({})
    assert (rows.path, rows.num_read, rows.first_row) == ("a.parquet", 4, 100)
    assert rows.positions.tolist() == [100, 101, 102, 103]
    assert rows.table.to_pydict() == {"score": [0.1, 0.2, 0.3, 0.4]}
    np.testing.assert_array_equal(rows.tasks["main"].label, [1.0, 0.0, np.nan, 1.0])
    assert rows.tasks["main"].member.all()
    assert rows.weight.tolist() == [1, 1, 1, 1]
    assert rows.slices.tolist() == [[0, 0, 0, 0]]
    assert rows.row_hash.tolist() == row_hash("a.parquet", np.arange(100, 104)).tolist()


def test_dtypes_are_the_records() -> None:
    rows = read({"weight": "y", "cluster": "user", "slices": ["country"], "where": "score > 0.1"})
    found = [rows.positions, rows.tasks["main"].label, rows.tasks["main"].member, rows.weight, rows.slices,
             rows.cluster, rows.null_cluster, rows.row_hash]  # fmt: skip
    assert [one.dtype.str[1:] for one in found] == ["i8", "f8", "b1", "i8", "i4", "u8", "b1", "u8"]


def test_only_the_columns_in_a_role_are_read() -> None:
    assert reader({}).columns == ("y", "score")
    assert reader({"weight": "w * 2", "cluster": "user", "slices": ["country"]}).columns == tuple(TABLE.column_names)


def test_the_filter_keeps_rows_where_it_is_true() -> None:
    rows = read({"where": "country <> 'DE'", "slices": ["country"], "cluster": "user", "weight": "score"})
    assert rows.num_read == 4
    assert rows.positions.tolist() == [100, 103]  # neither false nor null
    assert rows.table.to_pydict() == {"score": [0.1, 0.4]}
    assert rows.slices.shape == (2, 2)
    assert {len(one) for one in (rows.weight, rows.cluster, rows.null_cluster, rows.row_hash)} == {2}


def test_a_filter_that_is_null_alone_drops_every_row() -> None:
    nothing = read({"where": "NULL", "slices": ["country"]}, Task("main", "y", "binary", "NULL", ("auc",)))
    assert (nothing.num_read, len(nothing.positions)) == (4, 0)
    assert not read({}, Task("main", "y", "binary", "NULL", ("auc",))).tasks["main"].member.any()


def test_a_filter_may_leave_no_row() -> None:
    rows = read({"where": "score > 9", "weight": "w", "slices": ["country", {"p": {"of": "score", "edges": [1]}}]})
    assert (rows.num_read, len(rows.positions), rows.slices.shape) == (4, 0, (3, 0))


def test_tasks_have_their_own_label_and_filter() -> None:
    click = Task("click", "y = 1", "binary", "country IS NOT NULL", ("auc",))
    spend = Task("spend", "score * 10", "real", None, ("rmse",))
    rows = read({}, click, spend)
    assert list(rows.tasks) == ["click", "spend"]
    assert rows.tasks["click"].member.tolist() == [True, True, False, True]
    np.testing.assert_allclose(rows.tasks["spend"].label, [1.0, 2.0, 3.0, 4.0])


def test_a_label_is_checked_only_where_its_task_takes_part() -> None:
    task = Task("t", "y", "binary", "score < 0.25", ("auc",))
    np.testing.assert_array_equal(read({}, task, y=pa.array([1, 0, 5, 7])).tasks["t"].label, [1, 0, 5, 7])


@pytest.mark.parametrize(
    "label",
    [pa.array([True, False, None, True]), pa.array([1.0, 0.0, float("nan"), 1.0]), TABLE["y"].cast(pa.float16()),
              TABLE["y"].cast(pa.decimal128(5, 2)), TABLE["y"].combine_chunks().dictionary_encode()],
)  # fmt: skip
def test_labels_of_any_number_type(label: pa.Array) -> None:
    np.testing.assert_array_equal(read({}, y=label).tasks["main"].label, [1.0, 0.0, np.nan, 1.0])


def test_weights_are_integers_in_units_of_the_plan() -> None:
    rows = reader({"weight": "w"}, exponent=-1)(CHUNK)
    assert rows.weight.tolist() == [2, 1, 4, -1]


def test_a_weight_too_small_for_a_unit_counts_as_one() -> None:
    weights = read({"weight": "w"}, w=pa.array([1e-300, 0.0, -0.0, None])).weight
    assert weights.tolist() == [1, 0, 0, -1]


def test_clusters_are_hashed_by_value_and_a_null_one_is_its_row() -> None:
    rows = read({"cluster": "user"})
    alone = with_seed(row_hash("a.parquet", np.array([102])), 7)
    expected = hash_values(TABLE["user"], 7)[0]
    assert rows.cluster.tolist() == [expected[0], expected[1], alone[0], expected[0]]
    assert rows.null_cluster.tolist() == [False, False, True, False]
    without = read({})
    assert len(set(without.cluster.tolist())) == 4
    assert not without.null_cluster.any()


def test_of_two_clusters_each_has_its_hashes_and_a_row_counts_as_null_where_either_is() -> None:
    rows = read({"cluster": ["user", "country"]})
    users, countries = (read({"cluster": name}) for name in ("user", "country"))
    assert rows.cluster.tolist() == users.cluster.tolist()
    assert rows.second_cluster is not None
    assert rows.second_cluster.tolist() == countries.cluster.tolist()
    assert rows.null_cluster.tolist() == [False, False, True, False]
    assert rows.second_cluster[2] == rows.cluster[2]  # its own, in both
    assert users.second_cluster is None
    only_second = read({"cluster": ["country", "user"]}, country=["US", None, None, "FR"])
    assert only_second.null_cluster.tolist() == [False, True, True, False]


def test_a_fault_in_one_of_two_clusters_names_it() -> None:
    assert refusal({"cluster": ["user", "contry"]}).startswith("data.cluster[1]")


def test_slices_are_found_for_each_listed_dimension() -> None:
    rows = read({"slices": ["country", {"dear": {"of": "score", "edges": [0.25]}}]})
    assert rows.slices.tolist() == [[0, 0, 0, 0], [3, 1, 4, 2], [6, 6, 7, 7]]


def test_a_chunk_in_parts_gives_the_same_rows() -> None:
    data = {"where": "score > 0.15", "cluster": "user", "slices": ["country"], "weight": "w"}
    whole = reader(data)(CHUNK)
    parts = [reader(data)(Chunk("a.parquet", 100 + start, TABLE.slice(start, 2))) for start in (0, 2)]
    for name in ("positions", "weight", "cluster", "null_cluster", "row_hash"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


def test_a_pickled_reader_reads_the_same() -> None:
    rows = pickle.loads(pickle.dumps(reader({"where": "score > 0.15"})))(CHUNK)
    assert rows.positions.tolist() == [101, 102, 103]


# ---- bad values ------------------------------------------------------------------------------------------------------


def test_a_label_that_is_not_0_or_1() -> None:
    assert refusal({"where": "score > 0.15"}, y=pa.array([1, 0, 2, 1])) == (
        "data.label: 'y' is 2 in row 102 of 'a.parquet', but the metrics of this label take 0 and 1 only. "
        'Write a condition as the label, such as "y > 0".'
    )


def test_a_label_of_a_real_task_may_be_any_number() -> None:
    task = Task("t", "y", "real", None, ("rmse",))
    assert read({}, task, y=pa.array([1, 0, 2, -1])).tasks["t"].label.tolist() == [1, 0, 2, -1]


def test_a_label_that_is_no_number() -> None:
    assert refusal({}, Task("click", "country", "binary", None, ("auc",))) == (
        "tasks.click.label: 'country' is of type string, but a label is a number or true/false. "
        "An SQL expression can make it one: \"country = 'yes'\". "
        "Where it is one of several classes, say `classes: auto`."
    )


def test_a_filter_that_is_no_condition() -> None:
    assert refusal({"where": "y"}) == "data.where is of type int8. Write a condition: true or false for each row."


def test_a_weight_that_is_no_number() -> None:
    assert refusal({"weight": "user"}) == "data.weight: 'user' is of type string, but a weight is a number, 0 or more."


@pytest.mark.parametrize(("bad", "shown"), [(-0.5, "-0.5"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_a_weight_that_is_bad(bad: float, shown: str) -> None:
    assert refusal({"weight": "w"}, w=pa.array([1.0, 1.0, bad, None])) == (
        f"data.weight: 'w' is {shown} in row 102 of 'a.parquet'. Weights are finite numbers, 0 or more."
    )


def test_a_bad_weight_in_a_row_that_is_filtered_out_does_not_matter() -> None:
    assert read({"weight": "w", "where": "w > 0"}, w=pa.array([1.0, 1.0, -1.0, None])).weight.tolist() == [1, 1]


def test_a_weight_above_the_plans_range() -> None:
    assert read({"weight": "w"}, w=pa.array([2.0**26, 0.0, 0.4, 1.0])).weight.tolist() == [2**26, 0, 1, 1]
    assert refusal({"weight": "w"}, w=pa.array([1.0, 2.0**26 + 1, 1.0, 1.0])) == (
        "data.weight: 'w' is 6.71089e+07 in row 101 of 'a.parquet'. It is above 6.71089e+07, the most that this plan "
        "can hold. Set data.weight_max to the largest weight."
    )


def test_a_value_that_cannot_be_computed_names_the_file() -> None:
    message = refusal({"weight": "CAST(country AS INTEGER)"})
    assert message.startswith(
        "In the file 'a.parquet', rows from 100: data.weight: 'CAST(country AS INTEGER)' cannot be evaluated: "
    )


# ---- classes, sets of labels, columns of metrics


def class_task(*classes: str, label: str = "country", where: str | None = None) -> Task:
    return Task("main", label, "class", where, (), classes)


def set_task(*labels: str, targets: tuple[str, ...] | None = None, where: str | None = None) -> Task:
    return Task("main", "" if targets else "country", "labels", where, (), labels, targets)


def test_a_class_is_its_number() -> None:
    label = read({}, class_task("US", "FR", "DE")).tasks["main"].label
    assert label.dtype == np.float64
    np.testing.assert_array_equal(label, [0, 2, np.nan, 1])
    by_number = read({}, class_task("1", "0", label="y")).tasks["main"].label
    np.testing.assert_array_equal(by_number, [0, 1, np.nan, 0])
    derived = read({}, class_task("false", "true", label="y = 1")).tasks["main"].label
    np.testing.assert_array_equal(derived, [1, 0, np.nan, 1])


def test_a_class_that_is_none_of_them_is_refused_where_the_row_takes_part() -> None:
    assert refusal({}, class_task("US", "FR")) == (
        "data.label: 'country' is 'DE' in row 101 of 'a.parquet', which is none of the classes 'US' and 'FR'. Add it "
        "to them, or leave such rows out with where."
    )
    rows = read({}, class_task("US", "FR", where="score <> 0.2")).tasks["main"]
    assert rows.member.tolist() == [True, False, True, True]
    np.testing.assert_array_equal(rows.label[rows.member], [0, np.nan, 1])


def test_a_class_has_a_name() -> None:
    table = TABLE.append_column("list", [[[1], [2], [3], [4]]])
    with pytest.raises(DataError) as caught:
        reader({}, class_task("1", label="list"), table=table)
    assert str(caught.value) == (
        "data.label: 'list' is of type list<item: int64>, but a class is a text, a number, true/false or a date."
    )


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_a_set_of_labels_is_a_list(kind: pa.DataType) -> None:
    rows = read({}, set_task("x", "y", "z"), country=pa.array([["z", "x"], [], None, ["y", "y"]], kind)).tasks["main"]
    assert rows.targets is not None
    assert rows.targets.dtype == np.uint8
    assert rows.targets[:, [0, 1, 3]].tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    np.testing.assert_array_equal(rows.label, [0, 0, np.nan, 0])


def test_a_set_of_numbers_and_one_of_an_expression() -> None:
    rows = read({}, set_task("7", "8"), country=pa.array([[7], [8, 7], [], None])).tasks["main"]
    assert rows.targets is not None
    assert rows.targets.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0]]
    split = Task("main", "string_split(user, 'u')", "labels", None, (), ("", "1", "2"))
    found = read({}, split).tasks["main"]
    assert found.targets is not None
    assert found.targets[:, :2].tolist() == [[1, 1], [1, 0], [0, 1]]
    np.testing.assert_array_equal(found.label, [0, 0, np.nan, 0])


def test_a_label_of_a_set_that_is_unknown_or_null_is_refused() -> None:
    lists = pa.array([["x"], ["w"], None, [None]], pa.list_(pa.string()))
    assert refusal({}, set_task("x", "y"), country=lists) == (
        "data.label: a list of 'country' holds 'w' in row 101 of 'a.parquet', which is none of the labels 'x' and 'y'. "
        "Add it to them, or leave such rows out with where."
    )
    assert refusal({}, set_task("x", "w"), country=lists) == (
        "data.label: a list of 'country' holds a null in row 103 of 'a.parquet'. Take it out; the list of a row "
        "without labels is empty, and a list that is not known is null as a whole."
    )
    rows = read({}, set_task("x", where="score < 0.2"), country=lists).tasks["main"]
    assert rows.member.tolist() == [True, False, False, False]
    with pytest.raises(DataError) as caught:
        reader({}, set_task("x"))
    assert str(caught.value) == (
        "data.label: 'country' is of type string, but a set of labels is a list of text or numbers; or give labels: "
        "{name: 0/1 column}."
    )


def test_a_set_of_labels_is_a_column_of_0_and_1_for_each() -> None:
    rows = read({}, set_task("pos", "high", targets=("y", "score > 0.3"))).tasks["main"]
    assert rows.targets is not None
    assert rows.targets[:, [0, 1, 3]].tolist() == [[1, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(rows.label, [0, 0, np.nan, 0])  # one of them is null in the third row
    assert reader({}, set_task("pos", targets=("y",))).columns == ("y", "score")


def test_a_column_of_a_label_holds_0_and_1_only() -> None:
    assert refusal({}, set_task("half", targets=("w",))) == (
        "data.labels.half: 'w' is 0.5 in row 101 of 'a.parquet', but the column of a label holds 0 and 1 only. Write a "
        'condition, such as "w > 0".'
    )
    assert refusal({}, Task("tags", "", "labels", None, (), ("c",), ("country",))) == (
        "tasks.tags.labels.c: 'country' is of type string, but a label is a number or true/false."
    )


def own(*columns: str) -> Task:
    metric = OwnMetric("gain", "m:f", "higher", columns, {}, "digest")
    return Task("main", "y", "real", None, ("gain",), own=(metric,))


def test_columns_of_metrics_are_numbers_with_nan_for_null() -> None:
    rows = read({}, own("w", "score * 2"))
    assert list(rows.tasks["main"].columns) == ["w", "score * 2"]
    np.testing.assert_array_equal(rows.tasks["main"].columns["w"], [1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(rows.tasks["main"].columns["score * 2"], [0.2, 0.4, 0.6, 0.8])
    assert reader({}, own("w")).columns == ("y", "w", "score")
    with pytest.raises(DataError) as caught:
        reader({}, own("country"))
    assert str(caught.value) == (
        "metrics.columns (country): 'country' is of type string, but a metric of your own reads numbers."
    )
