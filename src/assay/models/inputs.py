"""From a table to what a model receives: its inputs by argument, as a dict, a matrix, an Arrow table or a pandas frame.

What is given is fixed by the spec and the columns' types, never by what a batch happens to hold. Dictionary columns are
always decoded to their values: codes differ from file to file.

Axes: n rows of the batch, k columns of one argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.spec.model import ColumnInputs, OtherOutput, Receive, VariantSpec
from assay.spec.names import offer
from assay.spec.words import listing

Array = NDArray[Any]  # Any: the dtype follows the column's type


class Argument(NamedTuple):
    """One input of a model and the columns that it is made of."""

    name: str
    columns: tuple[str, ...]
    single: bool  # made of one column [n]; else a matrix [n, k], also where k is 1


@dataclass(frozen=True, slots=True)
class InputReader:
    """Gives a model its inputs.

    `receive` says the form:

    - `arguments` and `dict`: {argument: array}. An argument of one column is an array [n] of the column's own type
      (text and other types as objects, a fixed-size list as [n, k], tensors as they are), so a null in an integer or
      boolean column is an error; an argument of a list of columns is a float matrix [n, k], null is NaN.
    - `matrix`: all columns, in order, as a float matrix [n, k], null is NaN. Text cannot go in it.
    - `arrow`: a table whose columns are named by the arguments.
    - `pandas`: the same as a frame. Integers and booleans keep their type, so a null in them is an error; or, with
      `floats`, they are float64 and null is NaN. All else is by pandas' own conversion from Arrow.

    Floats are float64 (float32 stays float32 in an argument of one column and in a frame).
    """

    variant: str
    arguments: tuple[Argument, ...]
    receive: Receive
    tensors: bool = False  # arrays become tensors: an argument of one column must be numbers too
    floats: bool = False  # integers and booleans of a frame become float64

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for argument in self.arguments for column in argument.columns))

    def check(self, schema: pa.Schema) -> None:
        """ModelError when a column is missing or of a type that cannot be given in this form."""
        check_columns(self.variant, self.columns, schema)
        for argument in self.arguments:
            for column in argument.columns:
                self._check_type(column, schema.field(column).type, argument.single)

    @property
    def preparation(self) -> tuple[object, ...]:
        """Readers of equal preparation read the same, whatever variant they are for."""
        return self.arguments, self.receive, self.tensors, self.floats

    def read(self, table: pa.Table) -> Any:  # Any: what the model receives
        """The inputs for the n rows of `table`."""
        if self.receive == "matrix":
            return self._matrix([column for argument in self.arguments for column in argument.columns], table)
        if self.receive in ("arguments", "dict"):
            return {argument.name: self._array(argument, table) for argument in self.arguments}
        named = {argument.name: decode(table.column(argument.columns[0])) for argument in self.arguments}
        if self.receive == "arrow":
            return pa.table(named)
        return pa.table({name: self._frame_column(name, column) for name, column in named.items()}).to_pandas()

    def _frame_column(self, argument: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column as pandas converts it to one type, whatever nulls there are."""
        if not _is_without_null(column.type):
            return column
        if self.floats:
            return column.cast(pa.float64())  # refuses an integer that a float cannot hold
        if column.null_count:
            raise ModelError(
                self.variant,
                f"{_has_nulls(argument, column)}; say receive: matrix for floats with NaN, or receive: arrow.",
            )
        return column

    def _array(self, argument: Argument, table: pa.Table) -> Array:
        if argument.single:
            return natural_array(self.variant, argument.name, table.column(argument.columns[0]))
        return self._matrix(argument.columns, table)

    def _matrix(self, columns: Sequence[str], table: pa.Table) -> Array:
        dtype = np.dtype(np.float32 if self.tensors else np.float64)
        return matrix([table.column(column) for column in columns], dtype)

    def _check_type(self, column: str, kind: pa.DataType, single: bool) -> None:
        if self.receive in ("arrow", "pandas") or is_number(kind):
            return
        if self.receive == "matrix" or not single:
            raise ModelError(
                self.variant,
                f"column {column!r} is of type {kind}, which cannot go in a matrix of numbers; give it as an argument "
                "of its own, or say receive: arrow or receive: pandas.",
            )
        if self.tensors and not (_is_array(kind) and is_number(kind.value_type)):
            raise ModelError(
                self.variant,
                f"column {column!r} is of type {kind}, which cannot be a tensor; say receive: arrow or receive: pandas "
                "and convert it in the model.",
            )


def input_reader(variant: VariantSpec, tensors: bool = False) -> InputReader:
    """The reader for a model that records nothing of its inputs: a callable or a torch module.

    A mapping is received as arguments and a list as a matrix, unless `receive` says otherwise. ModelError when there
    are no inputs, or they cannot be received as asked.
    """
    inputs = column_inputs(variant)
    if not inputs:
        raise ModelError(
            variant.name,
            "the spec does not say what the model reads; write inputs: [column, ...] or inputs: {argument: column}.",
        )
    receive = variant.receive or ("arguments" if isinstance(inputs, dict) else "matrix")
    if receive == "pandas" and find_spec("pandas") is None:
        raise ModelError(variant.name, "receive: pandas needs pandas, which is not installed; pip install pandas.")
    arguments = as_arguments(variant.name, inputs)
    for argument in arguments:
        if receive in ("arrow", "pandas") and not argument.single:
            raise ModelError(
                variant.name,
                f"inputs give {argument.name!r} several columns, which receive: {receive} cannot do; give each column "
                "a name of its own.",
            )
    return InputReader(variant.name, arguments, receive, tensors)


def column_inputs(variant: VariantSpec) -> ColumnInputs | None:
    """What a variant reads, by columns alone: what it takes of others stands in columns when it is described."""
    inputs = variant.inputs
    if not isinstance(inputs, dict):
        return inputs
    found: dict[str, str | tuple[str, ...]] = {}
    for argument, given in inputs.items():
        assert not isinstance(given, OtherOutput), "build puts a column in its place"
        found[argument] = given if isinstance(given, str) else tuple(str(one) for one in given)
    return found


def as_arguments(variant: str, inputs: ColumnInputs) -> tuple[Argument, ...]:
    """The arguments of a mapping or of a list of columns, which name themselves."""
    if isinstance(inputs, dict):
        return tuple(_argument(name, columns) for name, columns in inputs.items())
    for position, column in enumerate(inputs):
        if column in inputs[:position]:
            raise ModelError(variant, f"inputs name column {column!r} twice.")
    return tuple(Argument(column, (column,), single=True) for column in inputs)


def feature_columns(variant: str, features: Sequence[str], inputs: ColumnInputs | None) -> tuple[str, ...]:
    """The column of each feature that a model recorded by name, in the model's order.

    A feature is read from the column of its name, unless a mapping {feature: column} says another. A list must name
    the same features, in any order. ModelError when it does not.
    """
    if inputs is None:
        return tuple(features)
    unknown = [name for name in inputs if name not in features]
    if unknown:
        raise ModelError(
            variant,
            f"inputs name {unknown[0]!r}, which is no feature of the model{offer(unknown[0], features)} "
            "To read a feature from a column of another name, write inputs: {feature: column}.",
        )
    if not isinstance(inputs, dict):
        left = [feature for feature in features if feature not in inputs]
        if left:
            raise ModelError(variant, f"inputs leave out {listing(left)}, which the model was trained on.")
        return tuple(features)
    return tuple(_one_column(variant, feature, inputs.get(feature, feature)) for feature in features)


def positional_columns(variant: str, num_features: int | None, inputs: ColumnInputs | None) -> tuple[str, ...]:
    """The columns of a model that recorded no names: the inputs, in order. ModelError when their number is wrong."""
    if not inputs:
        raise ModelError(
            variant,
            "the model was trained without column names; write inputs: [column, ...], in the order of its training.",
        )
    columns = tuple(column for argument in as_arguments(variant, inputs) for column in argument.columns)
    if num_features is not None and len(columns) != num_features:
        raise ModelError(
            variant, f"inputs give {len(columns)} of the {num_features} columns that the model was trained on."
        )
    return columns


def check_columns(variant: str, columns: Sequence[str], schema: pa.Schema) -> None:
    """ModelError naming all columns that the data do not have, and what comes nearest to the first."""
    missing = [column for column in columns if column not in schema.names]
    if missing:
        also = f" It also wants {listing(missing[1:])}." if missing[1:] else ""
        raise ModelError(
            variant,
            f"the model wants column {missing[0]!r}, which the data do not have{offer(missing[0], schema.names)}{also}",
        )


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type is made of numbers, booleans included."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_one = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(is_kind(kind) for is_kind in is_one)


def _is_array(kind: pa.DataType) -> bool:
    """Whether all values have as many elements."""
    return bool(pa.types.is_fixed_size_list(kind) or isinstance(kind, pa.FixedShapeTensorType))


def decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column by value: a dictionary's codes replaced by what they stand for."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """A column of numbers [n] as float64; null is NaN."""
    values: NDArray[np.float64] = decode(column).cast(pa.float64(), safe=False).to_numpy()
    return values


def matrix(columns: Sequence[pa.ChunkedArray], dtype: np.dtype[Any]) -> Array:  # Any: float32 or float64
    """Columns of numbers as a matrix [n, k]; null is NaN."""
    filled = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype)
    for position, column in enumerate(columns):
        filled[:, position] = column.to_numpy() if _is_plain(column, dtype) else floats(column)
    return filled


def rows_of(inputs: Any, rows: slice) -> Any:  # Any: what InputReader.read gives
    """The inputs of some rows, which whoever gets them may change."""
    if isinstance(inputs, dict):
        return {name: rows_of(array, rows) for name, array in inputs.items()}
    if isinstance(inputs, np.ndarray):
        return inputs[rows].copy()
    if isinstance(inputs, pa.Table):
        return inputs.slice(rows.start, rows.stop - rows.start)
    return inputs.iloc[rows].copy()


def natural_array(variant: str, argument: str, column: pa.ChunkedArray) -> Array:
    """A column [n] in numpy's own type for it; a fixed-size list as [n, k], tensors of one shape as [n, ...].

    Null is NaN in floats, NaT in times and None in objects; in integers, booleans and lists it is a ModelError.
    """
    values = decode(column)
    kind = values.type
    if isinstance(kind, pa.FixedShapeTensorType):
        flat = pa.chunked_array([chunk.storage for chunk in values.chunks], kind.storage_type)
        return natural_array(variant, argument, flat).reshape(len(values), *kind.shape)
    if pa.types.is_decimal(kind):
        return floats(values)
    if values.null_count and (_is_without_null(kind) or pa.types.is_fixed_size_list(kind)):
        instead = (
            f"write inputs: {{{argument}: [column]}} to receive floats with NaN, as a matrix [n, 1] whose vector is "
            f"{argument}[:, 0], or "
            if _is_without_null(kind)
            else "say "
        )
        raise ModelError(variant, f"{_has_nulls(argument, values)}; {instead}receive: arrow.")
    if pa.types.is_fixed_size_list(kind):
        flat = pa.chunked_array([chunk.flatten() for chunk in values.chunks], kind.value_type)
        return natural_array(variant, argument, flat).reshape(len(values), kind.list_size)
    array: Array = values.to_numpy()
    return array


def _is_without_null(kind: pa.DataType) -> bool:
    """Whether numpy's type for it has no null."""
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _has_nulls(argument: str, column: pa.ChunkedArray) -> str:
    nulls = f"{column.null_count} in this batch"
    return f"input {argument!r} is of type {column.type} and has nulls ({nulls}), which it cannot hold"


def _is_plain(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> bool:  # Any: as in matrix
    """Whether the column can be copied into an array of this type as it is."""
    return bool(column.type == pa.from_numpy_dtype(dtype)) and column.null_count == 0


def _argument(name: str, columns: str | tuple[str, ...]) -> Argument:
    return Argument(name, (columns,), True) if isinstance(columns, str) else Argument(name, columns, False)


def _one_column(variant: str, feature: str, column: str | tuple[str, ...]) -> str:
    if isinstance(column, str):
        return column
    raise ModelError(variant, f"inputs give feature {feature!r} several columns; expected one.")
