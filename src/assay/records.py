"""The frozen records that cross from one stage to the next, each field explained.

Axes used in comments here and in every module: n rows, S slices (slice 0 is `overall`), D slicing dimensions
(dimension 0 is overall), B hash buckets of the cluster, C classes (or labels) of a task that has several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.footers import EncodedChunk
from assay.spec.model import Spec
from assay.thrift import Struct

IntArray = NDArray[np.integer[Any]]  # Any: the width differs by field, each module says which
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
State = dict[str, IntArray]
"""A mergeable state: named integer arrays. Two states are equal when their bytes are."""

LabelKind = Literal["binary", "real", "class", "labels"]
"""What a label is: 0 or 1, a number, one of C classes, or a subset of C labels."""
Bucketed = Literal["all", "overall", "none"]
"""Slices for which costly states (ranking, calibration) keep buckets."""
View = Literal["", "second", "both", "selection"]
"""Which rows a state holds, and by which cluster they are in buckets; see `StateKey`."""
IntervalMethod = Literal["jackknife", "few clusters", "leave-one-cluster-out", "two-way"]
"""How an interval was made; docs/statistics.md."""
CaseOutcome = Literal["pass", "fail", "undecided", "not judged"]
Outcome = Literal["pass", "fail", "undecided", "not gated", "not selected"]


class Undefined(StrEnum):
    """Why a value, or its interval, is unknown. Unknown is never zero."""

    NO_ROWS = "no rows"
    ONE_CLASS = "one class"
    NO_POSITIVES = "no positives"
    NOTHING_PREDICTED = "no row is predicted positive"
    ZERO_DENOMINATOR = "division by zero"
    OVERFLOW = "a value is too large to be summed"
    TOO_FEW_CLUSTERS = "too few clusters"
    TOO_FEW_POSITIVES = "fewer than 10 rows of a class"
    ONE_CLUSTER_DECIDES = "undefined without one group of clusters"
    NO_VARIATION = "no variation between clusters"
    HARDLY_DIFFERENT = "the two differ in fewer than 10 groups of clusters"
    RARE = "the value rests on rows in fewer than 10 groups of clusters"
    NO_BASELINE = "no baseline to compare with"
    ROWS_DIFFER = "row sets differ"
    OVER_BUDGET = "over budget"
    RESOLUTION = "scores too close together for the state's resolution"
    OUT_OF_REACH = "no threshold reaches it"
    NO_INTERVAL = "no interval of a threshold"
    SEPARATED = "scores separate the classes"
    NOT_SMOOTH = "the metric is not smooth enough for an interval"
    BIASED = "too much of the value is noise in its bins"
    ALL_EXCLUDED = "all rows excluded"
    FAILED = "the variant failed"
    OUTSIDE_DOMAIN = "a row is outside the metric's domain"
    CONSTANT = "all values are the same"
    NO_VALUES = "no row has a value"
    FEW_BEYOND = "too few rows beyond the quantile"


# ---- data -> plan ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fragment:
    """One file (or frame) as the source sees it before planning."""

    path: str  # as it is recorded in units: relative to the source's root; "frame" for a frame in memory
    size_bytes: int
    digest: str  # of the Parquet footer; of size and modification time where there is no footer
    row_groups: tuple[int, ...] | None  # rows of each row group, in order; None: not known before reading (CSV)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What footers (or a frame) say of one column over all fragments; None where they don't say."""

    minimum: float | None
    maximum: float | None
    num_nulls: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of the data that is scored whole."""

    id: str
    path: str  # of its fragment
    first_row: int  # position in the fragment; where it splits a row group, a multiple of the micro-batch in it
    num_rows: int | None  # None: to the fragment's end, known when read
    stratum: int
    bundle: int = 0  # of the plan's bundles: whose variants score it here


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as a source yields them: never across row groups, starting on a micro-batch boundary."""

    path: str
    first_row: int  # position in the fragment of the table's first row
    table: pa.Table


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column of a Parquet file as its footer describes it; see `footers`."""

    elements: tuple[Struct, ...]  # its part of the schema; a nested column has several
    orders: tuple[Struct, ...]  # by which its statistics are meant, of each leaf; empty where the file does not say so
    chunks: tuple[tuple[EncodedChunk, ...], ...]  # of each row group, of each leaf


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Row groups of a Parquet file that follow one another, and columns of them, as they lie there."""

    path: Path
    group_rows: tuple[int, ...]  # of each row group
    columns: Mapping[str, EncodedColumn]
    types: pa.Schema  # of these columns, as they are read


@dataclass(frozen=True, slots=True)
class Dimension:
    """One slicing column, expression, cut or cross, with its values fixed.

    For a plain dimension `values` are the kept values in slice order, as canonical strings, and `edges` is None. For a
    cut `edges` are the increasing cut points. A cross has `crosses` (positions in SliceTable.dimensions of its parts)
    and `values` holds one escaped slice name per kept combination. Each dimension ends with the slices `null` (not for
    a cross, whose parts carry it) and `other`.
    """

    name: str  # "country"; for a cross "country,device"
    expression: str | None  # column or SQL; None for a cross
    values: tuple[str, ...]
    edges: tuple[float, ...] | None = None
    crosses: tuple[int, ...] = ()
    listed: bool = True  # False: only there because a cross needs it, shown nowhere
    first_slice: int = (
        0  # its slices are first_slice .. first_slice + num_slices - 1 of the S slices; -1 when not listed
    )
    num_slices: int = 0


@dataclass(frozen=True, slots=True)
class SliceTable:
    """All slices of the run. `names[0]` is `overall`; names are escaped as in the result tables."""

    dimensions: tuple[Dimension, ...]
    names: tuple[str, ...]  # length S

    def of(self, dimension: str) -> range:
        """The slice numbers of one dimension by its name; KeyError when there is none of that name."""
        for one in self.dimensions:
            if one.listed and one.name == dimension:
                return range(one.first_slice, one.first_slice + one.num_slices)
        raise KeyError(dimension)


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """A metric that the spec defines by a function of its own: the weighted mean of what it says of each row."""

    name: str
    function: str  # "module:function", from a `Batch` to values [n]
    direction: Literal["higher", "lower"] | None
    columns: tuple[str, ...]  # of numbers, that it reads beside scores and labels
    settings: Mapping[str, str | int | float | bool | None]  # keyword arguments
    fingerprint: str  # of its code and settings


@dataclass(frozen=True, slots=True)
class Task:
    """One label, resolved."""

    name: str
    label: str  # column or SQL expression; "" where `targets` has one for each label
    label_kind: LabelKind  # "binary" when any of its metrics needs 0/1
    where: str | None
    metrics: tuple[str, ...]  # canonical metric names, in the spec's order
    classes: tuple[str, ...] = ()  # length C: names of the classes or labels, in the order of outputs
    targets: tuple[str, ...] | None = None  # length C: columns or expressions of 0/1, where `label` is no list column
    own: tuple[OwnMetric, ...] = ()  # those of `metrics` that the spec defines

    @property
    def has_label(self) -> bool:
        """False where scores are written and not measured."""
        return bool(self.label) or self.targets is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """What its own metrics read beside scores and labels."""
        return tuple(dict.fromkeys(column for one in self.own for column in one.columns))


@dataclass(frozen=True, slots=True)
class StateChoice:
    """Which form each state takes in this run, by rows and budget; part of every metric's identity."""

    exact_ranking: bool  # AUC and AP keep every distinct score with its bucket
    bucketed: Bucketed
    ranking_bits: int = 7  # mantissa bits of the bins behind AUC and AP of all rows, where scores are binned
    classes: tuple[str, ...] = ()  # of the task at hand
    slice_bits: int = 5  # mantissa bits of the bins behind AUC and AP of the other slices

    def of(self, task: Task) -> StateChoice:
        """The choice for the states of one task."""
        return replace(self, classes=task.classes)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the leading axes of every state."""

    num_slices: int  # S
    num_buckets: int  # B
    num_dimensions: int = 1  # D: a row enters so many slices


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before the first row is scored."""

    units: tuple[Unit, ...]  # in the order of the plan's seed: strata dealt in rounds
    fragments: tuple[Fragment, ...]
    tasks: tuple[Task, ...]
    slices: SliceTable
    sizes: Sizes
    choice: StateChoice
    weight_exponent: int  # a row's real weight is its integer weight times 2**weight_exponent; 0 without weights
    columns: tuple[str, ...]  # the only columns that are read
    micro_batch: int  # a multiple of all rows per call: row groups are split at its multiples, so that no call is
    seed: int
    fingerprints: Mapping[str, str]  # variant -> digest of weights, code and settings
    identity: str  # digest of all that the result depends on
    identity_parts: Mapping[str, str]  # part ("data", "model prod", "metrics"...) -> digest, to say what changed
    state_bytes: int  # of one tally, as declared by the accumulators
    num_rows: int | None  # None: not known before reading
    batch_rows: Mapping[str, int | None] = field(default_factory=dict)  # variant -> rows per call; None: whole chunks
    clusters: tuple[tuple[int, ...], ...] = ((),)
    # ^ hashes of the clusters that have a bucket each, increasing; () where they are too many. With two clusters three
    #   of them: of the first, of the second, of both
    confirm_fraction: float | None = None  # share of the clusters that is judged; the others serve to select
    bundles: tuple[tuple[str, ...], ...] = ()
    # ^ variants that one worker holds, where not all of them fit one; the baseline, in each of them, is named in the
    #   first alone. () where all are in one. Each piece of the data is then a unit for each bundle


# ---- worker ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The label of one task for the n rows of `Rows`."""

    label: NDArray[np.float64]  # [n], NaN where null; the number of the class; 0.0 where it is a set of labels
    member: NDArray[np.bool_]  # [n], False where the task's own filter is not true
    targets: NDArray[np.uint8] | None = None  # [C, n] which labels the row has; None unless it may have several
    columns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # [n] each, NaN where null


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one chunk that pass the filter, with the part each column plays."""

    path: str
    num_read: int  # before the filter
    positions: NDArray[np.int64]  # [n] row position in the fragment
    first_row: int  # of the chunk: micro-batches are cut at first_row + k * rows per call
    table: pa.Table  # [n] the columns that models read
    tasks: Mapping[str, TaskRows]
    weight: NDArray[np.int64]  # [n] integer weight; -1 where null or NaN; 1 without weights
    slices: NDArray[np.int32]  # [D, n] slice number of each row in each listed dimension; row 0 is all zeros
    cluster: NDArray[np.uint64]  # [n] hash of the cluster (of the row where it is null)
    null_cluster: NDArray[np.bool_]  # [n] either is null
    row_hash: NDArray[np.uint64]  # [n] hash of (path, position)
    second_cluster: NDArray[np.uint64] | None = None  # [n] the same of the other cluster; None with one
    prepared: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # ^ by preparation: what it made of each micro-batch of these rows (Any: the user's own), where that was done apart


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of one task that one variant scored: what an accumulator is updated with.

    No NaN but in `reference` and `columns`. With several classes or labels, `outputs` is the model's output, and `raw`
    the number of the class that it predicts (0.0 with labels).
    """

    raw: NDArray[np.float64]  # [n] the model's output, finite
    ranking: NDArray[np.float32]  # [n] raw as float32, -0.0 folded into 0.0
    probability: NDArray[np.float32] | None  # [n] in [0, 1]; None for a plain score
    label: NDArray[np.float64]  # [n]; 0.0 or 1.0 for a binary task
    positive: NDArray[np.uint8]  # [n] label != 0; of no meaning for a real label
    weight: NDArray[np.int64]  # [n] > 0
    slices: NDArray[np.int32]  # [D, n]
    bucket: NDArray[np.int32]  # [n]
    # [C, n] a score for each class or label; [2, n] float64 lower and upper of an interval; None where it gives neither
    outputs: NDArray[np.float32] | NDArray[np.float64] | None = None
    targets: NDArray[np.uint8] | None = None  # [C, n] which labels the row has; None unless it may have several
    reference: NDArray[np.float64] | None = None  # [n] the baseline's score, NaN where it has none; None without one
    columns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # [n] each, of the task's own metrics

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Block:
        """The rows where a mask [n] holds, or at these positions, in their order; itself when a mask holds for all."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        columns = ((one.name, getattr(self, one.name)) for one in fields(self) if one.name != "columns")
        taken: dict[str, Any] = {  # Any: the columns' types differ
            name: None if column is None else np.ascontiguousarray(column[..., rows]) for name, column in columns
        }
        return Block(**taken, columns={name: column[rows] for name, column in self.columns.items()})


class StateKey(NamedTuple):
    """Names one state of a tally.

    part: "scored" (the rows the variant scored); corrections for exact pairs: "baseline_only" (the baseline's
    contribution on rows that this variant missed) and "variant_only" (this variant's contribution on rows that the
    baseline missed), both absent when there are no such rows. The ledgers use variant "" for what depends on none.
    view: "" for the rows that are judged, in buckets of their cluster; others are the same rows in buckets of another
    cluster ("second", "both"), or the rows that serve to select ("selection").
    """

    task: str
    variant: str
    accumulator: str  # identity of the accumulator
    part: Literal["scored", "baseline_only", "variant_only"]
    view: View = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One unit that a tally holds."""

    unit: str
    rows: int  # rows read
    digest: str  # of the unit's own partial, id included
    failed: tuple[str, ...] = ()  # variants that failed on this unit
    deviations: tuple[str, ...] = ()  # from how models are called, sorted: "variant b: 256 rows per call"
    missed: str = ""  # where there are bundles, a digest of the rows to which the baseline gave no score; "": of none


@dataclass(frozen=True, slots=True)
class Predicted:
    """What variants gave for the rows of one unit that pass the filter, in their order.

    The table has `position` (int64, in the file) and a column per output under `predicted.key(variant, output)`; what a
    variant has not given is null, and a column is missing where it has given nothing at all.
    """

    unit: str
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Tally:
    """Merged partials; the partial of a single unit is a tally with one receipt."""

    receipts: tuple[Receipt, ...]  # sorted by unit
    states: Mapping[StateKey, State]


@dataclass(frozen=True, slots=True)
class Failure:
    """A variant that could not score a unit."""

    unit: str
    variant: str
    error: str  # a sentence
    rows: int
    sample: str = (
        ""  # a few of the rows that it was given, as JSON: [{column: value}, ...]; "" where they are not known
    )


# ---- tally -> results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replicates:
    """A metric's value and what it would be without each bucket: all that intervals are made of."""

    value: NDArray[np.float64]  # [S], NaN where undefined
    reason: tuple[Undefined | None, ...]  # length S: why value is undefined
    without: NDArray[np.float64]  # [S, B] leave-one-bucket-out values, NaN where undefined or not kept
    interval_reason: tuple[Undefined | None, ...]  # length S: why there can be no interval (over budget, resolution)
    error_bound: NDArray[np.float64]  # [S] rigorous bound of |value - exact value|; 0 where exact
    others: tuple[NDArray[np.float64], ...] = ()  # with two clusters `without` in buckets of the second, then of both
    alone: tuple[Undefined | None, ...] = ()  # length S: why the value has no interval though a difference of two has


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one curve of one slice, with the counts behind each; weights are real ones."""

    curve: str
    slice: int
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    rows: NDArray[np.int64] | None  # None: the state knows weights alone
    weight: NDArray[np.float64]
    positive_weight: NDArray[np.float64]


class Interval(NamedTuple):
    """A value with its 95 % interval; NaN where unknown, with the reason."""

    value: float
    standard_error: float
    low: float
    high: float
    degrees: int  # of freedom of the t distribution
    undefined: Undefined | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate judged for one variant in one slice."""

    variant: str
    gate: str  # the rule in words: "log_loss not worse by more than 0.001"
    position: int  # of the gate in the spec
    task: str
    metric: str  # "" for coverage and same_rows
    slice: str
    outcome: CaseOutcome
    value: float  # the candidate's
    baseline_value: float
    difference: float  # in the metric's own direction: candidate - baseline
    low: float  # 95 % interval of the difference (of the value, for min and max)
    high: float
    limit: float  # margin, improvement, min, max or floor, in the metric's units
    p_pass: float  # one-sided p-value of the claim "passes"; NaN where there is none
    p_fail: float
    adjusted_p_pass: float  # after Holm over variants
    adjusted_p_fail: float  # after Holm over variants x gates
    rows: int
    clusters_more: int | None  # about how many more clusters would decide an undecided gate; None: cannot be said
    reason: str  # a sentence


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gates say of one variant."""

    variant: str
    outcome: Outcome
    reason: str  # a sentence or more
    gates: tuple[GateResult, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """All that a reader sees. Tables have the columns of docs/run-directory.md."""

    metrics: pa.Table
    comparisons: pa.Table
    curves: pa.Table
    coverage: pa.Table
    families: pa.Table  # seeds of one recipe together; no rows where no variant names a family
    verdicts: tuple[Verdict, ...]
    outcome: Outcome  # of the run, by `decide`
    notes: tuple[str, ...] = ()  # sentences a reader must see: rows as clusters, excluded rows, failures, twins
    cost: pa.Table | None = None  # what workers spent; None: not recorded. Two runs of one spec differ in it


# ---- engine ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """All that a process needs to become a worker of a run; picklable."""

    spec: Spec
    plan: Plan
    base: str  # absolute folder: relative paths and the user's own modules are looked up there
    source: Any  # Any: a protocols.Source, which is a level above; picklable, footers read
    run: str  # path or URL of the run directory, as every worker sees it


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """What a run's predictions are written as."""

    format: str  # of `build.SINKS`
    to: str  # folder, place in a bucket, or table
    run: str  # names the run in the folder or table: what it has added, it adds no second time
    partition_by: tuple[str, ...] = ()
    row_group_rows: int | None = None  # None: as many as suit the format
    file_rows: int | None = None  # most rows of a file; None: a part is one file in each partition
    compression: str | None = None  # None: the format's first


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of predictions, whole and under its final name."""

    path: str  # under the sink's folder, with "/"
    rows: int
    bytes: int
    digest: str  # of its content; in its name too
    partition: Mapping[str, str | None] = field(default_factory=dict)  # partition column -> value, as a text


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A file of predictions, and the unit that its rows are of."""

    unit: str
    file: PartFile


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a run has written of its variants' outputs, as its manifest lists it."""

    run: str  # the id by which a folder or table knows the run
    place: str  # folder, place in a bucket, or table
    format: str
    rows: int
    columns: tuple[tuple[str, str], ...]  # name, type as it is written
    parts: tuple[ListedPart, ...]  # in the order of the data
    dead: Mapping[str, int]  # variant -> rows for which it lacks an output
    dead_place: str
    dead_parts: tuple[ListedPart, ...]
    notes: tuple[str, ...] = ()  # sentences on columns that are written as another type

    def __repr__(self) -> str:
        """Short: files may be many thousands."""
        return (
            f"Predictions(place={self.place!r}, format={self.format!r}, rows={self.rows}, columns={self.columns}, "
            f"dead={dict(self.dead)}, parts=<{len(self.parts)}>)"
        )


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A state file in a commit entry."""

    file: str  # digest of the tally it holds; stored as states/<digest>.arrow
    receipts: tuple[Receipt, ...]
    predictions: str = ""  # digest of what the variants gave for the same units, outputs/<digest>.arrow; "": not kept


Market = Literal["on_demand", "spot", ""]
"""How a machine is paid for; "" where nobody knows."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a worker runs, as far as that is known."""

    node_type: str = "local"
    market: Market = ""
    host: str = ""
    share: float = 1.0  # of the machine: what of its price is the worker's
    device: str = ""  # what it computes on: the name of its GPU, or of its CPU


@dataclass(frozen=True, slots=True)
class Reading:
    """What a worker's device and machine say of themselves at one moment. None wherever nobody knows."""

    device: str | None = None  # name of its GPU
    temperature: float | None = None  # °C
    slowdown_temperature: float | None = None  # °C at which the GPU slows itself down
    throttle: tuple[str, ...] | None = None  # why its clock is not as high as it goes, in words
    clock: float | None = None  # MHz, of its processors
    max_clock: float | None = None  # MHz
    busy_fraction: float | None = None  # of the GPU's time, by whomever
    memory_used: float | None = None  # bytes of the GPU's
    memory: float | None = None
    num_others: int | None = None  # processes on it beside the worker's own
    others_fraction: float | None = None  # of the GPU's time that they take
    cpu_load: float | None = None  # threads that run or want to, for each core of the machine
    cpu_fraction: float | None = None  # of the time for which the worker's threads wanted a core they had one


@dataclass(frozen=True, slots=True)
class Spent:
    """Where a worker's seconds went between two of its flushes; those that are not here it was idle."""

    scoring: Mapping[str, float]  # variant -> preparing its inputs, calling it, updating its states
    reading: float  # waiting for rows
    shared: float  # labels, slices, digests, writing: what all variants have in common
    thrown_away: Mapping[str, float]  # cause -> on units that count for nothing


@dataclass(frozen=True, slots=True)
class Preparing:
    """Seconds of the tasks that prepare units apart from the workers."""

    name: str  # of the preparation, or of several: "tokens, features"
    machine: Machine
    seconds: float
    num_places: int = 0  # where not 0, these are the seconds of so many places for tasks, whether one worked or not


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of one item of a `protocols.Work`, and what it took."""

    number: int  # of the item
    result: Any  # Any: of the work's own kind
    machine: Machine  # that did it, with the share of it that this took
    seconds: float
    lost: str = ""  # why there is no result though the work raised nothing, a clause: "its node died"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress line is made of."""

    units_done: int
    num_units: int
    rows_done: int
    num_rows: int | None
    num_variants: int
    seconds: float  # since this driver started scoring
    rows_before: int = 0  # committed by earlier drivers: not counted in rates
    message: str = ""  # something worth a line of its own: a lost worker, a failed variant
