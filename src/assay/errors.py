"""Every exception that assay raises on purpose, in one tree.

    AssayError
    |-- SpecError            the spec is wrong; carries all faults at once, each with its path
    |-- DataError            a file, column, row or value is not what the spec says
    |-- ModelError           a variant cannot load, or its output is not what the spec says
    |-- PreparationError     what several variants receive cannot be made; the ModelError of each of them
    |-- MetricError          a metric of the user's own cannot be found, or gives no number per row
    |-- RunError             a run directory cannot be read, continued or trusted
    |   |-- Fenced           another driver has taken the run over
    |-- Interrupted          the user stopped the run; what is committed is kept
    |-- Unfinished           the run ended before every unit was committed

A message is a sentence (or several): what was got, what was expected, what to do. The command line prints it without a
traceback and ends with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class AssayError(Exception):
    """The root of the tree. `exit_code` is what the command line returns for it."""

    exit_code = 2


class Fault(NamedTuple):
    """One thing wrong in a spec: where (`variants[2].torch.path`) and what, as a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(AssayError):
    """The spec is wrong. `faults` holds everything that is, not only the first thing found."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


class DataError(AssayError):
    """The data are not what the spec says; the message names the file and the column, row or value."""


class ModelError(AssayError):
    """A variant cannot load or score.

    `variant` is its name, `message` the sentence without it; `row` is the row of the batch that is at fault, where it
    is one row; `tolerable`: a run whose spec tolerates it has something left to score.
    """

    def __init__(self, variant: str, message: str, row: int | None = None, tolerable: bool = False) -> None:
        self.variant = variant
        self.message = message
        self.row = row
        self.tolerable = tolerable
        super().__init__(f"Variant {variant!r}: {message}")

    def __reduce__(self) -> tuple[type[ModelError], tuple[str, str, int | None, bool]]:
        return type(self), (self.variant, self.message, self.row, self.tolerable)


def joined(errors: Sequence[ModelError], *, tolerable: bool = False) -> ModelError:
    """One error with a line for each of several variants'."""
    first, *others = errors
    row = None if others else first.row
    return ModelError(first.variant, "\n".join([first.message, *map(str, others)]), row, tolerable)


class PreparationError(AssayError):
    """A preparation cannot be built, or fails on some rows: for each variant that names it, a ModelError.

    `preparation` is its name, `message` the sentences, which name it; `out_of_memory`: fewer rows at once may go;
    `sample`: a few of the rows that it was given, as JSON.
    """

    def __init__(self, preparation: str, message: str, *, out_of_memory: bool = False, sample: str = "") -> None:
        self.preparation = preparation
        self.message = message
        self.out_of_memory = out_of_memory
        self.sample = sample
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return _preparation_error, (self.preparation, self.message, self.out_of_memory, self.sample)


def _preparation_error(preparation: str, message: str, out_of_memory: bool, sample: str) -> PreparationError:
    return PreparationError(preparation, message, out_of_memory=out_of_memory, sample=sample)


class MetricError(AssayError):
    """A metric of the user's own cannot be found, fails, or gives something other than a number for each row.

    `metric` is its name, `message` the sentence without it.
    """

    def __init__(self, metric: str, message: str) -> None:
        self.metric = metric
        self.message = message
        super().__init__(f"Metric {metric!r}: {message}")

    def __reduce__(self) -> tuple[type[MetricError], tuple[str, str]]:
        return type(self), (self.metric, self.message)


class RunError(AssayError):
    """A run directory cannot be read, continued or trusted."""


class Fenced(RunError):
    """Another driver has written the next commit: this one must stop and touch nothing."""


class Interrupted(AssayError):
    """The user stopped the run. Committed units stay committed."""

    exit_code = 4


class Unfinished(AssayError):
    """The run ended before every unit was committed; the message says what is left and how to go on."""

    exit_code = 4
