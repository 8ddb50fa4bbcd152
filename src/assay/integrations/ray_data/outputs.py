"""From what a model returns for a batch to Arrow columns, one for each declared output, checked for length and type.

Axes: n rows of the batch, k outputs, or numbers in each row of one output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.integrations.ray_data.inputs import TENSORS
from assay.spec.words import count, listing

STRETCHED = (
    " A vector [n] and a matrix of one column [n, 1] make [n, n] together: inputs={'b': 'column'} gives a vector, "
    "inputs={'b': ['column']} a matrix, of which batch['b'][:, 0] is the vector."
)
"""Said where lists of as many numbers as the batch has rows do not fit: numpy makes them without a word."""

Declared = str | Sequence[str] | Mapping[str, pa.DataType | str | None]


class Output(NamedTuple):
    """A column that a model adds."""

    name: str
    kind: pa.DataType | None  # None: what the model returns


def declared_outputs(model: str, outputs: Declared) -> tuple[Output, ...]:
    """A name, names, or {name: type}, a type being Arrow's or its name ("float32"). ModelError for none or doubles."""
    if isinstance(outputs, Mapping):
        found = tuple(Output(name, _as_type(model, name, kind)) for name, kind in outputs.items())
    else:
        found = tuple(Output(name, None) for name in ([outputs] if isinstance(outputs, str) else outputs))
    names = [output.name for output in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModelError(model, f"outputs name {listing(twice)} twice.")
    if not found:
        raise ModelError(model, "outputs are empty; expected a name, names, or {name: type}.")
    return found


def read_outputs(model: str, outputs: Sequence[Output], returned: object, num_rows: int) -> list[pa.Array]:
    """A column [n] for each output, in their order.

    Taken are: a mapping, a frame or a table with a column for each output; a tuple of as many columns; an array or
    tensor [n, k] of k outputs; for one output, an array or tensor [n], or [n, k, ...] of lists or tensors, a list, a
    series, an Arrow array. ModelError for anything else, a number of rows other than n, or a type that does not fit.
    """
    values = _by_output(model, [output.name for output in outputs], returned)
    columns = [_column(model, output, value) for output, value in zip(outputs, values, strict=True)]
    wrong = {o.name: len(column) for o, column in zip(outputs, columns, strict=True) if len(column) != num_rows}
    if wrong:
        found = ", ".join(f"{count(rows, 'row')} of {name!r}" for name, rows in wrong.items())
        raise ModelError(model, f"it returned {found} for a batch of {count(num_rows, 'row')}; expected one for each.")
    return columns


def joined_batches(model: str, output: Output, batches: Sequence[pa.Array]) -> pa.Array:
    """One column of those of several batches. ModelError when their types differ."""
    kinds = list(dict.fromkeys(str(batch.type) for batch in batches))
    if len(kinds) > 1:
        are_square = all(pa.types.is_fixed_size_list(b.type) and b.type.list_size == len(b) for b in batches)
        raise ModelError(
            model,
            f"output {output.name!r} is {listing(kinds)} in batches of one block; declare its type: "
            f"outputs={{{output.name!r}: type}}.{STRETCHED if are_square else ''}",
        )
    return batches[0] if len(batches) == 1 else pa.concat_arrays(batches)


def _as_type(model: str, name: str, kind: pa.DataType | str | None) -> pa.DataType | None:
    if not isinstance(kind, str):
        return kind
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        raise ModelError(
            model,
            f"the type of output {name!r} is {kind!r}; expected a type of pyarrow or its name, such as 'float32'.",
        ) from None


def _by_output(model: str, names: Sequence[str], returned: object) -> Sequence[Any]:  # Any: columns in many forms
    """The part of each output in what was returned."""
    if isinstance(returned, pa.Table | pa.RecordBatch):
        returned = dict(zip(returned.schema.names, returned.columns, strict=True))
    if isinstance(returned, Mapping | pd.DataFrame):
        missing, extra = [n for n in names if n not in returned], [n for n in returned if n not in names]
        if missing or extra:
            raise ModelError(model, f"it returned {listing(returned)}; its outputs are {listing(names)}.")
        return [returned[name] for name in names]
    if isinstance(returned, tuple):
        if len(returned) == len(names):
            return returned
        raise ModelError(model, f"it returned a tuple of {len(returned)}; its outputs are {listing(names)}.")
    if len(names) == 1:
        return [returned]
    array = _as_array(returned)
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.shape[1] == len(names):
        return list(array.T)
    shape = f" of shape {list(array.shape)}" if isinstance(array, np.ndarray) else ""
    raise ModelError(
        model,
        f"it returned a {type(returned).__name__}{shape}; expected a dict, a frame or a table with "
        f"{listing(names)}, or an array [rows, {len(names)}].",
    )


def _column(model: str, output: Output, value: object) -> pa.Array:
    try:
        return _arrow(_as_array(value), output.kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = "an Arrow column" if output.kind is None else f"a column of type {output.kind}"
        reason = str(error).split("\n")[0].rstrip(".")
        shape = tuple(getattr(value, "shape", ()))
        is_single = output.kind is not None and not pa.types.is_nested(output.kind)
        raise ModelError(
            model,
            f"output {output.name!r}, returned as {_described(value)}, cannot be {kind}: {reason}."
            f"{STRETCHED if is_single and len(shape) == 2 and shape[0] == shape[1] else ''}",
        ) from None


def _as_array(value: object) -> object:
    return import_module(TENSORS).as_array(value) if type(value).__module__.split(".")[0] == "torch" else value


def _arrow(value: object, kind: pa.DataType | None) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return value if kind is None or value.type == kind else value.cast(kind)
    if isinstance(value, pd.Series) and isinstance(value.dtype, np.dtype) and value.dtype.kind == "f":
        value = value.to_numpy()  # NaN stays NaN; from_pandas would make it null
    if isinstance(value, pd.Series):
        return pa.Array.from_pandas(value, kind)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        raise ValueError("it is one value, not one for each row")
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return _arrow(_nested(value), kind)
    if isinstance(value, np.ndarray | list):
        return pa.array(value, kind)
    raise TypeError(f"a {type(value).__name__} is no column")


def _nested(array: NDArray[Any]) -> pa.Array:  # Any: of any dtype
    """[n, k] as lists of k, [n, ...] as tensors."""
    if array.ndim > 2:
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(array))
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def _described(value: object) -> str:
    shape = getattr(value, "shape", None)
    rows = "" if shape is None else f" of shape {list(shape)}"
    return f"{type(value).__name__}{rows}"
