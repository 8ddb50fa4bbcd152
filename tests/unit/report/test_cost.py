"""The line on what a run has cost."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import get_args

from rich.console import Console

from assay.costs import Account, Amount, Cause, Kind
from assay.pipeline.cost import cost_table
from assay.records import Results
from assay.report.cost import APART, CAUSES, SHARES, cost_line
from assay.report.markdown import markdown
from assay.report.terminal import render
from assay.spec.model import PricesSpec

ACCOUNTS = {
    Account("big", "spot", "variant", "prod"): Amount(3600.0, 3600.0, 2_000_000),
    Account("big", "spot", "variant", "new"): Amount(1200.0, 1200.0, 2_000_000),
    Account("big", "spot", "reading"): Amount(600.0, 600.0, 2_000_000),
    Account("big", "spot", "shared"): Amount(600.0, 600.0),
    Account("big", "spot", "idle"): Amount(1200.0, 1200.0),
}
PRICES = PricesSpec.model_validate({"big": {"on_demand": 3.0, "spot": 1.0}, "currency": "USD"})


def line(results: Results, accounts: dict[Account, Amount], prices: PricesSpec | None) -> str:
    return cost_line(replace(results, cost=cost_table(accounts, prices)))


def test_with_prices(results: Results) -> None:
    assert line(results, ACCOUNTS, PRICES) == (
        "Cost: 7,200 s of workers (67 % scoring, 8 % reading, 8 % shared work, 17 % idle); 2 USD, "
        "1 USD per million rows, 6 USD on demand; prod took most, 75 % of scoring."
    )


def test_without_prices(results: Results) -> None:
    assert line(results, ACCOUNTS, None) == (
        "Cost: 7,200 s of workers (67 % scoring, 8 % reading, 8 % shared work, 17 % idle); "
        "prod took most, 75 % of scoring."
    )


def test_what_was_thrown_away_is_said(results: Results) -> None:
    accounts = {
        Account("local", "", "variant", "prod"): Amount(30.0, 30.0, 1000),
        Account("local", "", "thrown away", "copy"): Amount(10.0, 10.0),
    }
    assert line(results, accounts, None) == (
        "Cost: 40 s of workers (75 % scoring, 0 % reading, 0 % idle, 25 % thrown away). "
        "Thrown away: units that another worker scored sooner (10 s)."
    )


def test_what_was_thrown_away_is_told_by_cause_over_all_machines_the_most_first(results: Results) -> None:
    accounts = {
        Account("local", "", "variant", "prod"): Amount(80.0, 80.0, 1000),
        Account("local", "", "thrown away", "copy"): Amount(4.0, 4.0),
        Account("gpu", "spot", "thrown away", "preemption"): Amount(10.0, 10.0),
        Account("cpu", "spot", "thrown away", "preemption"): Amount(6.0, 6.0),
    }
    assert line(results, accounts, None).endswith(
        "Thrown away: units of machines that were taken back (16 s), units that another worker scored sooner (4 s)."
    )


def test_what_is_too_little_to_be_a_share_is_not_explained(results: Results) -> None:
    accounts = ACCOUNTS | {Account("big", "spot", "thrown away", "copy"): Amount(1.0, 1.0)}
    assert "hrown away" not in line(results, accounts, None)


def test_each_cause_of_the_ledger_has_its_words() -> None:
    assert set(CAUSES) == set(get_args(Cause))


def test_each_kind_of_the_ledger_has_its_share_of_the_workers_or_is_none_of_theirs() -> None:
    assert sorted([*SHARES.values(), *APART]) == sorted(get_args(Kind))


BOTH = {
    Account("gpu", "", "variant", "prod"): Amount(300.0, 300.0, 1000),
    Account("gpu", "", "shared"): Amount(110.0, 110.0),
    Account("gpu", "", "reading"): Amount(590.0, 590.0, 1000),
    Account("gpu", "", "start-up"): Amount(50.0, 50.0),
    Account("cpu", "spot", "preparing", "tokens"): Amount(3720.0, 465.0),
    Account("cpu", "spot", "places", "4"): Amount(4000.0),
}
"""A worker for 1,000 s and four tasks beside it."""


def test_both_sides_where_units_were_prepared_apart(results: Results) -> None:
    assert line(results, BOTH, None) == (
        "Cost: 1,050 s of workers (29 % scoring, 56 % reading, 10 % shared work, 0 % idle, 5 % loading variants); "
        "3,720 s of preparation tasks. Preparing: 4 tasks, 93 % busy. Scoring: 1 worker, 41 % busy. "
        "About 9.1 tasks to a worker would balance them."
    )


def test_tasks_are_paid_only_while_they_work(results: Results) -> None:
    prices = PricesSpec.model_validate({"gpu": 3.6, "cpu": {"on_demand": 7.2, "spot": 3.6}})
    assert "; 1.52, 1,515 per million rows, 1.98 on demand. Preparing" in line(results, BOTH, prices)


def test_joins_are_no_workers_and_are_paid(results: Results) -> None:
    accounts = {
        Account("gpu", "", "variant", "prod"): Amount(100.0, 100.0, 1000),
        Account("gpu", "", "reading"): Amount(0.0, 0.0, 1000),
        Account("cpu", "spot", "joining"): Amount(3600.0, 900.0),
    }
    prices = PricesSpec.model_validate({"gpu": 36.0, "cpu": {"on_demand": 8.0, "spot": 4.0}})
    assert line(results, accounts, prices) == (
        "Cost: 100 s of workers (100 % scoring, 0 % reading, 0 % idle); 3,600 s of joins; 2, 2,000 per million rows, "
        "3 on demand."
    )


def test_a_run_that_went_on_with_another_number_of_tasks(results: Results) -> None:
    """600 s with four, then 400 s with eight."""
    changed = {account: amount for account, amount in BOTH.items() if account.kind != "places"}
    changed[Account("cpu", "spot", "places", "4")] = Amount(2400.0)
    changed[Account("cpu", "spot", "places", "8")] = Amount(3200.0)
    assert "Preparing: 5.6 tasks, 66 % busy. Scoring: 1 worker, 41 % busy." in line(results, changed, None)


def test_where_workers_are_the_slower_side(results: Results) -> None:
    busy = {account: amount for account, amount in BOTH.items() if account.kind not in ("reading", "preparing")}
    busy[Account("cpu", "spot", "preparing", "tokens")] = Amount(82.0, 82.0)
    assert line(results, busy, None).endswith("About 5 workers to a task would balance them.")


def test_of_an_older_run_nothing_is_said(results: Results) -> None:
    assert cost_line(results) == ""
    assert "Cost:" not in markdown(results)


def test_it_ends_the_report(results: Results) -> None:
    results = replace(results, cost=cost_table(ACCOUNTS, PRICES))
    out = StringIO()
    Console(file=out, width=200).print(render(results))
    assert out.getvalue().rstrip().endswith(cost_line(results))
    assert f"<sub>{cost_line(results)}</sub>" in markdown(results)
