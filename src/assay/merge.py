"""Two tallies become one. Merging is associative, commutative and exact, so that no order of it can matter.

Lives here too: taking the states of some variants out of committed files, which are checked as they are read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, Protocol

from assay.errors import RunError
from assay.ledgers import TaskLedger, VariantLedger
from assay.protocols import Accumulator, Reduction
from assay.records import CommittedFile, State, StateKey, Tally
from assay.states import StateFile, num_bytes, receipts_json

EMPTY = Tally((), {})
"""The tally of no unit."""
READERS = 2
"""Files of which states are read at once: while one is decoded, the next may come."""

Open = Callable[[str], Any]
"""A file's name -> what Arrow opens, bytes or a file (Any: Arrow has no type for that)."""


class _Mergeable(Protocol):
    def merge(self, left: State, right: State) -> State: ...


_LEDGERS: Mapping[str, _Mergeable] = {ledger.identity: ledger for ledger in (TaskLedger(), VariantLedger())}
LEDGERS = frozenset(_LEDGERS)


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


def piled(tallies: Iterable[Tally], accumulators: Mapping[str, Accumulator]) -> Tally:
    """All of them in one, of which few are in memory at a time. RunError as in `fold`."""
    pile = Pile(accumulators)
    for tally in tallies:
        pile.add(tally)
    return pile.tally()


# ---- of committed files ----------------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A state file as a commit lists it, without its receipts: there may be many, and many read it."""

    file: str  # its name, the digest of the tally it holds
    num_units: int
    receipts: str  # digest of them


class Among(NamedTuple):
    """What states there may be in a run."""

    tasks: frozenset[str]
    variants: frozenset[str]


def listed(files: Iterable[CommittedFile]) -> tuple[Listed, ...]:
    """RunError when a unit is in two files."""
    files = tuple(files)
    counts = Counter(receipt.unit for file in files for receipt in file.receipts)
    twice = [unit for unit, times in counts.items() if times > 1]
    if twice:
        raise RunError(f"Unit {min(twice)} is in two state files that are to be merged: its rows would count twice.")
    return tuple(Listed(file.file, len(file.receipts), _digest(receipts_json(file.receipts))) for file in files)


def open_file(opened: Open, file: Listed) -> StateFile:
    """The file of that name, of which nothing but the head was read.

    RunError when it is missing, is not what its name says, or holds other units than the log says.
    """
    found = StateFile(opened(file.file), f"states/{file.file}.arrow")
    if _digest(receipts_json(found.receipts)) != file.receipts:
        raise RunError(
            f"states/{file.file}.arrow holds {len(found.receipts)} units that are not the {file.num_units} of its "
            "commit: the run cannot be trusted."
        )
    if found.name != file.file:
        raise RunError(f"states/{file.file}.arrow is not what its name says: it was altered, do not trust the run.")
    return found


def read_variants(opened: Open, files: Sequence[Listed], wanted: Collection[str], among: Among) -> Iterator[Tally]:
    """From each file the states of these variants, without receipts, in the order of the files; two are read at once.

    Each file's head and all that is taken out of it are checked. RunError as in `open_file`, when a part was altered,
    and when a file holds states of a task or variant that the run does not have.
    """

    def taken(file: Listed) -> Tally:
        found = open_file(opened, file)
        for group in found.groups:
            if group.task not in among.tasks or (group.variant and group.variant not in among.variants):
                raise RunError(
                    f"states/{file.file}.arrow holds states of variant {group.variant!r} in task {group.task!r}, which "
                    "the run does not have: the run cannot be trusted."
                )
        return Tally((), found.tally(wanted).states)

    return at_once(taken, files, READERS)


def at_once(function: Callable[[Any], Any], items: Iterable[Any], number: int) -> Iterator[Any]:
    """function(item) of each item in order (Any: what both are is the caller's), so many computed at a time in threads.

    No more than these few results wait to be taken.
    """
    remaining = iter(items)
    with ThreadPoolExecutor(number) as pool:
        waiting = [pool.submit(function, item) for item in islice(remaining, number)]
        while waiting:
            result = waiting.pop(0).result()
            waiting += [pool.submit(function, item) for item in islice(remaining, 1)]
            yield result
            del result


def reduced_here(reduction: Reduction, trees: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """See Executor.reduce; in this process, one tree after the other (Any: as there).

    While one is concluded the states of the next are read, so that those of two trees are in memory.
    """

    def folded(leaves: Sequence[Any]) -> tuple[Any, Any]:
        return leaves[0], reduction.fold([reduction.read(leaf) for leaf in leaves])

    for leaf, part in at_once(folded, trees, 1):
        yield reduction.conclude(leaf, part)
        del part


def merge_files(opened: Open, files: Sequence[CommittedFile], accumulators: Mapping[str, Accumulator]) -> Tally:
    """The tally of all committed files, whole. RunError as in `listed`, `open_file`, `StateFile.tally` and `fold`."""
    return piled((open_file(opened, file).tally() for file in listed(files)), accumulators)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
