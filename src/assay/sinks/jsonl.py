"""JSON lines: an object a row, with every column. How values are written is told in `json_text.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from assay.protocols import OpenPlace
from assay.records import SinkSettings
from assay.sinks.feed import light_pieces
from assay.sinks.folder import FolderSink
from assay.sinks.forms import Form
from assay.sinks.json_text import json_texts, json_type
from assay.sinks.parts import PartWriter
from assay.sinks.settings import chosen_compression, refuse_row_groups
from assay.sinks.text_file import COMPRESSIONS, ENDINGS, GROUP_ROWS, TextFile

FORM = Form("JSON lines", json_type)


@dataclass(frozen=True)
class JsonLinesFormat:
    """A kind of file with anything nested, and no bytes."""

    compression: str

    group_rows = GROUP_ROWS
    one_dictionary = False
    form = FORM

    @property
    def ending(self) -> str:
        return f".jsonl{ENDINGS[self.compression]}"

    def open(self, path: Path, schema: pa.Schema) -> JsonLinesWriter:
        return JsonLinesWriter(path, self.compression)


class JsonLinesWriter:
    """One file."""

    def __init__(self, path: Path, compression: str) -> None:
        self._file = TextFile(path, compression)

    def write(self, table: pa.Table) -> None:
        for piece in light_pieces(table):
            self._file.stream.write(json_lines(piece))

    def close(self) -> None:
        self._file.close()


def json_lines(table: pa.Table) -> bytes:
    """The rows of a table with columns, a line each.

    >>> json_lines(pa.table({"a": [1, None], "b": ["x", 'y"']}))
    b'{"a":1,"b":"x"}\\n{"a":null,"b":"y\\\\""}\\n'
    """
    pieces = []
    for position, name in enumerate(table.column_names):
        key = f"{',' if position else '{'}{json.dumps(name, ensure_ascii=False)}:"
        pieces += [pa.scalar(key, pa.large_string()), json_texts(table[name].combine_chunks())]
    end, between = pa.scalar("}\n", pa.large_string()), pa.scalar("", pa.large_string())
    lines = pc.binary_join_element_wise(*pieces, end, between)
    num_bytes = pc.sum(pc.binary_length(lines)).as_py() or 0
    return bytes(lines.buffers()[2][:num_bytes]) if num_bytes else b""


def jsonl_sink(settings: SinkSettings, open_place: OpenPlace) -> FolderSink:
    """A folder of files of JSON lines. DataError: no such compression, row groups."""
    refuse_row_groups(settings)
    format = JsonLinesFormat(chosen_compression(settings, COMPRESSIONS))
    place = open_place(settings.to, settings.run)
    return FolderSink(PartWriter(format, place, settings.partition_by, settings.file_rows), settings.run)
