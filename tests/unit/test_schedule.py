"""Every story of a run, told to the state machine: no threads, no clock, no cluster."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from assay.errors import ModelError, RunError
from assay.orders import (
    Abort,
    Commit,
    Committed,
    End,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Order,
    Say,
    Score,
    StartWorker,
    Stop,
    UnitDone,
    WorkerFailed,
    WorkerLost,
    WorkerReady,
)
from assay.records import CommittedFile, Failure, Receipt, Unit
from assay.schedule import Schedule


def units(number: int) -> tuple[Unit, ...]:
    return tuple(Unit(f"u{index}", "day.parquet", 100 * index, 100, 0) for index in range(1, number + 1))


def receipt(unit: str, failed: tuple[str, ...] = ()) -> Receipt:
    return Receipt(unit, 100, f"digest of {unit}", failed)


def file(*of: str, name: str = "file") -> CommittedFile:
    return CommittedFile(name, tuple(receipt(unit) for unit in of))


def done(worker: str, unit: str, *, flush_due: bool = False) -> UnitDone:
    return UnitDone(worker, receipt(unit), flush_due=flush_due)


def score(schedule_units: Iterable[Unit], worker: str, unit: str, upcoming: str | None, *accept: str) -> Score:
    by_id = {one.id: one for one in schedule_units}
    return Score(worker, by_id[unit], by_id[upcoming] if upcoming else None, accept)


def begun(number: int, num_workers: int = 1, **settings: bool) -> Schedule:
    """A schedule whose workers d-1, d-2, ... are ready, told in this order."""
    schedule = Schedule(units(number), driver="d", num_workers=num_workers, **settings)
    for order in schedule.start():
        assert isinstance(order, StartWorker)
    for index in range(1, num_workers + 1):
        schedule.handle(WorkerReady(f"d-{index}"))
    return schedule


# ---- the plain way ---------------------------------------------------------------------------------------------------


def test_one_worker_from_start_to_end() -> None:
    plan = units(3)
    schedule = Schedule(plan, driver="d", num_workers=1)
    assert schedule.start() == [StartWorker("d-1")]
    assert schedule.handle(WorkerReady("d-1")) == [score(plan, "d-1", "u1", "u2")]
    assert schedule.handle(done("d-1", "u1")) == [score(plan, "d-1", "u2", "u3", "u1")]
    assert schedule.handle(done("d-1", "u2")) == [score(plan, "d-1", "u3", None, "u2")]
    assert schedule.handle(done("d-1", "u3")) == [Flush("d-1", ("u3",))]
    commit = Commit(files=(file("u1", "u2", "u3"),))
    assert schedule.handle(Flushed("d-1", file("u1", "u2", "u3"))) == [commit]
    assert schedule.handle(Committed(commit)) == [End(stopped=False)]


def test_no_more_workers_start_than_there_are_units() -> None:
    assert Schedule(units(2), driver="d", num_workers=8).start() == [StartWorker("d-1"), StartWorker("d-2")]


def test_a_flush_that_is_due_comes_before_the_next_unit_and_keeps_what_was_read_ahead() -> None:
    schedule = begun(3)
    assert schedule.handle(done("d-1", "u1", flush_due=True)) == [Flush("d-1", ("u1",))]
    orders = schedule.handle(Flushed("d-1", file("u1")))
    assert orders == [Commit(files=(file("u1"),)), score(units(3), "d-1", "u2", "u3")]


def test_failures_go_into_the_commit_of_their_unit() -> None:
    schedule = begun(1, tolerant=True)
    failure = Failure("u1", "b", "it is broken.", 100)
    schedule.handle(UnitDone("d-1", receipt("u1", ("b",)), (failure,)))
    [commit, *_] = schedule.handle(Flushed("d-1", CommittedFile("file", (receipt("u1", ("b",)),))))
    assert commit == Commit(files=(CommittedFile("file", (receipt("u1", ("b",)),)),), failures=(failure,))


def test_an_idle_worker_takes_a_unit_that_is_reserved_for_a_busy_one() -> None:
    plan = units(3)
    schedule = Schedule(plan, driver="d", num_workers=2)
    schedule.start()
    assert schedule.handle(WorkerReady("d-1")) == [score(plan, "d-1", "u1", "u2")]
    assert schedule.handle(WorkerReady("d-2")) == [score(plan, "d-2", "u3", None)]
    assert schedule.handle(done("d-2", "u3")) == [score(plan, "d-2", "u2", None, "u3")]
    assert schedule.handle(done("d-1", "u1")) == [Flush("d-1", ("u1",))]


def test_progress_counts_what_is_accepted() -> None:
    schedule = begun(4, 2)
    schedule.handle(done("d-1", "u1"))
    assert (schedule.units_done, schedule.num_units, schedule.rows_done) == (1, 4, 100)


# ---- resuming --------------------------------------------------------------------------------------------------------


def test_a_new_driver_scores_only_what_is_not_committed() -> None:
    schedule = Schedule(units(4), [file("u1"), file("u3")], ["u4"], driver="e", num_workers=2)
    assert schedule.start() == [StartWorker("e-1")]
    assert schedule.handle(WorkerReady("e-1")) == [score(units(4), "e-1", "u2", None)]
    assert schedule.units_done == 3


def test_a_run_with_everything_committed_ends_at_once() -> None:
    assert Schedule(units(2), [file("u1", "u2")], driver="e", num_workers=2).start() == [End(stopped=False)]


def test_a_log_that_commits_a_unit_twice_is_refused() -> None:
    with pytest.raises(RunError, match=r"^Unit u1 is committed twice: the commit log of this run cannot be trusted.$"):
        Schedule(units(2), [file("u1"), file("u1", "u2")], driver="e", num_workers=2)


def test_a_log_with_a_unit_of_another_plan_is_refused() -> None:
    with pytest.raises(RunError, match=r"^Unit u7 is committed but not in the plan: the run cannot be trusted.$"):
        Schedule(units(1), [file("u1", "u7")], driver="e", num_workers=2)


# ---- losses ----------------------------------------------------------------------------------------------------------


def lost(worker: str, reason: str = "its process died") -> list[Order]:
    """What follows at once when a worker is lost."""
    return [Say(f"Worker {worker} was lost ({reason}); its units are scored again."), EndWorker(worker)]


def test_what_a_lost_worker_had_not_committed_is_scored_by_its_replacement() -> None:
    schedule = begun(5)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(WorkerLost("d-1", "its process died")) == [*lost("d-1"), StartWorker("d-2")]
    assert schedule.handle(WorkerReady("d-2")) == [score(units(5), "d-2", "u1", "u2")]


def test_what_was_committed_before_the_loss_is_not_scored_again() -> None:
    schedule = begun(3)
    schedule.handle(done("d-1", "u1", flush_due=True))
    [commit, _] = schedule.handle(Flushed("d-1", file("u1")))
    assert isinstance(commit, Commit)
    schedule.handle(Committed(commit))
    schedule.handle(WorkerLost("d-1", "its process died"))
    assert schedule.handle(WorkerReady("d-2")) == [score(units(3), "d-2", "u2", "u3")]


def test_the_flush_of_a_worker_that_was_taken_for_lost_counts_for_nothing() -> None:
    schedule = begun(1)
    schedule.handle(done("d-1", "u1"))
    schedule.handle(WorkerLost("d-1", "it could not be reached for 60 seconds"))
    assert schedule.handle(Flushed("d-1", file("u1"))) == []
    assert schedule.handle(done("d-1", "u1")) == []
    assert schedule.handle(WorkerReady("d-2")) == [score(units(1), "d-2", "u1", None)]


def test_done_said_twice_is_said_once() -> None:
    schedule = begun(3)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(done("d-1", "u1")) == []
    assert schedule.units_done == 1


def test_lost_said_twice_is_said_once() -> None:
    schedule = begun(3)
    schedule.handle(WorkerLost("d-1", "its process died"))
    assert schedule.handle(WorkerLost("d-1", "its process died")) == []


@pytest.mark.parametrize(
    "flushed",
    [
        pytest.param(file("u1", "u2"), id="a unit that was not accepted"),
        pytest.param(file(), id="less than was accepted"),
        pytest.param(CommittedFile("file", (Receipt("u1", 100, "another digest"),)), id="other bytes"),
    ],
)
def test_a_flush_of_anything_but_what_was_accepted_is_refused_whole(flushed: CommittedFile) -> None:
    schedule = begun(1)
    schedule.handle(done("d-1", "u1"))
    refused = lost("d-1", "it flushed other units than were accepted")
    assert schedule.handle(Flushed("d-1", flushed)) == [*refused, StartWorker("d-2")]
    assert schedule.handle(WorkerReady("d-2")) == [score(units(1), "d-2", "u1", None)]


def test_a_flush_said_twice_is_committed_once() -> None:
    schedule = begun(2)
    schedule.handle(done("d-1", "u1", flush_due=True))
    schedule.handle(Flushed("d-1", file("u1")))
    assert schedule.handle(Flushed("d-1", file("u1"))) == []


def test_workers_that_die_before_they_are_ready_are_replaced_only_so_often() -> None:
    schedule = Schedule(units(1), driver="d", num_workers=1)
    orders: list[Order] = schedule.start()
    for _ in range(8):
        [started] = [order for order in orders if isinstance(order, StartWorker)]
        orders = schedule.handle(WorkerLost(started.incarnation, "no memory"))
    [*_, started] = orders
    assert isinstance(started, StartWorker)
    [*_, last] = schedule.handle(WorkerLost(started.incarnation, "no memory"))
    assert isinstance(last, Abort)
    assert str(last.error) == (
        "Workers were lost 9 times in a row without finishing a unit (the last time: no memory). What is committed is "
        "kept; when the cause is mended, resume the run."
    )


# ---- variants that fail ----------------------------------------------------------------------------------------------


def failing(worker: str, unit: str, *variants: str) -> UnitDone:
    failures = tuple(Failure(unit, name, f"it cannot score {unit}.", 100) for name in variants)
    return UnitDone(worker, receipt(unit, variants), failures)


def said(orders: list[Order]) -> list[str]:
    return [order.message for order in orders if isinstance(order, Say)]


def test_the_first_failure_of_each_variant_is_told() -> None:
    schedule = begun(5, tolerant=True)
    a = "Variant 'a' failed on a unit: it cannot score u1; the others go on."
    b = "Variant 'b' failed on a unit: it cannot score u2; the others go on."
    assert said(schedule.handle(failing("d-1", "u1", "a"))) == [a]
    assert said(schedule.handle(failing("d-1", "u2", "a", "b"))) == [b]
    assert said(schedule.handle(failing("d-1", "u3", "b"))) == []


def test_a_failure_that_does_not_count_is_not_told() -> None:
    schedule = begun(3, tolerant=True)
    schedule.handle(WorkerLost("d-1", "its process died"))
    schedule.handle(WorkerReady("d-2"))
    assert schedule.handle(failing("d-1", "u1", "a")) == []
    assert said(schedule.handle(done("d-2", "u1"))) == []
    assert schedule.handle(failing("d-2", "u1", "a")) == []


# ---- poison ----------------------------------------------------------------------------------------------------------


def poisoned(*, tolerant: bool) -> tuple[Schedule, list[list[Order]]]:
    """Two units, one worker at a time; each one that scores u1 dies. What followed each death."""
    schedule = Schedule(units(2), driver="d", num_workers=1, tolerant=tolerant)
    schedule.start()
    followed = []
    for life in range(1, 4):
        assert schedule.handle(WorkerReady(f"d-{life}")) == [score(units(2), f"d-{life}", "u1", "u2")]
        followed.append(schedule.handle(WorkerLost(f"d-{life}", "its process died")))
    # After three deaths, u1 waits until all else is committed.
    assert schedule.handle(WorkerReady("d-4")) == [score(units(2), "d-4", "u2", None)]
    assert schedule.handle(done("d-4", "u2")) == [Flush("d-4", ("u2",))]
    commit, alone = schedule.handle(Flushed("d-4", file("u2")))
    assert isinstance(commit, Commit)
    assert alone == score(units(2), "d-4", "u1", None)
    assert schedule.handle(Committed(commit)) == []
    followed.append(schedule.handle(WorkerLost("d-4", "its process died")))
    return schedule, followed


SENTENCE = (
    "Unit u1 (day.parquet, from row 100) was being scored at 4 deaths of a worker, the last time alone "
    "(its process died)."
)


def test_a_unit_that_kills_four_workers_ends_the_run() -> None:
    _, followed = poisoned(tolerant=False)
    [*ended, last] = followed[-1]
    assert ended == lost("d-4")
    assert isinstance(last, Abort)
    assert str(last.error) == (
        f"{SENTENCE} Look at these rows and at the memory that scoring them takes. What is committed is kept; resume "
        "the run when the cause is mended, or set on_error: continue to do without such units."
    )


def test_a_unit_that_kills_four_workers_is_given_up_where_that_is_tolerated() -> None:
    schedule, followed = poisoned(tolerant=True)
    given_up = f"{SENTENCE} It is given up."
    commit = Commit(failures=(Failure("u1", "", given_up, 100),), lost=("u1",))
    assert followed[-1] == [*lost("d-4"), Say(given_up), commit]
    assert schedule.handle(Committed(commit)) == [End(stopped=False)]


def test_nothing_else_runs_beside_a_suspect() -> None:
    schedule = Schedule(units(3), driver="d", num_workers=2)
    schedule.start()
    schedule.handle(WorkerReady("d-1"))  # scores u1, u2 reserved
    schedule.handle(WorkerReady("d-2"))  # scores u3
    for life in (1, 3, 4):
        schedule.handle(WorkerLost(f"d-{life}", "its process died"))
        schedule.handle(WorkerReady(f"d-{life + (2 if life == 1 else 1)}"))
    # u1 has three deaths; d-5 took u2, d-2 still scores u3
    assert schedule.handle(done("d-2", "u3")) == [Flush("d-2", ("u3",))]
    assert schedule.handle(done("d-5", "u2")) == [Flush("d-5", ("u2",))]
    assert schedule.handle(Flushed("d-2", file("u3", name="a"))) == [Commit(files=(file("u3", name="a"),))]
    commit, alone = schedule.handle(Flushed("d-5", file("u2", name="b")))
    assert commit == Commit(files=(file("u2", name="b"),))
    assert isinstance(alone, Score)
    assert (alone.unit.id, alone.upcoming) == ("u1", None)


# ---- stopping --------------------------------------------------------------------------------------------------------


def test_a_stop_finishes_what_is_in_flight_and_commits_it() -> None:
    schedule = begun(9, 2)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(Stop()) == []
    assert schedule.handle(done("d-1", "u2")) == [Flush("d-1", ("u2",))]
    [commit] = schedule.handle(Flushed("d-1", file("u1", "u2")))
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit)) == []
    assert schedule.handle(done("d-2", "u3")) == [Flush("d-2", ("u3",))]
    [commit] = schedule.handle(Flushed("d-2", file("u3")))
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit)) == [End(stopped=True)]


def test_a_stop_before_anything_was_scored() -> None:
    schedule = Schedule(units(2), driver="d", num_workers=2)
    schedule.start()
    assert schedule.handle(Stop()) == [End(stopped=True)]


def test_a_stop_when_the_last_units_are_in_flight_ends_the_run_as_finished() -> None:
    schedule = begun(1)
    schedule.handle(Stop())
    schedule.handle(done("d-1", "u1"))
    [commit] = schedule.handle(Flushed("d-1", file("u1")))
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit)) == [End(stopped=False)]


def test_a_worker_lost_while_stopping_is_not_replaced() -> None:
    schedule = begun(3)
    schedule.handle(Stop())
    assert schedule.handle(WorkerLost("d-1", "its process died")) == [*lost("d-1"), End(stopped=True)]


def test_an_error_ends_the_run_and_what_was_accepted_is_committed() -> None:
    schedule = begun(9)
    schedule.handle(done("d-1", "u1"))
    error = ModelError("b", "it is broken.")
    assert schedule.handle(WorkerFailed("d-1", error)) == [Flush("d-1", ())]
    [commit] = schedule.handle(Flushed("d-1", file("u1")))
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit)) == [Abort(error)]


def test_the_first_error_is_the_one_that_is_told() -> None:
    schedule = begun(9, 2)
    first, second = ModelError("a", "it is broken."), ModelError("b", "it is broken.")
    assert schedule.handle(WorkerFailed("d-1", first)) == []
    assert schedule.handle(WorkerFailed("d-2", second)) == [Abort(first)]


def test_a_worker_that_cannot_even_start_or_flush_is_ended() -> None:
    error = RunError("The disk is full.")
    schedule = Schedule(units(1), driver="d", num_workers=1)
    schedule.start()
    assert schedule.handle(WorkerFailed("d-1", error)) == [EndWorker("d-1"), Abort(error)]
    schedule = begun(1)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(WorkerFailed("d-1", error)) == [EndWorker("d-1"), Abort(error)]


def test_nothing_follows_the_last_order() -> None:
    schedule = begun(1)
    schedule.handle(WorkerFailed("d-1", RunError("The disk is full.")))
    assert schedule.handle(WorkerReady("d-1")) == []


# ---- any story -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_whatever_dies_each_unit_is_committed_once(seed: int) -> None:
    """Workers answer in any order, flush when they like, die or become zombies that answer later."""
    chance = random.Random(seed)
    schedule = Schedule(units(25), driver="d", num_workers=chance.randint(1, 4))
    waiting: list[Event] = []
    held: dict[str, list[str]] = {}
    committed: list[str] = []
    orders = schedule.start()
    for _ in range(2000):
        for order in orders:
            if isinstance(order, StartWorker):
                waiting.append(WorkerReady(order.incarnation))
            elif isinstance(order, Score):
                held.setdefault(order.incarnation, []).extend(order.accept)
                event = UnitDone(order.incarnation, receipt(order.unit.id), flush_due=chance.random() < 0.3)
                waiting.append(event)
                waiting += [WorkerLost(order.incarnation, "chance")] * (chance.random() < 0.05)
            elif isinstance(order, Flush):
                content = [*held.pop(order.incarnation, []), *order.accept]
                waiting.append(Flushed(order.incarnation, file(*content, name=str(chance.random()))))
            elif isinstance(order, Commit):
                committed += [one.unit for entry in order.files for one in entry.receipts]
                waiting.append(Committed(order))
            elif isinstance(order, End):
                assert sorted(committed) == sorted(unit.id for unit in units(25))
                return
        orders = schedule.handle(waiting.pop(chance.randrange(len(waiting))))
    pytest.fail("the run did not end")
