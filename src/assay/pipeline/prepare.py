"""From a spec to a plan: everything that is decided, and every fault that can be found, before a row is scored.

Lives here: the order of the steps, and the few that look at the data. Not here: what the spec asks for (`asked.py`),
the form of states (`budget.py`), bundles (`bundles.py`), and the steps of the stages (`slices`, `rows`, `plan`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from assay import build, catalogue, slices
from assay import plan as plans
from assay.catalogue import Metrics
from assay.errors import DataError, Fault, PreparationError, SpecError
from assay.expressions import Expressions
from assay.pipeline.asked import (
    canonical_gates,
    check_classes,
    check_metrics_of_gates,
    expanded,
    gathered,
    output_kinds,
    resolve_tasks,
    unmeasured_tasks,
)
from assay.pipeline.bundles import Packing, pack
from assay.pipeline.classes import is_open, with_classes
from assay.pipeline.clusters import cluster_columns, fit_clusters
from assay.pipeline.declared import columns_of
from assay.pipeline.findings import Findings
from assay.pipeline.notes import notes_of
from assay.pipeline.others import fingerprints, given_schema
from assay.pipeline.top_k import ranked
from assay.plan import Decisions, make_plan, weight_exponent
from assay.protocols import Model, Preparation, SizedSource, Source
from assay.records import Plan, Sizes, SliceTable, StateChoice, Task, Unit
from assay.rows import RowReader, check_types, column_texts, role_texts
from assay.sources.sample import sample
from assay.spec.model import ConfirmSpec, DataSpec, Spec
from assay.spec.names import offer
from assay.spec.words import listing

NUM_BUCKETS = 64
SAMPLE_ROWS = 200_000
SAMPLE_PIECES = 16
WEIGHT_HEADROOM = 64.0
"""How much larger than in the sample a weight may be, where files do not record the largest."""
COUNTED_BYTES = 256 << 20
"""A file that does not say how many rows it has is counted up to this size."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spec that has met its data and models."""

    spec: Spec  # templates expanded, gates by canonical metrics
    base: Path  # absolute folder that relative paths start from
    source: Source
    metrics: Metrics
    plan: Plan
    num_rows: int | None  # the plan's, or counted where files do not say; None: not known before reading
    notes: tuple[str, ...]
    why_bundles: str = ""  # a sentence; "" where one worker holds all variants


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was found sound."""

    spec: Spec
    source: Source
    tasks: tuple[Task, ...]
    metrics: Metrics
    models: tuple[Model, ...]
    base: Path


def prepare(spec: Spec, base: Path, frame: object = None) -> Prepared:
    """Read footers and a seeded sample, describe the models, and fix the plan. Nothing is scored.

    Raises SpecError, DataError or ModelError; faults that do not hide one another come together, as a SpecError when
    they are of several kinds.
    """
    build.import_from(str(base))
    asked = _checked(spec, base, frame)
    spec, source = asked.spec, asked.source
    table = slices.fit(spec.data, _sample(source, slices.sample_columns(spec.data, source.schema), spec.seed))
    num_rows = count_rows(source)
    sizes = Sizes(len(table.names), NUM_BUCKETS, sum(one.listed for one in table.dimensions))
    packing = pack(spec, asked.tasks, sizes, num_rows, model_bytes(spec, asked.models))
    drawn = _sample(source, cluster_columns(spec.data, source.schema), spec.seed)
    clusters = fit_clusters(spec.data, source, spec.seed, drawn, num_rows, NUM_BUCKETS)
    plan = make_plan(_decisions(asked, table, sizes, packing, clusters))
    return Prepared(spec, base, source, asked.metrics, plan, num_rows, notes_of(spec, source, plan), packing.why)


def _checked(spec: Spec, base: Path, frame: object) -> _Asked:
    """Everything that can be wrong before the data are sampled, as far as one fault does not hide another."""
    findings = Findings()
    source = findings.of(partial(build.source, spec.data, base, frame))
    whole = findings.of(partial(expanded, spec, base))
    tasks = findings.of(partial(resolve_tasks, spec, base))
    models: tuple[Model, ...] | None = None
    if tasks is not None:
        findings.of(partial(check_metrics_of_gates, spec, catalogue.metrics_of(tasks)))
    if source is not None:
        _check_columns(spec, tasks or unmeasured_tasks(spec), source, findings)
    if source is not None and whole is not None:
        models = findings.of(partial(_models, whole, base, source.schema, tasks or ()))
    findings.tell()
    assert source is not None, "what is None has a fault"
    assert whole is not None, "what is None has a fault"
    whole = whole.model_copy(update={"gates": canonical_gates(whole.gates, build.families(whole))})
    if any(is_open(task) for task in tasks or ()):
        tasks = with_classes(tasks or (), spec.data, source)
        models = _models(whole, base, source.schema, tasks)  # again, now that their outputs are known
    check_classes(spec, tasks or ())
    if spec.predicts:
        ranked(whole, tasks or (), source, columns_of(whole, tasks or (), source))
    return _Asked(whole, source, tasks or (), catalogue.metrics_of(tasks or ()), models or (), base)


def _decisions(
    asked: _Asked,
    table: SliceTable,
    sizes: Sizes,
    packing: Packing,
    clusters: tuple[tuple[int, ...], ...],
) -> Decisions:
    spec, source, tasks = asked.spec, asked.source, asked.tasks
    exponent = _weight_exponent(spec, source)
    columns = build.model_columns(asked.models, source.schema)
    batches = build.batch_rows(spec, asked.models)
    reader = RowReader(source.schema, spec.data, tasks, slices.SliceEncoder(table), exponent, spec.seed, columns)
    return Decisions(
        fragments=source.fragments,
        roles=role_texts(spec.data, tasks),
        tasks=tasks,
        slices=table,
        sizes=sizes,
        choice=packing.choice,
        weight_exponent=exponent,
        columns=reader.columns,
        micro_batch=math.lcm(*(rows for rows in batches.values() if rows is not None)),
        seed=spec.seed,
        fingerprints=fingerprints(spec, asked.models, asked.base, tasks),
        accumulators=_identities(asked, packing.choice),
        settings=_settings(spec),
        state_bytes=packing.state_bytes,
        unit_rows=spec.execution.unit_rows,
        first_values=None if spec.data.time is None else source.first_values(spec.data.time),
        batch_rows=batches,
        clusters=clusters,
        confirm_fraction=spec.confirm.fraction if isinstance(spec.confirm, ConfirmSpec) else spec.confirm,
        bundles=packing.bundles,
        num_together=packing.num_together,
        row_bytes=_row_bytes(source, reader.columns),
    )


def _row_bytes(source: Source, columns: Sequence[str]) -> float:
    """What a row takes on average; 0 where the source does not know."""
    num_rows = plans.count_rows(source.fragments)
    if num_rows is None or not num_rows or not isinstance(source, SizedSource):
        return 0.0
    return sum(map(source.column_bytes, columns)) / num_rows


def _settings(spec: Spec) -> dict[str, str]:
    """What else results depend on."""
    outputs = {
        f"output of {variant} for {task}": kind or "score" for (variant, task), kind in output_kinds(spec).items()
    }
    return {**outputs, "baseline": spec.baseline or ""}


def _identities(asked: _Asked, choice: StateChoice) -> tuple[str, ...]:
    return tuple(
        f"{task.name}: {accumulator.identity}"
        for task in asked.tasks
        for accumulator in catalogue.accumulators(asked.metrics[task.name], choice.of(task))
    )


# ---- columns and models ----------------------------------------------------------------------------------------------


def _check_columns(spec: Spec, tasks: Sequence[Task], source: Source, findings: Findings) -> None:
    """Every text of the spec that is a column or an expression, on its own; then the types of all."""
    texts = _texts(spec.data, tasks)
    bound = findings.of(partial(_bound, source.schema, texts))
    if bound is not None:
        findings.of(partial(check_types, bound.types, spec.data, tasks))
    findings.of(partial(_check_time, spec.data, source.schema.names))
    for task in tasks:
        findings.of(partial(_check_label, task, source, filtered=bool(spec.data.where or task.where)))


def _texts(data: DataSpec, tasks: Sequence[Task]) -> dict[str, str]:
    return role_texts(data, tasks) | column_texts(tasks) | slices.expressions(slices.resolve(data))


def _bound(schema: pa.Schema, texts: Mapping[str, str]) -> Expressions:
    """All texts at once; where that fails, each alone, so that every fault is told."""
    try:
        return Expressions(schema, texts)
    except DataError:
        each = Findings()
        for label, text in texts.items():
            each.of(partial(Expressions, schema, {label: text}))
        each.tell()
        raise


def _check_time(data: DataSpec, columns: Sequence[str]) -> None:
    if data.time is not None and data.time not in columns:
        raise SpecError([Fault("data.time", f"there is no column {data.time!r}{offer(data.time, columns)}")])


def _check_label(task: Task, source: Source, *, filtered: bool) -> None:
    """What footers know of a label, said before hours are spent. filtered: only some rows take part."""
    known = source.statistics(task.label) if task.has_label and task.targets is None else None
    if known is None:
        return
    rows = sum(sum(fragment.row_groups or ()) for fragment in source.fragments)
    if known.num_nulls == rows:
        raise DataError(f"0 of {rows} rows usable: the label {task.label!r} is null in all of them.")
    low, high = known.minimum, known.maximum
    if filtered or task.label_kind != "binary" or low is None or high is None:
        return
    if low < 0 or high > 1:
        raise DataError(
            f"The label {task.label!r} goes from {low:g} to {high:g}, but {_binary_metric(task)} takes 0 and 1 only. "
            f'Write a condition as the label, such as "{task.label} > 0", or ask for metrics of a real label (rmse, '
            "mae)."
        )


def _binary_metric(task: Task) -> str:
    return next(name for name in task.metrics if catalogue.metric_of(task, name).label_kind == "binary")


def _models(spec: Spec, base: Path, schema: pa.Schema, tasks: Sequence[Task]) -> tuple[Model, ...]:
    """All variants described, and checked against the columns there are."""

    made, seen = preparations(spec, base, schema), given_schema(spec, tasks, schema)

    def described(position: int) -> list[Model]:
        model = build.model(spec, spec.variants[position], base, tasks, made)
        model.check(seen)
        return [model]

    return tuple(gathered(range(len(spec.variants)), described))


def model_bytes(spec: Spec, models: Sequence[Model]) -> dict[str, int]:
    """Variant -> what its model takes in memory: as the spec says, or the size of its files."""
    said = {variant.name: variant.memory_bytes for variant in spec.variants if variant.memory_bytes is not None}
    return {one.name: said.get(one.name, one.num_bytes) for one in models}


def preparations(spec: Spec, base: Path, schema: pa.Schema) -> dict[str, Preparation]:
    """All that are named, by name. SpecError with a fault for each that cannot be, and the variants that need it."""
    faults, found = [], build.preparations(spec, spec.variants, base)
    for one in found:
        try:
            one.check(schema)
            one.fingerprint  # noqa: B018 - its code and files must be there
        except PreparationError as error:
            needing = [name for name, made_by in build.made_by(spec.variants).items() if made_by == one.name]
            noun, verb = ("variant", "needs") if len(needing) == 1 else ("variants", "need")
            faults.append(Fault(f"prepare.{one.name}", f"{error.message} The {noun} {listing(needing)} {verb} it."))
    if faults:
        raise SpecError(faults)
    return {one.name: one for one in found}


# ---- rows ------------------------------------------------------------------------------------------------------------


def _sample(source: Source, columns: Sequence[str], seed: int) -> pa.Table:
    if not columns:
        return pa.schema([]).empty_table()
    return sample(source, columns, seed, SAMPLE_ROWS, SAMPLE_PIECES)


def _weight_exponent(spec: Spec, source: Source) -> int:
    """The scale of weights, from what the spec or the footers say is the largest, or else a sample with headroom."""
    text = spec.data.weight
    if text is None:
        return 0
    if spec.data.weight_max is not None:
        return weight_exponent(spec.data.weight_max)
    known = source.statistics(text)
    if known is not None and known.maximum is not None and math.isfinite(known.maximum):
        return weight_exponent(max(known.maximum, 0.0))
    return weight_exponent(_largest_drawn(text, spec.seed, source) * WEIGHT_HEADROOM or 1.0)


def _largest_drawn(text: str, seed: int, source: Source) -> float:
    """The largest usable weight of a sample; 0 when it holds none."""
    computed = Expressions(source.schema, {"data.weight": text})
    drawn = computed.evaluate(_sample(source, computed.columns or source.schema.names[:1], seed))
    values = drawn["data.weight"].cast(pa.float64(), safe=False).drop_null().to_numpy()
    return float(values[np.isfinite(values) & (values >= 0)].max(initial=0.0))


def count_rows(source: Source) -> int | None:
    """All rows; files that do not say are counted where they are small, else None."""
    total = 0
    for fragment in source.fragments:
        if fragment.row_groups is not None:
            total += sum(fragment.row_groups)
        elif fragment.size_bytes <= COUNTED_BYTES:
            whole = Unit("count", fragment.path, 0, None, 0)
            total += sum(chunk.table.num_rows for chunk in source.read(whole, source.schema.names[:1]))
        else:
            return None
    return total
