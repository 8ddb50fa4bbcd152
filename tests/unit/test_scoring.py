"""All variants score one unit; some fail."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from fakes.small_run import SIZES, FakeModel, ScoreSum, read_rows

from assay.calls import NeedsRows, Preparations, micro_batches
from assay.errors import DataError, ModelError, PreparationError
from assay.records import Chunk, Failure, Receipt, Rows, StateKey
from assay.scoring import ScoredUnit, Scorer, Scoring
from assay.task_scores import Layout


def rows(first: int, stop: int) -> Rows:
    return read_rows(Chunk("rows.parquet", first, pa.table({"x": np.arange(first, stop, dtype=np.float64)})))


def scorer(*models: FakeModel, tolerant: bool = False, baseline: str | None = "base", micro_batch: int = 4) -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, baseline)
    return Scorer(Scoring(models, layout, micro_batch, tolerant))


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
    batches = micro_batches(filtered, 4)
    assert [kept[one.rows].tolist() for one in batches] == [[8, 9], [12], [18, 19]]
    assert [(one.first, one.size) for one in batches] == [(8, 4), (12, 4), (16, 4)]


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


NO_FILE = FileNotFoundError("no m.txt")


@pytest.mark.parametrize(
    ("models", "baseline", "tolerable"),
    [
        ([FakeModel("base", same), FakeModel("broken", breaking_at(3))], "base", True),
        ([FakeModel("base", breaking_at(3)), FakeModel("other", same)], "base", True),
        ([FakeModel("broken", breaking_at(3))], None, True),  # the other rows
        ([FakeModel("one", same, load_error=NO_FILE), FakeModel("other", same)], None, True),
        ([FakeModel("one", same, load_error=NO_FILE)], None, False),
        ([FakeModel("base", same, load_error=NO_FILE), FakeModel("other", same)], "base", False),
        ([FakeModel("base", breaking_at(3))], "base", False),
    ],
)
def test_the_error_says_whether_a_tolerant_run_would_have_something_left(
    models: list[FakeModel], baseline: str | None, tolerable: bool
) -> None:
    with pytest.raises(ModelError) as caught:
        scorer(*models, baseline=baseline).score("u1", [rows(0, 10)])
    assert pickle.loads(pickle.dumps(caught.value)).tolerable is tolerable


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
    assert scored.failures == (Failure("u1", "broken", sentence, 20, '[{"x": 10.0}, {"x": 11.0}, {"x": 12.0}]'),)
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


# ---- what several variants receive, made once ------------------------------------------------------------------------


@dataclass
class Doubling:
    """A preparation of `x` that notes the rows of each call."""

    name: str = "features"
    columns: tuple[str, ...] = ("x",)
    fingerprint: str = ""
    batch_rows: int = 4
    apart: bool = False
    make: Callable[[np.ndarray], object] = lambda x: 2 * x
    load_error: PreparationError | None = None
    calls: list[list[float]] = field(default_factory=list)

    def check(self, schema: pa.Schema) -> None: ...

    def load(self) -> Callable[[pa.Table], object]:
        if self.load_error is not None:
            raise self.load_error
        return self._made

    def _made(self, table: pa.Table) -> object:
        x = table["x"].to_numpy()
        self.calls.append(x.tolist())
        try:
            return self.make(x)
        except Exception as error:
            raise PreparationError(self.name, f"preparation 'features' failed with {error!r}.") from error


@dataclass(frozen=True)
class Prepared(FakeModel):
    """A model of what `features` makes; called with all of it."""

    seen: list[object] = field(default_factory=list)

    @property
    def preparation(self) -> tuple[str, str]:
        return "prepare", "features"

    def prepare(self, table: pa.Table) -> np.ndarray:
        raise AssertionError("it is given what the preparation makes")

    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, np.ndarray]:
        self.seen.append(prepared)
        return {"main": self.function(prepared)[rows]}


def sharing(
    preparation: Doubling,
    *models: FakeModel,
    tolerant: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Scorer:
    layout = Layout({("main", one.name): "score" for one in models}, {"main": (ScoreSum(),)}, SIZES, "base")
    made_by = {one.name: "features" for one in models if isinstance(one, Prepared)}
    return Scorer(Scoring(models, layout, 5, tolerant, (preparation,), made_by), clock)


def sums(scored: ScoredUnit) -> dict[str, float]:
    return {
        key.variant: float(state["sum"][0].sum() / 256)
        for key, state in scored.partial.states.items()
        if "sum" in state and key.part == "scored"
    }


def test_each_micro_batch_is_made_once_for_all_and_at_its_own_positions() -> None:
    features = Doubling()
    a, b = Prepared("a", same), Prepared("b", lambda x: x + 1)
    scored = sharing(features, a, b, FakeModel("base", same)).score("u1", [rows(0, 10), rows(10, 13)])
    assert features.calls == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [10, 11, 12]]
    assert [list(one) for one in a.seen] == [[2 * x for x in call] for call in features.calls]
    assert all(one is other for one, other in zip(a.seen, b.seen, strict=True))
    assert sums(scored) == {"base": 78, "a": 156, "b": 156 + 13}


def test_a_baseline_may_receive_it_too() -> None:
    one = sharing(Doubling(), Prepared("base", same), FakeModel("other", same))
    assert sums(one.score("u1", [rows(0, 10)])) == {"base": 90, "other": 45}


def test_arrays_that_are_shared_cannot_be_changed() -> None:
    def changes(x: np.ndarray) -> np.ndarray:
        x[0] = 7
        return x

    sentence = "it raised ValueError: assignment destination is read-only"
    with pytest.raises(ModelError, match=rf"^Variant 'a': {sentence}"):
        sharing(Doubling(), FakeModel("base", same), Prepared("a", changes)).score("u1", [rows(0, 4)])
    in_a_dict = Doubling(make=lambda x: {"x": x.copy(), "n": 1})
    with pytest.raises(ModelError, match=rf"^Variant 'a': {sentence}"):
        sharing(in_a_dict, FakeModel("base", same), Prepared("a", lambda made: changes(made["x"]))).score(
            "u1", [rows(0, 4)]
        )


def test_without_rows_nothing_is_made() -> None:
    features = Doubling()
    assert sharing(features, FakeModel("base", same), Prepared("a", same)).score("u1", [rows(0, 0)]).failures == ()
    assert features.calls == []


def test_what_cannot_be_made_fails_each_variant_that_needs_it_and_is_tried_once() -> None:
    def breaks(x: np.ndarray) -> np.ndarray:
        if 5 in x:
            raise ValueError("bad 5")
        return x

    features = Doubling(make=breaks)
    one = sharing(features, FakeModel("base", same), Prepared("a", same), Prepared("b", same), tolerant=True)
    scored = one.score("u1", [rows(0, 10), rows(10, 20)])
    sentence = "preparation 'features' failed with ValueError('bad 5'). It was given rows 4 to 7 of rows.parquet."
    sample = '[{"x": 4.0}, {"x": 5.0}, {"x": 6.0}]'
    assert scored.failures == (Failure("u1", "a", sentence, 20, sample), Failure("u1", "b", sentence, 20, sample))
    assert features.calls == [[0, 1, 2, 3], [4, 5, 6, 7]]  # the others are for nobody
    assert sums(scored) == {"base": 190}


def test_one_that_cannot_be_built_fails_them_on_each_unit() -> None:
    features = Doubling(load_error=PreparationError("features", "preparation 'features': there is no module 'm'."))
    one = sharing(features, FakeModel("base", same), Prepared("a", same), tolerant=True)
    for unit in ("u1", "u2"):
        [failure] = one.score(unit, [rows(0, 10)]).failures
        assert (failure.variant, failure.error) == ("a", "preparation 'features': there is no module 'm'.")


def test_a_variant_that_fails_does_not_take_the_others_with_it() -> None:
    a = Prepared("a", breaking_at(10))  # twice 5
    one = sharing(Doubling(), FakeModel("base", same), a, Prepared("b", same), tolerant=True)
    scored = one.score("u1", [rows(0, 10)])
    [failure] = scored.failures
    assert failure.error == "the output is too short. It was given rows 4 to 7 of rows.parquet."
    assert failure.sample == '[{"x": 4.0}, {"x": 5.0}, {"x": 6.0}]'
    assert sums(scored) == {"base": 45, "b": 90}


def test_a_variant_that_is_not_loaded_needs_nothing_made_for_it() -> None:
    features = Doubling()
    a = Prepared("a", same, load_error=ModelError("a", "there is no file m.pt."))
    one = sharing(features, FakeModel("base", same), a, Prepared("b", same), tolerant=True)
    assert [failure.error for failure in one.score("u1", [rows(0, 4)]).failures] == ["there is no file m.pt."]
    assert features.calls == [[0, 1, 2, 3]]


def test_the_time_of_making_is_shared_by_those_that_need_it() -> None:
    clock = Clock()

    def slow(x: np.ndarray) -> np.ndarray:
        clock.now += 6.0
        return x

    models = [FakeModel("base", clock.takes(1.0)), Prepared("a", clock.takes(2.0)), Prepared("b", clock.takes(0.0))]
    scored = sharing(Doubling(make=slow), *models, clock=clock).score("u1", [rows(0, 8), rows(8, 12)])
    assert scored.seconds == {"base": 3 * 1.0, "a": 3 * 2.0 + 3 * 3.0, "b": 3 * 3.0}  # of 5 + 3 + 4 and of 4 rows each
    assert sum(scored.seconds.values()) == clock.now


def apart(features: Doubling, of: Rows) -> Rows:
    """The same rows with what was made of them elsewhere, and without what it was made of."""
    made = Preparations([features]).make_all(of)
    return replace(of, table=of.table.select([]), prepared=pickle.loads(pickle.dumps(made)))


def test_what_was_made_apart_is_not_made_again() -> None:
    features, a = Doubling(), Prepared("a", same)
    chunks = [apart(features, rows(0, 10)), apart(features, rows(10, 13))]
    features.calls.clear()
    layout = Layout({("main", "a"): "score"}, {"main": (ScoreSum(),)}, SIZES, None)
    scorer = Scorer(Scoring((a,), layout, None, False, (features,), {"a": "features"}))
    assert sums(scorer.score("u1", chunks)) == {"a": 156}
    assert features.calls == []
    assert not any(one.flags.writeable for one in a.seen)


def test_what_failed_apart_fails_as_it_would_here() -> None:
    def breaks(x: np.ndarray) -> np.ndarray:
        raise ValueError("bad")

    failures = []
    for chunk in (rows(0, 10), apart(Doubling(make=breaks), rows(0, 10))):
        layout = Layout({("main", "a"): "score"}, {"main": (ScoreSum(),)}, SIZES, None)
        features = Doubling(make=breaks)
        scorer = Scorer(Scoring((Prepared("a", same),), layout, None, True, (features,), {"a": "features"}))
        failures.append(scorer.score("u1", [chunk]).failures)
    assert failures[0] == failures[1]
    assert failures[0][0].sample == '[{"x": 0.0}, {"x": 1.0}, {"x": 2.0}]'


# ---- memory ----------------------------------------------------------------------------------------------------------


def holding(rows: int, error: Callable[[], BaseException] = MemoryError) -> Callable[[np.ndarray], np.ndarray]:
    """A model that has memory for so many rows at once."""

    def function(x: np.ndarray) -> np.ndarray:
        if len(x) > rows:
            raise error()
        return x

    return function


class OutOfMemoryError(RuntimeError):
    """As torch has it."""


OutOfMemoryError.__module__ = "torch"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError,
        OutOfMemoryError,
        lambda: RuntimeError("CUDA error: out of memory\nCompile with ..."),
        lambda: RuntimeError("HIP out of memory. Tried to allocate 2 GiB"),
        lambda: RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"),
        lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        lambda: ModelError("b", "forward failed with OutOfMemoryError: CUDA out of memory."),
    ],
)
def test_rows_that_are_too_much_are_scored_in_quarters(error: Callable[[], BaseException]) -> None:
    sizes = []

    def noting(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return holding(5, error)(x)

    one = scorer(FakeModel("base", same), FakeModel("b", noting), micro_batch=64)
    scored = one.score("u1", [rows(0, 64), rows(64, 80)])
    assert sizes == [64, 16, *[4] * 16, *[4] * 4]  # once it is known, no more than that is tried on this unit
    assert scored.partial.receipts[0].deviations == ("variant b: 4 rows per call",)
    assert sums(scored)["b"] == sum(range(80))
    sizes.clear()
    one.score("u2", [rows(80, 100)])
    assert sizes[0] == 20


def test_the_digest_tells_that_it_deviated() -> None:
    plain = scorer(FakeModel("base", same), micro_batch=16).score("u1", [rows(0, 16)]).partial.receipts[0]
    short = scorer(FakeModel("base", holding(4)), micro_batch=16).score("u1", [rows(0, 16)]).partial.receipts[0]
    assert plain.deviations == ()
    assert short.deviations == ("variant base: 4 rows per call",)
    assert plain.digest != short.digest


def test_smaller_batches_begin_where_the_larger_ones_do() -> None:
    """Whatever unit and chunk they fall to."""
    found: list[list[float]] = []

    def noting(x: np.ndarray) -> np.ndarray:
        if len(x) <= 2:
            found.append(x.tolist())
        return holding(2)(x)

    scorer(FakeModel("base", noting), micro_batch=10).score("u1", [rows(0, 20)])
    assert found == [[x, x + 1] for x in range(0, 20, 2)]


def test_one_row_that_is_too_much_is_the_models_fault() -> None:
    one = scorer(FakeModel("base", same), FakeModel("b", holding(0)), FakeModel("c", same), tolerant=True)
    scored = one.score("u1", [rows(8, 12)])
    [failure] = scored.failures
    place = holding.__code__.co_firstlineno + 5
    assert failure.error == (
        f"one row at a time is still too much for memory: it raised MemoryError ({__file__}, line {place}). It was "
        "given row 8 of rows.parquet."
    )
    assert failure.sample == '[{"x": 8.0}]'
    assert scored.partial.receipts[0].deviations == ()


def test_a_model_that_gets_whole_chunks_gets_less_too() -> None:
    one = scorer(FakeModel("base", same), FakeModel("b", holding(30), batch_rows=None))
    scored = one.score("u1", [rows(0, 100)])
    assert scored.partial.receipts[0].deviations == ("variant b: 25 rows per call",)


def test_inputs_that_are_too_much_for_a_chunk_are_prepared_in_pieces() -> None:
    sizes = []

    class Large(FakeModel):
        def prepare(self, table: pa.Table) -> np.ndarray:
            sizes.append(table.num_rows)
            return holding(20)(super().prepare(table))

    layout = Layout({("main", "base"): "score"}, {"main": (ScoreSum(),)}, SIZES, "base")
    scored = Scorer(Scoring((Large("base", same),), layout, 64, False)).score("u1", [rows(0, 64)])
    assert sizes == [64, 16, 16, 16, 16]
    assert sums(scored) == {"base": sum(range(64))}


def test_a_preparation_is_made_again_of_fewer_rows_for_whom_it_was_too_much() -> None:
    features = Doubling(batch_rows=16)
    a, b = Prepared("a", same), Prepared("b", holding(4))
    scored = sharing(features, FakeModel("base", same), a, b).score("u1", [rows(0, 16)])
    assert [len(call) for call in features.calls] == [16, 4, 4, 4, 4]
    assert scored.partial.receipts[0].deviations == ("variant b: 4 rows per call",)
    assert sums(scored) == {"base": 120, "a": 240, "b": 240}


def test_a_preparation_that_is_itself_too_much_is_made_of_fewer_rows_once_for_all() -> None:
    features = Doubling(batch_rows=16, make=holding(4))
    models = [FakeModel("base", same), Prepared("a", same), Prepared("b", same)]
    scored = sharing(features, *models).score("u1", [rows(0, 16)])
    assert [len(call) for call in features.calls] == [16, 4, 4, 4, 4]
    assert scored.partial.receipts[0].deviations == ("variant a: 4 rows per call", "variant b: 4 rows per call")


@pytest.mark.parametrize("features", [Doubling(batch_rows=16), Doubling(batch_rows=16, make=holding(4))])
def test_what_was_made_apart_and_is_too_much_needs_the_rows(features: Doubling) -> None:
    layout = Layout({("main", "a"): "score"}, {"main": (ScoreSum(),)}, SIZES, None)
    scorer = Scorer(Scoring((Prepared("a", holding(4)),), layout, None, False, (features,), {"a": "features"}))
    with pytest.raises(NeedsRows):
        scorer.score("u1", [apart(features, rows(0, 16))])
    assert sums(scorer.score("u1", [rows(0, 16)])).keys() == {"a"}


def test_caution_quarters_all_calls_from_the_start() -> None:
    seen: dict[str, list[int]] = {"base": [], "whole": []}

    def noting(name: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: (seen[name].append(len(x)), x)[1]

    features, a = Doubling(batch_rows=16), Prepared("a", same)
    whole = FakeModel("whole", noting("whole"), batch_rows=None)
    layout = Layout(
        {("main", name): "score" for name in ("base", "whole", "a")}, {"main": (ScoreSum(),)}, SIZES, "base"
    )
    models = (FakeModel("base", noting("base")), whole, a)
    scorer = Scorer(Scoring(models, layout, 8, False, (features,), {"a": "features"}))
    receipt = scorer.score("u1", [rows(0, 16)], caution=1).partial.receipts[0]
    assert seen == {"base": [2] * 8, "whole": [16]}
    assert [len(call) for call in features.calls] == [4] * 4
    assert receipt.deviations == ("variant a: 4 rows per call", "variant base: 2 rows per call")
    receipt = scorer.score("u1", [rows(0, 16)], caution=9).partial.receipts[0]
    assert receipt.deviations == ("variant a: 1 row per call", "variant base: 1 row per call")
