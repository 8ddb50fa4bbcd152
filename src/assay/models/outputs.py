"""From what a model returned to {task: scores}: which output is the score, and whether it may be one.

Nothing is guessed: an output that could be read in two ways is refused with a sentence that lists the ways. What a task
of several classes or labels takes is read by `matrices.py`, and an interval too.

Axes: n rows of the batch, k columns of a matrix, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.models.matrices import Refused, Wanted, read_classes, read_intervals, read_labels
from assay.models.values import read_values
from assay.spec.model import MAIN_TASK, NO_SCORE, OutputSpec, VariantSpec
from assay.spec.names import nearest
from assay.spec.words import count, listing

Scores = NDArray[np.float32] | NDArray[np.float64]
Outputs = Mapping[str, OutputSpec]
"""{task: which output is its score, and what it means}."""


class TaskOutput(OutputSpec):
    """The output of a task of several classes, or of sets of labels."""

    several: Literal["classes", "labels"]
    names: tuple[str, ...] = ()  # of the C classes or labels, in the order of outputs; none before they are known


class ValueOutput(OutputSpec):
    """An output that is no score: its values are written, or taken by other variants."""

    name: str
    type: str  # as in the spec


def value_outputs(variant: VariantSpec) -> dict[str, OutputSpec]:
    """What the variant gives beside scores, by name."""
    return {name: ValueOutput(select=one.select, name=name, type=one.type) for name, one in variant.outputs.items()}


def resolve_outputs(variant: VariantSpec, outputs: Outputs) -> dict[str, OutputSpec]:
    """The output of every task for one variant: the variant's own where it has one, else the task's.

    `variant.output` holds for every task when it is one output, for the named tasks when it is {task: output}. Where it
    does not say what the score is, the task does; a task's `select` is never taken over, for it points into the output
    that the variant does not have.
    Resolving twice changes nothing.
    """
    own = variant.output
    return {
        task: spec if isinstance(spec, ValueOutput) else _merge(spec, own.get(task) if isinstance(own, dict) else own)
        for task, spec in outputs.items()
    }


def read_scores(
    variant: str, outputs: Outputs, returned: object, num_rows: int
) -> dict[str, Any]:  # Any: as for read_score
    """{task: scores [n]} from what a model returned for n rows, and its other outputs by name; see `read_score`.

    Where a task has no score, 1 stands for a row with all that the variant gives, and NaN for one that lacks any of it.
    """
    without = [task for task, spec in outputs.items() if spec.kind == NO_SCORE]
    found = {
        task: read_score(variant, task, spec, returned, num_rows)
        for task, spec in outputs.items()
        if task not in without
    }
    if without:
        present = np.ones(num_rows, np.bool_)
        for one in found.values():
            present &= _present(one)
        found |= dict.fromkeys(without, np.where(present, 1, np.nan).astype(np.float32))
    return found


def _present(values: Any) -> NDArray[np.bool_]:  # Any: as for read_score
    """[n] which rows have a score, or another output."""
    if isinstance(values, pa.Array):
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    known = np.isfinite(values)
    return np.asarray(known if known.ndim == 1 else known.all(axis=1))


def read_score(variant: str, task: str, spec: OutputSpec, returned: object, num_rows: int) -> Any:  # Any: as below
    """The scores of one task from what a model returned for n rows: [n], but [n, C] of several classes or labels ([n]
    the numbers of predicted classes), and [n, 2] of an interval; see `matrices.py`.

    Taken: an array [n] or [n, 1] (or what numpy makes one of: a Series, an Arrow array, a list of numbers); an array
    [n, k] with `select` the column; a dict with `select` the key, or a tuple or list of arrays with `select` the
    position, of arrays [n] or [n, 1]. Without `select` a dict or tuple must hold one output. Integers and booleans
    become float64, float16 becomes float32. NaN is a missing score; so is an infinite one, unless the output is a
    probability. ModelError for anything else, and for a probability outside [0, 1]. Of an output that is no score, an
    Arrow array [n]; see `values.py`.
    """
    try:
        if returned is None:
            raise Refused(f"the model returned nothing (None) for {count(num_rows, 'row')}; does it lack a return?")
        if isinstance(spec, ValueOutput):
            return read_values(_value(returned, spec), spec.type, num_rows)
        if isinstance(spec, TaskOutput):
            read = read_classes if spec.several == "classes" else read_labels
            return read(_chosen(returned, spec.select), Wanted(spec.kind, spec.names, num_rows))
        if spec.kind == "interval":
            return read_intervals(_chosen(returned, spec.select, pair=True), num_rows)
        return _in_range(_numbers(_one_output(returned, spec.select), num_rows), spec)
    except Refused as refusal:
        what = "outputs" if isinstance(spec, ValueOutput) else "task"
        place = "" if task == MAIN_TASK else f"{what} {task!r}: "
        said = _stretched(returned, spec, num_rows) if refusal.row is None else None
        raise ModelError(variant, place + (said or str(refusal)), refusal.row) from None


def _stretched(returned: object, spec: OutputSpec, num_rows: int) -> str | None:
    """What to say of an array [n, n] that was refused: numpy makes one of a vector and a matrix of one column. Not of
    two rows, whose two columns are more likely the probabilities of no and yes."""
    arrays = returned.values() if isinstance(returned, Mapping) else [returned]
    shapes = [tuple(getattr(array, "shape", ())) for array in arrays]
    expected: tuple[int, ...] = (num_rows,)
    if isinstance(spec, TaskOutput) and not (spec.several == "classes" and spec.kind == "label"):
        expected = (num_rows, len(spec.names))
    elif spec.kind == "interval":
        expected = (num_rows, 2)
    is_list = isinstance(spec, ValueOutput) and spec.type.startswith("list")
    if num_rows < 3 or (num_rows, num_rows) not in shapes or expected == (num_rows, num_rows) or is_list:
        return None
    several = " If each column is a score, choose one with output.select." if expected == (num_rows,) else ""
    return (
        f"the model returned an array of shape {(num_rows, num_rows)} for {num_rows} rows; expected shape {expected}. "
        "A vector [n] and a matrix of one column [n, 1] make [n, n] together: inputs: {b: column} gives a vector, "
        f"inputs: {{b: [column]}} a matrix, of which b[:, 0] is the vector.{several}"
    )


def _merge(spec: OutputSpec, override: OutputSpec | None) -> OutputSpec:
    if override is None:
        return spec
    return spec.model_copy(update={"kind": override.kind or spec.kind, "select": override.select})


def _chosen(returned: object, select: str | int | None, *, pair: bool = False) -> object:
    """The output that `select` points to among several; the only one where there is one. pair: two are one output."""
    if isinstance(returned, Mapping):
        if pair and select is None and len(returned) > 1:
            raise Refused(
                f"the model returned a dict with keys {listing(returned)}; return lower and upper as a pair, or as one "
                "array of shape (n, 2) that output.select points to."
            )
        return _from_mapping(returned, select)
    if isinstance(returned, tuple | list) and not _is_rows(returned):
        return returned if pair and select is None and len(returned) == 2 else _from_sequence(returned, select)
    if select is not None:
        raise Refused(f"output.select is {select!r}, but the model returned one array; remove it.")
    return returned


def _value(returned: object, spec: ValueOutput) -> object:
    """The output that is named or selected: of a dict the entry of its own name, unless `select` says another."""
    if isinstance(returned, Mapping):
        if spec.select is None and spec.name not in returned:
            raise Refused(
                f"the model returned a dict with keys {listing(returned)}, and none is {spec.name!r}"
                f"{_meant(spec.name, returned)}"
            )
        return _from_mapping(returned, spec.name if spec.select is None else spec.select, "select")
    if isinstance(returned, np.ndarray) and returned.ndim == 2 and isinstance(spec.select, int):
        return _one_output(returned, spec.select)
    return _chosen(returned, spec.select)


def _is_rows(returned: tuple[object, ...] | list[object]) -> bool:
    """Whether the items are one for each row: scalars or, in a list, sets of labels as lists."""
    if _is_numbers(returned) or not isinstance(returned, list):
        return _is_numbers(returned)
    return any(one is not None for one in returned) and all(
        one is None or isinstance(one, list | set) for one in returned
    )


def _one_output(returned: object, select: str | int | None) -> NDArray[Any]:  # Any: the dtype is checked next
    """The array [n] or [n, 1] that `select` points to."""
    if isinstance(returned, Mapping):
        return _flat(_from_mapping(returned, select))
    if isinstance(returned, tuple | list) and not _is_numbers(returned):
        return _flat(_from_sequence(returned, select))
    array = np.asarray(returned)
    if select is None or array.ndim != 2:
        if select is not None:
            raise Refused(f"output.select is {select!r}, but the model returned one array of shape {array.shape}.")
        return _flat(array)
    if not isinstance(select, int) or not 0 <= select < array.shape[1]:
        raise Refused(
            f"output.select is {select!r}, but the model returned a matrix with {array.shape[1]} columns; "
            f"select one of 0 to {array.shape[1] - 1}."
        )
    return array[:, select]


def _from_mapping(
    returned: Mapping[Any, object], select: str | int | None, key: str = "output.select"
) -> object:  # Any: keys are the model's
    if select is None and len(returned) == 1:
        return next(iter(returned.values()))
    if select is None:
        raise Refused(
            f"the model returned a dict with keys {listing(returned)}; choose one with output.select. If none is a "
            "score, say output: {is: none}."
        )
    if select not in returned:
        raise Refused(
            f"{key} is {select!r}, but the model returned a dict with keys {listing(returned)}"
            f"{_meant(select, returned)}"
        )
    return returned[select]


def _meant(name: str | int, returned: Mapping[Any, object]) -> str:  # Any: as above
    """The end of a sentence that names all keys."""
    near = nearest(str(name), map(str, returned))
    return "." if near is None else f"; did you mean {near!r}?"


def _from_sequence(returned: tuple[object, ...] | list[object], select: str | int | None) -> object:
    if select is None and len(returned) == 1:
        return returned[0]
    if not isinstance(select, int) or not 0 <= select < len(returned):
        said = "output.select is not set" if select is None else f"output.select is {select!r}"
        raise Refused(
            f"the model returned {len(returned)} outputs and {said}; "
            + (f"select one of 0 to {len(returned) - 1}." if returned else "it must return at least one.")
        )
    return returned[select]


def _is_numbers(returned: tuple[object, ...] | list[object]) -> bool:
    return len(returned) > 0 and np.ndim(returned[0]) == 0 and not isinstance(returned[0], Mapping)  # type: ignore[arg-type]  # any object has an ndim


def _flat(output: object) -> NDArray[Any]:  # Any: the dtype is checked by the caller
    array = np.asarray(output)
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim == 2:
        raise Refused(
            f"the model returned a matrix with {array.shape[1]} columns, 0 to {array.shape[1] - 1}; choose one with "
            "output.select."
        )
    if array.ndim != 1:
        raise Refused(f"the model returned an array of shape {array.shape}; expected one score a row, shape (n,).")
    return array


def _numbers(array: NDArray[Any], num_rows: int) -> Scores:  # Any: checked here
    if array.shape[0] != num_rows:
        raise Refused(f"the model returned {count(array.shape[0], 'score')} for {count(num_rows, 'row')}.")
    if array.dtype.kind not in "fiub":
        raise Refused(f"the model returned scores of type {array.dtype}; expected numbers.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 4:
        return array.astype(np.float32, copy=False)
    return array.astype(np.float64, copy=False)


def _in_range(scores: Scores, spec: OutputSpec) -> Scores:
    if spec.kind == "probability":
        outside = (scores < 0) | (scores > 1)
        if outside.any():
            row = int(np.argmax(outside))
            raise Refused(
                f"the score {scores[row]} in row {row} of the batch is outside [0, 1], but the output is a "
                "probability; if it is none, say output: {is: logit} or {is: score}.",
                row,
            )
        return scores
    infinite = np.isinf(scores)
    return np.where(infinite, np.asarray(np.nan, scores.dtype), scores) if infinite.any() else scores
