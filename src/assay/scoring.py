"""The loaded variants, and one unit scored by all of them.

Lives here: loading, cutting rows into micro-batches, calling models, and what happens when one fails. Not here: reading
(`worker.py`), which rows count and what becomes of a score (`partial.py`).
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from assay.errors import AssayError, ModelError, joined
from assay.partial import Partial
from assay.protocols import Model, Predictor
from assay.records import Failure, Receipt, Rows, Tally
from assay.states import digest
from assay.task_scores import ChunkRows, Layout, Scores, TaskScores

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is scored, and how."""

    models: tuple[Model, ...]
    layout: Layout
    micro_batch: int | None  # rows per call of every model that minds; None: as many as suit its kind
    tolerant: bool  # a variant that fails on a unit is reported, and the others go on


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """The partial of one unit, with the variants that failed on it."""

    partial: Tally
    failures: tuple[Failure, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)  # by variant; an input that several take is shared out


class Scorer:
    """The loaded variants. What a unit gives depends on nothing that was scored before."""

    def __init__(self, scoring: Scoring, clock: Callable[[], float] = time.monotonic) -> None:
        """Loads each variant once. One that cannot load fails on each unit; ModelError at once when it is the baseline
        and the others would go on without it."""
        self._scoring = scoring
        self._clock = clock
        self._baseline = scoring.layout.baseline
        models = sorted(scoring.models, key=lambda model: model.name != self._baseline)
        self._models = {model.name: model for model in models}  # the baseline first
        self._predictors = {model.name: _load(model) for model in models}
        baseline = self._predictors.get(self._baseline or "")
        if scoring.tolerant and isinstance(baseline, ModelError):
            raise ModelError(baseline.variant, f"{baseline.message} It is the baseline: nothing could be compared.")

    def score(self, unit: str, chunks: Iterable[Rows]) -> ScoredUnit:
        """ModelError with a line for each variant that failed, unless failures are tolerated; what `chunks` raises."""
        partial = Partial(self._scoring.layout)
        errors: dict[str, ModelError] = {}
        seconds = dict.fromkeys(self._models, 0.0)
        for rows in chunks:
            chunk = ChunkRows(rows, self._scoring.layout)
            partial.count(chunk)
            self._score_chunk(chunk, partial, errors, seconds)
        if errors and not self._scoring.tolerant:
            raise joined(list(errors.values()))
        reasons = self._reasons(errors)
        partial.fail(reasons)
        receipt = Receipt(unit, partial.num_read, "", tuple(sorted(reasons)))
        receipt = replace(receipt, digest=digest(Tally((receipt,), partial.states)))
        failures = [Failure(unit, name, reasons[name], partial.num_read) for name in sorted(reasons)]
        return ScoredUnit(Tally((receipt,), partial.states), tuple(failures), seconds)

    def _score_chunk(
        self, chunk: ChunkRows, partial: Partial, errors: dict[str, ModelError], seconds: dict[str, float]
    ) -> None:
        """Each variant that has not failed yet; a failure goes into `errors`, what each one took into `seconds`."""
        baseline: Mapping[str, TaskScores] | None = None
        inputs = Inputs(chunk.rows, self._clock)
        tried = [name for name in self._models if name not in errors]
        for name in tried:
            started = self._clock()
            try:
                scored = chunk.scored(name, self._predict(name, inputs), baseline)
            except ModelError as error:
                errors[name] = error
            else:
                if name == self._baseline:
                    baseline = scored
                partial.add(name, scored, baseline)
            seconds[name] += self._clock() - started
        self._share_out(inputs.seconds, tried, seconds)

    def _share_out(self, preparing: Mapping[Hashable, float], tried: Iterable[str], seconds: dict[str, float]) -> None:
        """Inputs are prepared by the first variant that takes them, for all that do."""
        users: dict[Hashable, list[str]] = {}
        for name in tried:
            predictor = self._predictors[name]
            if not isinstance(predictor, ModelError):
                users.setdefault(predictor.preparation, []).append(name)
        for key, spent in preparing.items():
            first, *_ = users[key]
            seconds[first] -= spent
            for name in users[key]:
                seconds[name] += spent / len(users[key])

    def _reasons(self, errors: Mapping[str, ModelError]) -> dict[str, str]:
        """Why each variant that does not count on this unit does not: all of them when the baseline failed."""
        if self._baseline not in errors:
            return {name: error.message for name, error in errors.items()}
        left_out = f"the baseline {self._baseline!r} failed on this unit, so no variant counts on it."
        return {name: errors[name].message if name in errors else left_out for name in self._models}

    def _predict(self, name: str, inputs: Inputs) -> Scores:
        predictor = self._predictors[name]
        if isinstance(predictor, ModelError):
            raise predictor
        rows, suits = inputs.rows, self._models[name].batch_rows
        whole = [slice(0, len(rows.positions))]
        cuts = whole if suits is None else micro_batches(rows, self._scoring.micro_batch or suits)
        parts = [_call(name, predictor, inputs, cut) for cut in cuts if cut.start < cut.stop]
        tasks = [task for task, variant in self._scoring.layout.outputs if variant == name]
        return {task: np.concatenate([part[task] for part in parts] or [np.zeros(0)]) for task in tasks}


class Inputs:
    """The rows of one chunk, prepared once for all models that receive the same."""

    def __init__(self, rows: Rows, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows = rows
        self.seconds: dict[Hashable, float] = {}  # that each preparation took
        self._clock = clock
        self._prepared: dict[Hashable, Any] = {}  # Any: each model's own form

    def of(self, predictor: Predictor) -> Any:  # Any: as above
        key = predictor.preparation
        if key not in self._prepared:
            started = self._clock()
            self._prepared[key] = predictor.prepare(self.rows.table)
            self.seconds[key] = self._clock() - started
        return self._prepared[key]


def micro_batches(rows: Rows, size: int) -> list[slice]:
    """Where the rows are cut: at positions first_row + k * size, whatever the filter dropped. Some may be empty."""
    if not len(rows.positions):
        return []
    edges = np.arange(rows.first_row, int(rows.positions[-1]) + size + 1, size)
    cuts = np.searchsorted(rows.positions, edges).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


# ---- calling the user's models ---------------------------------------------------------------------------------------


def _load(model: Model) -> Predictor | ModelError:
    try:
        return _guarded(model.name, "loading it", model.load)
    except ModelError as error:
        return error


def _call(name: str, predictor: Predictor, inputs: Inputs, cut: slice) -> Scores:
    rows = inputs.rows
    first, last = rows.positions[cut.start], rows.positions[cut.stop - 1]
    try:
        return _guarded(name, "it", lambda: predictor.score(inputs.of(predictor), cut))
    except ModelError as error:
        place = f"It was given rows {first} to {last} of {rows.path}."
        if error.row is not None:
            place = f"In the data that is row {rows.positions[cut.start + error.row]} of {rows.path}."
        raise ModelError(name, f"{error.message} {place}") from error


def _guarded(name: str, what: str, call: Callable[[], Result]) -> Result:
    try:
        return call()
    except AssayError:
        raise
    except BaseException as error:  # a model is the user's code and may raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{what} raised {type(error).__name__}: {error} ({place.filename}, line {place.lineno})."
        raise ModelError(name, message) from error
