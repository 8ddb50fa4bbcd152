"""A worker holds what is accepted, forgets what is not, and writes it when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import small_run
from fakes.small_run import FakeModel, Positions, job, make_setup, reads

from assay.calls import Preparations
from assay.errors import DataError, ModelError, RunError
from assay.predicted import contents, key, read_span
from assay.records import Chunk, Rows, Spent, Unit
from assay.states import decode, digest
from assay.worker import Dropped, Worker, WorkerSetup

SOURCE = Positions(pa.schema({"x": pa.float64()}))


@pytest.fixture
def saved() -> dict[str, bytes]:
    return {}


@pytest.fixture
def setup(tmp_path: Path, saved: dict[str, bytes]) -> WorkerSetup:
    setup = make_setup(job(tmp_path, {"base": "same", "other": "half"}))
    return replace(setup, save=saved.__setitem__)


@pytest.fixture
def plan(tmp_path: Path) -> tuple[Unit, ...]:
    return job(tmp_path, {"base": "same"}).plan.units


def test_only_what_is_accepted_is_flushed(setup: WorkerSetup, saved: dict[str, bytes], plan: tuple[Unit, ...]) -> None:
    worker = Worker(setup)
    worker.score(plan[0], None, ())
    worker.score(plan[1], None, ("u000",))
    worker.score(plan[2], None, ())  # u001 was not accepted: another worker has it
    file = worker.flush(("u002",))
    assert [receipt.unit for receipt in file.receipts] == ["u000", "u002"]
    tally = decode(saved[file.file])
    assert (digest(tally), tally.receipts) == (file.file, file.receipts)


def test_accepted_twice_counts_once(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    worker = Worker(setup)
    worker.score(plan[0], None, ())
    worker.score(plan[1], None, ("u000",))
    assert [receipt.unit for receipt in worker.flush(("u000", "u001")).receipts] == ["u000", "u001"]
    assert worker.flush(("u000", "u001")).receipts == ()


def test_a_unit_that_is_wanted_no_more_is_given_up_between_two_chunks(
    setup: WorkerSetup, plan: tuple[Unit, ...]
) -> None:
    """What was accepted before stays, and the same unit may be scored again."""
    workers: list[Worker] = []

    def read_rows(chunk: Chunk) -> Rows:
        if chunk.first_row == 30:  # the second chunk of u001
            workers[0].drop("u001")
        return small_run.read_rows(chunk)

    workers.append(worker := Worker(replace(setup, read=reads(SOURCE, read_rows))))
    worker.score(plan[0], None, ())
    with pytest.raises(Dropped):
        worker.score(plan[1], None, ("u000",))
    worker.score(plan[2], None, ())
    assert [receipt.unit for receipt in worker.flush(("u002",)).receipts] == ["u000", "u002"]


def test_a_unit_that_is_not_being_scored_is_not_given_up(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    worker = Worker(setup)
    worker.drop("u001")
    assert worker.score(plan[0], None, ()).receipt.unit == "u000"


def test_a_unit_that_it_never_had_is_a_fault(setup: WorkerSetup) -> None:
    with pytest.raises(RunError, match=r"^Unit u000 was accepted from a worker that does not hold it.$"):
        Worker(setup).flush(("u000",))


def test_a_flush_begins_a_new_tally(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    worker = Worker(setup)
    worker.score(plan[0], None, ())
    worker.flush(("u000",))
    worker.score(plan[1], None, ())
    assert [receipt.unit for receipt in worker.flush(("u001",)).receipts] == ["u001"]


def test_a_flush_that_could_not_be_written_can_be_tried_again(
    setup: WorkerSetup, saved: dict[str, bytes], plan: tuple[Unit, ...]
) -> None:
    full = [True]

    def save(name: str, data: bytes) -> None:
        if full.pop():
            raise RunError("The disk is full.")
        saved[name] = data

    worker = Worker(replace(setup, save=save))
    worker.score(plan[0], None, ())
    with pytest.raises(RunError, match=r"^The disk is full.$"):
        worker.flush(("u000",))
    full.append(False)
    file = worker.flush(())
    assert [receipt.unit for receipt in file.receipts] == ["u000"]
    assert file.file in saved


def test_a_flush_is_due_when_it_would_cost_one_fiftieth_of_the_time(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    now = [0.0]
    worker = Worker(setup, clock=lambda: now[0])
    now[0] = 0.9  # the first flush is taken to cost 0.02 seconds
    assert not worker.score(plan[0], None, ()).flush_due
    now[0] = 1.0
    assert worker.score(plan[1], None, ()).flush_due

    def slow(name: str, data: bytes) -> None:
        now[0] = 3.0

    worker = Worker(replace(setup, save=slow), clock=lambda: now[0])
    worker.flush(())  # from 1.0 to 3.0
    now[0] = 102.9
    assert not worker.score(plan[2], None, ()).flush_due
    now[0] = 103.0
    assert worker.score(plan[3], None, ()).flush_due


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noting(Positions):
    """Notes which units were read, and by which thread."""

    noted: list[tuple[str, str]] = field(default_factory=list)

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        self.noted.append((unit.id, threading.current_thread().name))
        return super().read(unit, columns)


def noting(setup: WorkerSetup) -> tuple[WorkerSetup, list[tuple[str, str]]]:
    noted: list[tuple[str, str]] = []
    return replace(setup, read=reads(Noting(SOURCE.schema, noted=noted))), noted


def test_the_next_unit_is_read_once_and_by_a_thread_of_its_own(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    setup, noted = noting(setup)
    worker = Worker(setup)
    worker.score(plan[0], plan[1], ())
    worker.score(plan[1], plan[2], ("u000",))
    worker.score(plan[2], None, ("u001",))
    assert [unit for unit, _ in noted] == ["u000", "u001", "u002"]
    assert {thread for _, thread in noted} == {"assay-read"}


def test_a_unit_that_was_read_ahead_for_nothing_changes_nothing(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    setup, _ = noting(setup)
    worker = Worker(setup)
    worker.score(plan[0], plan[1], ())
    ahead = worker.score(plan[2], None, ("u000",))
    assert ahead.receipt == Worker(setup).score(plan[2], None, ()).receipt


def test_a_fault_in_what_was_read_ahead_is_told_when_it_is_scored(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    def read_rows(chunk: Chunk):
        if chunk.first_row == 20:
            raise DataError("row 20 of rows.parquet has weight -1.")
        return small_run.read_rows(chunk)

    worker = Worker(replace(setup, read=reads(SOURCE, read_rows)))
    worker.score(plan[0], plan[1], ())
    with pytest.raises(DataError, match=r"^row 20 of rows.parquet has weight -1.$"):
        worker.score(plan[1], None, ("u000",))
    assert [receipt.unit for receipt in worker.flush(()).receipts] == ["u000"]


def test_after_a_failed_unit_it_still_holds_what_was_accepted(tmp_path: Path, saved: dict[str, bytes]) -> None:
    of = job(tmp_path, {"base": "same", "broken": "fails_at_45"})
    worker = Worker(replace(make_setup(of), save=saved.__setitem__))
    worker.score(of.plan.units[0], None, ())
    with pytest.raises(ModelError, match=r"^Variant 'broken': it cannot score 45. It was given rows 44 to 47 of rows"):
        worker.score(of.plan.units[2], None, ("u000",))
    assert [receipt.unit for receipt in worker.flush(()).receipts] == ["u000"]


# ---- memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made(FakeModel):
    """A model of what a preparation makes, with memory for two rows at once."""

    def score(self, prepared: np.ndarray, rows: slice) -> Mapping[str, np.ndarray]:
        if len(prepared) > 2:
            raise MemoryError
        return {"main": prepared}


@dataclass(frozen=True)
class Same:
    """A preparation that makes `x`."""

    name: str = "x"
    columns: tuple[str, ...] = ("x",)
    fingerprint: str = ""
    batch_rows: int = 4
    apart: bool = True

    def check(self, schema: pa.Schema) -> None: ...

    def load(self) -> Callable[[pa.Table], np.ndarray]:
        return lambda table: table["x"].to_numpy()


def test_a_unit_that_was_too_much_is_scored_with_fewer_rows_per_call(
    setup: WorkerSetup, plan: tuple[Unit, ...]
) -> None:
    receipt = Worker(setup).score(plan[0], None, (), caution=1).receipt
    assert receipt.deviations == ("variant base: 1 row per call", "variant other: 1 row per call")
    assert Worker(setup).score(plan[0], None, ()).receipt.deviations == ()


@pytest.mark.parametrize("caution", [0, 1])
def test_what_was_made_apart_and_is_too_much_is_read_and_made_here(
    setup: WorkerSetup, plan: tuple[Unit, ...], caution: int
) -> None:
    loaded, read, noted = Preparations([Same()]), setup.read, list[str]()

    def made_apart(unit: Unit) -> Iterator[Rows]:
        for rows in read(unit):
            yield replace(rows, table=rows.table.select([]), prepared=loaded.make_all(rows))

    def here(unit: Unit) -> Iterator[Rows]:
        noted.append(unit.id)
        return read(unit)

    models = (Made("base", lambda x: x), Made("other", lambda x: x))
    scoring = replace(
        setup.scoring, models=models, preparations=(Same(),), made_by=dict.fromkeys(("base", "other"), "x")
    )
    worker = Worker(replace(setup, scoring=scoring, read=made_apart, read_here=here))
    receipt = worker.score(plan[0], None, (), caution).receipt
    assert receipt.deviations == ("variant base: 1 row per call", "variant other: 1 row per call")
    assert noted == ["u000"]
    assert receipt.rows == 20


# ---- seconds ---------------------------------------------------------------------------------------------------------


def test_it_tells_where_its_seconds_went_since_the_last_flush(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.125
        return now[0]

    worker = Worker(setup, clock)
    worker.score(plan[0], None, ())
    worker.score(plan[1], None, ("u000",))
    worker.score(plan[2], None, ())  # u001 was not accepted: another worker has it
    worker.drop("u003")
    with pytest.raises(Dropped):
        worker.score(plan[3], None, ("u002",))
    worker.flush(())
    spent = worker.spent()
    assert set(spent.scoring) == {"base", "other"}
    assert spent.scoring["base"] > spent.scoring["other"] > 0  # the clock is looked at more often where inputs are made
    assert spent.reading > 0
    assert spent.shared > 0
    assert set(spent.thrown_away) == {"copy"}
    told = sum(spent.scoring.values()) + spent.reading + spent.shared + sum(spent.thrown_away.values())
    assert told <= now[0]
    assert worker.spent() == Spent({}, 0.0, 0.0, {})


def test_seconds_of_a_unit_that_failed_are_thrown_away(tmp_path: Path, saved: dict[str, bytes]) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.125
        return now[0]

    of = job(tmp_path, {"base": "same", "broken": "fails_at_45"})
    worker = Worker(replace(make_setup(of), save=saved.__setitem__), clock)
    with pytest.raises(ModelError):
        worker.score(of.plan.units[2], None, ())
    worker.flush(())
    spent = worker.spent()
    assert spent.scoring == {}
    assert set(spent.thrown_away) == {"error"}


# ---- what variants give ----------------------------------------------------------------------------------------------


def keeping(setup: WorkerSetup, kept: dict[str, bytes]) -> WorkerSetup:
    return replace(setup, scoring=replace(setup.scoring, keeps=True), save_outputs=kept.__setitem__)


def test_outputs_of_accepted_units_are_flushed_with_them(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    kept: dict[str, bytes] = {}
    worker = Worker(keeping(setup, kept))
    worker.score(plan[0], None, ())
    worker.score(plan[1], None, ("u000",))
    worker.score(plan[2], None, ())  # u001 was not accepted
    file = worker.flush(("u002",))
    found = contents(pa.py_buffer(kept[file.predictions]), "it")
    assert [span.unit for span in found.spans] == ["u000", "u002"]
    rows = read_span(pa.py_buffer(kept[file.predictions]), found.spans[1], found.schema, "it")
    assert rows["position"].to_pylist() == list(range(40, 60))
    assert rows[key("other", "main")].to_pylist() == [row / 2 for row in range(40, 60)]
    worker.score(plan[3], None, ())
    again = worker.flush(("u003",))
    assert [span.unit for span in contents(pa.py_buffer(kept[again.predictions]), "it").spans] == ["u003"]


def test_a_worker_that_keeps_nothing_says_so(setup: WorkerSetup, plan: tuple[Unit, ...]) -> None:
    worker = Worker(setup)
    worker.score(plan[0], None, ())
    assert worker.flush(("u000",)).predictions == ""


def test_many_outputs_make_a_flush_due(
    setup: WorkerSetup, plan: tuple[Unit, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(keeping(setup, {}), clock=lambda: 0.0)
    assert not worker.score(plan[0], None, ()).flush_due
    monkeypatch.setattr("assay.worker.MOST_OUTPUT_BYTES", 3 * 20 * 8)
    assert worker.score(plan[1], None, ("u000",)).flush_due  # two units of three columns
