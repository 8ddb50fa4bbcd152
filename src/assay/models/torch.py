"""A variant that is a torch module. The only file outside `integrations/` that imports torch.

Axes: n rows of the batch, k columns of one argument.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from assay.errors import ModelError
from assay.models.fingerprint import (
    describe_outputs,
    describe_reader,
    digest_files,
    digest_path,
    fingerprint,
    path_bytes,
)
from assay.models.function import calling, check_function, digest_source, find_function
from assay.models.inputs import input_reader
from assay.models.outputs import Outputs, Scores, read_scores, resolve_outputs
from assay.models.prepared import PreparedInputs, Reader, inputs_of
from assay.protocols import Predictor, Preparation
from assay.spec.model import OutputSpec, VariantSpec
from assay.spec.model import TorchModel as TorchSpec


@dataclass(frozen=True)
class TorchModel:
    """Calls a module's forward in evaluation mode, without gradients, on one thread of the CPU or on a GPU.

    The module comes from a function of the user's that is given the path (`load`), from a function that builds it and
    whose weights are a safetensors or weights_only state dict (`factory`), or, trusted, from a file that holds the
    module itself. Floats arrive as float32, integers as int64 and booleans as bool tensors [n]; an argument of a list
    of columns, and a matrix, as float32 [n, k]. What a preparation made is received as it is, but that its arrays of
    numbers, alone or in a dict, become such tensors too.
    """

    name: str
    spec: TorchSpec
    trusted: bool
    reader: Reader
    outputs: Outputs
    base: Path

    @classmethod
    def from_spec(
        cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path, made_by: Preparation | None = None
    ) -> TorchModel:
        """`outputs`: the output of each task; made_by: of what it receives.

        ModelError when it may not be loaded, or a setting cannot be followed.
        """
        spec = variant.torch
        assert spec is not None, "build takes the kind that is given"
        if not (spec.load or spec.factory or variant.trusted):
            raise ModelError(variant.name, _refusal(spec.path))
        reader: Reader = (
            input_reader(variant, tensors=True)
            if made_by is None
            else PreparedInputs(variant.name, made_by, variant.receive)
        )
        return cls(variant.name, spec, variant.trusted, reader, resolve_outputs(variant, outputs), base)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reader.columns

    @property
    def fingerprint(self) -> str:
        code = [self.spec.load or self.spec.factory] if self.spec.load or self.spec.factory else []
        parts = {
            "load": self.spec.load,
            "factory": self.spec.factory,
            "settings": self.spec.settings,
            "inputs": describe_reader(self.reader),
            "outputs": describe_outputs(self.outputs),
            "code": [digest_source(self.name, str(reference), self.base) for reference in code],
            "files": digest_files(self.name, self.base, self.spec.files),
            "weights": digest_path(self.name, self._path),
        }
        if self.spec.device != "cpu":
            parts["device"] = self.spec.device
        return fingerprint("torch", parts)

    @property
    def batch_rows(self) -> int:
        return 1024  # stays in a core's cache

    @property
    def num_bytes(self) -> int:
        return path_bytes(self._path, *(self.base / file for file in self.spec.files))

    def check(self, schema: pa.Schema) -> None:
        self.reader.check(schema)
        made_by = self.spec.load or self.spec.factory
        if made_by is not None:
            check_function(self.name, made_by, self.base)

    def load(self) -> Predictor:
        device = find_device(self.name, self.spec.device)
        module = calling(self.name, f"moving the module to {device}", self._module().eval().to, device)
        return LoadedModule(self.name, self.reader, self.outputs, module, device)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @property
    def _path(self) -> Path:
        return self.base / self.spec.path

    def _module(self) -> torch.nn.Module:
        if not self._path.exists():
            raise ModelError(self.name, f"there is no file or folder {str(self._path)!r}.")
        if self.spec.factory:
            module = self._made_by(self.spec.factory)
            weights = self._weights()
            calling(self.name, f"loading {self.spec.path!r} into the module", module.load_state_dict, weights)
            return module
        if self.spec.load:
            return self._made_by(self.spec.load, str(self._path))
        return self._as_module(self._unpickle(weights_only=False), f"the file {self.spec.path!r}")

    def _made_by(self, reference: str, *args: str) -> torch.nn.Module:
        function = find_function(self.name, reference, self.base)
        made = calling(self.name, f"function {reference!r}", function, *args, **self.spec.settings)
        return self._as_module(made, f"function {reference!r}")

    def _as_module(self, made: object, giver: str) -> torch.nn.Module:
        if isinstance(made, torch.nn.Module):
            return made
        raise ModelError(
            self.name, f"{giver} gave an object of type {type(made).__name__}; expected a torch.nn.Module."
        )

    def _weights(self) -> Mapping[str, Any]:  # Any: tensors, and what a module's extra state holds
        if self._path.suffix == ".safetensors":
            weights: object = calling(self.name, f"loading {self.spec.path!r}", load_file, self._path)
        else:
            weights = self._unpickle(weights_only=not self.trusted)
        if isinstance(weights, torch.nn.Module):
            return weights.state_dict()
        if isinstance(weights, Mapping):
            return weights
        raise ModelError(self.name, f"{self.spec.path!r} holds a {type(weights).__name__}; expected a state dict.")

    def _unpickle(self, weights_only: bool) -> object:
        try:
            return torch.load(self._path, map_location="cpu", weights_only=weights_only)
        except pickle.UnpicklingError as error:
            raise ModelError(self.name, _refusal(self.spec.path)) from error
        except Exception as error:  # a damaged file gives errors of many types
            raise ModelError(
                self.name, f"loading {self.spec.path!r} failed with {type(error).__name__}: {error}"
            ) from error


@dataclass(frozen=True)
class LoadedModule:
    """A module in evaluation mode."""

    name: str
    reader: Reader
    outputs: Outputs
    module: torch.nn.Module
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def preparation(self) -> Hashable:
        return self.reader.preparation

    def prepare(self, table: pa.Table) -> Any:  # Any: what forward receives, with arrays for tensors
        return calling(self.name, "preparing its inputs", self._read, table)

    def score(self, prepared: Any, rows: slice) -> dict[str, Scores]:  # Any: as above
        inputs = placed(_to_tensors(inputs_of(self.reader, prepared, rows)), self.device)
        with torch.inference_mode():
            if self.reader.receive == "arguments":
                returned = calling(self.name, "forward", self.module, **inputs)
            else:
                returned = calling(self.name, "forward", self.module, inputs)
        return read_scores(self.name, self.outputs, _to_numpy(returned), rows.stop - rows.start)

    def _read(self, table: pa.Table) -> Any:  # Any: as above
        inputs = self.reader.read(table)
        if isinstance(inputs, dict):
            return {name: _as_tensor_type(array) for name, array in inputs.items()}
        return _as_tensor_type(inputs) if isinstance(inputs, np.ndarray) else inputs


def find_device(variant: str, name: str) -> torch.device:
    """ModelError where this process has no such device."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            variant,
            "its device is cuda, but torch finds no CUDA device in this process; say device: cpu, give each worker a "
            "GPU (workers: {num_gpus: 1}), or install a torch that is built for CUDA.",
        )
    return torch.device(name)


def _refusal(path: str) -> str:
    return (
        f"{path!r} is a pickled torch file, and loading one runs whatever code is in it; save a state dict with "
        "safetensors and name its factory, or, if you trust the one who wrote it, say trusted: true."
    )


def _as_tensor_type(array: NDArray[Any]) -> NDArray[Any]:  # Any: an array of numbers of any type
    """float32, int64 or bool."""
    return array.astype({"f": np.float32, "b": np.bool_}.get(array.dtype.kind, np.int64), copy=False)


def _to_tensors(inputs: Any) -> Any:  # Any: what forward receives
    """Arrays of numbers, alone or in a dict, as tensors; all else stays."""
    if type(inputs) is dict:
        return {name: _to_tensor(one) for name, one in inputs.items()}
    return _to_tensor(inputs)


def _to_tensor(value: Any) -> Any:  # Any: what forward receives
    """A tensor of its own, where the array is one that others read too."""
    if not (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        return value
    array = _as_tensor_type(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def placed(inputs: Any, device: torch.device) -> Any:  # Any: what forward receives
    """With all that can be moved to a device on this one: tensors, and what else has `to`; in dicts, lists, tuples."""
    if type(inputs) is dict:
        return {name: placed(one, device) for name, one in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(placed(one, device) for one in inputs)
    is_movable = isinstance(inputs, torch.Tensor) or (device.type != "cpu" and hasattr(inputs, "to"))
    return inputs.to(device) if is_movable else inputs


def _to_numpy(returned: object) -> object:
    """What forward returned with arrays for tensors; half-precision floats become float32."""
    if isinstance(returned, torch.Tensor):
        tensor = returned.detach().cpu()
        return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).numpy()
    if isinstance(returned, Mapping):
        return {key: _to_numpy(value) for key, value in returned.items()}
    if isinstance(returned, tuple | list):
        return [_to_numpy(value) for value in returned]
    return returned
