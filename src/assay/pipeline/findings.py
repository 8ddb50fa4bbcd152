"""Errors of steps that do not need one another, told together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from assay.errors import AssayError, DataError, Fault, ModelError, SpecError, joined

Made = TypeVar("Made")


class Findings:
    """Carries out steps, and keeps what they raise until `tell`."""

    def __init__(self) -> None:
        self._errors: list[AssayError] = []

    def of(self, step: Callable[[], Made]) -> Made | None:
        """What the step gives; None when it found a fault."""
        try:
            return step()
        except (SpecError, DataError, ModelError) as error:
            self._errors.append(error)
            return None

    def tell(self) -> None:
        """Raise what was found, if anything was."""
        if self._errors:
            raise together(self._errors)


def together(errors: Sequence[AssayError]) -> AssayError:
    """One error with the sentences of all: of their own kind where they are of one, else a SpecError."""
    if len(errors) == 1:
        return errors[0]
    models = [error for error in errors if isinstance(error, ModelError)]
    if len(models) == len(errors):
        return joined(models)
    if all(isinstance(error, DataError) for error in errors):
        return DataError("\n".join(map(str, errors)))
    return SpecError([fault for error in errors for fault in _faults(error)])


def _faults(error: AssayError) -> Sequence[Fault]:
    return error.faults if isinstance(error, SpecError) else [Fault("", line) for line in str(error).splitlines()]
