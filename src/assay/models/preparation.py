"""A preparation: a user's function, or class, that makes what several variants receive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay.errors import ModelError, PreparationError
from assay.models.fingerprint import digest_files, fingerprint
from assay.models.function import calling, check_function, digest_source, find_function
from assay.models.inputs import Argument, InputReader
from assay.spec.model import PrepareSpec
from assay.spec.names import offer
from assay.spec.words import listing


@dataclass(frozen=True)
class FunctionPreparation:
    """Calls `function(table, **settings)`; of a class an object is made with the settings, once in each worker, and
    then called with tables.

    A table has the rows of one micro-batch and a column for each input, by its name there; the values of dictionary
    columns in the place of their codes.
    """

    name: str
    spec: PrepareSpec
    base: Path
    batch_rows: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self._reader.columns

    @property
    def apart(self) -> bool:
        return self.spec.tasks is not None

    @cached_property
    def fingerprint(self) -> str:
        spec = self.spec
        with _told_of(self.name):
            parts = {
                "function": spec.function,
                "settings": spec.settings,
                "inputs": self._reader.arguments,
                "batch_rows": self.batch_rows,
                "code": digest_source(self.name, spec.function, self.base),
                "files": digest_files(self.name, self.base, spec.files),
            }
        return fingerprint("prepare", parts)

    def check(self, schema: pa.Schema) -> None:
        missing = [column for column in self.columns if column not in schema.names]
        if missing:
            also = f" It also reads {listing(missing[1:])}." if missing[1:] else ""
            raise PreparationError(
                self.name,
                f"preparation {self.name!r} reads column {missing[0]!r}, which the data do not have"
                f"{offer(missing[0], schema.names)}{also}",
            )
        with _told_of(self.name):
            check_function(self.name, self.spec.function, self.base)

    def load(self) -> Callable[[pa.Table], Any]:  # Any: the user's own object
        with _told_of(self.name):
            found = find_function(self.name, self.spec.function, self.base)
            if not isinstance(found, type):
                return partial(self._make, partial(found, **self.spec.settings))
            doing = f"making an object of {self.spec.function!r}"
            made = calling(self.name, doing, found, **self.spec.settings)
            if not callable(made):
                raise ModelError(
                    self.name,
                    f"{self.spec.function!r} is a class whose objects cannot be called; give it a method __call__ that "
                    "takes a table.",
                )
            return partial(self._make, made)

    def _make(self, function: Callable[[pa.Table], Any], table: pa.Table) -> Any:  # Any: as above
        given = self._reader.read(table)
        try:
            return calling(self.name, f"preparation {self.name!r}", function, given)
        except ModelError as error:
            raise PreparationError(self.name, error.message) from error.__cause__

    @property
    def _reader(self) -> InputReader:
        inputs = self.spec.inputs
        pairs = inputs.items() if isinstance(inputs, dict) else zip(inputs, inputs, strict=True)
        return InputReader(self.name, tuple(Argument(name, (column,), True) for name, column in pairs), "arrow")


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """What cannot be had of the user's code is told as a fault of the preparation."""
    try:
        yield
    except ModelError as error:
        raise PreparationError(name, f"preparation {name!r}: {error.message}") from error
