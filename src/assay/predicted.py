"""What variants gave for the rows of units: gathered while a unit is scored, written with a flush, read by the join.

Lives here: the narrow form of predictions between a worker and the join: row positions and outputs. Not here: calling
models (`scoring.py`), and what is read beside them from the source (`pipeline/join.py`).

An object is an Arrow IPC file. Its schema's metadata says which batches are those of which unit, so that a join reads
those of its own units alone. Equal outputs are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assay.errors import ModelError, RunError
from assay.records import Predicted, Task
from assay.spec.model import OutputKind, ScoreType

POSITION = "position"
REASON = ""
"""The output of a variant that is no output, but says why a row has none: text, null where it has one."""
BATCH_ROWS = 65_536
_UNITS = b"assay.units"

Scores = NDArray[np.floating[Any]]  # Any: float32 or float64


class Key(NamedTuple):
    """Whose output it is, and which: a task, or another output that the spec names."""

    variant: str
    output: str


class Span(NamedTuple):
    """Where the rows of one unit lie in an object."""

    unit: str
    first_batch: int
    num_batches: int
    num_rows: int


def key(variant: str, output: str) -> str:
    """The column's name in an object.

    >>> key("new", "main"), key_of(key("new", "main"))
    ('["new","main"]', Key(variant='new', output='main'))
    """
    return json.dumps([variant, output], separators=(",", ":"), ensure_ascii=False)


def key_of(name: str) -> Key:
    return Key(*json.loads(name))


# ---- gathering -------------------------------------------------------------------------------------------------------


class Capture:
    """The outputs of one unit as it is scored, chunk by chunk."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._positions: list[NDArray[np.int64]] = []
        self._columns: dict[str, dict[int, pa.Array]] = {}  # by name, then by chunk

    def begin(self, positions: NDArray[np.int64]) -> None:
        """A chunk with these rows."""
        self._positions.append(positions)

    def add(self, variant: str, output: str, values: pa.Array) -> None:
        """Of the chunk that was begun last, a value for each of its rows."""
        self._columns.setdefault(key(variant, output), {})[len(self._positions) - 1] = values

    def whole(self, failed: Collection[str] = ()) -> Predicted:
        """All of it, less what these variants gave."""
        rows = [len(one) for one in self._positions]
        columns = {POSITION: pa.chunked_array([pa.array(one) for one in self._positions], pa.int64())}
        for name in sorted(self._columns):
            if key_of(name).variant not in failed:
                columns[name] = _filled(self._columns[name], rows)
        return Predicted(self._unit, pa.table(columns))


def _filled(parts: Mapping[int, pa.Array], rows: Sequence[int]) -> pa.ChunkedArray:
    kind = widest([part.type for part in parts.values()])
    return pa.chunked_array(
        [parts[at].cast(kind) if at in parts else pa.nulls(number, kind) for at, number in enumerate(rows)], kind
    )


def in_type(kind: pa.DataType, chosen: ScoreType | None) -> pa.DataType:
    """A score's type with the numbers of the type that the spec chooses.

    >>> in_type(pa.list_(pa.float64(), 3), "float32")
    FixedSizeListType(fixed_size_list<item: float>[3])
    """
    if chosen is None:
        return kind
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(in_type(kind.value_type, chosen), kind.list_size)
    return pa.type_for_alias(chosen)


def misfits(scores: Scores, chosen: ScoreType) -> NDArray[np.bool_]:
    """[n] or [n, k] which numbers a type cannot hold; none of a row whose score is missing.

    >>> misfits(np.array([1.0, np.nan, 0.5, 200.0]), "int8")
    array([False, False,  True,  True])
    >>> misfits(np.array([0.1, 1e300]), "float32")
    array([False,  True])
    """
    kind = np.dtype(chosen)
    with np.errstate(over="ignore"):
        fits = np.isfinite(scores.astype(kind)) if kind.kind == "f" else _are_whole(scores, np.iinfo(kind))
    known = np.isfinite(scores)
    return np.asarray((known if scores.ndim == 1 else known.all(axis=1, keepdims=True)) & ~fits)


def _are_whole(scores: Scores, limits: np.iinfo[Any]) -> NDArray[np.bool_]:
    inside = (scores >= float(limits.min)) & (scores < float(limits.max) + 1)
    return np.asarray(inside & (scores == np.trunc(scores)))


def as_output(scores: Scores, kind: OutputKind, task: Task | None, chosen: ScoreType | None = None) -> pa.Array:
    """[n] in the type that the model gave, or in a chosen one; lists of C or two where it gave so many, the name of a
    predicted class; null where a score is missing. chosen: one without `misfits`."""
    if task is not None and task.label_kind == "class" and kind == "label":
        missing = np.asarray(~np.isfinite(scores))
        names = pa.array(task.classes, pa.string())
        return names.take(pa.array(np.where(missing, 0, scores).astype(np.int64), mask=missing))
    numbers = scores if chosen is None else np.where(np.isfinite(scores), scores, 0).astype(chosen)
    if scores.ndim == 1:
        return pa.array(numbers, mask=~np.isfinite(scores))
    missing = np.asarray(~np.isfinite(scores).all(axis=1))
    flat = pa.array(np.ascontiguousarray(numbers).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, scores.shape[1], mask=pa.array(missing))


def as_input(scores: Scores, kind: OutputKind, task: Task | None) -> pa.Array:
    """[n] the same as another variant takes it: missing lists are lists of NaN, so that they are a matrix."""
    if scores.ndim == 1:
        return as_output(scores, kind, task)
    missing = np.asarray(~np.isfinite(scores).all(axis=1))
    filled = np.where(missing[:, None], np.asarray(np.nan, scores.dtype), scores)
    return pa.FixedSizeListArray.from_arrays(pa.array(filled.reshape(-1)), scores.shape[1])


def without_null_lists(values: pa.Array) -> pa.Array:
    """The same, with lists of NaN in the place of missing lists of floats."""
    kind = values.type
    is_matrix = pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type)
    if not is_matrix or not values.null_count:
        return values
    size = kind.list_size
    flat = pa.array(np.full(len(values) * size, np.nan), kind.value_type)
    return pc.if_else(values.is_valid(), values, pa.FixedSizeListArray.from_arrays(flat, size))


def joined_values(variant: str, output: str, parts: Sequence[pa.Array]) -> pa.Array:
    """[n] one of the other outputs, from what several calls gave. ModelError where they are of several types."""
    kinds = list(dict.fromkeys(part.type for part in parts))
    if len(kinds) > 1:
        raise ModelError(
            variant, f"outputs: {output!r} is of type {kinds[0]} for some rows and of type {kinds[1]} for others."
        )
    return pa.concat_arrays(parts)


def widest(types: Iterable[pa.DataType]) -> pa.DataType:
    """The type that holds the values of all; RunError where there is none."""
    found: pa.DataType | None = None
    for one in types:
        found = one if found is None else _wider(found, one)
    return pa.float64() if found is None else found


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return left if left.bit_width >= right.bit_width else right
    if pa.types.is_fixed_size_list(left) and pa.types.is_fixed_size_list(right) and left.list_size == right.list_size:
        return pa.list_(_wider(left.value_type, right.value_type), left.list_size)
    raise RunError(f"A variant gave outputs of type {left} and of type {right}; give all of one type.")


# ---- an object -------------------------------------------------------------------------------------------------------


def encode(units: Iterable[Predicted]) -> bytes:
    """An object with the outputs of these units, by unit."""
    ordered = sorted(units, key=lambda one: one.unit)
    kinds: dict[str, list[pa.DataType]] = {}
    for one in ordered:
        for column in one.table.schema:
            kinds.setdefault(column.name, []).append(column.type)
    names = [POSITION, *sorted(name for name in kinds if name != POSITION)]
    schema = pa.schema([pa.field(name, widest(kinds.get(name, [pa.int64()]))) for name in names])
    batches: list[pa.RecordBatch] = []
    spans = []
    for one in ordered:
        own = _with_columns(one.table, schema).combine_chunks().to_batches(BATCH_ROWS)
        spans.append(Span(one.unit, len(batches), len(own), one.table.num_rows))
        batches += own
    sink = pa.BufferOutputStream()
    described = schema.with_metadata({_UNITS: json.dumps(spans, separators=(",", ":"))})
    with pa.ipc.new_file(sink, described, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in batches:
            writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Contents:
    """What an object says that it holds."""

    schema: pa.Schema
    spans: tuple[Span, ...]


def contents(source: Any, what: str) -> Contents:  # Any: what Arrow opens, a buffer or a file
    """what: the object, as the subject of a sentence. RunError when it is not of this form."""
    try:
        schema = pa.ipc.open_file(source).schema
        return Contents(schema.remove_metadata(), tuple(Span(*one) for one in json.loads(schema.metadata[_UNITS])))
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{what} is torn or holds no outputs ({str(error).splitlines()[0]}).") from error


def read_span(source: Any, span: Span, schema: pa.Schema, what: str) -> pa.Table:  # Any: as above
    """The rows of one unit, with the columns of `schema`: null where the object has none of them."""
    try:
        reader = pa.ipc.open_file(source)
        batches = [reader.get_batch(span.first_batch + number) for number in range(span.num_batches)]
        table = pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, IndexError) as error:
        raise RunError(f"{what} cannot be read ({str(error).splitlines()[0]}).") from error
    if table.num_rows != span.num_rows:
        raise RunError(f"{what} holds {table.num_rows} rows of unit {span.unit}, but says that it has {span.num_rows}.")
    return _with_columns(table, schema).combine_chunks()


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[one.name].cast(one.type) if one.name in table.schema.names else pa.nulls(table.num_rows, one.type)
        for one in schema
    ]
    return pa.table(columns, schema=schema.remove_metadata())
