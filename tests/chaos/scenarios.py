"""What is done to runs: one record a scenario, all drawn from its seed. Not here: how it is done (`play.py`)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from chaos.stage import NUM_UNITS, Kind

LOST_CALLS = {"num_failures": -1, "req_failure_prob": 10, "resp_failure_prob": 20, "in_flight_failure_prob": 0}
UNRELIABLE_NETWORK = {"RAY_testing_rpc_failure": json.dumps({"CoreWorkerService.grpc_client.PushTask": LOST_CALLS})}
"""Ray itself loses a tenth of a driver's calls to its actors and a fifth of their answers; no seed draws them."""
FEWEST_BETWEEN = 4

Do = Literal[
    "kill actor",
    "kill all actors",
    "stop actor",
    "hang actor",
    "lose node",
    "lose two nodes",
    "replace node",
    "freeze node",
    "drain node",
    "drain and take node",
    "join node",
    "kill driver",
    "kill driver elsewhere",
    "interrupt driver",
    "wake driver",
    "start second driver",
    "litter",
    "fill disk",
    "lose joining node",
    "drain joining node",
    "kill joining driver",
]
WHILE_JOINING: tuple[Do, ...] = ("lose joining node", "drain joining node", "kill joining driver")
"""Deeds that are done while a task stands that joins the rows of a unit."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that is done while a worker stands in the middle of a unit."""

    do: Do
    at: int  # which unit, in the plan's order


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run, and what is done to it. The worker that stands goes on when the deed is done."""

    name: str
    seed: int
    deeds: tuple[Deed, ...] = ()
    kind: Kind = "strict"  # tolerant: a variant raises on some rows, on_error is continue; bounded: units are;
    #                        predicting: rows are written with what variants gave; copying: beside copied columns
    bucket: bool = False  # in a bucket of a real S3 server
    flaky: bool = False  # where one call in ten fails
    workers: int | None = 3  # None: as many as there are CPUs
    nodes: int = 3
    pace: float = 0.05  # seconds of a call, of which a unit takes two
    slow: float | None = None  # one worker takes so many times longer
    deadly: int | None = None  # who scores this unit is killed
    deaths: int = 0  # so many times
    elsewhere: bool = False  # the first driver is on another host
    breaks: str = ""  # the first driver ends with this in its last words; what was wrong is mended then
    environment: Mapping[str, str] = field(default_factory=dict)  # of drivers

    @property
    def poisonous(self) -> bool:
        """The deadly unit is given up."""
        return self.kind == "tolerant" and self.deaths > 3


def spots(seed: int, number: int, first: int = 3, last: int = NUM_UNITS - 6) -> list[int]:
    """So many units in the plan's order, some way apart."""
    chance = random.Random(seed)
    room = last - first - FEWEST_BETWEEN * (number - 1)
    return [
        place + FEWEST_BETWEEN * index
        for index, place in enumerate(sorted(chance.choices(range(first, first + room), k=number)))
    ]


def deeds(seed: int, *names: Do) -> tuple[Deed, ...]:
    """One after the other, at places drawn from the seed."""
    return tuple(Deed(name, at) for name, at in zip(names, spots(seed, len(names)), strict=True))


MIXED: tuple[Do, ...] = (
    "kill actor",
    "kill all actors",
    "stop actor",
    "replace node",
    "freeze node",
    "drain node",
    "kill driver",
    "interrupt driver",
    "litter",
)


def mixed(seed: int) -> Scenario:
    """Several at once."""
    chance = random.Random(seed)
    names = [chance.choice(MIXED) for _ in range(chance.choice((3, 4)))]
    bucket = chance.random() < 0.4
    return Scenario(
        f"mix {seed}",
        seed,
        deeds(seed, *names),
        kind=chance.choice(("strict", "tolerant")),
        bucket=bucket,
        flaky=bucket,
        slow=chance.choice((None, 5.0)),
        environment=UNRELIABLE_NETWORK if chance.random() < 0.3 else {},
    )


def poison(seed: int, deaths: int, kind: Kind) -> Scenario:
    """Some rows kill whoever scores them."""
    [at] = spots(seed, 1)
    what = f"rows that kill {deaths} times" if deaths < 10 else "rows that always kill"
    breaks = "was being scored at 4 deaths of a worker, the last time alone" if deaths > 3 and kind == "strict" else ""
    return Scenario(f"{what}, {kind}", seed, kind=kind, deadly=at, deaths=deaths, breaks=breaks)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("killed actor", 1, deeds(1, "kill actor")),
    Scenario("killed actors, one by one", 2, deeds(2, "kill actor", "kill actor", "kill actor", "kill actor")),
    Scenario("killed actors, all at once", 3, deeds(3, "kill all actors")),
    Scenario("killed actor, the last unit", 4, (Deed("kill actor", NUM_UNITS - 1),)),
    Scenario("lost node", 5, deeds(5, "lose node")),
    Scenario("lost nodes, two of three", 6, deeds(6, "lose two nodes")),
    Scenario("lost nodes, each replaced", 7, deeds(7, "replace node", "replace node")),
    Scenario("frozen node, whose worker goes on", 8, deeds(8, "freeze node")),
    Scenario("drained node, which lasts", 9, deeds(9, "drain node")),
    Scenario("drained node, taken before the unit is done", 10, deeds(10, "drain and take node")),
    Scenario("drained nodes, one after the other", 11, deeds(11, "drain node", "drain node")),
    Scenario("joining node", 12, (Deed("join node", 6),), workers=None, nodes=2),
    Scenario("joining nodes, two", 13, (Deed("join node", 5), Deed("join node", 12)), workers=None, nodes=1),
    Scenario("killed driver, early", 14, (Deed("kill driver", 2),)),
    Scenario("killed driver, late", 15, (Deed("kill driver", NUM_UNITS - 4),)),
    Scenario("killed drivers, three", 16, deeds(16, "kill driver", "kill driver", "kill driver")),
    Scenario("killed driver on another host", 17, deeds(17, "kill driver elsewhere"), elsewhere=True),
    Scenario(
        "killed driver on another host, bucket", 18, deeds(18, "kill driver elsewhere"), elsewhere=True, bucket=True
    ),
    Scenario("interrupted driver", 19, deeds(19, "interrupt driver")),
    Scenario("second driver while the first lives", 20, deeds(20, "start second driver")),
    Scenario("sleeping driver that wakes", 21, deeds(21, "wake driver"), workers=1, elsewhere=True),
    Scenario(
        "sleeping driver that wakes, bucket", 22, deeds(22, "wake driver"), workers=1, elsewhere=True, bucket=True
    ),
    Scenario("worker five times slower", 23, slow=5.0),
    Scenario("worker fifty times slower", 24, slow=50.0),
    Scenario("stopped actor that wakes", 25, deeds(25, "stop actor")),
    Scenario("stopped actor that never wakes", 26, deeds(26, "hang actor"), nodes=4),
    Scenario("only actor that never wakes", 38, deeds(38, "hang actor"), kind="bounded", workers=1, nodes=2),
    Scenario("calls and answers lost by the network", 27, environment=UNRELIABLE_NETWORK),
    poison(28, 2, "strict"),
    poison(29, 3, "strict"),
    poison(30, 99, "strict"),
    poison(31, 99, "tolerant"),
    Scenario("variant that raises", 32, kind="tolerant"),
    Scenario(
        "variant that raises, killed actor and driver", 33, deeds(33, "kill actor", "kill driver"), kind="tolerant"
    ),
    Scenario("store that fails one call in ten", 34, bucket=True, flaky=True),
    Scenario(
        "store that fails, killed actor and driver", 35, deeds(35, "kill actor", "kill driver"), bucket=True, flaky=True
    ),
    Scenario("torn and foreign state files", 36, deeds(36, "litter", "kill driver")),
    Scenario("full disk at a worker", 37, deeds(37, "fill disk")),  # the others can write: it is lost, and they go on
    Scenario("drained node of a run that writes predictions", 39, deeds(39, "drain node"), kind="predicting"),
    Scenario("lost node while it joins", 40, deeds(40, "lose joining node"), kind="predicting"),
    Scenario("drained node while it joins", 41, deeds(41, "drain joining node"), kind="predicting"),
    Scenario("killed driver while it joins", 42, deeds(42, "kill joining driver"), kind="predicting"),
    Scenario(
        "predictions, lost and drained in both phases",
        43,
        deeds(43, "lose node", "drain node", "lose joining node", "drain joining node"),
        kind="copying",
        nodes=4,
    ),
    *map(mixed, range(101, 109)),
)

SHORT = (
    "killed driver on another host",
    "store that fails, killed actor and driver",
    "predictions, lost and drained in both phases",
)
"""Of `make test`: each kind of what is lost most often, once."""
