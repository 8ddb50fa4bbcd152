"""A GPU that says what it is told to, through functions of the names that NVIDIA's library has; and a recorded one."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

Value = TypeVar("Value")
TRACES = Path(__file__).parent.parent / "data" / "gpu_trace"
HIGHEST_CLOCK = 2610
"""MHz: the highest in the whole log that the traces are from."""


class Sample(NamedTuple):
    """One line of a trace."""

    seconds: float  # since its first
    temperature: int
    clock: int
    utilization: int


def trace(name: str) -> tuple[Sample, ...]:
    """See tests/data/gpu_trace/README.md."""
    with (TRACES / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    times = [datetime.strptime(row["time"], "%H:%M:%S.%f") for row in rows]
    return tuple(
        Sample(
            (time - times[0]).total_seconds(),
            int(row["temperature_c"]),
            int(row["sm_clock_mhz"]),
            int(row["utilization_percent"]),
        )
        for time, row in zip(times, rows, strict=True)
    )


class NVMLError(Exception): ...


@dataclass
class Rates:
    gpu: int


@dataclass
class Memory:
    used: int
    total: int


@dataclass
class Process:
    pid: int


@dataclass
class Usage:
    pid: int
    timeStamp: int  # noqa: N815  # as the library has it
    smUtil: int  # noqa: N815


@dataclass
class Card:
    """What one GPU says; None for what it does not."""

    name: str | bytes = "NVIDIA GeForce RTX 4060 Laptop GPU"
    temperature: int | None = 60
    slowdown: int | None = None
    clock: int | None = HIGHEST_CLOCK
    max_clock: int | None = HIGHEST_CLOCK
    utilization: int | None = 100
    reasons: int | None = None
    memory: Memory | None = None
    pids: tuple[int, ...] = ()
    usage: tuple[Usage, ...] = ()


@dataclass
class Library:
    """pynvml, as far as it is called."""

    cards: Mapping[str, Card]  # by UUID, in the order of their numbers
    driver: bool = True
    asked: list[int] = field(default_factory=list)  # times of the last sample that were given

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_CLOCK_SM = 1
    nvmlClocksEventReasonGpuIdle = 1  # noqa: N815
    nvmlClocksEventReasonSwPowerCap = 4  # noqa: N815
    nvmlClocksEventReasonSwThermalSlowdown = 0x20  # noqa: N815
    nvmlClocksEventReasonHwThermalSlowdown = 0x40  # noqa: N815

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NVMLError("NVML Shared Library Not Found")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        if index >= len(self.cards):
            raise NVMLError("Invalid Argument")
        return list(self.cards.values())[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Card:  # noqa: N802
        if uuid not in self.cards:
            raise NVMLError("Not Found")
        return self.cards[uuid]

    def nvmlDeviceGetName(self, card: Card) -> str | bytes:  # noqa: N802
        return card.name

    def nvmlDeviceGetTemperature(self, card: Card, sensor: int) -> int:  # noqa: N802
        return _said(card.temperature)

    def nvmlDeviceGetTemperatureThreshold(self, card: Card, threshold: int) -> int:  # noqa: N802
        return _said(card.slowdown)

    def nvmlDeviceGetClockInfo(self, card: Card, kind: int) -> int:  # noqa: N802
        return _said(card.clock)

    def nvmlDeviceGetMaxClockInfo(self, card: Card, kind: int) -> int:  # noqa: N802
        return _said(card.max_clock)

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> Rates:  # noqa: N802
        return Rates(_said(card.utilization))

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: Card) -> int:  # noqa: N802
        return _said(card.reasons)

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> Memory:  # noqa: N802
        return _said(card.memory)

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[Process]:  # noqa: N802
        return [Process(pid) for pid in card.pids]

    def nvmlDeviceGetProcessUtilization(self, card: Card, since: int) -> list[Usage]:  # noqa: N802
        self.asked.append(since)
        found = [one for one in card.usage if one.timeStamp > since]
        if not found:
            raise NVMLError("Not Found")
        return found


def _said(value: Value | None) -> Value:
    if value is None:
        raise NVMLError("Not Supported")
    return value
