"""How often 95 % intervals hold the truth, and how often a variant passes that should not: on simulated users.

All numbers come out of the package's own path: blocks, accumulators, metrics, evidence, tables, gates. Only the rows
are made up (`worlds.py`), so that the truth is known: it is the mean over millions of independent rows of that law.

    .venv/bin/python -m benchmarks.coverage [--quick] [--repetitions N] [--sizes 2000 20000] [--studies binary rare]

Axes: n rows, V models, C classes, R repetitions.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from assay import catalogue
from assay.catalogue import family_of
from assay.gates.cases import measure
from assay.gates.judge import ALPHA, conclude
from assay.hashing import own_buckets, pair_hash, with_seed
from assay.metrics.parse import parse
from assay.protocols import Metric
from assay.records import Block, Plan, Sizes, SliceTable, State, StateChoice, StateKey, Tally, Task, Verdict, View
from assay.spec.model import GateSpec
from assay.stats.estimate import gather
from assay.stats.evidence import VariantEvidence
from assay.stats.max_t import SimultaneousIntervals, members_of
from assay.stats.tables import tabulate
from assay.testing import make_block
from benchmarks.worlds import LAWS, NOISE, Crowd, Law, World

SEED = 20_240
NUM_BUCKETS = 64
CONFIDENCE = 0.95
TWO_SIDED = 1.959964
TASK = "main"
BASELINE, CANDIDATE = "baseline", "candidate"
CROWD, DAYS = Crowd(), Crowd(day_effect=0.4)
EXACT = StateChoice(exact_ranking=True, bucketed="all")
BINNED = StateChoice(exact_ranking=False, bucketed="all")
REPETITIONS = {2_000: 2_000, 20_000: 800, 200_000: 150}
SMALLER = (2_000, 20_000)
BATCH_ROWS = 40_000
TRUTH_ROWS = 1_000_000
FAMILY_ROWS = 2_000
NUM_NULL = 200

RANKING = ("auc", "average_precision")
BINARY = (
    "log_loss",
    "normalised_entropy",
    "brier",
    "calibration_ratio",
    "accuracy(threshold=0.2)",
    "f1(threshold=0.2)",
    "ece",
    "ks",
    "precision_at(fraction=0.1)",
    *RANKING,
)
MEANS = ("log_loss", "calibration_ratio", "accuracy(threshold=0.2)", "auc")
REAL = ("rmse", "mae", "bias", "r2", "error_quantile", "pinball(quantile=0.9)")
CLASSES = ("accuracy", "log_loss", "macro_f1", "cohens_kappa", "macro_auc")

Floats = NDArray[np.float64]
Quantity = Literal["value", "difference"]
Clusters = Literal["users", "rows", "users and days"]
Buckets = Mapping[View, NDArray[np.int32]]
"""View -> [n] the bucket of each row's cluster; with two of them also by the second, and by both."""


@dataclass(frozen=True, slots=True)
class Study:
    """Intervals of these metrics over worlds of one law. Metrics that the package does not have are left out."""

    title: str
    law: str
    metrics: tuple[str, ...]
    crowd: Crowd = CROWD
    choice: StateChoice = EXACT
    clusters: Clusters = "users"
    sizes: tuple[int, ...] = ()  # only these; all that are asked for when empty

    @property
    def batch_worlds(self) -> bool:
        """Whether several worlds may stand in one state, each a slice: binned states are coarser in slices."""
        return self.choice.exact_ranking


STUDIES = {
    "binary": Study("0/1 labels, one positive in nine, exact states", "binary", BINARY),
    "binned": Study("The same rows, binned ranking states", "binary", RANKING, choice=BINNED),
    "real": Study("Real labels", "real", REAL),
    "classes": Study("Five classes", "classes", CLASSES),
    "rare": Study("One positive in a hundred, exact states", "rare", BINARY),
    "rare-binned": Study("The same rows, binned ranking states", "rare", RANKING, choice=BINNED),
    "rows": Study("WRONG: rows hashed instead of users", "binary", MEANS, clusters="rows", sizes=SMALLER),
    "two-way": Study(
        "Effects of users and of 60 days", "binary", MEANS, DAYS, clusters="users and days", sizes=SMALLER
    ),
    "two-way-users": Study("WRONG: the same rows, users alone", "binary", MEANS, DAYS, sizes=SMALLER),
    **{
        f"users-{number}": Study(f"{number} users in all", "binary", BINARY, Crowd(num_users=number), sizes=(2_000,))
        for number in (10, 20, 40)
    },
}


class Sample(NamedTuple):
    """One metric's value, or difference, in R repetitions; low and high are NaN where there is no interval."""

    value: Floats  # [R]
    low: Floats  # [R]
    high: Floats  # [R]

    @property
    def width(self) -> Floats:
        return self.high - self.low


class Truth(NamedTuple):
    """What a value, or a difference, tends to with more rows, and the Monte-Carlo error of that number."""

    value: float
    error: float


class Cell(NamedTuple):
    """What one sample says."""

    coverage: float  # of the intervals there are
    error: float  # Monte-Carlo standard error of the coverage, were it nominal
    width: float  # mean width over that of a normal interval with the true standard error
    missing: float  # share of repetitions without interval
    bias: float  # of the value, in standard errors
    truth_error: float  # of the truth, in standard errors


SAME_ROWS = (("binary", "binned"), ("rare", "rare-binned"))
"""Studies of exact and of binned states."""

Samples = Mapping[tuple[str, Quantity], Sample]
Truths = Mapping[tuple[str, Quantity], Truth]


def main() -> None:
    arguments = parse_arguments()
    console, started = Console(), time.process_time()
    for name in arguments.studies:
        study = STUDIES[name]
        sizes = [size for size in study.sizes or arguments.sizes if size in arguments.sizes]
        samples = {size: simulate(study, size, repetitions_of(arguments, size)) for size in sizes}
        if any(samples.values()):
            console.print(as_table(study, samples, arguments.truths))
        console.print(f"{time.process_time() - started:.0f} s of CPU time so far")
    if arguments.states:
        console.print(states_table(arguments))
    if arguments.family:
        console.print(family_table(arguments.family_repetitions))
    console.print(f"{time.process_time() - started:.0f} s of CPU time in all")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute: small sizes and few repetitions")
    parser.add_argument("--repetitions", type=int, help="for every size; by default fewer where there are more rows")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(REPETITIONS))
    parser.add_argument("--studies", nargs="*", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--truths", type=int, default=10, help="millions of rows behind the truth")
    parser.add_argument("--no-states", dest="states", action="store_false", help="leave out exact against binned")
    parser.add_argument("--no-family", dest="family", action="store_false", help="leave out the family-wise error")
    parser.add_argument("--family-repetitions", type=int, default=300)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sizes, arguments.truths, arguments.family_repetitions = [2_000], 2, 20
        arguments.repetitions = arguments.repetitions or 150
    return arguments


def repetitions_of(arguments: argparse.Namespace, size: int) -> int:
    return int(arguments.repetitions or REPETITIONS.get(size, 400))


# ---- from worlds to what a reader sees -------------------------------------------------------------------------------


@lru_cache
def simulate(study: Study, num_rows: int, repetitions: int) -> dict[tuple[str, Quantity], Sample]:
    """The intervals of every metric that there is, in so many worlds of that size."""
    law, metrics = LAWS[study.law], known_metrics(LAWS[study.law], study.metrics)
    if not metrics:
        return {}
    batch = max(1, BATCH_ROWS // num_rows) if study.batch_worlds else 1
    parts = []
    for first in range(0, repetitions, batch):
        numbers = range(first, min(first + batch, repetitions))
        worlds = [draw(study, num_rows, number) for number in numbers]
        buckets = [buckets_of(world, study.clusters, number) for world, number in zip(worlds, numbers, strict=True)]
        parts.append(intervals_of(law, metrics, study.choice, worlds, buckets))
    return {
        key: Sample(*(np.concatenate(one) for one in zip(*(part[key] for part in parts), strict=True)))
        for key in parts[0]
    }


def draw(study: Study, num_rows: int, repetition: int, noise: tuple[float, ...] = NOISE) -> World:
    """A world by its number: the same rows whatever else is asked for."""
    key = (zlib.crc32(f"{study.law} {study.crowd}".encode()), num_rows, repetition)
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))
    return LAWS[study.law].draw(rng, num_rows, study.crowd, noise)


def buckets_of(world: World, clusters: Clusters, seed: int) -> Buckets:
    """By the hashes that a run takes; clusters that are few have a bucket each."""
    if clusters == "rows":
        return {"": _buckets(with_seed(np.arange(len(world.user), dtype=np.uint64), seed))}
    user = with_seed(world.user.astype(np.uint64), seed)
    if clusters == "users":
        return {"": _buckets(user)}
    day = with_seed(world.day.astype(np.uint64), seed)
    return {"": _buckets(user), "second": _buckets(day), "both": _buckets(pair_hash(user, day))}


def _buckets(hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    own = np.unique(hashes)
    return own_buckets(hashes, own if len(own) <= NUM_BUCKETS else own[:0], NUM_BUCKETS)[0]


def intervals_of(
    law: Law,
    metrics: Sequence[Metric],
    choice: StateChoice,
    worlds: Sequence[World],
    buckets: Sequence[Buckets],
) -> dict[tuple[str, Quantity], Sample]:
    """The values and paired differences of two models, as the result tables have them. Each world is a slice."""
    slices = np.repeat(np.arange(len(worlds)), [len(world.user) for world in worlds])[None]
    sizes = Sizes(len(worlds), NUM_BUCKETS)
    names = (BASELINE, CANDIDATE)
    blocks = {name: block_of(law, worlds, position, slices) for position, name in enumerate(names)}
    views = {view: np.concatenate([one[view] for one in buckets]) for view in buckets[0]}
    evidence = dict(zip(names, evidence_of(law, metrics, choice, sizes, blocks, views), strict=True))
    tables = tabulate(evidence[CANDIDATE], slice_names(len(worlds)))
    found: dict[tuple[str, Quantity], Sample] = {}
    quantities: tuple[tuple[Quantity, object], ...] = (("value", tables.metrics), ("difference", tables.comparisons))
    for quantity, table in quantities:
        columns = {name: numbers_of(table, name) for name in (quantity, "low", "high")}
        for position, metric in enumerate(metrics):
            rows = slice(position * len(worlds), (position + 1) * len(worlds))
            found[metric.name, quantity] = Sample(*(column[rows] for column in columns.values()))
    return found


def evidence_of(
    law: Law,
    metrics: Sequence[Metric],
    choice: StateChoice,
    sizes: Sizes,
    blocks: Mapping[str, Block],
    buckets: Buckets,
) -> Iterator[VariantEvidence]:
    """What a run would know of the variants that scored these blocks; the first is the baseline."""
    task = Task(TASK, "label", law.label_kind, None, tuple(one.name for one in metrics), law.classes)
    states: dict[StateKey, State] = {}
    for (name, block), (view, bucket) in product(blocks.items(), buckets.items()):
        for one in catalogue.accumulators(metrics, choice.of(task)):
            state = one.update(one.zero(sizes), replace(block, bucket=bucket))
            states[StateKey(TASK, name, one.identity, "scored", view)] = state
    plan = plan_of(task, choice, sizes, len(buckets))
    return gather(Tally((), states), plan, {TASK: metrics}, list(blocks), next(iter(blocks)))


def plan_of(task: Task, choice: StateChoice, sizes: Sizes, num_views: int) -> Plan:
    """What evaluation needs of a plan."""
    return Plan(
        units=(),
        fragments=(),
        tasks=(task,),
        slices=SliceTable((), slice_names(sizes.num_slices)),
        sizes=sizes,
        choice=choice,
        weight_exponent=0,
        columns=(),
        micro_batch=1,
        seed=SEED,
        fingerprints={},
        identity="",
        identity_parts={},
        state_bytes=0,
        num_rows=None,
        clusters=((),) * num_views,
    )


def slice_names(number: int) -> tuple[str, ...]:
    return tuple(f"world={one}" for one in range(number))


def block_of(law: Law, worlds: Sequence[World], model: int, slices: NDArray[np.int64]) -> Block:
    """What one model makes of the rows of several worlds, all in one bucket."""
    label = np.concatenate([world.label for world in worlds])
    scores = np.concatenate([world.scores[model] for world in worlds], axis=-1)
    return make_block(
        scores,
        label,
        label_kind=law.label_kind,
        probability=law.label_kind != "real",
        slices=slices,
        bucket=np.zeros(len(label), np.int32),
    )


def known_metrics(law: Law, names: Sequence[str]) -> tuple[Metric, ...]:
    """The metrics that there are for the law's labels."""
    family = family_of(law.label_kind)
    places = catalogue.metric_places(family)
    return tuple(catalogue.metric(name, family) for name in names if parse(name)[0] in places)


def numbers_of(table: object, name: str) -> Floats:
    """A column of a result table, NaN where null. object: pyarrow is untyped here."""
    column = table[name]  # type: ignore[index]  # a pyarrow.Table
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


# ---- the truth -------------------------------------------------------------------------------------------------------


@lru_cache
def truths(law: str, day_effect: float, millions: int) -> dict[tuple[str, Quantity], Truth]:
    """Of every metric that a study of the law asks for: the mean over so many worlds of a million independent rows."""
    names = tuple(dict.fromkeys(name for one in STUDIES.values() if one.law == law for name in one.metrics))
    study = Study("", law, names, crowd=Crowd(independent=True, day_effect=day_effect))
    found = [_whole(LAWS[law], names, draw(study, TRUTH_ROWS, number)) for number in range(millions)]
    return {key: Truth(*_mean_and_error(np.array([one[key] for one in found]))) for key in found[0]}


def _whole(law: Law, names: Sequence[str], world: World) -> dict[tuple[str, Quantity], float]:
    metrics, sizes, overall = known_metrics(law, names), Sizes(1, 1), np.zeros((1, len(world.user)), np.int64)
    values = []
    for model in range(len(world.scores)):
        block = block_of(law, [world], model, overall)
        choice = replace(EXACT, classes=law.classes)
        states = {one.identity: one.update(one.zero(sizes), block) for one in catalogue.accumulators(metrics, choice)}
        values.append([float(metric.evaluate(states, choice, 1.0).value[0]) for metric in metrics])
    found: dict[tuple[str, Quantity], float] = {}
    for metric, base, own in zip(metrics, *values, strict=True):
        found[metric.name, "value"], found[metric.name, "difference"] = own, own - base
    return found


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


# ---- coverage --------------------------------------------------------------------------------------------------------


def cell_of(sample: Sample, truth: Truth) -> Cell:
    """Coverage, width and what is missing, of one sample."""
    known = ~np.isnan(sample.low)
    covered = (sample.low <= truth.value) & (truth.value <= sample.high)
    deviation = float(np.nanstd(sample.value, ddof=1))
    number = int(known.sum())
    return Cell(
        coverage=float(covered[known].mean()) if number else math.nan,
        error=math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / number) if number else math.nan,
        width=float(sample.width[known].mean() / (2 * TWO_SIDED * deviation)) if number and deviation else math.nan,
        missing=1.0 - number / len(known),
        bias=(float(np.nanmean(sample.value)) - truth.value) / deviation if deviation else math.nan,
        truth_error=truth.error / deviation if deviation else math.nan,
    )


def as_table(study: Study, samples: Mapping[int, Samples], millions: int) -> Table:
    """A row per metric, two columns per size."""
    number = {size: len(next(iter(several.values())).value) for size, several in samples.items()}
    caption = "; ".join(
        f"{size:,} rows: {several:,} repetitions, +-{math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / several):.3f}"
        for size, several in number.items()
    )
    table = Table(title=study.title, caption=caption)
    table.add_column("metric")
    for size in samples:
        for quantity in ("value", "difference"):
            table.add_column(f"{size:,}\n{quantity}", justify="right")
    known = truths(study.law, study.crowd.day_effect, millions)
    first = next(iter(samples.values()))
    for name in dict.fromkeys(name for name, _ in first):
        cells = [
            shown(cell_of(several[name, quantity], known[name, quantity]))
            for several in samples.values()
            for quantity in ("value", "difference")
        ]
        table.add_row(name, *cells)
    return table


def shown(cell: Cell) -> str:
    """`0.948 (1.02)`: coverage, and the width in the ideal one's; what is unusual about it after that."""
    if math.isnan(cell.coverage):
        return "no interval"
    words = f"{cell.coverage:.3f} ({cell.width:.2f})"
    if cell.missing > 0.0005:
        words += f" -{100 * cell.missing:.1f}%"
    if abs(cell.bias) > 0.25:
        words += f" bias {cell.bias:+.1f}"
    return words


def states_table(arguments: argparse.Namespace) -> Table:
    """Widths of intervals from binned states over those from exact ones, on the same rows."""
    table = Table(title="Interval widths, binned over exact states: 5 %, 50 % and 95 % quantile")
    for heading in ("law", "rows", "metric", "of values", "of differences"):
        table.add_column(heading)
    for (name, other), size in product(SAME_ROWS, arguments.sizes):
        number = repetitions_of(arguments, size)
        exact, binned = (simulate(STUDIES[one], size, number) for one in (name, other))
        for metric in RANKING:
            ratios = [_quantiles(binned[metric, one].width / exact[metric, one].width) for one in QUANTITIES]
            table.add_row(name, f"{size:,}", metric, *ratios)
    return table


QUANTITIES: tuple[Quantity, ...] = ("value", "difference")


def _quantiles(ratio: Floats) -> str:
    known = ratio[~np.isnan(ratio)]
    if not len(known):
        return "no interval"
    return " ".join(f"{one:.3f}" for one in np.quantile(known, [0.05, 0.5, 0.95]))


# ---- many variants ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """What was claimed of variants that are all exactly at their margin, in one repetition."""

    alone: bool  # one would pass if it were the only one
    passes: bool  # one passes
    fails: bool  # one fails
    plain: bool  # the plain interval of one leaves out the truth, which is 0
    simultaneous: bool  # so does the simultaneous one


@dataclass(frozen=True, slots=True)
class FamilyStudy:
    """So many variants that are as good as the baseline, to the last digit of the truth."""

    metric: str
    choice: StateChoice = EXACT
    num_rows: int = FAMILY_ROWS
    num_variants: int = NUM_NULL
    gate: Mapping[str, object] = field(default_factory=lambda: {"margin": 0.0})


FAMILY_STUDIES = (
    FamilyStudy("log_loss"),
    FamilyStudy("auc", num_variants=50),
    FamilyStudy("log_loss", num_variants=20),
)


def judged(study: FamilyStudy, repetition: int) -> Judged:
    """The gate's verdicts on every variant of one world."""
    law, worlds = LAWS["binary"], Study("", "binary", (study.metric,))
    world = draw(worlds, study.num_rows, repetition, noise=(NOISE[0],) * (1 + study.num_variants))
    bucket, sizes = buckets_of(world, "users", repetition), Sizes(1, NUM_BUCKETS)
    metrics, slices = known_metrics(law, [study.metric]), np.zeros((1, study.num_rows), np.int64)
    blocks = {f"variant {model}": block_of(law, [world], model, slices) for model in range(1 + study.num_variants)}
    gates = [GateSpec(metric=metrics[0].name, **study.gate)]  # type: ignore[arg-type]  # one rule, by its name
    table, simultaneous, cases = SliceTable((), ("overall",)), SimultaneousIntervals(), []
    for one in evidence_of(law, metrics, study.choice, sizes, blocks, bucket):
        if one.compared:
            simultaneous.add(members_of(one))
            cases.append((one.variant, measure(gates, one, table)))
    verdicts = conclude(gates, cases)
    return Judged(
        alone=any(case.p_pass <= ALPHA for _, several in cases for case in several),
        passes=_any(verdicts, lambda one: one.outcome == "pass"),
        fails=_any(verdicts, lambda one: one.outcome == "fail"),
        plain=any(case.low > 0 or case.high < 0 for _, several in cases for case in several),
        simultaneous=any(low > 0 or high < 0 for low, high in simultaneous.limits().values()),
    )


def _any(verdicts: Sequence[Verdict], holds: Callable[[Verdict], bool]) -> bool:
    return any(holds(one) for one in verdicts)


FIELDS = ("alone", "passes", "fails", "plain", "simultaneous")


def family_table(repetitions: int) -> Table:
    """How often any variant is claimed to be what none is."""
    nominal, both = (math.sqrt(rate * (1 - rate) / repetitions) for rate in (ALPHA, 1 - CONFIDENCE))
    caption = (
        f"{repetitions} repetitions of {FAMILY_ROWS:,} rows; +-{nominal:.3f} for the gates, +-{both:.3f} for intervals"
    )
    table = Table(title="Variants that are all exactly at their margin: chance that any is claimed", caption=caption)
    table.add_column("metric")
    for heading in ("variants", "passes, each alone", "passes", "fails", "out of its interval", "out of max-t"):
        table.add_column(heading, justify="right")
    for study in FAMILY_STUDIES:
        found = [judged(study, number) for number in range(repetitions)]
        rates = [np.mean([getattr(one, name) for one in found]) for name in FIELDS]
        table.add_row(study.metric, str(study.num_variants), *(f"{rate:.3f}" for rate in rates))
    return table


if __name__ == "__main__":
    main()
