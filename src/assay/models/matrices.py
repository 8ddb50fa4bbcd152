"""From one output of a model to what tasks of several classes or labels are scored by, and intervals.

Nothing is guessed here either. A task of several classes takes a score for each class, as a matrix [n, C], or the
predicted classes themselves; a task of sets of labels a score for each label, or the predicted sets. NaN, null and (but
for a probability) infinity are missing scores: one of them makes the row's missing.

Axes: n rows of the batch, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import DataError
from assay.spec.model import OutputKind
from assay.spec.words import count, listing
from assay.value_names import is_list, items_of, numbers_of

Matrix = NDArray[np.float32] | NDArray[np.float64]
SUM_TOLERANCE = 1e-3
"""How far from 1 the probabilities of a row may sum to: half precision over a thousand classes is nearer."""
_NUMERIC = "fiub"


class Refused(Exception):
    """A sentence without the variant and the task, which `outputs.read_score` adds; `row`: of the batch."""

    def __init__(self, message: str, row: int | None = None) -> None:
        self.row = row
        super().__init__(message)


class Wanted(NamedTuple):
    """What the task takes."""

    kind: OutputKind | None
    names: tuple[str, ...]  # C
    num_rows: int


def read_classes(output: object, wanted: Wanted) -> Matrix:
    """[n, C] scores in the order of the classes, or [n] the numbers of the predicted ones, -1 for one that is no class.

    Refused: another shape; a probability outside [0, 1]; the probabilities of a row that do not sum to 1.
    """
    if wanted.kind == "label":
        return _predicted(output, wanted)
    scores = _in_range(_scores(output, wanted, "class"), wanted)
    if wanted.kind == "probability":
        _check_sums(scores)
    return scores


def read_labels(output: object, wanted: Wanted) -> Matrix:
    """[n, C] scores in the order of the labels, or 0.0 and 1.0 from the predicted sets.

    Sets are a list for each row, or a matrix of 0 and 1. Refused: another shape; a probability outside [0, 1]; a set
    with what is no label of the task.
    """
    if wanted.kind != "label":
        return _in_range(_scores(output, wanted, "label"), wanted)
    if _is_lists(output):
        return _members(_as_lists(output), wanted)
    flags = _scores(output, wanted, "label")
    wrong = np.isfinite(flags) & (flags != 0) & (flags != 1)
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=1)))
        raise Refused(
            f"{flags[row][wrong[row]][0]} in row {row} of the batch is neither 0 nor 1, but the output is sets of "
            "labels; if these are scores, say output: {is: probability}.",
            row,
        )
    return flags


def read_intervals(output: object, num_rows: int) -> NDArray[np.float64]:
    """[n, 2] lower and upper, from a matrix, a list column of two, or a pair of arrays. Refused: lower above upper."""
    bounds = _matrix(_side_by_side(output) if isinstance(output, tuple | list) else output)
    if bounds.ndim != 2 or bounds.shape[1] != 2:
        raise Refused(f"the model returned an array of shape {bounds.shape}; expected lower and upper, shape (n, 2).")
    _check_rows(bounds, num_rows)
    crossed = bounds[:, 0] > bounds[:, 1]
    if crossed.any():
        row = int(np.argmax(crossed))
        raise Refused(
            f"the interval in row {row} of the batch goes from {bounds[row, 0]} to {bounds[row, 1]}; expected lower, "
            "then upper.",
            row,
        )
    known: NDArray[np.float64] = bounds.astype(np.float64)
    known[~np.isfinite(known)] = np.nan
    return known


def _side_by_side(sides: Sequence[object]) -> NDArray[Any]:  # Any: the dtype is checked by `_matrix`
    arrays = [_array(side) for side in sides]
    if len({len(one) if one.ndim else 0 for one in arrays}) != 1 or any(one.ndim > 2 for one in arrays):
        raise Refused(
            f"the model returned arrays of shape {' and '.join(str(one.shape) for one in arrays)}; expected lower and "
            "upper, shape (n,) each."
        )
    return np.column_stack(arrays)


# ---- scores ----------------------------------------------------------------------------------------------------------


def _scores(output: object, wanted: Wanted, noun: str) -> Matrix:
    """[n, C]"""
    scores, num = _matrix(output), len(wanted.names)
    expected = f"{num}, one for each {noun}: {listing(wanted.names)}"
    if scores.ndim != 2:
        hint = " If these are the predicted classes, say output: {is: label}." if noun == "class" else ""
        raise Refused(
            f"the model returned an array of shape {scores.shape}; expected a matrix with {count(num, 'column')}, one "
            f"for each {noun}: {listing(wanted.names)}.{hint}"
        )
    if scores.shape[1] != num:
        raise Refused(f"the model returned a matrix with {count(scores.shape[1], 'column')}; expected {expected}.")
    _check_rows(scores, wanted.num_rows)
    return _typed(scores)


def _matrix(output: object) -> NDArray[Any]:  # Any: the dtype is checked by `_typed`
    """An array, or what numpy makes one of; a list column becomes a matrix, its null lists rows of NaN."""
    if not isinstance(output, pa.Array | pa.ChunkedArray):
        array = _array(output)
    elif is_list(output.type):
        array = _from_lists(output)
    else:
        array = output.to_numpy() if isinstance(output, pa.ChunkedArray) else output.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in _NUMERIC:
        raise Refused(f"the model returned scores of type {array.dtype}; expected numbers.")
    return array


def _array(output: object) -> NDArray[Any]:  # Any: as in _matrix
    try:
        return np.asarray(output)
    except ValueError as error:  # lists of different lengths
        raise Refused(f"the model returned what is no array: {error}") from None


def _from_lists(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:  # Any: as in _matrix
    values, lengths, missing = items_of(column)
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
        raise Refused(f"its lists are of {values.type}; expected numbers.")
    width = lengths[~missing].max(initial=0)
    ragged = ~missing & (lengths != width)
    if ragged.any():
        row = int(np.argmax(ragged))
        raise Refused(
            f"the list in row {row} of the batch has {count(lengths[row], 'item')}, and others have {width}; expected "
            "as many in each.",
            row,
        )
    kind = np.float32 if pa.types.is_float32(values.type) or pa.types.is_float16(values.type) else np.float64
    plain = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    numbers = plain.cast(pa.from_numpy_dtype(kind), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    if not missing.any():
        rows: NDArray[Any] = numbers.reshape(len(missing), width)
        return rows
    matrix = np.full((len(missing), width), np.nan, kind)
    matrix[~missing] = numbers.reshape(-1, width)
    return matrix


def _typed(scores: NDArray[Any]) -> Matrix:  # Any: numbers of any type
    half = scores.dtype.kind == "f" and scores.dtype.itemsize <= 4
    return scores.astype(np.float32, copy=False) if half else scores.astype(np.float64, copy=False)


def _check_rows(array: NDArray[Any], num_rows: int) -> None:  # Any: of any type
    if len(array) != num_rows:
        raise Refused(f"the model returned {count(len(array), 'score')} for {count(num_rows, 'row')}.")


def _in_range(scores: Matrix, wanted: Wanted) -> Matrix:
    if wanted.kind != "probability":
        infinite = np.isinf(scores)
        return np.where(infinite, scores.dtype.type(np.nan), scores) if infinite.any() else scores
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        row, column = (int(place) for place in np.unravel_index(np.argmax(outside), outside.shape))
        raise Refused(
            f"the score {scores[row, column]} of {wanted.names[column]!r} in row {row} of the batch is outside [0, 1], "
            "but the output is a probability; if it is none, say output: {is: logit} or {is: score}.",
            row,
        )
    return scores


def _check_sums(scores: Matrix) -> None:
    sums = scores.sum(axis=1, dtype=np.float64)
    wrong = np.abs(sums - 1.0) > SUM_TOLERANCE  # of a missing score this is false
    if wrong.any():
        row = int(np.argmax(wrong))
        raise Refused(
            f"the probabilities in row {row} of the batch sum to {sums[row]:.6g}, not to 1; if they are none, say "
            "output: {is: logit} or {is: score}.",
            row,
        )


# ---- predicted classes and sets --------------------------------------------------------------------------------------


def _predicted(output: object, wanted: Wanted) -> NDArray[np.float64]:
    """[n] numbers of classes."""
    values = _as_values(output)
    _check_comparable(values, wanted.names, "class")
    if len(values) != wanted.num_rows:
        raise Refused(f"the model returned {count(len(values), 'label')} for {count(wanted.num_rows, 'row')}.")
    return _numbers(values, wanted.names)


def _as_values(output: object) -> pa.Array | pa.ChunkedArray:
    if isinstance(output, pa.Array | pa.ChunkedArray):
        values: pa.Array | pa.ChunkedArray = output
    else:
        array = _array(output)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise Refused(
                f"the model returned an array of shape {array.shape}; expected one predicted class a row, shape (n,). "
                "If these are scores, say output: {is: probability}, {is: logit} or {is: score}."
            )
        values = _arrow(array)
    if pa.types.is_nested(values.type):
        raise Refused(
            f"the predicted classes are of type {values.type}; expected one a row. If these are scores, say output: "
            "{is: probability}, {is: logit} or {is: score}."
        )
    return values


def _arrow(values: object) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise Refused(f"the predicted labels are of several types, or of one that names nothing: {error}.") from None


def _numbers(values: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.float64]:
    try:
        return numbers_of(values, names, "output")
    except DataError:
        raise Refused(f"the predicted labels are of type {values.type}; expected text, integers or booleans.") from None


def _check_comparable(values: pa.Array | pa.ChunkedArray, names: Sequence[str], noun: str) -> None:
    """Numbers for classes of text are positions, most likely, and would all be wrong."""
    kind = values.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not any(_is_number(name) for name in names):
        raise Refused(
            f"the model predicts numbers ({kind}), and none of the task's {noun} names is one: "
            f"{listing(names)}. Return the names themselves."
        )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _is_lists(output: object) -> bool:
    if isinstance(output, pa.Array | pa.ChunkedArray):
        return is_list(output.type)
    return isinstance(output, list)  # of lists: `outputs.py` takes any other for several outputs


def _as_lists(output: Any) -> pa.Array | pa.ChunkedArray:  # Any: checked by _is_lists
    if isinstance(output, pa.Array | pa.ChunkedArray):
        return output
    lists = _arrow([_sorted(one) for one in output])
    if not (is_list(lists.type) or pa.types.is_null(lists.type)):
        raise Refused(f"the predicted sets are of type {lists.type}; expected a list of labels for each row.")
    return lists if is_list(lists.type) else lists.cast(pa.list_(pa.null()))


def _sorted(one: object) -> object:
    return sorted(one, key=str) if isinstance(one, set) else one


def _members(column: pa.Array | pa.ChunkedArray, wanted: Wanted) -> NDArray[np.float64]:
    """[n, C] 1.0 where the label is in the row's list; NaN in all of a row whose list is null."""
    items = items_of(column)
    values, rows, missing = items.values, items.rows, items.missing
    _check_rows(missing, wanted.num_rows)
    flags = np.zeros((len(missing), len(wanted.names)))
    flags[missing] = np.nan
    if pa.types.is_null(values.type):
        return flags
    _check_comparable(values, wanted.names, "label")
    numbers = _numbers(values, wanted.names)
    wrong = ~(numbers >= 0)
    if wrong.any():
        item = int(np.argmax(wrong))
        row = int(rows[item])
        raise Refused(
            f"the predicted set in row {row} of the batch holds {values[item].as_py()!r}, which is no label of the "
            f"task; expected {listing(wanted.names)}. A label that no row has may be declared in labels.",
            row,
        )
    flags[rows, numbers.astype(np.int64)] = 1.0
    return flags
