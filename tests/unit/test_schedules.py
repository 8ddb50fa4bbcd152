"""Several bundles as one run. Each piece of the data has 100 rows, and is a unit for each bundle."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from assay.errors import ModelError, RunError
from assay.events import Begin
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
    Score,
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
from assay.plan import in_bundles
from assay.records import CommittedFile, Failure, Plan, Receipt, Sizes, SliceTable, StateChoice, Unit
from assay.schedule import Schedule
from assay.schedules import Schedules, scheduler, share_out

BUNDLES = (("base", "a", "b"), ("c",))


def plan(num_pieces: int, bundles: tuple[tuple[str, ...], ...] = BUNDLES) -> Plan:
    pieces = [Unit(f"p{index}", "day.parquet", 100 * index, 100, 0) for index in range(1, num_pieces + 1)]
    return Plan(
        units=in_bundles(pieces, len(bundles)),
        fragments=(),
        tasks=(),
        slices=SliceTable((), ("overall",)),
        sizes=Sizes(1, 64),
        choice=StateChoice(exact_ranking=True, bucketed="all"),
        weight_exponent=0,
        columns=(),
        micro_batch=1,
        seed=0,
        fingerprints={name: "" for names in bundles for name in names},
        identity="",
        identity_parts={},
        state_bytes=0,
        num_rows=100 * num_pieces,
        bundles=bundles,
    )


def made(
    num_pieces: int, num_workers: int, *, tolerant: bool = False, files: Iterable[CommittedFile] = (), of: int = 2
) -> Schedules:
    bundles = (BUNDLES[0], *((f"v{number}",) for number in range(1, of)))
    begin = Begin("d", num_workers, tolerant)
    found = scheduler(plan(num_pieces, bundles), begin, files, (), "base")
    assert isinstance(found, Schedules)
    return found


def receipt(unit: str, *failed: str) -> Receipt:
    return Receipt(unit, 100, f"digest of {unit}", failed)


def done(worker: str, unit: str, *failed: str) -> UnitDone:
    return UnitDone(worker, receipt(unit, *failed))


def file(*units: str) -> CommittedFile:
    return CommittedFile(f"file of {' '.join(units)}", tuple(map(receipt, units)))


def started(orders: Iterable[Order]) -> list[tuple[str, int]]:
    return [(order.incarnation, order.bundle) for order in orders if isinstance(order, StartWorker)]


def scored(orders: Iterable[Order]) -> list[tuple[str, str]]:
    return [(order.incarnation, order.unit.id) for order in orders if isinstance(order, Score)]


def through(schedules: Schedules, worker: str, *units: str) -> list[Order]:
    """The worker, which has just been told to score the first of the units, does them all, flushes and has them
    committed. The orders that follow from the commit."""
    for unit in units[:-1]:
        schedules.handle(done(worker, unit))
    [flush] = [one for one in schedules.handle(done(worker, units[-1])) if isinstance(one, Flush)]
    assert flush.incarnation == worker
    [commit] = [one for one in schedules.handle(Flushed(worker, file(*units))) if isinstance(one, Commit)]
    return schedules.handle(Committed(commit))


# ---- one bundle ------------------------------------------------------------------------------------------------------


def test_a_plan_without_bundles_has_the_plain_schedule() -> None:
    whole = scheduler(plan(2, ()), Begin("d", 2, tolerant=False))
    assert isinstance(whole, Schedule)
    assert whole.start() == [StartWorker("d-1"), StartWorker("d-2")]


# ---- places for workers ----------------------------------------------------------------------------------------------


def test_workers_are_shared_out_by_the_variants_that_they_score() -> None:
    """Three in the first bundle, two in the second, the baseline among them."""
    assert started(made(9, 5).start()) == [("d-0-1", 0), ("d-0-2", 0), ("d-0-3", 0), ("d-1-1", 1), ("d-1-2", 1)]


def test_no_bundle_has_more_workers_than_units() -> None:
    assert started(made(2, 99).start()) == [("d-0-1", 0), ("d-0-2", 0), ("d-1-1", 1), ("d-1-2", 1)]


def test_with_one_worker_bundles_run_one_after_the_other() -> None:
    schedules = made(2, 1, of=3)
    assert started(schedules.start()) == [("d-0-1", 0)]
    assert scored(schedules.handle(WorkerReady("d-0-1"))) == [("d-0-1", "p1.0")]
    assert through(schedules, "d-0-1", "p1.0", "p2.0") == [EndWorker("d-0-1"), StartWorker("d-1-1", 1)]
    assert scored(schedules.handle(WorkerReady("d-1-1"))) == [("d-1-1", "p1.1")]
    assert through(schedules, "d-1-1", "p1.1", "p2.1") == [EndWorker("d-1-1"), StartWorker("d-2-1", 2)]
    assert scored(schedules.handle(WorkerReady("d-2-1"))) == [("d-2-1", "p1.2")]
    assert through(schedules, "d-2-1", "p1.2", "p2.2") == [End(stopped=False)]
    assert schedules.handle(Tick()) == []


def test_a_bundle_that_is_through_gives_its_places_to_the_others() -> None:
    schedules = made(9, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-1-1"))
    orders = through(schedules, "d-1-1", *(f"p{number}.1" for number in range(1, 10)))
    assert orders == [EndWorker("d-1-1"), StartWorker("d-0-2", 0)]


def test_a_run_that_gets_more_workers_gives_them_where_most_is_left() -> None:
    schedules = made(9, 2)
    schedules.start()
    assert started(schedules.handle(Resized(4))) == [("d-0-2", 0), ("d-1-2", 1)]


def test_a_run_that_gets_fewer_ends_those_that_have_not_started_where_least_is_left() -> None:
    schedules = made(9, 4)
    assert started(schedules.start()) == [("d-0-1", 0), ("d-0-2", 0), ("d-1-1", 1), ("d-1-2", 1)]
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-0-2"))
    assert schedules.handle(Resized(3)) == [EndWorker("d-1-2")]
    assert schedules.handle(Resized(2)) == []  # those that score are not ended


@pytest.mark.parametrize(
    ("num_workers", "held", "work", "most", "shares"),
    [
        (4, [0, 0], [30.0, 10.0], [9, 9], [3, 1]),
        (4, [0, 0], [0.0, 10.0], [0, 9], [0, 4]),
        (9, [0, 0], [30.0, 10.0], [2, 3], [2, 3]),
        (3, [1, 1], [10.0, 1000.0], [9, 9], [1, 2]),
        (3, [3, 0], [10.0, 1000.0], [9, 9], [3, 0]),  # nobody is sent away
        (1, [3, 2], [30.0, 10.0], [9, 9], [1, 0]),
        (0, [1, 1], [30.0, 10.0], [9, 9], [0, 0]),
        (5, [], [], [], []),
    ],
)
def test_shares(num_workers: int, held: list[int], work: list[float], most: list[int], shares: list[int]) -> None:
    assert share_out(num_workers, held, work, most) == shares


def test_once_rates_are_known_they_tell_what_is_left() -> None:
    """The second bundle has fewer variants, and takes ten times longer."""
    schedules = made(30, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"), 0.0)
    schedules.handle(WorkerReady("d-1-1"), 0.0)
    schedules.handle(done("d-0-1", "p1.0"), 1.0)
    schedules.handle(done("d-1-1", "p1.1"), 10.0)
    assert started(schedules.handle(Resized(10), 10.0)) == [(f"d-1-{number}", 1) for number in range(2, 10)]


# ---- one run ---------------------------------------------------------------------------------------------------------


def test_rows_are_counted_once_and_units_in_each_bundle() -> None:
    schedules = made(4, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-1-1"))
    assert (schedules.num_units, schedules.units_done, schedules.rows_done) == (8, 0, 0)
    schedules.handle(done("d-0-1", "p1.0"))  # by three of four variants
    assert (schedules.units_done, schedules.rows_done) == (1, 75)
    schedules.handle(done("d-1-1", "p1.1"))
    assert (schedules.units_done, schedules.rows_done) == (2, 100)


def test_what_the_log_holds_is_not_scored_again() -> None:
    schedules = made(3, 2, files=[file("p1.0", "p2.0"), file("p1.1", "p2.1", "p3.1")])
    assert started(schedules.start()) == [("d-0-1", 0)]
    assert scored(schedules.handle(WorkerReady("d-0-1"))) == [("d-0-1", "p3.0")]
    assert through(schedules, "d-0-1", "p3.0") == [End(stopped=False)]


def test_a_run_that_is_committed_ends_at_once() -> None:
    assert made(1, 2, files=[file("p1.0"), file("p1.1")]).start() == [End(stopped=False)]


def test_a_log_with_units_of_another_run_is_refused() -> None:
    with pytest.raises(RunError, match=r"^Unit p9.1 is committed but not in the plan: the run cannot be trusted.$"):
        made(1, 2, files=[file("p9.1")])


def test_a_stop_is_for_all_and_the_run_ends_once_all_have_committed() -> None:
    schedules = made(9, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-1-1"))
    assert schedules.handle(Stop()) == []
    assert schedules.handle(done("d-0-1", "p1.0")) == [Flush("d-0-1", ("p1.0",))]
    assert schedules.handle(done("d-1-1", "p1.1")) == [Flush("d-1-1", ("p1.1",))]
    [first] = schedules.handle(Flushed("d-0-1", file("p1.0")))
    [second] = schedules.handle(Flushed("d-1-1", file("p1.1")))
    assert isinstance(first, Commit)
    assert isinstance(second, Commit)
    assert schedules.handle(Committed(second)) == []
    assert schedules.handle(Committed(first)) == [End(stopped=True)]


def test_an_error_in_one_bundle_ends_the_run_once_the_others_have_committed() -> None:
    schedules = made(9, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-1-1"))
    error = ModelError("c", "it is broken.")
    assert schedules.handle(WorkerFailed("d-1-1", error)) == []  # the other bundle is scoring
    assert schedules.handle(done("d-0-1", "p1.0")) == [Flush("d-0-1", ("p1.0",))]
    [commit] = schedules.handle(Flushed("d-0-1", file("p1.0")))
    assert isinstance(commit, Commit)
    assert schedules.handle(Committed(commit)) == [Abort(error)]
    assert schedules.handle(Tick()) == []


def test_a_unit_that_workers_die_of_ends_the_run_where_it_would_be_given_up_without_bundles() -> None:
    """The other bundle's variants have its rows, and so has the baseline."""
    schedules = made(1, 2, tolerant=True)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    assert schedules.handle(done("d-0-1", "p1.0")) == [Flush("d-0-1", ("p1.0",))]
    [commit] = schedules.handle(Flushed("d-0-1", file("p1.0")))
    assert isinstance(commit, Commit)
    schedules.handle(Committed(commit))
    orders: Sequence[Order] = ()
    names = ["d-1-1", "d-1-2", "d-1-3", "d-1-4"]
    for name in names:
        schedules.handle(WorkerReady(name))
        orders = schedules.handle(WorkerLost(name, "its process died"))
    last = orders[-1]
    assert isinstance(last, Abort)
    assert str(last.error) == (
        "Unit p1.1 (day.parquet, from row 100) was being scored at 4 deaths of a worker, the last time alone (its "
        "process died). Look at these rows and at the memory that scoring them takes. What is committed is kept; "
        "resume the run when the cause is mended, or leave its rows out with data.where in a new run: other bundles of "
        "variants have scored them."
    )


def test_what_an_unknown_worker_says_is_nothing() -> None:
    schedules = made(2, 2)
    schedules.start()
    assert schedules.handle(WorkerReady("d-7-1")) == []
    assert schedules.handle(WorkerReady("d-1")) == []
    assert schedules.handle(done("d-0-1", "p9.0")) == []


# ---- what comes next -------------------------------------------------------------------------------------------------


def test_a_piece_that_two_bundles_will_score_is_foreseen_once() -> None:
    schedules = made(9, 2)
    schedules.start()
    assert [unit.id for unit in schedules.upcoming(3)] == ["p1.0", "p2.0", "p3.0"]
    before = schedules.num_queue_changes
    schedules.handle(WorkerReady("d-0-1"))  # scores p1, has p2 reserved
    assert schedules.num_queue_changes == before + 2
    assert [unit.id for unit in schedules.upcoming(3)] == ["p1.1", "p2.1", "p3.0"]


def test_what_no_worker_is_there_for_is_not_foreseen() -> None:
    schedules = made(9, 1)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    assert [unit.id for unit in schedules.upcoming(2)] == ["p3.0", "p4.0"]


# ---- the baseline ----------------------------------------------------------------------------------------------------


def tolerant() -> Schedules:
    schedules = made(2, 2, tolerant=True)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-1-1"))
    return schedules


def sentence(unit: str, here: str, there: str) -> str:
    return sentence_of(unit, f"it {here}, though in another bundle it {there} on the same rows")


def sentence_of(unit: str, said: str) -> str:
    return (
        "Variant 'base': it is the baseline, which each of 2 bundles of variants is compared with, and on unit "
        f"{unit} (day.parquet, from row 100) {said}. Nothing could be compared there. What is committed is kept: "
        "resume the run if the cause was of the moment, or start a new one with a baseline that always fares alike."
    )


def test_a_baseline_may_fail_in_every_bundle() -> None:
    schedules = tolerant()
    schedules.handle(done("d-0-1", "p1.0", "base", "a", "b"))
    assert scored(schedules.handle(done("d-1-1", "p1.1", "base", "v1"))) == [("d-1-1", "p2.1")]


@pytest.mark.parametrize("first", ["failed", "did not fail"])
def test_one_that_fails_in_one_bundle_alone_ends_the_run(first: str) -> None:
    schedules = tolerant()
    failed = ["base", "v1"], ["base", "a", "b"]
    here = "did not fail" if first == "failed" else "failed"
    schedules.handle(done("d-0-1", "p1.0", *(failed[1] if first == "failed" else [])))
    orders = schedules.handle(done("d-1-1", "p1.1", *(failed[0] if first != "failed" else [])))
    assert orders == []  # the unit is not accepted; the other bundle is scoring
    assert schedules.units_done == 1
    schedules.handle(done("d-0-1", "p2.0"))
    [commit] = schedules.handle(Flushed("d-0-1", CommittedFile("file", (
        receipt("p1.0", *(failed[1] if first == "failed" else [])), receipt("p2.0")))))  # fmt: skip
    assert isinstance(commit, Commit)
    [abort] = schedules.handle(Committed(commit))
    assert isinstance(abort, Abort)
    assert str(abort.error) == sentence("p1.1", here, first)


def test_what_the_log_says_of_the_baseline_counts_too() -> None:
    failed = CommittedFile("file", (receipt("p1.0", "base", "a", "b"),))
    schedules = made(1, 1, tolerant=True, files=[failed])
    schedules.start()
    schedules.handle(WorkerReady("d-1-1"))
    [abort] = [one for one in schedules.handle(done("d-1-1", "p1.1")) if isinstance(one, Abort)]
    assert str(abort.error) == sentence("p1.1", "did not fail", "failed")


def test_it_counts_too_where_failures_are_no_longer_tolerated() -> None:
    failed = CommittedFile("file", (receipt("p1.0", "base", "a", "b"),))
    schedules = made(1, 1, tolerant=False, files=[failed])
    schedules.start()
    schedules.handle(WorkerReady("d-1-1"))
    [abort] = [one for one in schedules.handle(done("d-1-1", "p1.1")) if isinstance(one, Abort)]
    assert str(abort.error) == sentence("p1.1", "did not fail", "failed")


@pytest.mark.parametrize(("missed", "ends"), [("rows", False), ("", True), ("others", True)])
def test_a_baseline_that_scores_other_rows_in_another_bundle_ends_the_run(missed: str, ends: bool) -> None:
    schedules = made(2, 2)
    schedules.start()
    schedules.handle(WorkerReady("d-0-1"))
    schedules.handle(WorkerReady("d-1-1"))
    schedules.handle(UnitDone("d-0-1", replace(receipt("p1.0"), missed="rows")))
    schedules.handle(UnitDone("d-1-1", replace(receipt("p1.1"), missed=missed)))
    assert schedules.units_done == (1 if ends else 2)
    if ends:
        schedules.handle(done("d-0-1", "p2.0"))
        held = replace(receipt("p1.0"), missed="rows"), receipt("p2.0")
        [commit] = schedules.handle(Flushed("d-0-1", CommittedFile("file", held)))
        assert isinstance(commit, Commit)
        [abort] = schedules.handle(Committed(commit))
        assert isinstance(abort, Abort)
        assert str(abort.error) == sentence_of("p1.1", "it gave a score to other rows than in another bundle")


def test_what_an_ended_worker_says_of_the_baseline_is_nothing() -> None:
    schedules = tolerant()
    schedules.handle(WorkerLost("d-0-1", "its node is gone"))
    schedules.handle(done("d-0-1", "p1.0", "base", "a", "b"))
    assert scored(schedules.handle(done("d-1-1", "p1.1"))) == [("d-1-1", "p2.1")]


def test_a_log_that_disagrees_with_itself_is_refused() -> None:
    files = [CommittedFile("one", (receipt("p1.0", "base", "a", "b"),)), file("p1.1")]
    sentence = "Unit p1.1 is committed with a baseline that scored other rows than in another bundle: the run cannot be"
    with pytest.raises(RunError, match=f"^{re.escape(sentence)} trusted\\.$"):
        made(1, 1, tolerant=True, files=files)


# ---- any story -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(120))
def test_whatever_is_slow_dies_or_drains_each_unit_is_committed_once(seed: int) -> None:
    """As for one schedule, with losses in all bundles and more or fewer workers as it goes. No more workers are there
    than places, but for those that drain, or were there when the places became fewer."""
    story = Story(seed)
    given = story.run()
    schedules = story.schedules()
    assert schedules.start() == given[0]
    for (at, event), orders in zip(story.heard, given[1:], strict=True):
        if event != Tick() or orders:
            assert schedules.handle(event, at) == orders


class Story:
    """One world, made from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._num_workers = self._chance.randint(1, 7)
        names = iter(range(100))
        bundles = [["base"], *([] for _ in range(self._chance.randint(1, 4)))]
        self._bundles = tuple(
            (*bundle, *(f"v{next(names)}" for _ in range(self._chance.randint(1, 5)))) for bundle in bundles
        )
        self._num_pieces = self._chance.randint(1, 25)
        self._waiting: list[tuple[float, int, Event]] = []
        self._now = 0.0
        self._num_said = 0
        self._bundle_of: dict[str, int] = {}
        self._draining: set[str] = set()
        self.heard: list[tuple[float, Event]] = []

    def schedules(self) -> Schedules:
        found = scheduler(plan(self._num_pieces, self._bundles), Begin("d", self._num_workers, True), (), (), "base")
        assert isinstance(found, Schedules)
        return found

    def run(self) -> list[list[Order]]:
        """All orders that were given, by event."""
        schedules, places = self.schedules(), self._num_workers
        held: dict[str, list[str]] = {}
        committed: list[str] = []
        given = [schedules.start()]
        for _ in range(20_000):
            for order in given[-1]:
                if isinstance(order, StartWorker):
                    assert order.incarnation not in self._bundle_of
                    self._bundle_of[order.incarnation] = order.bundle
                    held[order.incarnation] = []
                    self._say(self._chance.uniform(0, 5), WorkerReady(order.incarnation))
                elif isinstance(order, EndWorker):
                    held.pop(order.incarnation)
                elif isinstance(order, Score):
                    assert order.unit.bundle == self._bundle_of[order.incarnation]
                    held[order.incarnation].extend(order.accept)
                    self._score(order)
                elif isinstance(order, Drop) and self._chance.random() < 0.7:
                    self._drop(order)
                elif isinstance(order, Flush):
                    units, held[order.incarnation] = [*held[order.incarnation], *order.accept], []
                    content = CommittedFile(str(self._chance.random()), tuple(self._receipt(one) for one in units))
                    self._say(self._chance.uniform(0, 0.2), Flushed(order.incarnation, content))
                elif isinstance(order, Commit):
                    committed += [one.unit for entry in order.files for one in entry.receipts]
                    self._say(0.0, Committed(order))
                elif isinstance(order, End):
                    assert sorted(committed) == sorted(unit.id for unit in plan(self._num_pieces, self._bundles).units)
                    assert schedules.rows_done == 100 * self._num_pieces
                    return given
                assert not isinstance(order, Abort), order
            if not any(isinstance(event, Resized) for _, event in self.heard):
                assert len(held.keys() - self._draining) <= places
            given.append(self._next(schedules))
        pytest.fail("the run did not end")

    def _receipt(self, unit: str) -> Receipt:
        """The baseline fails on every seventh piece."""
        bundle = int(unit.rpartition(".")[2])
        fails = int(unit[1:].partition(".")[0]) % 7 == 0
        return receipt(unit, *(sorted({"base", *self._bundles[bundle]}) if fails else []))

    def _score(self, order: Score) -> None:
        chance, name = self._chance, order.incarnation
        found = self._receipt(order.unit.id)
        failures = tuple(Failure(found.unit, one, "it failed.", 100) for one in found.failed)
        seconds = chance.uniform(0.8, 1.2) * (10 if int(name.rpartition("-")[2]) % 3 == 0 else 1)
        self._say(seconds, UnitDone(name, found, failures, flush_due=chance.random() < 0.3))
        if chance.random() < 0.05:
            self._say(chance.uniform(0, seconds), WorkerLost(name, "chance", preempted=True))
        if chance.random() < 0.05:
            self._say(chance.uniform(0, seconds), WorkerDraining(name, "chance", 1.0))
        if chance.random() < 0.02:
            self._say(chance.uniform(0, seconds), Resized(chance.randint(1, 7)))

    def _drop(self, order: Drop) -> None:
        late = [
            one
            for one in self._waiting
            if isinstance(one[2], UnitDone)
            and (one[2].incarnation, one[2].receipt.unit) == (order.incarnation, order.unit)
        ]
        if late:
            self._waiting.remove(late[0])
            self._say(self._chance.uniform(0, 1), UnitDropped(order.incarnation, order.unit))

    def _say(self, delay: float, event: Event) -> None:
        self._num_said += 1
        self._waiting.append((self._now + delay, self._num_said, event))

    def _next(self, schedules: Schedules) -> list[Order]:
        first = min(self._waiting, default=None, key=lambda one: one[:2])
        if first is None or (first[0] > self._now + 0.5 and not isinstance(first[2], Committed)):
            self._now += 0.5
            event: Event = Tick()
        else:
            self._waiting.remove(first)
            self._now, event = max(first[0], self._now), first[2]
        if isinstance(event, WorkerDraining):
            self._draining.add(event.incarnation)
        self.heard.append((self._now, event))
        return schedules.handle(event, self._now)
