"""What a run has cost, over all the drivers that it had, and where it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.small_run import ACCUMULATORS, job, make_setup
from fakes.states import committed_tally

from assay.api import open_run, resume, run
from assay.costs import HOUR, Account, Amount, Limits
from assay.drive import answer, drive
from assay.errors import RunError, SpecError, Unfinished
from assay.evaluation import Evaluation
from assay.merge import merge_files
from assay.orders import Drop, Event, Flush, Score, Stalled, WorkerReady
from assay.pipeline.cost import SCHEMA, cost_table, limits, spent
from assay.pipeline.replay import replay
from assay.pipeline.verify import verify
from assay.plan import encode_plan
from assay.records import Job, Machine, Unit
from assay.spec.load import build_spec
from assay.spec.model import PricesSpec
from assay.states import digest
from assay.store.log import CommitLog, read_committed
from assay.store.run import RunDirectory
from assay.worker import Worker

PRICES = PricesSpec.model_validate({"default": 1.2, "big": {"on_demand": 3.0, "spot": 1.0}, "currency": "USD"})


# ---- drivers, one after the other ------------------------------------------------------------------------------------


class Clock:
    """Each look at it takes an eighth of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.125
        return self.now


class Crew:
    """One worker in this thread; each answer is there when it is waited for."""

    def __init__(self, of: Job, clock: Clock) -> None:
        self._of = of
        self._clock = clock
        self._workers: dict[str, Worker] = {}
        self._events: list[Event] = []

    num_ahead = 0

    def foresee(self, units: Sequence[Unit]) -> None: ...

    def start(self, incarnation: str, bundle: int) -> None:
        self._workers[incarnation] = Worker(make_setup(self._of), self._clock)
        self._events.append(WorkerReady(incarnation, Machine("big", "spot", "here", 0.5), 1.0))

    def send(self, order: Score | Flush) -> None:
        self._events.append(answer(self._workers[order.incarnation], order))

    def drop(self, order: Drop) -> None: ...

    def end(self, incarnation: str) -> None:
        self._workers.pop(incarnation).close()

    def wait(self, seconds: float) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def news(self) -> list[str]:
        return []

    def cause(self, stalled: Stalled) -> str:
        return ""

    def close(self) -> None:
        for incarnation in list(self._workers):
            self.end(incarnation)


def driven(
    of: Job, *, until: float | None = None, max_cost: float | None = None, make: type[Crew] = Crew
) -> RunDirectory:
    directory, clock = RunDirectory.create(of.run), Clock()
    with CommitLog(directory) as log:
        directory.write_head("plan.parquet", encode_plan(of.plan))
        directory.write_head("spec.yaml", b"")
        crew = make(of, clock)
        drive(of, log, crew, 1, lambda _: None, clock, limits(directory, PRICES, until, max_cost))
    return directory


def states(directory: RunDirectory) -> str:
    return digest(merge_files(directory.read_state, read_committed(directory).files, ACCUMULATORS))


@pytest.fixture
def of(tmp_path: Path) -> Job:
    (tmp_path / "whole").mkdir()
    return job(tmp_path, {"base": "same", "half": "half"})


def test_a_run_that_was_stopped_twice_adds_up(tmp_path: Path, of: Job) -> None:
    with pytest.raises(Unfinished):
        driven(of, until=8.0)
    first = spent(RunDirectory.open(of.run))
    with pytest.raises(Unfinished):
        driven(of, until=8.0)
    directory = driven(of)
    assert states(directory) == states(driven(replace(of, run=str(tmp_path / "whole"))))
    assert replay(of.run).same

    each, whole = list(directory.costs()), spent(directory)
    assert len(each) == 3
    assert sum(one.seconds for one in first.values()) < sum(one.seconds for one in whole.values())
    assert sum(one.seconds for one in whole.values()) == sum(one["hosts"]["here"] for one in each)
    assert {(one.node_type, one.market) for one in whole} == {("big", "spot")}
    kinds = {"variant", "reading", "shared", "start-up", "idle"}
    assert {one.kind for one in whole} == kinds  # what was in flight was flushed: nothing is thrown away
    assert whole[Account("big", "spot", "start-up")] == Amount(3.0, 1.5)
    for variant in ("base", "half"):
        assert whole[Account("big", "spot", "variant", variant)].rows == 120
        assert whole[Account("big", "spot", "variant", variant)].seconds > 0
    assert whole[Account("big", "spot", "reading")].rows == 120


def test_a_deadline_that_has_passed_stops_before_anything_is_begun(of: Job) -> None:
    message = (
        rf"^Stopped at the deadline with 0 of 6 units committed in {of.run}: 6 are left. "
        rf"Go on with: assay resume {of.run} --deadline TIME$"
    )
    with pytest.raises(Unfinished, match=message):
        driven(of, until=0.0)
    assert spent(RunDirectory.open(of.run)) == {}
    assert len(read_committed(driven(of)).receipts) == 6
    assert replay(of.run).same


def test_a_deadline_says_what_is_left_and_how_long_that_takes(of: Job) -> None:
    with pytest.raises(Unfinished, match=r"with (\d) of 6 units committed in .* left, which take about \d+ s more at"):
        driven(of, until=8.0)
    assert 0 < len(read_committed(RunDirectory.open(of.run)).receipts) < 6


def test_a_cost_is_of_all_drivers_together(of: Job) -> None:
    message = (
        r"^Stopped at --max-cost with \d of 6 units .*: it has cost [\d.]+ USD so far, and \d are left, which cost "
    )
    with pytest.raises(Unfinished, match=message):
        driven(of, max_cost=4.0 / HOUR)
    done = len(read_committed(RunDirectory.open(of.run)).receipts)
    assert 0 < done < 6
    with pytest.raises(Unfinished, match=rf"^Stopped at --max-cost with {done} of 6 units"):
        driven(of, max_cost=4.0 / HOUR)


def test_a_driver_that_is_killed_has_said_what_was_lost_with_it(of: Job) -> None:
    """Up to the last time that it wrote its costs, which it does every 10 seconds."""
    seen: list[dict[str, float]] = []

    class Slow(Crew):
        def wait(self, seconds: float) -> Sequence[Event]:
            self._clock.now += 11.0
            seen.append({one.kind: amount.seconds for one, amount in spent(RunDirectory.open(of.run)).items()})
            return super().wait(seconds)

    whole = spent(driven(of, make=Slow))
    assert seen[0] == {}
    assert max(one.get("thrown away", 0.0) for one in seen) > 11.0
    totals = [sum(one.values()) for one in seen]
    assert totals == sorted(totals)
    assert totals[-1] <= sum(one.seconds for one in whole.values())
    assert {one.kind for one in whole} == {"variant", "reading", "shared", "start-up", "idle"}


def test_a_driver_that_cannot_write_its_costs_goes_on(of: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_costs(self: RunDirectory, driver: str, content: object) -> None:
        raise RunError("The disk is full.")

    monkeypatch.setattr(RunDirectory, "save_costs", save_costs)
    assert len(read_committed(driven(of)).receipts) == 6
    assert spent(RunDirectory.open(of.run)) == {}


def test_what_is_no_ledger_is_told(of: Job) -> None:
    directory = driven(of)
    directory.save_costs("other", {"version": 2})
    message = (
        r"^What this run has cost is not known: .* is no ledger of this assay \(it is of version 2\). Results do not"
    )
    with pytest.raises(RunError, match=message):
        spent(directory)


# ---- the table -------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_account() -> None:
    accounts = {
        Account("local", "", "variant", "old"): Amount(1800.0, 900.0, 50),
        Account("big", "spot", "thrown away", "preemption"): Amount(3600.0, 3600.0),
        Account("big", "spot", "reading"): Amount(3600.0, 1800.0, 50),
    }
    table = cost_table(accounts, PRICES)
    assert table is not None
    assert table.schema == SCHEMA
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("big", "spot", "reading", None, 3600.0, 1800.0, 50, 0.5, 1.5, "USD"),
        ("big", "spot", "thrown away", "preemption", 3600.0, 3600.0, None, 1.0, 0.0, "USD"),
        ("local", None, "variant", "old", 1800.0, 900.0, 50, 0.3, 0.3, "USD"),
    ]


def test_without_prices_there_is_no_cost() -> None:
    table = cost_table({Account("local", "", "idle"): Amount(1.0, 1.0)}, None)
    assert table is not None
    assert [table[name].to_pylist() for name in ("seconds", "cost", "on_demand_cost", "currency")] == [
        [1.0],
        [None],
        [None],
        [None],
    ]
    assert cost_table({}, PRICES) is None


# ---- whole runs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path: Path) -> Path:
    chance = np.random.default_rng(3)
    label, old, new = chance.integers(0, 2, 900), chance.random(900), chance.random(900)
    pq.write_table(pa.table({"y": label, "old": old, "new": new}), tmp_path / "data.parquet")
    return tmp_path


def evaluated(base: Path, out: str, prices: dict | None = None, **limited: float) -> Evaluation:
    tree = {
        "data": {"path": "data.parquet", "label": "y"},
        "variants": [{"name": "old", "column": "old"}, {"name": "new", "column": "new"}],
        "output": {"is": "probability"},
        "baseline": "old",
        "metrics": ["auc", "log_loss"],
        "execution": {"unit_rows": 100, "micro_batch": 100},
    }
    spec = build_spec(tree if prices is None else {**tree, "prices": prices})
    return run(spec, base=base, out=base / out, executor="local", workers=2, **limited)


def test_prices_change_no_result(base: Path) -> None:
    without, with_prices = evaluated(base, "without"), evaluated(base, "with", {"default": 1.2, "currency": "USD"})
    assert without.cost["cost"].null_count == without.cost.num_rows
    assert with_prices.cost["cost"].null_count == 0
    for name in ("metrics", "comparisons", "curves", "coverage"):
        assert getattr(without, name).equals(getattr(with_prices, name))
    digests = [digest(committed_tally(base / name)) for name in ("without", "with")]
    assert digests[0] == digests[1]
    assert verify(str(base / "with")).passed


def test_a_deadline_of_0_loses_nothing(base: Path) -> None:
    with pytest.raises(Unfinished, match=r"^Stopped at the deadline with 0 of 9 units committed in "):
        evaluated(base, "stopped", deadline=0.0)
    found, whole = resume(base / "stopped", executor="local"), evaluated(base, "whole")
    assert found.metrics.equals(whole.metrics)
    assert digest(committed_tally(base / "stopped")) == digest(committed_tally(base / "whole"))


def test_other_prices_are_no_other_run(base: Path) -> None:
    with pytest.raises(Unfinished):
        evaluated(base, "run", {"default": 1.0}, deadline=0.0)
    found = evaluated(base, "run", {"default": 1.0, "local": 2.0})
    again = evaluated(base, "run", {"default": 1.0, "local": 6.0})  # of the run that is finished
    assert [3 * one for one in found.cost["cost"].to_pylist()] == pytest.approx(again.cost["cost"].to_pylist())
    assert open_run(base / "run").cost.equals(again.cost)
    assert again.to_pandas("cost").shape == (again.cost.num_rows, 10)


def test_the_table_is_no_part_of_the_answer(base: Path) -> None:
    found = evaluated(base, "run")
    (base / "run" / "results" / "cost.parquet").unlink()
    again = open_run(base / "run")
    assert again.metrics.equals(found.metrics)
    with pytest.raises(RunError, match=r"^What the run at .*run has cost was not recorded.$"):
        _ = again.cost
    assert verify(str(base / "run")).passed


def test_a_limit_on_what_nobody_knows_is_refused(base: Path) -> None:
    for prices in (None, {"big": 3.0}):
        with pytest.raises(SpecError, match=r"^prices.default: is required for --max-cost: a worker may come on any "):
            evaluated(base, "run", prices, max_cost=1.0)


def test_a_cost_of_0_is_reached_at_once(base: Path) -> None:
    with pytest.raises(
        Unfinished, match=r"^Stopped at --max-cost with 0 of 9 units .*: it has cost 0 so far, and 9 are"
    ):
        evaluated(base, "run", {"default": 1.0}, max_cost=0.0)


def test_no_limits_by_default() -> None:
    assert Limits() == Limits(until=None, max_cost=None, prices=None, before={})
