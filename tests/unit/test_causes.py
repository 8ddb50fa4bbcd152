"""Why a run is silent, asked of workers in this process that really hang; the loop's time is its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import hanging
from fakes.small_run import job, make_setup

from assay.drive import drive
from assay.gauge import Gauge, Pulse
from assay.local import _Threads
from assay.orders import Event, Measured, Score, Stalled, UnitDone, Wait, WorkerReady
from assay.records import Job, Progress, Reading
from assay.store.log import CommitLog
from assay.store.run import RunDirectory

WAIT = 200.0
"""Seconds after which what should have happened has not."""
GATE = f"hanging.py, line {hanging.opens_a_gate.__code__.co_firstlineno + 2}, in `opens_a_gate`"


@pytest.fixture
def of(tmp_path: Path) -> Job:
    os.mkfifo(tmp_path / "gate")
    return job(tmp_path, {"base": "same"}, num_units=2)


def opened(of: Job) -> None:
    """Whoever waits at the gate goes on."""
    with open(Path(of.base) / "gate", "wb") as pipe:
        pipe.write(b"x")


@contextmanager
def crew_of(of: Job, setup: Callable[..., object] = hanging.gated) -> Iterator[_Threads]:
    crew = _Threads(of, setup)
    crew.start("d-1", 0)
    try:
        yield crew
    finally:
        crew.close()


def cause(crew: _Threads, wait: Wait, until: str) -> str:
    """What the crew says, once a thread is where it is to hang."""
    deadline = time.monotonic() + WAIT
    said = ""
    while until not in said and time.monotonic() < deadline:
        said = crew.cause(Stalled(wait, "d-1", "u000", 60.0))
    return said


def test_a_model_that_hangs_is_shown_by_the_line_that_it_is_at(of: Job) -> None:
    with crew_of(of) as crew:
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
        crew.send(Score("d-1", of.plan.units[0], None, ()))
        said = cause(crew, "score", "opens_a_gate")
        opened(of)
        assert isinstance(crew.wait(WAIT)[0], UnitDone)
    assert said.startswith(f"It is in {GATE}: ")


def test_a_worker_that_loads_for_long(of: Job) -> None:
    with crew_of(of, hanging.slow_to_load) as crew:
        crew.start("d-2", 0)  # waits for the first
        said = cause(crew, "start", "opens_a_gate")
        opened(of)
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
        opened(of)
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
    assert said.startswith(f"Workers load their models one after the other. It is in {GATE}: ")


def test_a_worker_that_is_no_more_is_nowhere(of: Job) -> None:
    with crew_of(of) as crew:
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
        assert not crew.cause(Stalled("score", "d-9", "u000", 60.0)).startswith("It ")


def test_a_disk_without_room_for_the_states(of: Job) -> None:
    """The disk is what it is; the states would not fit any."""
    with crew_of(replace(of, plan=replace(of.plan, state_bytes=10**18))) as crew:
        assert crew.cause(Stalled("flush", "d-1", None, 60.0)).startswith(f"The disk of {of.run} has ")
    with crew_of(of) as crew:
        assert crew.cause(Stalled("flush", "d-1", None, 60.0)).startswith("The store of the run answers in 0.")


def test_a_device_that_slows_down_is_told_of_each_worker_that_is_ready(
    of: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crew_of(of) as crew:
        pulse = Pulse(0.5, "it is hot", Reading(), 0.0)
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
        monkeypatch.setattr(crew._gauge, "pulse", lambda: pulse)
        crew.start("d-2", 0)
        assert crew.wait(WAIT) == [Measured("d-1", 0.5, "it is hot")]
        assert isinstance(crew.wait(WAIT)[0], WorkerReady)
        assert crew.wait(WAIT) == [Measured("d-2", 0.5, "it is hot")]
        assert crew.wait(0.0) == []


def test_a_run_whose_model_hangs_says_where_after_a_minute(of: Job) -> None:
    """The loop's clock goes ten seconds each time that it waits; the model waits until that was said."""
    now, said = 0.0, list[str]()

    class Hurried(_Threads):
        def wait(self, seconds: float) -> Sequence[Event]:
            nonlocal now
            now += 10.0 if at_the_gate(self) else 0.0
            return super().wait(0.01)

    def report(progress: Progress) -> None:
        if "has been scoring" in progress.message:
            said.append(progress.message)
            threading.Thread(target=opened, args=(of,), daemon=True).start()

    with CommitLog(RunDirectory.create(of.run)) as log:
        drive(of, log, Hurried(of, hanging.gated), 1, report, lambda: now)
    [message] = said
    worker, _, rest = message.removeprefix("Worker ").partition(" ")
    assert worker.endswith("-1")
    assert rest.startswith(f"has been scoring unit u000 for 60 s. It is in {GATE}: ")


def test_the_hosts_whose_devices_were_slow_are_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, said, of = 0.0, list[str](), job(tmp_path, {"base": "same"}, num_units=20)

    class Hurried(_Threads):
        def wait(self, seconds: float) -> Sequence[Event]:
            nonlocal now
            now += 10.0
            return super().wait(WAIT)

    monkeypatch.setattr("assay.local.gauge", lambda: hot)
    hot = Gauge(Reading)
    monkeypatch.setattr(hot, "pulse", lambda: Pulse(0.5, "it is hot", Reading(), 0.0))
    with CommitLog(RunDirectory.create(of.run)) as log:
        drive(of, log, Hurried(of, make_setup), 1, lambda progress: said.append(progress.message), lambda: now)
    [message] = filter(None, said)
    assert message.startswith(f"Workers on {socket.gethostname()} were slowed down for ")
    assert message.endswith(" % of their time: it is hot.")


def at_the_gate(crew: _Threads) -> bool:
    worker = next(iter(crew._threads))
    return "opens_a_gate" in crew.cause(Stalled("score", worker, "u000", 0.0))
