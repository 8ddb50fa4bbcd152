"""`map_batches` and `multi_model`: from models to a chain of Ray Data's own operators.

Each operator is `Dataset.map_batches(..., batch_size=None, batch_format="pyarrow", zero_copy_batch=True)`: Ray Data
hands over the block as the Arrow table that it is, types and metadata included, and batches are cut inside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from ray.data import ActorPoolStrategy, Dataset

from assay.errors import DataError, ModelError
from assay.integrations.ray_data.blocks import Blocks, run, split
from assay.integrations.ray_data.columns import CarryOver, carry_over_of, check_clash
from assay.integrations.ray_data.failures import shown
from assay.integrations.ray_data.inputs import BatchFormat, Inputs
from assay.integrations.ray_data.late import Late
from assay.integrations.ray_data.model_spec import BATCH_SIZE, Model, ModelSpec, Part, name_of, part_of
from assay.integrations.ray_data.outputs import Declared
from assay.integrations.ray_data.packing import Needs, needs_of_all, pack
from assay.integrations.ray_data.parquet_rows import ParquetRows
from assay.integrations.ray_data.placement import Place, place_of
from assay.integrations.ray_data.stage import Leaving, Stage
from assay.integrations.ray_data.steps import labels_of_steps
from assay.spec.words import agree, listing

Concurrency = int | tuple[int, int] | tuple[int, int, int] | None
RayArguments = dict[str, Any]  # Any: Ray's own
NO_LIMIT = float("inf")
LOGGER = logging.getLogger(__name__)
WHOLE_BLOCKS = ("map_batches_internal", "_map_batches_without_batch_size_validation")
"""What Ray Data calls itself where a function that is given whole blocks wants a GPU, which `map_batches` refuses: here
batches are cut inside the block. The second is its name in older releases, where each of these has to be given."""
NEEDED = (
    "compute", "fn_args", "fn_kwargs", "fn_constructor_args", "fn_constructor_kwargs", "num_cpus", "memory",
    "concurrency", "ray_remote_args_fn",
)  # fmt: skip


def map_batches(
    ds: Dataset,
    model: Model,
    *,
    inputs: Inputs,
    outputs: Declared,
    carry_over: str | Sequence[str] = "all",
    batch_size: int = BATCH_SIZE,
    batch_format: BatchFormat = "numpy",
    num_cpus: float | None = None,
    num_gpus: float = 0,
    memory: float = 0,
    concurrency: Concurrency = None,
    fn_constructor_args: Sequence[Any] = (),
    fn_constructor_kwargs: Mapping[str, Any] | None = None,
    late: bool | ParquetRows = False,
    late_ray_remote_args: Mapping[str, Any] | None = None,
    keep_order: bool = True,
    **ray_remote_args: Any,
) -> Dataset:
    """The dataset with a model's outputs appended; all other columns come out as they went in.

    model: a function of a batch, or a class whose objects are one, built once for each actor. It sees `inputs` alone,
    and they alone are converted to `batch_format`; `InputForm` says how. It returns a value for each row of the batch:
    a dict, frame or table of the outputs, or an array or tensor. A batch has `batch_size` rows, or fewer at the end of
    a block; it is never called without rows.

    outputs: a name, names, or {name: type}. Without a type the column has that of what the model returns.

    carry_over: which columns come out beside the outputs: "all", or names and globs. Types, nulls, dictionaries, field
    and schema metadata are those of the block, whose memory is not copied.

    late: True: the other columns stay in the blocks of `ds`, which is run now and kept in the object store; a
    `ParquetRows`, of which `ds` was made: they are read from its files after the model. Either way the model runs in
    an actor that never receives them, and a task of `late_ray_remote_args` (such as num_cpus) appends them, off
    the nodes on which a model may run where other nodes have CPUs for it and these arguments name no place.

    keep_order: rows come out in the order of `ds`; a setting of Ray Data's for the whole dataset (`preserve_order`).

    num_cpus, num_gpus, memory (bytes), concurrency, fn_constructor_args, fn_constructor_kwargs and other
    `ray_remote_args` are Ray Data's.

    Raises ModelError for a declaration that cannot be followed, DataError for columns that are missing or clash. Where
    that is known only when the dataset runs, and for a model that fails, Ray raises one of both its kind and ours.
    """
    kwargs = fn_constructor_kwargs or {}
    spec = ModelSpec(
        model, inputs, outputs, batch_size, batch_format, num_cpus, num_gpus, memory, fn_constructor_args, kwargs
    )
    models = {name_of(model): spec}
    chain = _Chain(models, carry_over_of(carry_over), concurrency, ray_remote_args)
    return chain.applied(ds, [tuple(models)], late, late_ray_remote_args, keep_order)


def multi_model(
    ds: Dataset,
    models: Mapping[str, ModelSpec],
    *,
    carry_over: str | Sequence[str] = "all",
    concurrency: Concurrency = None,
    gpus_per_actor: float = 1,
    memory_per_actor: float = NO_LIMIT,
    late: bool | ParquetRows = False,
    late_ray_remote_args: Mapping[str, Any] | None = None,
    keep_order: bool = True,
    **ray_remote_args: Any,
) -> Dataset:
    """The dataset with the outputs of several models appended, in one pass, in the order of `models`.

    Models whose needs fit one actor (together at most `gpus_per_actor` and `memory_per_actor`) share it: a block is
    read once for them, and converted once for each distinct pair of inputs and format. Models that need a GPU share
    with such alone. Where there are several actors, a block goes through one after another; with `late` only its
    inputs and outputs do. Any of them in parallel: `concurrency` is for each.

    All other arguments are those of `map_batches`. ModelError when two models have an output of the same name, or one
    reads another's output.
    """
    if not models:
        raise DataError("There are no models; expected at least one.")
    chain = _Chain(dict(models), carry_over_of(carry_over), concurrency, ray_remote_args)
    most = Needs(None, gpus_per_actor, memory_per_actor)
    bundles = pack({name: _needs(spec) for name, spec in models.items()}, most)
    return chain.applied(ds, bundles, late, late_ray_remote_args, keep_order)


class _Chain:
    """Models and what becomes of the other columns, checked; `applied` makes operators of them."""

    def __init__(
        self,
        models: Mapping[str, ModelSpec],
        carry_over: CarryOver,
        concurrency: Concurrency,
        ray_remote_args: Mapping[str, Any],  # Any: Ray's own
    ) -> None:
        self._specs, self._carry_over = models, carry_over
        self._concurrency, self._ray_remote_args = concurrency, dict(ray_remote_args)
        self._parts = {name: part_of(name, spec) for name, spec in models.items()}
        check_outputs(list(self._parts.values()))

    @property
    def _outputs(self) -> tuple[str, ...]:
        return tuple(name for part in self._parts.values() for name in part.output_names)

    @property
    def _inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self._parts.values() for column in part.form.columns))

    def applied(
        self,
        ds: Dataset,
        bundles: Sequence[tuple[str, ...]],
        late: bool | ParquetRows,
        late_ray_remote_args: Mapping[str, Any] | None,  # Any: Ray's own
        keep_order: bool,
    ) -> Dataset:
        """The dataset that has passed through an operator for each bundle and, if late, one that appends the rest."""
        if not isinstance(ds, Dataset):
            raise DataError(
                f"ds is a {type(ds).__name__}; expected a dataset of Ray Data, such as ray.data.from_arrow gives."
            )
        if not isinstance(late, bool | ParquetRows):
            raise DataError(f"late is {late!r}; expected True, False, or a ParquetRows, of which ds was made.")
        if late_ray_remote_args is not None and late is False:
            raise DataError("late_ray_remote_args have no effect without late. Say late=True or leave them out.")
        self._check_dataset(ds, late)
        if keep_order:
            ds.context.execution_options.preserve_order = True
        if late is False:
            return self._scored(ds, bundles, self._carry_over, in_actors=False)
        settings = dict(late_ray_remote_args or {})
        place = self._place(ds, bundles, settings)
        if place.warning:
            LOGGER.warning(place.warning)
        if isinstance(late, ParquetRows):
            return self._appended(ds, bundles, late, {**place.asked, **settings})
        kept = run(ds, labels_of_steps(ds, place))
        place = self._place(kept, bundles, settings)  # asked for again: the cluster may have grown
        narrow, blocks = split(kept, self._inputs, place.asked)
        self._check(blocks.schema, blocks.schema.names)
        return self._appended(narrow, bundles, blocks, {**place.asked, **settings})

    def _place(self, ds: Dataset, bundles: Sequence[tuple[str, ...]], settings: RayArguments) -> Place:
        """On which nodes wide columns are seen. settings: of the task that appends, as the caller gave them."""
        return place_of(ds, self._asked(bundles), settings)

    def _asked(self, bundles: Sequence[tuple[str, ...]]) -> list[RayArguments]:
        """What each model, or those that share an actor, asks of Ray."""
        return [self._settings(bundle) for bundle in bundles]

    def _appended(
        self,
        narrow: Dataset,
        bundles: Sequence[tuple[str, ...]],
        wide: Blocks | ParquetRows,
        settings: RayArguments,
    ) -> Dataset:
        """The narrow dataset that has passed through all models, and then through the task that appends."""
        scored = self._scored(narrow, bundles, CarryOver(None, without=self._outputs), in_actors=True)
        join = Late(wide, self._carry_over, wide.row_column, self._outputs)
        return _operator(scored, _as_function("append_wide", join), settings)

    def _scored(
        self, ds: Dataset, bundles: Sequence[tuple[str, ...]], carry_over: CarryOver, in_actors: bool
    ) -> Dataset:
        done: tuple[str, ...] = ()
        for number, bundle in enumerate(bundles):
            parts = [self._parts[name] for name in bundle]
            later = [self._parts[name] for following in bundles[number + 1 :] for name in following]
            needed = tuple(dict.fromkeys(column for part in later for column in part.form.columns))
            leaving = Leaving(carry_over, needed, done, None if later else self._outputs)
            ds = self._operator(ds, parts, leaving, in_actors)
            done = (*done, *(name for part in parts for name in part.output_names))
        return ds

    def _operator(self, ds: Dataset, parts: list[Part], leaving: Leaving, in_actors: bool) -> Dataset:
        settings = self._settings([part.name for part in parts])
        name = "+".join(part.name for part in parts)
        if in_actors or any(isinstance(part.model, type) for part in parts):
            actor = type(name, (_Actor,), {})  # Ray Data shows the class's name
            pool = _actors(self._concurrency)
            return _operator(ds, actor, {**settings, **pool, "fn_constructor_args": (parts, leaving)})
        pool = {"concurrency": self._concurrency}
        return _operator(ds, _as_function(name, Stage(parts, leaving)), {**settings, **pool})

    def _settings(self, bundle: Sequence[str]) -> RayArguments:
        """What an actor or a task of these models asks of Ray."""
        needs = needs_of_all([_needs(self._specs[name]) for name in bundle])
        return {**self._ray_remote_args, **_resources(needs)}

    def _check_dataset(self, ds: Dataset, late: bool | ParquetRows) -> None:
        """What is known before anything runs: nothing after a step whose columns Ray Data does not know."""
        schema = ds.schema(fetch_if_missing=False)
        schema = getattr(schema, "base_schema", schema)
        if not isinstance(schema, pa.Schema):
            return
        own = [name for name in schema.names if isinstance(late, bool) or name != late.row_column]
        elsewhere = [] if isinstance(late, bool) else [name for name in late.schema.names if name not in own]
        self._check(schema, [*own, *elsewhere])

    def _check(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """names: of all columns that may be carried over."""
        for part in self._parts.values():
            part.form.check(schema)
        check_clash(self._outputs, self._carry_over.chosen(names))


def check_outputs(parts: Sequence[Part]) -> None:
    """ModelError when an output is of two models, or is what another one reads."""
    owners: dict[str, str] = {}
    for part in parts:
        both = [name for name in part.output_names if name in owners]
        if both:
            raise ModelError(
                part.name,
                f"{agree(len(both), 'output', 'outputs')} {listing(both)} {agree(len(both), 'is', 'are')} of model "
                f"{owners[both[0]]!r} too; give each output a name of its own.",
            )
        owners.update(dict.fromkeys(part.output_names, part.name))
    for part in parts:
        read = [name for name in part.form.columns if owners.get(name, part.name) != part.name]
        if read:
            raise ModelError(
                part.name,
                f"it reads {listing(read)}, which {agree(len(read), 'has the name of an output', 'are outputs')} of "
                f"model {owners[read[0]]!r}. Run one after the other by map_batches, or rename the output.",
            )


def _operator(ds: Dataset, function: Callable[..., Any], settings: RayArguments) -> Dataset:
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {"batch_size": None, "batch_format": "pyarrow", "zero_copy_batch": True}
    settings["udf_modifying_row_count"] = False
    if not settings.get("num_gpus"):
        return ds.map_batches(function, **settings)
    known = [getattr(ds, name) for name in WHOLE_BLOCKS if hasattr(ds, name)]
    unchecked: Callable[..., Dataset] = known[0] if known else ds.map_batches  # which says why it refuses
    return unchecked(function, **{**dict.fromkeys(NEEDED), **settings})


class _Actor:
    """Ray Data runs objects of a class in actors."""

    def __init__(self, parts: Sequence[Part], leaving: Leaving) -> None:
        self._stage = Stage(parts, leaving)

    def __call__(self, block: pa.Table) -> Iterator[pa.Table]:
        yield from shown(self._stage, block)


def _as_function(name: str, stage: Stage | Late) -> Callable[[pa.Table], Iterator[pa.Table]]:
    """Ray Data runs functions in tasks, and shows their name."""

    def call(block: pa.Table) -> Iterator[pa.Table]:
        yield from shown(stage, block)

    call.__name__ = call.__qualname__ = name
    return call


def _actors(concurrency: Concurrency) -> RayArguments:
    """How many actors, in the form of which Ray Data does not say that it will go."""
    if isinstance(concurrency, int):
        return {"compute": ActorPoolStrategy(size=concurrency)}
    if isinstance(concurrency, tuple):
        least, most, *first = concurrency
        return {"compute": ActorPoolStrategy(min_size=least, max_size=most, initial_size=first[0] if first else None)}
    return {}


def _needs(spec: ModelSpec) -> Needs:
    return Needs(spec.num_cpus, spec.num_gpus, spec.memory)


def _resources(needs: Needs) -> RayArguments:
    return {"num_cpus": needs.num_cpus, "num_gpus": needs.num_gpus or None, "memory": needs.memory or None}
