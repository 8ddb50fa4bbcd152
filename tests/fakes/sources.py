"""Parquet files that tell who reads which of their columns, or end the process that joins; importable by Ray."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.records import Chunk, Unit
from assay.sources.parquet import ParquetSource


class Read(NamedTuple):
    """One time that a source was read."""

    process: int
    verb: str  # read, by planning and scoring; read_original, by the join
    columns: tuple[str, ...]
    rows: int


class CountingSource(ParquetSource):
    """Notes each time that it is read in `<root>/../reads/`, a file of its own for each process."""

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        for chunk in super().read(unit, columns):
            self._note("read", columns, chunk)
            yield chunk

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        for chunk in super().read_original(unit, columns):
            self._note("read_original", columns, chunk)
            yield chunk

    def _note(self, verb: str, columns: Sequence[str], chunk: Chunk) -> None:
        assert set(chunk.table.schema.names) == set(columns)
        with (self._root.parent / "reads" / str(os.getpid())).open("a") as file:
            file.write(json.dumps([os.getpid(), verb, list(columns), chunk.table.num_rows]) + "\n")


def reads(folder: Path) -> list[Read]:
    """All that were noted beside the data."""
    lines = [line for file in sorted((folder / "reads").iterdir()) for line in file.read_text().splitlines()]
    return [Read(process, verb, tuple(columns), rows) for process, verb, columns, rows in map(json.loads, lines)]


class DeadlySource(ParquetSource):
    """The first process that joins rows behind the first row group ends itself, as the system does when memory runs
    out."""

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        died = self._root.parent / "died"
        if unit.first_row > 0 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read_original(unit, columns)


class GatedSource(ParquetSource):
    """Notes in `<root>/../joined/` which rows are joined; from the row that the file `join_at` names, joins wait until
    somebody opens the pipe `join`."""

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        folder = self._root.parent
        (folder / "joined" / str(unit.first_row)).touch()
        join_at = folder / "join_at"
        if join_at.exists() and unit.first_row >= int(join_at.read_text()):
            os.close(os.open(folder / "join", os.O_RDONLY))
        return super().read_original(unit, columns)


class StoppingSource(ParquetSource):
    """The first process that joins rows behind the first row group waits until somebody opens the pipe `join`."""

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        folder = self._root.parent
        if unit.first_row > 0 and not (folder / "stopped").exists():
            (folder / "stopped").touch()
            os.close(os.open(folder / "join", os.O_RDONLY))
        return super().read_original(unit, columns)
