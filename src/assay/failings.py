"""On how many units variants failed, how many were given up, and whether the spec tolerates that.

Counted over the whole run: what the log holds of earlier drivers, what this one has committed, and what workers hold.
Not here: what a failure is (`scoring.py`), and which unit is given up (`suspects.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from fractions import Fraction

from assay.errors import ModelError, RunError
from assay.orders import Order, Say
from assay.records import CommittedFile, Failure, Receipt
from assay.spec.words import agree, count


def with_way_out(error: ModelError, *, predicts: bool) -> ModelError:
    """The error that stops a run whose spec tolerates none, with what to do where the run can do without.

    predicts: what variants give is written out. Otherwise one value that cannot be is told without a way out: it would
    cost the variant a whole unit.
    """
    if not error.tolerable or (error.row is not None and not predicts):
        return error
    kept = (
        "the other rows and variants are written, and each row that a variant fails on is a dead letter with its reason"
        if predicts
        else "a variant that fails on a unit is reported and left out there"
    )
    between = "\n" if "\n" in error.message else " "
    advice = f"To go on all the same, set on_error: continue and run again: {kept}."
    return ModelError(error.variant, f"{error.message}{between}{advice}", error.row)


class Failings:
    """Of the units that a set of variants is planned for."""

    def __init__(
        self, units: Collection[str], files: Iterable[CommittedFile], lost: Iterable[str], share: float | None
    ) -> None:
        """units: those that are planned; others are passed over. share: of them that is tolerated; None: any."""
        self._num_units = len(units)
        self._share = share
        self._most = math.inf if share is None else math.floor(Fraction(str(share)) * len(units))
        self._failed: Counter[str] = Counter()
        self._errors: dict[str, str] = {}  # the last one of each variant, and of units ("")
        self._beyond: str | None = None  # the variant that failed too often, or "" for units given up
        for file in files:
            for receipt in file.receipts:
                if receipt.failed and receipt.unit in units:
                    self.add(receipt, ())
        for unit in lost:
            if unit in units:
                self.give_up("")

    def add(self, receipt: Receipt, failures: Iterable[Failure]) -> list[Order]:
        """A unit is done. The first failure of each variant that this driver sees is told."""
        said: list[Order] = []
        for one in failures:
            if one.variant not in self._errors:
                error = one.error.removesuffix(".")
                said.append(Say(f"Variant {one.variant!r} failed on a unit: {error}; the others go on."))
            self._errors[one.variant] = one.error
        for variant in receipt.failed:
            self._count(variant)
        return said

    def remove(self, receipt: Receipt) -> None:
        """What was done is gone with its worker."""
        self._failed.subtract(receipt.failed)

    def give_up(self, error: str) -> None:
        """A unit will never be done."""
        if error:
            self._errors[""] = error
        self._count("")

    @property
    def beyond(self) -> RunError | None:
        """Why the run may not go on: more has failed than is tolerated."""
        if self._beyond is None or self._share is None:
            return None
        times, units = self._failed[self._beyond], count(self._num_units, "unit")
        if self._beyond:
            what = f"Variant {self._beyond!r} failed on {times:,} of {units}"
        else:
            what = f"{times:,} of {units} {agree(times, 'was', 'were')} given up"
        error = self._errors.get(self._beyond)
        last = f"The last time: {error}" if error else "See failures/ for the reasons."
        tolerated = f"on_error tolerates {{units: {self._share:g}}}" if self._share else "on_error: stop tolerates none"
        return RunError(
            f"{what}, where {tolerated}. {last} What is committed is kept. Raise the "
            "tolerance and run again to go on without them, or mend the cause and start a new run."
        )

    def _count(self, variant: str) -> None:
        self._failed[variant] += 1
        if self._failed[variant] > self._most and self._beyond is None:
            self._beyond = variant
