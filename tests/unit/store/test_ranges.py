"""Parts of a distant object read as a file's: the same bytes, in few requests."""

from __future__ import annotations

import io
import random

import pytest

from assay.errors import RunError
from assay.store.ranges import RangeReader

DATA = bytes(random.Random(1).randbytes(1_000))


class Fetched(list[tuple[int, int]]):
    """What was asked for."""

    def __call__(self, start: int, end: int) -> bytes:
        self.append((start, end))
        return DATA[start:end]


def test_any_reads_give_the_same_as_the_bytes() -> None:
    chance, reader, expected = random.Random(2), RangeReader(Fetched(), 1_000, ahead=100), io.BytesIO(DATA)
    for _ in range(500):
        place, size = chance.randrange(1_100), chance.choice([-1, chance.randrange(300)])
        assert reader.seek(place) == expected.seek(place)
        assert reader.read(size) == expected.read(size)
        assert reader.tell() == expected.tell()


def test_it_can_be_sought_from_anywhere() -> None:
    reader = RangeReader(Fetched(), 1_000)
    assert (reader.seek(-10, io.SEEK_END), reader.seek(5, io.SEEK_CUR)) == (990, 995)
    assert (reader.readable(), reader.seekable(), reader.read()) == (True, True, DATA[995:])


def test_neighbours_are_fetched_at_once() -> None:
    fetched = Fetched()
    reader = RangeReader(fetched, 1_000, ahead=400)
    for start in range(0, 400, 50):
        reader.seek(start)
        reader.read(50)
    assert fetched == [(0, 400)]


def test_the_end_comes_with_what_lies_before_it() -> None:
    fetched = Fetched()
    reader = RangeReader(fetched, 1_000, ahead=400)
    for place in (-10, -200, -390):
        reader.seek(place, io.SEEK_END)
        reader.read(10)
    assert fetched == [(600, 1_000)]


def test_what_fails_is_told() -> None:
    def fails(start: int, end: int) -> bytes:
        raise RunError("The store is away.")

    with pytest.raises(RunError, match=r"^The store is away\.$"):
        RangeReader(fails, 10).read(1)
