"""A variant that is a Python function of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from assay.errors import ModelError
from assay.models.fingerprint import describe_outputs, describe_reader, fingerprint
from assay.models.function import Settings, calling, digest_source, find_function
from assay.models.inputs import InputReader, input_reader
from assay.models.outputs import Outputs, Scores, read_scores, resolve_outputs
from assay.protocols import Predictor
from assay.spec.model import CallableModel as CallableSpec
from assay.spec.model import OutputSpec, VariantSpec


@dataclass(frozen=True)
class CallableModel:
    """Calls `function(inputs, **settings)`; with `receive: arguments`, `function(**inputs, **settings)`."""

    name: str
    function: str  # "module:function"
    settings: Settings
    reader: InputReader
    outputs: Outputs
    base: Path

    @classmethod
    def from_spec(cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path) -> CallableModel:
        """`outputs`: the output of each task. ModelError when the inputs cannot be given as asked."""
        callable_ = variant.callable
        spec = callable_ if isinstance(callable_, CallableSpec) else CallableSpec(function=str(callable_))
        reader = input_reader(variant)
        twice = [argument.name for argument in reader.arguments if argument.name in spec.settings]
        if twice and reader.receive == "arguments":
            raise ModelError(variant.name, f"{twice[0]!r} is given by inputs and by settings; remove one.")
        return cls(variant.name, spec.function, spec.settings, reader, resolve_outputs(variant, outputs), base)

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
        }
        return fingerprint("callable", parts)

    @property
    def batched(self) -> bool:
        return True

    def check(self, schema: pa.Schema) -> None:
        self.reader.check(schema)

    def load(self) -> Predictor:
        function = find_function(self.name, self.function, self.base)
        doing = f"function {self.function!r}"

        def predict(table: pa.Table) -> dict[str, Scores]:
            inputs = calling(self.name, "preparing its inputs", self.reader.read, table)
            if self.reader.receive == "arguments":
                returned = calling(self.name, doing, function, **inputs, **self.settings)
            else:
                returned = calling(self.name, doing, function, inputs, **self.settings)
            return read_scores(self.name, self.outputs, returned, table.num_rows)

        return predict
