"""From a spec to a plan: everything that is decided, and every fault that can be found, before a row is scored.

Lives here: the order of the steps. Not here: the steps (`build`, `slices`, `rows`, `plan`, `gates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from assay import build
from assay.build import Metrics
from assay.errors import DataError, Fault, ModelError, SpecError, joined
from assay.expressions import Expressions
from assay.gates.rules import check_gates
from assay.models.template import expand
from assay.plan import Decisions, make_plan, weight_exponent
from assay.protocols import Metric, Model, Source
from assay.records import LabelKind, OutputKind, Plan, Sizes, StateChoice, Task, Unit
from assay.rows import RowReader, role_texts
from assay.slices import SliceEncoder, fit, sample_columns
from assay.sources.sample import sample
from assay.spec.checks import check_names
from assay.spec.model import Spec
from assay.spec.names import offer

NUM_BUCKETS = 64
SAMPLE_ROWS = 200_000
SAMPLE_PIECES = 16
WEIGHT_HEADROOM = 64.0
"""How much larger than in the sample a weight may be, where files do not record the largest."""
WITHOUT_PROBABILITY = ("auc", "average_precision")
WITH_PROBABILITY = ("auc", "average_precision", "log_loss", "normalised_entropy", "ece", "calibration_ratio")
"""The metrics of a spec that names none."""
CHOICES = (
    StateChoice(exact_ranking=True, bucketed="all"),
    StateChoice(exact_ranking=True, bucketed="overall"),
    StateChoice(exact_ranking=False, bucketed="all"),
    StateChoice(exact_ranking=False, bucketed="overall"),
    StateChoice(exact_ranking=False, bucketed="none"),
)
"""Forms of the costly states, best first: the plan takes the first that fits the budget."""

COUNTED_BYTES = 256 << 20
"""A file that does not say how many rows it has is counted up to this size."""

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spec that has met its data and models."""

    spec: Spec  # templates expanded
    base: Path  # absolute folder that relative paths start from
    source: Source
    metrics: Metrics
    plan: Plan
    notes: tuple[str, ...]


def prepare(spec: Spec, base: Path, frame: object = None) -> Prepared:
    """Read footers and a seeded sample, describe the models, and fix the plan. Nothing is scored.

    Raises SpecError, DataError and ModelError; faults of a kind come together.
    """
    build.import_from(str(base))
    spec = expanded(spec, base)
    source = build.source(spec.data, base, frame)
    tasks = resolve_tasks(spec)
    metrics = build.metrics_of(tasks)
    _check_time(spec, source)
    models = _models(spec, base, source.schema)
    columns = build.model_columns(models, source.schema)
    _check_labels(tasks, source)
    slices = fit(spec.data, _sample(source, sample_columns(spec.data, source.schema), spec.seed))
    _raise(check_gates(spec, metrics, [one.name for one in slices.dimensions if one.listed and one.name != "overall"]))
    exponent = _weight_exponent(spec, source)
    reader = RowReader(source.schema, spec.data, tasks, SliceEncoder(slices), exponent, spec.seed, columns)
    num_dimensions = sum(one.listed for one in slices.dimensions)
    sizes = Sizes(len(slices.names), NUM_BUCKETS, num_dimensions)
    choice, state_bytes = _choose(spec, metrics, sizes, estimated_rows(source))
    fingerprints = {model.name: model.fingerprint for model in models}
    plan = make_plan(
        Decisions(
            fragments=source.fragments,
            roles=role_texts(spec.data, tasks),
            tasks=tasks,
            slices=slices,
            sizes=sizes,
            choice=choice,
            weight_exponent=exponent,
            columns=reader.columns,
            micro_batch=spec.execution.micro_batch,
            seed=spec.seed,
            fingerprints=fingerprints,
            accumulators=_identities(metrics, choice),
            settings=_settings(spec),
            state_bytes=state_bytes,
            unit_rows=spec.execution.unit_rows,
            first_values=None if spec.data.time is None else source.first_values(spec.data.time),
        )
    )
    return Prepared(spec, base, source, metrics, plan, tuple(_notes(spec, source, fingerprints)))


# ---- the spec --------------------------------------------------------------------------------------------------------


def expanded(spec: Spec, base: Path) -> Spec:
    """One variant for each match of a template; then the names must be unique and the baseline among them."""
    variants = tuple(_gather(spec.variants, lambda variant: expand(variant, base)))
    whole = spec.model_copy(update={"variants": variants})
    check_names(whole)
    return whole


def resolve_tasks(spec: Spec) -> tuple[Task, ...]:
    """The tasks with their metrics by canonical name. SpecError for unknown metrics and for outputs that don't fit."""
    faults: list[Fault] = []
    wanted: dict[str, dict[str, Metric]] = {name: {} for name in build.task_specs(spec)}
    for position, entry in enumerate(spec.metrics):
        text, only = (entry, None) if isinstance(entry, str) else (entry.metric, entry.task)
        try:
            found = build.metric(text)
        except ValueError as error:
            faults.append(Fault(f"metrics[{position}]", str(error)))
            continue
        for name in wanted if only is None else (only,):
            wanted[name][found.name] = found
    tasks = []
    for name, task in build.task_specs(spec).items():
        metrics = list(wanted[name].values()) or _default_metrics(spec, name)
        faults += _output_faults(spec, name, metrics)
        kind: LabelKind = "binary" if any(metric.label_kind == "binary" for metric in metrics) else "real"
        tasks.append(Task(name, task.label, kind, task.where, tuple(metric.name for metric in metrics)))
    _raise(faults)
    return tuple(tasks)


def _default_metrics(spec: Spec, task: str) -> list[Metric]:
    kinds = {build.outputs_of(spec, variant)[task].kind for variant in spec.variants}
    names = WITH_PROBABILITY if kinds <= {"probability", "logit"} else WITHOUT_PROBABILITY
    return [build.metric(name) for name in names]


def _output_faults(spec: Spec, task: str, metrics: Sequence[Metric]) -> list[Fault]:
    """A metric that needs a probability needs to know of every output that it is one."""
    needing = [metric.name for metric in metrics if metric.needs_probability]
    if not needing:
        return []
    return [
        Fault(
            f"variants[{position}].output",
            f"{needing[0]} needs a probability, but "
            + (
                f"the output of {variant.name!r} is a plain score; take the metric out, or give a probability or logit."
                if kind == "score"
                else f"the spec does not say what the output of {variant.name!r} is; "
                "say output: {is: probability} or {is: logit}."
            ),
        )
        for position, variant in enumerate(spec.variants)
        if (kind := build.outputs_of(spec, variant)[task].kind) in (None, "score")
    ]


def _kinds(spec: Spec) -> list[OutputKind | None]:
    return [output.kind for variant in spec.variants for output in build.outputs_of(spec, variant).values()]


def _settings(spec: Spec) -> dict[str, str]:
    """What else results depend on."""
    outputs = {
        f"output of {variant.name} for {task}": output.kind or "score"
        for variant in spec.variants
        for task, output in build.outputs_of(spec, variant).items()
    }
    return {**outputs, "baseline": spec.baseline or "", "on_error": spec.on_error}


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise SpecError(faults)


# ---- models ----------------------------------------------------------------------------------------------------------


def _models(spec: Spec, base: Path, schema: pa.Schema) -> tuple[Model, ...]:
    """All variants described, and checked against the columns there are."""
    return tuple(_gather(spec.variants, lambda variant: [_checked(build.model(spec, variant, base), schema)]))


def _checked(model: Model, schema: pa.Schema) -> Model:
    model.check(schema)
    return model


def _gather(items: Sequence[Item], made: Callable[[Item], Sequence[Made]]) -> list[Made]:
    """All that is made of the items, unless there are ModelErrors: then all of them as one."""
    results: list[Made] = []
    errors: list[ModelError] = []
    for item in items:
        try:
            results.extend(made(item))
        except ModelError as error:
            errors.append(error)
    if errors:
        raise joined(errors)
    return results


# ---- data ------------------------------------------------------------------------------------------------------------


def _check_time(spec: Spec, source: Source) -> None:
    time, columns = spec.data.time, source.schema.names
    if time is not None and time not in columns:
        raise SpecError([Fault("data.time", f"there is no column {time!r}{offer(time, columns)}")])


def _check_labels(tasks: Sequence[Task], source: Source) -> None:
    """What footers know of labels, said before hours are spent."""
    rows = sum(sum(fragment.row_groups or ()) for fragment in source.fragments)
    for task in tasks:
        known = source.statistics(task.label)
        if known is None:
            continue
        if known.num_nulls == rows:
            raise DataError(f"0 of {rows} rows usable: the label {task.label!r} is null in all of them.")
        low, high = known.minimum, known.maximum
        if task.label_kind == "binary" and low is not None and high is not None and (low < 0 or high > 1):
            raise DataError(
                f"The label {task.label!r} goes from {low:g} to {high:g}, but {_binary_metric(task)} takes 0 and 1 only. "
                f'Write a condition as the label, such as "{task.label} > 0", or ask for metrics of a real label (rmse, mae).'
            )


def _binary_metric(task: Task) -> str:
    return next(name for name in task.metrics if build.metric(name).label_kind == "binary")


def _sample(source: Source, columns: Sequence[str], seed: int) -> pa.Table:
    if not columns:
        return source.schema.empty_table()
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
    computed = Expressions(source.schema, {"data.weight": text})
    drawn = computed.evaluate(_sample(source, computed.columns or source.schema.names[:1], spec.seed))
    values = drawn["data.weight"].cast(pa.float64(), safe=False).drop_null().to_numpy()
    usable = values[np.isfinite(values) & (values >= 0)]
    return weight_exponent(float(usable.max(initial=0.0)) * WEIGHT_HEADROOM or 1.0)


def estimated_rows(source: Source) -> int | None:
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


# ---- states ----------------------------------------------------------------------------------------------------------


def _choose(spec: Spec, metrics: Metrics, sizes: Sizes, rows: int | None) -> tuple[StateChoice, int]:
    """The first choice that fits the budget, and the bytes of one tally under it."""
    known = rows is not None and rows <= spec.budget.exact_rows
    choices = [choice for choice in CHOICES if known or not choice.exact_ranking]
    needs = [(choice, _state_bytes(spec, metrics, choice, sizes, rows)) for choice in choices]
    for choice, num_bytes in needs:
        if num_bytes <= spec.budget.state_bytes:
            return choice, num_bytes
    raise SpecError(
        [
            Fault(
                "budget.state_bytes",
                f"the states of {len(spec.variants)} variants in {sizes.num_slices} slices take "
                f"{needs[-1][1] / 2**20:,.0f} MiB a worker, but the budget is {spec.budget.state_bytes / 2**20:,.0f} MiB; "
                "raise the budget, or evaluate fewer variants, slices or metrics at once.",
            )
        ]
    )


def _state_bytes(spec: Spec, metrics: Metrics, choice: StateChoice, sizes: Sizes, rows: int | None) -> int:
    return len(spec.variants) * sum(
        accumulator.num_bytes(sizes, rows)
        for several in metrics.values()
        for accumulator in build.accumulators(several, choice)
    )


def _identities(metrics: Metrics, choice: StateChoice) -> tuple[str, ...]:
    return tuple(
        f"{task}: {accumulator.identity}"
        for task, several in metrics.items()
        for accumulator in build.accumulators(several, choice)
    )


# ---- what a reader must be told --------------------------------------------------------------------------------------


def _notes(spec: Spec, source: Source, fingerprints: Mapping[str, str]) -> list[str]:
    notes = []
    if spec.data.time is not None and source.first_values(spec.data.time) is None:
        notes.append(f"data.time has no effect: the files do not record the range of {spec.data.time!r}.")
    if not spec.metrics and any(kind is None for kind in _kinds(spec)):
        notes.append(
            "Only ranking is measured, since the spec does not say what the scores are. Say that they are a probability "
            "(output: {is: probability}, or --output probability) for log loss and calibration."
        )
    if spec.data.cluster is None:
        notes.append(
            "No cluster is named, so every row counts as independent. If a user or session has several rows, name it as "
            "the cluster: intervals are too narrow otherwise."
        )
    twins: dict[str, list[str]] = {}
    for variant, fingerprint in fingerprints.items():
        twins.setdefault(fingerprint, []).append(variant)
    notes += [
        f"{' and '.join(map(repr, names))} are the same model: weights, code and settings are equal."
        for names in twins.values()
        if len(names) > 1
    ]
    return notes
