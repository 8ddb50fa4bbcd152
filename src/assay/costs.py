"""What the workers of a run spend their seconds on, and what these cost: pure arithmetic, no clock, no files.

Lives here: a worker's own timesheet, a driver's ledger of all its workers, prices, and the limits of a run. Not here:
when a driver writes its ledger down (`drive.py`), and the table of a run (`pipeline/cost.py`).

Every second of a worker, from the moment it began to load until it ended, is in one account. What a worker did counts
as scoring, reading or shared work once the flush that holds it is committed; until then, and for ever if it never is,
it is thrown away. So a ledger that is written down at any moment says what would be so if its driver died now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from assay.orders import Commit, EndWorker, Event, Flushed, Order, WorkerDraining, WorkerFailed, WorkerLost, WorkerReady
from assay.records import CommittedFile, Machine, Market, Preparing, Spent, Worked
from assay.spec.model import PricesSpec

Kind = Literal["variant", "reading", "shared", "start-up", "idle", "thrown away", "preparing", "places", "joining"]
"""The last three are no worker's: what tasks did that prepare apart from the workers, for how long they might have, and
what joins of predictions took."""
Cause = Literal["copy", "error", "preemption", "lost worker", "not committed"]
"""Why seconds were thrown away: another worker was faster, the unit failed, the machine was taken, the worker died, its
flush was refused or the driver ended before it."""
VERSION = 1
HOUR = 3600.0


class Account(NamedTuple):
    """What seconds are booked under."""

    node_type: str
    market: Market
    kind: Kind
    name: str = ""  # of the variant or preparation; why it is thrown away; how many places there were


class Amount(NamedTuple):
    """What is booked."""

    seconds: float = 0.0
    node_seconds: float = 0.0  # seconds times the worker's share of its machine: what a price is multiplied with
    rows: int = 0  # read, of committed units: all of them under "reading", those that it scored under a variant

    def plus(self, other: Amount) -> Amount:
        return Amount(self.seconds + other.seconds, self.node_seconds + other.node_seconds, self.rows + other.rows)


Accounts = dict[Account, Amount]


def add(accounts: Accounts, more: Mapping[Account, Amount]) -> None:
    """Into the first."""
    for account, amount in more.items():
        accounts[account] = accounts.get(account, Amount()).plus(amount)


# ---- a worker --------------------------------------------------------------------------------------------------------


class Timesheet:
    """Of one worker, from flush to flush. Seconds of a unit are held until it is accepted, as its partial is."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[float, float, Mapping[str, float]]] = {}
        self._clear()

    def hold(self, unit: str, seconds: float, reading: float, scoring: Mapping[str, float]) -> None:
        """A unit took so long in all, of which it waited for rows, and each variant took its part."""
        self._held[unit] = (seconds, reading, scoring)

    def keep(self, unit: str) -> None:
        """It is accepted."""
        seconds, reading, scoring = self._held.pop(unit)
        for name, one in scoring.items():
            self._scoring[name] += one
        self._reading += reading
        self._shared += seconds - reading - sum(scoring.values())

    def throw_away_held(self) -> None:
        """What is not accepted by now never will be: another worker was faster."""
        for seconds, _, _ in self._held.values():
            self.throw_away("copy", seconds)
        self._held.clear()

    def throw_away(self, cause: Cause, seconds: float) -> None:
        self._thrown_away[cause] += seconds

    def share(self, seconds: float) -> None:
        """Work that is no variant's own."""
        self._shared += seconds

    def take(self) -> Spent:
        """All since the last time; what is held stays."""
        spent = Spent(dict(self._scoring), self._reading, self._shared, dict(self._thrown_away))
        self._clear()
        return spent

    def _clear(self) -> None:
        self._scoring: defaultdict[str, float] = defaultdict(float)
        self._thrown_away: defaultdict[str, float] = defaultdict(float)
        self._reading = self._shared = 0.0


# ---- a driver --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Member:
    machine: Machine
    since: float  # up to here its seconds are booked
    leads: bool = True  # of the first bundle: each bundle reads all rows, and they are counted once
    scored: bool = False  # since then it was told to score
    cause: Cause = "lost worker"  # of what it has not flushed, if it ends


class CostLedger:
    """All workers of one driver, by what it sees of them. Times are seconds on the driver's clock."""

    def __init__(self) -> None:
        self._booked: Accounts = {}
        self._hosts: defaultdict[str, float] = defaultdict(float)
        self._devices: dict[str, str] = {}  # by host: what its workers compute on
        self._asked: dict[str, int] = {}  # worker -> bundle
        self._members: dict[str, _Member] = {}
        self._flushes: dict[str, tuple[Machine, Accounts]] = {}  # by state file: those that are being committed

    def hear(self, event: Event, at: float, orders: Sequence[Order] = ()) -> None:
        """What a worker said, or what became of it; and the orders that followed: a flush is committed, or refused."""
        if isinstance(event, WorkerReady):
            self._ready(event, at)
        elif isinstance(event, Flushed):
            if any(isinstance(order, Commit) and event.file in order.files for order in orders):
                self._flushed(event, at)
            elif _ends(event, orders):
                self._refused(event, at)
        elif isinstance(event, WorkerDraining | WorkerFailed) and event.incarnation in self._members:
            if isinstance(event, WorkerDraining):
                self._members[event.incarnation].cause = "preemption"
            elif _ends(event, orders):
                self._members[event.incarnation].cause = "error"
        elif isinstance(event, WorkerLost):
            self.ended(event.incarnation, at, preempted=event.preempted)

    def asked(self, incarnation: str, bundle: int = 0) -> None:
        """A worker of a bundle is to start."""
        self._asked[incarnation] = bundle

    def scores(self, incarnation: str) -> None:
        """It was told to score a unit."""
        if incarnation in self._members:
            self._members[incarnation].scored = True

    def committed(self, files: Iterable[CommittedFile]) -> None:
        """What these hold counts."""
        for file in files:
            _, accounts = self._flushes.pop(file.file, (None, {}))
            add(self._booked, accounts)

    def ended(self, incarnation: str, at: float, preempted: bool = False) -> None:
        """A worker is no more. Said twice is said once."""
        self._asked.pop(incarnation, None)
        member = self._members.pop(incarnation, None)
        if member is not None:
            add(self._booked, _open(member, at, "preemption" if preempted else member.cause))
            self._hosts[member.machine.host] += at - member.since

    def prepared(self, told: Preparing) -> None:
        """Tasks apart from the workers did so, or might have. A place holds no machine while no task works."""
        if told.num_places:
            account = Account(told.machine.node_type, told.machine.market, "places", str(told.num_places))
            add(self._booked, {account: Amount(told.seconds)})
        else:
            add(self._booked, _accounts(told.machine, "preparing", told.seconds, told.name))

    def joined(self, told: Worked) -> None:
        """A join was done, or a step towards one; done twice, it is booked twice."""
        add(self._booked, _accounts(told.machine, "joining", told.seconds))

    def accounts(self, at: float) -> Accounts:
        """All so far. What is not committed is thrown away, as it is if nothing more comes."""
        whole = dict(self._booked)
        for machine, accounts in self._flushes.values():
            add(whole, _thrown_away(machine, accounts))
        add(whole, _all_open(self._members.values(), at))
        return whole

    def as_json(self, driver: str, at: float) -> dict[str, Any]:  # Any: JSON
        """What `from_json` reads back, and each host's seconds and device, for who looks for a slow one."""
        hosts = self._hosts.copy()
        for member in self._members.values():
            hosts[member.machine.host] += at - member.since
        accounts = sorted(self.accounts(at).items())
        return {
            "version": VERSION,
            "driver": driver,
            "accounts": [[*account, *amount] for account, amount in accounts],
            "hosts": dict(sorted(hosts.items())),
            "devices": dict(sorted(self._devices.items())),
        }

    def _ready(self, event: WorkerReady, at: float) -> None:
        """It has loaded. What it waited for before, such as room on the cluster, is nobody's."""
        if event.incarnation in self._asked:  # or it has ended meanwhile
            bundle = self._asked.pop(event.incarnation)
            self._members[event.incarnation] = _Member(event.machine, at, leads=bundle == 0)
            add(self._booked, _accounts(event.machine, "start-up", event.seconds))
            self._hosts[event.machine.host] += event.seconds
            self._devices[event.machine.host] = event.machine.device

    def _flushed(self, event: Flushed, at: float) -> None:
        """Of a worker that has ended nothing is booked again: what it did was thrown away then."""
        member = self._members.get(event.incarnation)
        if member is None:
            return
        machine, elapsed = member.machine, at - member.since
        member.since, member.scored = at, False
        self._hosts[machine.host] += elapsed
        accounts = _of_flush(machine, event.file, event.spent or Spent({}, 0.0, 0.0, {}), elapsed, member.leads)
        self._flushes[event.file.file] = (machine, accounts)

    def _refused(self, event: Flushed, at: float) -> None:
        """It flushed what nobody accepted, and ends for it. What it spent need not be told by this flush: an answer
        that got lost may have had it. So all of its time is thrown away, by the causes that are known."""
        member = self._members.get(event.incarnation)
        if member is None:
            return
        spent = event.spent or Spent({}, 0.0, 0.0, {})
        elapsed = at - member.since
        self._hosts[member.machine.host] += elapsed
        member.since = at
        known = min(elapsed, sum(spent.thrown_away.values()))
        for cause, seconds in spent.thrown_away.items():
            scale = known / (sum(spent.thrown_away.values()) or 1.0)
            add(self._booked, _accounts(member.machine, "thrown away", seconds * scale, cause))
        add(self._booked, _accounts(member.machine, "thrown away", elapsed - known, "not committed"))


def _ends(event: Flushed | WorkerFailed, orders: Sequence[Order]) -> bool:
    """Did what it said end this worker?"""
    return any(isinstance(order, EndWorker) and order.incarnation == event.incarnation for order in orders)


def from_json(content: Mapping[str, Any]) -> Accounts:  # Any: JSON
    """ValueError, TypeError or KeyError for what is no ledger."""
    if content["version"] != VERSION:
        raise ValueError(f"it is of version {content['version']}")
    return {
        Account(node_type, market, kind, name): Amount(float(seconds), float(node_seconds), int(rows))
        for node_type, market, kind, name, seconds, node_seconds, rows in content["accounts"]
    }


def _accounts(machine: Machine, kind: Kind, seconds: float, name: str = "", rows: int = 0) -> Accounts:
    account = Account(machine.node_type, machine.market, kind, name)
    return {account: Amount(seconds, seconds * machine.share, rows)} if seconds or rows else {}


def _of_flush(machine: Machine, file: CommittedFile, spent: Spent, elapsed: float, leads: bool) -> Accounts:
    """Where the seconds between two flushes went; those that the worker did not account for it was idle. leads: the
    rows that were read are counted here."""
    accounts: Accounts = {}
    for name, seconds in spent.scoring.items():
        rows = sum(receipt.rows for receipt in file.receipts if name not in receipt.failed)
        add(accounts, _accounts(machine, "variant", seconds, name, rows))
    rows_read = sum(receipt.rows for receipt in file.receipts) if leads else 0
    add(accounts, _accounts(machine, "reading", spent.reading, rows=rows_read))
    add(accounts, _accounts(machine, "shared", spent.shared))
    for cause, seconds in spent.thrown_away.items():
        add(accounts, _accounts(machine, "thrown away", seconds, cause))
    told = sum(amount.seconds for amount in accounts.values())
    add(accounts, _accounts(machine, "idle", max(0.0, elapsed - told)))
    return accounts


def _open(member: _Member, at: float, cause: Cause) -> Accounts:
    """Since its last flush."""
    seconds = at - member.since
    if member.scored:
        return _accounts(member.machine, "thrown away", seconds, cause)
    return _accounts(member.machine, "idle", seconds)


def _all_open(members: Iterable[_Member], at: float) -> Accounts:
    """Of all workers together, as if all ended now: asked often, of many."""
    sums: dict[tuple[str, Market, bool], list[float]] = {}
    for member in members:
        machine, seconds = member.machine, at - member.since
        one = sums.setdefault((machine.node_type, machine.market, member.scored), [0.0, 0.0])
        one[0] += seconds
        one[1] += seconds * machine.share
    accounts: Accounts = {}
    for (node_type, market, scored), (seconds, node_seconds) in sums.items():
        kind: Kind = "thrown away" if scored else "idle"
        account = Account(node_type, market, kind, "not committed" if scored else "")
        add(accounts, {account: Amount(seconds, node_seconds)} if seconds else {})
    return accounts


def _thrown_away(machine: Machine, accounts: Accounts) -> Accounts:
    """What a flush that is not committed came to: its idle seconds stay idle, what was thrown away keeps its cause."""
    stay: Accounts = {account: one for account, one in accounts.items() if account.kind in ("idle", "thrown away")}
    rest = sum(one.seconds for account, one in accounts.items() if account not in stay)
    add(stay, _accounts(machine, "thrown away", rest, "not committed"))
    return stay


# ---- prices and limits -----------------------------------------------------------------------------------------------


def hourly(prices: PricesSpec | None, node_type: str, market: Market) -> float | None:
    """The price of an hour of a machine; None where there is none. One of an unknown market is taken for on demand."""
    price = None if prices is None else prices.of(node_type)
    if price is None or isinstance(price, float):
        return price
    return price.spot if market == "spot" and price.spot is not None else price.on_demand


def cost(accounts: Mapping[Account, Amount], prices: PricesSpec | None) -> float | None:
    """Of all of them; None where one of them has no price."""
    total = 0.0
    for account, amount in accounts.items():
        price = hourly(prices, account.node_type, account.market)
        if price is None:
            return None
        total += price * amount.node_seconds / HOUR
    return total


Limit = Literal["deadline", "cost"]
LIMITS: Mapping[Limit, str] = {"deadline": "Stopped at the deadline", "cost": "Stopped at --max-cost"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run is to stop, though it is not finished."""

    until: float | None = None  # on the driver's clock
    max_cost: float | None = None  # of the run, with what earlier drivers spent
    prices: PricesSpec | None = None
    before: Mapping[Account, Amount] = field(default_factory=dict)  # spent by earlier drivers

    @property
    def currency(self) -> str:
        """As it follows an amount."""
        return f" {self.prices.currency}" if self.prices and self.prices.currency else ""

    def spent(self, accounts: Mapping[Account, Amount]) -> float | None:
        """What the run has cost, with so much spent by this driver."""
        whole = dict(self.before)
        add(whole, accounts)
        return cost(whole, self.prices)


NO_LIMITS = Limits()


def time_words(seconds: float) -> str:
    """
    >>> time_words(45.2), time_words(600), time_words(9000)
    ('45 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / HOUR:,.1f} h"
