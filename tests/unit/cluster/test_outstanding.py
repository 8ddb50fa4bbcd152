"""Which items of a work are begun when, and which a second time: times are made up."""

from __future__ import annotations

import pytest

from assay.cluster import outstanding
from assay.cluster.outstanding import Outstanding


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outstanding, "LATE_TIMES", 4.0)
    monkeypatch.setattr(outstanding, "LEAST_LATE_SECONDS", 20.0)


def test_twice_as_many_as_there_are_places_are_out() -> None:
    found = Outstanding(7)
    assert found.due(2, 0.0) == [0, 1, 2, 3]
    assert found.due(2, 1.0) == []
    found.done(1, 5.0)
    assert found.due(2, 5.0) == [4]


def test_a_slow_first_one_does_not_keep_others_from_being_begun() -> None:
    found = Outstanding(20)
    begun = found.due(1, 0.0)
    for number in range(1, 20):
        found.done(number, 1.0)
        begun += found.due(1, float(number))
    assert begun == list(range(20))
    assert not found.is_done
    found.done(0, 25.0)
    assert found.is_done


def test_a_cluster_that_grows_gets_more_and_one_that_shrinks_no_more() -> None:
    found = Outstanding(9)
    assert found.due(1, 0.0) == [0, 1]
    assert found.due(3, 1.0) == [2, 3, 4, 5]
    found.done(0, 1.0)
    assert found.due(1, 2.0) == []


def test_nothing_to_do_is_done() -> None:
    assert Outstanding(0).is_done


def test_one_that_takes_far_longer_than_the_others_is_begun_a_second_time_once() -> None:
    found = Outstanding(4)
    assert found.due(4, 0.0) == [0, 1, 2, 3]
    for number in (0, 1, 3):
        found.done(number, 6.0)
    assert found.due(4, 24.0) == []  # four times as long as half of them took, and no longer
    assert found.due(4, 24.5) == [2]
    assert found.due(4, 100.0) == []
    found.done(2, 8.0)
    assert found.is_done


def test_none_is_late_before_a_process_could_have_started() -> None:
    found = Outstanding(2)
    found.due(2, 0.0)
    found.done(0, 0.1)
    assert found.due(2, 20.0) == []
    assert found.due(2, 20.5) == [1]


def test_none_is_late_as_long_as_it_is_not_known_how_long_others_take() -> None:
    found = Outstanding(2)
    found.due(2, 0.0)
    assert found.due(2, 10_000.0) == []


def test_none_is_begun_again_while_others_wait_for_a_place_and_that_time_does_not_count() -> None:
    found = Outstanding(4)
    assert found.due(2, 0.0) == [0, 1, 2, 3]
    found.done(0, 30.0)
    assert found.due(2, 200.0) == []  # three for two places: the last one waits
    found.done(1, 30.0)
    assert found.due(2, 210.0) == []  # from now on both have one
    assert found.due(2, 330.0) == []
    found.done(2, 100.0)
    assert found.due(2, 331.0) == [3]


def test_the_longest_comes_first_where_few_places_are_free() -> None:
    found = Outstanding(6)
    assert found.due(2, 0.0) == [0, 1, 2, 3]
    found.done(3, 1.0)
    found.done(2, 1.0)
    assert found.due(2, 50.0) == [4, 5]
    for number in (4, 5, 1):
        found.done(number, 1.0)
    assert found.due(2, 60.0) == []
    assert found.due(2, 81.0) == [0]
