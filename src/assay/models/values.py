"""What else of a model's output is written or handed on: embeddings, text, numbers, in the type that the spec says.

Not here: scores (`outputs.py`, `matrices.py`), which are numbers that metrics are made of. Axes: n rows of the batch, k
numbers of each.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from assay.models.matrices import Refused
from assay.spec.words import count, listing

_LIST = re.compile(r"list<(?P<value>\w+)>(\[(?P<size>\d+)\])?")


def value_type(said: str) -> pa.DataType:
    """The Arrow type that a spec says; a list whose size it leaves open has the size 1, until a model gives one.

    >>> value_type("list<float32>[3]"), value_type("string")
    (FixedSizeListType(fixed_size_list<item: float>[3]), DataType(string))
    """
    found = _LIST.fullmatch(said)
    if found is None:
        return pa.type_for_alias(said)
    return pa.list_(pa.type_for_alias(found["value"]), int(found["size"] or 1))


def read_values(given: object, said: str, num_rows: int) -> pa.Array:
    """[n] of the type that the spec says. None and, of single numbers, NaN become null.

    Numbers are taken from what numpy makes an array of, lists from a matrix [n, k] or n lists of k. An integer is never
    made of a number with a fraction, text of no number. Refused for all else.
    """
    found, kind = _LIST.fullmatch(said), value_type(said)
    if found is not None:
        return _lists(given, kind.value_type, int(found["size"]) if found["size"] else None, num_rows)
    array = given if isinstance(given, pa.Array | pa.ChunkedArray) else _flat(given)
    _check_length(len(array), num_rows)
    try:
        values = pa.array(array, from_pandas=True) if isinstance(array, np.ndarray) else array
    except pa.ArrowException as error:
        raise Refused(f"the model returned what is no {said} ({_first_line(error)}).") from None
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return _cast(values, kind, said)


def _flat(given: object) -> np.ndarray[Any, Any]:  # Any: of any type, which is checked by Arrow
    array = np.asarray(given)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise Refused(f"the model returned an array of shape {array.shape}; expected one value a row, shape (n,).")
    return array


def _lists(given: object, kind: pa.DataType, size: int | None, num_rows: int) -> pa.Array:
    matrix, missing = _matrix(given, size)
    _check_length(len(matrix), num_rows)
    if matrix.shape[1] == 0:
        raise Refused("the model returned lists without numbers; expected at least one in each.")
    if size is not None and matrix.shape[1] != size:
        raise Refused(f"the model returned lists of {count(matrix.shape[1], 'number')}; expected {size}.")
    flat = _cast(pa.array(np.ascontiguousarray(matrix).reshape(-1)), kind, f"list<{kind}>")
    mask = pa.array(missing) if missing.any() else None
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1], mask=mask)


def _matrix(given: Any, size: int | None) -> tuple[Any, Any]:  # Any: arrays of any type
    """[n, k], and [n] which rows have no list."""
    if isinstance(given, np.ndarray) and given.dtype != np.object_:
        if given.ndim != 2:
            raise Refused(f"the model returned an array of shape {given.shape}; expected a list a row, shape (n, k).")
        return given, np.zeros(len(given), np.bool_)
    rows = given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else list(given)
    known = [np.asarray(one) for one in rows if one is not None]
    sizes = sorted({one.shape for one in known})
    if any(one.ndim != 1 for one in known) or len(sizes) > 1:
        shapes = listing(sizes) if len(sizes) > 1 else repr(sizes[0])
        raise Refused(f"the model returned lists of shape {shapes}; expected as many numbers in each row.")
    if not known and size is None:
        raise Refused("the model returned a list for no row; say how long they are: list<float32>[384].")
    empty = np.zeros(size or 0) if not known else np.zeros_like(known[0])
    filled = [empty if one is None else np.asarray(one) for one in rows]
    return np.stack(filled), np.array([one is None for one in rows], np.bool_)


def _cast(values: pa.Array, kind: pa.DataType, said: str) -> pa.Array:
    if values.type == kind or pa.types.is_null(values.type):
        return values.cast(kind)
    if _family(values.type) != _family(kind):
        raise Refused(f"the model returned values of type {values.type}; expected {said}.")
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        raise Refused(f"the model returned a {values.type} that is no {said} ({_first_line(error)}).") from None


def _family(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return "text" if is_text else str(kind)


def _check_length(found: int, num_rows: int) -> None:
    if found != num_rows:
        raise Refused(f"the model returned {count(found, 'value')} for {count(num_rows, 'row')}.")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
