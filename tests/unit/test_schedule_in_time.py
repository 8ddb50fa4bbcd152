"""Stories in which time passes: stragglers, copies, deadlines, drains, silence. Units have 100 rows each."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from assay.dispatch import (
    FLUSH_SECONDS,
    LEAST_OVERDUE_SECONDS,
    START_SECONDS,
    UNKNOWN_OVERDUE_SECONDS,
)
from assay.errors import ModelError
from assay.orders import (
    Abort,
    Commit,
    Committed,
    Drop,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Order,
    Resized,
    Say,
    Score,
    Stalled,
    StartWorker,
    Stop,
    Tick,
    UnitDone,
    UnitDropped,
    WorkerDraining,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Receipt, Unit
from assay.schedule import Schedule
from assay.watch import STALL_SECONDS, START_TOLD_SECONDS


def units(number: int) -> tuple[Unit, ...]:
    return tuple(Unit(f"u{index}", "day.parquet", 100 * index, 100, 0) for index in range(1, number + 1))


def receipt(unit: str) -> Receipt:
    return Receipt(unit, 100, f"digest of {unit}")


def done(worker: str, unit: str, *, flush_due: bool = False) -> UnitDone:
    return UnitDone(worker, receipt(unit), flush_due=flush_due)


def flushed(worker: str, *of: str) -> Flushed:
    return Flushed(worker, CommittedFile(f"file of {worker}", tuple(map(receipt, of))))


def scored(orders: Iterable[Order]) -> list[tuple[str, str]]:
    """Who was told to score what."""
    return [(order.incarnation, order.unit.id) for order in orders if isinstance(order, Score)]


def begun(number: int, num_workers: int, **settings: bool) -> Schedule:
    """All workers are ready at 0."""
    schedule = Schedule(units(number), driver="d", num_workers=num_workers, **settings)
    for order in schedule.start():
        assert isinstance(order, StartWorker)
    for index in range(1, num_workers + 1):
        schedule.handle(WorkerReady(f"d-{index}"), 0.0)
    return schedule


# ---- stragglers ------------------------------------------------------------------------------------------------------


def test_a_slow_worker_gets_no_unit_that_others_would_be_through_with_before_it() -> None:
    schedule = begun(13, 2)  # u1 and u3 in flight, u2 and u4 reserved
    for second, unit in enumerate(("u3", "u4", "u5", "u6", "u7", "u8", "u9"), start=1):
        schedule.handle(done("d-2", unit), float(second))
    # d-2 has u10 and reserved u11; u2, u12, u13 are left: with d-2 alone they take about 5 seconds, with d-1 7.
    assert schedule.handle(done("d-1", "u1"), 7.5) == [Flush("d-1", ("u1",))]
    [commit] = schedule.handle(flushed("d-1", "u1"), 7.6)
    assert isinstance(commit, Commit)
    schedule.handle(Committed(commit), 7.6)
    assert scored(schedule.handle(done("d-2", "u10"), 8.0)) == [("d-2", "u11")]


def test_without_speculation_it_does() -> None:
    schedule = begun(13, 2, speculate=False)
    for second, unit in enumerate(("u3", "u4", "u5", "u6", "u7", "u8", "u9"), start=1):
        schedule.handle(done("d-2", unit), float(second))
    assert scored(schedule.handle(done("d-1", "u1"), 7.5)) == [("d-1", "u2")]


def test_a_slow_worker_gets_units_while_there_are_many() -> None:
    schedule = begun(100, 2)
    for second in range(1, 11):
        schedule.handle(done("d-2", f"u{second + 2}"), float(second))
    assert scored(schedule.handle(done("d-1", "u1"), 10.0)) == [("d-1", "u2")]


def test_a_slow_worker_that_is_the_last_one_scores_what_it_was_not_given() -> None:
    schedule = begun(13, 2)
    for second, unit in enumerate(("u3", "u4", "u5", "u6", "u7", "u8", "u9"), start=1):
        schedule.handle(done("d-2", unit), float(second))
    schedule.handle(done("d-1", "u1"), 7.5)
    schedule.handle(flushed("d-1", "u1"), 7.6)
    orders = schedule.handle(WorkerLost("d-2", "its process died"), 8.0)
    assert scored(orders) == [("d-1", "u2")]


def test_a_slow_worker_does_not_wait_for_others_once_they_are_late() -> None:
    schedule = begun(13, 2)
    for second, unit in enumerate(("u3", "u4", "u5", "u6", "u7", "u8", "u9"), start=1):
        schedule.handle(done("d-2", unit), float(second))
    schedule.handle(done("d-1", "u1"), 7.5)
    [commit] = schedule.handle(flushed("d-1", "u1"), 7.6)
    assert isinstance(commit, Commit)
    schedule.handle(Committed(commit), 7.6)
    assert scored(schedule.handle(done("d-2", "u10"), 8.0)) == [("d-2", "u11")]  # and hangs, u2 reserved
    assert schedule.handle(Tick(), 9.4) == []
    assert scored(schedule.handle(Tick(), 9.6)) == [("d-1", "u12")]
    assert schedule.handle(done("d-1", "u12"), 17.1) == [Flush("d-1", ("u12",))]
    schedule.handle(flushed("d-1", "u12"), 17.2)
    assert scored(schedule.handle(Tick(), 17.6)) == [("d-1", "u13")]


def late() -> Schedule:
    """Two workers at one second a unit until d-1 hangs in u5, from 2 on; at 3 d-2 has nothing else to do."""
    schedule = begun(5, 2)
    schedule.handle(done("d-1", "u1"), 1.0)
    schedule.handle(done("d-2", "u3"), 1.0)
    assert scored(schedule.handle(done("d-2", "u4"), 2.0)) == [("d-2", "u5")]
    # d-1 scores u2 since 1
    assert schedule.handle(done("d-2", "u5"), 3.0) == [Flush("d-2", ("u5",))]
    [commit] = schedule.handle(flushed("d-2", "u3", "u4", "u5"), 3.1)
    assert isinstance(commit, Commit)
    schedule.handle(Committed(commit), 3.1)
    return schedule


def test_a_unit_long_past_its_time_is_copied_to_an_idle_worker() -> None:
    schedule = late()
    assert scored(schedule.handle(Tick(), 3.2)) == [("d-2", "u2")]
    assert schedule.handle(Tick(), 3.7) == []  # once


def test_a_unit_that_was_begun_before_any_rate_was_known_can_be_late_too() -> None:
    schedule = begun(3, 2)  # d-1 scores u1 and hangs
    schedule.handle(done("d-2", "u3"), 1.0)
    schedule.handle(done("d-2", "u2"), 2.0)
    schedule.handle(flushed("d-2", "u2", "u3"), 2.1)
    assert scored(schedule.handle(Tick(), 2.2)) == [("d-2", "u1")]


def test_a_tick_before_it_is_late_changes_nothing() -> None:
    schedule = begun(2, 2)
    schedule.handle(done("d-1", "u1"), 1.0)
    assert schedule.handle(Tick(), 1.2) == []


def test_the_first_result_is_accepted_and_the_other_worker_told_to_stop() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    assert schedule.handle(done("d-2", "u2"), 4.2) == [Drop("d-1", "u2"), Flush("d-2", ("u2",))]
    assert schedule.units_done == 5


def test_the_loser_flushes_what_it_holds_and_not_the_unit_it_lost() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-2", "u2"), 4.2)
    assert schedule.handle(UnitDropped("d-1", "u2"), 4.3) == [Flush("d-1", ())]
    [commit] = schedule.handle(flushed("d-1", "u1"), 4.4)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 4.4) == []
    [commit] = schedule.handle(flushed("d-2", "u2"), 4.5)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 4.5) == [End(stopped=False)]


def test_a_loser_that_did_not_hear_and_says_done_has_its_result_dropped() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-2", "u2"), 4.2)
    assert schedule.handle(done("d-1", "u2"), 4.3) == [Flush("d-1", ())]  # u2 is not accepted from it
    assert schedule.units_done == 5


def test_the_slow_worker_may_win_and_the_copy_is_dropped() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    assert schedule.handle(done("d-1", "u2"), 3.3) == [Drop("d-2", "u2"), Flush("d-1", ("u2",))]
    [commit] = schedule.handle(flushed("d-1", "u1", "u2"), 3.4)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 3.4) == [End(stopped=False)]  # the copy is not waited for


def test_when_one_of_two_dies_the_other_goes_on_and_the_unit_is_not_queued() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    orders = schedule.handle(WorkerLost("d-1", "its process died"), 3.3)
    assert [one for one in orders if isinstance(one, StartWorker)] == [StartWorker("d-3")]  # for u1, which it held
    assert scored(schedule.handle(done("d-2", "u2"), 4.2)) == [("d-2", "u1")]


def test_a_loser_that_does_not_answer_is_given_up_once_that_is_sooner_than_waiting() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-2", "u2"), 4.2)
    [commit] = schedule.handle(flushed("d-2", "u2"), 4.3)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 4.3) == []
    assert schedule.handle(Tick(), 5.0) == []
    say, end, again = schedule.handle(Tick(), 6.5)
    assert say == Say(
        "Worker d-1 is no longer waited for (it goes on with a unit that another has scored); what it holds is scored "
        "again."
    )
    assert end == EndWorker("d-1")
    assert scored([again]) == [("d-2", "u1")]


def hung() -> Schedule:
    """d-1 holds u1 and hangs in u2, which d-2 has scored and committed with all else; nothing else is left."""
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-2", "u2"), 4.2)
    return schedule


def test_a_stop_waits_for_a_hung_loser_no_longer_than_its_patience() -> None:
    """What it holds stays uncommitted: a resumed run scores it again."""
    schedule = hung()
    schedule.handle(Stop(), 4.25)
    [commit] = schedule.handle(flushed("d-2", "u2"), 4.3)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 4.3) == []
    assert schedule.handle(Tick(), 5.0) == []
    say, end, last = schedule.handle(Tick(), 6.5)
    assert isinstance(say, Say)
    assert (end, last) == (EndWorker("d-1"), End(stopped=True))
    assert schedule.units_done == 4


def test_a_stop_does_not_give_a_loser_up_while_others_still_flush() -> None:
    schedule = hung()
    schedule.handle(Stop(), 4.25)
    assert schedule.handle(Tick(), 30.0) == []
    [commit] = schedule.handle(flushed("d-2", "u2"), 30.5)
    assert isinstance(commit, Commit)


def test_a_worker_that_turned_slow_has_its_unit_copied_at_once_by_a_fast_one() -> None:
    """Its rate is known: its unit will end long after a copy would."""
    schedule = begun(40, 3)
    now = 0.0
    scoring = {"d-1": "u1", "d-2": "u3", "d-3": "u5"}
    ends = {"d-1": 8.0, "d-2": 1.0, "d-3": 1.0}
    orders: list[Order] = []
    while ends:
        worker = min(ends, key=lambda name: (ends[name], name))
        now = ends.pop(worker)
        orders = schedule.handle(done(worker, scoring.pop(worker)), now)
        for name, unit in scored(orders):
            scoring[name], ends[name] = unit, now + (8.0 if name == "d-1" else 1.0)
        for order in orders:
            if isinstance(order, Drop):
                ends.pop(order.incarnation)
                assert schedule.handle(UnitDropped(order.incarnation, order.unit), now) != []
    assert schedule.units_done == 40
    assert now < 40 / (2 + 1 / 8) * 1.15


def test_what_fails_at_a_loser_fails_nothing() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-2", "u2"), 4.2)
    assert schedule.handle(WorkerFailed("d-1", ModelError("b", "it is broken.")), 4.3) == [Flush("d-1", ())]


# ---- deadlines -------------------------------------------------------------------------------------------------------


def test_a_worker_that_hangs_is_ended_and_its_units_scored_elsewhere() -> None:
    schedule = begun(100, 1)
    schedule.handle(done("d-1", "u1"), 1.0)
    assert schedule.handle(Tick(), LEAST_OVERDUE_SECONDS) != []  # of the silence alone
    say, end, start = schedule.handle(Tick(), 1.0 + LEAST_OVERDUE_SECONDS)
    reason = "it scored unit u2 for 300 seconds, where 1.0 were expected"
    assert say == Say(f"Worker d-1 was lost ({reason}); its units are scored again.")
    assert (end, start) == (EndWorker("d-1"), StartWorker("d-2"))


def test_a_long_unit_has_ten_times_its_time() -> None:
    schedule = begun(100, 1)
    schedule.handle(done("d-1", "u1"), 60.0)
    schedule.handle(Tick(), 600.0)
    assert not [one for one in schedule.handle(Tick(), 659.0) if isinstance(one, EndWorker)]
    assert [one for one in schedule.handle(Tick(), 660.0) if isinstance(one, EndWorker)] == [EndWorker("d-1")]


def test_before_any_unit_was_done_the_bound_is_wide() -> None:
    schedule = begun(2, 1)
    assert not [one for one in schedule.handle(Tick(), UNKNOWN_OVERDUE_SECONDS - 1) if isinstance(one, EndWorker)]
    assert EndWorker("d-1") in schedule.handle(Tick(), UNKNOWN_OVERDUE_SECONDS)


def test_a_unit_whose_rows_the_plan_does_not_know_may_be_much_larger_than_others() -> None:
    plan = tuple(Unit(f"u{index}", f"{index}.csv", 0, None, 0) for index in range(1, 10))
    schedule = Schedule(plan, driver="d", num_workers=1)
    schedule.start()
    schedule.handle(WorkerReady("d-1"), 0.0)
    schedule.handle(done("d-1", "u1"), 1.0)
    assert not [one for one in schedule.handle(Tick(), 80_000.0) if isinstance(one, EndWorker)]


def test_the_spec_may_say_how_long_a_unit_takes() -> None:
    """From the first unit on, whatever the plan knows of its rows."""
    plan = tuple(Unit(f"u{index}", f"{index}.csv", 0, None, 0) for index in range(1, 10))
    schedule = Schedule(plan, driver="d", num_workers=1, unit_seconds=20.0)
    schedule.start()
    schedule.handle(WorkerReady("d-1"), 0.0)
    schedule.handle(done("d-1", "u1"), 19.0)
    assert schedule.handle(Tick(), 38.5) == []
    say, end, start = schedule.handle(Tick(), 39.0)
    reason = "it scored unit u2 for 20 seconds, where execution.unit_seconds allows 20"
    assert say == Say(f"Worker d-1 was lost ({reason}); its units are scored again.")
    assert (end, start) == (EndWorker("d-1"), StartWorker("d-2"))


def test_a_unit_that_takes_too_long_four_times_is_given_up_where_that_is_tolerated() -> None:
    schedule = Schedule(units(1), driver="d", num_workers=1, tolerant=True, unit_seconds=20.0)
    schedule.start()
    for life in range(1, 4):
        assert scored(schedule.handle(WorkerReady(f"d-{life}"), 20.0 * (life - 1))) == [(f"d-{life}", "u1")]
        assert schedule.handle(Tick(), 20.0 * life)[-1] == StartWorker(f"d-{life + 1}")
    schedule.handle(WorkerReady("d-4"), 60.0)
    [*_, commit] = schedule.handle(Tick(), 80.0)
    assert isinstance(commit, Commit)
    assert commit.lost == ("u1",)
    assert schedule.handle(Committed(commit), 80.0) == [End(stopped=False)]


def test_a_worker_that_never_gets_ready_is_replaced() -> None:
    schedule = Schedule(units(2), driver="d", num_workers=1)
    schedule.start()
    say, end, start = schedule.handle(Tick(), START_SECONDS)
    assert say == Say("Worker d-1 was lost (it was not ready after 3600 seconds); its units are scored again.")
    assert (end, start) == (EndWorker("d-1"), StartWorker("d-2"))


def test_a_flush_that_never_ends_is_not_waited_for() -> None:
    schedule = begun(1, 1)
    schedule.handle(done("d-1", "u1"), 1.0)
    orders = schedule.handle(Tick(), 1.0 + FLUSH_SECONDS)
    assert orders[0] == Say(
        "Worker d-1 was lost (it could not write its states within 600 seconds); its units are scored again."
    )


def test_a_unit_that_hangs_four_times_is_poison() -> None:
    schedule = begun(2, 1)
    now = 1.0
    schedule.handle(done("d-1", "u1", flush_due=True), now)
    [commit, _] = schedule.handle(flushed("d-1", "u1"), now)
    assert isinstance(commit, Commit)
    schedule.handle(Committed(commit), now)
    orders: list[Order] = []
    for life in range(1, 5):
        now += LEAST_OVERDUE_SECONDS
        orders = schedule.handle(Tick(), now)
        assert EndWorker(f"d-{life}") in orders
        if life < 4:
            assert scored(schedule.handle(WorkerReady(f"d-{life + 1}"), now)) == [(f"d-{life + 1}", "u2")]
    [last] = [one for one in orders if isinstance(one, Abort)]
    assert str(last.error).startswith(
        "Unit u2 (day.parquet, from row 200) was being scored at 4 deaths of a worker, the last time alone (it scored "
        "unit u2 for 300 seconds, where 1.0 were expected)."
    )


# ---- preemption and drains -------------------------------------------------------------------------------------------


def test_a_preempted_worker_says_nothing_of_its_unit() -> None:
    schedule = Schedule(units(1), driver="d", num_workers=1)
    schedule.start()
    for life in range(1, 40):
        assert scored(schedule.handle(WorkerReady(f"d-{life}"))) == [(f"d-{life}", "u1")]
        orders = schedule.handle(WorkerLost(f"d-{life}", "its node was taken away", preempted=True))
        assert orders[-1] == StartWorker(f"d-{life + 1}")


DRAINED = "Worker d-1 is about to lose its machine (its node is drained): it writes what it holds."


def test_a_draining_worker_ends_its_unit_flushes_and_is_replaced_at_once() -> None:
    schedule = begun(9, 1)
    schedule.handle(done("d-1", "u1"), 1.0)
    orders = schedule.handle(WorkerDraining("d-1", "its node is drained"), 1.5)
    assert orders == [Say(DRAINED), StartWorker("d-2")]
    assert schedule.handle(done("d-1", "u2"), 2.0) == [Flush("d-1", ("u2",))]
    commit, end = schedule.handle(flushed("d-1", "u1", "u2"), 2.1)
    assert isinstance(commit, Commit)
    assert end == EndWorker("d-1")
    assert scored(schedule.handle(WorkerReady("d-2"), 2.2)) == [("d-2", "u3")]


def test_a_unit_that_would_not_end_in_time_is_dropped_so_that_the_rest_is_kept() -> None:
    schedule = begun(9, 1)
    schedule.handle(done("d-1", "u1"), 60.0)
    orders = schedule.handle(WorkerDraining("d-1", "its node is drained", 30.0), 70.0)
    assert orders == [Say(DRAINED), Drop("d-1", "u2"), StartWorker("d-2")]
    assert schedule.handle(UnitDropped("d-1", "u2"), 71.0) == [Flush("d-1", ())]
    assert scored(schedule.handle(WorkerReady("d-2"), 72.0)) == [("d-2", "u2")]


def test_a_unit_that_ends_in_time_is_ended() -> None:
    schedule = begun(9, 1)
    schedule.handle(done("d-1", "u1"), 10.0)
    assert schedule.handle(WorkerDraining("d-1", "its node is drained", 30.0), 11.0) == [
        Say(DRAINED),
        StartWorker("d-2"),
    ]


def test_a_worker_that_has_nothing_ends_at_once_when_drained() -> None:
    schedule = Schedule(units(2), driver="d", num_workers=1)
    schedule.start()
    orders = schedule.handle(WorkerDraining("d-1", "its node is drained"))
    assert orders == [Say(DRAINED), EndWorker("d-1"), StartWorker("d-2")]


def test_a_drain_said_twice_or_of_an_ended_worker_is_nothing() -> None:
    schedule = begun(9, 1)
    schedule.handle(WorkerDraining("d-1", "its node is drained"))
    assert schedule.handle(WorkerDraining("d-1", "its node is drained")) == []
    assert schedule.handle(WorkerDraining("d-7", "its node is drained")) == []


def test_a_draining_worker_that_is_lost_counts_as_preempted() -> None:
    schedule = begun(1, 1)
    for life in range(1, 7):
        schedule.handle(WorkerDraining(f"d-{life}", "its node is drained"))
        schedule.handle(WorkerLost(f"d-{life}", "its process died"))
        assert scored(schedule.handle(WorkerReady(f"d-{life + 1}"))) == [(f"d-{life + 1}", "u1")]


def test_workers_join_when_there_is_room_and_the_last_to_come_leave_when_there_is_not() -> None:
    schedule = begun(20, 1)
    assert schedule.handle(Resized(3)) == [StartWorker("d-2"), StartWorker("d-3")]
    assert schedule.handle(Resized(2)) == [EndWorker("d-3")]
    assert scored(schedule.handle(WorkerReady("d-2"))) == [("d-2", "u3")]
    assert schedule.handle(Resized(1)) == []  # one that scores is not ended


# ---- silence ---------------------------------------------------------------------------------------------------------


def test_silence_is_told_with_what_is_waited_for_and_less_and_less_often() -> None:
    schedule = begun(9, 1)
    told = [at for at in range(1, 1000) if schedule.handle(Tick(), float(at)) != []]
    assert told == [60, 120, 240, 480, 960]
    assert schedule.handle(Tick(), 1920.0) == [Stalled("score", "d-1", "u1", 1920.0)]


def test_what_is_heard_ends_the_silence() -> None:
    schedule = begun(9, 1)
    schedule.handle(done("d-1", "u1"), 50.0)
    assert schedule.handle(Tick(), 50.0 + STALL_SECONDS) == []  # the next is expected to take 50 seconds
    assert schedule.handle(Tick(), 200.0) == [Stalled("score", "d-1", "u2", 150.0)]


def test_a_run_without_workers_says_that_it_waits_for_one() -> None:
    schedule = Schedule(units(2), driver="d", num_workers=2)
    schedule.start()
    assert schedule.handle(Tick(), STALL_SECONDS) == [Stalled("start", "d-1", None, STALL_SECONDS)]


def test_a_worker_that_does_not_come_while_others_score_is_told_of_once() -> None:
    schedule = Schedule(units(900), driver="d", num_workers=2)
    schedule.start()
    schedule.handle(WorkerReady("d-1"), 1.0)
    told = []
    for second, unit in enumerate(range(1, 200), start=2):
        schedule.handle(done("d-1", f"u{unit}"), float(second))
        told += schedule.handle(Tick(), second + 0.5)
    assert told == [Stalled("start", "d-2", None, START_TOLD_SECONDS + 0.5)]


# ---- any story -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(150))
def test_whatever_is_slow_dies_or_drains_each_unit_is_committed_once(seed: int) -> None:
    """Workers of any speed, some of which do not hear, die, drain, or say things late. The same story gives the same
    orders again, and ticks from which nothing follows make no difference to it."""
    story = Story(seed)
    given = story.run()
    schedule = story.schedule()
    assert schedule.start() == given[0]
    for (at, event), orders in zip(story.heard, given[1:], strict=True):
        if event != Tick() or orders:
            assert schedule.handle(event, at) == orders


class Story:
    """One world, made from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._num_workers = self._chance.randint(1, 6)
        self._num_units = self._chance.randint(1, 60)
        self._waiting: list[tuple[float, int, Event]] = []
        self._now = 0.0
        self.heard: list[tuple[float, Event]] = []

    def schedule(self) -> Schedule:
        return Schedule(units(self._num_units), driver="d", num_workers=self._num_workers, tolerant=True)

    def run(self) -> list[list[Order]]:
        """All orders that were given, by event."""
        chance, schedule = self._chance, self.schedule()
        held: dict[str, list[str]] = {}
        speed = {name: chance.choice((1.0, 1.0, 0.1)) for name in (f"d-{number}" for number in range(1, 2000))}
        committed: list[str] = []
        given = [schedule.start()]
        for _ in range(20_000):
            for order in given[-1]:
                if isinstance(order, StartWorker):
                    self._say(chance.uniform(0, 5), WorkerReady(order.incarnation))
                elif isinstance(order, Score):
                    held.setdefault(order.incarnation, []).extend(order.accept)
                    seconds = chance.uniform(0.8, 1.2) / speed[order.incarnation]
                    self._say(seconds, done(order.incarnation, order.unit.id, flush_due=chance.random() < 0.3))
                    if chance.random() < 0.05:
                        self._say(
                            chance.uniform(0, seconds), WorkerLost(order.incarnation, "chance", chance.random() < 0.5)
                        )
                    if chance.random() < 0.05:
                        self._say(chance.uniform(0, seconds), WorkerDraining(order.incarnation, "chance", 1.0))
                elif isinstance(order, Drop) and chance.random() < 0.7:
                    late = [
                        one for one in self._waiting if isinstance(one[2], UnitDone) and one[2] == self._said(order)
                    ]
                    if late:
                        self._waiting.remove(late[0])
                        self._say(chance.uniform(0, 1), UnitDropped(order.incarnation, order.unit))
                elif isinstance(order, Flush):
                    content = [*held.pop(order.incarnation, []), *order.accept]
                    file = CommittedFile(str(chance.random()), tuple(map(receipt, content)))
                    self._say(chance.uniform(0, 0.2), Flushed(order.incarnation, file))
                elif isinstance(order, Commit):
                    committed += [one.unit for entry in order.files for one in entry.receipts]
                    committed += order.lost
                    self._say(0.0, Committed(order))
                elif isinstance(order, End):
                    assert sorted(committed) == sorted(unit.id for unit in units(self._num_units))
                    return given
                assert not isinstance(order, Abort)
            given.append(self._next(schedule))
        pytest.fail("the run did not end")

    def _said(self, order: Drop) -> UnitDone | None:
        said = [one[2] for one in self._waiting if isinstance(one[2], UnitDone)]
        return next(
            (one for one in said if (one.incarnation, one.receipt.unit) == (order.incarnation, order.unit)), None
        )

    def _say(self, delay: float, event: Event) -> None:
        self._waiting.append((self._now + delay, len(self.heard) * 1000 + len(self._waiting), event))

    def _next(self, schedule: Schedule) -> list[Order]:
        first = min(self._waiting, default=None, key=lambda one: one[:2])
        if first is None or (first[0] > self._now + 0.5 and not isinstance(first[2], Committed)):
            self._now += 0.5
            event: Event = Tick()
        else:
            self._waiting.remove(first)
            self._now, event = max(first[0], self._now), first[2]
        self.heard.append((self._now, event))
        return schedule.handle(event, self._now)


def test_a_stop_does_not_wait_for_losers_that_hold_nothing() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    schedule.handle(done("d-1", "u2"), 3.3)  # d-2 has lost, and holds nothing
    schedule.handle(Stop(), 3.4)
    [commit] = schedule.handle(flushed("d-1", "u1", "u2"), 3.5)
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit), 3.5) == [End(stopped=False)]


def test_an_error_while_a_unit_is_in_two_hands_ends_the_run() -> None:
    schedule = late()
    schedule.handle(Tick(), 3.2)
    error = ModelError("b", "it is broken.")
    assert schedule.handle(WorkerFailed("d-2", error), 3.3) == []
    assert schedule.handle(done("d-1", "u2"), 3.4) == [Flush("d-1", ("u2",))]
    [commit] = schedule.handle(flushed("d-1", "u1", "u2"), 3.5)
    assert isinstance(commit, Commit)
    [last] = schedule.handle(Committed(commit), 3.5)
    assert last == Abort(error)
