"""A device that is asked now and then; it may be silent, or hang."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fakes.gpus import Card, Library

import assay.gauge
from assay.gauge import Cores, Gauge, Pulse, Told, cpu_name, device_name
from assay.nvml import Gpu
from assay.orders import Measured
from assay.records import Reading

WAIT = 120.0
"""Seconds after which a thread that should have answered has not."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_before_the_first_reading_nothing_is_known() -> None:
    assert Gauge(Reading).pulse()[:3] == (1.0, "", Reading())


def test_a_speed_is_the_mean_of_about_three_readings() -> None:
    card = Card(clock=1000, max_clock=1000)
    gauge = Gauge(Gpu(Library({"GPU-a": card}), {"CUDA_VISIBLE_DEVICES": "0"}, 7).read)
    gauge.read()
    card.clock = 400
    gauge.read()
    assert gauge.pulse()[:2] == (1.0, "")  # too early to tell
    gauge.read()
    assert gauge.pulse().speed == 0.6
    for _ in range(40):
        gauge.read()
    assert gauge.pulse().speed == pytest.approx(0.4, abs=0.002)
    assert gauge.pulse().reason == "its GPU runs at 400 of 1,000 MHz (60 °C)"


def test_a_gpu_that_idles_is_as_slow_as_it_was_under_load() -> None:
    card = Card(clock=500, max_clock=1000)
    gauge = Gauge(Gpu(Library({"GPU-a": card}), {"CUDA_VISIBLE_DEVICES": "0"}, 7).read)
    gauge.read()
    card.clock, card.utilization = 210, 0
    gauge.read()
    gauge.read()
    assert gauge.pulse().speed == 0.5


def test_a_driver_that_hangs_holds_nobody_up() -> None:
    clock, asked, answers = Clock(), threading.Event(), threading.Event()

    def read() -> Reading:
        asked.set()
        answers.wait(WAIT)
        return Reading()

    gauge = Gauge(read, clock)
    gauge.start()
    assert asked.wait(WAIT)
    clock.now = 70.0
    assert gauge.pulse() == Pulse(1.0, "", Reading(), 70.0)
    gauge.stop()
    answers.set()


def test_a_process_without_a_library_or_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assay.gauge, "DEVICES", {"no_such_library": "nowhere:Gpu"})
    assert assay.gauge._device() is None

    class Broken:
        def __init__(self) -> None:
            raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(assay.gauge, "DEVICES", {"pynvml": "assay.nvml:Gpu"})
    monkeypatch.setattr("assay.nvml.Gpu", Broken)
    assert assay.gauge._device() is None


def test_a_device_is_found_by_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.nvml.Gpu", lambda: Gpu(Library({"GPU-a": Card("A10")}), {"CUDA_VISIBLE_DEVICES": "0"}))
    process = assay.gauge.gauge()
    process.read()
    assert device_name(process.pulse()) == "A10"


def test_a_driver_that_breaks_during_a_run_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking:
        asked = 0

        def read(self) -> Reading:
            Breaking.asked += 1
            raise OSError("GPU is lost")

    monkeypatch.setattr("assay.nvml.Gpu", Breaking)
    process = assay.gauge.gauge()
    process.read()
    process.read()
    assert (Breaking.asked, process.pulse().reading.device) == (1, None)


# ---- what is told ----------------------------------------------------------------------------------------------------


def pulse(speed: float) -> Pulse:
    return Pulse(speed, "it is hot", Reading(), 0.0)


def test_a_change_of_more_than_a_tenth_is_told_once() -> None:
    told = Told()
    assert told.changes("d-1", pulse(0.95)) == []
    assert told.changes("d-1", pulse(0.8)) == [Measured("d-1", 0.8, "it is hot")]
    assert told.changes("d-1", pulse(0.8)) == []
    assert told.changes("d-2", pulse(0.8)) == [Measured("d-2", 0.8, "it is hot")]
    assert told.changes("d-1", pulse(1.0)) == [Measured("d-1", 1.0, "it is hot")]


def test_a_worker_that_has_ended_is_forgotten() -> None:
    told = Told()
    told.changes("d-1", pulse(0.8))
    told.forget("d-1")
    assert told.changes("d-1", pulse(0.8)) != []


# ---- cores -----------------------------------------------------------------------------------------------------------

SECOND = 1_000_000_000


def threads(folder: Path, **times: tuple[int, int]) -> Path:
    """As Linux shows them: nanoseconds that each ran, and waited for a core."""
    for task, (ran, waited) in times.items():
        (folder / task).mkdir(exist_ok=True)
        (folder / task / "schedstat").write_text(f"{ran} {waited} 17\n")
    return folder


def test_the_share_of_the_wanted_time_for_which_threads_had_a_core(tmp_path: Path) -> None:
    cores = Cores(threads(tmp_path, a=(5 * SECOND, 9 * SECOND)), lambda: 3.0)
    threads(tmp_path, a=(6 * SECOND, 10 * SECOND), b=(2 * SECOND, 1 * SECOND))
    assert cores.add_to(Reading(device="A10")) == Reading(device="A10", cpu_load=3.0, cpu_fraction=0.6)  # 3 of 5


def test_threads_that_wanted_next_to_nothing_leave_it_as_it_was(tmp_path: Path) -> None:
    cores = Cores(threads(tmp_path, a=(0, 0)), lambda: 3.0)
    threads(tmp_path, a=(SECOND, SECOND))
    assert cores.add_to(Reading()).cpu_fraction == 0.5
    threads(tmp_path, a=(SECOND, SECOND + SECOND // 10))
    assert cores.add_to(Reading()).cpu_fraction == 0.5


def test_where_the_system_does_not_say_the_load_alone_is_known(tmp_path: Path) -> None:
    assert Cores(tmp_path / "none", lambda: 3.0).add_to(Reading()) == Reading(cpu_load=3.0)


def test_a_thread_that_ends_meanwhile_counts_for_nothing(tmp_path: Path) -> None:
    cores = Cores(threads(tmp_path, a=(0, 0), b=(90 * SECOND, 0)), lambda: None)
    (tmp_path / "b" / "schedstat").unlink()
    threads(tmp_path, a=(SECOND, 3 * SECOND))
    assert cores.add_to(Reading()) == Reading(cpu_fraction=0.25)


def test_the_name_of_the_cpu(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: AMD EPYC\n")
    assert (cpu_name(cpuinfo), cpu_name(tmp_path / "none")) == ("AMD EPYC", "")
