"""Variants that take what others give of the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, FakeModel, ScoreSum, read_rows

from assay.errors import ModelError
from assay.received import Inputs
from assay.records import Chunk, Rows, StateKey
from assay.scoring import ScoredUnit, Scorer, Scoring
from assay.spec.model import OutputKind
from assay.spec.others import Taken
from assay.task_scores import Layout


def rows(first: int, stop: int) -> Rows:
    return read_rows(Chunk("rows.parquet", first, pa.table({"x": np.arange(first, stop, dtype=np.float64)})))


def same(x: np.ndarray) -> np.ndarray:
    return x


def breaking(x: np.ndarray) -> np.ndarray:
    """At 6."""
    if 6 in x:
        raise ModelError("broken", "the output is too short.")
    return x


@dataclass(frozen=True)
class Doubling(FakeModel):
    """Twice what the variant `first` gave."""

    @property
    def preparation(self) -> str:
        return f"first for {self.name}"

    def prepare(self, table: pa.Table) -> np.ndarray:
        given: np.ndarray = table["main of variant first"].to_numpy()
        return given * 2


def taking(*models: FakeModel, baseline: str = "base", tolerant: bool = True, **takers: str) -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, baseline)
    takes = {name: (Taken(other, "main"),) for name, other in takers.items()}
    return Scorer(Scoring(models, layout, 4, tolerant, takes=takes))


def sums(scored: ScoredUnit, variant: str) -> float:
    """Of all rows."""
    state = scored.partial.states[StateKey("main", variant, ScoreSum.identity, "scored")]
    return float(state["sum"][0].sum() / 256)


@pytest.mark.parametrize("baseline", ["base", "last", "first"])
def test_what_others_take_is_scored_first_wherever_they_stand(baseline: str) -> None:
    models = (Doubling("last", same), FakeModel("base", same), FakeModel("first", lambda x: x + 1))
    scored = taking(*models, baseline=baseline, last="first").score("u1", [rows(0, 5), rows(5, 9)])
    assert [sums(scored, name) for name in ("base", "first", "last")] == [36, 45, 90]
    corrections = [key for key in scored.partial.states if key.part != "scored"]
    assert corrections == []


def test_a_missing_score_is_a_missing_input() -> None:
    models = (FakeModel("base", same), FakeModel("first", lambda x: np.where(x == 2, np.nan, x)))
    seen: list[str] = []
    last = Doubling("last", lambda x: (seen.append(str(x)), np.nan_to_num(x, nan=100.0))[1])
    scored = taking(*models, last, last="first").score("u1", [rows(0, 4)])
    assert seen == ["[ 0.  2. nan  6.]"]
    assert (sums(scored, "first"), sums(scored, "last")) == (4, 108)


def test_what_others_take_comes_to_rows_without_columns_of_their_own() -> None:
    """As they come from a preparation's task, where no model reads the data: without a length too."""
    inputs = Inputs(replace(rows(0, 4), table=pa.table({})))
    inputs.add("main of variant first", pa.array([1.0, 2.0, 3.0, 4.0]))
    inputs.add("main of variant second", pa.array([5.0, 6.0, 7.0, 8.0]))
    assert inputs.rows.table.to_pydict() == {
        "main of variant first": [1.0, 2.0, 3.0, 4.0],
        "main of variant second": [5.0, 6.0, 7.0, 8.0],
    }


def test_where_it_fails_so_does_who_takes_it_and_says_why() -> None:
    models = (FakeModel("base", same), FakeModel("first", breaking), Doubling("last", same))
    scored = taking(*models, last="first").score("u1", [rows(0, 4), rows(4, 8)])
    errors = {one.variant: one.error for one in scored.failures}
    said = "the output is too short. It was given rows 4 to 7 of rows.parquet."
    assert errors == {"first": said, "last": f"it takes what variant 'first' gives, which failed on this unit: {said}"}


def test_a_baseline_that_takes_from_a_model_that_cannot_load_is_refused() -> None:
    broken = FakeModel("first", same, load_error=ModelError("first", "it is torn."))
    with pytest.raises(ModelError) as raised:
        taking(Doubling("last", same), broken, baseline="last", last="first")
    assert str(raised.value) == (
        "Variant 'first': it is torn. The baseline 'last' takes from it: nothing could be compared."
    )


def test_a_later_bundle_leaves_what_the_baseline_takes_from_to_the_first() -> None:
    models = (Doubling("last", same), FakeModel("first", breaking), FakeModel("own", same))
    outputs: dict[tuple[str, str], OutputKind] = {("main", one.name): "score" for one in models}
    later = Layout(outputs, {"main": (ScoreSum(),)}, SIZES, "last", leads=False, beside=frozenset({"first"}))
    one = Scorer(Scoring(models, later, 4, True, takes={"last": (Taken("first", "main"),)}))
    scored = one.score("u1", [rows(0, 4)])
    assert {key.variant for key in scored.partial.states} == {"own"}
    assert [one.variant for one in one.score("u2", [rows(4, 8)]).failures] == ["own"]
