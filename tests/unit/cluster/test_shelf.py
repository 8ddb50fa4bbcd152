"""What is prepared ahead, and how much of it."""

from __future__ import annotations

import numpy as np
import pytest

from assay.cluster.shelf import Piece, Shelf, piece_of
from assay.records import Unit


def pieces(number: int) -> list[Piece]:
    return [Piece("a.parquet", 10 * index, 10) for index in range(number)]


def begun(shelf: Shelf) -> list[Piece]:
    """All that may be begun now."""
    found = []
    while (piece := shelf.next()) is not None:
        found.append(piece)
    return found


def test_units_of_several_bundles_are_one_piece() -> None:
    first, second = Unit("u0.0", "a.parquet", 10, 20, 3, bundle=0), Unit("u0.1", "a.parquet", 10, 20, 3, bundle=1)
    assert piece_of(first) == piece_of(second) == Piece("a.parquet", 10, 20)


def test_one_is_made_alone_until_its_size_is_known() -> None:
    shelf, (a, b, c, d) = Shelf(1000, most_making=2), pieces(4)
    shelf.foresee([a, b, c, d])
    assert begun(shelf) == [a]
    shelf.finished(a, 100)
    assert begun(shelf) == [b, c]  # as many at once as there may be


def test_what_is_in_the_making_counts_as_the_largest_so_far() -> None:
    shelf, (a, b, c, d, e) = Shelf(350, most_making=4), pieces(5)
    shelf.foresee([a, b, c, d, e])
    shelf.next()
    shelf.finished(a, 100)
    assert begun(shelf) == [b, c]
    assert shelf.num_bytes == 300
    shelf.forget(a)
    assert begun(shelf) == [d]


def test_a_piece_larger_than_the_budget_is_made_alone() -> None:
    shelf, (a, b) = Shelf(10, most_making=4), pieces(2)
    shelf.foresee([a, b])
    assert begun(shelf) == [a]
    shelf.use("w", [a])
    shelf.finished(a, 1000)
    assert a in shelf
    assert begun(shelf) == []
    shelf.forget(a)
    assert begun(shelf) == [b]


def test_a_piece_larger_than_the_budget_stays_until_it_is_wanted() -> None:
    shelf, (a, b) = Shelf(10, most_making=4), pieces(2)
    shelf.foresee([a, b])
    shelf.next()
    shelf.finished(a, 1000)
    assert a in shelf
    assert begun(shelf) == []


def test_what_a_worker_waits_for_comes_first() -> None:
    shelf, (a, b, c) = Shelf(1000, most_making=1), pieces(3)
    shelf.foresee([a, b])
    shelf.want("w", c)
    assert begun(shelf) == [c]
    shelf.use("w", [c])
    shelf.finished(c, 1)
    assert begun(shelf) == [a]


def test_what_a_worker_waits_for_takes_the_room_of_what_is_foreseen_last() -> None:
    shelf, (a, b, c, d) = Shelf(300, most_making=1), pieces(4)
    shelf.foresee([a, b, c])
    for piece in (a, b, c):
        assert shelf.next() == piece
        shelf.finished(piece, 100)
    shelf.want("w", d)
    assert shelf.next() == d
    assert [piece in shelf for piece in (a, b, c, d)] == [True, True, False, True]


def test_what_workers_have_keeps_its_room() -> None:
    shelf, (a, b) = Shelf(100, most_making=1), pieces(2)
    shelf.want("v", a)
    shelf.next()
    shelf.use("v", [a])
    shelf.finished(a, 100)
    shelf.want("w", b)
    assert shelf.next() is None
    shelf.leave("v")
    assert shelf.next() == b
    assert a not in shelf


def test_what_nobody_knows_of_any_more_leaves_its_room_to_what_is_foreseen() -> None:
    shelf, (a, b) = Shelf(100, most_making=1), pieces(2)
    shelf.foresee([a])
    shelf.next()
    shelf.finished(a, 100)
    shelf.foresee([b])
    assert shelf.next() == b
    assert a not in shelf


def test_what_is_coming_is_made_before_what_is_foreseen() -> None:
    shelf, (a, b, c) = Shelf(1000, most_making=1), pieces(3)
    shelf.foresee([a, b])
    shelf.use("w", [], coming=c)
    assert shelf.next() == c


def test_what_is_coming_keeps_its_room_from_what_is_foreseen_and_not_from_what_is_wanted() -> None:
    shelf, (a, b, c) = Shelf(200, most_making=1), pieces(3)
    for piece in (a, b):
        shelf.foresee([piece])
        shelf.next()
        shelf.finished(piece, 100)
    shelf.use("v", [a], coming=b)
    shelf.foresee([c])
    assert shelf.next() is None
    shelf.free("v")  # has scored a, and will ask for b
    assert shelf.next() == c
    assert [piece in shelf for piece in (a, b, c)] == [False, True, True]
    shelf.finished(c, 100)
    shelf.use("u", [c])
    shelf.want("w", a)
    assert shelf.next() == a
    assert b not in shelf


def test_what_was_scored_elsewhere_is_coming_no_more() -> None:
    shelf, (a,) = Shelf(200, most_making=1), pieces(1)
    shelf.use("v", [], coming=a)
    shelf.forget(a)
    assert shelf.next() is None


def test_what_a_worker_waits_for_is_made_again_though_another_has_scored_it() -> None:
    """A copy of a unit, told to it just before."""
    shelf, (a,) = Shelf(200, most_making=1), pieces(1)
    shelf.want("v", a)
    shelf.forget(a)
    assert shelf.is_wanted(a)
    assert shelf.next() == a


def test_what_no_task_can_make_is_not_tried_again() -> None:
    shelf, (a, b) = Shelf(100, most_making=1), pieces(2)
    shelf.foresee([a, b])
    assert shelf.next() == a
    shelf.failed(a)
    assert shelf.is_by_hand(a)
    assert a not in shelf
    assert begun(shelf) == [b]
    shelf.forget(a)
    assert not shelf.is_by_hand(a)


def test_a_task_that_ends_after_its_piece_was_forgotten_changes_nothing() -> None:
    shelf, (a,) = Shelf(100, most_making=1), pieces(1)
    shelf.foresee([a])
    shelf.next()
    shelf.forget(a)
    shelf.finished(a, 100)
    assert (shelf.num_making, shelf.num_bytes) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_budget_holds_whatever_comes(seed: int) -> None:
    """200 pieces of 50 to 100 bytes for 3 workers and a budget of 500, in random order of what happens."""
    chance = np.random.default_rng(seed)
    queue, shelf = pieces(200), Shelf(500, most_making=4)
    making: list[Piece] = []
    had: dict[str, Piece | None] = dict.fromkeys("abc")
    scored: list[Piece] = []
    kept: dict[Piece, int] = {}  # what is finished, by a count of its own
    while len(scored) < 200:
        shelf.foresee(queue[:7])
        making += begun(shelf)
        kept = {piece: size for piece, size in kept.items() if piece in shelf}
        assert len(making) <= 4
        assert sum(kept.values()) <= 500
        assert len(making) <= 1 or sum(kept.values()) + 50 * len(making) <= 500
        worker = str(chance.choice(list("abc")))
        piece = had[worker]
        if making and chance.random() < 0.5:
            made = making.pop(int(chance.integers(len(making))))
            size = int(chance.integers(50, 101))
            kept[made] = size
            shelf.finished(made, size)
        elif piece is None and queue:
            had[worker] = wanted = queue.pop(0)
            shelf.want(worker, wanted)
        elif piece is not None and piece in shelf and piece not in making:
            shelf.use(worker, [piece])
            shelf.leave(worker)
            shelf.forget(piece)
            scored.append(piece)
            had[worker] = None
    assert sorted(scored) == pieces(200)
    assert shelf.num_bytes == 0
