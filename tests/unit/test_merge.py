"""Tallies merge exactly, in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fakes.small_run import ACCUMULATORS

from assay.errors import RunError
from assay.merge import EMPTY, Pile, fold, merge_files
from assay.records import CommittedFile, Receipt, State, StateKey, Tally
from assay.states import digest, encode

A = StateKey("main", "a", "score_sum.v1", "scored")
B = StateKey("main", "b", "score_sum.v1", "scored")


def tally(unit: str, **sums: int) -> Tally:
    keys = {"a": A, "b": B}
    return Tally(
        (Receipt(unit, 10, f"of {unit}"),), {keys[name]: {"sum": np.array([[value]])} for name, value in sums.items()}
    )


def test_states_of_the_same_key_are_added_and_others_kept() -> None:
    both = fold(tally("u2", a=5), tally("u1", a=7, b=1), ACCUMULATORS)
    assert [receipt.unit for receipt in both.receipts] == ["u1", "u2"]
    assert (both.states[A]["sum"], both.states[B]["sum"]) == (12, 1)


def test_arguments_are_left_untouched() -> None:
    left, right = tally("u1", a=1), tally("u2", a=2)
    fold(left, right, ACCUMULATORS)
    assert (left.states[A]["sum"], right.states[A]["sum"]) == (1, 2)


def test_no_order_and_no_grouping_matters() -> None:
    parts = [tally("u1", a=1), tally("u2", a=2, b=7), tally("u3", b=5)]
    left = {digest(fold(fold(x, y, ACCUMULATORS), z, ACCUMULATORS)) for x, y, z in itertools.permutations(parts)}
    right = {digest(fold(x, fold(y, z, ACCUMULATORS), ACCUMULATORS)) for x, y, z in itertools.permutations(parts)}
    assert len(left | right) == 1


def test_the_empty_tally_is_neutral() -> None:
    assert digest(fold(EMPTY, tally("u1", a=1), ACCUMULATORS)) == digest(tally("u1", a=1))


def test_a_unit_in_both_is_refused() -> None:
    sentence = "Unit u1 is in two tallies that are to be merged: its rows would count twice."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        fold(tally("u1", a=1), tally("u1", a=1), ACCUMULATORS)


def test_a_state_of_an_unknown_accumulator_is_refused() -> None:
    sentence = (
        "The run holds a state of 'score_sum.v1' \\(task 'main', variant 'a'\\), which is not among the states of its "
        "metrics: it was written by another version of assay."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"):
        fold(tally("u1", a=1), tally("u2", a=1), {})


class Entries:
    """A state that grows with the units, one row an entry; counts what merging copies."""

    def __init__(self) -> None:
        self.copied = 0

    def merge(self, left: State, right: State) -> State:
        merged = np.sort(np.concatenate([left["sum"], right["sum"]], axis=1))
        self.copied += merged.size
        return {"sum": merged}


@pytest.mark.parametrize("number", [1, 2, 7, 64, 100])
def test_a_pile_holds_all_that_was_added(number: int) -> None:
    pile = Pile(ACCUMULATORS)
    for unit in range(number):
        pile.add(tally(f"u{unit:03d}", a=unit))
    assert pile.tally().states[A]["sum"] == sum(range(number))
    assert len(pile.tally().receipts) == number
    pile.clear()
    assert pile.tally() == EMPTY


def test_a_pile_copies_an_entry_as_often_as_the_logarithm_of_units() -> None:
    entries = Entries()
    pile = Pile({"score_sum.v1": entries})
    for unit in range(64):
        pile.add(tally(f"u{unit:02d}", a=unit))
        largest = max(len(one.receipts) for one in pile._tallies)
        assert sum(len(one.receipts) for one in pile._tallies) < 2 * largest
    assert pile.tally().states[A]["sum"].tolist() == [list(range(64))]
    assert entries.copied == 64 * 6


def test_a_pile_of_states_of_one_size_is_one_tally() -> None:
    pile = Pile(ACCUMULATORS)
    for unit in range(5):
        pile.add(tally(f"u{unit}", a=unit))
        assert len(pile._tallies) == 1


def test_files_are_merged_whatever_their_number() -> None:
    parts = [tally(f"u{number}", a=number) for number in range(7)]
    objects = {digest(part): encode(part) for part in parts}
    files = [CommittedFile(digest(part), part.receipts) for part in parts]
    assert merge_files(objects.__getitem__, files, ACCUMULATORS).states[A]["sum"] == 21
    assert merge_files(objects.__getitem__, files[:1], ACCUMULATORS).states[A]["sum"] == 0
    assert merge_files(objects.__getitem__, [], ACCUMULATORS) == EMPTY


def test_a_file_that_holds_other_units_than_its_commit_says_is_refused() -> None:
    part = tally("u1", a=1)
    sentence = "states/abc.arrow holds 1 units that are not the 0 of its commit: the run cannot be trusted."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        merge_files(lambda _: encode(part), [CommittedFile("abc", ())], ACCUMULATORS)


def test_a_file_that_is_not_what_its_name_says_is_refused() -> None:
    part = tally("u1", a=1)
    sentence = "states/abc.arrow is not what its name says: it was altered, do not trust the run."
    with pytest.raises(RunError, match=f"^{sentence}$"):
        merge_files(lambda _: encode(part), [CommittedFile("abc", part.receipts)], ACCUMULATORS)
