"""The best rows of each group, for each variant: found in three passes over what was scored, wherever its rows lie.

First each piece of the data gives its own best rows, at most k of each group and variant. These candidates are then
brought together by hashes of their groups, a range of hashes at a time, and the k best of each group remain. In the end
each piece is read again for the columns of its rows among them, so that wide columns are read where they are written.
No pass holds more than a stretch of pieces, or the candidates of a range of hashes.

The best are those of the largest score; of equal ones, those that come first in the data: by file, then by row. A row
without a score is none of them, and neither is one whose group is null or NaN.

Axes: n rows of a piece, m candidates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay import build
from assay.errors import Fault, RunError, SpecError
from assay.hashing import bucket_of, hash_values
from assay.pipeline.carried import taken
from assay.pipeline.columns import PROVENANCE, VARIANT, Columns, OutputColumn
from assay.pipeline.declared import original_schema
from assay.pipeline.join import Join, Joined, Piece
from assay.predicted import key, widest
from assay.protocols import Source, Work
from assay.records import Task
from assay.sources.plain import plain_type
from assay.spec.model import MAIN_TASK, Spec, WorkersSpec
from assay.spec.names import offer
from assay.spec.words import agree, count
from assay.store.run import RunDirectory

RANK, SCORE = "_rank", "_score"
ADDED = (VARIANT, RANK, SCORE)
"""Columns of the output that are neither the data's nor provenance."""
FOLDER = "top-k"
NUM_SHARDS = 1024
"""Ranges of hashes that candidates are ordered by: the finest that they can be brought together in."""
RANGE_BYTES = 64 << 20
"""Of candidates that are brought together at once."""
ROW_BYTES = 48
"""What a candidate is taken to need."""
BATCH_ROWS = 65_536
_INDEX = b"assay.index"

Integers = NDArray[np.int64]
Mapped = Callable[[Work, Sequence[Any]], list[Any]]
"""What a work makes of each item, in their order. Any: as in `Executor.map`."""


class Best(NamedTuple):
    """Rows that are the best of their groups, group by group, the best first."""

    rows: Integers  # [m] their numbers
    rank: Integers  # [m] from 1


def best_of(
    groups: NDArray[np.integer[Any]], scores: NDArray[np.float64], k: int, order: Integers | None = None
) -> Best:
    """The k largest scores of each group. groups: [n] numbers; any width. order: [n] who comes first of equal scores;
    None: as they stand. No score may be NaN.

    >>> best_of(np.array([7, 3, 7, 7]), np.array([0.5, 0.1, 0.9, 0.5]), k=2)
    Best(rows=array([1, 2, 0]), rank=array([1, 1, 2]))
    """
    by = (-scores, groups) if order is None else (order, -scores, groups)
    rows = np.lexsort(by)
    sorted_groups = groups[rows]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = sorted_groups[1:] != sorted_groups[:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
    rank = np.arange(len(rows)) - first + 1
    return Best(rows[rank <= k], rank[rank <= k])


# ---- what is asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranked:
    """What is ranked, and what is written of it."""

    k: int
    group: pa.Field  # as the source has it
    columns: Columns  # that are carried over
    outputs: tuple[OutputColumn, ...]  # the score of each variant

    @property
    def schema(self) -> pa.Schema:
        score = widest([one.kind for one in self.outputs])
        kinds = (pa.string(), pa.int32(), score)
        added = [pa.field(name, kind) for name, kind in zip(ADDED, kinds, strict=True)]
        provenance = PROVENANCE if self.columns.provenance else ()
        first, *others = self.read.carried
        return pa.schema([first, *added, *provenance, *others], self.columns.metadata)

    @property
    def read(self) -> Columns:
        """What is read of the data for it, the group and what is carried over; and all that variants gave, since a row
        that lacks any of it is a dead letter."""
        others = (field for field in self.columns.carried if field.name != self.group.name)
        return replace(self.columns, carried=(self.group, *others))


def ranked(spec: Spec, tasks: Sequence[Task], source: Source, columns: Columns) -> Ranked | None:
    """None where all rows are written. SpecError: no such group, scores that have no order, names that are taken."""
    said = None if spec.predictions is None else spec.predictions.top_k
    if said is None:
        return None
    schema = original_schema(source)
    task = next(one for one in tasks if said.task in (None, one.name))
    faults = [*_group_faults(said.group, schema), *_order_faults(spec, task), *_name_faults(said.group, columns)]
    if faults:
        raise SpecError(faults)
    outputs = tuple(one for one in columns.outputs if one.key.output == task.name)
    return Ranked(said.k, schema.field(said.group), columns, outputs)


def _group_faults(group: str, schema: pa.Schema) -> Iterator[Fault]:
    path = "predictions.top_k.group"
    if group not in schema.names:
        yield Fault(path, f"there is no column {group!r}{offer(group, schema.names)}")
    elif pa.types.is_nested(_stored(schema.field(group).type)):
        yield Fault(path, f"the column {group!r} is of type {schema.field(group).type}; a group is one value.")


def _order_faults(spec: Spec, task: Task) -> Iterator[Fault]:
    several = {"class": "several classes", "labels": "sets of labels"}.get(task.label_kind)
    if several is None:
        intervals = (one.name for one in spec.variants if build.outputs_of(spec, one)[task.name].kind == "interval")
        several = next((f"intervals, as {name!r} gives," for name in intervals), None)
    if several is not None:
        where = "" if task.name == MAIN_TASK else f" of task {task.name!r}"
        yield Fault("predictions.top_k", f"ranks rows by one number, and scores{where} of {several} have no order.")


def _name_faults(group: str, columns: Columns) -> Iterator[Fault]:
    for name in dict.fromkeys([group, *(field.name for field in columns.carried)]):
        if name in (*ADDED, *(field.name for field in PROVENANCE)):
            path = "predictions.top_k.group" if name == group else "carry_over"
            yield Fault(path, f"names the column {name!r}, a name that the output takes; leave it out.")


# ---- candidates ------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The candidates of a stretch of pieces."""

    name: str  # of their object
    rows: int  # of candidates
    no_group: int  # rows whose group is null or NaN


@dataclass(frozen=True)
class Candidates(Join):
    """See protocols.Work: items are stretches, as of a join; `Found` of each. `columns` carries the group alone."""

    k: int
    numbers: dict[str, int]  # of pieces, in the order of the data

    def __call__(self, item: Sequence[Piece]) -> Any:  # Any: Found, where a join gives Joined
        carried = self._carried(item)
        tables, no_group = [], 0
        for piece in item:
            outputs = self._outputs(piece)
            parts = [wide.column(0) for _, wide in carried.rows(piece.unit, outputs.positions)]
            groups = _plain(parts, self.columns.carried[0].type)
            hashes, missing = hash_values(groups, 0)
            no_group += int(missing.sum())
            place = _Place(self.numbers[piece.name], outputs.positions, groups, bucket_of(hashes, NUM_SHARDS), ~missing)
            for number, output in enumerate(self.columns.outputs):
                scores = outputs.table[key(*output.key)].cast(pa.float64()).to_numpy()
                tables.append(place.best(number, scores, self.k))
        whole = pa.concat_tables(tables).combine_chunks()
        shards = whole["shard"].to_numpy()
        order = np.argsort(shards, kind="stable")
        offsets = np.searchsorted(shards[order], np.arange(NUM_SHARDS + 1)).tolist()
        name = f"{FOLDER}/candidates-{item[0].name}.arrow"
        self._directory.store.put(name, _encoded(whole.drop_columns(["shard"]).take(order), offsets))
        return Found(name, len(order), no_group)


class _Place(NamedTuple):
    """The n rows of a piece."""

    number: int
    positions: Integers  # [n] in the file
    groups: pa.Array  # [n]
    shards: NDArray[np.int32]  # [n]
    grouped: NDArray[np.bool_]  # [n] the group is neither null nor NaN

    def best(self, variant: int, scores: NDArray[np.float64], k: int) -> pa.Table:
        """scores: [n], NaN where there is none."""
        rows = np.flatnonzero(self.grouped & ~np.isnan(scores))
        codes = self.groups.take(pa.array(rows)).dictionary_encode().indices.to_numpy()
        chosen = rows[best_of(codes, scores[rows], k).rows]
        return pa.table(
            {
                "shard": self.shards[chosen],
                "variant": np.full(len(chosen), variant, np.int32),
                "group": self.groups.take(pa.array(chosen)),
                "score": scores[chosen],
                "piece": np.full(len(chosen), self.number, np.int32),
                "row": self.positions[chosen],
            }
        )


# ---- the best of all -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choose:
    """See protocols.Work: items are ranges of shards; the name of an object with the best of their groups, by piece."""

    base: str | None
    workers: WorkersSpec
    run: str
    k: int
    candidates: tuple[str, ...]  # objects

    def __call__(self, item: range) -> str:
        directory = RunDirectory.for_worker(self.run)
        whole = pa.concat_tables(_rows_of(directory, name, item.start, item.stop) for name in self.candidates)
        whole = whole.combine_chunks()
        chosen = self._best(whole)
        table = pa.table(
            {name: whole[name].take(pa.array(chosen.rows)) for name in ("piece", "row", "variant", "score")}
            | {"rank": chosen.rank}
        ).sort_by([("piece", "ascending"), ("row", "ascending"), ("variant", "ascending")])
        pieces = table["piece"].to_numpy()
        numbers, begins = np.unique(pieces, return_index=True)
        index = [numbers.tolist(), [*begins.tolist(), len(pieces)]]
        name = f"{FOLDER}/best-{item.start:04d}-{item.stop:04d}.arrow"
        directory.store.put(name, _encoded(table.drop_columns(["piece"]), index))
        return name

    def _best(self, whole: pa.Table) -> Best:
        values = whole["group"].combine_chunks() if isinstance(whole["group"], pa.ChunkedArray) else whole["group"]
        codes = values.dictionary_encode().indices.to_numpy().astype(np.int64)
        groups = codes * (int(whole["variant"].to_numpy().max(initial=0)) + 1) + whole["variant"].to_numpy()
        order = np.empty(len(codes), np.int64)
        order[np.lexsort((whole["row"].to_numpy(), whole["piece"].to_numpy()))] = np.arange(len(codes))
        return best_of(groups, whole["score"].to_numpy(), self.k, order)


# ---- their columns ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopRows(Join):
    """See protocols.Work: as a join, but that only the best rows are written, one for each variant that has it."""

    ranked: Ranked
    numbers: dict[str, int]  # of pieces
    best: tuple[str, ...]  # objects

    def _spliced(self, item: Sequence[Piece]) -> None:
        """Whole row groups would be copied."""
        return

    def _join(self, piece: Piece, outputs: Any, carried: Any) -> Joined:  # Any: as there
        schema = self.ranked.schema
        score = schema.field(SCORE).type
        names = pa.array([one.key.variant for one in self.ranked.outputs], pa.string())
        chosen = self._of(self.numbers[piece.name])
        rows = chosen["row"].to_numpy()
        distinct = np.unique(rows)

        def batches() -> Iterator[pa.RecordBatch]:
            for part, wide in carried.rows(piece.unit, distinct):
                start, stop = np.searchsorted(rows, [distinct[part.start], distinct[part.stop - 1] + 1])
                own = chosen.slice(start, stop - start)
                columns: dict[str, Any] = {  # Any: arrays
                    VARIANT: names.take(own["variant"].combine_chunks()),
                    RANK: own["rank"].cast(pa.int32()),
                    SCORE: own["score"].cast(score),
                }
                columns |= dict(
                    zip((one.name for one in PROVENANCE), self._provenance(piece, rows[start:stop]), strict=True)
                )
                repeated = _repeated(wide, np.searchsorted(distinct[part], rows[start:stop]))
                columns |= dict(zip((one.name for one in self.columns.carried), repeated.columns, strict=True))
                yield from pa.table([columns[name] for name in schema.names], schema=schema).to_batches()

        parts = self.sink.write(piece.name, schema, batches())
        written = sum(part.rows for part in parts)
        if written != len(rows):
            raise RunError(
                f"{written} of {len(rows)} rows of unit {piece.unit.id} were written: the run cannot be trusted."
            )
        dead = {name: len(reasons) - reasons.null_count for name, reasons in outputs.reasons.items()}
        return Joined(piece.unit.id, written, parts, {name: number for name, number in dead.items() if number}, ())

    def _of(self, number: int) -> pa.Table:
        """The best rows of a piece, in the order of the data, then of variants."""
        found = []
        for name in self.best:
            with self._directory.store.open(name) as file:
                numbers, begins = _index_of(file, name)
                place = int(np.searchsorted(numbers, number))
                if place < len(numbers) and numbers[place] == number:
                    found.append(_slice_of(file, name, begins[place], begins[place + 1]))
        if not found:
            return _none()
        return pa.concat_tables(found).combine_chunks().sort_by([("row", "ascending"), ("variant", "ascending")])


def chosen(
    join: Join, ranked: Ranked, items: Sequence[Sequence[Piece]], mapped: Mapped, most_bytes: int = RANGE_BYTES
) -> tuple[TopRows, tuple[str, ...]]:
    """What writes the best rows of the same stretches, once it is known which they are; and sentences about it."""
    numbers = {piece.name: number for number, piece in enumerate(piece for item in items for piece in item)}
    shared = {one.name: getattr(join, one.name) for one in fields(join)}
    narrow = replace(ranked.columns, carried=(ranked.group,), outputs=ranked.outputs)
    search = Candidates(**{**shared, "columns": narrow}, k=ranked.k, numbers=numbers)
    found: list[Found] = mapped(search, items)
    rows, no_group = sum(one.rows for one in found), sum(one.no_group for one in found)
    num_ranges = min(NUM_SHARDS, max(1, math.ceil(rows * ROW_BYTES / most_bytes)))
    cuts = [number * NUM_SHARDS // num_ranges for number in range(num_ranges + 1)]
    choose = Choose(join.base, join.workers, join.run, ranked.k, tuple(one.name for one in found if one.rows))
    ranges = [range(start, stop) for start, stop in pairwise(cuts)]
    best = tuple(mapped(choose, ranges)) if rows else ()
    rewrite = TopRows(**{**shared, "columns": ranked.read}, ranked=ranked, numbers=numbers, best=best)
    missing = "null or NaN" if pa.types.is_floating(ranked.group.type) else "null"
    note = (
        f"{count(no_group, 'row')} with a {missing} {ranked.group.name!r} {agree(no_group, 'is', 'are')} in no group."
    )
    return rewrite, (note,) if no_group else ()


def clean(directory: RunDirectory) -> None:
    """Remove what was written on the way."""
    for name in directory.store.list(FOLDER):
        directory.store.delete(name)
    directory.store.remove_empty(FOLDER)


# ---- objects on the way ----------------------------------------------------------------------------------------------


def _none() -> pa.Table:
    """No rows. Made when it is asked for: Arrow loads pandas with its first array."""
    columns = {"row": pa.array([], pa.int64()), "variant": pa.array([], pa.int32())}
    return pa.table(columns | {"score": pa.array([], pa.float64()), "rank": pa.array([], pa.int64())})


def _encoded(table: pa.Table, index: object) -> bytes:
    """Rows in batches of BATCH_ROWS, all but the last of them full; the index says which rows are of what."""
    described = table.schema.with_metadata({_INDEX: json.dumps(index, separators=(",", ":"))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, described, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in table.combine_chunks().to_batches(BATCH_ROWS):
            writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _index_of(file: Any, name: str) -> Any:  # Any: a file as Arrow has it; JSON
    try:
        return json.loads(pa.ipc.open_file(file).schema.metadata[_INDEX])
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{name} is torn; go on with the run to make it again ({str(error).splitlines()[0]})."
        ) from error


def _rows_of(directory: RunDirectory, name: str, first: int, stop: int) -> pa.Table:
    """The candidates of a range of shards."""
    with directory.store.open(name) as file:
        offsets = _index_of(file, name)
        return _slice_of(file, name, offsets[first], offsets[stop])


def _slice_of(file: Any, name: str, start: int, stop: int) -> pa.Table:  # Any: as above
    """Rows start up to stop: only their batches are read."""
    try:
        reader = pa.ipc.open_file(file)
        first = start // BATCH_ROWS
        batches = [reader.get_batch(number) for number in range(first, math.ceil(stop / BATCH_ROWS))]
        table = pa.Table.from_batches(batches, reader.schema).replace_schema_metadata()
    except (pa.ArrowException, IndexError) as error:
        raise RunError(
            f"{name} is torn; go on with the run to make it again ({str(error).splitlines()[0]})."
        ) from error
    return table.slice(start - first * BATCH_ROWS, stop - start)


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type of what an extension type is stored as; any other type itself."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _plain(parts: Sequence[pa.ChunkedArray], kind: pa.DataType) -> pa.Array:
    """A column in one piece, by value, of a type in which Arrow tells values apart."""
    value = plain_type(_stored(kind.value_type if pa.types.is_dictionary(kind) else kind))
    if pa.types.is_decimal32(value) or pa.types.is_decimal64(value):
        value = pa.decimal128(value.precision, value.scale)
    chunks = [getattr(chunk, "storage", chunk).cast(value) for part in parts for chunk in part.chunks]
    return pa.chunked_array(chunks, value).combine_chunks()


def _repeated(table: pa.Table, rows: Integers) -> pa.Table:
    """These rows, which are in order, some of them several times."""
    if len(rows) == table.num_rows and (np.diff(rows) == 1).all():
        return table
    return taken(table, rows)
