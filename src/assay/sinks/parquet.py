"""Parquet files: every Arrow type that they know comes back as it went in, with the metadata of fields and schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assay.footers import Footer
from assay.protocols import OpenPlace
from assay.records import SinkSettings, StoredRows
from assay.sinks.feed import one_chunk
from assay.sinks.folder import FolderSink
from assay.sinks.forms import Form
from assay.sinks.kinds import has_dictionaries, is_bytes, is_text, retyped
from assay.sinks.parts import PartWriter
from assay.sinks.repeats import repeating
from assay.sinks.settings import chosen_compression
from assay.sinks.spliced import may_be_spliced, splice

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

    def splice(self, path: Path, schema: pa.Schema, stored: StoredRows, own: pa.Table) -> bool:
        """See SplicingFormat. Copied columns keep their compression, where the user has named none."""
        if self.settings.row_group_rows is not None:
            return False
        template = Footer.of(self._encoded(schema, []))
        if not may_be_spliced(template, schema, stored, self.settings.compression):
            return False
        starts = [0, *accumulate(stored.group_rows)]
        pieces = [own.slice(start, rows) for start, rows in zip(starts, stored.group_rows, strict=False)]
        return splice(path, template, stored, self._encoded(own.schema, pieces))

    def _encoded(self, schema: pa.Schema, pieces: Sequence[pa.Table]) -> memoryview:
        """A file in memory."""
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
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.table({"column": pa.nulls(1, retyped(kind, _decoded))}), sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    found = pq.read_schema(pa.BufferReader(sink.getvalue())).field("column").type
    return retyped(found, lambda kind: kind)  # maps without the name of this column


FORM = Form("Parquet", returned_type)


def parquet_sink(settings: SinkSettings, open_place: OpenPlace) -> FolderSink:
    """A folder of Parquet files."""
    place = open_place(settings.to, settings.run)
    format = ParquetFormat.of(settings, FORM)
    return FolderSink(PartWriter(format, place, settings.partition_by, settings.file_rows), settings.run)
