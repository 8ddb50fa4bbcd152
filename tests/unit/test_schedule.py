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


def test_a_worker_that_fails_while_it_flushes_is_ended() -> None:
    error = ModelError("b", "it is broken.")
    schedule = begun(1)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(WorkerFailed("d-1", error)) == [EndWorker("d-1"), Abort(error)]


def test_nothing_follows_the_last_order() -> None:
    schedule = begun(1)
    schedule.handle(WorkerFailed("d-1", ModelError("b", "it is broken.")))
    assert schedule.handle(WorkerReady("d-1")) == []


# ---- a worker's own errors -------------------------------------------------------------------------------------------

FULL = RunError("states/f.arrow in the run at runs/a cannot be written: No space left on device.")
FULL_LOST = "it met an error: states/f.arrow in the run at runs/a cannot be written: No space left on device"


def test_a_worker_that_cannot_write_is_lost_and_its_units_are_scored_elsewhere() -> None:
    schedule = begun(2, 2)
    schedule.handle(done("d-1", "u1"))
    assert schedule.handle(WorkerFailed("d-1", FULL)) == [*lost("d-1", FULL_LOST), StartWorker("d-3")]
    assert schedule.handle(done("d-2", "u2")) == [score(units(2), "d-2", "u1", None, "u2")]


def test_where_no_worker_can_write_the_run_ends_with_the_sentence_of_the_store() -> None:
    """Four workers one after the other; what was accepted to them is scored again each time."""
    schedule = begun(1)
    for life in range(1, 4):
        schedule.handle(done(f"d-{life}", "u1"))
        assert schedule.handle(WorkerFailed(f"d-{life}", FULL))[-1] == StartWorker(f"d-{life + 1}")
        assert schedule.handle(WorkerReady(f"d-{life + 1}")) == [score(units(1), f"d-{life + 1}", "u1", None)]
    schedule.handle(done("d-4", "u1"))
    assert schedule.handle(WorkerFailed("d-4", FULL)) == [*lost("d-4", FULL_LOST), Abort(FULL)]


def test_a_commit_shows_that_others_can_write() -> None:
    """One of two workers is on a bad node, and so is each that follows it."""
    schedule = Schedule(units(200), driver="d", num_workers=2)
    scoring: dict[str, str] = {}

    def told(event: Event, at: float) -> list[Order]:
        orders = schedule.handle(event, at)
        scoring.update({order.incarnation: order.unit.id for order in orders if isinstance(order, Score)})
        return orders

    schedule.start()
    told(WorkerReady("d-1"), 0.0)
    told(WorkerReady("d-2"), 0.0)
    bad = "d-1"
    for second in range(1, 21):
        told(done(bad, scoring[bad], flush_due=True), second)
        [started] = [one for one in told(WorkerFailed(bad, FULL), second) if isinstance(one, StartWorker)]
        bad = started.incarnation
        told(WorkerReady(bad), second)
        unit = scoring["d-2"]
        assert told(done("d-2", unit, flush_due=True), second + 0.5) == [Flush("d-2", (unit,))]
        commit, *_ = told(Flushed("d-2", file(unit, name=f"f{second}")), second + 0.5)
        assert isinstance(commit, Commit)
        told(Committed(commit), second + 0.5)
    assert schedule.units_done == 20


def test_the_first_worker_that_cannot_load_a_model_ends_the_run() -> None:
    error = ModelError("b", "there is no file b.txt.")
    schedule = Schedule(units(9), driver="d", num_workers=3)
    schedule.start()
    assert schedule.handle(WorkerFailed("d-1", error)) == [EndWorker("d-1"), Abort(error)]


@pytest.mark.parametrize("error", [ModelError("b", "there is no file b.txt."), ImportError("no module lightgbm")])
def test_a_worker_that_cannot_load_where_another_could_is_replaced(error: Exception) -> None:
    schedule = Schedule(units(9), driver="d", num_workers=2)
    schedule.start()
    schedule.handle(WorkerReady("d-1"))
    reason = f"it met an error: {str(error).removesuffix('.')}"
    assert schedule.handle(WorkerFailed("d-2", error)) == [*lost("d-2", reason), StartWorker("d-3")]
    for life in range(3, 6):
        assert schedule.handle(WorkerFailed(f"d-{life}", error))[-1] == StartWorker(f"d-{life + 1}")
    schedule.handle(WorkerFailed("d-6", error))  # the fifth in a row: it is the run's
    schedule.handle(done("d-1", "u1"))
    [commit] = schedule.handle(Flushed("d-1", file("u1")))
    assert isinstance(commit, Commit)
    assert schedule.handle(Committed(commit)) == [Abort(error)]


def test_a_node_that_does_not_see_the_run_is_tried_again_elsewhere_from_the_start() -> None:
    error = RunError("A worker on n1 does not see the run directory runs/a.")
    schedule = Schedule(units(9), driver="d", num_workers=1)
    schedule.start()
    assert schedule.handle(WorkerFailed("d-1", error))[-1] == StartWorker("d-2")
    assert schedule.handle(WorkerReady("d-2")) == [score(units(9), "d-2", "u1", "u2")]


def test_an_error_of_a_workers_own_says_nothing_of_its_unit() -> None:
    schedule = begun(1)
    for life in range(1, 4):
        orders = schedule.handle(WorkerFailed(f"d-{life}", RunError("It is away.")))
        assert orders[-1] == StartWorker(f"d-{life + 1}")
        assert schedule.handle(WorkerReady(f"d-{life + 1}")) == [score(units(1), f"d-{life + 1}", "u1", None)]
    assert schedule.handle(done("d-4", "u1")) == [Flush("d-4", ("u1",))]


def test_an_error_that_an_older_driver_ended_with_ends_the_run() -> None:
    schedule = begun(1)
    assert schedule.handle(WorkerFailed("d-1", FULL, ends_run=True)) == [Abort(FULL)]


# ---- memory ----------------------------------------------------------------------------------------------------------


def no_memory(worker: str) -> WorkerLost:
    return WorkerLost(worker, "4.1 of 4.0 GiB", out_of_memory=True)


def scored_by(orders: list[Order]) -> list[tuple[str, int]]:
    return [(order.unit.id, order.caution) for order in orders if isinstance(order, Score)]


def starved(*, tolerant: bool) -> list[Order]:
    """Each worker that scores u1 is ended for its memory. What follows the last time."""
    schedule = Schedule(units(2), driver="d", num_workers=1, tolerant=tolerant)
    schedule.start()
    for life, caution in ((1, 0), (2, 1), (3, 2)):
        assert scored_by(schedule.handle(WorkerReady(f"d-{life}"))) == [("u1", caution)]
        assert schedule.handle(no_memory(f"d-{life}"))[-1] == StartWorker(f"d-{life + 1}")
    assert scored_by(schedule.handle(WorkerReady("d-4"))) == [("u2", 0)]  # u1 waits until it can be alone
    schedule.handle(done("d-4", "u2"))
    commit, alone = schedule.handle(Flushed("d-4", file("u2")))
    assert isinstance(commit, Commit)
    assert scored_by([alone]) == [("u1", 2)]
    schedule.handle(Committed(commit))
    return schedule.handle(no_memory("d-4"))


STARVED = (
    "Unit u1 (day.parquet, from row 100) was too much for the memory of its worker 4 times, the last time alone and "
    "with 1/16 of the rows per call (4.1 of 4.0 GiB)."
)


def test_a_unit_that_needs_too_much_memory_is_scored_with_caution_then_alone_and_then_ends_the_run() -> None:
    [*_, last] = starved(tolerant=False)
    assert isinstance(last, Abort)
    assert str(last.error) == (
        f"{STARVED} Give each worker more memory: fewer of them on a machine, or a larger one. What is committed is "
        "kept; resume the run when the cause is mended, or set on_error: continue to do without such units."
    )


def test_where_that_is_tolerated_it_is_given_up() -> None:
    assert starved(tolerant=True)[-1] == Commit(
        failures=(Failure("u1", "", f"{STARVED} It is given up.", 100),), lost=("u1",)
    )


def test_deaths_for_memory_and_others_are_counted_apart() -> None:
    schedule = Schedule(units(1), driver="d", num_workers=1)
    schedule.start()
    ends = [
        no_memory("d-1"),
        WorkerLost("d-2", "its process died"),
        no_memory("d-3"),
        WorkerLost("d-4", "its node was taken away", preempted=True),
        WorkerLost("d-5", "its process died"),
    ]
    cautions = []
    for life, end in enumerate(ends, start=1):
        cautions += scored_by(schedule.handle(WorkerReady(f"d-{life}")))
        assert schedule.handle(end)[-1] == StartWorker(f"d-{life + 1}")
    assert cautions == [("u1", 0), ("u1", 1), ("u1", 1), ("u1", 2), ("u1", 2)]


def test_a_suspect_that_turns_out_to_want_memory_gets_its_chance_with_caution() -> None:
    schedule = Schedule(units(1), driver="d", num_workers=1)
    schedule.start()
    cautions = []
    for life in range(1, 7):
        cautions += scored_by(schedule.handle(WorkerReady(f"d-{life}")))
        orders = schedule.handle(no_memory(f"d-{life}") if life > 3 else WorkerLost(f"d-{life}", "its process died"))
    assert cautions == [("u1", 0), ("u1", 0), ("u1", 0), ("u1", 0), ("u1", 1), ("u1", 2)]
    assert isinstance(orders[-1], Abort)


# ---- what is tolerated -----------------------------------------------------------------------------------------------


def tolerating(number: int, share: float, *files: CommittedFile) -> Schedule:
    schedule = Schedule(units(number), files, driver="d", num_workers=1, tolerant=True, most_failed=share)
    schedule.start()
    schedule.handle(WorkerReady("d-1"))
    return schedule


BEYOND = (
    "Variant 'a' failed on 2 of 20 units, where on_error tolerates {units: 0.05}. The last time: it cannot score u3. "
    "What is committed is kept. Raise the tolerance and run again to go on without them, or mend the cause and start a "
    "new run."
)


def test_a_variant_that_fails_on_more_than_its_share_stops_the_run_and_what_was_done_is_kept() -> None:
    schedule = tolerating(20, 0.05)
    schedule.handle(failing("d-1", "u1", "a"))
    assert scored_by(schedule.handle(failing("d-1", "u2", "b"))) == [("u3", 0)]  # each has failed once
    assert schedule.handle(failing("d-1", "u3", "a")) == [Flush("d-1", ("u3",))]
    held = CommittedFile("f", (receipt("u1", ("a",)), receipt("u2", ("b",)), receipt("u3", ("a",))))
    commit, *_ = schedule.handle(Flushed("d-1", held))
    assert isinstance(commit, Commit)
    [last] = schedule.handle(Committed(commit))
    assert isinstance(last, Abort)
    assert str(last.error) == BEYOND


def test_what_earlier_drivers_saw_fail_counts_too() -> None:
    schedule = tolerating(20, 0.05, CommittedFile("f", (receipt("u1", ("a",)), receipt("u2", ("b",)))))
    orders = schedule.handle(failing("d-1", "u3", "a"))
    assert orders[-1] == Flush("d-1", ("u3",))


def test_a_run_that_is_beyond_it_does_not_go_on() -> None:
    before = CommittedFile("f", (receipt("u1", ("a",)), receipt("u2", ("a",))))
    schedule = Schedule(units(20), [before], driver="d", num_workers=1, tolerant=True, most_failed=0.05)
    [last] = schedule.start()
    assert isinstance(last, Abort)
    assert str(last.error) == BEYOND.replace("The last time: it cannot score u3.", "See failures/ for the reasons.")


def test_what_was_lost_with_its_worker_does_not_count() -> None:
    schedule = tolerating(20, 0.05)
    schedule.handle(failing("d-1", "u1", "a"))
    schedule.handle(WorkerLost("d-1", "its process died"))
    schedule.handle(WorkerReady("d-2"))
    assert scored_by(schedule.handle(failing("d-2", "u1", "a"))) == [("u2", 0)]


def test_units_that_are_given_up_count_by_themselves() -> None:
    schedule = Schedule(units(3), driver="d", num_workers=1, tolerant=True, most_failed=0.3)
    schedule.start()
    orders: list[Order] = []
    for life in range(1, 5):
        [one] = scored_by(schedule.handle(WorkerReady(f"d-{life}"))) or [("", 0)]
        while one[0] not in ("u1", ""):  # the others first
            orders = schedule.handle(done(f"d-{life}", one[0]))
            [one] = scored_by(orders) or [("", 0)]
        if one[0] == "":
            commit, alone = schedule.handle(Flushed(f"d-{life}", file("u2", "u3")))
            assert isinstance(commit, Commit)
            assert scored_by([alone]) == [("u1", 0)]
            schedule.handle(Committed(commit))
        orders = schedule.handle(WorkerLost(f"d-{life}", "its process died"))
    [*_, commit] = orders
    assert isinstance(commit, Commit)
    [last] = schedule.handle(Committed(commit))
    assert isinstance(last, Abort)
    assert str(last.error) == (
        f"1 of 3 units was given up, where on_error tolerates {{units: 0.3}}. The last time: {SENTENCE} It is given "
        "up. What is committed is kept. Raise the tolerance and run again to go on without them, or mend the cause and "
        "start a new run."
    )


@pytest.mark.parametrize(("share", "number", "most"), [(0.29, 100, 29), (0.1, 30, 3), (0.05, 19, 0), (1.0, 7, 7)])
def test_the_share_is_taken_as_it_is_written(share: float, number: int, most: int) -> None:
    """29 % of 100 is 29, though 0.29 * 100 is less in floating point."""
    before = [CommittedFile(f"f{one.id}", (receipt(one.id, ("a",)),)) for one in units(number)]
    for failed, goes_on in ((most, True), (most + 1, False)):
        if failed <= number:
            schedule = Schedule(units(number), before[:failed], driver="d", num_workers=1, most_failed=share)
            [order] = schedule.start()
            assert isinstance(order, Abort) is not goes_on


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
