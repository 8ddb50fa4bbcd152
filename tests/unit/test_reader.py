"""Units are read in order by one thread, a few chunks ahead and never more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from fakes.small_run import Positions, read_rows, units

from assay.errors import DataError
from assay.reader import MOST_WAITING, Reader
from assay.records import Rows, Unit

SOURCE = Positions(pa.schema({"x": pa.float64()}))
SECONDS = 60.0
"""How long a test waits for what must happen."""


def fail_after(chunks: Iterator[Rows]) -> None:
    next(chunks)
    raise DataError("it cannot be scored.")


class Reading:
    """Reads units of `fakes.small_run`, in chunks of 10 rows, and notes each chunk."""

    def __init__(self) -> None:
        self.chunks: list[tuple[str, int]] = []
        self.threads: set[str] = set()
        self.fail_at: int | None = None
        self._read = threading.Condition()

    def __call__(self, unit: Unit) -> Iterator[Rows]:
        for chunk in SOURCE.read(unit, ["x"]):
            if chunk.first_row == self.fail_at:
                raise DataError(f"row {chunk.first_row} is torn.")
            with self._read:
                self.threads.add(threading.current_thread().name)
                self.chunks.append((unit.id, chunk.first_row))
                self._read.notify_all()
            yield read_rows(chunk)

    def wait(self, number: int) -> None:
        """Until so many chunks are read."""
        with self._read:
            assert self._read.wait_for(lambda: len(self.chunks) >= number, SECONDS)


@pytest.fixture
def read() -> Reading:
    return Reading()


@pytest.fixture
def reader(read: Reading) -> Iterator[Reader]:
    reader = Reader(read)
    yield reader
    reader.close()
    assert not reader._thread.is_alive()


def test_chunks_come_in_order_and_from_another_thread(reader: Reader, read: Reading) -> None:
    [unit] = units(1, rows=40)
    with reader.reading(unit, None) as chunks:
        assert [rows.first_row for rows in chunks] == [0, 10, 20, 30]
    assert read.threads == {"assay-read"}


def test_only_a_few_chunks_wait_however_long_the_unit_is(reader: Reader, read: Reading) -> None:
    [unit] = units(1, rows=10_000)
    with reader.reading(unit, None) as chunks:
        for taken, _ in enumerate(chunks, start=1):
            assert len(read.chunks) <= taken + MOST_WAITING
    assert len(read.chunks) == 1_000


def test_the_upcoming_unit_is_read_when_this_one_has_been_and_not_twice(reader: Reader, read: Reading) -> None:
    first, second, _ = units(3)
    with reader.reading(first, second) as chunks:
        next(chunks)
        next(chunks)
        read.wait(4)
        assert list(chunks) == []
    with reader.reading(second, None) as chunks:
        assert [rows.first_row for rows in chunks] == [20, 30]
    assert read.chunks == [("u000", 0), ("u000", 10), ("u001", 20), ("u001", 30)]


def test_a_unit_that_was_read_ahead_for_nothing_is_given_up(reader: Reader, read: Reading) -> None:
    first, second, third = units(3, rows=1_000)
    with reader.reading(first, second) as chunks:
        assert len(list(chunks)) == 100
    with reader.reading(third, None) as chunks:
        assert [rows.first_row for rows in chunks] == list(range(2_000, 3_000, 10))
    assert sum(unit == second.id for unit, _ in read.chunks) <= MOST_WAITING


def test_an_error_comes_in_its_place(reader: Reader, read: Reading) -> None:
    read.fail_at = 30
    first, second, third = units(3)
    with reader.reading(first, second) as chunks:
        assert len(list(chunks)) == 2
    with reader.reading(second, third) as chunks:
        assert next(chunks).first_row == 20
        with pytest.raises(DataError, match=r"^row 30 is torn.$"):
            next(chunks)
    with reader.reading(third, None) as chunks:
        assert len(list(chunks)) == 2


def test_what_is_no_exception_is_not_waited_for_either() -> None:
    """As a library raises that panics."""

    def panic(unit: Unit) -> Iterator[Rows]:
        raise SystemExit("out of bounds")
        yield

    [unit] = units(1)
    reader = Reader(panic)
    for _ in range(2):  # its thread goes on
        sentence = r"^Reading ended with SystemExit\('out of bounds'\)\.$"
        with reader.reading(unit, None) as chunks, pytest.raises(RuntimeError, match=sentence):
            next(chunks)
    reader.close()


def test_a_scorer_that_raises_midway_leaves_the_reader_free(reader: Reader, read: Reading) -> None:
    first, second = units(2, rows=1_000)
    with pytest.raises(DataError), reader.reading(first, second) as chunks:
        fail_after(chunks)
    assert sum(unit == first.id for unit, _ in read.chunks) <= 1 + MOST_WAITING
    with reader.reading(second, None) as chunks:
        assert len(list(chunks)) == 100


def test_closing_ends_a_thread_that_waits(read: Reading) -> None:
    reader = Reader(read)
    first, second = units(2, rows=1_000)
    with reader.reading(first, second) as chunks:
        next(chunks)
    reader.close()
    assert not reader._thread.is_alive()


def test_an_empty_unit_has_no_chunks(reader: Reader) -> None:
    with reader.reading(Unit("u", "rows.parquet", 0, 0, 0), None) as chunks:
        assert list(chunks) == []
