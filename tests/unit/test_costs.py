"""Where the seconds of workers go, and what they cost."""

from __future__ import annotations

import json

import pytest

from assay.costs import (
    Account,
    Amount,
    CostLedger,
    Limits,
    Timesheet,
    add,
    cost,
    from_json,
    hourly,
)
from assay.orders import Commit, EndWorker, Flushed, WorkerDraining, WorkerFailed, WorkerLost, WorkerReady
from assay.records import CommittedFile, Machine, Preparing, Receipt, Spent, Worked
from assay.spec.model import PricesSpec

BIG = Machine("big", "spot", "host-1", share=0.25, device="A10")
PRICES = PricesSpec.model_validate(
    {"default": 1.2, "big": {"on_demand": 3.0, "spot": 1.0}, "kept": {"on_demand": 2.0}, "currency": "USD"}
)


# ---- a worker --------------------------------------------------------------------------------------------------------


def test_a_unit_counts_once_it_is_accepted() -> None:
    times = Timesheet()
    times.hold("u0", 10.0, reading=2.0, scoring={"old": 3.0, "new": 4.0})
    assert times.take() == Spent({}, 0.0, 0.0, {})
    times.keep("u0")
    assert times.take() == Spent({"old": 3.0, "new": 4.0}, 2.0, 1.0, {})
    assert times.take() == Spent({}, 0.0, 0.0, {})


def test_a_unit_that_is_never_accepted_is_thrown_away() -> None:
    times = Timesheet()
    times.hold("u0", 10.0, reading=2.0, scoring={"old": 3.0})
    times.hold("u1", 5.0, reading=1.0, scoring={"old": 3.0})
    times.keep("u1")
    times.throw_away_held()
    times.throw_away("error", 0.5)
    times.share(0.25)
    assert times.take() == Spent({"old": 3.0}, 1.0, 1.25, {"copy": 10.0, "error": 0.5})


# ---- tasks apart from the workers ------------------------------------------------------------------------------------


def test_tasks_that_prepare_have_accounts_of_their_own() -> None:
    ledger = CostLedger()
    ledger.prepared(Preparing("tokens", BIG, 3.0))
    ledger.prepared(Preparing("tokens", BIG, 5.0))
    ledger.prepared(Preparing("tokens", BIG, 12.0, num_places=4))
    ledger.prepared(Preparing("tokens", BIG, 6.0, num_places=4))
    assert ledger.accounts(9.0) == {
        Account("big", "spot", "preparing", "tokens"): Amount(8.0, 2.0),
        Account("big", "spot", "places", "4"): Amount(18.0, 0.0),
    }
    assert from_json(ledger.as_json("d", 9.0)) == ledger.accounts(9.0)
    assert cost(ledger.accounts(9.0), PRICES) == pytest.approx(2.0 / 3600)


def test_joins_have_an_account_of_their_own_and_one_that_is_done_twice_is_booked_twice() -> None:
    ledger = CostLedger()
    for seconds in (3.0, 5.0, 5.0):
        ledger.joined(Worked(0, None, BIG, seconds))
    ledger.joined(Worked(1, None, Machine(), 0.0, "its node died"))
    assert ledger.accounts(9.0) == {Account("big", "spot", "joining"): Amount(13.0, 3.25)}
    assert from_json(ledger.as_json("d", 9.0)) == ledger.accounts(9.0)
    assert cost(ledger.accounts(9.0), PRICES) == pytest.approx(3.25 / 3600)


# ---- a driver --------------------------------------------------------------------------------------------------------


def ready(ledger: CostLedger, worker: str, at: float, machine: Machine = BIG, loading: float = 2.0) -> None:
    ledger.asked(worker)
    ledger.hear(WorkerReady(worker, machine, loading), at)


def flush(worker: str, file: str, spent: Spent, *receipts: Receipt) -> Flushed:
    return Flushed(worker, CommittedFile(file, receipts), spent)


def seconds(ledger: CostLedger, at: float) -> dict[tuple[str, str], float]:
    return {(one.kind, one.name): amount.seconds for one, amount in ledger.accounts(at).items()}


RECEIPTS = (Receipt("u0", 100, ""), Receipt("u1", 50, "", failed=("new",)))
SPENT = Spent({"old": 3.0, "new": 2.0}, reading=1.0, shared=0.5, thrown_away={"copy": 1.5})


def test_every_second_of_a_worker_is_in_one_account() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=10.0)
    ledger.scores("d-1")
    event = flush("d-1", "f", SPENT, *RECEIPTS)
    ledger.hear(event, 20.0, [Commit((event.file,))])
    ledger.committed([event.file])
    accounts = ledger.accounts(24.0)
    assert accounts == {
        Account("big", "spot", "start-up"): Amount(2.0, 0.5),
        Account("big", "spot", "variant", "old"): Amount(3.0, 0.75, 150),
        Account("big", "spot", "variant", "new"): Amount(2.0, 0.5, 100),
        Account("big", "spot", "reading"): Amount(1.0, 0.25, 150),
        Account("big", "spot", "shared"): Amount(0.5, 0.125),
        Account("big", "spot", "thrown away", "copy"): Amount(1.5, 0.375),
        Account("big", "spot", "idle"): Amount(2.0 + 4.0, 1.5),
    }
    assert sum(one.seconds for one in accounts.values()) == 2.0 + (24.0 - 10.0)


def test_rows_that_each_bundle_reads_are_counted_by_the_first() -> None:
    ledger = CostLedger()
    for bundle, worker in enumerate(("d-0-1", "d-1-1")):
        ledger.asked(worker, bundle)
        ledger.hear(WorkerReady(worker, BIG, 2.0), 10.0)
        event = flush(worker, f"f{bundle}", Spent({f"v{bundle}": 3.0}, 1.0, 0.0, {}), Receipt(f"u0.{bundle}", 100, ""))
        ledger.hear(event, 20.0, [Commit((event.file,))])
        ledger.committed([event.file])
    accounts = ledger.accounts(20.0)
    assert accounts[Account("big", "spot", "reading")] == Amount(2.0, 0.5, 100)
    assert accounts[Account("big", "spot", "variant", "v1")] == Amount(3.0, 0.75, 100)


def test_what_is_not_committed_is_thrown_away_as_long_as_that_is_so() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    ledger.scores("d-1")
    assert seconds(ledger, 7.0) == {("thrown away", "not committed"): 7.0}
    event = flush("d-1", "f", SPENT, *RECEIPTS)
    ledger.hear(event, 10.0, [Commit((event.file,))])
    lost = {("thrown away", "not committed"): 6.5, ("thrown away", "copy"): 1.5, ("idle", ""): 2.0}
    assert seconds(ledger, 10.0) == lost
    assert sum(amount.rows for amount in ledger.accounts(10.0).values()) == 0
    ledger.committed([event.file])
    ledger.committed([event.file])  # said twice is said once
    assert seconds(ledger, 10.0)["variant", "old"] == 3.0
    assert sum(seconds(ledger, 10.0).values()) == 10.0


def test_a_flush_that_is_refused_never_counts() -> None:
    ledger = CostLedger()
    for worker in ("d-1", "d-2"):
        ready(ledger, worker, at=0.0, loading=0.0)
        ledger.scores(worker)
    refused, counts = flush("d-1", "f", SPENT, *RECEIPTS), flush("d-2", "f", SPENT, *RECEIPTS)
    ledger.hear(refused, 10.0, [EndWorker("d-1")])
    ledger.ended("d-1", 10.0)
    ledger.hear(counts, 10.0, [Commit((counts.file,))])
    ledger.committed([counts.file])
    accounts = ledger.accounts(10.0)
    assert accounts[Account("big", "spot", "variant", "old")] == Amount(3.0, 0.75, 150)
    assert accounts[Account("big", "spot", "thrown away", "not committed")] == Amount(8.5, 2.125)
    assert accounts[Account("big", "spot", "thrown away", "copy")] == Amount(3.0, 0.75)
    assert sum(one.seconds for one in accounts.values()) == 20.0


def test_a_flush_whose_answer_was_lost_and_that_is_told_again_hides_no_work() -> None:
    """The second answer spent nothing: what the first had told of is not idle for that."""
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    ledger.scores("d-1")
    again = flush("d-1", "empty", Spent({}, 0.0, 0.0, {}))
    ledger.hear(again, 10.0, [EndWorker("d-1")])
    ledger.ended("d-1", 10.0)
    assert seconds(ledger, 20.0) == {("thrown away", "not committed"): 10.0}


def test_a_flush_that_nobody_heeds_changes_nothing() -> None:
    """Said twice, while its worker scores again."""
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    event = flush("d-1", "f", Spent({}, 0.0, 1.0, {}))
    ledger.hear(event, 1.0, [Commit((event.file,))])
    ledger.committed([event.file])
    ledger.scores("d-1")
    ledger.hear(event, 3.0, [])
    ledger.ended("d-1", 5.0)
    assert seconds(ledger, 5.0) == {("shared", ""): 1.0, ("thrown away", "lost worker"): 4.0}


def test_a_worker_that_failed_and_lives_on_is_not_lost_by_an_error() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    ledger.scores("d-1")
    ledger.hear(WorkerFailed("d-1", ValueError()), 1.0, [])
    ledger.hear(WorkerLost("d-1", "its process died"), 5.0)
    assert seconds(ledger, 5.0) == {("thrown away", "lost worker"): 5.0}


@pytest.mark.parametrize(
    ("before", "end", "cause"),
    [
        ([], WorkerLost("d-1", "its process died"), "lost worker"),
        ([], WorkerLost("d-1", "its node was taken", preempted=True), "preemption"),
        ([WorkerDraining("d-1", "its node is drained")], WorkerLost("d-1", "it died"), "preemption"),
        ([WorkerFailed("d-1", ValueError())], None, "error"),
    ],
)
def test_a_worker_that_ends_takes_what_it_had_not_flushed_with_it(before: list, end: WorkerLost, cause: str) -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0)
    ledger.scores("d-1")
    for event in before:
        ledger.hear(event, 1.0, [EndWorker("d-1")] if isinstance(event, WorkerFailed) else [])
    if end is not None:
        ledger.hear(end, 5.0)
    ledger.ended("d-1", 5.0)
    ledger.ended("d-1", 6.0)
    assert seconds(ledger, 9.0) == {("start-up", ""): 2.0, ("thrown away", cause): 5.0}


def test_what_an_ended_worker_says_is_not_booked_again() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    ledger.scores("d-1")
    ledger.ended("d-1", 5.0)
    event = flush("d-1", "f", SPENT, *RECEIPTS)
    ledger.hear(event, 8.0)
    ledger.committed([event.file])
    ledger.hear(WorkerReady("d-1", BIG, 2.0), 9.0)
    assert seconds(ledger, 10.0) == {("thrown away", "lost worker"): 5.0}


def test_a_worker_that_ends_idle_has_thrown_nothing_away() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0, loading=0.0)
    ledger.ended("d-1", 5.0)
    assert seconds(ledger, 9.0) == {("idle", ""): 5.0}


def test_a_ledger_survives_the_round_trip() -> None:
    ledger = CostLedger()
    ready(ledger, "d-1", at=0.0)
    ready(ledger, "d-2", at=1.0, machine=Machine())
    ledger.scores("d-1")
    ledger.hear(flush("d-1", "f", SPENT, *RECEIPTS), 10.0)
    content = json.loads(json.dumps(ledger.as_json("d", 12.0)))
    assert from_json(content) == ledger.accounts(12.0)
    assert content["hosts"] == {"": 2.0 + 11.0, "host-1": 2.0 + 12.0}
    assert content["devices"] == {"": "", "host-1": "A10"}
    with pytest.raises(ValueError, match=r"^it is of version 2$"):
        from_json({**content, "version": 2})


# ---- prices ----------------------------------------------------------------------------------------------------------


def test_the_price_of_an_hour() -> None:
    assert hourly(PRICES, "big", "spot") == 1.0
    assert hourly(PRICES, "big", "on_demand") == 3.0
    assert hourly(PRICES, "big", "") == 3.0  # unknown: taken for on demand
    assert hourly(PRICES, "kept", "spot") == 2.0
    assert hourly(PRICES, "another", "spot") == 1.2
    assert hourly(PricesSpec.model_validate({"big": 1.0}), "another", "") is None
    assert hourly(None, "big", "") is None


def test_a_worker_costs_its_share_of_its_machine() -> None:
    accounts = {
        Account("big", "spot", "idle"): Amount(7200.0, 1800.0),
        Account("local", "", "idle"): Amount(60.0, 60.0),
    }
    assert cost(accounts, PRICES) == pytest.approx(0.5 + 1.2 / 60)
    assert cost(accounts, None) is None
    assert cost({}, None) == 0.0


def test_a_limit_is_of_the_whole_run() -> None:
    hour = {Account("local", "", "idle"): Amount(3600.0, 3600.0)}
    assert Limits(prices=PRICES, before=hour).spent(hour) == pytest.approx(2.4)
    assert hour == {Account("local", "", "idle"): Amount(3600.0, 3600.0)}


def test_accounts_are_added_by_their_name() -> None:
    accounts = {Account("a", "", "idle"): Amount(1.0, 1.0)}
    add(accounts, {Account("a", "", "idle"): Amount(2.0, 1.0, 3), Account("b", "", "idle"): Amount(4.0)})
    assert accounts == {Account("a", "", "idle"): Amount(3.0, 2.0, 3), Account("b", "", "idle"): Amount(4.0)}
