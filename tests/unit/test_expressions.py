"""Expressions: columns, SQL, the columns they need, and a sentence for each fault."""

from __future__ import annotations

import datetime
import pickle

import pyarrow as pa
import pytest

from assay.errors import DataError
from assay.expressions import Expressions

TABLE = pa.table(
    {
        "clicked": pa.array([1, 0, None], pa.int8()),
        "price": pa.array([5.0, 20.0, 30.0], pa.float32()),
        "Surface": pa.array(["home", "search", None]).dictionary_encode(),
        "ts": pa.array([0, 86_400_000_000, 90_000_000_000], pa.timestamp("us")),
        "user id": pa.array([7, 8, 9]),
        "tags": pa.array([[1, 2], [], None]),
    }
)
ONE_VALUE = "Write an expression that gives one value for each row, from this row's columns alone."


def evaluate(text: str) -> list[object]:
    return list(Expressions(TABLE.schema, {"data.label": text}).evaluate(TABLE)["data.label"].to_pylist())


@pytest.mark.parametrize(
    ("text", "values", "columns"),
    [
        ("clicked", [1, 0, None], ("clicked",)),
        ("user id", [7, 8, 9], ("user id",)),  # a column's own name is no SQL
        ("clicked = 1 AND price < 40", [True, False, None], ("clicked", "price")),
        ("SURFACE", ["home", "search", None], ("Surface",)),
        ("upper(surface) -- as shown", ["HOME", "SEARCH", None], ("Surface",)),
        ('"user id" % 2', [1, 0, 1], ("user id",)),
        ("list_transform(tags, lambda x: x + clicked)", [[2, 3], [], None], ("clicked", "tags")),
        ("42", [42, 42, 42], ()),
    ],
)
def test_a_text_is_a_column_or_an_expression(text: str, values: list[object], columns: tuple[str, ...]) -> None:
    assert evaluate(text) == values
    assert Expressions(TABLE.schema, {"data.label": text}).columns == columns


def test_the_time_zone_is_utc() -> None:
    assert evaluate("date_trunc('day', ts)")[2] == datetime.datetime(1970, 1, 2)
    assert evaluate("hour(CAST(ts AS TIMESTAMPTZ))") == [0, 0, 1]


def test_all_labels_are_evaluated_at_once_in_their_order_and_keep_a_columns_type() -> None:
    expressions = Expressions(TABLE.schema, {"b": "price * 2", "a": "Surface", "c": "price"})
    assert expressions.evaluate(TABLE).column_names == ["b", "a", "c"]
    assert expressions.types["a"] == pa.dictionary(pa.int32(), pa.string())
    assert expressions.types["c"] == pa.float32()
    assert expressions.columns == ("price", "Surface")


def test_only_the_needed_columns_must_be_in_the_table() -> None:
    expressions = Expressions(TABLE.schema, {"a": "price > 10"})
    assert expressions.evaluate(TABLE.select(["price"])).to_pydict() == {"a": [False, True, True]}


def test_rows_keep_their_order_over_many_chunks() -> None:
    table = pa.concat_tables([pa.table({"x": pa.array(range(k, k + 50_000))}) for k in range(0, 500_000, 50_000)])
    assert Expressions(table.schema, {"y": "x + 1"}).evaluate(table)["y"].to_numpy().tolist() == list(range(1, 500_001))


def test_half_precision_is_read_as_single() -> None:
    table = pa.table({"x": pa.array([0.5], pa.float16())})
    assert Expressions(table.schema, {"y": "x + 1"}).evaluate(table).to_pydict() == {"y": [1.5]}


def test_pickling_opens_it_anew() -> None:
    expressions = pickle.loads(pickle.dumps(Expressions(TABLE.schema, {"a": "price > 10"})))
    assert expressions.evaluate(TABLE)["a"].to_pylist() == [False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clickd", "there is no column 'clickd' in the data; did you mean 'clicked'?"),
        ("pric > 3", "there is no column 'pric' in the data; did you mean 'price'?"),
        (
            "price +",
            "'price +' is neither a column nor an SQL expression: syntax error at or near \"+\".",
        ),
        ("", "'' is neither a column nor an SQL expression: SELECT clause without selection list."),
        ("price, clicked", f"'price, clicked' is not a single SQL expression. {ONE_VALUE}"),
        ("price AS p", f"'price AS p' is not a single SQL expression. {ONE_VALUE}"),
        ("price FROM other", f"'price FROM other' is not a single SQL expression. {ONE_VALUE}"),
        ("price; SELECT 1", f"'price; SELECT 1' is not a single SQL expression. {ONE_VALUE}"),
        ("sum(price)", f"'sum(price)' uses sum, which spans rows. {ONE_VALUE}"),
        ("geomean(price)", f"'geomean(price)' does not give one value for each row. {ONE_VALUE}"),
        ("unnest(tags)", f"'unnest(tags)' uses unnest, which spans rows. {ONE_VALUE}"),
        ("row_number() OVER ()", f"'row_number() OVER ()' has a window function, which is not allowed. {ONE_VALUE}"),
        ("(SELECT 1)", f"'(SELECT 1)' has a subquery, which is not allowed. {ONE_VALUE}"),
        ("*", f"'*' has a star, which is not allowed. {ONE_VALUE}"),
        ("#1 > 3", f"'#1 > 3' has a position, which is not allowed. {ONE_VALUE}"),
        ("?", f"'?' has a parameter, which is not allowed. {ONE_VALUE}"),
        ("Surface + 1", "'Surface + 1' cannot be evaluated: No function matches the given name and argument types "
         "'+(VARCHAR, INTEGER_LITERAL)'. You might need to add explicit type casts."),
        ("nothing(price)", "'nothing(price)' cannot be evaluated: Scalar Function with name nothing does not exist."),
    ],
)  # fmt: skip
def test_a_wrong_text_is_refused_with_its_label(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        Expressions(TABLE.schema, {"data.label": "clicked", "data.where": text})
    assert str(caught.value) == f"data.where: {message}"


@pytest.mark.parametrize(
    ("text", "name"),
    [("random() < 0.5", "random"), ("now()", "now"), ("current_date", "current_date"), ("age(ts)", "age"),
     ("ts > CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"), ("uuid()", "uuid"), ("ago(INTERVAL 1 DAY)", "ago")],
)  # fmt: skip
def test_chance_and_the_present_are_refused(text: str, name: str) -> None:
    with pytest.raises(DataError) as caught:
        Expressions(TABLE.schema, {"data.where": text})
    assert str(caught.value) == (
        f"data.where: {text!r} uses {name}, which gives another value at another time. {ONE_VALUE} "
        "The result must be the same when it is computed again."
    )


def test_files_cannot_be_read() -> None:
    with pytest.raises(DataError, match=r"^data\.where: \"getenv\('HOME'\)\" cannot be evaluated: "):
        Expressions(TABLE.schema, {"data.where": "getenv('HOME')"})
    with pytest.raises(DataError, match="is not a single SQL expression"):
        Expressions(TABLE.schema, {"data.where": "content FROM read_text('/etc/passwd')"})


def test_a_failing_value_names_the_text_at_fault() -> None:
    expressions = Expressions(TABLE.schema, {"data.label": "price > 1", "data.weight": "CAST(Surface AS INTEGER)"})
    with pytest.raises(DataError) as caught:
        expressions.evaluate(TABLE)
    assert str(caught.value).startswith(
        "data.weight: 'CAST(Surface AS INTEGER)' cannot be evaluated: Could not convert string 'home' to INT32"
    )


def test_columns_that_are_not_needed_may_be_of_any_type() -> None:
    table = pa.table(
        {"ids": pa.ListArray.from_arrays([0, 0, 1], pa.array([bytes(16)], pa.uuid())), "price": [1.0, 30.0]}
    )
    found = Expressions(table.schema, {"data.label": "price > 10", "data.weight": "price"})
    assert found.columns == ("price",)
    assert found.evaluate(table)["data.label"].to_pylist() == [False, True]


@pytest.mark.parametrize("words", [pa.timestamp("ms"), pa.duration("ns"), pa.string_view(), pa.null()])
def test_dictionaries_of_any_words_may_be_the_first_column(words: pa.DataType) -> None:
    """Which stands for all where no column is needed."""
    schema = pa.schema({"code": pa.dictionary(pa.int8(), words)})
    assert Expressions(schema, {}).columns == ()
    assert Expressions(schema, {"x": "1 = 1"}).types == {"x": pa.bool_()}


def test_columns_that_differ_in_case_only() -> None:
    schema = pa.schema({"a": pa.int64(), "A": pa.float64()})
    assert Expressions(schema, {"x": "A", "y": "a"}).types == {"x": pa.float64(), "y": pa.int64()}
    assert Expressions(schema, {"x": "A * 2"}).types == {"x": pa.float64()}
    with pytest.raises(DataError) as caught:
        Expressions(schema, {"x": "a + A"})
    assert str(caught.value) == (
        "x: 'a + A' uses the columns 'a' and 'A', which SQL cannot tell apart. Rename one of them."
    )
