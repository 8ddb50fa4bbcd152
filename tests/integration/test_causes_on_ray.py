"""Why a run is silent, asked of actors that really hang; and how their devices are."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray
from fakes import hanging
from fakes.small_run import job

import assay.cluster.gauges
from assay.cluster.actors import Actors
from assay.cluster.gauges import Gauges
from assay.gauge import Pulse
from assay.orders import Event, Measured, Score, Stalled, UnitDone, WorkerReady
from assay.probes import NO_ANSWER
from assay.records import Job, Reading

pytestmark = pytest.mark.ray
WAIT = 200.0
"""Seconds after which what should have happened has not."""


@pytest.fixture
def of(tmp_path: Path) -> Job:
    os.mkfifo(tmp_path / "gate")
    return job(tmp_path, {"base": "same"}, num_units=2)


@contextmanager
def crew_of(of: Job, setup) -> Iterator[Actors]:
    crew = Actors(of, setup, 1)
    crew.start("d-1", 0)
    try:
        yield crew
    finally:
        crew.close()


def event(crew: Actors) -> Event:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        for one in crew.wait(1.0):
            if not isinstance(one, Measured):
                return one
    pytest.fail("nothing happened")


def cause(crew: Actors, stalled: Stalled, until: str) -> str:
    deadline = time.monotonic() + WAIT
    said = ""
    while until not in said and time.monotonic() < deadline:
        said = crew.cause(stalled)
    return said


def opened(of: Job) -> None:
    with open(Path(of.base) / "gate", "wb") as pipe:
        pipe.write(b"x")


def test_where_an_actor_hangs_and_that_one_that_is_stopped_does_not_answer(
    ray_address: str, of: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = Stalled("score", "d-1", "u000", 60.0)
    with crew_of(of, hanging.gated) as crew:
        ready = event(crew)
        assert isinstance(ready, WorkerReady)
        assert ready.machine.device != ""
        crew.send(Score("d-1", of.plan.units[0], None, ()))
        assert cause(crew, stalled, "opens_a_gate").startswith("It is in hanging.py, line ")
        monkeypatch.setattr(assay.cluster.gauges, "PROBE_SECONDS", 0.5)
        pid = int((Path(of.base) / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        assert crew.cause(stalled) == NO_ANSWER
        os.kill(pid, signal.SIGCONT)
        opened(of)
        assert isinstance(event(crew), UnitDone)


def test_where_an_actor_hangs_that_loads(ray_address: str, of: Job) -> None:
    with crew_of(of, hanging.slow_to_load) as crew:
        said = cause(crew, Stalled("start", "d-1", None, 60.0), "opens_a_gate")
        opened(of)
        assert isinstance(event(crew), WorkerReady)
        assert said.startswith("It is in hanging.py, line ")
        storage = crew.cause(Stalled("flush", "d-1", None, 60.0))
        assert storage.startswith("The store of the run answers in 0.")


@ray.remote(num_cpus=0)
class _Hot:
    def __init__(self, speed: float) -> None:
        self._speed = speed

    def pulse(self) -> Pulse:
        return Pulse(self._speed, "it is hot", Reading(), 0.0)


def test_speeds_are_asked_in_turn_and_told_when_they_have_changed(
    ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assay.cluster.gauges, "MOST_ASKED", 1)
    actors = {"d-1": _Hot.remote(0.5), "d-2": _Hot.remote(0.7), "d-3": _Hot.remote(1.0)}
    gauges, heard = Gauges(), list[Event]()
    for _ in range(6):
        heard += gauges.turn(actors)
        ray.wait(list(gauges._asked.values()), num_returns=len(gauges._asked), timeout=WAIT)
    assert heard == [Measured("d-1", 0.5, "it is hot"), Measured("d-2", 0.7, "it is hot")]
    gauges.forget("d-1")
    for actor in actors.values():
        ray.kill(actor)
    assert gauges.turn({}) == []
