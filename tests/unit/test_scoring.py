"""All variants score one unit; some fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, FakeModel, ScoreSum, read_rows

from assay.errors import DataError, ModelError
from assay.records import Chunk, Failure, Receipt, Rows, StateKey
from assay.scoring import Scorer, Scoring, micro_batches
from assay.task_scores import Layout


def rows(first: int, stop: int) -> Rows:
    return read_rows(Chunk("rows.parquet", first, pa.table({"x": np.arange(first, stop, dtype=np.float64)})))


def scorer(*models: FakeModel, tolerant: bool = False, baseline: str | None = "base") -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, baseline)
    return Scorer(Scoring(models, layout, micro_batch=4, tolerant=tolerant))


def same(x: np.ndarray) -> np.ndarray:
    return x


def raising(error: BaseException) -> Callable[[np.ndarray], np.ndarray]:
    def function(x: np.ndarray) -> np.ndarray:
        raise error

    return function


def breaking_at(position: int) -> Callable[[np.ndarray], np.ndarray]:
    def function(x: np.ndarray) -> np.ndarray:
        if position in x:
            raise ModelError("broken", "the output is too short.")
        return x

    return function


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_batches_are_cut_at_original_positions_whatever_was_filtered() -> None:
    of = rows(8, 20)
    kept = np.array([8, 9, 12, 18, 19])
    filtered = Rows(**{**{name: getattr(of, name) for name in Rows.__slots__}, "positions": kept})
    cuts = micro_batches(filtered, 4)
    assert [kept[cut].tolist() for cut in cuts] == [[8, 9], [12], [18, 19]]


def test_no_rows_no_batches() -> None:
    assert micro_batches(rows(8, 8), 4) == []


def test_a_model_gets_batches_or_the_whole_chunk() -> None:
    seen: dict[str, list[int]] = {"base": [], "whole": []}

    def noting(name: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: (seen[name].append(len(x)), x)[1]

    scorer(FakeModel("base", noting("base")), FakeModel("whole", noting("whole"), batch_rows=None)).score(
        "u1", [rows(0, 10), rows(10, 13)]
    )
    assert seen == {"base": [4, 4, 2, 3], "whole": [10, 3]}


def test_inputs_are_prepared_once_for_all_models_that_receive_the_same() -> None:
    prepared = []

    class Preparing(FakeModel):
        def prepare(self, table):
            prepared.append(self.name)
            return super().prepare(table)

    scorer(Preparing("base", same), Preparing("other", same)).score("u1", [rows(0, 10), rows(10, 20)])
    assert prepared == ["base", "base"]


def test_a_model_is_not_called_without_rows() -> None:
    scored = scorer(FakeModel("base", raising(ValueError("called")))).score("u1", [rows(0, 0)])
    assert scored.partial.receipts[0].rows == 0


def test_each_variant_is_loaded_once() -> None:
    loads = []

    class Counting(FakeModel):
        def load(self):
            loads.append(self.name)
            return super().load()

    one = scorer(Counting("other", same), Counting("base", same))
    one.score("u1", [rows(0, 10)])
    one.score("u2", [rows(10, 20)])
    assert loads == ["base", "other"]


# ---- what a unit gives -----------------------------------------------------------------------------------------------


def test_a_unit_alone_gives_what_it_gives_after_others() -> None:
    one = scorer(FakeModel("base", same), FakeModel("other", same))
    one.score("u1", [rows(0, 10)])
    after = one.score("u2", [rows(10, 20)]).partial
    alone = scorer(FakeModel("base", same), FakeModel("other", same)).score("u2", [rows(10, 20)]).partial
    assert after.receipts == alone.receipts


def test_the_receipt_covers_the_unit_its_rows_and_its_states() -> None:
    digests = [
        scorer(FakeModel("base", same)).score("u1", [rows(0, 10)]).partial.receipts[0],
        scorer(FakeModel("base", same)).score("u2", [rows(0, 10)]).partial.receipts[0],
        scorer(FakeModel("base", lambda x: x + 1)).score("u1", [rows(0, 10)]).partial.receipts[0],
    ]
    assert [one.rows for one in digests] == [10, 10, 10]
    assert len({one.digest for one in digests}) == 3


def test_chunks_do_not_matter_to_a_model_that_scores_row_by_row() -> None:
    whole = scorer(FakeModel("base", same)).score("u1", [rows(0, 20)])
    parts = scorer(FakeModel("base", same)).score("u1", [rows(0, 12), rows(12, 20)])
    assert whole.partial.receipts == parts.partial.receipts


# ---- failures --------------------------------------------------------------------------------------------------------


def test_all_that_failed_on_the_unit_is_reported_together() -> None:
    one = scorer(
        FakeModel("base", same),
        FakeModel("broken", breaking_at(13)),
        FakeModel("unloaded", same, load_error=ModelError("unloaded", "there is no file m.txt.")),
    )
    with pytest.raises(ModelError) as caught:
        one.score("u1", [rows(0, 10), rows(10, 20)])
    assert str(caught.value) == (
        "Variant 'unloaded': there is no file m.txt.\n"
        "Variant 'broken': the output is too short. It was given rows 10 to 13 of rows.parquet."
    )


def test_whatever_a_model_raises_names_the_variant_and_the_place() -> None:
    with pytest.raises(ModelError) as caught:
        scorer(FakeModel("base", raising(ZeroDivisionError("division by zero")))).score("u1", [rows(0, 10)])
    place = raising.__code__.co_firstlineno + 2
    assert str(caught.value) == (
        f"Variant 'base': it raised ZeroDivisionError: division by zero ({__file__}, line {place}). "
        "It was given rows 0 to 3 of rows.parquet."
    )


def test_a_fault_in_the_data_is_no_fault_of_a_model() -> None:
    error = DataError("rows.parquet changed since it was planned.")

    def chunks():
        raise error
        yield

    with pytest.raises(DataError, match=r"^rows.parquet changed since it was planned.$"):
        scorer(FakeModel("base", same), tolerant=True).score("u1", chunks())


def test_where_it_is_tolerated_the_others_go_on() -> None:
    one = scorer(FakeModel("base", same), FakeModel("broken", breaking_at(13)), FakeModel("fine", same), tolerant=True)
    scored = one.score("u1", [rows(0, 10), rows(10, 20)])
    [receipt] = scored.partial.receipts
    assert receipt == Receipt("u1", 20, receipt.digest, ("broken",))
    sentence = "the output is too short. It was given rows 10 to 13 of rows.parquet."
    assert scored.failures == (Failure("u1", "broken", sentence, 20),)
    sums = {key[1:]: state["sum"][0].sum() / 256 for key, state in scored.partial.states.items() if "sum" in state}
    assert sums == {
        ("base", "score_sum.v1", "scored", ""): 190,
        ("fine", "score_sum.v1", "scored", ""): 190,
        ("broken", "score_sum.v1", "baseline_only", ""): 190,
    }


def test_a_variant_that_failed_is_tried_again_on_the_next_unit() -> None:
    one = scorer(FakeModel("base", same), FakeModel("broken", breaking_at(13)), tolerant=True)
    assert one.score("u1", [rows(10, 20)]).failures
    assert not one.score("u2", [rows(20, 30)]).failures


def test_no_variant_counts_where_the_baseline_failed() -> None:
    one = scorer(FakeModel("base", breaking_at(3)), FakeModel("other", same), tolerant=True)
    scored = one.score("u1", [rows(0, 10)])
    assert scored.partial.receipts[0].failed == ("base", "other")
    assert [failure.error for failure in scored.failures] == [
        "the output is too short. It was given rows 0 to 3 of rows.parquet.",
        "the baseline 'base' failed on this unit, so no variant counts on it.",
    ]
    assert StateKey("main", "other", "score_sum.v1", "scored") not in scored.partial.states


def test_a_baseline_that_cannot_load_ends_a_tolerant_run_too() -> None:
    base = FakeModel("base", same, load_error=FileNotFoundError("no m.txt"))
    with pytest.raises(ModelError) as caught:
        scorer(base, FakeModel("other", same), tolerant=True)
    assert str(caught.value).startswith("Variant 'base': loading it raised FileNotFoundError: no m.txt (")
    assert str(caught.value).endswith(" It is the baseline: nothing could be compared.")


def test_without_a_baseline_nothing_is_corrected() -> None:
    one = scorer(FakeModel("a", lambda x: x * np.nan), FakeModel("b", same), baseline=None)
    parts = {key.part for key in one.score("u1", [rows(0, 10)]).partial.states}
    assert parts == {"scored"}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), BaseException("panic")])
def test_a_model_that_ends_its_process_is_a_model_that_fails(error: BaseException) -> None:
    with pytest.raises(ModelError, match=rf"^Variant 'base': it raised {type(error).__name__}"):
        scorer(FakeModel("base", raising(error))).score("u1", [rows(0, 10)])


# ---- seconds ---------------------------------------------------------------------------------------------------------


class Clock:
    """Time passes in models alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: float) -> Callable[[np.ndarray], np.ndarray]:
        def function(x: np.ndarray) -> np.ndarray:
            self.now += seconds
            return x

        return function


@dataclass(frozen=True)
class Preparing(FakeModel):
    """Takes six seconds to prepare its inputs."""

    clock: Clock | None = None

    def prepare(self, table: pa.Table) -> np.ndarray:
        assert self.clock is not None
        self.clock.now += 6.0
        return super().prepare(table)


def timed(clock: Clock, *models: FakeModel, tolerant: bool = False) -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, "base")
    return Scorer(Scoring(models, layout, micro_batch=4, tolerant=tolerant), clock)


def test_each_variant_has_its_seconds_and_a_part_of_what_it_shares() -> None:
    clock = Clock()
    models = [Preparing(name, clock.takes(each), clock=clock) for name, each in (("base", 1.0), ("a", 2.0), ("b", 0.0))]
    scored = timed(clock, *models).score("u1", [rows(0, 8), rows(8, 12)])
    # three batches in two chunks, each of which is prepared once
    assert scored.seconds == {"base": 3 * 1.0 + 2 * 2.0, "a": 3 * 2.0 + 2 * 2.0, "b": 2 * 2.0}
    assert sum(scored.seconds.values()) == clock.now


def test_a_variant_that_failed_took_its_time() -> None:
    clock = Clock()

    def breaks(x: np.ndarray) -> np.ndarray:
        clock.now += 5.0
        raise ModelError("broken", "it is broken.")

    models = [FakeModel("base", clock.takes(1.0)), FakeModel("broken", breaks)]
    scored = timed(clock, *models, tolerant=True).score("u1", [rows(0, 4), rows(4, 8)])
    assert scored.seconds == {"base": 2.0, "broken": 5.0}
    assert scored.partial.receipts[0].failed == ("broken",)
