"""Plays one scenario: a run by driver processes on the fake nodes, what is done to it, what must be true afterwards.

Deeds are done while a worker stands at a row, in whatever order workers come to their rows.
"""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos.nodes import GONE, Nodes
from chaos.scenarios import WHILE_JOINING, Do, Scenario
from chaos.stage import Deadline, Driver, Failed, Late, Stage, predictions_of
from chaos.traps import Arrival
from fakes import command, s3
from fakes.states import committed_tally, committed_units

from assay.pipeline.replay import Line, Replay, replay
from assay.states import digest
from assay.store.entries import read_entries
from assay.store.log import read_committed
from assay.store.run import RunDirectory

SECONDS = 480.0
"""A scenario that takes longer has failed."""
DRAIN_SECONDS = 20.0
STOPPED_SECONDS = 8.0
"""Longer than an actor that cannot be reached counts as alive here."""
FULL_BYTES = 2000
"""A state file is larger."""
DEATHS = 4
"""So many make a unit poison."""
LOST = " was lost ("
DRAINED = "is about to lose its machine"
LOSSES: dict[Do, str] = {
    "kill actor": "actor",
    "kill all actors": "actor",
    "lose node": "node",
    "lose two nodes": "node",
    "replace node": "node",
}
"""Deeds after which it is measured how soon the driver knows, and another worker scores."""


@dataclass
class Outcome:
    """What came of a scenario."""

    scenario: Scenario
    fault: str = ""  # a sentence; "" where all is as it must be
    done: tuple[Do, ...] = ()
    identical: bool = False
    seconds: float = 0.0
    losses: int = 0
    drains: int = 0
    copies: int = 0
    drivers: int = 0
    again: int = 0  # units that were begun more than once
    noticed: dict[str, list[float]] = field(default_factory=dict)  # kind of loss -> seconds until the driver knew
    replaced: dict[str, list[float]] = field(default_factory=dict)  # from then until one in its place was ready


class Play:
    """One scenario on the stage."""

    def __init__(self, stage: Stage, nodes: Nodes, proxy: s3.Proxy, scenario: Scenario) -> None:
        self._traps = stage.traps
        self._nodes = nodes
        self._proxy = proxy
        self._scenario = scenario
        self._spec = stage.spec(scenario.kind)
        self._reference = stage.reference(scenario.kind)
        name = "".join(letter if letter.isalnum() else "-" for letter in f"{scenario.name} {scenario.seed}")
        self._place = f"s3://runs/{name}" if scenario.bucket else str(stage.folder / "runs" / name)
        self._deadline = Deadline(SECONDS)
        self._faults_before = len(proxy.faults)
        self._drivers: list[Driver] = []  # the last one carries the run on
        self._pending: dict[int, Do] = {}  # what is still to be done, at which row
        self._done: list[tuple[Do, float]] = []  # what was done, and when
        self._outcome = Outcome(scenario)
        self._deeds: dict[Do, Callable[[Arrival], None]] = {
            "kill actor": self._kill_actor,
            "kill all actors": self._kill_all_actors,
            "stop actor": self._stop_actor,
            "hang actor": self._hang_actor,
            "lose node": self._lose_node,
            "lose two nodes": self._lose_two_nodes,
            "replace node": self._replace_node,
            "freeze node": self._freeze_node,
            "drain node": self._drain_node,
            "drain and take node": self._drain_and_take_node,
            "join node": self._join_node,
            "kill driver": self._kill_driver,
            "kill driver elsewhere": self._kill_driver_elsewhere,
            "interrupt driver": self._interrupt_driver,
            "wake driver": self._wake_driver,
            "start second driver": self._start_second_driver,
            "litter": self._litter,
            "fill disk": self._fill_disk,
            "lose joining node": self._lose_node,
            "drain joining node": self._drain_joining_node,
            "kill joining driver": self._kill_driver,
        }

    def play(self) -> Outcome:
        """Never raises for what the run does: the outcome says what was wrong."""
        self._nodes.restore(self._scenario.nodes)
        try:
            self._run()
            self._check()
        except (Failed, Late) as error:
            self._outcome.fault = self._told(str(error))
        except Exception as error:
            self._outcome.fault = self._told("".join(traceback.format_exception(error)))
        finally:
            self._clear()
        return self._outcome

    def _told(self, fault: str) -> str:
        return f"{fault}. The last driver said: {self._driver.text[-2000:] if self._drivers else ''}"

    # -- the run

    def _run(self) -> None:
        self._set_traps()
        self._proxy.fault = s3.one_in(10) if self._scenario.flaky else no_fault
        started = time.monotonic()
        disguise = "--elsewhere" if self._scenario.elsewhere else None
        self._start("run", self._spec, "--out", self._place, disguise=disguise)
        while self._pending:
            self._deadline.check(f"a worker came to one of the rows {sorted(self._pending)}")
            if self._driver.ended():
                raise Failed(f"The driver ended by itself, with {self._driver.code}")
            arrival = self._traps.arrival(0.05)
            if arrival is None or arrival.row not in self._pending or self._nodes.of(arrival.process) is None:
                continue
            do = self._pending.pop(arrival.row)
            self._done.append((do, time.monotonic()))
            self._deeds[do](arrival)
            self._traps.open(arrival.row)
        self._finish()
        self._outcome.seconds = time.monotonic() - started

    def _set_traps(self) -> None:
        scenario = self._scenario
        self._traps.set_pace(scenario.pace, scenario.slow)
        self._pending = {self._row(deed.at): deed.do for deed in scenario.deeds}
        for row, do in self._pending.items():
            self._traps.stand(row, joining=do in WHILE_JOINING)
        if scenario.deadly is not None:
            self._traps.die(self._row(scenario.deadly), scenario.deaths)

    def _row(self, at: int) -> int:
        """In the middle of the unit that comes as this one."""
        unit = self._reference.units[at]
        return unit.first_row + (unit.num_rows or 0) // 2

    @property
    def _driver(self) -> Driver:
        return self._drivers[-1]

    def _start(self, *words: object, disguise: str | None = None) -> None:
        workers = [] if self._scenario.workers is None else ["--workers", self._scenario.workers]
        cluster = ["--executor", "ray", "--address", self._nodes.address]
        environment = {**s3.environment(self._proxy.port), **self._scenario.environment}
        self._drivers.append(Driver([*words, *workers, *cluster], environment, disguise=disguise))

    def _resume(self, *, patient: bool = False) -> None:
        """By another driver. One that finds no plan yet begins the run again, as a user would."""
        begun = RunDirectory.create(self._place).store.exists("spec.yaml")
        words = ("resume", self._place) if begun else ("run", self._spec, "--out", self._place)
        self._start(*words, disguise="--patient" if patient else None)

    def _finish(self) -> None:
        self._wait(self._driver.ended, "the driver ended")
        if self._scenario.breaks:
            self._must_have_refused(self._driver, self._scenario.breaks)
            self._traps.mend()
            self._resume()
            self._wait(self._driver.ended, "the resumed driver ended")
        if self._driver.code != 0:
            raise Failed(f"The driver ended with {self._driver.code}")

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        self._deadline.wait(until, what)

    def _must_have_refused(self, driver: Driver, words: str) -> None:
        if driver.code == 0 or words not in driver.text:
            raise Failed(f"A driver ended with {driver.code} and not with {words!r}, but: {driver.text[-1000:]}")

    def _must_say(self, words: str, times: int = 1) -> None:
        driver = self._driver
        self._wait(lambda: len(driver.times(words)) >= times or driver.ended(), f"the driver said {words!r}")
        if len(driver.times(words)) < times:
            raise Failed(f"The driver ended without saying {words!r}")

    # -- deeds

    def _kill_actor(self, arrival: Arrival) -> None:
        os.kill(arrival.process, signal.SIGKILL)
        self._wait_for_end(arrival.process)

    def _kill_all_actors(self, arrival: Arrival) -> None:
        for process in filter(lives, self._traps.processes()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._wait_for_end(arrival.process)

    def _stop_actor(self, arrival: Arrival) -> None:
        os.kill(arrival.process, signal.SIGSTOP)
        self._traps.open(arrival.row)
        wakes = time.monotonic() + STOPPED_SECONDS
        self._wait(lambda: time.monotonic() > wakes, "a stopped actor was to go on")
        with suppress(ProcessLookupError):
            os.kill(arrival.process, signal.SIGCONT)

    def _hang_actor(self, arrival: Arrival) -> None:
        os.kill(arrival.process, signal.SIGSTOP)

    def _lose_node(self, arrival: Arrival) -> None:
        self._nodes.lose(self._nodes.of(arrival.process))
        self._wait_for_end(arrival.process)

    def _lose_two_nodes(self, arrival: Arrival) -> None:
        node = self._nodes.of(arrival.process)
        other = next(one for one in self._nodes.alive if one is not node)
        self._nodes.lose(other)
        self._lose_node(arrival)

    def _replace_node(self, arrival: Arrival) -> None:
        self._lose_node(arrival)
        self._nodes.add()

    def _freeze_node(self, arrival: Arrival) -> None:
        """Until the driver has given up its worker, which goes on all the while."""
        node, known = self._nodes.of(arrival.process), len(self._driver.times(LOST))
        self._nodes.freeze(node)
        self._nodes.add()
        self._must_say(LOST, known + 1)
        self._traps.open(arrival.row)
        self._nodes.thaw(node)

    def _drain_node(self, arrival: Arrival) -> None:
        """The node is there until its worker has written what it holds."""
        node = self._nodes.of(arrival.process)
        self._drain(arrival)
        self._traps.open(arrival.row)
        self._wait_for_end(arrival.process)
        self._nodes.lose(node)

    def _drain_and_take_node(self, arrival: Arrival) -> None:
        self._drain(arrival)
        self._lose_node(arrival)

    def _drain(self, arrival: Arrival) -> None:
        known = len(self._driver.times(DRAINED))
        self._nodes.drain(self._nodes.of(arrival.process), DRAIN_SECONDS)
        self._nodes.add()
        self._must_say(DRAINED, known + 1)

    def _drain_joining_node(self, arrival: Arrival) -> None:
        """Nobody waits for a join: what it has not written is done again."""
        node = self._nodes.of(arrival.process)
        self._nodes.drain(node, DRAIN_SECONDS)
        self._nodes.add()
        self._lose_node(arrival)

    def _join_node(self, arrival: Arrival) -> None:
        """Until there scores a worker."""
        before = self._traps.processes()
        self._nodes.add()
        self._wait(lambda: bool(self._traps.processes() - before), "a worker on a new node scored")

    def _kill_driver(self, arrival: Arrival) -> None:
        self._driver.kill()
        self._wait_for_end(*self._traps.processes())
        self._resume()

    def _kill_driver_elsewhere(self, arrival: Arrival) -> None:
        """Nobody here can know that it is dead, until it has been silent for long."""
        self._driver.kill()
        self._wait_for_end(*self._traps.processes())
        self._resume(patient=True)
        self._wait(self._driver.ended, "a driver was refused")
        self._must_have_refused(self._driver, "is being worked on by process 7 on elsewhere, seen ")
        self._drivers.pop()  # refused, it has no part in the run
        self._resume()
        self._resume_once_stale()

    def _resume_once_stale(self) -> None:
        directory = RunDirectory.open(self._place)
        entries = len(read_entries(directory))
        while len(read_entries(directory)) == entries:
            if self._driver.ended():
                self._drivers.pop()
                self._resume()
            self._deadline.check("a driver took over from one that was silent")
            time.sleep(0.1)

    def _interrupt_driver(self, arrival: Arrival) -> None:
        driver = self._driver
        driver.process.send_signal(signal.SIGINT)
        self._must_say("Stopping: units in flight are finished and committed.")
        for row in (arrival.row, *self._pending):
            self._traps.open(row)
        self._wait(driver.ended, "the interrupted driver ended")
        self._forget_committed()
        if driver.code == 4:
            self._resume()
        elif driver.code != 0:  # of a driver that had all that was left in flight
            raise Failed(f"The interrupted driver ended with {driver.code}")

    def _forget_committed(self) -> None:
        """Nobody will come to rows that are done."""
        done = committed_units(self._place)
        self._pending = {row: do for row, do in self._pending.items() if self._reference.unit(row) not in done}
        for row in self._pending:
            self._traps.stand(row)

    def _wake_driver(self, arrival: Arrival) -> None:
        """The first driver sleeps until a second one has taken over and is in the middle of the same unit."""
        first = self._driver
        first.process.send_signal(signal.SIGSTOP)
        self._resume()
        self._resume_once_stale()
        while (second := self._traps.arrival(0.05)) is None or second.process == arrival.process:
            self._deadline.check("a worker of the second driver came to the row")
        first.process.send_signal(signal.SIGCONT)
        self._traps.open(arrival.row)
        self._wait(first.ended, "the first driver stopped")
        self._must_have_refused(first, "has taken over the run at")

    def _start_second_driver(self, arrival: Arrival) -> None:
        first = self._drivers.pop()
        self._resume()
        second = self._driver
        self._wait(second.ended, "the second driver was refused")
        self._drivers.append(first)
        self._must_have_refused(second, "is being worked on by process")

    def _litter(self, arrival: Arrival) -> None:
        """What workers may leave behind: whole state files that nobody committed, and torn ones."""
        store = RunDirectory.open(self._place).store
        for number, file in enumerate(self._reference.files[:6]):
            data = self._reference.directory.read_state(file.file)
            store.put_new(f"states/{file.file}.arrow", data)
            store.put_new(f"states/{number:032x}.arrow", data[: len(data) // 2])

    def _fill_disk(self, arrival: Arrival) -> None:
        """No file of this worker may grow beyond a few bytes from now on: it cannot write its states."""
        known = len(self._driver.times(LOST))
        resource.prlimit(arrival.process, resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES))
        self._traps.open(arrival.row)
        self._must_say(LOST, known + 1)

    def _wait_for_end(self, *processes: int) -> None:
        self._wait(lambda: not any(map(lives, processes)), f"the processes {processes} ended")

    # -- what must be true

    def _check(self) -> None:
        self._proxy.fault = no_fault
        lost = [self._reference.unit(self._row(self._scenario.deadly or 0))] if self._scenario.poisonous else []
        directory = RunDirectory.open(self._place)
        committed, entries = read_committed(directory), read_entries(directory)
        planned = sorted(unit.id for unit in self._reference.units if unit.id not in lost)
        told = replay(self._place)
        self._count(len({entry.driver for entry in entries}), told)
        if committed_units(self._place) != planned or list(committed.lost) != lost:
            raise Failed(f"Not each unit is committed once, or others than {lost} are given up: {committed.lost}")
        self._outcome.identical = digest(committed_tally(self._place)) == self._reference.digest(lost)
        if not self._outcome.identical:
            raise Failed("The states are not those of a local run")
        if not self._scenario.bucket and (wrong := _other(self._reference.predictions, predictions_of(self._place))):
            raise Failed(f"These predictions are not those of a local run: {wrong}")
        if (audit := command.assay("verify", self._place)).code != 0:
            raise Failed(f"assay verify: {audit.out}{audit.err}")
        if not told.same:
            raise Failed(f"The events do not replay: {[part.detail for part in told.parts]}")
        self._must_have_been_disturbed()

    def _must_have_been_disturbed(self) -> None:
        """Nothing is proved by a run that was not."""
        scenario, losses = self._scenario, sum(do in LOSSES for do, _ in self._done)
        copies = 0 if scenario.slow else self._outcome.copies  # of a dead worker's unit, done before the death is known
        if self._outcome.losses + copies < losses:
            raise Failed(
                f"{losses} losses were caused, {self._outcome.losses} noticed, {copies} units of others copied"
            )
        if scenario.flaky and len(self._proxy.faults) == self._faults_before:
            raise Failed("The store did not fail")
        if scenario.slow is not None and not self._traps.has_slow_one:
            raise Failed("No worker was slow")
        if scenario.environment and "RpcFailureManager" not in self._driver.text:
            raise Failed("Ray lost no calls")
        if self._traps.deaths < min(scenario.deaths, DEATHS):
            raise Failed(f"Only {self._traps.deaths} workers died of their rows")

    def _count(self, drivers: int, told: Replay) -> None:
        outcome, begun = self._outcome, self._traps.begun()
        outcome.done = tuple(do for do, _ in self._done)
        outcome.drivers = drivers
        outcome.losses = sum(len(driver.times(LOST)) for driver in self._drivers)
        outcome.drains = sum(len(driver.times(DRAINED)) for driver in self._drivers)
        outcome.copies = sum("scores it too" in line.text for part in told.parts for line in part.lines)
        outcome.again = len(begun) - len({one.row for one in begun})
        heard = sorted(seconds for driver in self._drivers for seconds in driver.times(LOST))
        kinds = {LOSSES.get(do) for do, _ in self._done}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            later = [[one - at for one in heard if one > at] for _, at in self._done]
            outcome.noticed[kind] = [after[0] for after in later if after]
            outcome.replaced[kind] = replacements([line for part in told.parts for line in part.lines])

    # -- the end

    def _clear(self) -> None:
        """No process of this scenario lives on."""
        self._proxy.fault = no_fault
        for driver in self._drivers:
            driver.kill()
        for process in filter(lives, self._traps.processes()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._traps.clear()


def replacements(lines: list[Line]) -> list[float]:
    """How long it took after each loss until the worker that was asked for in its place was ready, where one was."""
    ready = {line.text.split()[1]: line.seconds for line in lines if line.text.endswith(" is ready.")}
    asked: list[tuple[float, str]] = []
    for index, line in enumerate(lines):
        if LOST in line.text:
            names = [after.text.split()[1] for after in lines[index:] if after.text.endswith(" is asked for.")]
            asked += [(line.seconds, name) for name in names[:1]]
    return [ready[name] - seconds for seconds, name in asked if name in ready]


def _other(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Files that are in one of the two alone, or not the same."""
    return sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))


def no_fault(number: int, method: str, path: str) -> None:
    """Of a store that does not fail."""


def lives(process: int) -> bool:
    """A zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in GONE
    except OSError:
        return False
