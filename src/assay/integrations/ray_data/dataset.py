"""A Ray dataset as a source of an evaluation: its blocks stay in the object store, workers fetch what they score.

Lives here: running the dataset, what is known of its blocks, and rows by their position in it. Not here: which types
they have (`block_types.py`), and how a spec names a dataset (`readers.py`).

A dataset's blocks are cut differently on different Ray clusters. So nothing depends on them: rows are numbered through,
and row groups are as many rows as suit their size, whatever blocks they lie in.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray import ObjectRef
from ray.data import Dataset
from ray.data.block import BlockAccessor
from ray.exceptions import RayTaskError

from assay.cluster.connect import first_line
from assay.errors import AssayError, DataError
from assay.integrations.ray_data.block_types import as_types, one_schema
from assay.integrations.ray_data.fetching import Expected, check_block, fetched, marks_of, num_lost, patience_for
from assay.records import Chunk, ColumnStatistics, Fragment, Unit
from assay.sources.frame import FrameSource
from assay.sources.row_groups import group_rows, in_groups

PATH = "dataset"
WHOLE_FRACTION = 0.5
"""Of a block, above which it is fetched whole; of less the part is cut out where it lies, and fetched alone."""

Block = Any  # Any: a table of Arrow, or of pandas


class DatasetSource:
    """The rows of a Ray dataset, in its order.

    The dataset is run when this is made, and its blocks are kept in the object store, which spills to disk, as long as
    this is: each node's memory is bounded, and a lost block is made again by Ray where it can be, and is checked to be
    what it was. A run over it cannot be resumed: its content has no digest. This process sees no row but those of
    samples.

    Raises DataError: the dataset cannot be run, has no rows, or blocks with columns that differ.
    """

    resumable = False
    executor = "ray"
    whence = "a Ray dataset"

    def __init__(self, dataset: Dataset) -> None:
        started = time.monotonic()
        refs = _run(dataset)
        self._patience = patience_for(time.monotonic() - started)
        with told("The dataset cannot be read"):
            facts: list[_Facts] = ray.get([_measure.remote(ref) for ref in refs])
        filled = [(ref, one) for ref, one in zip(refs, facts, strict=True) if one.rows]
        if not filled:
            raise DataError(
                "The data have no rows: the dataset is empty. Look at its filters; there is nothing to score."
            )
        self._refs = tuple(ref for ref, _ in filled)
        self._num_small = num_lost(self._refs)  # blocks that are in no store, but in this process
        self._bytes = tuple(one.bytes for _, one in filled)  # of each column of each block
        self._starts: NDArray[np.int64] = np.cumsum([0, *(one.rows for _, one in filled)])
        self.original, self.schema = one_schema([one.schema for _, one in filled])
        names = self.schema.names
        self._marks = np.array([[one.marks[name] for name in names] for _, one in filled], np.uint64)  # [block, column]
        rows, size = int(self._starts[-1]), sum(sum(one.bytes.values()) for _, one in filled)
        self._group_rows = group_rows(rows, size)
        groups = in_groups(rows, self._group_rows)
        self.fragments = (Fragment(PATH, size, _digest(self.schema, rows), groups),)
        self._known: dict[str, tuple[_Column, ...]] = {}

    def statistics(self, column: str) -> ColumnStatistics | None:
        """As of a frame; a pass over this column, by tasks where its blocks lie."""
        if column not in self.schema.names:
            return None
        every = [one.statistics for one in self._columns(column)]
        minima = [one.minimum for one in every if one.minimum is not None]
        maxima = [one.maximum for one in every if one.maximum is not None]
        return ColumnStatistics(
            min(minima) if minima else None, max(maxima) if maxima else None, sum(one.num_nulls or 0 for one in every)
        )

    def first_values(self, column: str) -> Mapping[str, tuple[float, ...]] | None:
        """As of a frame; a pass over this column, by tasks where its blocks lie."""
        if column not in self.schema.names:
            return None
        least = [np.inf] * len(self.fragments[0].row_groups or ())
        for one in self._columns(column):
            for group, value in one.least:
                if value is None:
                    return None
                least[group] = min(least[group], value)
        return {PATH: tuple(least)}

    def column_bytes(self, column: str) -> int:
        """See SizedSource."""
        return sum(one.get(column, 0) for one in self._bytes)

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """One chunk for each row group, or part of one, that the unit spans."""
        return self._chunks(unit, pa.schema([self.schema.field(name) for name in columns]))

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        """See OriginalSource; in the same pieces."""
        return self._chunks(unit, pa.schema([self.original.field(name) for name in columns]))

    def num_missing(self) -> int | None:
        """See FragileSource; None where Ray does not say."""
        lost = num_lost(self._refs)
        return None if lost is None or self._num_small is None else max(0, lost - self._num_small)

    def _chunks(self, unit: Unit, schema: pa.Schema) -> Iterator[Chunk]:
        stop = int(self._starts[-1]) if unit.num_rows is None else unit.first_row + unit.num_rows
        start = unit.first_row
        while start < stop:
            end = min(stop, (start // self._group_rows + 1) * self._group_rows)
            yield Chunk(PATH, start, self._rows(start, end, schema))
            start = end

    def _rows(self, start: int, stop: int, schema: pa.Schema) -> pa.Table:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        spans = [
            (block, max(0, start - int(self._starts[block])), min(stop, int(end)) - int(self._starts[block]))
            for block, end in zip(range(first, last), self._starts[first + 1 : last + 1], strict=True)
        ]
        what = f"Rows {start} to {stop}"
        with told(f"{what} of the dataset cannot be had"):
            tables = [self._part(what, block, begin, end, schema.names) for block, begin, end in spans]
        return pa.concat_tables(as_types(table, schema) for table in tables).unify_dictionaries()

    def _part(self, what: str, block: int, begin: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Rows of a block, by whichever way moves less."""
        ref, sizes, expected = self._refs[block], self._bytes[block], self._expected(block, columns)
        wanted = sum(sizes[name] for name in columns) * (end - begin) / expected.rows
        if wanted < WHOLE_FRACTION * sum(sizes.values()):
            call = _cut.remote(ref, begin, end, expected)
            cut: pa.Table = fetched(call, self.num_missing, what, self._patience)
            return cut
        table = _table(fetched(ref, self.num_missing, what, self._patience))
        check_block(table, expected)
        return table.select(list(columns)).slice(begin, end - begin)

    def _expected(self, block: int, columns: Sequence[str]) -> Expected:
        marks = dict(zip(self.schema.names, self._marks[block].tolist(), strict=True))
        rows = int(self._starts[block + 1] - self._starts[block])
        return Expected(rows, {name: marks[name] for name in columns})

    def _columns(self, column: str) -> tuple[_Column, ...]:
        """What each block says of one column."""
        if column not in self._known:
            field = self.schema.field(column)
            with told(f"The column {column!r} of the dataset cannot be read"):
                found = ray.get(
                    [
                        _describe.remote(ref, int(start), field, self._group_rows)
                        for ref, start in zip(self._refs, self._starts[:-1], strict=True)
                    ]
                )
            self._known[column] = tuple(found)
        return self._known[column]


class _Facts(NamedTuple):
    rows: int
    schema: pa.Schema
    bytes: Mapping[str, int]  # of each column
    marks: Mapping[str, int]  # likewise


class _Column(NamedTuple):
    """One column in one block."""

    statistics: ColumnStatistics
    least: tuple[tuple[int, float | None], ...]  # (row group, least value in the block's part of it)


def _run(dataset: Dataset) -> list[ObjectRef[pa.Table]]:
    """All blocks, in the order of the dataset, whose own settings stay as they are."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        with told("The dataset cannot be read"):
            return list(dataset.materialize().to_arrow_refs())
    finally:
        options.preserve_order = before


@contextmanager
def told(what: str) -> Iterator[None]:
    """What is raised by Ray, by what reads, or by a function of the user's, as a DataError with its first line."""
    try:
        yield
    except AssayError as error:
        if isinstance(error, RayTaskError):  # one that a task raised is of both kinds
            raise error.cause from error
        raise
    except Exception as error:
        raise DataError(f"{what}: {_reason(error).rstrip('.')}.") from error


def _reason(error: Exception) -> str:
    """What a user's function raised, which Ray Data puts in the text of an error of its own; else the error itself."""
    before, mark, _ = str(error).partition("The above exception was the direct cause")
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    return lines[-1] if mark and lines else first_line(error)


def _table(block: Block) -> pa.Table:
    return block if isinstance(block, pa.Table) else BlockAccessor.for_block(block).to_arrow()


@ray.remote
def _measure(block: Block) -> _Facts:
    table = _table(block)
    sizes = {name: table.column(position).nbytes for position, name in enumerate(table.column_names)}
    if len(sizes) < table.num_columns:  # two of one name, which is said of the schema
        return _Facts(table.num_rows, table.schema, sizes, dict.fromkeys(sizes, 0))
    return _Facts(table.num_rows, table.schema, sizes, marks_of(table, table.column_names))


@ray.remote
def _describe(block: Block, start: int, field: pa.Field, rows: int) -> _Column:
    """start: the block's first row in the dataset. rows: of a row group."""
    table = as_types(_table(block), pa.schema([field]))
    cuts = sorted({0, table.num_rows, *range(-start % rows, table.num_rows, rows)})
    least = tuple(
        ((start + begin) // rows, _least(table.slice(begin, end - begin), field.name)) for begin, end in pairwise(cuts)
    )
    found = FrameSource(table).statistics(field.name)
    assert found is not None, "the table has the column"
    return _Column(found, least)


def _least(table: pa.Table, column: str) -> float | None:
    known = FrameSource(table).first_values(column)
    return None if known is None else min(value for values in known.values() for value in values)


@ray.remote(num_cpus=0)  # workers may have taken all CPUs, and wait for it
def _cut(block: Block, begin: int, end: int, expected: Expected) -> pa.Table:
    table = _table(block)
    check_block(table, expected)
    return table.select(list(expected.marks)).slice(begin, end - begin)


def _digest(schema: pa.Schema, rows: int) -> str:
    return hashlib.sha256(f"{schema} {rows}".encode()).hexdigest()[:32]
