"""Names become objects here, and only here: tables of "module:attribute" strings, and entry points of the same form.

A plug-in adds a metric with an entry point in the group `assay.metrics`. Nothing registers itself on import, and a
module is imported only when its name is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from assay.calls import Preparations
from assay.costs import NO_LIMITS, Limits
from assay.errors import ModelError, RunError
from assay.metrics.parse import make, parse
from assay.metrics.table import TABLES, Family
from assay.models.fresh import forget_elsewhere
from assay.models.outputs import TaskOutput, resolve_outputs
from assay.protocols import Accumulator, Executor, Metric, Model, Preparation, Sink, Source
from assay.records import Job, LabelKind, OwnMetric, Plan, Rows, SinkSettings, StateChoice, Task, Unit
from assay.rows import RowReader
from assay.scoring import Scoring
from assay.slices import SliceEncoder
from assay.sources.files import find_files
from assay.spec.model import MAIN_TASK, DataSpec, OutputKind, OutputSpec, Spec, TaskSpec, VariantSpec
from assay.spec.names import offer
from assay.store.folder import open_folder
from assay.store.run import RunDirectory
from assay.task_scores import Layout
from assay.worker import WorkerSetup

METRIC_PLUGINS = "assay.metrics"
"""The entry-point group of metrics: name -> "module:class"."""
FAMILIES: Mapping[Family, str] = {
    "single": "a single score",
    "classes": "several classes",
    "labels": "sets of labels",
}
MODELS = {
    "column": "assay.models.column:ColumnModel",
    "callable": "assay.models.callable:CallableModel",
    "sklearn": "assay.models.sklearn:SklearnModel",
    "lightgbm": "assay.models.lightgbm:LightGBMModel",
    "torch": "assay.models.torch:TorchModel",
}
SOURCES = {"parquet": "assay.sources.parquet:ParquetSource", "csv": "assay.sources.csv:CsvSource"}
SINKS = {
    "parquet": "assay.sinks.parquet:parquet_sink",
    "arrow": "assay.sinks.arrow:arrow_sink",
    "csv": "assay.sinks.csv:csv_sink",
    "jsonl": "assay.sinks.jsonl:jsonl_sink",
    "delta": "assay.sinks.delta:delta_sink",
    "iceberg": "assay.sinks.iceberg:iceberg_sink",
}
FIND_DEVICE = "assay.models.torch:find_device"
PREPARATION = "assay.models.preparation:FunctionPreparation"
PREPARED_ROWS = 1024
"""Of a micro-batch, where the spec does not say."""
OWN_METRIC = "assay.metrics.own:FunctionMetric"
FRAME = "assay.sources.frame:FrameSource"
EXECUTORS = {"local": "assay.local:LocalExecutor", "ray": "assay.cluster.driver:RayExecutor"}
EXTRAS = {
    "deltalake": "delta",
    "joblib": "sklearn",
    "lightgbm": "lightgbm",
    "pandas": "sklearn",
    "pyiceberg": "iceberg",
    "ray": "ray",
    "safetensors": "torch",
    "sklearn": "sklearn",
    "torch": "torch",
}
"""Module that may be missing -> the extra of this package that brings it."""

Metrics = Mapping[str, tuple[Metric, ...]]
"""By task."""


def load(place: str) -> Any:  # Any: whatever the place holds
    """The object at "module:attribute"."""
    module, attribute = place.split(":")
    return getattr(import_module(module), attribute)


# ---- metrics ---------------------------------------------------------------------------------------------------------


def metric_places(family: Family = "single") -> dict[str, str]:
    """Name -> "module:class" of all metrics of one family of tasks, those of plug-ins included."""
    return TABLES[family] | {point.name: point.value for point in entry_points(group=METRIC_PLUGINS)}


def metric(text: str, family: Family = "single") -> Metric:
    """The metric that a name stands for. ValueError with a sentence when there is none, or not with these parameters.

    >>> metric("precision(threshold=0.50)").name
    'precision'
    """
    name, parameters = parse(text)
    places = metric_places(family)
    if name not in places:
        elsewhere = next((other for other in TABLES if name in TABLES[other]), None)
        raise ValueError(_not_of(name, family, elsewhere, places))
    made = make(load(places[name]), name, parameters)
    if made.label_kind is not None and family_of(made.label_kind) != family:  # of a plug-in
        raise ValueError(_not_of(name, family, family_of(made.label_kind), TABLES[family]))
    return made


def _not_of(name: str, family: Family, elsewhere: Family | None, known: Iterable[str]) -> str:
    if elsewhere is None:
        return f"There is no metric {name!r}{offer(name, known)}"
    if family == "single":
        return f"{name!r} is a metric of {FAMILIES[elsewhere]}; the task has none: give {elsewhere}."
    return f"{name!r} is a metric of {FAMILIES[elsewhere]}, and the task is of {FAMILIES[family]}; see `assay metrics`."


def listed_metrics(family: Family) -> tuple[Metric, ...]:
    """Each metric of a family by its defaults; one that needs a parameter has some value of it, as an example."""
    made = []
    for name, place in metric_places(family).items():
        metric_class = load(place)
        needed = {key: one for key, one in signature(metric_class).parameters.items() if one.default is one.empty}
        found = make(metric_class, name, {key.rstrip("_"): _example(one) for key, one in needed.items()})
        if found.label_kind is None or family_of(found.label_kind) == family:  # a plug-in is of one alone
            made.append(found)
    return tuple(made)


def _example(parameter: Parameter) -> int | float | str:
    kind = str(parameter.annotation)
    return "a" if "str" in kind else 5 if "int" in kind else 0.5


def family_of(kind: LabelKind) -> Family:
    """The family of metrics for a kind of label."""
    families: dict[LabelKind, Family] = {"class": "classes", "labels": "labels"}
    return families.get(kind, "single")


def accumulators(metrics: Iterable[Metric], choice: StateChoice) -> tuple[Accumulator, ...]:
    """The accumulators of several metrics, each once."""
    every = {one.identity: one for metric in metrics for one in metric.accumulators(choice)}
    return tuple(every.values())


def metrics_of(tasks: Iterable[Task]) -> Metrics:
    """The metrics of resolved tasks."""
    return {task.name: tuple(metric_of(task, name) for name in task.metrics) for task in tasks}


def metric_of(task: Task, name: str) -> Metric:
    """The metric of that canonical name in a resolved task: of the spec's own, or of the tables."""
    own = next((one for one in task.own if one.name == name), None)
    return metric(name, family_of(task.label_kind)) if own is None else own_metric(own)


def own_metric(own: OwnMetric) -> Metric:
    """The metric that a spec defines by a function."""
    made: Metric = load(OWN_METRIC).of(own)
    return made


# ---- data, tasks and models ------------------------------------------------------------------------------------------


def source(data: DataSpec, base: Path, frame: object = None) -> Source:
    """The rows of a spec: those of `frame` where there is one, else of files, found from `base`."""
    if frame is not None:
        built: Source = load(FRAME)(frame)
        return built
    paths = (data.path,) if isinstance(data.path, str) else data.path or ()
    files = find_files([os.path.join(base, os.path.expanduser(path)) for path in paths], data.format)
    found: Source = load(SOURCES[files.format])(files.paths, files.root)
    return found


def task_specs(spec: Spec) -> dict[str, TaskSpec]:
    """The tasks of a spec; the only one is called `main`."""
    if spec.tasks:
        return spec.tasks
    data = spec.data
    return {MAIN_TASK: TaskSpec(label=data.label, classes=data.classes, labels=data.labels, output=spec.output)}


def families(spec: Spec) -> dict[str, Family]:
    """The family of metrics of each task."""
    return {name: _family(task) for name, task in task_specs(spec).items()}


def _family(task: TaskSpec) -> Family:
    return "classes" if task.classes is not None else "labels" if task.labels is not None else "single"


def outputs_of(spec: Spec, variant: VariantSpec, tasks: Iterable[Task] = ()) -> dict[str, OutputSpec]:
    """What the score of a variant is, by task. tasks: resolved, where the names of their classes matter."""
    names = {task.name: task.classes for task in tasks}
    return resolve_outputs(
        variant, {name: _task_output(task, names.get(name, ())) for name, task in task_specs(spec).items()}
    )


def _task_output(task: TaskSpec, names: tuple[str, ...]) -> OutputSpec:
    family = _family(task)
    if family == "single":
        return task.output
    return TaskOutput(kind=task.output.kind, select=task.output.select, several=family, names=names)


def model(
    spec: Spec,
    variant: VariantSpec,
    base: Path,
    tasks: Iterable[Task] = (),
    made: Mapping[str, Preparation] = MappingProxyType({}),
) -> Model:
    """The variant, described but not loaded. ModelError when a package is missing, or its settings are wrong.

    tasks: resolved; it cannot be loaded without the names of their classes. made: preparations that are described
    already, so that variants share their digest.
    """
    kind = next(kind for kind in MODELS if getattr(variant, kind) is not None)
    outputs = outputs_of(spec, variant, tasks)
    try:
        of_kind = load(MODELS[kind])
        if variant.prepare is None:
            described: Model = of_kind.from_spec(variant, outputs, base)
        else:
            shared = made.get(variant.prepare) or preparation(spec, variant.prepare, base)
            described = of_kind.from_spec(variant, outputs, base, shared)
    except ModuleNotFoundError as error:
        raise ModelError(variant.name, _missing(error)) from error
    return described


def models(spec: Spec, base: Path, tasks: Iterable[Task] = ()) -> tuple[Model, ...]:
    tasks = tuple(tasks)
    return tuple(model(spec, variant, base, tasks) for variant in spec.variants)


def check_here(spec: Spec) -> None:
    """ModelError where a variant wants a device that this process does not have."""
    for variant in spec.variants:
        if variant.torch is not None and variant.torch.device != "cpu":
            load(FIND_DEVICE)(variant.name, variant.torch.device)


def preparation(spec: Spec, name: str, base: Path) -> Preparation:
    """One of `prepare`, described but not built."""
    described: Preparation = load(PREPARATION)(name, spec.prepare[name], base, prepared_rows(spec, name))
    return described


def prepared_rows(spec: Spec, name: str) -> int:
    """Rows of each micro-batch of a preparation."""
    return spec.prepare[name].batch_rows or spec.execution.micro_batch or PREPARED_ROWS


def made_by(variants: Iterable[VariantSpec]) -> dict[str, str]:
    """Variant -> the preparation of what it receives, of those that have one."""
    return {one.name: one.prepare for one in variants if one.prepare is not None}


def preparations(spec: Spec, variants: Iterable[VariantSpec], base: Path) -> tuple[Preparation, ...]:
    """Those that any of the variants names, in the spec's order."""
    named = set(made_by(variants).values())
    return tuple(preparation(spec, name, base) for name in spec.prepare if name in named)


def batch_rows(spec: Spec, described: Iterable[Model]) -> dict[str, int | None]:
    """Variant -> rows per call: those of its preparation, what the spec says, or what suits its kind; None where it
    gets whole chunks."""
    own = {one.name: one.batch_rows for one in described}
    rows = {name: suits and (spec.execution.micro_batch or suits) for name, suits in own.items()}
    prepared = {name: prepared_rows(spec, one) for name, one in made_by(spec.variants).items() if name in own}
    return rows | prepared


def model_columns(described: Iterable[Model | Preparation], schema: pa.Schema) -> tuple[str, ...]:
    """The columns that any of the models reads, in the schema's order."""
    wanted = {column for one in described for column in one.columns}
    return tuple(name for name in schema.names if name in wanted)


def sink(settings: SinkSettings) -> Sink:
    """Where predictions are written. RunError: a package is missing, no such place; DataError: settings that don't fit.

    Its folders, or the files of a table, lie where `settings.to` says. In every process the same.
    """
    try:
        of_format = load(SINKS[settings.format])
    except ModuleNotFoundError as error:
        raise RunError(f"The format {settings.format!r} cannot be written: {_missing(error)}") from error
    made: Sink = of_format(settings, open_folder)
    return made


# ---- workers and executors -------------------------------------------------------------------------------------------


def bundled(spec: Spec, plan: Plan, bundle: int) -> tuple[VariantSpec, ...]:
    """The variants that a worker of a bundle holds: its own, and the baseline."""
    names = plan.bundles[bundle] if plan.bundles else tuple(plan.fingerprints)
    return tuple(one for one in spec.variants if one.name in names or one.name == spec.baseline)


def layout(spec: Spec, plan: Plan, bundle: int = 0) -> Layout:
    """Which states a partial of a bundle has."""
    outputs: dict[tuple[str, str], OutputKind] = {
        (task, variant.name): output.kind or "score"
        for variant in bundled(spec, plan, bundle)
        for task, output in outputs_of(spec, variant).items()
    }
    by_task = {task.name: accumulators(metrics_of([task])[task.name], plan.choice.of(task)) for task in plan.tasks}
    compared = {task.name for task in plan.tasks if any(one.needs_baseline for one in metrics_of([task])[task.name])}
    return Layout(
        outputs,
        by_task,
        plan.sizes,
        spec.baseline,
        plan.clusters,
        plan.confirm_fraction,
        tasks={task.name: task for task in plan.tasks},
        compared=frozenset(compared) if spec.baseline is not None else frozenset(),
        leads=bundle == 0,
    )


def worker_setup(job: Job, bundle: int = 0) -> WorkerSetup:
    """All that a process needs to score units of a bundle; called once in each worker."""
    import_from(job.base)
    spec, plan, base = job.spec, job.plan, Path(job.base)
    variants = bundled(spec, plan, bundle)
    described = tuple(model(spec, one, base, plan.tasks) for one in variants)
    read, directory = row_reader(job, model_columns(described, job.source.schema)), RunDirectory.for_worker(job.run)
    return WorkerSetup(
        read=read,
        read_here=read,
        scoring=Scoring(
            models=described,
            layout=layout(spec, plan, bundle),
            micro_batch=spec.execution.micro_batch,
            tolerant=spec.tolerant,
            preparations=preparations(spec, variants, base),
            made_by=made_by(variants),
            keeps=spec.predicts,
        ),
        save=directory.save_state,
        save_outputs=directory.save_outputs if spec.predicts else None,
    )


def row_reader(job: Job, columns: Sequence[str]) -> Callable[[Unit], Iterator[Rows]]:
    """What reads a unit as rows in their roles. columns: of the rows' table."""
    spec, plan, source = job.spec, job.plan, job.source
    slicer = SliceEncoder(plan.slices)
    as_rows = RowReader(source.schema, spec.data, plan.tasks, slicer, plan.weight_exponent, plan.seed, columns)
    return lambda unit: map(as_rows, source.read(unit, as_rows.columns))


def preparing_reader(job: Job) -> Callable[[Unit], Iterator[Rows]]:
    """What reads a unit for workers that need not prepare: `prepared` holds what each preparation with tasks of its own
    made of each micro-batch that is not empty, and the table the columns that other models read.

    What a preparation raised stands in the place of what it would have made. Called once in each process.
    """
    import_from(job.base)
    spec, base, schema = job.spec, Path(job.base), job.source.schema
    every = preparations(spec, spec.variants, base)
    apart = tuple(one for one in every if one.apart)
    names = {one.name for one in apart}
    others = [model(spec, one, base, job.plan.tasks) for one in spec.variants if one.prepare not in names]
    left = model_columns(others, schema)
    read, loaded = row_reader(job, model_columns([*others, *apart], schema)), Preparations(apart)

    def prepared(unit: Unit) -> Iterator[Rows]:
        for rows in read(unit):
            yield replace(rows, table=rows.table.select(left), prepared=loaded.make_all(rows))

    return prepared


def check_executor(name: str, address: str | None) -> None:
    """RunError unless `name` is `auto` or an executor, and may have the address."""
    if name not in ("auto", *EXECUTORS):
        raise RunError(f"There is no executor {name!r}{offer(name, ('auto', *EXECUTORS))}")
    if name == "local" and address is not None:
        raise RunError(
            f"The executor 'local' uses this process alone, but got the address {address!r}; drop one of them."
        )


def executor(name: str, workers: int | None, address: str | None, limits: Limits = NO_LIMITS) -> Executor:
    """`local` takes one worker a core by default, `ray` as many as the cluster has room for."""
    try:
        made = load(EXECUTORS[name])
    except ModuleNotFoundError as error:
        raise RunError(f"The executor {name!r} cannot be used: {_missing(error)}") from error
    if name == "local":
        local: Executor = made(workers or num_cores(), worker_setup, limits)
        return local
    remote: Executor = made(workers, worker_setup, address, limits, preparing_reader)
    return remote


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def import_from(base: str) -> None:
    """Let modules of the user's be found beside the spec, before all others, as in a script that lies there."""
    forget_elsewhere(base)
    sys.path[:] = [base, *(folder for folder in sys.path if folder != base)]


def _missing(error: ModuleNotFoundError) -> str:
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return f"the module {error.name!r} is not installed."
    return f"the package {module!r} is not installed; pip install 'assay[{EXTRAS[module]}]'."
