"""From a block to what a model receives: only its inputs, in the format that it wants.

What is given is fixed by the declaration and the columns' types, never by what a batch happens to hold.

Axes: n rows of the block, k columns of one argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from ray.data.block import BlockAccessor

from assay.errors import ModelError
from assay.models.inputs import Argument, Array, as_arguments, check_columns, decode, is_number, matrix, natural_array
from assay.spec.words import MOST_LISTED, either, series

Inputs = Sequence[str] | Mapping[str, str | Sequence[str]]
BatchFormat = Literal["numpy", "torch", "pandas", "pyarrow"]
FORMATS: tuple[BatchFormat, ...] = ("numpy", "torch", "pandas", "pyarrow")
TENSORS = "assay.integrations.ray_data.tensors"
"""Imports torch, and is therefore imported only where tensors are wanted or given."""


@dataclass(frozen=True)
class InputForm:
    """What a model receives.

    - `numpy`: {argument: array}. An argument of one column is an array [n] of the column's own type (text and other
      types as objects, a fixed-size list as [n, k], a tensor column as it is); an argument of a list of columns is a
      float64 matrix [n, k], null is NaN. Arrays cannot be written to.
    - `torch`: the same as tensors; floats and matrices as float32, integers as int64, but bytes (images) as uint8.
    - `pandas`: a frame, whose columns are named by the arguments.
    - `pyarrow`: a table, the same.

    Dictionaries are decoded but for `pyarrow`. A null in a column of integers or booleans is a ModelError but for
    `pyarrow`, or in a matrix.
    """

    model: str
    arguments: tuple[Argument, ...]
    batch_format: BatchFormat

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for argument in self.arguments for column in argument.columns))

    @property
    def preparation(self) -> tuple[object, ...]:
        """Forms of equal preparation convert the same, whatever model they are for."""
        return self.arguments, self.batch_format

    def check(self, schema: pa.Schema) -> None:
        """ModelError when a column is missing, or of a type that cannot be given in this format."""
        check_columns(self.model, self.columns, schema)
        if self.batch_format in ("pandas", "pyarrow"):
            return
        for argument in self.arguments:
            for column in argument.columns:
                self._check_type(argument, column, schema.field(column).type)

    def described(self, schema: pa.Schema) -> str:
        """The arguments in words, with the types of their columns, cut after a dozen."""
        words = [self._described(argument, schema) for argument in self.arguments]
        left = len(words) - MOST_LISTED
        return series([*words[:MOST_LISTED], f"{left} more"] if left > 0 else words)

    def convert(self, block: pa.Table) -> Any:  # Any: the format's own type
        """The inputs of all n rows of a block; `rows_of` gives a model some of them."""
        if self.batch_format in ("pandas", "pyarrow"):
            table = block.select([argument.columns[0] for argument in self.arguments])
            table = table.rename_columns([argument.name for argument in self.arguments])
            return table if self.batch_format == "pyarrow" else self._frame(table)
        return {argument.name: self._array(argument, block) for argument in self.arguments}

    def rows_of(self, converted: Any, rows: slice) -> Any:  # Any: as in convert
        """What `convert` gave, of some rows. What may be written to is the model's own."""
        if self.batch_format == "pyarrow":
            return converted.slice(rows.start, rows.stop - rows.start)
        if self.batch_format == "pandas":
            return converted.iloc[rows].reset_index(drop=True)
        arrays = {name: array[rows] for name, array in converted.items()}
        return import_module(TENSORS).as_tensors(arrays) if self.batch_format == "torch" else arrays

    def _frame(self, table: pa.Table) -> Any:  # Any: a pandas frame
        for name in table.column_names:
            self._refuse_nulls(name, table.column(name))
        plain = [decode(column) for column in table.columns]
        return pa.table(plain, names=table.column_names).to_pandas()

    def _array(self, argument: Argument, block: pa.Table) -> Array:
        tensors = self.batch_format == "torch"
        if argument.single:
            array = self._own_array(argument.name, block.column(argument.columns[0]))
        else:
            dtype = np.dtype(np.float32 if tensors else np.float64)
            array = matrix([block.column(column) for column in argument.columns], dtype)
        array.flags.writeable = False
        return array

    def _own_array(self, argument: str, column: pa.ChunkedArray) -> Array:
        if is_extension(column.type) and not isinstance(column.type, pa.FixedShapeTensorType):
            array = np.asarray(BlockAccessor.for_block(pa.table({argument: column})).to_numpy(argument))
            if self.batch_format == "torch" and array.dtype == np.object_:
                raise ModelError(
                    self.model,
                    f"input {argument!r} holds tensors of several shapes, which cannot be one tensor; say "
                    "batch_format='numpy' for an array of arrays.",
                )
            return array
        self._refuse_nulls(argument, column)
        return natural_array(self.model, argument, column)

    def _refuse_nulls(self, argument: str, column: pa.ChunkedArray) -> None:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        matrices = self.batch_format in ("numpy", "torch")
        is_array = pa.types.is_fixed_size_list(kind) or isinstance(kind, pa.FixedShapeTensorType)
        if column.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or (matrices and is_array)):
            named = matrices and not is_array
            instead = "say "
            if named:
                instead += (
                    f"inputs={{{argument!r}: [column]}} for floats with NaN, as a matrix [n, 1] whose vector is "
                    f"batch[{argument!r}][:, 0], or "
                )
            raise ModelError(
                self.model,
                f"input {argument!r} is of type {kind} and has nulls ({column.null_count} in this block), which "
                f"{self.batch_format} cannot hold without changing its type; {instead}batch_format='pyarrow'.",
            )

    def _described(self, argument: Argument, schema: pa.Schema) -> str:
        if not argument.single:
            return f"{argument.name!r} (matrix [n, {len(argument.columns)}])"
        column = argument.columns[0]
        kind = schema.field(column).type
        whence = "" if column == argument.name else f"column {column!r}, "
        form = ", as objects" if self.batch_format == "numpy" and _is_text(kind) else ""
        return f"{argument.name!r} ({whence}{kind}{form})"

    def _check_type(self, argument: Argument, column: str, kind: pa.DataType) -> None:
        if is_number(kind):
            return
        if not argument.single:
            alone = f"{column!r}: {column!r}"
            raise ModelError(
                self.model,
                f"column {column!r} is of type {kind}, but input {argument.name!r} is a matrix of numbers, as is every "
                f"list of columns. Make numbers of it in a step before, or take it out of the list and give it as an "
                f"input of its own, inputs={{{alone}}}, and convert it in the model.",
            )
        fixed = pa.types.is_fixed_size_list(kind) and is_number(kind.value_type)
        if self.batch_format == "torch" and not (fixed or is_extension(kind)):
            raise ModelError(
                self.model,
                f"column {column!r} is of type {kind}, but input {argument.name!r} is a tensor, which holds numbers. "
                "Make numbers of it in a step before, or say batch_format='numpy', 'pandas' or 'pyarrow' and convert "
                "it in the model.",
            )


def input_form(model: str, inputs: Inputs, batch_format: str) -> InputForm:
    """`inputs`: names of columns, or {argument: column, or a list of them for a matrix}. ModelError when unusable."""
    if batch_format not in FORMATS:
        raise ModelError(model, f"batch_format is {batch_format!r}; expected {either(FORMATS)}.")
    if isinstance(inputs, str) or not inputs:
        raise ModelError(
            model, f"inputs are {inputs!r}; expected a list of columns, or {{argument: column or [column, ...]}}."
        )
    named: dict[str, str | tuple[str, ...]] | tuple[str, ...]
    if isinstance(inputs, Mapping):
        named = {name: one if isinstance(one, str) else tuple(one) for name, one in inputs.items()}
    else:
        named = tuple(inputs)
    arguments = as_arguments(model, named)
    for argument in arguments:
        if batch_format in ("pandas", "pyarrow") and not argument.single:
            raise ModelError(
                model,
                f"inputs give {argument.name!r} several columns, which batch_format={batch_format!r} cannot do; give "
                "each column a name of its own.",
            )
    return InputForm(model, arguments, batch_format)


def is_extension(kind: pa.DataType) -> bool:
    """Whether it is a type such as Ray Data's tensors, whatever it is stored as."""
    return isinstance(kind, pa.BaseExtensionType)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
