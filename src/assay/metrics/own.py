"""A metric that a user defines by a function of a batch of rows: the weighted mean of what it says of each row.

Lives here: calling the function and what may be wrong with it. Not here: the digest of its code, which the plan makes
(`OwnMetric.fingerprint`), and metrics with states of their own, which are entry points. Axes: n rows, C classes.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, MetricError
from assay.metrics.pooled import Counts, PooledMetric, Reasons
from assay.metrics.sums import SUPPORT
from assay.metrics.terms import Terms, TermSum, pooled_terms
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, LabelKind, OwnMetric, State, StateChoice, Undefined
from assay.spec.names import offer

Array = TypeVar("Array", bound=NDArray[Any])  # Any: of whichever type


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that a function of your own receives. Its arrays cannot be written to.

    Rows without a label, a weight or a score are not in it. Where batches begin and end depends on the files, so a
    row's value may depend on nothing but the row.
    """

    score: NDArray[np.float64]  # [n] the model's output; an interval's middle; the number of the predicted class
    probability: NDArray[np.float64] | None  # [n] in [0, 1], of the predicted class; None for a plain score
    label: NDArray[np.float64]  # [n] 0 or 1, a number, or the number of the class; 0 where it is a set of labels
    weight: NDArray[np.int64]  # [n] relative: the weight in the data times one factor for the whole run
    outputs: (
        NDArray[np.float32] | NDArray[np.float64] | None
    )  # [n, C] a score for each class or label; [n, 2] for an interval
    targets: NDArray[np.uint8] | None  # [n, C] which labels the row has; None unless it may have several
    columns: Mapping[str, NDArray[np.float64]]  # [n] each: those the metric asks for, NaN where null

    def __len__(self) -> int:
        """The number of rows n."""
        return len(self.score)

    @classmethod
    def of(cls, block: Block, columns: tuple[str, ...] = ()) -> Batch:
        """The rows of a block, with these of its columns."""
        return cls(
            score=_read_only(block.raw),
            probability=None if block.probability is None else _read_only(block.probability.astype(np.float64)),
            label=_read_only(block.label),
            weight=_read_only(block.weight),
            outputs=None if block.outputs is None else _read_only(block.outputs.T),
            targets=None if block.targets is None else _read_only(block.targets.T),
            columns={name: _read_only(block.columns[name]) for name in columns},
        )


@dataclass(frozen=True, slots=True)
class RowValues:
    """What the function says of each row of a block; NaN where it has nothing to say."""

    own: OwnMetric

    def __call__(self, block: Block) -> Terms:
        """MetricError when the function cannot be found, fails, or gives anything but a number for each row."""
        own, num_rows = self.own, len(block.raw)
        function = find(own)
        try:
            given = function(Batch.of(block, own.columns), **own.settings)
        except AssayError:
            raise
        except (Exception, SystemExit) as error:  # the function is the user's and may raise anything
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f": {str(error).rstrip('.')}" if str(error) else ""
            message = (
                f"{own.function!r} failed with {type(error).__name__}{said} ({place.filename}, line {place.lineno})."
            )
            raise MetricError(own.name, message) from error
        return (as_values(own, given, num_rows),)


def find(own: OwnMetric) -> Any:  # Any: the function is the user's
    """The function, imported. Python's path is as `build.import_from` leaves it. MetricError when there is none."""
    module_name, colon, function_name = own.function.partition(":")
    if not (module_name and colon and function_name):
        raise MetricError(own.name, f'{own.function!r} does not name a function; write "module:function".')
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module does when it is imported
        raise MetricError(
            own.name, f"importing module {module_name!r} failed with {type(error).__name__}: {str(error).rstrip('.')}."
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise MetricError(
            own.name, f"module {module_name!r} has no function {function_name!r}{offer(function_name, known)}"
        )
    return function


def as_values(own: OwnMetric, given: object, num_rows: int) -> NDArray[np.float64]:
    """What a function returned as [n] float64. MetricError unless it is an array of n numbers."""
    expected = f"expected an array of {num_rows} numbers, one for each row of the batch."
    if given is None:
        raise MetricError(own.name, f"{own.function!r} returned nothing; {expected}")
    try:
        array = np.asarray(given)
    except Exception as error:  # lists of different lengths, tensors on a device
        raise MetricError(
            own.name, f"{own.function!r} returned {type(given).__name__}, which is no array ({error}); {expected}"
        ) from error
    if array.shape != (num_rows,):
        raise MetricError(own.name, f"{own.function!r} returned an array of shape {list(array.shape)}; {expected}")
    if array.dtype.kind not in "biuf":
        raise MetricError(own.name, f"{own.function!r} returned values of type {array.dtype}; {expected}")
    return array.astype(np.float64)


def own_sum(own: OwnMetric) -> TermSum:
    """The exact sum of the function's values; its identity holds the digest of code and settings."""
    columns = "+".join(own.columns)
    return TermSum(f"own({own.function},columns={columns},fingerprint={own.fingerprint}).v1", RowValues(own))


@dataclass(frozen=True)
class FunctionMetric(PooledMetric):
    """The weighted mean of a function's values, in their unit, summed exactly.

    A row for which the function gives NaN does not enter, neither above nor below the line, so the mean is over the
    rows that have a value (the state counts them); undefined where none has. Infinite values, and those of 2^127 and
    more, make the mean undefined.
    """

    own: OwnMetric
    label_kind: ClassVar[LabelKind | None] = None
    nonnegative: ClassVar[bool] = False

    @classmethod
    def of(cls, own: OwnMetric) -> FunctionMetric:
        """The metric that a spec defines."""
        return cls(own)

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def description(self) -> str:  # type: ignore[override] # a constant in the class elsewhere; here by function
        return f"mean of {self.own.function}"

    @property
    def direction(self) -> Direction:  # type: ignore[override] # a constant in the class elsewhere; here as the spec says
        return self.own.direction

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, own_sum(self.own))

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        sums = pooled_terms(states, own_sum(self.own))
        return sums.mean, [(sums.rows == 0, Undefined.NO_VALUES), (sums.overflow, Undefined.OVERFLOW)]


def _read_only(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view
