"""A variant that is a Python function of its inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay.errors import ModelError
from assay.models.fingerprint import describe_outputs, describe_reader, digest_files, fingerprint, path_bytes
from assay.models.function import Settings, calling, check_function, digest_source, find_function
from assay.models.inputs import InputReader, input_reader
from assay.models.outputs import Outputs, Scores, read_scores, resolve_outputs
from assay.models.prepared import PreparedInputs, Reader, inputs_of
from assay.protocols import Predictor, Preparation
from assay.spec.model import CallableModel as CallableSpec
from assay.spec.model import OutputSpec, VariantSpec

_LACKS_ARGUMENTS = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")


@dataclass(frozen=True)
class CallableModel:
    """Calls `function(inputs, **settings)`; with `receive: arguments`, `function(**inputs, **settings)`. The inputs are
    of the columns, or what a preparation made."""

    name: str
    function: str  # "module:function"
    settings: Settings
    files: tuple[str, ...]  # that the function reads
    reader: Reader
    outputs: Outputs
    base: Path

    @classmethod
    def from_spec(
        cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path, made_by: Preparation | None = None
    ) -> CallableModel:
        """`outputs`: the output of each task; made_by: of what it receives. ModelError when the inputs cannot be given
        as asked."""
        callable_ = variant.callable
        spec = callable_ if isinstance(callable_, CallableSpec) else CallableSpec(function=str(callable_))
        reader: Reader = (
            _reader(variant, spec.settings)
            if made_by is None
            else PreparedInputs(variant.name, made_by, variant.receive, tuple(spec.settings))
        )
        resolved = resolve_outputs(variant, outputs)
        return cls(variant.name, spec.function, spec.settings, spec.files, reader, resolved, base)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reader.columns

    @property
    def fingerprint(self) -> str:
        parts = {
            "function": self.function,
            "settings": self.settings,
            "inputs": describe_reader(self.reader),
            "outputs": describe_outputs(self.outputs),
            "code": digest_source(self.name, self.function, self.base),
            "files": digest_files(self.name, self.base, self.files),
        }
        return fingerprint("callable", parts)

    @property
    def batch_rows(self) -> int:
        return 1024

    @property
    def num_bytes(self) -> int:
        return path_bytes(*(self.base / file for file in self.files))

    def check(self, schema: pa.Schema) -> None:
        self.reader.check(schema)
        check_function(self.name, self.function, self.base)

    def load(self) -> Predictor:
        return LoadedCallable(self, find_function(self.name, self.function, self.base))


@dataclass(frozen=True)
class LoadedCallable:
    """The function, found."""

    model: CallableModel
    function: Callable[..., object]

    @property
    def preparation(self) -> Hashable:
        return self.model.reader.preparation

    def prepare(self, table: pa.Table) -> Any:  # Any: what the function receives
        return calling(self.model.name, "preparing its inputs", self.model.reader.read, table)

    def score(self, prepared: Any, rows: slice) -> dict[str, Scores]:  # Any: as above
        model, inputs = self.model, inputs_of(self.model.reader, prepared, rows)
        doing = f"function {model.function!r}"
        if model.reader.receive == "arguments":
            returned = calling(model.name, doing, self.function, **inputs, **model.settings)
        else:
            try:
                returned = calling(model.name, doing, self.function, inputs, **model.settings)
            except ModelError as error:
                raise _with_hint(error, model.reader) from error.__cause__
        return read_scores(model.name, model.outputs, returned, rows.stop - rows.start)


def _with_hint(error: ModelError, reader: Reader) -> ModelError:
    """What to do where a function wants its inputs as arguments."""
    cause = error.__cause__
    is_call = cause is not None and cause.__traceback__ is not None and cause.__traceback__.tb_next is None
    lacking = _LACKS_ARGUMENTS.search(str(cause))
    if not (isinstance(reader, InputReader) and is_call and lacking):
        return error
    if not {one.name for one in reader.arguments} & set(re.findall(r"'(\w+)'", lacking[1])):
        return error
    how = f"It was given all inputs at once (receive: {reader.receive})"
    return ModelError(error.variant, f"{error.message} {how}; say receive: arguments to give it each as an argument.")


def _reader(variant: VariantSpec, settings: Settings) -> InputReader:
    reader = input_reader(variant)
    twice = [argument.name for argument in reader.arguments if argument.name in settings]
    if twice and reader.receive == "arguments":
        raise ModelError(variant.name, f"{twice[0]!r} is given by inputs and by settings; remove one.")
    return reader
