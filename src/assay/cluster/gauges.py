"""Asks actors how their devices are, and one that is silent what it does.

Lives here: the questions, none of which is waited for longer than a probe may take. Not here: what an actor answers
(`gauge.py`, `probes.py`), what follows from a speed (`roster.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from assay.cluster.connect import first_line
from assay.cluster.results import Reference
from assay.errors import RunError
from assay.gauge import Pulse, Told
from assay.orders import Event
from assay.probes import PROBE_SECONDS, Answer, Whereabouts

MOST_ASKED = 500
"""Actors that are asked at once: the rest of a large fleet has its turn later, so that scoring comes first."""

Actor = Any  # an actor handle; Ray makes its methods when the class is decorated


class Gauges:
    """Of one crew."""

    def __init__(self) -> None:
        self._told = Told()
        self._asked: dict[str, Reference] = {}  # to the answer, by incarnation
        self._turns: dict[str, int] = {}  # when it was last asked
        self._turn = 0

    def turn(self, actors: Mapping[str, Actor]) -> list[Event]:
        """What those say that were asked the last time; others are asked now. Waits for nobody."""
        events = self._heard(actors)
        self._turn += 1
        free = sorted((name for name in actors if name not in self._asked), key=lambda name: self._turns.get(name, 0))
        for name in free[:MOST_ASKED]:
            self._turns[name] = self._turn
            self._asked[name] = actors[name].pulse.remote()
        return events

    def forget(self, incarnation: str) -> None:
        """It has ended."""
        self._told.forget(incarnation)
        self._asked.pop(incarnation, None)
        self._turns.pop(incarnation, None)

    def _heard(self, actors: Mapping[str, Actor]) -> list[Event]:
        names = {call: name for name, call in self._asked.items()}
        ready, _ = ray.wait(list(names), num_returns=len(names), timeout=0) if names else ([], [])
        events: list[Event] = []
        for call in ready:
            del self._asked[names[call]]
            try:
                pulse: Pulse = ray.get(call)
            except RayError:  # it is lost, which others will notice
                continue
            if names[call] in actors:
                events += self._told.changes(names[call], pulse)
        return events


def whereabouts(actor: Actor) -> Answer[Whereabouts]:
    """What an actor does just now."""
    started = time.monotonic()
    try:
        value: Whereabouts = ray.get(actor.where.remote(), timeout=PROBE_SECONDS)
    except GetTimeoutError:
        return Answer(None, None, None)
    except RayError as error:
        return Answer(None, RunError(first_line(error)), time.monotonic() - started)
    return Answer(value, None, time.monotonic() - started)
