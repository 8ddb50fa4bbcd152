"""Writing a part: rows into files of a format, each visible once it is whole, under a name with its digest.

The same rows give the same bytes, hence the same names: a part that is written twice is there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from assay.errors import RunError
from assay.hashing import file_digest
from assay.protocols import Place
from assay.records import EncodedRows, PartFile
from assay.sinks.feed import Feed
from assay.sinks.forms import Form, check_partitions
from assay.sinks.kinds import has_dictionaries
from assay.sinks.names import folder_of, part_name
from assay.sinks.spool import Spool
from assay.sinks.stored import as_stored


class TableWriter(Protocol):
    """What writes one file."""

    def write(self, table: pa.Table) -> None: ...
    def close(self) -> None: ...  # the file is whole then


class Format(Protocol):
    """A kind of file."""

    @property
    def form(self) -> Form: ...
    @property
    def ending(self) -> str: ...
    @property
    def group_rows(self) -> int: ...  # rows that are written at a time
    @property
    def one_dictionary(self) -> bool: ...  # a file has one dictionary a column, for all its rows
    def open(self, path: Path, schema: pa.Schema) -> TableWriter: ...


Splice = Callable[[Path, pa.Table], None]
"""(a new file, the columns of its own) -> written; OSError"""


@runtime_checkable
class SplicingFormat(Protocol):
    """What a Format is too that may take columns as they lie in Parquet files."""

    @property
    def splices(self) -> bool: ...  # nothing that the user said is against it
    def splicing(self, schema: pa.Schema, rows: EncodedRows) -> AbstractContextManager[Splice | None]:
        """What writes these row groups with columns of its own beside those that are copied; None: these cannot be.

        schema: of all columns, as they are written. DataError: the file that is copied from cannot be read.
        """
        ...


@dataclass(frozen=True)
class PartWriter:
    """How the parts of one run are written; picklable where `place` is."""

    format: Format
    place: Place
    partition_by: tuple[str, ...] = ()
    file_rows: int | None = None  # most rows of a file; None: no limit
    keeps_partitions: bool = False  # partition columns are in the files too

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        """What is written as another type, in sentences. DataError: a column that cannot be written."""
        check_partitions(schema, self.partition_by)
        return self.format.form.notes(schema)

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        """The files of a part, partition by partition, rows in their order; none where there are no rows."""
        stored = self.format.form.stored(schema)
        feed = Feed(stored, _stored(batches, stored))
        spooled = self.partition_by or (self.format.one_dictionary and any(map(has_dictionaries, stored.types)))
        if not spooled:
            return tuple(self._files(part, {}, feed))
        with Spool(stored, self.partition_by) as spool:
            for piece in feed.pieces(self.format.group_rows):
                spool.add(piece)
            return tuple(
                file
                for key, rows in spool.feeds()
                for file in self._files(part, dict(zip(self.partition_by, key, strict=True)), rows)
            )

    @property
    def splices(self) -> bool:
        """See SplicingSink."""
        cut = self.partition_by or self.file_rows is not None
        return not cut and isinstance(self.format, SplicingFormat) and self.format.splices

    def splice(
        self, part: str, schema: pa.Schema, rows: EncodedRows, own: Callable[[], pa.Table]
    ) -> tuple[PartFile, ...] | None:
        """See SplicingSink."""
        assert isinstance(self.format, SplicingFormat), "asked to splice though it says that it does not"
        stored = self.format.form.stored(schema)
        with self.format.splicing(stored, rows) as splice:
            if splice is None:
                return None
            table = own()
            table = as_stored(table, pa.schema([stored.field(name) for name in table.schema.names], stored.metadata))
            with self.place.draft() as draft:
                with self._named():
                    splice(draft, table)
                return (self._published(draft, part, 0, len(table), {}),)

    def _files(self, part: str, partition: Mapping[str, str | None], feed: Feed) -> Iterator[PartFile]:
        number, piece = 0, self._take(feed, self.file_rows)
        while len(piece):
            with self.place.draft() as draft:
                rows, piece = self._fill(draft, piece, feed)
                file = self._published(draft, part, number, rows, partition)
            yield file
            number += 1

    def _published(
        self, draft: Path, part: str, number: int, rows: int, partition: Mapping[str, str | None]
    ) -> PartFile:
        """The file under its own name, for all to see."""
        with self._named():
            digest, num_bytes = file_digest(draft), draft.stat().st_size
        folder = folder_of(partition, exact=not self.keeps_partitions)
        path = folder + part_name(part, number, digest, self.format.ending)
        self.place.publish(draft, path)
        return PartFile(path, rows, num_bytes, digest, partition)

    def _fill(self, draft: Path, piece: pa.Table, feed: Feed) -> tuple[int, pa.Table]:
        """Write one file; its rows, and the first piece of the next one."""
        inside, rows = self._inside(piece), 0
        with self._named():
            writer = self.format.open(draft, inside.schema)
        while len(piece) and rows != self.file_rows:
            with self._named():
                writer.write(self._inside(piece))
            rows += len(piece)
            piece = self._take(feed, self.file_rows and (self.file_rows - rows or self.file_rows))
        with self._named():
            writer.close()
        return rows, piece

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise RunError(f"A part of the predictions in {self.place.url} cannot be written: {reason}.") from error

    def _take(self, feed: Feed, most: int | None) -> pa.Table:
        return feed.take(self.format.group_rows if most is None else min(self.format.group_rows, most))

    def _inside(self, piece: pa.Table) -> pa.Table:
        """The rows as they are in the file."""
        return piece if self.keeps_partitions else piece.drop_columns(list(self.partition_by))


def _stored(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from as_stored(pa.Table.from_batches([batch]), schema).to_batches()
