"""From a chunk of the source to `Rows`: the filter applied, and each role's column as a checked array.

Lives here: evaluating the spec's texts once per chunk, and the checks of labels and weights, each row named. Not here:
reading files, scoring, metrics.

Axes: n rows of a chunk that pass the filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import DataError
from assay.expressions import Expressions
from assay.hashing import hash_values, row_hash, with_seed
from assay.records import Chunk, Rows, Task, TaskRows
from assay.spec.model import MAIN_TASK, DataSpec

WHERE = "data.where"
WEIGHT = "data.weight"
CLUSTER = "data.cluster"
WEIGHT_LIMIT = 1 << 26
"""The largest integer weight: with a contribution below 2^37, their product fits 63 bits."""


class Slicer(Protocol):
    """What finds the slices of rows: `assay.slices.SliceEncoder`."""

    @property
    def expressions(self) -> Mapping[str, str]: ...  # {dimension: text} to be computed
    def __call__(self, columns: pa.Table) -> NDArray[np.int32]: ...  # [D, n] of columns named by dimension


class RowReader:
    """Reads chunks as rows in their roles.

    schema: the source's. slicer: of the plan's slices. weight_exponent: the plan's. model_columns: what models read.

    Raises DataError at once for texts that don't fit the schema, a label or weight that is no number, and a filter that
    is no condition; for a chunk, when a label of a binary task is not 0 or 1 or a weight is negative, NaN, infinite or
    above the plan's range (row 0 is a file's first).
    """

    columns: tuple[str, ...]
    """All that must be read, in the schema's order."""

    def __init__(
        self,
        schema: pa.Schema,
        data: DataSpec,
        tasks: Sequence[Task],
        slicer: Slicer,
        weight_exponent: int,
        seed: int,
        model_columns: Sequence[str],
    ) -> None:
        self._data = data
        self._tasks = tuple(tasks)
        self._slicer = slicer
        self._weight_exponent = weight_exponent
        self._seed = seed
        self._model_columns = tuple(model_columns)
        self._expressions = Expressions(schema, role_texts(data, tasks) | _slice_texts(slicer))
        check_types(self._expressions.types, data, tasks)
        wanted = {*self._expressions.columns, *model_columns}
        self.columns = tuple(name for name in schema.names if name in wanted)

    def __call__(self, chunk: Chunk) -> Rows:
        """The chunk's rows that pass the filter; its table holds `columns`, at least."""
        try:
            roles = self._expressions.evaluate(chunk.table)
        except DataError as error:
            raise DataError(f"In the file {chunk.path!r}, rows from {chunk.first_row}: {error}") from None
        table = chunk.table.select(self._model_columns)
        positions = np.arange(chunk.first_row, chunk.first_row + chunk.table.num_rows, dtype=np.int64)
        if self._data.where is not None:
            kept = roles[WHERE].cast(pa.bool_()).fill_null(False)  # NULL alone is of no type
            table, roles = table.filter(kept), roles.filter(kept)
            positions = positions[kept.to_numpy()]
        return self._rows(chunk, table, roles, positions)

    def _rows(self, chunk: Chunk, table: pa.Table, roles: pa.Table, positions: NDArray[np.int64]) -> Rows:
        hashes = row_hash(chunk.path, positions)
        cluster, null_cluster = self._clusters(roles, hashes)
        dimensions = [roles[_slice_label(name)] for name in self._slicer.expressions]
        return Rows(
            path=chunk.path,
            num_read=chunk.table.num_rows,
            positions=positions,
            first_row=chunk.first_row,
            table=table,
            tasks={task.name: _task_rows(task, roles, chunk.path, positions) for task in self._tasks},
            weight=self._weights(roles, chunk.path, positions),
            slices=_slices(self._slicer, dimensions, len(positions)),
            cluster=cluster,
            null_cluster=null_cluster,
            row_hash=hashes,
        )

    def _clusters(self, roles: pa.Table, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Without `cluster` each row is its own, and none is null."""
        alone = with_seed(hashes, self._seed)
        if self._data.cluster is None:
            return alone, np.zeros(len(hashes), np.bool_)
        own, missing = hash_values(roles[CLUSTER], self._seed)
        return np.where(missing, alone, own), missing

    def _weights(self, roles: pa.Table, path: str, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] integer weights, rounded half to even; 0 only where the weight is, so that no row vanishes by rounding.

        A unit is 2^-26 of the largest weight that the plan can hold; a row counts for too much by less than that.
        """
        if self._data.weight is None:
            return np.ones(len(positions), np.int64)
        column = roles[WEIGHT]
        values, missing = _numbers(column), _is_null(column)
        bad = ~missing & ~(np.isfinite(values) & (values >= 0))
        _refuse_weight(bad, values, path, positions, self._data.weight, "Weights are finite numbers, 0 or more.")
        scaled = np.rint(np.ldexp(np.where(missing, 0.0, values), -self._weight_exponent))
        limit = WEIGHT_LIMIT * 2.0**self._weight_exponent
        advice = f"It is above {limit:g}, the most that this plan can hold. Set data.weight_max to the largest weight."
        _refuse_weight(scaled > WEIGHT_LIMIT, values, path, positions, self._data.weight, advice)
        return np.where(missing, -1, np.maximum(scaled, values > 0)).astype(np.int64)


def role_texts(data: DataSpec, tasks: Sequence[Task]) -> dict[str, str]:
    """{label of an error: text} of the filter, weight, cluster and tasks, for `Expressions`."""
    texts = {WHERE: data.where, WEIGHT: data.weight, CLUSTER: data.cluster}
    for task in tasks:
        texts[_label_of(task)] = task.label
        texts[_where_of(task)] = task.where
    return {label: text for label, text in texts.items() if text is not None}


def _label_of(task: Task) -> str:
    return "data.label" if task.name == MAIN_TASK else f"tasks.{task.name}.label"


def _where_of(task: Task) -> str:
    return f"tasks.{task.name}.where"


def _slice_label(dimension: str) -> str:
    return f"data.slices ({dimension})"


def _slice_texts(slicer: Slicer) -> dict[str, str]:
    return {_slice_label(name): text for name, text in slicer.expressions.items()}


def _slices(slicer: Slicer, columns: Sequence[pa.ChunkedArray], num_rows: int) -> NDArray[np.int32]:
    if not columns:  # a table without columns has no rows either
        return np.zeros((1, num_rows), np.int32)
    return slicer(pa.table(list(columns), names=list(slicer.expressions)))


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_types(types: Mapping[str, pa.DataType], data: DataSpec, tasks: Sequence[Task]) -> None:
    """types: of each of `role_texts`. DataError with a line for each that cannot play its role."""
    wrong = list(_wrong_types(types, data, tasks))
    if wrong:
        raise DataError("\n".join(wrong))


def _wrong_types(types: Mapping[str, pa.DataType], data: DataSpec, tasks: Sequence[Task]) -> Iterator[str]:
    for label in (WHERE, *(_where_of(task) for task in tasks)):
        if label in types and not (pa.types.is_boolean(types[label]) or pa.types.is_null(types[label])):
            yield f"{label} is of type {types[label]}. Write a condition: true or false for each row."
    for task in tasks:
        kind = types[_label_of(task)]
        if not _is_numeric(kind):
            yield (
                f"{_label_of(task)}: {task.label!r} is of type {kind}, but a label is a number or true/false. "
                f"{_label_advice(task, kind)}"
            )
    if data.weight is not None and not _is_numeric(types[WEIGHT]):
        yield f"{WEIGHT}: {data.weight!r} is of type {types[WEIGHT]}, but a weight is a number, 0 or more."


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_numeric(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _label_advice(task: Task, kind: pa.DataType) -> str:
    example = "= 'yes'" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "IS NOT NULL"
    return f'An SQL expression can make it one: "{task.label} {example}".'


def _task_rows(task: Task, roles: pa.Table, path: str, positions: NDArray[np.int64]) -> TaskRows:
    """A label is checked only on the rows that take part in the task."""
    label = _numbers(roles[_label_of(task)])
    member = np.ones(len(positions), np.bool_)
    if task.where is not None:
        member = roles[_where_of(task)].cast(pa.bool_()).fill_null(False).to_numpy().astype(np.bool_)
    if task.label_kind == "binary":
        bad = member & ~np.isnan(label) & (label != 0) & (label != 1)
        if bad.any():
            raise DataError(_not_binary(task, label, path, positions, int(np.argmax(bad))))
    return TaskRows(label, member)


def _not_binary(task: Task, label: NDArray[np.float64], path: str, positions: NDArray[np.int64], row: int) -> str:
    return (
        f"{_label_of(task)}: {task.label!r} is {label[row]:g} in row {positions[row]} of {path!r}, but the metrics of "
        f'this label take 0 and 1 only. Write a condition as the label, such as "{task.label} > 0".'
    )


def _refuse_weight(
    bad: NDArray[np.bool_], values: NDArray[np.float64], path: str, positions: NDArray[np.int64], text: str, advice: str
) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{WEIGHT}: {text!r} is {values[row]:g} in row {positions[row]} of {path!r}. {advice}")


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """[n] float64, NaN where null."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_boolean(plain.type):
        plain = plain.cast(pa.int8())
    if pa.types.is_null(plain.type):
        return np.full(len(plain), np.nan)
    numbers: NDArray[np.float64] = plain.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    return numbers


def _is_null(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = column.is_null().to_numpy().astype(np.bool_)
    return missing
