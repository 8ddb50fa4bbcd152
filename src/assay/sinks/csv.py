"""CSV files: a header, values as text, quoted where they are text. An empty field is null, `""` an empty text.

Numbers have the digits that make them the same number again; times are ISO 8601 with a blank, those with a zone in UTC
and with a `Z`. NaN and infinities are `nan`, `inf` and `-inf`. Types are not in the file: a reader guesses them anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv

from assay.protocols import OpenPlace
from assay.records import SinkSettings
from assay.sinks.folder import FolderSink
from assay.sinks.forms import Form
from assay.sinks.kinds import is_text
from assay.sinks.parts import PartWriter
from assay.sinks.settings import chosen_compression, refuse_row_groups
from assay.sinks.text_file import COMPRESSIONS, ENDINGS, GROUP_ROWS, TextFile


@dataclass(frozen=True)
class CsvFormat:
    """A kind of file with nothing nested and no bytes."""

    compression: str

    group_rows = GROUP_ROWS
    one_dictionary = False

    @property
    def form(self) -> Form:
        return FORM

    @property
    def ending(self) -> str:
        return f".csv{ENDINGS[self.compression]}"

    def open(self, path: Path, schema: pa.Schema) -> CsvTableWriter:
        return CsvTableWriter(path, schema, self.compression)


class CsvTableWriter:
    """One file with its header."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str) -> None:
        self._file = TextFile(path, compression)
        self._writer = pv.CSVWriter(self._file.stream, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def text_type(kind: pa.DataType) -> pa.DataType | None:
    """The type whose text a value has; None where there is none, as of lists and bytes."""
    types = pa.types
    if types.is_dictionary(kind):
        return text_type(kind.value_type)
    if is_text(kind):
        return pa.string() if types.is_string_view(kind) else kind
    if types.is_float16(kind):
        return pa.float32()
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC") if kind.tz else kind
    if types.is_duration(kind):
        return pa.int64()
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return kind if plain or types.is_date(kind) or types.is_time(kind) or types.is_null(kind) else None


FORM = Form("CSV", text_type)


def csv_sink(settings: SinkSettings, open_place: OpenPlace) -> FolderSink:
    """A folder of CSV files. DataError: no such compression, row groups."""
    refuse_row_groups(settings)
    format = CsvFormat(chosen_compression(settings, COMPRESSIONS))
    place = open_place(settings.to, settings.run)
    return FolderSink(PartWriter(format, place, settings.partition_by, settings.file_rows), settings.run)
