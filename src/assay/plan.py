"""What is decided before the first row is scored: units, their order and identity, the scale of weights.

Lives here: pure functions from what footers and the spec say to a `Plan`, and its file form. Not here: reading data,
choosing metric states, fitting slices: their results come in as `Decisions`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from assay.errors import DataError, RunError
from assay.hashing import with_seed
from assay.records import Fragment, Plan, Sizes, SliceTable, StateChoice, Task, Unit

NUM_STRATA = 20
WEIGHT = "data.weight"
MOST_UNIT_ROWS = 100_000_000
"""Kernels add up to 2^30 rows between two carries; a unit stays well below."""
ROW_BYTES = 1024
"""A row whose columns take more counts as two, four, ... rows in the size of units."""
MOST_WEIGHT_BITS = 26
SUM_BITS = 63 - 5
"""A sum's upper limb is an int64 and a row adds less than 2^5 times its weight to it (see `kernels/scatter.py`)."""
PLAN_VERSION = 3
_KEY = b"assay"
_PLAN = TypeAdapter(Plan)

FirstValues = Mapping[str, Sequence[float]]
"""{path: least event time of each of its row groups}"""


@dataclass(frozen=True, slots=True)
class Decisions:
    """All that a plan is made of, decided elsewhere."""

    fragments: tuple[Fragment, ...]
    roles: Mapping[str, str]  # {"data.where": text, ...}: what gives the filter, weight, cluster and labels
    tasks: tuple[Task, ...]
    slices: SliceTable
    sizes: Sizes
    choice: StateChoice
    weight_exponent: int
    columns: tuple[str, ...]
    micro_batch: int
    seed: int
    fingerprints: Mapping[str, str]  # variant -> digest
    accumulators: tuple[str, ...]  # identities of all accumulators of the run
    settings: Mapping[str, str]  # what else results depend on: {"output": ..., "baseline": ...} -> text
    state_bytes: int
    unit_rows: int | None = None  # rows per unit that the spec asks for
    first_values: FirstValues | None = None  # orders the strata by time
    batch_rows: Mapping[str, int | None] = field(default_factory=dict)  # variant -> rows per call
    clusters: tuple[tuple[int, ...], ...] = ((),)  # see `Plan`
    confirm_fraction: float | None = None  # see `Plan`
    bundles: tuple[tuple[str, ...], ...] = ()  # see `Plan`
    num_together: int | None = None  # variants that one worker scores at most; None: all of them
    row_bytes: float = 0.0  # of the columns that are read; 0 where it is not known


def make_plan(decisions: Decisions) -> Plan:
    """The plan of a run; equal decisions give an equal plan.

    Raises DataError when there are more rows than sums can hold.
    """
    num_rows = count_rows(decisions.fragments)
    check_sums(num_rows, weighted=WEIGHT in decisions.roles)
    parts = identity_parts(decisions)
    context = identity({name: part for name, part in parts.items() if name != "data"})
    num_together = decisions.num_together or len(decisions.fingerprints)
    rows = decisions.unit_rows or target_rows(num_rows, num_together, decisions.micro_batch, decisions.row_bytes)
    pieces = make_units(
        decisions.fragments, context, rows, decisions.micro_batch, decisions.seed, first_values=decisions.first_values
    )
    return Plan(
        units=in_bundles(pieces, len(decisions.bundles)),
        fragments=decisions.fragments,
        tasks=decisions.tasks,
        slices=decisions.slices,
        sizes=decisions.sizes,
        choice=decisions.choice,
        weight_exponent=decisions.weight_exponent,
        columns=decisions.columns,
        micro_batch=decisions.micro_batch,
        seed=decisions.seed,
        fingerprints=dict(decisions.fingerprints),
        identity=identity(parts),
        identity_parts=parts,
        state_bytes=decisions.state_bytes,
        num_rows=num_rows,
        batch_rows=dict(decisions.batch_rows),
        clusters=decisions.clusters,
        confirm_fraction=decisions.confirm_fraction,
        bundles=decisions.bundles,
    )


# ---- sizes and scales ------------------------------------------------------------------------------------------------


def count_rows(fragments: Sequence[Fragment]) -> int | None:
    """All rows; None where a fragment's are not known before reading."""
    groups = [fragment.row_groups for fragment in fragments]
    return None if None in groups else sum(sum(each) for each in groups if each is not None)


def check_sums(num_rows: int | None, *, weighted: bool) -> None:
    """DataError when so many rows, all of the largest weight and contribution, could overflow a sum."""
    most = 1 << (SUM_BITS - (MOST_WEIGHT_BITS if weighted else 0))
    if num_rows is not None and num_rows > most:
        raise DataError(f"The data have {num_rows} rows, but one run holds at most {most}. Evaluate them in parts.")


def target_rows(num_rows: int | None, num_variants: int, micro_batch: int, row_bytes: float = 0.0) -> int:
    """Rows of a unit: about 4 million scores, at least 16 units, 16,384 to 262,144 rows, in whole micro-batches.

    Where the number of rows is not known, as if there were many. Rows of more than 1 KiB, such as images, are much work
    each: with these both bounds are halved until their bytes are at most those of so many rows of 1 KiB; to one row.
    """
    by_work = 4_000_000 // max(1, num_variants)
    wanted = by_work if num_rows is None else min(by_work, num_rows // 16)
    counted = rows_counted(row_bytes)
    clamped = min(max(wanted, 16_384 // counted, 1), max(1, 262_144 // counted))
    return math.ceil(clamped / micro_batch) * micro_batch


def rows_counted(row_bytes: float) -> int:
    """As how many rows one of so many bytes counts.

    >>> rows_counted(0), rows_counted(1024), rows_counted(1025), rows_counted(150_528)
    (1, 1, 2, 256)
    """
    counted = 1
    while counted * ROW_BYTES < row_bytes:
        counted *= 2
    return counted


def weight_exponent(maximum: float) -> int:
    """The exponent e for weights up to `maximum`: an integer weight w <= 2^26 stands for w * 2^e.

    The least e that lets `maximum` in, so that it comes to lie in (2^25, 2^26]: no precision is given away, and with a
    maximum of at most 2^26 every integer is exact (e <= 0). 0 when the maximum is 0. DataError when it is negative, NaN
    or infinite.

    >>> weight_exponent(1.0), weight_exponent(5.0), weight_exponent(2.0**26), weight_exponent(2.0**26 + 1)
    (-26, -23, 0, 1)
    """
    if not (math.isfinite(maximum) and maximum >= 0):
        raise DataError(f"The largest weight is {maximum}. Weights are finite numbers, 0 or more.")
    if maximum == 0:
        return 0
    mantissa, exponent = math.frexp(maximum)
    return max(exponent - (mantissa == 0.5) - MOST_WEIGHT_BITS, -1000)


# ---- units -----------------------------------------------------------------------------------------------------------


def make_units(
    fragments: Sequence[Fragment],
    context_digest: str,
    unit_rows: int,
    micro_batch: int,
    seed: int,
    first_values: FirstValues | None = None,
) -> tuple[Unit, ...]:
    """All units in the order in which they are scored.

    Row groups of a file are combined up to `unit_rows`; one of more than twice as many is split into equal parts on
    multiples of the micro-batch; a file whose rows are not known is one unit. Strata are runs of about as many
    units, by file and position (by `first_values` where given); rounds take one unit of each stratum, in an order that
    is a function of the seed. An id depends on the context, the file and the range alone.

    Raises DataError when a unit would have more than 100 million rows.
    """
    ranges = [(one, first, rows) for one in fragments for first, rows in _ranges(one, unit_rows, micro_batch)]
    for fragment, _, rows in ranges:
        if rows is not None and rows > MOST_UNIT_ROWS:
            raise DataError(
                f"A unit of {fragment.path!r} would have {rows} rows, more than {MOST_UNIT_ROWS}. "
                "Set execution.unit_rows lower."
            )
    if first_values is not None:
        ranges.sort(key=lambda one: _time_of(one[0], one[1], first_values))
    strata = [position * NUM_STRATA // max(len(ranges), NUM_STRATA) for position in range(len(ranges))]
    units = [
        Unit(_unit_id(context_digest, fragment, first, rows), fragment.path, first, rows, stratum)
        for (fragment, first, rows), stratum in zip(ranges, strata, strict=True)
    ]
    return tuple(units[position] for position in _dealt(strata, seed))


def in_bundles(pieces: Sequence[Unit], num_bundles: int) -> tuple[Unit, ...]:
    """A unit for each piece of the data and each bundle, those of one piece together; the pieces, without bundles.

    >>> [unit.id for unit in in_bundles([Unit("a", "x", 0, 10, 0), Unit("b", "x", 10, 10, 0)], 2)]
    ['a.0', 'a.1', 'b.0', 'b.1']
    """
    if num_bundles == 0:
        return tuple(pieces)
    return tuple(
        replace(piece, id=f"{piece.id}.{bundle}", bundle=bundle) for piece in pieces for bundle in range(num_bundles)
    )


def _ranges(fragment: Fragment, unit_rows: int, micro_batch: int) -> Iterator[tuple[int, int | None]]:
    """(first row, rows) of each unit of a fragment."""
    if fragment.row_groups is None:
        yield 0, None
        return
    begin, waiting = 0, 0  # rows before the next unit, rows of whole row groups that wait to be one
    for rows in fragment.row_groups:
        if waiting and waiting + rows > unit_rows:
            yield begin, waiting
            begin, waiting = begin + waiting, 0
        if rows > 2 * unit_rows:
            yield from ((begin + start, size) for start, size in _split(rows, unit_rows, micro_batch))
            begin += rows
        else:
            waiting += rows
    if waiting:
        yield begin, waiting


def _split(rows: int, unit_rows: int, micro_batch: int) -> Iterator[tuple[int, int]]:
    parts = math.ceil(rows / unit_rows)
    size = math.ceil(rows / parts / micro_batch) * micro_batch
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def _time_of(fragment: Fragment, first_row: int, first_values: FirstValues) -> tuple[float, str, int]:
    ends = np.cumsum(fragment.row_groups or (0,))
    group = int(np.searchsorted(ends, first_row, side="right"))
    return first_values[fragment.path][group], fragment.path, first_row


def _dealt(strata: Sequence[int], seed: int) -> list[int]:
    """Positions in rounds of one from each stratum; who comes first is chance."""
    chances = with_seed(np.arange(len(strata), dtype=np.uint64), seed).tolist()
    by_chance = sorted(range(len(strata)), key=lambda position: (chances[position], position))
    dealt: dict[int, int] = {}
    rounds = {}
    for position in by_chance:
        rounds[position] = dealt[strata[position]] = dealt.get(strata[position], -1) + 1
    return sorted(by_chance, key=lambda position: rounds[position])


def _unit_id(context: str, fragment: Fragment, first_row: int, num_rows: int | None) -> str:
    return _digest([context, fragment.path, fragment.size_bytes, fragment.digest, first_row, num_rows])[:16]


# ---- identity --------------------------------------------------------------------------------------------------------


def identity_parts(decisions: Decisions) -> dict[str, str]:
    """{part: digest} of all that results depend on, by names a user knows, to say what has changed."""
    models = {f"model {name}": digest for name, digest in decisions.fingerprints.items()}
    metrics = [sorted(decisions.accumulators), asdict(decisions.choice), asdict(decisions.sizes)]
    counted = 1 if decisions.unit_rows else rows_counted(decisions.row_bytes)
    return models | {
        "data": _digest([asdict(fragment) for fragment in decisions.fragments]),
        "roles": _digest([dict(decisions.roles), decisions.weight_exponent]),
        "tasks": _digest([asdict(task) for task in decisions.tasks]),
        "slices": _digest(asdict(decisions.slices)),
        "clusters": _digest([decisions.clusters, decisions.confirm_fraction]),
        "metrics": _digest(metrics),
        "execution": _digest([decisions.micro_batch, dict(decisions.batch_rows)]),
        "bundles": _digest(decisions.bundles),
        "format of assay": _digest(PLAN_VERSION),
        "seed": _digest(decisions.seed),
        "settings": _digest(dict(decisions.settings)),
        **({"units": _digest(counted)} if counted > 1 else {}),
    }


def identity(parts: Mapping[str, str]) -> str:
    """The digest of all parts, whatever their order."""
    return _digest(dict(parts))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# ---- the file --------------------------------------------------------------------------------------------------------


def encode_plan(plan: Plan) -> bytes:
    """plan.parquet: a table of units in their order (id, path, first_row, num_rows, stratum, bundle, order).

    All else is JSON in the schema's metadata, under `assay`.
    """
    header = {"version": PLAN_VERSION, "plan": _PLAN.dump_python(plan, mode="json", exclude={"units"})}
    table = pa.table(
        {
            "id": pa.array([unit.id for unit in plan.units], pa.string()),
            "path": pa.array([unit.path for unit in plan.units], pa.string()),
            "first_row": pa.array([unit.first_row for unit in plan.units], pa.int64()),
            "num_rows": pa.array([unit.num_rows for unit in plan.units], pa.int64()),
            "stratum": pa.array([unit.stratum for unit in plan.units], pa.int32()),
            "bundle": pa.array([unit.bundle for unit in plan.units], pa.int32()),
            "order": pa.array(range(len(plan.units)), pa.int64()),
        }
    ).replace_schema_metadata({_KEY: json.dumps(header, separators=(",", ":"))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_parquet(data: bytes) -> pa.Table:
    """A Parquet file in memory, read by this thread alone: a thread of pyarrow's that lets go of these bytes while the
    interpreter ends would abort the process (seen in 3 of 100 commands on a busy machine)."""
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def decode_plan(data: bytes) -> Plan:
    """The plan in a plan.parquet. RunError when it is none, or of another version."""
    try:
        table = read_parquet(data)
        header = json.loads(table.schema.metadata[_KEY])
    except (pa.ArrowException, KeyError, TypeError, ValueError):
        raise RunError("The run's plan.parquet is damaged or not a plan. Start a new run.") from None
    if header["version"] != PLAN_VERSION:
        raise RunError(
            f"The run's plan has version {header['version']}, but this assay reads {PLAN_VERSION}. "
            "Continue with the assay that wrote it, or start a new run."
        )
    units = table.sort_by("order").select(["id", "path", "first_row", "num_rows", "stratum", "bundle"]).to_pylist()
    return _PLAN.validate_python(header["plan"] | {"units": units})
