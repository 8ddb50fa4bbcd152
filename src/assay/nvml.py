"""What an NVIDIA GPU says of itself, through NVIDIA's own library. The only module that imports it, loaded by a table.

Not here: when it is asked, and that it may hang (`gauge.py`); what follows from it (`telemetry.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import pynvml

from assay.records import Reading
from assay.telemetry import IDLE

Said = TypeVar("Said")
Handle = Any  # Any: opaque, of the library's own

REASONS = {
    "GpuIdle": IDLE,
    "ApplicationsClocksSetting": "clocks set by its user",
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SyncBoost": "in step with other GPUs",
    "SwThermalSlowdown": "thermal slowdown by the driver",
    "HwThermalSlowdown": "thermal slowdown by the hardware",
    "HwPowerBrakeSlowdown": "power brake",
    "DisplayClockSetting": "clocks set for a display",
}
"""Bits of the reasons for a low clock, by what follows nvmlClocksEventReason in the library's names."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpu:
    """The GPU of this process: the first that it is given in CUDA_VISIBLE_DEVICES, else the one that it computes on."""

    def __init__(
        self, library: Any = pynvml, environment: Mapping[str, str] = os.environ, pid: int | None = None
    ) -> None:
        """Any: pynvml, or what has its functions. Its NVMLError where there is no driver."""
        self._nvml = library
        self._given = environment.get(VISIBLE)
        self._pid = os.getpid() if pid is None else pid
        self._asked = 0  # time of the last sample of who used it, in the library's microseconds
        self._nvml.nvmlInit()

    def read(self) -> Reading:
        """Takes some milliseconds, or for ever where a driver hangs."""
        handle = self._find()
        if handle is None:
            return Reading()
        nvml, ask = self._nvml, self._ask
        memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        name = ask(lambda: nvml.nvmlDeviceGetName(handle))
        busy = ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        num_others, others_fraction = self._others(handle)
        return Reading(
            device=name.decode() if isinstance(name, bytes) else name,
            temperature=ask(lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
            slowdown_temperature=ask(
                lambda: float(nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN))
            ),
            throttle=self._reasons(handle),
            clock=ask(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            max_clock=ask(lambda: float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))),
            busy_fraction=None if busy is None else busy / 100.0,
            memory_used=None if memory is None else float(memory.used),
            memory=None if memory is None else float(memory.total),
            num_others=num_others,
            others_fraction=others_fraction,
        )

    def _find(self) -> Handle | None:
        """None: it has none, or nobody knows which."""
        nvml = self._nvml
        if self._given is not None:
            first = self._given.partition(",")[0].strip()
            if first.isdecimal():
                return self._ask(lambda: nvml.nvmlDeviceGetHandleByIndex(int(first)))
            return self._ask(lambda: nvml.nvmlDeviceGetHandleByUUID(first)) if first and first != "-1" else None
        for index in range(self._ask(nvml.nvmlDeviceGetCount) or 0):
            handle = self._ask(partial(nvml.nvmlDeviceGetHandleByIndex, index))
            if handle is not None and self._pid in self._pids(handle):
                return handle
        return None

    def _pids(self, handle: Handle) -> list[int]:
        running = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return [one.pid for one in running or ()]

    def _others(self, handle: Handle) -> tuple[int | None, float | None]:
        """How many there are, and their share. Unknown where this process is not listed itself: in a container the
        library may count processes as the host does, and each of them would look like another."""
        pids = self._pids(handle)
        if self._pid not in pids:
            return None, None
        others = set(pids) - {self._pid}
        samples = self._ask(lambda: self._nvml.nvmlDeviceGetProcessUtilization(handle, self._asked)) if others else ()
        if samples is None:
            return len(others), None
        latest = {one.pid: one for one in sorted(samples, key=lambda one: one.timeStamp)}
        self._asked = max((one.timeStamp for one in latest.values()), default=self._asked)
        return len(others), min(1.0, sum(one.smUtil for pid, one in latest.items() if pid in others) / 100.0)

    def _reasons(self, handle: Handle) -> tuple[str, ...] | None:
        bits = self._ask(lambda: self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if bits is None:
            return None
        return tuple(
            words for name, words in REASONS.items() if bits & getattr(self._nvml, f"nvmlClocksEventReason{name}", 0)
        )

    def _ask(self, call: Callable[[], Said]) -> Said | None:
        """None where this GPU, or this driver, does not say."""
        try:
            return call()
        except self._nvml.NVMLError:
            return None
