"""Which pieces of the data are prepared ahead of scoring, in bounded memory: pure bookkeeping, no Ray, no clock.

Lives here: what to begin next, what may be had, what is forgotten. Not here: tasks and their results (`preparing.py`).

A piece is what a unit is of the data, whatever its bundle: workers of several bundles take the same prepared piece. It
stays until all of them have scored it. Bytes are measured where a piece is finished; one in the making counts as the
largest so far, and until there is one, a single piece is made. A piece larger than the whole budget is made alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from assay.records import Unit


class Piece(NamedTuple):
    """Rows of one file."""

    path: str
    first_row: int
    num_rows: int | None


def piece_of(unit: Unit) -> Piece:
    return Piece(unit.path, unit.first_row, unit.num_rows)


@dataclass(slots=True)
class _Held:
    num_bytes: int | None = None  # None: in the making


class Shelf:
    """Prepared pieces, and those in the making."""

    def __init__(self, budget_bytes: int, most_making: int) -> None:
        self._budget = budget_bytes
        self._most_making = most_making
        self._held: dict[Piece, _Held] = {}
        self._making = 0
        self._largest: int | None = None
        self._wanted: dict[str, Piece] = {}  # by worker that waits for it: first asked, first made
        self._in_use: dict[str, Collection[Piece]] = {}  # by worker
        self._coming: dict[str, Piece] = {}  # by worker, what it will most likely want next
        self._foreseen: dict[Piece, None] = {}  # in their order
        self._by_hand: set[Piece] = set()  # that tasks failed on: workers prepare them themselves

    def __contains__(self, piece: Piece) -> bool:
        """May it be had, now or once it is made?"""
        return piece in self._held

    @property
    def num_making(self) -> int:
        return self._making

    @property
    def num_bytes(self) -> int:
        """Of all that is held, with an estimate of what is in the making."""
        known = sum(one.num_bytes for one in self._held.values() if one.num_bytes is not None)
        return known + self._making * (self._largest or 0)

    def foresee(self, pieces: Iterable[Piece]) -> None:
        """These will be scored next, in this order."""
        self._foreseen = dict.fromkeys(pieces)

    def want(self, worker: str, piece: Piece) -> None:
        """A worker waits for it."""
        self.leave(worker)
        self._wanted[worker] = piece

    def is_wanted(self, piece: Piece) -> bool:
        """Does a worker wait for it?"""
        return piece in self._wanted.values()

    def is_by_hand(self, piece: Piece) -> bool:
        """Does a worker have to prepare it itself?"""
        return piece in self._by_hand

    def use(self, worker: str, pieces: Collection[Piece], coming: Piece | None = None) -> None:
        """A worker got these, and no others any more."""
        self.leave(worker)
        self._in_use[worker] = pieces
        if coming is not None:
            self._coming[worker] = coming

    def free(self, worker: str) -> None:
        """A worker has what it got no more, and will ask for what is coming."""
        self._in_use.pop(worker, None)

    def leave(self, worker: str) -> None:
        """A worker neither waits nor has anything, nor is anything coming."""
        self._wanted.pop(worker, None)
        self._in_use.pop(worker, None)
        self._coming.pop(worker, None)

    def next(self) -> Piece | None:
        """What is to be made now, if there is room: what a worker waits for, what is coming, then what is foreseen. It
        is begun."""
        wanted, coming = self._wanted.values(), self._coming.values()
        piece = next(self._missing(chain(wanted, coming, self._foreseen)), None)
        if piece is None or self._making >= self._most_making:
            return None
        keep = () if piece in wanted else coming if piece in coming else chain(coming, self._foreseen)
        self._make_room(self._largest or 0, keep)
        if not self._has_room():
            return None
        self._held[piece] = _Held()
        self._making += 1
        return piece

    def finished(self, piece: Piece, num_bytes: int) -> None:
        """It is made, and so large."""
        held = self._held.get(piece)
        if held is not None and held.num_bytes is None:  # or it is not wanted any more
            self._making -= 1
            held.num_bytes = num_bytes
            self._largest = max(num_bytes, self._largest or 0)
        if self.num_bytes > self._budget:
            self._make_room(0)

    def failed(self, piece: Piece) -> None:
        """No task can make it."""
        self.forget(piece)
        self._by_hand.add(piece)

    def forget(self, piece: Piece) -> None:
        """It is scored, or nobody knows of it any more."""
        held = self._held.pop(piece, None)
        if held is not None and held.num_bytes is None:
            self._making -= 1
        self._by_hand.discard(piece)
        self._foreseen.pop(piece, None)
        self._coming = {worker: one for worker, one in self._coming.items() if one != piece}

    def _missing(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        return (piece for piece in pieces if piece not in self._held and piece not in self._by_hand)

    def _has_room(self) -> bool:
        if not self._held:
            return True
        return self._largest is not None and self.num_bytes + self._largest <= self._budget

    def _make_room(self, num_bytes: int, keep: Iterable[Piece] = ()) -> None:
        """For so much: forget what is finished and nobody has or waits for, first what is not foreseen, then what is
        foreseen last."""
        busy = {piece for pieces in self._in_use.values() for piece in pieces} | set(self._wanted.values()) | set(keep)
        place = {piece: number for number, piece in enumerate(chain(self._coming.values(), self._foreseen))}
        idle = [piece for piece, one in self._held.items() if one.num_bytes is not None and piece not in busy]
        for piece in sorted(idle, key=lambda one: place.get(one, len(place)), reverse=True):
            if self.num_bytes + num_bytes <= self._budget or (not num_bytes and len(self._held) == 1):
                return
            del self._held[piece]
