"""What a run has cost: the ledgers of all its drivers in one table, and the limits of the next.

Lives here: reading the ledgers, prices put on them, results/cost.parquet. Not here: how a ledger comes about
(`costs.py`), and what a report says of it (`report/cost.py`).
"""

from __future__ import annotations

import pyarrow as pa

from assay.costs import HOUR, Account, Accounts, Amount, Limits, add, from_json, hourly
from assay.errors import Fault, RunError, SpecError
from assay.spec.model import PricesSpec
from assay.store.run import RunDirectory

SCHEMA = pa.schema(
    [
        ("node_type", pa.string()),
        ("market", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("seconds", pa.float64()),
        ("node_seconds", pa.float64()),
        ("rows", pa.int64()),
        ("cost", pa.float64()),
        ("on_demand_cost", pa.float64()),
        ("currency", pa.string()),
    ]
)


def spent(directory: RunDirectory) -> Accounts:
    """By all drivers that this run has had, as far as they wrote it down. RunError where that cannot be read."""
    whole: Accounts = {}
    for content in directory.costs():
        try:
            add(whole, from_json(content))
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"What this run has cost is not known: an object of costs/ in the run at {directory.place} is no "
                f"ledger of this assay ({error}). Results do not depend on it; remove it to go without."
            ) from error
    return whole


def cost_table(accounts: Accounts, prices: PricesSpec | None) -> pa.Table | None:
    """A row per account; None where nothing is recorded."""
    if not accounts:
        return None
    currency = prices.currency if prices else None
    rows = [_row(account, amount, prices) | {"currency": currency} for account, amount in sorted(accounts.items())]
    return pa.Table.from_pylist(rows, SCHEMA)


def limits(directory: RunDirectory, prices: PricesSpec | None, until: float | None, max_cost: float | None) -> Limits:
    """Of a driver that is about to go on."""
    return Limits(until, max_cost, prices, spent(directory) if max_cost is not None else {})


def check_limits(prices: PricesSpec | None, max_cost: float | None) -> None:
    """SpecError where a cost is limited that nobody could know."""
    if max_cost is not None and (prices is None or prices.default is None):
        raise SpecError(
            [Fault("prices.default", "is required for --max-cost: a worker may come on any machine. See docs/cost.md.")]
        )


def _row(account: Account, amount: Amount, prices: PricesSpec | None) -> dict[str, str | float | None]:
    price = hourly(prices, account.node_type, account.market)
    on_demand = hourly(prices, account.node_type, "on_demand")
    needless = account.kind == "thrown away" and account.name == "preemption"
    hours = amount.node_seconds / HOUR
    return {
        "node_type": account.node_type,
        "market": account.market or None,
        "kind": account.kind,
        "name": account.name or None,
        "seconds": amount.seconds,
        "node_seconds": amount.node_seconds,
        "rows": amount.rows if account.kind in ("variant", "reading") else None,
        "cost": None if price is None else price * hours,
        "on_demand_cost": None if on_demand is None else 0.0 if needless else on_demand * hours,
    }
