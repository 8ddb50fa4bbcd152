"""Arrow IPC files: Arrow types come back as they went in. A file has one dictionary for a column that has any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from assay.protocols import OpenPlace
from assay.records import SinkSettings
from assay.sinks.feed import light_pieces, one_chunk
from assay.sinks.folder import FolderSink
from assay.sinks.forms import Form
from assay.sinks.parts import PartWriter
from assay.sinks.settings import chosen_compression
from assay.sinks.stored import by_value

GROUP_ROWS = 65_536
COMPRESSIONS = ("none", "lz4", "zstd")
FORM = Form("Arrow", by_value)


@dataclass(frozen=True)
class ArrowFormat:
    """`group_rows` are those of a record batch."""

    compression: str
    group_rows: int

    form = FORM
    ending = ".arrow"
    one_dictionary = True

    def open(self, path: Path, schema: pa.Schema) -> ArrowTableWriter:
        return ArrowTableWriter(path, schema, self.compression)


class ArrowTableWriter:
    """One file; what is written at once is one record batch, if that can hold it."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str) -> None:
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema, options=options)

    def write(self, table: pa.Table) -> None:
        for piece in light_pieces(table):
            self._writer.write_table(one_chunk(piece))

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def arrow_sink(settings: SinkSettings, open_place: OpenPlace) -> FolderSink:
    """A folder of Arrow IPC files. DataError: no such compression."""
    format = ArrowFormat(chosen_compression(settings, COMPRESSIONS), settings.row_group_rows or GROUP_ROWS)
    place = open_place(settings.to, settings.run)
    return FolderSink(PartWriter(format, place, settings.partition_by, settings.file_rows), settings.run)
