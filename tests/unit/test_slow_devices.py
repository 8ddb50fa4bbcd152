"""What a device that gets hot, or is shared, does to a run: the scheduler hears of it before units are late.

The stories are in simulated time. In the first, units have 100 rows and workers are at one second a unit.
"""

from __future__ import annotations

from statistics import mean

import pytest
from fakes.hot_fleet import DEVICES, HotFleet, Outcome

from assay.events import Begin, Player, Recorder
from assay.orders import (
    Committed,
    EndWorker,
    Event,
    Flush,
    Flushed,
    Measured,
    Order,
    Score,
    Stalled,
    Tick,
    UnitDone,
    WorkerReady,
)
from assay.records import CommittedFile, Receipt, Unit
from assay.schedule import Schedule

RECORDED, JOINED, MADE = DEVICES.values()


def units(number: int) -> tuple[Unit, ...]:
    return tuple(Unit(f"u{index}", "day.parquet", 100 * index, 100, 0) for index in range(1, number + 1))


def done(worker: str, unit: str) -> UnitDone:
    return UnitDone(worker, Receipt(unit, 100, ""))


def scored(orders: list[Order]) -> list[tuple[str, str]]:
    return [(order.incarnation, order.unit.id) for order in orders if isinstance(order, Score)]


def begun(number: int, num_workers: int) -> Schedule:
    """All workers are ready at 0, and have done their first unit at 1."""
    schedule = Schedule(units(number), driver="d", num_workers=num_workers)
    schedule.start()
    for worker in range(1, num_workers + 1):
        schedule.handle(WorkerReady(f"d-{worker}"), 0.0)
    for worker in range(1, num_workers + 1):
        schedule.handle(done(f"d-{worker}", f"u{2 * worker - 1}"), 1.0)
    return schedule


def two_left() -> Schedule:
    """Two workers, each with its last unit since 1; nothing is queued."""
    schedule = begun(4, 2)
    assert schedule.units_done == 2
    return schedule


def test_a_unit_on_a_device_that_gets_hot_is_copied_as_soon_as_another_is_idle() -> None:
    schedule = two_left()
    schedule.handle(Measured("d-1", 0.1), 1.2)  # of 1 s of work 0.8 s is left, which takes it 8
    orders = schedule.handle(done("d-2", "u4"), 2.0)
    assert scored(orders) == [("d-2", "u2")]


def test_without_a_word_of_it_the_copy_waits_until_the_unit_is_late() -> None:
    schedule = two_left()
    assert scored(schedule.handle(done("d-2", "u4"), 2.0)) == []


def test_a_device_that_gets_hot_while_another_is_idle_has_its_unit_copied_at_once() -> None:
    schedule = two_left()
    assert schedule.handle(done("d-2", "u4"), 1.2) == [Flush("d-2", ("u4",))]
    file = CommittedFile("file", (Receipt("u3", 100, ""), Receipt("u4", 100, "")))
    assert scored(schedule.handle(Flushed("d-2", file), 1.3)) == []
    assert scored(schedule.handle(Measured("d-1", 0.1), 1.4)) == [("d-2", "u2")]


def test_one_that_cools_down_again_is_left_alone() -> None:
    schedule = two_left()
    schedule.handle(Measured("d-1", 0.1), 1.2)
    schedule.handle(Measured("d-1", 1.0), 1.3)
    assert scored(schedule.handle(done("d-2", "u4"), 1.4)) == []


def test_a_hot_device_gets_no_unit_that_others_would_be_through_with_before_it() -> None:
    schedule = begun(8, 2)  # u2 and u4 since 1; u5 and u6 reserved, u7 and u8 queued
    schedule.handle(Measured("d-1", 0.1), 1.9)
    assert scored(schedule.handle(done("d-1", "u2"), 2.0)) == []
    schedule = begun(8, 2)
    assert scored(schedule.handle(done("d-1", "u2"), 2.0)) == [("d-1", "u5")]


def test_what_was_measured_at_half_speed_counts_twice_at_full_speed() -> None:
    """d-1 was always half as fast, and its device said so; at full speed it is as fast as the other."""
    schedule = Schedule(units(9), driver="d", num_workers=2)
    schedule.start()
    schedule.handle(WorkerReady("d-1"), 0.0)
    schedule.handle(WorkerReady("d-2"), 0.0)
    schedule.handle(Measured("d-1", 0.5), 0.0)
    schedule.handle(done("d-2", "u3"), 1.0)
    schedule.handle(done("d-2", "u4"), 2.0)
    schedule.handle(done("d-1", "u1"), 2.0)
    roster = schedule._roster
    assert roster.workers["d-1"].pace.rate == roster.workers["d-2"].pace.rate == 100.0
    assert (roster.rate(roster.workers["d-1"]), roster.typical_rate) == (50.0, 75.0)
    schedule.handle(Measured("d-1", 1.0), 2.0)
    assert (roster.rate(roster.workers["d-1"]), roster.typical_rate) == (100.0, 100.0)


def test_a_unit_that_a_change_falls_into_is_measured_at_the_speed_that_it_had_on_average() -> None:
    schedule = begun(9, 1)
    schedule.handle(Measured("d-1", 0.25), 1.5)  # half of the unit is done
    assert schedule._roster.workers["d-1"].expected == 0.5 + 2.0
    schedule.handle(done("d-1", "u2"), 3.5)
    assert schedule._roster.workers["d-1"].pace.rate == pytest.approx(100.0)
    assert schedule._roster.workers["d-1"].expected == pytest.approx(4.0)


def test_deadlines_follow() -> None:
    """Ten times what is expected, and at least 300 seconds: a unit is expected to take 100."""
    schedule = begun(9, 1)
    schedule.handle(Measured("d-1", 0.05), 1.0)
    schedule.handle(Measured("d-1", 0.01), 1.0)
    assert not [one for one in schedule.handle(Tick(), 1000.9) if isinstance(one, EndWorker)]
    assert [one for one in schedule.handle(Tick(), 1001.1) if isinstance(one, EndWorker)] == [EndWorker("d-1")]


def test_a_device_that_reports_is_no_sign_that_its_model_goes_on() -> None:
    schedule = begun(9, 1)
    for second in range(2, 80):
        schedule.handle(Measured("d-1", 0.5 + second / 200), float(second))
    assert [one.unit for one in schedule.handle(Tick(), 80.0) if isinstance(one, Stalled)] == ["u2"]


def test_what_is_said_of_a_worker_that_has_ended_changes_nothing() -> None:
    assert begun(9, 1).handle(Measured("d-7", 0.5), 2.0) == []


# ---- a recorded device -----------------------------------------------------------------------------------------------


def runs(device, **settings) -> list[Outcome]:
    return [HotFleet(device, seed=seed, **settings).run() for seed in range(8)]


def test_all_units_are_scored_and_the_hot_device_gets_fewer() -> None:
    for one in runs(RECORDED):
        assert sum(one.units.values()) == 64
        others = [number for name, number in one.units.items() if name != "d-1"]
        assert one.units["d-1"] < min(others)


def test_what_a_recorded_device_says_is_told_and_changes_what_it_gets() -> None:
    """32 units of 40 s at full speed: the device gets hot in the middle of the run."""
    told = runs(JOINED, unit_seconds=40.0, num_units=32)
    untold = runs(JOINED, unit_seconds=40.0, num_units=32, telemetry=False)
    assert all(one.num_measured > 0 for one in told)
    assert {one.num_measured for one in untold} == {0}
    assert mean(one.units["d-1"] for one in told) < mean(one.units["d-1"] for one in untold)
    assert mean(one.over for one in told) < mean(one.over for one in untold) - 0.01


def test_a_device_that_is_slowed_down_to_a_third_holds_the_run_up_by_half_as_much() -> None:
    told, untold = runs(MADE), runs(MADE, telemetry=False)
    nothing = runs(MADE, telemetry=False, speculate=False)
    assert mean(one.over for one in told) < 0.08
    assert mean(one.over for one in untold) > 0.11
    assert mean(one.over for one in nothing) > mean(one.over for one in untold)


def test_telemetry_costs_nothing_where_all_devices_run_alike() -> None:
    cool = JOINED[:15]  # its cool part
    for told, untold in zip(runs(cool), runs(cool, telemetry=False), strict=True):
        assert told.makespan == untold.makespan


def test_a_run_with_telemetry_is_replayed_to_the_same_orders() -> None:
    fleet = HotFleet(MADE, seed=3)
    fleet.run()
    recorder = Recorder(fleet.units, Begin("d", 8, tolerant=False))
    kept: list[tuple[Event, list[Order]]] = []
    for (at, event), orders in zip(fleet.heard, fleet.given, strict=True):
        recorder.add(at, event, orders)
        if orders or not isinstance(event, Tick):
            kept.append((event, orders))
    again = Schedule(fleet.units, driver="d", num_workers=8)
    again.start()
    played = [item for item in Player([recorder.take()], fleet.units).events() if not isinstance(item, int)]
    assert any(isinstance(event, Measured) for _, event in played)
    for (at, event), (original, orders) in zip(played, kept, strict=True):
        told = original if isinstance(original, Committed) else event
        assert told is not None
        assert again.handle(told, at) == orders
