"""The line on what a run has cost."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from assay.costs import Account, Amount
from assay.pipeline.cost import cost_table
from assay.records import Results
from assay.report.cost import cost_line
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
    expected = "Cost: 40 s of workers (75 % scoring, 0 % reading, 0 % idle, 25 % thrown away)."
    assert line(results, accounts, None) == expected


def test_of_an_older_run_nothing_is_said(results: Results) -> None:
    assert cost_line(results) == ""
    assert "Cost:" not in markdown(results)


def test_it_ends_the_report(results: Results) -> None:
    results = replace(results, cost=cost_table(ACCOUNTS, PRICES))
    out = StringIO()
    Console(file=out, width=200).print(render(results))
    assert out.getvalue().rstrip().endswith(cost_line(results))
    assert f"<sub>{cost_line(results)}</sub>" in markdown(results)
