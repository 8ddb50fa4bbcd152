"""The first rows of a unit that was given up, read in a process that may die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from fakes.small_run import Positions

from assay.glance import first_rows
from assay.records import Chunk, Unit

UNIT = Unit("u1", "rows.parquet", 40, 20, 0)
SCHEMA = pa.schema([("x", pa.float64())])


class Deadly(Positions):
    """Whoever reads it dies of it."""

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().read(unit, columns)


class Hanging(Positions):
    """Whoever reads it waits for ever."""

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        signal.pause()
        return super().read(unit, columns)


@dataclass(frozen=True)
class InMemory(Positions):
    resumable: bool = False
    empty: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        raise AssertionError("It is not handed on.")

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        return iter([]) if self.empty else super().read(unit, columns)


def test_the_first_rows_are_read_by_a_process_of_their_own() -> None:
    assert first_rows(Positions(SCHEMA), UNIT, ("x",)) == '[{"x": 40.0}, {"x": 41.0}, {"x": 42.0}]'


def test_rows_in_memory_are_read_where_they_are() -> None:
    assert first_rows(InMemory(SCHEMA), UNIT, ("x",)) == '[{"x": 40.0}, {"x": 41.0}, {"x": 42.0}]'
    assert first_rows(InMemory(SCHEMA, empty=True), UNIT, ("x",)) == ""


def test_rows_that_kill_their_reader_are_not_shown() -> None:
    assert first_rows(Deadly(SCHEMA), UNIT, ("x",)) == ""


def test_rows_that_are_not_there_in_time_are_not_shown() -> None:
    assert first_rows(Hanging(SCHEMA), UNIT, ("x",), seconds=0.1) == ""
