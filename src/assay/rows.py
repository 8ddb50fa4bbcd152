"""From a chunk of the source to `Rows`: the filter applied, and each role's column as a checked array.

Lives here: evaluating the spec's texts once per chunk, and the checks of labels and weights, each row named. Not here:
reading files, scoring, metrics.

Axes: n rows of a chunk that pass the filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import DataError
from assay.expressions import Expressions
from assay.hashing import hash_values, row_hash, with_seed
from assay.records import Chunk, Rows, Task, TaskRows
from assay.spec.model import MAIN_TASK, DataSpec
from assay.spec.words import listing
from assay.value_names import is_list, items_of, numbers_of

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
    is no condition; for a chunk, when a label of a binary task is not 0 or 1, a class or label is none of the task's,
    or a weight is negative, NaN, infinite or above the plan's range (row 0 is a file's first).
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
        texts = role_texts(data, tasks) | column_texts(tasks)
        self._expressions = Expressions(schema, texts | _slice_texts(slicer))
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
        cluster, second, null_cluster = self._clusters(roles, hashes)
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
            second_cluster=second,
        )

    def _clusters(
        self, roles: pa.Table, hashes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64] | None, NDArray[np.bool_]]:
        """By the first and the second cluster, and where one of them is null: there each row is its own, as all rows
        are without `cluster`."""
        alone = with_seed(hashes, self._seed)
        null = np.zeros(len(hashes), np.bool_)
        several = []
        for label in cluster_texts(self._data):
            own, missing = hash_values(roles[label], self._seed)
            several.append(np.where(missing, alone, own))
            null |= missing
        return several[0] if several else alone, several[1] if len(several) > 1 else None, null

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
    texts: dict[str, str | None] = {WHERE: data.where, WEIGHT: data.weight, **cluster_texts(data)}
    for task in tasks:
        texts |= label_texts(task)
        texts[where_of(task)] = task.where
    return {label: text for label, text in texts.items() if text is not None}


def cluster_texts(data: DataSpec) -> dict[str, str]:
    """{label of an error: text} of no cluster, of one or of two."""
    if data.cluster is None:
        return {}
    if isinstance(data.cluster, str):
        return {CLUSTER: data.cluster}
    return {f"{CLUSTER}[{position}]": text for position, text in enumerate(data.cluster)}


def label_texts(task: Task) -> dict[str, str]:
    """{label of an error: text} of the label, or of the column of each label of a set; of none where there is none."""
    if not task.has_label:
        return {}
    if task.targets is None:
        return {_label_of(task): task.label}
    return {_target_of(task, name): text for name, text in zip(task.classes, task.targets, strict=True)}


def column_texts(tasks: Sequence[Task]) -> dict[str, str]:
    """{label of an error: text} of what metrics of the spec's own read."""
    return {_column_of(text): text for task in tasks for text in task.columns}


def _label_of(task: Task) -> str:
    return "data.label" if task.name == MAIN_TASK else f"tasks.{task.name}.label"


def _target_of(task: Task, name: str) -> str:
    return f"data.labels.{name}" if task.name == MAIN_TASK else f"tasks.{task.name}.labels.{name}"


def _column_of(text: str) -> str:
    return f"metrics.columns ({text})"


def where_of(task: Task) -> str:
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
    for label in (WHERE, *(where_of(task) for task in tasks)):
        if label in types and not (pa.types.is_boolean(types[label]) or pa.types.is_null(types[label])):
            yield f"{label} is of type {types[label]}. Write a condition: true or false for each row."
    for task in tasks:
        yield from _wrong_labels(types, task)
    for label, text in column_texts(tasks).items():
        if label in types and not _is_numeric(types[label]):
            yield f"{label}: {text!r} is of type {types[label]}, but a metric of your own reads numbers."
    if data.weight is not None and not _is_numeric(types[WEIGHT]):
        yield f"{WEIGHT}: {data.weight!r} is of type {types[WEIGHT]}, but a weight is a number, 0 or more."


def _wrong_labels(types: Mapping[str, pa.DataType], task: Task) -> Iterator[str]:
    for label, text in label_texts(task).items():
        kind, start = types[label], f"{label}: {text!r} is of type {types[label]}, but"
        if task.label_kind == "class":
            if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                yield f"{start} a class is a text, a number, true/false or a date."
        elif task.label_kind == "labels" and task.targets is None:
            if not (is_list(kind) or pa.types.is_null(kind)) or (is_list(kind) and pa.types.is_nested(kind.value_type)):
                yield f"{start} a set of labels is a list of text or numbers; or give labels: {{name: 0/1 column}}."
        elif not _is_numeric(kind):
            advice = "" if task.targets is not None else f" {_label_advice(task, kind)}"
            yield f"{start} a label is a number or true/false.{advice}"


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_numeric(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _label_advice(task: Task, kind: pa.DataType) -> str:
    example = "= 'yes'" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "IS NOT NULL"
    classes = "" if task.classes else " Where it is one of several classes, say `classes: auto`."
    return f'An SQL expression can make it one: "{task.label} {example}".{classes}'


def _task_rows(task: Task, roles: pa.Table, path: str, positions: NDArray[np.int64]) -> TaskRows:
    """A label is checked only on the rows that take part in the task."""
    member = np.ones(len(positions), np.bool_)
    if task.where is not None:
        member = roles[where_of(task)].cast(pa.bool_()).fill_null(False).to_numpy().astype(np.bool_)
    columns = {text: _numbers(roles[_column_of(text)]) for text in task.columns}
    place = _Place(task, path, positions, member)
    if not task.has_label:
        return TaskRows(np.zeros(len(positions)), member)
    if task.label_kind == "labels":
        targets, missing = _flags(roles, place) if task.targets is not None else _sets(roles[_label_of(task)], place)
        return TaskRows(np.where(missing, np.nan, 0.0), member, targets, columns)
    if task.label_kind == "class":
        return TaskRows(_class_numbers(roles[_label_of(task)], place), member, columns=columns)
    label = _numbers(roles[_label_of(task)])
    if task.label_kind == "binary":
        bad = member & ~np.isnan(label) & (label != 0) & (label != 1)
        if bad.any():
            raise DataError(_not_binary(task, label, path, positions, int(np.argmax(bad))))
    return TaskRows(label, member, columns=columns)


class _Place(NamedTuple):
    """Whose label is read, of which rows."""

    task: Task
    path: str
    positions: NDArray[np.int64]  # [n]
    member: NDArray[np.bool_]  # [n]

    def row(self, row: int) -> str:
        return f"row {self.positions[row]} of {self.path!r}"


def _class_numbers(column: pa.ChunkedArray, place: _Place) -> NDArray[np.float64]:
    """[n] the number of each row's class, NaN where null; 0.0 for an unknown class of a row that takes no part."""
    task = place.task
    numbers = numbers_of(column, task.classes, _label_of(task))
    unknown = numbers < 0
    bad = unknown & place.member
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{_label_of(task)}: {task.label!r} is {column[row].as_py()!r} in {place.row(row)}, which is none of the "
            f"classes {listing(task.classes)}. Add it to them, or leave such rows out with where."
        )
    return np.where(unknown, 0.0, numbers)


def _sets(column: pa.ChunkedArray, place: _Place) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """[C, n] which labels are in each row's list, and [n] where the list is null."""
    task = place.task
    targets = np.zeros((len(task.classes), len(column)), np.uint8)
    if pa.types.is_null(column.type):
        return targets, np.ones(len(column), np.bool_)
    items = items_of(column)
    numbers = numbers_of(items.values, task.classes, _label_of(task))
    known, rows = numbers >= 0, items.rows
    bad = ~known & place.member[rows]
    if bad.any():
        item = int(np.argmax(bad))
        where = place.row(int(rows[item]))
        if np.isnan(numbers[item]):
            raise DataError(
                f"{_label_of(task)}: a list of {task.label!r} holds a null in {where}. Take it out; the list of a row "
                "without labels is empty, and a list that is not known is null as a whole."
            )
        raise DataError(
            f"{_label_of(task)}: a list of {task.label!r} holds {items.values[item].as_py()!r} in {where}, which is "
            f"none of the labels {listing(task.classes)}. Add it to them, or leave such rows out with where."
        )
    targets[numbers[known].astype(np.int64), rows[known]] = 1
    return targets, items.missing


def _flags(roles: pa.Table, place: _Place) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """[C, n] the 0/1 column of each label, and [n] where any of them is null."""
    flags = np.zeros((len(place.task.classes), len(place.positions)))
    for number, (label, text) in enumerate(label_texts(place.task).items()):
        flags[number] = _numbers(roles[label])
        bad = place.member & ~np.isnan(flags[number]) & (flags[number] != 0) & (flags[number] != 1)
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"{label}: {text!r} is {flags[number, row]:g} in {place.row(row)}, but the column of a label holds 0 "
                f'and 1 only. Write a condition, such as "{text} > 0".'
            )
    return (flags == 1).astype(np.uint8), np.asarray(np.isnan(flags).any(axis=0))


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
