"""When new workers wait for rows that went with a node."""

from __future__ import annotations

from assay.cluster.rows_first import RowsFirst


class Source:
    """Rows of which some may be gone; it counts how often it is asked."""

    def __init__(self) -> None:
        self.missing = 0
        self.asked = 0

    def num_missing(self) -> int:
        self.asked += 1
        return self.missing


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_workers_wait_while_rows_are_gone_for_a_minute_at_most() -> None:
    source, clock = Source(), Clock()
    rows_first = RowsFirst(source, clock)
    assert not rows_first.must_wait()
    source.missing, clock.now = 3, 110.0
    assert rows_first.must_wait()
    clock.now = 169.9
    assert rows_first.must_wait()
    clock.now = 170.0
    assert not rows_first.must_wait()


def test_once_all_rows_are_back_the_next_loss_has_a_minute_of_its_own() -> None:
    source, clock = Source(), Clock()
    rows_first = RowsFirst(source, clock)
    source.missing = 1
    assert rows_first.must_wait()
    source.missing, clock.now = 0, 130.0
    assert not rows_first.must_wait()
    source.missing, clock.now = 1, 150.0
    assert rows_first.must_wait()
    clock.now = 205.0
    assert rows_first.must_wait()


def test_it_is_asked_once_a_second_at_most() -> None:
    source, clock = Source(), Clock()
    rows_first = RowsFirst(source, clock)
    for _ in range(5):
        rows_first.must_wait()
    source.missing = 1
    clock.now = 100.9
    assert not rows_first.must_wait()
    assert source.asked == 1
    clock.now = 101.0
    assert rows_first.must_wait()
    assert source.asked == 2
