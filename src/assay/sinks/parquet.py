"""Parquet files: every Arrow type that they know comes back as it went in, with the metadata of fields and schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assay.footers import Footer
from assay.protocols import OpenPlace
from assay.records import EncodedRows, SinkSettings
from assay.sinks.feed import one_chunk
from assay.sinks.folder import FolderSink
from assay.sinks.forms import Form
from assay.sinks.kinds import has_dictionaries, is_bytes, is_text, retyped
from assay.sinks.parts import PartWriter, Splice
from assay.sinks.repeats import repeating
from assay.sinks.settings import chosen_compression
from assay.sinks.spliced import may_be_spliced, splice, whole_pages

GROUP_ROWS = 65_536
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")


@dataclass(frozen=True)
class ParquetFormat:
    """form: of the types in the files; a table format has its own."""

    form: Form
    settings: SinkSettings

    ending = ".parquet"
    one_dictionary = False

    @classmethod
    def of(cls, settings: SinkSettings, form: Form) -> ParquetFormat:
        """DataError: no such compression."""
        chosen_compression(settings, COMPRESSIONS)
        return cls(form, settings)

    @property
    def compression(self) -> str:
        return chosen_compression(self.settings, COMPRESSIONS)

    @property
    def group_rows(self) -> int:
        return self.settings.row_group_rows or GROUP_ROWS

    def open(self, path: Path, schema: pa.Schema) -> ParquetTableWriter:
        return ParquetTableWriter(str(path), schema, self.compression)

    @property
    def splices(self) -> bool:
        """See SplicingFormat."""
        return self.settings.row_group_rows is None

    @contextmanager
    def splicing(self, schema: pa.Schema, rows: EncodedRows) -> Iterator[Splice | None]:
        """See SplicingFormat. Copied columns keep their compression, where the user has named none."""
        template = Footer.of(self._in_memory(schema, []))
        if not may_be_spliced(template, schema, rows, self.settings.compression):
            yield None
            return
        starts = [0, *accumulate(rows.group_rows)]
        with whole_pages(rows) as source:
            if source is None:
                yield None
                return

            def write(path: Path, own: pa.Table) -> None:
                pieces = [own.slice(start, number) for start, number in zip(starts, rows.group_rows, strict=False)]
                splice(path, template, rows, source, self._in_memory(own.schema, pieces))

            yield write

    def _in_memory(self, schema: pa.Schema, pieces: Sequence[pa.Table]) -> memoryview:
        """A file, each piece a row group."""
        sink = pa.BufferOutputStream()
        writer = ParquetTableWriter(sink, schema, self.compression)
        for piece in pieces:
            writer.write(piece)
        writer.close()
        return memoryview(sink.getvalue()).cast("B")  # Arrow has signed bytes


class ParquetTableWriter:
    """One file; what is written at once is one row group. The first one says which columns get dictionaries."""

    def __init__(self, place: str | pa.NativeFile, schema: pa.Schema, compression: str) -> None:
        self._open = partial(pq.ParquetWriter, place, schema, compression=compression)
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        for position, field in enumerate(table.schema):
            if has_dictionaries(field.type):  # a row group has one of a column
                table = table.set_column(position, field, one_chunk(table.select([position])).column(0))
        if self._writer is None:
            self._writer = self._open(use_dictionary=repeating(table))
        self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> None:
        if self._writer is None:
            self._writer = self._open()
        self._writer.close()


def _decoded(kind: pa.DataType) -> pa.DataType:
    """Parquet keeps codes of text and bytes alone; of others it would lose the zone too."""
    if not pa.types.is_dictionary(kind):
        return kind
    words = kind.value_type
    is_view = pa.types.is_string_view(words) or pa.types.is_binary_view(words)
    return kind if (is_text(words) or is_bytes(words)) and not is_view else retyped(words, _decoded)


def returned_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which Parquet gives values back, found by trying; None where it takes none.

    >>> returned_type(pa.timestamp("s")), returned_type(pa.month_day_nano_interval())
    (TimestampType(timestamp[ms]), None)
    """
    kept = retyped(kind, _decoded)
    tried = retyped(kept, lambda kind: kind, nullable=True)  # a null is the one value that is known of any type
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.table({"column": pa.nulls(1, tried)}), pa.BufferOutputStream())
        pq.ParquetWriter(sink, pa.schema([("column", kept)])).close()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema_arrow.field("column").type
    return retyped(found, lambda kind: kind)  # maps without the name of this column


FORM = Form("Parquet", returned_type)


def parquet_sink(settings: SinkSettings, open_place: OpenPlace) -> FolderSink:
    """A folder of Parquet files."""
    place = open_place(settings.to, settings.run)
    format = ParquetFormat.of(settings, FORM)
    return FolderSink(PartWriter(format, place, settings.partition_by, settings.file_rows), settings.run)
