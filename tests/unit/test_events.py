"""Events as lines, and back: what a schedule sees is the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assay.errors import AssayError, ModelError, RunError
from assay.events import Begin, Player, Recorder, checksum
from assay.orders import (
    Commit,
    Committed,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Resized,
    Say,
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
from assay.records import CommittedFile, Failure, Receipt, Unit

UNITS = tuple(Unit(f"u{index}", "day.parquet", 100 * index, 100, 0) for index in range(5))
BEGIN = Begin("d", 3, tolerant=False)
DIGEST = "0123456789abcdef" * 4


def receipt(unit: str, digest: str = DIGEST, failed: tuple[str, ...] = ()) -> Receipt:
    return Receipt(unit, 100, digest, failed)


def short(one: Receipt) -> Receipt:
    """As it is kept."""
    return replace(one, digest=one.digest[:8])


def there_and_back(*events: Event) -> list[Event | None]:
    recorder = Recorder(UNITS, BEGIN)
    for second, event in enumerate(events):
        recorder.add(float(second), event, [StartWorker("d-9")])
    player = Player([recorder.take()], UNITS)
    assert player.begin == BEGIN
    items = list(player.events())
    assert isinstance(items.pop(), int)
    pairs = [item for item in items if not isinstance(item, int)]
    assert [at for at, _ in pairs] == [float(second) for second in range(len(events))]
    return [event for _, event in pairs]


@pytest.mark.parametrize(
    "event",
    [
        WorkerReady("d-1"),
        UnitDropped("d-1", "u3"),
        WorkerLost("d-2", "its process died"),
        WorkerLost("d-2", "its node was taken away", preempted=True),
        WorkerLost("d-2", "4.1 of 4.0 GiB", out_of_memory=True),
        WorkerDraining("d-1", "its node is drained", 30.0),
        WorkerDraining("d-1", "its node is drained"),
        Stop(),
        Resized(7),
        Tick(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    assert there_and_back(event) == [event]


def test_a_result_keeps_the_beginning_of_its_digest() -> None:
    event = UnitDone("d-1", receipt("u2"), flush_due=True)
    assert there_and_back(event) == [replace(event, receipt=short(event.receipt))]


def test_failures_come_with_their_unit() -> None:
    event = UnitDone("d-1", receipt("u2", failed=("b",)), (Failure("u2", "b", "it is broken.", 100),))
    assert there_and_back(event) == [replace(event, receipt=short(event.receipt))]


def test_what_the_baseline_missed_comes_back() -> None:
    missed = replace(receipt("u1"), missed="0123")
    held = CommittedFile(DIGEST, (missed, replace(receipt("u2"), missed="4567")))
    done, flushed = there_and_back(UnitDone("d-1", missed), Flushed("d-1", held))
    assert isinstance(done, UnitDone)
    assert done.receipt == short(missed)
    assert isinstance(flushed, Flushed)
    assert flushed.file.receipts == tuple(map(short, held.receipts))


def test_an_error_keeps_its_sentence() -> None:
    [event] = there_and_back(WorkerFailed("d-1", ModelError("b", "it is broken.")))
    assert isinstance(event, WorkerFailed)
    assert str(event.error) == str(ModelError("b", "it is broken."))


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (RunError("The disk is full."), RunError),
        (ModelError("b", "it is broken."), AssayError),
        (KeyError(1), AssayError),
    ],
)
def test_an_error_keeps_whose_it_is(error: Exception, kept: type[Exception]) -> None:
    [event] = there_and_back(WorkerFailed("d-1", error))
    assert isinstance(event, WorkerFailed)
    assert (type(event.error), event.ends_run) == (kept, False)


@pytest.mark.parametrize("error", [RunError("Threads hang."), ModelError("b", "it is broken.")])
def test_an_error_that_ends_the_run_whosever_it_is_comes_back_so(error: Exception) -> None:
    [event] = there_and_back(WorkerFailed("d-1", error, ends_run=True))
    assert isinstance(event, WorkerFailed)
    assert (str(event.error), event.ends_run) == (str(error), True)


def test_what_a_schedule_is_made_with_comes_back() -> None:
    begin = Begin("d", 3, tolerant=True, most_failed=0.05, unit_seconds=20.0)
    recorder = Recorder(UNITS, begin)
    recorder.add(1.0, Stop(), [])
    name, data = recorder.take()
    assert Player([(name, data)], UNITS).begin == begin
    old = data.replace(b', "most_failed": 0.05, "unit_seconds": 20.0', b"")
    assert old != data
    assert Player([(name, old)], UNITS).begin == Begin("d", 3, tolerant=True)


def test_a_flush_holds_what_its_worker_said_without_saying_it_again() -> None:
    recorder = Recorder(UNITS, BEGIN)
    held = tuple(receipt(unit) for unit in ("u1", "u2"))
    for one in held:
        recorder.add(0.0, UnitDone("d-1", one), [])
    recorder.add(1.0, Flushed("d-1", CommittedFile(DIGEST, held)), [])
    name, data = recorder.take()
    assert json.loads(data.splitlines()[-2]) == [1.0, "flushed", 1, DIGEST[:16]]
    *_, (_, event), _ = Player([(name, data)], UNITS).events()  # type: ignore[misc]  # pairs, then a checksum
    assert event == Flushed("d-1", CommittedFile(DIGEST[:16], tuple(map(short, held))))


def test_a_flush_without_a_unit_that_another_had_accepted_says_so() -> None:
    said = [UnitDone("d-1", receipt(unit)) for unit in ("u1", "u2", "u3")]
    flushed = Flushed("d-1", CommittedFile(DIGEST, (receipt("u1"), receipt("u3"))))
    *_, event = there_and_back(*said, flushed)
    assert event == Flushed("d-1", CommittedFile(DIGEST[:16], (short(receipt("u1")), short(receipt("u3")))))


@pytest.mark.parametrize(
    "held",
    [
        pytest.param((receipt("u1"), receipt("u4")), id="a unit that it never said"),
        pytest.param((receipt("u1", "f" * 64),), id="other bytes"),
    ],
)
def test_a_flush_of_something_else_keeps_all_of_it(held: tuple[Receipt, ...]) -> None:
    _, event = there_and_back(UnitDone("d-1", receipt("u1")), Flushed("d-1", CommittedFile(DIGEST, held)))
    assert event == Flushed("d-1", CommittedFile(DIGEST[:16], tuple(map(short, held))))


def test_what_a_lost_worker_said_is_not_taken_to_be_in_a_later_flush() -> None:
    events = (UnitDone("d-1", receipt("u1")), WorkerLost("d-1", "chance"), Flushed("d-1", CommittedFile(DIGEST, ())))
    *_, event = there_and_back(*events)
    assert event == Flushed("d-1", CommittedFile(DIGEST[:16], ()))


def test_a_commit_is_the_next_that_was_ordered() -> None:
    assert there_and_back(Committed(Commit())) == [None]


def test_a_tick_that_nothing_follows_from_is_not_kept() -> None:
    recorder = Recorder(UNITS, BEGIN)
    recorder.add(1.0, Tick(), [])
    assert recorder.num_bytes == 0


def test_a_unit_takes_about_forty_bytes() -> None:
    units = tuple(Unit(f"{index:064}", "day.parquet", 0, 65_536, 0) for index in range(1000))
    recorder = Recorder(units, BEGIN)
    for unit in units:
        recorder.add(12_345.678, UnitDone("d-1234", receipt(unit.id)), [])
    assert 35 < recorder.num_bytes / 1000 < 45


def test_objects_follow_one_another_and_a_missing_one_is_named() -> None:
    recorder = Recorder(UNITS, BEGIN)
    recorder.add(1.0, WorkerReady("d-1"), [])
    first = recorder.take()
    recorder.add(2.0, WorkerReady("d-2"), [])
    second = recorder.take()
    assert (first[0], second[0]) == ("d-000001.jsonl", "d-000002.jsonl")
    assert len(list(Player([first, second], UNITS).events())) == 4
    with pytest.raises(RunError, match=r"^events/d-000002.jsonl is not the object 1 of its driver: events are missing"):
        Player([second], UNITS)


@pytest.mark.parametrize("data", [b"", b"[1.0", b'{"object": 1}\n[1.0,"stop"]\n'], ids=["empty", "torn", "no end"])
def test_a_torn_object_is_named(data: bytes) -> None:
    with pytest.raises(RunError, match=r"^events/d-000001.jsonl is torn or holds no events \("):
        Player([("d-000001.jsonl", data)], UNITS)


def test_an_unknown_kind_is_refused() -> None:
    recorder = Recorder(UNITS, BEGIN)
    recorder.add(1.0, Stop(), [])
    name, data = recorder.take()
    player = Player([(name, data.replace(b'"stop"', b'"jump"'))], UNITS)
    with pytest.raises(RunError, match=r"^'jump' is no kind of event that this version of assay knows\.$"):
        list(player.events())


def test_a_line_that_is_no_event_is_shown() -> None:
    recorder = Recorder(UNITS, BEGIN)
    recorder.add(1.0, UnitDropped("d-1", "u1"), [])
    name, data = recorder.take()
    player = Player([(name, data.replace(b",1,1]", b"]"))], UNITS)
    with pytest.raises(RunError, match=r"^events/d-000001.jsonl holds a line that is no event: \[1.0, 'dropped'\]\.$"):
        list(player.events())


def test_the_checksum_is_of_what_orders_do_in_their_order() -> None:
    score = Score("d-1", UNITS[0], UNITS[1], ("u4",))
    changed = [
        replace(score, unit=UNITS[2]),
        replace(score, upcoming=None),
        replace(score, accept=()),
        replace(score, incarnation="d-2"),
        replace(score, caution=1),
    ]
    sums = {checksum([one], 0) for one in (score, *changed, Flush("d-1", ("u4",)), EndWorker("d-1"))}
    assert len(sums) == 8
    assert checksum([score, EndWorker("d-1")], 0) != checksum([EndWorker("d-1"), score], 0)
    assert checksum([Say("one")], 0) == checksum([Say("another")], 0)
