"""Speeds out of readings, by hand; and the words for them."""

from __future__ import annotations

import pytest
from fakes.gpus import HIGHEST_CLOCK, trace

from assay.orders import Measured, WorkerLost, WorkerReady
from assay.records import Machine, Reading
from assay.telemetry import SlowTime, is_change, is_loaded, reason_of, speed_of, state_words

HOT = Reading(device="A10", temperature=87.0, clock=1290.0, max_clock=2580.0, busy_fraction=1.0)


def test_what_is_unknown_counts_as_full_speed() -> None:
    assert speed_of(Reading()) == 1.0
    assert speed_of(Reading(clock=700.0, busy_fraction=1.0)) == 1.0  # of how many?
    assert speed_of(Reading(num_others=3)) == 1.0


def test_the_clock_of_a_gpu_under_load() -> None:
    assert speed_of(HOT) == 0.5


@pytest.mark.parametrize(
    "idle",
    [
        Reading(clock=210.0, max_clock=2580.0, busy_fraction=0.0),
        Reading(clock=210.0, max_clock=2580.0, busy_fraction=1.0, throttle=("idle",)),
        Reading(clock=210.0, max_clock=2580.0),
    ],
)
def test_the_clock_of_an_idle_gpu_says_nothing(idle: Reading) -> None:
    assert not is_loaded(idle)
    assert speed_of(idle) == 1.0
    assert speed_of(idle, before=HOT) == 0.5  # as hot as it was


def test_what_other_processes_leave() -> None:
    assert speed_of(Reading(num_others=1, others_fraction=0.25)) == 0.75


def test_a_gpu_serves_in_turns_so_that_one_of_three_gets_a_third_at_least() -> None:
    assert speed_of(Reading(num_others=2, others_fraction=1.0)) == pytest.approx(1 / 3)


def test_a_slow_clock_and_another_process_multiply() -> None:
    found = Reading(clock=1290.0, max_clock=2580.0, busy_fraction=1.0, num_others=1, others_fraction=0.5)
    assert speed_of(found) == 0.25


def test_cores_that_are_not_there_hold_a_worker_up_and_so_does_a_gpu_whichever_is_worse() -> None:
    assert speed_of(Reading(cpu_fraction=0.4)) == 0.4
    assert speed_of(Reading(clock=1290.0, max_clock=2580.0, busy_fraction=1.0, cpu_fraction=0.4)) == 0.4
    assert speed_of(Reading(clock=1290.0, max_clock=2580.0, busy_fraction=1.0, cpu_fraction=0.9)) == 0.5


def test_the_load_of_the_machine_stands_in_where_the_system_does_not_count_waiting() -> None:
    assert speed_of(Reading(cpu_load=2.5)) == 0.4
    assert speed_of(Reading(cpu_load=0.7)) == 1.0
    assert speed_of(Reading(cpu_load=2.5, cpu_fraction=0.9)) == 0.9


def test_a_speed_is_never_zero_nor_above_one() -> None:
    assert speed_of(Reading(clock=1.0, max_clock=2580.0, busy_fraction=1.0)) == 0.05
    assert speed_of(Reading(clock=2700.0, max_clock=2580.0, busy_fraction=1.0)) == 1.0
    assert speed_of(Reading(cpu_fraction=0.0)) == 0.05


def test_a_tenth_is_told_both_ways() -> None:
    assert not is_change(0.9, 1.0)
    assert is_change(0.89, 1.0)
    assert not is_change(0.549, 0.5)
    assert is_change(0.56, 0.5)


def test_the_recorded_gpu_is_slower_when_hot() -> None:
    """Means by hand from the files: the last ten lines of each."""

    def mean(name: str) -> float:
        readings = [
            Reading(clock=one.clock, max_clock=HIGHEST_CLOCK, busy_fraction=one.utilization / 100)
            for one in trace(name)[-10:]
        ]
        return sum(map(speed_of, readings)) / 10

    assert mean("cool") == pytest.approx(25_665 / 26_100)
    assert mean("hot") == pytest.approx(14_865 / 26_100)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_reasons() -> None:
    assert reason_of(Reading()) == ""
    assert reason_of(HOT) == "its GPU runs at 1,290 of 2,580 MHz (87 °C)"
    assert reason_of(Reading(clock=210.0, busy_fraction=0.0), HOT) == "its GPU runs at 1,290 of 2,580 MHz (87 °C)"
    assert reason_of(Reading(num_others=2, others_fraction=0.6, cpu_fraction=0.4)) == (
        "2 other processes took 60 % of its GPU, and its threads had a core for 40 % of the time for which they wanted "
        "one"
    )


def test_what_a_device_has_to_do_with_a_stall() -> None:
    assert state_words(Reading(memory_used=1e9, memory=24e9, num_others=0)) == ""
    assert (
        state_words(Reading(memory_used=23.9e9, memory=24e9, num_others=1))
        == "Its GPU's memory is full (23.9 of 24.0 GB). 1 other process is on its GPU."
    )
    assert state_words(HOT) == "Its GPU runs at 1,290 of 2,580 MHz (87 °C)."


# ---- a run's devices -------------------------------------------------------------------------------------------------


def ready(incarnation: str, host: str) -> WorkerReady:
    return WorkerReady(incarnation, Machine(host=host))


def test_how_long_each_host_was_slow() -> None:
    slow = SlowTime()
    slow.hear(ready("d-1", "a"), 0.0)
    slow.hear(ready("d-2", "b"), 0.0)
    slow.hear(ready("d-3", "b"), 0.0)
    assert slow.words(10.0) == ""
    slow.hear(Measured("d-2", 0.5, "it is hot"), 200.0)
    slow.hear(Measured("d-2", 0.7, "it is hotter"), 300.0)
    slow.hear(Measured("d-2", 1.0), 400.0)
    slow.hear(WorkerLost("d-3", "its process died"), 600.0)
    assert slow.words(1000.0) == "Workers on b were slowed down for 12 % of their time: it is hotter."  # 200 of 1600 s


def test_a_minute_in_all_is_the_least_that_is_said() -> None:
    slow = SlowTime()
    slow.hear(ready("d-1", "a"), 0.0)
    slow.hear(Measured("d-1", 0.5, "it is hot"), 1000.0)
    assert slow.words(1059.9) == ""
    assert slow.words(1060.0) == "Workers on a were slowed down for 6 % of their time: it is hot."


def test_the_hosts_that_were_slow_for_longest_are_named_and_the_others_counted() -> None:
    slow = SlowTime()
    for number in range(4):
        slow.hear(ready(f"d-{number}", f"host{number}"), 0.0)
        slow.hear(Measured(f"d-{number}", 0.5, "it is hot"), 100.0 * number)
    assert slow.words(400.0, most=2) == (
        "Workers on host0 were slowed down for 100 % of their time: it is hot. "
        "Workers on host1 were slowed down for 75 % of their time: it is hot. So were 2 more hosts."
    )
