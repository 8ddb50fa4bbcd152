"""Where what variants give is written out and failures are tolerated, only the rows that a variant raises on are left
out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, FakeModel, ScoreSum, read_rows

from assay import scoring
from assay.calls import NeedsRows
from assay.errors import ModelError, PreparationError
from assay.predicted import REASON, key, without_null_lists
from assay.records import Chunk, Rows
from assay.scoring import ScoredUnit, Scorer, Scoring
from assay.spec.others import Taken
from assay.task_scores import Layout

NO = "it raised ValueError: I do not like {0}"


def rows(first: int, stop: int) -> Rows:
    return read_rows(Chunk("rows.parquet", first, pa.table({"x": np.arange(first, stop, dtype=np.float64)})))


def disliking(*values: float, seen: list[list[float]] | None = None) -> Callable[[np.ndarray], np.ndarray]:
    """Gives x in single precision, unless one of the values is among them."""

    def function(x: np.ndarray) -> np.ndarray:
        if seen is not None:
            seen.append(x.tolist())
        for value in values:
            if value in x:
                raise ValueError(f"I do not like {value:g}")
        return x.astype(np.float32)

    return function


def scorer(*models: FakeModel, keeps: bool = True, tolerant: bool = True, **settings: Any) -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, "base")
    return Scorer(Scoring(models, layout, 4, tolerant, keeps=keeps, **settings))


BASE = FakeModel("base", disliking())


def column(scored: ScoredUnit, variant: str, output: str = "main") -> list[Any]:
    assert scored.predicted is not None
    values: list[Any] = scored.predicted.table[key(variant, output)].to_pylist()
    return values


def test_only_rows_that_it_raises_on_have_no_score_but_a_reason() -> None:
    scored = scorer(BASE, FakeModel("b", disliking(2, 5))).score("u1", [rows(0, 7)])
    assert column(scored, "b") == [0, 1, None, 3, 4, None, 6]
    reasons = column(scored, "b", REASON)
    assert [None if one is None else one.partition(" (")[0] for one in reasons] == [
        *(None, None, NO.format(2), None, None, NO.format(5), None)
    ]
    assert scored.failures == ()
    assert scored.partial.receipts[0].failed == ()
    assert scored.partial.receipts[0].deviations == ("variant b: calls were halved, since it raised on some rows",)
    assert scored.predicted is not None
    assert scored.predicted.table.schema.field(key("b", "main")).type == pa.float32()


def test_calls_are_halved_and_those_without_such_rows_are_whole() -> None:
    seen: list[list[float]] = []
    scorer(BASE, FakeModel("b", disliking(2, seen=seen))).score("u1", [rows(0, 8)])
    assert seen == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3], [4, 5, 6, 7]]


def test_the_other_rows_score_as_if_each_had_been_called_with_less() -> None:
    scored = scorer(BASE, FakeModel("b", disliking(6))).score("u1", [rows(0, 4), rows(4, 8)])
    whole = scorer(BASE, FakeModel("b", disliking())).score("u1", [rows(0, 4), rows(4, 8)])
    assert [one for one in column(scored, "b") if one is not None] == [0, 1, 2, 3, 4, 5, 7]
    assert column(whole, "b") == [0, 1, 2, 3, 4, 5, 6, 7]
    assert whole.partial.receipts[0].deviations == ()


def test_a_chunk_of_such_rows_alone_makes_no_other_wider() -> None:
    scored = scorer(BASE, FakeModel("b", disliking(0, 1))).score("u1", [rows(0, 2), rows(2, 4)])
    assert column(scored, "b") == [None, None, 2, 3]
    assert scored.predicted is not None
    assert scored.predicted.table.schema.field(key("b", "main")).type == pa.float32()


@pytest.mark.parametrize(("keeps", "tolerant"), [(False, True), (True, False)])
def test_an_evaluation_and_a_run_that_stops_keep_their_rule(keeps: bool, tolerant: bool) -> None:
    one = scorer(BASE, FakeModel("b", disliking(2)), keeps=keeps, tolerant=tolerant)
    if tolerant:
        assert one.score("u1", [rows(0, 7)]).partial.receipts[0].failed == ("b",)
    else:
        with pytest.raises(ModelError):
            one.score("u1", [rows(0, 7)])


def test_of_one_that_raises_on_too_many_rows_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MOST_DEAD", 3)
    scored = scorer(BASE, FakeModel("b", disliking(0, 1, 2, 5))).score("u1", [rows(0, 8)])
    (failure,) = scored.failures
    assert "It raised on more than 3 rows of the unit, so none of it is kept." in failure.error
    assert scored.predicted is not None
    assert scored.predicted.table.column_names == ["position", key("base", "main")]
    assert scored.partial.receipts[0].deviations == ()
    exactly = scorer(BASE, FakeModel("b", disliking(0, 1, 2))).score("u1", [rows(0, 8)])
    assert exactly.failures == ()


def test_a_model_whose_inputs_cannot_be_prepared_at_once_gets_them_in_pieces() -> None:
    class Picky(FakeModel):
        @property
        def preparation(self) -> str:
            return "picky"

        def prepare(self, table: pa.Table) -> np.ndarray:
            if 5 in table["x"].to_pylist():
                raise ValueError("I do not like 5")
            return super().prepare(table)

    scored = scorer(BASE, Picky("b", disliking())).score("u1", [rows(0, 8)])
    assert column(scored, "b") == [0, 1, 2, 3, 4, None, 6, 7]


@dataclass
class Halving:
    """A preparation that does not like some x."""

    dislikes: float
    name: str = "made"
    columns: tuple[str, ...] = ("x",)
    fingerprint: str = ""
    batch_rows: int = 4
    apart: bool = False
    calls: list[int] = field(default_factory=list)

    def check(self, schema: pa.Schema) -> None: ...

    def load(self) -> Callable[[pa.Table], np.ndarray]:
        def make(table: pa.Table) -> np.ndarray:
            self.calls.append(table.num_rows)
            x: np.ndarray = table["x"].to_numpy()
            if self.dislikes in x:
                raise PreparationError("made", "preparation 'made' does not like it.")
            return x

        return make


@dataclass(frozen=True)
class Whole(FakeModel):
    """Scores what a preparation made."""

    @property
    def preparation(self) -> str:
        return "prepared"

    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, np.ndarray]:
        return {"main": self.function(prepared)}


def test_a_preparation_is_halved_too_and_made_once_for_all() -> None:
    made = Halving(dislikes=1)
    settings: dict[str, Any] = {"preparations": (made,), "made_by": {"b": "made", "c": "made"}}
    one = scorer(BASE, Whole("b", disliking()), Whole("c", disliking(6)), **settings)
    scored = one.score("u1", [rows(0, 8)])
    assert column(scored, "b") == [0, None, 2, 3, 4, 5, 6, 7]
    assert column(scored, "c") == [0, None, 2, 3, 4, 5, None, 7]
    assert column(scored, "b", REASON)[1] == (
        "preparation 'made' does not like it. It was given row 1 of rows.parquet."
    )
    assert made.calls == [4, 2, 1, 1, 2, 4, 2, 2, 1, 1]


def test_what_was_made_apart_is_made_again_where_the_rows_are() -> None:
    given = rows(0, 4)
    given = Rows(
        **{
            **{name: getattr(given, name) for name in Rows.__slots__},
            "prepared": {"made": (PreparationError("made", "no"),)},
        }
    )
    one = scorer(BASE, Whole("b", disliking()), preparations=(Halving(dislikes=1),), made_by={"b": "made"})
    with pytest.raises(NeedsRows):
        one.score("u1", [given])


@dataclass(frozen=True)
class Vectors(FakeModel):
    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, Any]:
        x = self.function(prepared[rows])
        flat = pa.array(np.repeat(x, 2))
        return {"main": x, "vector": pa.FixedSizeListArray.from_arrays(flat, 2)}


@dataclass(frozen=True)
class OfVector(FakeModel):
    @property
    def preparation(self) -> str:
        return "vector"

    def prepare(self, table: pa.Table) -> Any:
        lists = table["vector of variant b"].combine_chunks()
        assert not lists.null_count
        return lists.flatten().to_numpy().reshape(-1, 2)

    def score(self, prepared: Any, rows: slice) -> Mapping[str, Any]:
        return {"main": prepared[rows].sum(axis=1)}


def test_other_outputs_are_null_there_and_whoever_takes_them_gets_nan() -> None:
    kind = pa.list_(pa.float32(), 2)
    settings: dict[str, Any] = {"takes": {"c": (Taken("b", "vector"),)}, "more": {"b": {"vector": kind}}}
    scored = scorer(BASE, OfVector("c", disliking()), Vectors("b", disliking(1)), **settings).score("u1", [rows(0, 3)])
    assert column(scored, "b", "vector") == [[0, 0], None, [2, 2]]
    assert column(scored, "c") == [0, None, 4]
    dead = scorer(BASE, OfVector("c", disliking()), Vectors("b", disliking(0, 1)), **settings)
    scored = dead.score("u1", [rows(0, 2), rows(2, 3)])
    assert column(scored, "b", "vector") == [None, None, [2, 2]]
    assert column(scored, "c") == [None, None, 4]


def test_lists_of_text_and_of_integers_stay_null() -> None:
    lists = pa.array([[1, 2], None], pa.list_(pa.int8(), 2))
    assert without_null_lists(lists).to_pylist() == [[1, 2], None]
    assert str(without_null_lists(pa.array([[1.5], None], pa.list_(pa.float32(), 1))).to_pylist()) == "[[1.5], [nan]]"


def test_variants_of_different_types_for_different_rows_fail() -> None:
    class Changing(Vectors):
        def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, Any]:
            given = dict(super().score(prepared, rows))
            size = 2 if rows.start else 1
            flat = pa.array(np.zeros(size * (rows.stop - rows.start), np.float32))
            return given | {"vector": pa.FixedSizeListArray.from_arrays(flat, size)}

    more = {"b": {"vector": pa.list_(pa.float32(), 1)}}
    (failure,) = scorer(BASE, Changing("b", disliking()), more=more).score("u1", [rows(0, 8)]).failures
    assert failure.error == (
        "outputs: 'vector' is of type fixed_size_list<item: float>[1] for some rows and of type fixed_size_list<item: "
        "float>[2] for others."
    )
