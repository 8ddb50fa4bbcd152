"""A model that stops, dies or slows down at rows of the data as it is told, and whoever tells it.

What is told lies in one folder, which every worker looks at in each call:

    traps/stand-45   whoever scores row 45 says so in the pipe `arrived` and waits until the pipe `go-45` is opened
    traps/join-45    the same for whoever copies or reads row 45 for its predictions
    traps/die-45     whoever scores row 45 is killed; so many times as the file says
    pace             seconds that a call takes
    slow             there is one slow worker: the first to see this; it takes so many times longer as the file says
    scored/<process> written by workers: when each unit was begun, and its first row

Scores depend on the rows alone, whatever happens on the way.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fakes.sources import How, JoinedSource

from assay.records import Unit

FOLDER = "traps"


# ---- in a worker -----------------------------------------------------------------------------------------------------


def scores(inputs: Mapping[str, np.ndarray], folder: str, unit_rows: int) -> np.ndarray:
    """Probabilities."""
    row, place = inputs["row"], Path(folder)
    first, last = int(row[0]), int(row[-1])
    if first % unit_rows == 0:
        with (place / "scored" / str(os.getpid())).open("a") as note:
            note.write(f"{time.monotonic()} {first}\n")
    for trap in sorted(os.listdir(place / "traps")):
        kind, _, at = trap.partition("-")
        if kind != "join" and first <= int(at) <= last:
            (_stand if kind == "stand" else _die)(place, at)
    time.sleep(_pace(place))
    return np.asarray(1 / (2 + 0.01 * row))


def raises(inputs: Mapping[str, np.ndarray], first: int, every: int) -> np.ndarray:
    """Probabilities; it cannot score one row in so many."""
    row = inputs["row"]
    if (row % every == first).any():
        raise ValueError(f"no score for one of the rows {row[0]:.0f} to {row[-1]:.0f}")
    return np.asarray(1 / (3 + 0.01 * row))


class StandingSource(JoinedSource):
    """Files beside the folder; whoever joins their rows may have to stand."""

    def before(self, how: How, unit: Unit) -> None:
        place = self._root / FOLDER
        stop = unit.first_row + (unit.num_rows or 0)
        for trap in sorted(os.listdir(place / "traps")):
            kind, _, at = trap.partition("-")
            if kind == "join" and unit.first_row <= int(at) < stop:
                _stand(place, at)


def _stand(place: Path, at: str) -> None:
    with (place / "arrived").open("w") as arrived:
        arrived.write(f"{at} {os.getpid()}\n")
    os.close(os.open(place / f"go-{at}", os.O_RDONLY))


def _die(place: Path, at: str) -> None:
    for number in range(int((place / "traps" / f"die-{at}").read_text())):
        if _is_first(place / f"died-{at}-{number}"):
            os.kill(os.getpid(), signal.SIGKILL)


def _pace(place: Path) -> float:
    pace = float(_read(place / "pace") or 0)
    times = _read(place / "slow")
    if not times:
        return pace
    chosen = place / "slow-one"
    return pace * float(times) if _is_first(chosen) or _read(chosen) == str(os.getpid()) else pace


def _is_first(claim: Path) -> bool:
    """Of all processes one gets True."""
    try:
        with claim.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


# ---- who tells it ----------------------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """A worker stands at a row."""

    row: int
    process: int


class Begun(NamedTuple):
    """A unit was begun."""

    seconds: float  # by the monotonic clock of this machine
    process: int
    row: int


class Traps:
    """The folder, for one scenario after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("traps", "scored"):
            (folder / name).mkdir()
        os.mkfifo(folder / "arrived")
        self._arrived = os.open(folder / "arrived", os.O_RDWR | os.O_NONBLOCK)  # for both: neither blocks nor ends
        self._said = b""
        self._held: dict[int, int] = {}  # row -> pipe, for those who come late

    def set_pace(self, seconds: float, slow: float | None = None) -> None:
        (self.folder / "pace").write_text(str(seconds))
        if slow is not None:
            (self.folder / "slow").write_text(str(slow))

    def stand(self, row: int, *, joining: bool = False) -> None:
        if row in self._held:
            os.close(self._held.pop(row))
        with suppress(FileExistsError):
            os.mkfifo(self.folder / f"go-{row}")
        (self.folder / "traps" / f"{'join' if joining else 'stand'}-{row}").touch()

    def die(self, row: int, times: int) -> None:
        (self.folder / "traps" / f"die-{row}").write_text(str(times))

    def mend(self) -> None:
        """Nobody dies any more."""
        for trap in (self.folder / "traps").glob("die-*"):
            trap.unlink()

    def arrival(self, seconds: float) -> Arrival | None:
        """The next of those that come to a row; None: none so far."""
        if b"\n" not in self._said:
            ready, _, _ = select.select([self._arrived], [], [], seconds)
            self._said += os.read(self._arrived, 4096) if ready else b""
        line, found, rest = self._said.partition(b"\n")
        if not found:
            return None
        self._said = rest
        return Arrival(*map(int, line.split()))

    def open(self, row: int) -> None:
        """Whoever stands at the row goes on, and nobody stops there again."""
        traps = [trap for kind in ("stand", "join") if (trap := self.folder / "traps" / f"{kind}-{row}").exists()]
        if traps:
            traps[0].unlink()
            self._held[row] = os.open(self.folder / f"go-{row}", os.O_RDWR)

    def begun(self) -> list[Begun]:
        """All units that were begun, in order of time."""
        found = []
        for file in (self.folder / "scored").iterdir():
            for line in file.read_text().splitlines():
                seconds, row = line.split()
                found.append(Begun(float(seconds), int(file.name), int(row)))
        return sorted(found)

    def processes(self) -> set[int]:
        """Of all workers that scored."""
        return {int(file.name) for file in (self.folder / "scored").iterdir()}

    @property
    def deaths(self) -> int:
        """How many workers died of a row."""
        return len(list(self.folder.glob("died-*")))

    @property
    def has_slow_one(self) -> bool:
        """A worker is the slow one."""
        return (self.folder / "slow-one").exists()

    def clear(self) -> None:
        """As it was, for the next scenario; all that scored must have ended."""
        for pipe in self._held.values():
            os.close(pipe)
        self._held, self._said = {}, b""
        while self.arrival(0.0) is not None:
            pass
        for file in (*(self.folder / "traps").iterdir(), *(self.folder / "scored").iterdir(), *self.folder.iterdir()):
            if file.name not in ("traps", "scored", "arrived"):
                file.unlink()
