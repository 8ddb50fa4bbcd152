"""Two tallies become one. Merging is associative, commutative and exact, so that no order of it can matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from assay.errors import RunError
from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator
from assay.records import CommittedFile, State, StateKey, Tally
from assay.states import decode, digest, num_bytes

EMPTY = Tally((), {})
"""The tally of no unit."""


class _Mergeable(Protocol):
    def merge(self, left: State, right: State) -> State: ...


_LEDGERS: Mapping[str, _Mergeable] = {ledger.identity: ledger for ledger in (TaskLedger(), VariantLedger())}


def fold(left: Tally, right: Tally, accumulators: Mapping[str, Accumulator]) -> Tally:
    """Both tallies in a new one; the arguments are left untouched, but the result may share arrays with them.

    accumulators: identity -> accumulator, for every identity but the ledgers'. RunError when a unit is in both, or a
    state is of an accumulator that this run does not have.
    """
    twice = {receipt.unit for receipt in left.receipts} & {receipt.unit for receipt in right.receipts}
    if twice:
        raise RunError(f"Unit {min(twice)} is in two tallies that are to be merged: its rows would count twice.")
    states = {**left.states, **right.states}
    for key in left.states.keys() & right.states.keys():
        states[key] = _mergeable(key, accumulators).merge(left.states[key], right.states[key])
    receipts = sorted(left.receipts + right.receipts, key=lambda receipt: receipt.unit)
    return Tally(tuple(receipts), states)


class Pile:
    """A tally in the making: few tallies, each at least twice as large as the next, as the digits of a binary counter.

    So an entry of a state that grows with the rows, as an exact ranking's, is copied a logarithmic number of times and
    not once for each unit, and all tallies together take at most twice the memory of the largest. States of one size
    are folded at once, since a second tally of that size is not half of the first.
    """

    def __init__(self, accumulators: Mapping[str, Accumulator]) -> None:
        """accumulators: as for `fold`."""
        self._accumulators = accumulators
        self._tallies: list[Tally] = []

    def add(self, tally: Tally) -> None:
        """RunError as in `fold`, where that must be done."""
        self._tallies.append(tally)
        while len(self._tallies) > 1 and _num_bytes(self._tallies[-2]) < 2 * _num_bytes(self._tallies[-1]):
            self._fold_last()

    def tally(self) -> Tally:
        """All that was added. RunError as in `fold`."""
        while len(self._tallies) > 1:
            self._fold_last()
        return self._tallies[0] if self._tallies else EMPTY

    def clear(self) -> None:
        self._tallies.clear()

    def _fold_last(self) -> None:
        last = self._tallies.pop()
        self._tallies[-1] = fold(self._tallies[-1], last, self._accumulators)


def merge_files(
    read: Callable[[str], bytes], files: Sequence[CommittedFile], accumulators: Mapping[str, Accumulator]
) -> Tally:
    """The tally of all committed files. read: digest of a file -> its bytes, asked for in their order. RunError as in
    `fold`, and when a file holds other units than the log says, or is not what its name says."""
    if len(files) > 1:
        middle = len(files) // 2
        left, right = (merge_files(read, part, accumulators) for part in (files[:middle], files[middle:]))
        return fold(left, right, accumulators)
    return _read(read, files[0]) if files else EMPTY


def _read(read: Callable[[str], bytes], file: CommittedFile) -> Tally:
    tally = decode(read(file.file))
    if tally.receipts != file.receipts:
        raise RunError(
            f"states/{file.file}.arrow holds {len(tally.receipts)} units that are not the {len(file.receipts)} of its "
            "commit: the run cannot be trusted."
        )
    if digest(tally) != file.file:
        raise RunError(f"states/{file.file}.arrow is not what its name says: it was altered, do not trust the run.")
    return tally


def _num_bytes(tally: Tally) -> int:
    return sum(num_bytes(state) for state in tally.states.values())


def _mergeable(key: StateKey, accumulators: Mapping[str, Accumulator]) -> _Mergeable:
    found = _LEDGERS.get(key.accumulator) or accumulators.get(key.accumulator)
    if found is None:
        raise RunError(
            f"The run holds a state of {key.accumulator!r} (task {key.task!r}, variant {key.variant!r}), which is not "
            "among the states of its metrics: it was written by another version of assay."
        )
    return found
