"""Parquet files that tell who reads which of their columns, or end the process that joins; importable by Ray."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from assay.records import Chunk, EncodedRows, Unit
from assay.sinks.spliced import LEAST_GROUP_ROWS
from assay.sources.parquet import ParquetSource

How = Literal["copied", "decoded"]


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


class JoinedSource(ParquetSource):
    """Something is done before columns are copied, and before they are decoded. Where a part is copied, dead letters
    are decoded afterwards, when it is there for all to see."""

    def before(self, how: How, unit: Unit) -> None:
        raise NotImplementedError

    def encoded(self, unit: Unit, columns: Sequence[str]) -> EncodedRows | None:
        rows = super().encoded(unit, columns)
        if rows is not None and min(rows.group_rows) >= LEAST_GROUP_ROWS:  # shorter ones are only looked at
            self.before("copied", unit)
        return rows

    def read_original(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        self.before("decoded", unit)
        return super().read_original(unit, columns)


class DeadlySource(JoinedSource):
    """The first process that copies rows behind the first row group ends itself, as the system does when memory runs
    out, and so does the first one that decodes them."""

    def before(self, how: How, unit: Unit) -> None:
        if unit.first_row > 0 and _is_first(self._root.parent / f"died-{how}"):
            os.kill(os.getpid(), signal.SIGKILL)


class GatedSource(JoinedSource):
    """Notes in `<root>/../joined/` which rows are joined; from the row that the file `join_at` names, joins wait until
    somebody opens the pipe `join`."""

    def before(self, how: How, unit: Unit) -> None:
        folder = self._root.parent
        (folder / "joined" / str(unit.first_row)).touch()
        join_at = folder / "join_at"
        if join_at.exists() and unit.first_row >= int(join_at.read_text()):
            os.close(os.open(folder / "join", os.O_RDONLY))


class StoppingSource(JoinedSource):
    """The first process that decodes rows behind the first row group waits until somebody opens the pipe `join`; what
    is copied of them is written by then."""

    def before(self, how: How, unit: Unit) -> None:
        folder = self._root.parent
        if how == "decoded" and unit.first_row > 0 and _is_first(folder / "stopped"):
            os.close(os.open(folder / "join", os.O_RDONLY))


def _is_first(claim: Path) -> bool:
    """Of all processes one gets True."""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
