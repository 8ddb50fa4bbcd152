"""Asks this process's device and machine how they are, every few seconds, in a thread of its own.

NVIDIA's library may hang, as the driver does; then this thread hangs and nobody else. Not here: what a speed is
(`telemetry.py`), what follows from it (`roster.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from assay.loading import load
from assay.orders import Measured
from assay.records import Reading
from assay.telemetry import is_change, is_loaded, reason_of, speed_of

DEVICES: Mapping[str, str] = {"pynvml": "assay.nvml:Gpu"}
"""A library that may be there -> what reads devices with it."""
READ_SECONDS = 5.0
MEAN_READINGS = 3
"""A clock jumps by a tenth from second to second; a speed is about the mean of so many readings, and full before."""
SILENT_SECONDS = 30.0
"""A device that has not answered for so long is said not to."""
LEAST_WANTED_NANOSECONDS = 500_000_000
"""A process that wanted cores for less says nothing of how hard they are to get."""
TASKS, CPUINFO = Path("/proc/self/task"), Path("/proc/cpuinfo")


class Device(Protocol):
    def read(self) -> Reading: ...


class Pulse(NamedTuple):
    """What a worker's process says of its device."""

    speed: float
    reason: str  # a clause; "" at full speed
    reading: Reading  # the last one
    silent_seconds: float  # since it was read


class Gauge:
    """Of one process. `start` it, and ask for its `pulse` from any thread, at any time: it answers at once."""

    def __init__(self, read: Callable[[], Reading], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._stopped = threading.Event()
        self._loaded: Reading | None = None  # the last one under load
        self._pulse = Pulse(1.0, "", Reading(), 0.0)
        self._num_read = 0
        self._mean = 0.0  # of the speeds that were read
        self._since = clock()  # when the last one was read, or the first was asked for

    def start(self) -> None:
        threading.Thread(target=self._live, name="assay-gauge", daemon=True).start()

    def stop(self) -> None:
        """It is not waited for."""
        self._stopped.set()

    def pulse(self) -> Pulse:
        return self._pulse._replace(silent_seconds=self._clock() - self._since)

    def read(self) -> None:
        """Ask now; by its own thread alone."""
        now = self._read()
        speed, reason = speed_of(now, self._loaded), reason_of(now, self._loaded)
        if is_loaded(now):
            self._loaded = now
        self._num_read += 1
        self._mean += (speed - self._mean) / min(self._num_read, MEAN_READINGS)
        self._since = self._clock()
        if self._num_read < MEAN_READINGS:
            self._pulse = Pulse(1.0, "", now, 0.0)
        else:
            self._pulse = Pulse(round(self._mean, 3), reason, now, 0.0)

    def _live(self) -> None:
        while True:
            self.read()
            if self._stopped.wait(READ_SECONDS):
                return


class Told:
    """What the driver was told of each worker's speed: it is told again where that has changed."""

    def __init__(self) -> None:
        self._speeds: dict[str, float] = {}

    def changes(self, incarnation: str, pulse: Pulse) -> list[Measured]:
        """At most one event."""
        if not is_change(pulse.speed, self._speeds.get(incarnation, 1.0)):
            return []
        self._speeds[incarnation] = pulse.speed
        return [Measured(incarnation, pulse.speed, pulse.reason)]

    def forget(self, incarnation: str) -> None:
        self._speeds.pop(incarnation, None)


def gauge() -> Gauge:
    """Of this process: its GPU where a library and a driver are there, and its cores."""
    return Gauge(_Process().read)


def device_name(pulse: Pulse) -> str:
    """The GPU's, else the CPU's; "" where neither is known."""
    return pulse.reading.device or cpu_name()


class _Process:
    """What this one can say."""

    def __init__(self) -> None:
        self._cores = Cores()
        self._device: Device | None = None
        self._looked = False

    def read(self) -> Reading:
        if not self._looked:  # not before: that may hang as well
            self._looked, self._device = True, _device()
        return self._cores.add_to(self._read_device())

    def _read_device(self) -> Reading:
        try:
            return Reading() if self._device is None else self._device.read()
        except Exception:  # a driver that breaks while a run goes on is no fault of the run: nothing is known from then
            self._device = None
            return Reading()


def _device() -> Device | None:
    """None where there is none, or nobody can tell."""
    for library, place in DEVICES.items():
        if find_spec(library) is None:
            continue
        try:
            made: Device = load(place)()
        except Exception:  # whatever a driver that is missing, or broken, makes of it: no device is no fault of a run
            continue
        return made
    return None


class Cores:
    """Whether this process's threads get the cores that they want, as Linux counts for each of them.

    That sees other work on the machine and the limits of a container alike. Elsewhere the machine's load stands in.
    """

    def __init__(self, tasks: Path = TASKS, load: Callable[[], float | None] | None = None) -> None:
        self._tasks = tasks
        self._load = load or load_of_each_core
        self._before = self._times()
        self._fraction: float | None = None  # as last known

    def add_to(self, reading: Reading) -> Reading:
        now = self._times()
        had = wanted = 0
        for task, (ran, waited) in now.items():
            ran_before, waited_before = self._before.get(task, (0, 0))
            had += ran - ran_before
            wanted += ran - ran_before + waited - waited_before
        self._before = now
        if wanted > LEAST_WANTED_NANOSECONDS:
            self._fraction = had / wanted
        return replace(reading, cpu_load=self._load(), cpu_fraction=self._fraction)

    def _times(self) -> dict[str, tuple[int, int]]:
        """Task -> nanoseconds that it ran, and that it waited for a core. {} where the system does not say."""
        times: dict[str, tuple[int, int]] = {}
        try:
            tasks = list(self._tasks.iterdir())
        except OSError:
            return times
        for task in tasks:
            try:
                ran, waited, _ = (task / "schedstat").read_text().split()
            except (OSError, ValueError):
                continue
            times[task.name] = (int(ran), int(waited))
        return times


def load_of_each_core() -> float | None:
    """Threads of the machine that run or want to, on average over a minute, for each of its cores."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return None


def cpu_name(cpuinfo: Path = CPUINFO) -> str:
    """Of this machine; "" where the system does not say."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
