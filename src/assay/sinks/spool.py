"""Rows set aside on this machine's disk by partition, so that a part is read once and each partition written whole.

The disk is that of the TMPDIR of the process. Memory holds one piece of rows, and the dictionaries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import DataError, RunError
from assay.sinks.feed import Feed, light_pieces, one_chunk
from assay.sinks.kinds import without_views

MAX_PARTITIONS = 256
"""Of one part: each is a file, and a file that is open while the part is read."""
Key = tuple[str | None, ...]
"""The values of the partition columns, as texts."""


class _Pile(NamedTuple):
    path: Path
    writer: pa.ipc.RecordBatchStreamWriter
    words: list[pa.RecordBatch]  # one batch without rows, whose dictionaries are those of all rows so far


class Spool:
    """Open while rows are added; then `feeds` gives them back, partition by partition."""

    def __init__(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._schema = schema
        self._partition_by = tuple(partition_by)
        self._piles: dict[Key, _Pile] = {}
        self._open = ExitStack()

    def __enter__(self) -> Spool:
        with _named():
            self._folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="assay-")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, table: pa.Table) -> None:
        """DataError: too many partitions; dictionaries that cannot be one. RunError: the disk takes no more."""
        for piece in light_pieces(table):
            self._add(one_chunk(piece))

    def _add(self, table: pa.Table) -> None:
        """table: of one chunk."""
        for key, rows in _by_partition(table, self._partition_by):
            with _named():
                pile = self._pile(key)
            for batch in rows.to_batches():
                with _named():
                    pile.writer.write_batch(batch)
                known = pa.Table.from_batches([*pile.words, batch.slice(0, 0)]).unify_dictionaries()
                pile.words[:] = [_first_chunk(known)]

    def feeds(self) -> Iterator[tuple[Key, Feed]]:
        """Each partition's rows in the order in which they came, all with the same dictionaries; sorted, null last."""
        for pile in self._piles.values():
            with _named():
                pile.writer.close()
        for key in sorted(self._piles, key=lambda key: [(value is None, value or "") for value in key]):
            pile = self._piles[key]
            yield key, Feed(pile.words[0].schema, _read(pile))
            pile.path.unlink()

    def _pile(self, key: Key) -> _Pile:
        if key not in self._piles:
            if len(self._piles) == MAX_PARTITIONS:
                raise DataError(
                    f"partition_by ({', '.join(self._partition_by)}) cuts the rows of one part into more than "
                    f"{MAX_PARTITIONS} partitions, each a file of its own. Take columns with fewer values, or none."
                )
            path = self._folder / str(len(self._piles))
            file = self._open.enter_context(pa.OSFile(str(path), "wb"))
            self._piles[key] = _Pile(path, pa.ipc.new_stream(file, self._schema), [])
        return self._piles[key]


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise RunError(
            f"Rows of a part cannot be set aside in {tempfile.gettempdir()}: {reason}. Set TMPDIR to a folder with "
            "room for the rows of a unit."
        ) from error


def _read(pile: _Pile) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(pile.path)) as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            (*_, last) = pa.Table.from_batches([pile.words[0], batch]).unify_dictionaries().to_batches()
            yield last


def _first_chunk(table: pa.Table) -> pa.RecordBatch:
    """Without rows, so that `to_batches` gives nothing."""
    return pa.record_batch([column.chunk(0) for column in table.columns], schema=table.schema)


def _by_partition(table: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[Key, pa.Table]]:
    if not partition_by:
        yield (), table
        return
    keyed = _keyed(table, partition_by)
    numbered = keyed.append_column("row", pa.array(range(len(table)), pa.int64()))
    groups = numbered.group_by(keyed.column_names, use_threads=False).aggregate([("row", "list")])
    plain = _cast(table, without_views(table.schema))
    for key, rows in zip(_keys(groups.select(keyed.column_names)), groups["row_list"], strict=True):
        yield key, _cast(plain.take(rows.values), table.schema)


def keys_of(table: pa.Table, partition_by: Sequence[str]) -> set[Key]:
    """The partitions of these rows.

    >>> sorted(keys_of(pa.table({"day": [2, 1, 2], "x": [0, 0, 1]}), ["day"]))
    [('1',), ('2',)]
    """
    keyed = _keyed(table, partition_by)
    return set(_keys(keyed.group_by(keyed.column_names, use_threads=False).aggregate([])))


def _keyed(table: pa.Table, partition_by: Sequence[str]) -> pa.Table:
    return pa.table({str(position): _names(table[column]) for position, column in enumerate(partition_by)})


def _keys(keyed: pa.Table) -> Iterator[Key]:
    return zip(*(column.to_pylist() for column in keyed.columns), strict=True)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of the right type are left alone: Arrow spoils some where a cast changes nothing."""
    both = zip(table.columns, schema, strict=True)
    return pa.table([one if one.type == field.type else one.cast(field.type) for one, field in both], schema=schema)


def _names(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    values = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    return pc.cast(values, pa.string())
