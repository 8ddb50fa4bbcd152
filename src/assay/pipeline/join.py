"""The late join: what variants gave, appended to columns that are read from the source's own files, and written.

Lives here: the work on a stretch of one file. It is a pure function of what is committed and of the data: done twice it
writes the same bytes under the same names. Not here: what is joined when (`predict.py`), how a stretch is decoded
(`carried.py`), formats and files (`sinks/`).

Wide columns are copied as they lie in their file, where all rows of its row groups are wanted and the sink can take
them so. Else they are decoded, here and nowhere else, a piece of a row group at a time. Outputs, which are narrow, are
in memory for one unit at a time, or for a stretch that is copied.

Axes: n rows of a unit that pass the filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import RunError
from assay.expressions import Expressions
from assay.pipeline.carried import CarriedRows, Positions, taken_in_order
from assay.pipeline.columns import Columns
from assay.predicted import POSITION, Key, Span, key, read_span
from assay.predicted import REASON as REASON_OUTPUT
from assay.protocols import EncodedSource, OriginalSource, Sink, Source, SplicingSink
from assay.records import Chunk, EncodedRows, PartFile, Unit
from assay.rows import WHERE
from assay.spec.model import WorkersSpec
from assay.spec.words import listing
from assay.store.run import RunDirectory

POSITION_BYTES = 12
"""Of provenance, beside a path: the row's number, and where the path ends."""
MOST_OWN_BYTES = 256 << 20
"""Of what variants gave for a stretch, in memory at once. Of texts and lists it is not known; those of a unit are."""
GAVE_NO_SCORE = "it gave no score (null, NaN or infinite)"


@dataclass(frozen=True, slots=True)
class Held:
    """A unit of a piece of the data, in one bundle, as far as it was scored."""

    unit: str
    variants: tuple[str, ...]  # whose outputs are here
    digest: str  # of the object with its outputs; "" where it was given up
    span: Span | None  # of its rows in there
    reasons: Mapping[str, str]  # variant -> why it failed on the unit; "" where it was given up


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the data, in all bundles."""

    name: str  # of its parts: in the order of names they are in the order of the data
    unit: Unit  # of the first bundle: which rows of which file
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """What was written of a piece."""

    unit: str
    rows: int
    parts: tuple[PartFile, ...]  # none, where the first piece of the stretch has them for all
    dead: Mapping[str, int]  # variant -> rows that it has no output for, of those that have any
    dead_parts: tuple[PartFile, ...]


@dataclass(frozen=True, slots=True)
class _Outputs:
    """What variants gave for a piece."""

    positions: Positions  # [n] increasing
    table: pa.Table  # [n] by `predicted.key`
    reasons: Mapping[str, pa.Array]  # [n] variant -> why it has no output there; null where it has one


@dataclass(frozen=True)
class Join:
    """See protocols.Work: items are stretches, tuples of pieces that follow one another in a file; `Joined` of each."""

    base: str | None
    workers: WorkersSpec
    run: str  # path or URL of the run directory
    source: Source
    where: str | None  # the filter, for units that were given up
    columns: Columns
    sink: Sink
    dead_sink: Sink

    def __call__(self, item: Sequence[Piece]) -> tuple[Joined, ...]:
        found = self._spliced(item)
        if found is None:
            carried = self._carried(item)
            found = [self._join(piece, self._outputs(piece), carried) for piece in item]
        if any(one.dead for one in found):
            carried = self._carried(item)
            found = [
                self._bury(one, piece, self._outputs(piece), carried) for one, piece in zip(found, item, strict=True)
            ]
        return tuple(found)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _spliced(self, item: Sequence[Piece]) -> list[Joined] | None:
        """The stretch as one part, named after its first piece, with columns that are copied; None where it cannot be
        had so, with nothing written, and no outputs read."""
        if not isinstance(self.sink, SplicingSink) or not self.sink.splices:
            return None
        rows = self._encoded(item)
        if rows is None:
            return None
        outputs: list[_Outputs] = []

        def own() -> pa.Table:
            outputs.extend(map(self._outputs, item))
            both = list(zip(item, outputs, strict=True))
            lacking = [piece.unit.id for piece, one in both if len(one.positions) != piece.unit.num_rows]
            if lacking:
                raise RunError(f"Unit {lacking[0]} lacks rows, and none is filtered: the run cannot be trusted.")
            return pa.concat_tables(self._own(piece, one, slice(0, None)) for piece, one in both)

        parts = self.sink.splice(item[0].name, self.columns.schema, rows, own)
        if parts is None:
            return None
        first, *others = zip(item, outputs, strict=True)
        return [_joined(*first, parts), *(_joined(piece, one, ()) for piece, one in others)]

    def _encoded(self, item: Sequence[Piece]) -> EncodedRows | None:
        """The carried columns as they lie in their file, where all of it may be taken so."""
        names, whole = [field.name for field in self.columns.carried], _whole(item)
        if not isinstance(self.source, EncodedSource) or not names or self.where is not None or whole.num_rows is None:
            return None
        num_bytes = self._row_bytes(whole) * whole.num_rows
        if num_bytes > MOST_OWN_BYTES and (len(item) > 1 or math.isfinite(num_bytes)):
            return None
        return self.source.encoded(whole, names)

    def _row_bytes(self, unit: Unit) -> float:
        """Of the columns that are not carried over; infinite where rows differ."""
        provenance = len(unit.path) + POSITION_BYTES if self.columns.provenance else 0
        return provenance + sum(_width(one.kind) for one in self.columns.outputs)

    def _join(self, piece: Piece, outputs: _Outputs, carried: CarriedRows) -> Joined:
        schema = self.columns.schema

        def batches() -> Iterator[pa.RecordBatch]:
            for part, wide in carried.rows(piece.unit, outputs.positions):
                own = self._own(piece, outputs, part)
                yield from pa.table([*wide.columns, *own.columns], schema=schema).to_batches()

        parts = self.sink.write(piece.name, schema, batches())
        rows = len(outputs.positions)
        if sum(part.rows for part in parts) != rows:
            written = sum(part.rows for part in parts)
            raise RunError(f"{written} of {rows} rows of unit {piece.unit.id} were written: the run cannot be trusted.")
        return _joined(piece, outputs, parts)

    def _own(self, piece: Piece, outputs: _Outputs, rows: slice) -> pa.Table:
        """The columns that are not carried over, of these rows."""
        positions = outputs.positions[rows]
        given = outputs.table.select([key(*one.key) for one in self.columns.outputs]).slice(rows.start, len(positions))
        provenance = self._provenance(piece, positions) if self.columns.provenance else []
        return pa.table([*provenance, *given.columns], schema=pa.schema(self.columns.own))

    def _bury(self, joined: Joined, piece: Piece, outputs: _Outputs, carried: CarriedRows) -> Joined:
        """Write what is dead: variant by variant for every few rows."""
        schema = self.columns.dead_schema

        def batches() -> Iterator[pa.RecordBatch]:
            for part, wide in carried.rows(piece.unit, outputs.positions):
                for name in joined.dead:
                    reasons = outputs.reasons[name].slice(part.start, part.stop - part.start)
                    chosen = reasons.is_valid()
                    if not pc.any(chosen).as_py():
                        continue
                    kept = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
                    provenance = self._provenance(piece, outputs.positions[part][kept])
                    said = [pa.array([name] * len(kept), pa.string()), reasons.filter(chosen).cast(pa.string())]
                    columns = [*said, *provenance, *taken_in_order(wide, kept).columns]
                    yield from pa.table(columns, schema=schema).to_batches()

        return replace(joined, dead_parts=self.dead_sink.write(piece.name, schema, batches()))

    def _provenance(self, piece: Piece, positions: Positions) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(piece.unit.path, pa.string()), len(positions)), pa.array(positions, pa.int64())]

    # ---- what variants gave ------------------------------------------------------------------------------------------

    @cached_property
    def _directory(self) -> RunDirectory:
        return RunDirectory.for_worker(self.run)

    def _outputs(self, piece: Piece) -> _Outputs:
        read = [self._read(piece, one) for one in piece.held]
        positions = next((table[POSITION].to_numpy() for table in read if table is not None), None)
        if positions is None:
            positions = self._passing(piece.unit)
        self._check(piece, positions, [table for table in read if table is not None])
        columns: dict[str, pa.ChunkedArray | pa.Array] = {}
        reasons: dict[str, pa.Array] = {}
        wanted = {output.key.variant for output in self.columns.outputs}  # ranked rows have not those of all variants
        for one, table in zip(piece.held, read, strict=True):
            for output in self.columns.outputs:
                if output.key.variant in one.variants:
                    name = key(*output.key)
                    columns[name] = pa.nulls(len(positions), output.kind) if table is None else table[name]
            for variant in one.variants:
                if variant in wanted:
                    reasons[variant] = self._reasons(variant, columns, one, table)
        return _Outputs(positions, pa.table(columns), reasons)

    def _read(self, piece: Piece, held: Held) -> pa.Table | None:
        if held.span is None:
            return None
        own = [one for one in self.columns.outputs if one.key.variant in held.variants]
        fields = [pa.field(POSITION, pa.int64()), *(pa.field(key(*one.key), one.kind) for one in own)]
        fields += [pa.field(key(name, REASON_OUTPUT), pa.string()) for name in held.variants]
        with self._directory.open_outputs(held.digest) as file:
            return read_span(file, held.span, pa.schema(fields), f"outputs/{held.digest}.arrow")

    def _check(self, piece: Piece, positions: Positions, tables: Sequence[pa.Table]) -> None:
        """Rows are aligned: in order, in the unit, and the same in all bundles."""
        unit = piece.unit
        inside = unit.num_rows is None or not len(positions) or positions[-1] < unit.first_row + unit.num_rows
        after = not len(positions) or positions[0] >= unit.first_row
        if not (inside and after and (np.diff(positions) > 0).all()):
            raise RunError(f"The outputs of unit {unit.id} are not of rows of its own: the run cannot be trusted.")
        if any(not np.array_equal(table[POSITION].to_numpy(), positions) for table in tables):
            raise RunError(f"The bundles scored different rows of unit {unit.id}: the run cannot be trusted.")

    def _reasons(self, variant: str, columns: Mapping[str, pa.Array], held: Held, table: pa.Table | None) -> pa.Array:
        """[n] why the variant has no output, null where it has all of them."""
        own = [one for one in self.columns.outputs if one.key.variant == variant]
        missing = {one.key: pc.is_null(columns[key(*one.key)]) for one in own}
        anything = _any(list(missing.values()))
        number = len(anything)
        if not pc.any(anything).as_py():  # all of a good model's rows, without a text for each
            return pa.nulls(number, pa.string())
        given = held.reasons.get("", held.reasons.get(variant))
        if given is None:
            said = _without(missing, by_name=len(own) > 1 or not own[0].is_score)
        else:
            said = pa.repeat(pa.scalar(given, pa.string()), number)
        if table is not None:
            said = pc.coalesce(table[key(variant, REASON_OUTPUT)].combine_chunks(), said)
        return pc.if_else(anything, said, pa.scalar(None, pa.string()))

    def _passing(self, unit: Unit) -> Positions:
        """The rows of a unit that nobody scored, that pass the filter."""
        texts = {} if self.where is None else {WHERE: self.where}
        where = Expressions(self.source.schema, texts)
        found = [np.zeros(0, np.int64)]
        for chunk in self.source.read(unit, where.columns or self.source.schema.names[:1]):
            rows = np.arange(chunk.first_row, chunk.first_row + chunk.table.num_rows, dtype=np.int64)
            if self.where is not None:
                rows = rows[where.evaluate(chunk.table)[WHERE].cast(pa.bool_()).fill_null(False).to_numpy()]
            found.append(rows)
        return np.concatenate(found)

    # ---- what is carried over ----------------------------------------------------------------------------------------

    def _carried(self, item: Sequence[Piece]) -> CarriedRows:
        names = [field.name for field in self.columns.carried]
        if not names:
            return CarriedRows(None)
        read: Callable[[Unit, Sequence[str]], Iterator[Chunk]] = self.source.read
        if isinstance(self.source, OriginalSource):
            read = self.source.read_original
        return CarriedRows(read(_whole(item), names))


def _whole(item: Sequence[Piece]) -> Unit:
    """All rows of a stretch."""
    first, last = item[0].unit, item[-1].unit
    rows = None if last.num_rows is None else last.first_row + last.num_rows - first.first_row
    return replace(first, num_rows=rows)


def _joined(piece: Piece, outputs: _Outputs, parts: tuple[PartFile, ...]) -> Joined:
    dead = {name: len(reasons) - reasons.null_count for name, reasons in outputs.reasons.items()}
    return Joined(
        piece.unit.id, len(outputs.positions), parts, {name: number for name, number in dead.items() if number}, ()
    )


def _without(missing: Mapping[Key, pa.Array], *, by_name: bool) -> pa.Array:
    """[n] which outputs are null or NaN, in words."""
    number = len(next(iter(missing.values())))
    if not by_name or not number:
        return pa.repeat(pa.scalar(f"{GAVE_NO_SCORE}.", pa.string()), number)
    masks = np.stack([one.to_numpy(zero_copy_only=False) for one in missing.values()])
    kinds, codes = np.unique(masks, axis=1, return_inverse=True)
    names = [one.output for one in missing]
    without = [[name for name, is_null in zip(names, kind, strict=True) if is_null] for kind in kinds.T]
    words = [f"it gave no output (null, NaN or infinite) for {listing(some)}." for some in without]
    return pa.array(words, pa.string()).take(pa.array(codes.reshape(-1)))


def _width(kind: pa.DataType) -> float:
    """Bytes of a value; infinite where values differ."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return math.ceil(kind.bit_width / 8) if pa.types.is_primitive(kind) else math.inf


def _any(masks: Sequence[pa.ChunkedArray | pa.Array]) -> pa.Array:
    found = masks[0]
    for one in masks[1:]:
        found = pc.or_(found, one)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
