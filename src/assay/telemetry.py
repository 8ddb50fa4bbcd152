"""How fast a worker's device runs, out of what it says of itself: pure arithmetic, and the words for it.

Lives here: the speed, the reason, how long which host was slow. Not here: asking devices (`gauge.py`, `nvml.py`), what
follows from a speed (`roster.py`).

The speed is that of the same device at its highest clock, with nothing else on it, and with a core for each thread:

    speed = min(clock / highest clock x share of the GPU left by others, share of the wanted CPU time that was had)

What is unknown counts as 1. A GPU's clock counts only under load: an idle one turns it down, which says nothing of
heat. Only how a speed changes matters: a rate is measured at some speed, and expected to change with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from assay.orders import Event, Measured, WorkerLost, WorkerReady
from assay.records import Reading
from assay.spec.words import agree, count

LEAST_SPEED = 0.05
"""Nothing counts as slower: a device that does nothing at all is a case for deadlines."""
TOLD_CHANGE = 0.1
"""A speed is told when it has changed by more than this share."""
LOADED_FRACTION = 0.5
"""A GPU is under load when it is busy for so much of its time."""
IDLE = "idle"
"""The reason for a low clock that is none."""
FULL_FRACTION = 0.98
"""Of its memory that a GPU in trouble has used."""
SLOW_SPEED = 0.9
"""Below it a device counts as slowed down."""
SAID_SECONDS = 60.0
"""A host whose workers were slowed down for less than that in all is not named at the end."""


def speed_of(now: Reading, before: Reading | None = None) -> float:
    """In [0.05, 1]. before: an earlier reading under load, whose clock stands in while the GPU is idle.

    >>> speed_of(Reading())
    1.0
    >>> speed_of(Reading(clock=1300.0, max_clock=2600.0, busy_fraction=1.0, num_others=1, others_fraction=0.2))
    0.4
    """
    loaded = now if is_loaded(now) else before
    clock = 1.0 if loaded is None else _clock_ratio(loaded)
    return max(LEAST_SPEED, min(1.0, clock * _share_left(now), _cpu_share(now)))


def is_loaded(reading: Reading) -> bool:
    """Does its clock say anything?"""
    idle = reading.throttle is not None and IDLE in reading.throttle
    return reading.clock is not None and not idle and (reading.busy_fraction or 0.0) >= LOADED_FRACTION


def is_change(speed: float, told: float) -> bool:
    """Enough to be told."""
    return abs(speed / told - 1.0) > TOLD_CHANGE


def _clock_ratio(reading: Reading) -> float:
    return reading.clock / reading.max_clock if reading.clock and reading.max_clock else 1.0


def _share_left(reading: Reading) -> float:
    """A GPU serves processes in turns: whoever wants all gets no less than the others."""
    if reading.others_fraction is None or not reading.num_others:
        return 1.0
    return max(1.0 - reading.others_fraction, 1.0 / (1 + reading.num_others))


def _cpu_share(reading: Reading) -> float:
    if reading.cpu_fraction is not None:
        return reading.cpu_fraction
    return 1.0 / max(1.0, reading.cpu_load) if reading.cpu_load is not None else 1.0


# ---- words -----------------------------------------------------------------------------------------------------------


def reason_of(now: Reading, before: Reading | None = None) -> str:
    """What slows the device down, as a clause; "" where nothing does, or nobody knows.

    >>> reason_of(Reading(clock=1290.0, max_clock=2610.0, busy_fraction=1.0, temperature=87.0, throttle=("heat",)))
    'its GPU runs at 1,290 of 2,610 MHz (87 °C, heat)'
    """
    loaded = now if is_loaded(now) else before
    parts = []
    if loaded is not None and _clock_ratio(loaded) < SLOW_SPEED:
        parts.append(f"its GPU runs at {loaded.clock:,.0f} of {loaded.max_clock:,.0f} MHz{_circumstances(loaded)}")
    if _share_left(now) < SLOW_SPEED:
        parts.append(f"{_others(now)} took {_percent(now.others_fraction or 0.0)} of its GPU")
    if _cpu_share(now) < SLOW_SPEED:
        parts.append(f"its threads had a core for {_percent(_cpu_share(now))} of the time for which they wanted one")
    return ", and ".join(parts)


def state_words(now: Reading) -> str:
    """What of a device may explain that a worker takes long, in sentences; "" where nothing does."""
    reason = reason_of(now)
    said = [f"{reason[0].upper()}{reason[1:]}."] if reason else []
    if now.memory and now.memory_used is not None and now.memory_used > FULL_FRACTION * now.memory:
        said.append(f"Its GPU's memory is full ({now.memory_used / 1e9:.1f} of {now.memory / 1e9:.1f} GB).")
    if now.num_others and not reason:
        said.append(f"{_others(now)} {agree(now.num_others, 'is', 'are')} on its GPU.")
    return " ".join(said)


def _others(reading: Reading) -> str:
    number = reading.num_others or 0
    return f"{number} other {agree(number, 'process', 'processes')}"


def _circumstances(reading: Reading) -> str:
    heat = [] if reading.temperature is None else [f"{reading.temperature:.0f} °C"]
    said = ", ".join([*heat, *(reading.throttle or ())])
    return f" ({said})" if said else ""


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


# ---- a run's devices -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Member:
    host: str
    since: float  # when its speed began
    speed: float = 1.0


@dataclass(slots=True)
class SlowTime:
    """How long the workers of each host ran slowed down. Beside the results, which depend on none of it."""

    _members: dict[str, _Member] = field(default_factory=dict)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _slow: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _reasons: dict[str, str] = field(default_factory=dict)  # the last one

    def hear(self, event: Event, at: float) -> None:
        """at: seconds since the start when it happened."""
        if isinstance(event, WorkerReady):
            self._members[event.incarnation] = _Member(event.machine.host, at)
        elif isinstance(event, Measured) and event.incarnation in self._members:
            member = self._members[event.incarnation]
            self._book(member, at)
            member.speed = event.speed
            if event.reason and event.speed < SLOW_SPEED:
                self._reasons[member.host] = event.reason
        elif isinstance(event, WorkerLost):
            self.ended(event.incarnation, at)

    def ended(self, incarnation: str, at: float) -> None:
        """Said twice is said once."""
        member = self._members.pop(incarnation, None)
        if member is not None:
            self._book(member, at)

    def words(self, at: float, most: int = 5) -> str:
        """A sentence on each of the hosts that were slow for longest; "" where none was."""
        for member in self._members.values():
            self._book(member, at)
        slow = [host for host, seconds in self._slow.items() if seconds >= SAID_SECONDS]
        hosts = sorted(slow, key=lambda host: (-self._slow[host], host))
        said = [self._of_host(host) for host in hosts[:most]]
        more = [f"So were {count(len(hosts) - most, 'more host')}."] if len(hosts) > most else []
        return " ".join(said + more)

    def _of_host(self, host: str) -> str:
        share = _percent(self._slow[host] / self._seconds[host])
        return f"Workers on {host or 'a host'} were slowed down for {share} of their time: {self._reasons[host]}."

    def _book(self, member: _Member, at: float) -> None:
        seconds, member.since = at - member.since, at
        self._seconds[member.host] += seconds
        if member.speed < SLOW_SPEED and member.host in self._reasons:
            self._slow[member.host] += seconds
