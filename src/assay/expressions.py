"""Columns and SQL scalar expressions over Arrow tables, evaluated by DuckDB.

Lives here: reading a text as a column name or an expression, the columns that it needs, its type, its values, and a
sentence for everything that can be wrong with it. Not here: what the values are used for.

An expression is a pure function of its row: subqueries, aggregates, window functions and anything that depends on the
time or on chance are refused. It reads no file and no network; its time zone is UTC.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from assay.errors import DataError
from assay.spec.names import offer

Node = dict[str, Any]  # Any: a piece of DuckDB's JSON syntax tree

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET preserve_insertion_order = true",
    "SET autoload_known_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_IMPURE_MACROS = frozenset({"ago", "pg_conf_load_time", "pg_postmaster_start_time", "user", "current_user"})
_IMPURE_WORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_role", "session_user"}
)
_REFUSED_CLASSES = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "a star",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a position",
}
_ONE_VALUE = "Write an expression that gives one value for each row, from this row's columns alone."


class Expressions:
    """Texts bound to a schema: {label: text}, where the label says in errors whose text it is (`data.where`).

    A text that is exactly a column's name is that column, unchanged, whatever it would mean in SQL. Any other text is a
    DuckDB expression; names in it match columns without regard to case, an exact match first.

    Raises DataError when a text names an unknown column, is no expression, is not a pure function of a row, or does not
    fit the columns' types. Use from one thread at a time; pickling opens it anew.

    >>> table = pa.table({"price": [3, 12]})
    >>> Expressions(table.schema, {"data.label": "price > 10"}).evaluate(table).to_pydict()
    {'data.label': [False, True]}
    """

    columns: tuple[str, ...]
    """The columns that are needed, in the schema's order."""
    types: Mapping[str, pa.DataType]
    """The type of each label's values."""

    def __init__(self, schema: pa.Schema, expressions: Mapping[str, str]) -> None:
        self._schema = schema
        self._texts = dict(expressions)
        self._plain = {label: text for label, text in self._texts.items() if text in schema.names}
        self._sql = {label: text for label, text in self._texts.items() if label not in self._plain}
        self._connection = _connect() if self._sql else None
        self._sql_columns = self._in_order(name for label in self._sql for name in self._references(label))
        self.columns = self._in_order([*self._plain.values(), *self._sql_columns])
        needed = [schema.field(name) for name in self.columns or schema.names[:1]]
        # Not `empty_table`, which makes no list of extension types and few dictionaries.
        bound = self.evaluate(pa.table([pa.nulls(0, field.type) for field in needed], schema=pa.schema(needed)))
        self.types = {field.name: field.type for field in bound.schema}

    def __reduce__(self) -> tuple[type[Expressions], tuple[pa.Schema, dict[str, str]]]:
        return type(self), (self._schema, self._texts)

    def evaluate(self, table: pa.Table) -> pa.Table:
        """One column for each label, named by it, in the order given; the rows are those of `table`, which must hold
        `columns`. DataError when a value cannot be computed (a failing cast)."""
        computed = self._run(self._sql, table) if self._sql else None
        arrays = [
            table[self._plain[label]] if label in self._plain else _column(computed, label) for label in self._texts
        ]
        return pa.table(arrays, names=list(self._texts))

    def _run(self, texts: Mapping[str, str], table: pa.Table) -> pa.Table:
        try:
            result = self._query(texts, table)
        except duckdb.Error as error:
            self._blame(texts, table)
            raise DataError(f"{_listed(texts)}: the expressions cannot be evaluated: {_first_line(error)}.") from None
        if result.num_rows != table.num_rows:
            self._blame(texts, table)
        return result

    def _query(self, texts: Mapping[str, str], table: pa.Table) -> pa.Table:
        connection = _opened(self._connection)
        selected = ", ".join(f"(\n{text}\n) AS {_quoted(str(i))}" for i, text in enumerate(texts.values()))
        connection.register("assay_rows", _readable(table.select(self._sql_columns or table.column_names[:1])))
        try:
            result = connection.sql(f"SELECT {selected} FROM assay_rows").to_arrow_table()
        finally:
            connection.unregister("assay_rows")
        return result.rename_columns(list(texts))

    def _blame(self, texts: Mapping[str, str], table: pa.Table) -> None:
        """All texts run as one query; when it fails, each alone tells whose fault it is. DataError for the first."""
        for label, text in texts.items():
            try:
                num_rows = self._query({label: text}, table).num_rows
            except duckdb.Error as error:
                raise DataError(f"{label}: {text!r} cannot be evaluated: {_first_line(error)}.") from None
            if num_rows != table.num_rows:
                raise DataError(f"{label}: {text!r} does not give one value for each row. {_ONE_VALUE}")

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self._schema.names if name in wanted)

    def _references(self, label: str) -> set[str]:
        text = self._texts[label]
        found: dict[str, str] = {}
        for name in _names(_parse(_opened(self._connection), label, text), frozenset(self._schema.names), label, text):
            column = self._resolve(name, label, text)
            if found.setdefault(column.lower(), column) != column:
                raise DataError(
                    f"{label}: {text!r} uses the columns {found[column.lower()]!r} and {column!r}, which SQL cannot "
                    "tell apart. Rename one of them."
                )
        return set(found.values())

    def _resolve(self, name: str, label: str, text: str) -> str:
        if name in self._schema.names:
            return name
        alike: list[str] = [column for column in self._schema.names if column.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise DataError(f"{label}: {name!r} matches several columns: {_listed(alike)}. Write it exactly.")
        if name.lower() in _IMPURE_WORDS:
            raise _impure(label, text, name)
        raise DataError(f"{label}: there is no column {name!r} in the data{offer(name, self._schema.names)}")


# ---- DuckDB ----------------------------------------------------------------------------------------------------------


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1, "python_enable_replacements": False})
    for setting in _SETTINGS:
        connection.execute(setting).fetchall()
    return connection


def _opened(connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyConnection:
    assert connection is not None, "only SQL texts come here, and they open a connection"
    return connection


def _column(computed: pa.Table | None, label: str) -> pa.ChunkedArray:
    assert computed is not None, "a label that is no plain column was computed"
    return computed[label]


def _readable(table: pa.Table) -> pa.Table:
    """DuckDB has no half-precision floats; single precision holds each of them exactly."""
    fields = [f.with_type(pa.float32()) if pa.types.is_float16(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _first_line(error: duckdb.Error) -> str:
    """DuckDB's message without the list of candidates and the drawing below it, and without its own class of error."""
    line = str(error).split("\n")[0].strip().rstrip(".!")
    return line.split("Error: ", 1)[-1]


# ---- the syntax tree -------------------------------------------------------------------------------------------------


def _parse(connection: duckdb.DuckDBPyConnection, label: str, text: str) -> Node:
    """The tree of one scalar expression; DataError for anything else."""
    tree = _serialized(connection, f"SELECT {text}")
    if tree["error"]:
        reason = str(tree["error_message"]).split("\n")[0].rstrip(".!")
        raise DataError(f"{label}: {text!r} is neither a column nor an SQL expression: {reason}.")
    statements = tree["statements"]
    whole: Node = statements[0]["node"]
    if len(statements) != 1 or not _is_bare(whole, _serialized(connection, "SELECT 1")["statements"][0]["node"]):
        raise DataError(f"{label}: {text!r} is not a single SQL expression. {_ONE_VALUE}")
    expression: Node = whole["select_list"][0]
    return expression


def _serialized(connection: duckdb.DuckDBPyConnection, query: str) -> Node:
    rows = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    tree: Node = json.loads(rows[0][0])
    return tree


def _is_bare(node: Node, bare: Node) -> bool:
    """Whether a SELECT has one unnamed expression and no other clause, as `bare` has none."""
    selected = node.get("select_list", [])
    rest = {key: value for key, value in node.items() if key != "select_list"}
    bare_rest = {key: value for key, value in bare.items() if key != "select_list"}
    return len(selected) == 1 and not selected[0]["alias"] and _placeless(rest) == _placeless(bare_rest)


def _placeless(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _placeless(value) for key, value in tree.items() if not key.startswith("query_location")}
    return [_placeless(value) for value in tree] if isinstance(tree, list) else tree


def _names(node: object, columns: frozenset[str], label: str, text: str) -> Iterator[str]:
    """The column names in a tree; DataError for what is no pure function of a row."""
    if isinstance(node, list):
        for value in node:
            yield from _names(value, columns, label, text)
    if not isinstance(node, dict):
        return
    kind = node.get("class")
    if kind in _REFUSED_CLASSES:
        raise DataError(f"{label}: {text!r} has {_REFUSED_CLASSES[kind]}, which is not allowed. {_ONE_VALUE}")
    if kind == "COLUMN_REF":
        yield node["column_names"][0]
    elif kind == "LAMBDA":
        yield from _names_of_lambda(node, columns, label, text)
    else:
        if kind == "FUNCTION":
            _check_function(node, label, text)
        for value in node.values():
            yield from _names(value, columns, label, text)


def _names_of_lambda(node: Node, columns: frozenset[str], label: str, text: str) -> Iterator[str]:
    """A lambda's parameters are no columns. `document -> '$.key'` parses as one too: its left side is a column."""
    left = set(_names(node["lhs"], columns, label, text))
    parameters = left if node.get("syntax_type") == "LAMBDA_KEYWORD" else left - columns
    yield from left - parameters
    yield from (name for name in _names(node["expr"], columns, label, text) if name not in parameters)


def _check_function(node: Node, label: str, text: str) -> None:
    name = str(node["function_name"]).lower()
    if name in _impure_functions() or (name == "age" and len(_arguments(node)) == 1):
        raise _impure(label, text, name)
    if name in _aggregates() or name == "unnest":
        raise DataError(f"{label}: {text!r} uses {name}, which spans rows. {_ONE_VALUE}")


def _arguments(node: Node) -> list[Node]:
    arguments: list[Node] = node["arguments"] if "arguments" in node else node["children"]  # the latter before 2.0
    return arguments


def _impure(label: str, text: str, name: str) -> DataError:
    return DataError(
        f"{label}: {text!r} uses {name}, which gives another value at another time. {_ONE_VALUE} "
        "The result must be the same when it is computed again."
    )


@functools.cache
def _impure_functions() -> frozenset[str]:
    """Functions that are not the same on every call, by DuckDB's own catalogue."""
    query = (
        "SELECT function_name FROM duckdb_functions() WHERE function_type = 'scalar' "
        "GROUP BY function_name HAVING bool_and(stability <> 'CONSISTENT')"
    )
    return frozenset(name for (name,) in _connect().execute(query).fetchall()) | _IMPURE_MACROS


@functools.cache
def _aggregates() -> frozenset[str]:
    query = (
        "SELECT function_name FROM duckdb_functions() GROUP BY function_name "
        "HAVING bool_and(function_type IN ('aggregate', 'window'))"
    )
    return frozenset(name for (name,) in _connect().execute(query).fetchall())
