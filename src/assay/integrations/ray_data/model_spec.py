"""A model as a pipeline gives it: what it is, what it reads and adds, and what it needs of a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.errors import ModelError
from assay.integrations.ray_data.inputs import BatchFormat, InputForm, Inputs, input_form
from assay.integrations.ray_data.outputs import Declared, Output, declared_outputs
from assay.models.function import calling

BATCH_SIZE = 1024
"""Rows per call unless said: they stay in a core's cache. A GPU wants more."""

Model = Callable[..., Any]  # Any: it is the user's
"""A function of a batch, or a class whose objects are one; a class is built once for each actor."""


@dataclass(frozen=True)
class ModelSpec:
    """One model of several, for `multi_model`; docs/ray-data.md has what each form receives and may return."""

    model: Model
    inputs: Inputs  # columns, or {argument: column, or columns for a matrix}
    outputs: Declared  # a name, names, or {name: type}
    batch_size: int = BATCH_SIZE  # most rows per call; a batch never reaches over a block's end
    batch_format: BatchFormat = "numpy"
    num_cpus: float | None = None  # None: 1, or none for a model with num_gpus
    num_gpus: float = 0
    memory: float = 0  # bytes; 0: not counted
    fn_constructor_args: Sequence[Any] = ()  # Any: what the user's class takes
    fn_constructor_kwargs: Mapping[str, Any] = field(default_factory=dict)


class Part(NamedTuple):
    """A model ready to be sent to where it is built."""

    name: str
    model: Model
    args: tuple[Any, ...]  # Any: what the user's class takes
    kwargs: dict[str, Any]
    form: InputForm
    outputs: tuple[Output, ...]
    batch_size: int

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)

    def build(self) -> Callable[[Any], object]:  # Any: a batch
        """What takes a batch: the function itself, or a new object of the class. ModelError when it takes none."""
        built: object = self.model
        if isinstance(self.model, type):
            built = calling(self.name, f"making a {self.model.__name__}", self.model, *self.args, **self.kwargs)
        if not callable(built):
            raise ModelError(self.name, f"an object of {type(built).__name__} cannot be called; give it __call__.")
        return built


def part_of(name: str, spec: ModelSpec) -> Part:
    """ModelError when the declaration cannot be followed."""
    if not callable(spec.model):
        raise ModelError(name, f"a {type(spec.model).__name__} is no model; expected a function or a class.")
    if not isinstance(spec.model, type) and (spec.fn_constructor_args or spec.fn_constructor_kwargs):
        raise ModelError(name, "fn_constructor_args are for a class, but the model is a function.")
    if spec.batch_size < 1:
        raise ModelError(name, f"batch_size is {spec.batch_size}; expected 1 or more rows.")
    form = input_form(name, spec.inputs, spec.batch_format)
    outputs = declared_outputs(name, spec.outputs)
    args, kwargs = tuple(spec.fn_constructor_args), dict(spec.fn_constructor_kwargs)
    return Part(name, spec.model, args, kwargs, form, outputs, spec.batch_size)


def name_of(model: object) -> str:
    """What a model is called where the user gave it no name."""
    return str(getattr(model, "__name__", type(model).__name__))
