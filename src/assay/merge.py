"""Two tallies become one. Merging is associative, commutative and exact, so that no order of it can matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from assay.errors import RunError
from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator
from assay.records import CommittedFile, State, StateKey, Tally
from assay.states import decode

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


def merge_files(
    read: Callable[[str], bytes], files: Sequence[CommittedFile], accumulators: Mapping[str, Accumulator]
) -> Tally:
    """The tally of all committed files. read: digest of a file -> its bytes. RunError as in `fold`, and when a file
    holds other units than the log says."""
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
    return tally


def _mergeable(key: StateKey, accumulators: Mapping[str, Accumulator]) -> _Mergeable:
    found = _LEDGERS.get(key.accumulator) or accumulators.get(key.accumulator)
    if found is None:
        raise RunError(
            f"The run holds a state of {key.accumulator!r} (task {key.task!r}, variant {key.variant!r}), which is not "
            "among the states of its metrics: it was written by another version of assay."
        )
    return found
