"""What the records themselves can do."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from assay.records import Block, ListedPart, PartFile, Predictions
from assay.testing import make_block

BLOCK = make_block([0.1, 0.2, 0.3], [0, 1, 1], weight=[5, 6, 7], slices=[[0, 0, 0], [1, 2, 1]], bucket=[8, 9, 10])
LAST_AND_FIRST = make_block([0.3, 0.1], [1, 0], weight=[7, 5], slices=[[0, 0], [1, 1]], bucket=[10, 8])
FIRST_AND_LAST = make_block([0.1, 0.3], [0, 1], weight=[5, 7], slices=[[0, 0], [1, 1]], bucket=[8, 10])


def same(one: Block, other: Block) -> bool:
    columns = [
        (getattr(one, field.name), getattr(other, field.name)) for field in fields(one) if field.name != "columns"
    ]
    columns += [(one.columns[name], other.columns[name]) for name in one.columns]
    return one.columns.keys() == other.columns.keys() and all(
        ours is theirs or (np.array_equal(ours, theirs) and ours.dtype == theirs.dtype) for ours, theirs in columns
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (np.array([True, False, True]), FIRST_AND_LAST),
        (np.array([0, 2]), FIRST_AND_LAST),
        (np.array([2, 0]), LAST_AND_FIRST),
    ],
)
def test_rows_of_a_block_are_taken_from_every_column(rows: np.ndarray, expected: Block) -> None:
    taken = BLOCK.take(rows)
    assert same(taken, expected)
    assert taken.slices.flags.c_contiguous


def test_all_rows_of_a_block_are_the_block() -> None:
    assert BLOCK.take(np.ones(3, np.bool_)) is BLOCK


def test_a_score_stays_without_probabilities() -> None:
    assert replace(BLOCK, probability=None).take(np.array([0])).probability is None


def test_predictions_are_shown_without_their_files() -> None:
    parts = tuple(ListedPart("u", PartFile(f"part-{number}", 4, 9, "d" * 32)) for number in range(1000))
    columns = (("id", "int64"), ("new", "double"))
    assert repr(Predictions("r", "/runs/x/predictions", "csv", 4000, columns, parts, {"new": 7}, "dead", parts)) == (
        "Predictions(place='/runs/x/predictions', format='csv', rows=4000, columns=(('id', 'int64'), "
        "('new', 'double')), dead={'new': 7}, parts=<1000>)"
    )
