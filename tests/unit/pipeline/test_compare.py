"""Any two variants of a finished run: as a run with one of them as the baseline gives, or with the reason why not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fakes.sweep import WORDS, sweep

from assay.api import evaluate
from assay.errors import RunError
from assay.evaluation import Evaluation

TABLE = sweep()
NUMBERS = ("rows", "difference", "low", "high", "p_value")


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(TABLE, **WORDS)


def test_two_candidates_compare_as_if_one_were_the_baseline(found: Evaluation) -> None:
    other = evaluate(TABLE, **{**WORDS, "baseline": "new1", "gates": []})

    expected = [row for row in other.comparisons.to_pylist() if row["variant"] == "new3"]
    values = {(row["variant"], row["metric"], row["slice"]): row["value"] for row in found.metrics.to_pylist()}
    compared = found.compare("new3", "new1").to_pylist()

    assert [{name: row[name] for name in NUMBERS} for row in compared] == [
        {name: row[name] for name in NUMBERS} for row in expected
    ]
    assert all(row["value"] == values["new3", row["metric"], row["slice"]] for row in compared)
    assert all(row["other_value"] == values["new1", row["metric"], row["slice"]] for row in compared)


def test_the_other_way_round_is_the_negative(found: Evaluation) -> None:
    there, back = (found.compare(*pair).to_pylist() for pair in (("new0", "old"), ("old", "new0")))

    assert [row["difference"] for row in there] == [
        None if row["difference"] is None else -row["difference"] for row in back
    ]
    assert [row["value"] for row in there] == [row["other_value"] for row in back]


def test_only_what_is_asked_for(found: Evaluation) -> None:
    table = found.compare("new0", "new1", metrics=["auc"], slices=["overall", "country=US"])

    assert [(row["metric"], row["slice"]) for row in table.to_pylist()] == [("auc", "overall"), ("auc", "country=US")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("new0", "new9"), r"^There is no variant 'new9' in this run; did you mean 'new\d'\?$"),
        (("new0", "new1", ["acu"]), r"^There is no metric 'acu' in this run; did you mean 'auc'\?$"),
        (
            ("new0", "new1", [], ["country=FR"]),
            r"^There is no slice 'country=FR' in this run; did you mean 'country=..'\?$",
        ),
    ],
)
def test_unknown_names(found: Evaluation, words: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        found.compare(*words)  # type: ignore[arg-type]  # names of several kinds


def test_an_arm_without_data_is_not_comparable() -> None:
    """Two arms that scored other rows: values stand, the difference does not, and nothing is 0."""
    half = np.arange(TABLE.num_rows) % 2 == 0
    scores = {name: pa.array(TABLE[name].to_numpy(), mask=mask) for name, mask in (("new0", half), ("new1", ~half))}
    table = TABLE
    for name, column in scores.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)

    (row,) = evaluate(table, **WORDS).compare("new0", "new1", ["auc"], ["overall"]).to_pylist()

    assert (row["difference"], row["low"], row["p_value"]) == (None, None, None)
    assert row["undefined"] == "row sets differ"
    assert 0.5 < row["value"] < row["other_value"] < 1.0
