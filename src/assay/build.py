"""Names become objects here: sources, models, sinks and executors, by tables of "module:attribute" strings.

Nothing registers itself on import, and a module is imported only when its name is asked for. Not here: metrics, to
which plug-ins may add (`catalogue.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from assay.calls import Preparations
from assay.catalogue import accumulators, metrics_of
from assay.costs import NO_LIMITS, Limits
from assay.errors import DataError, ModelError, RunError
from assay.loading import load
from assay.metrics.table import Family
from assay.models.fresh import forget_elsewhere
from assay.models.outputs import TaskOutput, resolve_outputs, value_outputs
from assay.models.values import value_type
from assay.protocols import Executor, Model, OriginalSource, Preparation, Sink, Source, is_source
from assay.records import Job, Plan, Rows, SinkSettings, Task, Unit
from assay.rows import RowReader
from assay.scoring import Scoring
from assay.slices import SliceEncoder
from assay.sources.files import find_files
from assay.spec.model import MAIN_TASK, DataSpec, OtherOutput, OutputKind, OutputSpec, Spec, TaskSpec, VariantSpec
from assay.spec.names import offer
from assay.spec.others import as_taken, taken, takes, with_columns, with_others
from assay.spec.written import score_types
from assay.store.folder import open_folder
from assay.store.run import RunDirectory
from assay.task_scores import Layout
from assay.worker import WorkerSetup

MODELS = {
    "column": "assay.models.column:ColumnModel",
    "callable": "assay.models.callable:CallableModel",
    "sklearn": "assay.models.sklearn:SklearnModel",
    "lightgbm": "assay.models.lightgbm:LightGBMModel",
    "torch": "assay.models.torch:TorchModel",
}
SOURCES = {"parquet": "assay.sources.parquet:ParquetSource", "csv": "assay.sources.csv:CsvSource"}
NATIVE = {"delta": "assay.sources.delta:DeltaSource", "lance": "assay.sources.lance:LanceSource"}
"""Readers of a spec that need no Ray where the data are on a disk: name -> "module:class"."""
READER = "assay.integrations.ray_data.readers:read"
CONNECTION = "assay.integrations.ray_data.readers:connection"
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
FRAME = "assay.sources.frame:FrameSource"
EXECUTORS = {"local": "assay.local:LocalExecutor", "ray": "assay.cluster.driver:RayExecutor"}
EXTRAS = {
    "deltalake": "delta",
    "joblib": "sklearn",
    "lance": "lance",
    "lightgbm": "lightgbm",
    "pandas": "sklearn",
    "pyiceberg": "iceberg",
    "ray": "ray",
    "safetensors": "torch",
    "sklearn": "sklearn",
    "torch": "torch",
}
"""Module that may be missing -> the extra of this package that brings it."""


# ---- data, tasks and models ------------------------------------------------------------------------------------------


def source(data: DataSpec, base: Path, frame: object = None) -> Source:
    """The rows of a spec: those of `frame` where there is one (it may be a source itself), else of its reader, or of
    files, found from `base`. To be called within `reachable`."""
    if is_source(frame):
        return frame
    if frame is not None:
        built: Source = load(FRAME)(frame)
        return built
    if data.reader is not None:
        return _read(data, base)
    paths = (data.path,) if isinstance(data.path, str) else data.path or ()
    files = find_files([os.path.join(base, os.path.expanduser(path)) for path in paths], data.format)
    found: Source = load(SOURCES[files.format])(files.paths, files.root)
    return found


def _read(data: DataSpec, base: Path) -> Source:
    """The rows that a reader gives. DataError where a package is missing."""
    assert data.reader is not None, "asked by source"
    try:
        made: Source = load(NATIVE[data.reader] if _is_native(data) else READER)(data, base)
    except ModuleNotFoundError as error:
        raise DataError(f"The reader {data.reader!r} cannot be used: {_missing(error)}") from error
    return made


def _is_native(data: DataSpec) -> bool:
    return data.reader in NATIVE and "://" not in str(data.path)


def is_of_ours(source: Source) -> bool:
    """Whether no module of the user's is needed to read it: neither its class nor a column's type is defined there."""
    schema = source.original if isinstance(source, OriginalSource) else source.schema
    return _package(source) == __name__.partition(".")[0] and all(map(_is_arrows, schema.types))


def _is_arrows(kind: pa.DataType) -> bool:
    """Also all that is inside it. Whoever gets a type of another package imports that."""
    inside = (kind.field(number).type for number in range(kind.num_fields))
    return _package(kind) == "pyarrow" and all(map(_is_arrows, inside))


def _package(value: object) -> str:
    """Where its class is defined."""
    return type(value).__module__.partition(".")[0]


@contextmanager
def reachable(
    spec: Spec, base: Path, executor: str = "ray", workers: int | None = None, address: str | None = None
) -> Iterator[None]:
    """Within it the rows of a spec can be had: a reader of Ray Data's needs a Ray cluster, from the plan to the end.

    RunError where the executor is another, or there is no cluster.
    """
    reader = spec.data.reader
    if reader is None or _is_native(spec.data):
        yield
        return
    check_executor(executor, address)
    if executor == "local":
        raise RunError(
            f"The reader {reader!r} is one of Ray Data's, whose rows the executor 'local' cannot have. Drop the "
            "executor, or name ray."
        )
    import_from(str(base))  # before a cluster is started, whose processes look where this one does
    try:
        connection = load(CONNECTION)
    except ModuleNotFoundError as error:
        raise DataError(f"The reader {reader!r} cannot be used: {_missing(error)}") from error
    with connection(spec, workers, address):
        yield


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
    fingerprints: Mapping[str, str] = MappingProxyType({}),
) -> Model:
    """The variant, described but not loaded. ModelError when a package is missing, or its settings are wrong.

    tasks: resolved; it cannot be loaded without the names of their classes. made: preparations that are described
    already, so that variants share their digest. fingerprints: of others, by which what it takes of them is then known.
    """
    kind = next(kind for kind in MODELS if getattr(variant, kind) is not None)

    def column(asked: OtherOutput) -> str:
        taken = as_taken(spec, asked)
        return taken._replace(variant=fingerprints.get(taken.variant, taken.variant)).column

    variant = with_columns(variant, column)
    outputs = outputs_of(spec, variant, tasks) | value_outputs(variant)
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
    """The variants that a worker of a bundle holds: its own, and the baseline with all that it takes from."""
    names = plan.bundles[bundle] if plan.bundles else tuple(plan.fingerprints)
    everywhere = in_every_bundle(spec)
    return tuple(one for one in spec.variants if one.name in names or one.name in everywhere)


def in_every_bundle(spec: Spec) -> tuple[str, ...]:
    """The baseline, after the variants whose outputs it takes; () without one."""
    return () if spec.baseline is None else with_others([spec.baseline], takes(spec.variants))


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
        bundled=bool(plan.bundles),
        leads=bundle == 0,
        beside=frozenset(in_every_bundle(spec)) - {spec.baseline or ""},
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
            takes={one.name: others for one in variants if (others := taken(spec, one))},
            more={
                one.name: {name: value_type(output.type) for name, output in one.outputs.items()} for one in variants
            },
            types=score_types(spec),
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
