"""The loaded variants, and one unit scored by all of them.

Lives here: loading, calling models in turn, sharing what they receive, fewer rows per call where memory is short, and
what happens when one fails. Not here: which rows go into one call (`calls.py`), reading (`worker.py`), which rows count
and what becomes of a score (`partial.py`).
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from assay.calls import (
    FEWER,
    MicroBatch,
    Preparations,
    guarded,
    is_out_of_memory,
    micro_batches,
    parts,
    place,
    sample,
)
from assay.errors import ModelError, PreparationError, joined
from assay.partial import Partial
from assay.predicted import Capture, as_input, without_null_lists
from assay.protocols import Model, Predictor, Preparation
from assay.received import Clock, Inputs, Making
from assay.records import Failure, Predicted, Receipt, Rows, Tally
from assay.returned import Given, More, Returned, as_kept, whole
from assay.spec.model import ScoreType
from assay.spec.others import Taken, with_others
from assay.spec.words import count
from assay.states import digest
from assay.task_scores import ChunkRows, Layout, TaskScores

MOST_DEAD = 1024
"""Rows of a unit that a variant may raise on, where they are written out with the reason; with more, it fails there."""
HALVED = "calls were halved, since it raised on some rows"
ONE_ROW = "one row at a time is still too much for memory:"
Call = Callable[[MicroBatch], Returned]


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is scored, and how."""

    models: tuple[Model, ...]
    layout: Layout
    micro_batch: int | None  # rows per call of every model that minds; None: as many as suit its kind
    tolerant: bool  # a variant that fails on a unit is reported, and the others go on
    preparations: tuple[Preparation, ...] = ()
    made_by: Mapping[str, str] = field(default_factory=dict)  # variant -> the preparation of what it receives
    keeps: bool = False  # what the variants give is kept, for predictions
    takes: Mapping[str, tuple[Taken, ...]] = field(default_factory=dict)  # variant -> what it takes of others
    more: Mapping[str, More] = field(default_factory=dict)  # variant -> what else it gives beside scores
    types: Mapping[tuple[str, str], ScoreType] = field(default_factory=dict)  # (variant, task) -> of a kept score


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """The partial of one unit, with the variants that failed on it."""

    partial: Tally
    failures: tuple[Failure, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)  # by variant; an input that several take is shared out
    predicted: Predicted | None = None  # where it is kept


@dataclass(slots=True)
class _Chunk:
    """The chunk at hand, with what its variants have made of it so far."""

    rows: ChunkRows
    tally: Partial
    inputs: Inputs
    baseline: Mapping[str, TaskScores] | None = None
    uncounted: dict[str, Given] = field(default_factory=dict)  # by variant


@dataclass(slots=True)
class _Unit:
    """What becomes of the unit at hand."""

    seconds: dict[str, float]
    most: dict[str, int]  # variant -> rows per call, where they are fewer than it would have
    errors: dict[str, ModelError] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)  # of what a variant was given when it failed
    capture: Capture | None = None  # of what variants give, where it is kept
    num_dead: Counter[str] = field(default_factory=Counter)  # variant -> rows that it raised on
    halved: set[str] = field(default_factory=set)  # variants whose calls were halved to find them

    def keep(self, variant: str, kept: Mapping[str, pa.Array]) -> None:
        """What it gave for the chunk at hand, by output."""
        if self.capture is not None:
            for output, values in kept.items():
                self.capture.add(variant, output, values)


class Scorer:
    """The loaded variants. What a unit gives depends on nothing that was scored before."""

    def __init__(self, scoring: Scoring, clock: Clock = time.monotonic) -> None:
        """Loads each variant and preparation once. One that cannot load fails on each unit; ModelError at once when it
        is the baseline and the others would go on without it."""
        self._scoring = scoring
        self._clock = clock
        self._baseline = scoring.layout.baseline
        self._takes = {name: tuple(one.variant for one in taken) for name, taken in scoring.takes.items()}
        self._early = with_others([self._baseline or ""], self._takes)[:-1]
        described = {model.name: model for model in scoring.models}
        first = [name for name in (self._baseline,) if name in described]
        models = [described[name] for name in with_others([*first, *described], self._takes)]
        self._models = {model.name: model for model in models}  # the baseline first, but for what it takes
        self._wanted = frozenset(one for several in scoring.takes.values() for one in several)
        self._predictors = {model.name: _load(model) for model in models}
        self._preparations = Preparations(scoring.preparations)
        rows = {one.name: one.batch_rows for one in scoring.preparations}
        self._sizes = {
            model.name: rows[scoring.made_by[model.name]] if model.name in scoring.made_by else self._size(model)
            for model in models
        }
        if scoring.tolerant:
            self._check_baseline()

    def _check_baseline(self) -> None:
        for name in (*self._early, self._baseline or ""):
            error = self._predictors.get(name)
            if isinstance(error, ModelError):
                why = (
                    "It is the baseline" if name == self._baseline else f"The baseline {self._baseline!r} takes from it"
                )
                raise ModelError(error.variant, f"{error.message} {why}: nothing could be compared.")

    def _is_tolerable(self) -> bool:
        """Whether something would be left to score if failures were tolerated: the baseline, and what it takes from,
        must be there, and not be all."""
        loaded = {name for name, one in self._predictors.items() if not isinstance(one, ModelError)}
        needed = {*self._early, self._baseline} - {None}
        return bool(loaded) and loaded >= needed and self._models.keys() != {self._baseline}

    def score(self, unit: str, chunks: Iterable[Rows], caution: int = 0) -> ScoredUnit:
        """caution: so many times the rows per call are quartered from the start.

        ModelError with a line for each variant that failed, unless failures are tolerated; what `chunks` raises.
        NeedsRows where they came with what was made apart.
        """
        tally = Partial(self._scoring.layout)
        at = _Unit(dict.fromkeys(self._models, 0.0), self._cautious(caution))
        at.capture = Capture(unit) if self._scoring.keeps else None
        for rows in chunks:
            chunk = ChunkRows(rows, self._scoring.layout)
            tally.count(chunk)
            if at.capture is not None:
                at.capture.begin(rows.positions)
            self._score_chunk(chunk, tally, at)
        if at.errors and not self._scoring.tolerant:
            raise joined(list(at.errors.values()), tolerable=self._is_tolerable())
        reasons = self._reasons(at.errors)
        tally.fail(reasons)
        deviations = self._deviations(at, reasons)
        receipt = Receipt(unit, tally.num_read, "", tuple(sorted(reasons)), deviations, tally.missed)
        receipt = replace(receipt, digest=digest(Tally((receipt,), tally.states)))
        failures = [
            Failure(unit, name, reasons[name], tally.num_read, at.samples.get(name, ""))
            for name in sorted(reasons)
            if name in self._scoring.layout.counted
        ]
        predicted = None if at.capture is None else at.capture.whole(failed=at.errors)
        return ScoredUnit(Tally((receipt,), tally.states), tuple(failures), at.seconds, predicted)

    def _score_chunk(self, chunk: ChunkRows, tally: Partial, at: _Unit) -> None:
        """Each variant that has not failed yet; those first whose outputs others take."""
        inputs = Inputs(chunk.rows, self._clock)
        made = _Chunk(chunk, tally, inputs)
        tried = [name for name in self._models if name not in at.errors]
        together: dict[str, Given] = {}
        done: set[str] = set()
        for name in tried:
            made_by = self._scoring.made_by.get(name)
            if made_by is not None and made_by not in done:
                done.add(made_by)
                users = [one for one in tried if self._scoring.made_by.get(one) == made_by]
                together |= self._predict_together(made_by, users, chunk.rows, at)
            if name in at.errors:
                continue
            started, shared = self._clock(), inputs.num_seconds
            try:
                self._check_others(name, at)
                given = self._predict(name, inputs, at) if made_by is None else together.pop(name)
                self._hand_on(name, given, inputs)
            except ModelError as error:
                at.errors[name] = error
            else:
                made.uncounted[name] = given
            at.seconds[name] += self._clock() - started - (inputs.num_seconds - shared)
            if name not in self._early:
                self._count(made, at)
        self._count(made, at)
        self._share_out(inputs.seconds, tried, at.seconds)

    def _count(self, made: _Chunk, at: _Unit) -> None:
        """What variants gave goes into the tally, the baseline's first: others are corrected by it."""
        for name in sorted(made.uncounted, key=lambda one: one != self._baseline):
            given, started = made.uncounted.pop(name), self._clock()
            try:
                scored = made.rows.scored(name, given.scores, made.baseline)
                kept = self._as_kept(name, given, made.rows.rows)
            except ModelError as error:
                at.errors[name] = error
            else:
                if name == self._baseline:
                    made.baseline = scored
                made.tally.add(name, scored, made.baseline)
                at.keep(name, kept)
            at.seconds[name] += self._clock() - started

    def _as_kept(self, name: str, given: Given, rows: Rows) -> dict[str, pa.Array]:
        """By output; nothing where it is not kept, or by the bundle before this one."""
        scoring = self._scoring
        if not scoring.keeps or name not in scoring.layout.counted:
            return {}
        return as_kept(name, given, rows, scoring.layout, scoring.types, tolerant=scoring.tolerant)

    # ---- variants that take what others give -------------------------------------------------------------------------

    def _check_others(self, name: str, at: _Unit) -> None:
        """ModelError where one that it takes from failed on this unit."""
        for other in self._takes.get(name, ()):
            if other in at.errors:
                reason = at.errors[other].message
                raise ModelError(name, f"it takes what variant {other!r} gives, which failed on this unit: {reason}")

    def _hand_on(self, name: str, given: Given, inputs: Inputs) -> None:
        """Outputs that others take become columns of what they read."""
        layout = self._scoring.layout
        if not len(inputs.rows.positions):
            return
        for task, scores in given.scores.items():
            if (taken := Taken(name, task)) in self._wanted:
                inputs.add(taken.column, as_input(scores, layout.outputs[task, name], layout.tasks.get(task)))
        for output, values in given.more.items():
            if (taken := Taken(name, output)) in self._wanted:
                inputs.add(taken.column, without_null_lists(values))

    # ---- seconds and reasons -----------------------------------------------------------------------------------------

    def _share_out(self, preparing: Mapping[Hashable, float], tried: Iterable[str], seconds: dict[str, float]) -> None:
        """Inputs are prepared by the first variant that takes them, for all that do."""
        users: dict[Hashable, list[str]] = {}
        for name in tried:
            predictor = self._predictors[name]
            if not isinstance(predictor, ModelError):
                users.setdefault(predictor.preparation, []).append(name)
        for key, spent in preparing.items():
            for name in users[key]:
                seconds[name] += spent / len(users[key])

    def _reasons(self, errors: Mapping[str, ModelError]) -> dict[str, str]:
        """Why each variant that does not count on this unit does not: all of them when the baseline failed."""
        if self._baseline not in errors:
            return {name: error.message for name, error in errors.items()}
        left_out = left_out_words(self._baseline)
        return {name: errors[name].message if name in errors else left_out for name in self._models}

    # ---- predicting --------------------------------------------------------------------------------------------------

    def _predict(self, name: str, inputs: Inputs, at: _Unit) -> Given:
        """One variant, whose inputs are prepared for the whole chunk: in pieces, once that would be too much."""
        predictor, rows = self._predictors[name], inputs.rows
        if isinstance(predictor, ModelError):
            raise predictor

        def score(batch: MicroBatch) -> Returned:
            if inputs.has(predictor) or (name not in at.most and name not in at.halved):
                return predictor.score(inputs.of(predictor), batch.rows)
            piece = rows.table.slice(batch.rows.start, batch.num_rows)
            return predictor.score(predictor.prepare(piece), slice(0, batch.num_rows))

        found: list[Returned | str] = []
        for batch in micro_batches(rows, self._sizes[name]):
            found += self._attempt(name, rows, batch, score, at)
        return self._whole(name, found)

    def _predict_together(self, made_by: str, users: Sequence[str], rows: Rows, at: _Unit) -> dict[str, Given]:
        """All variants that receive what one preparation makes, which is kept for one micro-batch only. One that fails
        has no scores."""
        making = Making(self._preparations, made_by, rows, self._clock)
        found: dict[str, list[Returned | str]] = {name: [] for name in users}
        at.errors.update({name: one for name in users if isinstance(one := self._predictors[name], ModelError)})
        for batch in self._preparations.batches(made_by, rows):
            for name in users:
                predictor = self._predictors[name]
                if name in at.errors or isinstance(predictor, ModelError):
                    continue
                started, shared = self._clock(), making.seconds
                try:
                    found[name] += self._attempt(name, rows, batch, partial(making.score, predictor), at)
                except ModelError as error:
                    at.errors[name] = error
                at.seconds[name] += self._clock() - started - (making.seconds - shared)
            making.forget()
        for name in users:
            at.seconds[name] += making.seconds / len(users)
        whole: dict[str, Given] = {}
        for name in users:
            try:
                whole |= {} if name in at.errors else {name: self._whole(name, found[name])}
            except ModelError as error:
                at.errors[name] = error
        return whole

    def _attempt(self, name: str, rows: Rows, batch: MicroBatch, score: Call, at: _Unit) -> list[Returned | str]:
        """The scores of one micro-batch, in as many calls as memory asks for; then never more rows in this unit.

        Where rows are written and failures tolerated, a call that raises is halved until it is known which rows it
        raises on: for each of these there is the reason, and for the others their scores.
        """
        waiting, found = deque([batch]), list[Returned | str]()
        while waiting:
            one = waiting.popleft()
            most = at.most.get(name, one.size)
            if one.size > most:
                waiting.extendleft(reversed(parts(rows, one, most)))
                continue
            try:
                found.append(guarded(name, "it", partial(score, one)))
            except (ModelError, PreparationError) as error:
                if one.num_rows > 1 and _is_too_much(error):
                    at.most[name] = max(1, one.size // FEWER)
                    waiting.appendleft(one)
                elif not (self._scoring.keeps and self._scoring.tolerant) or at.num_dead[name] == MOST_DEAD:
                    raise _failed(name, rows, one, error, self._models[name].columns, at) from error
                elif one.num_rows > 1:
                    at.halved.add(name)
                    waiting.extendleft(reversed(parts(rows, one, (one.size + 1) // 2)))
                else:
                    at.num_dead[name] += 1
                    found.append(_said(error))
        return found

    def _whole(self, name: str, found: Sequence[Returned | str]) -> Given:
        return whole(name, self._scoring.layout, self._scoring.more.get(name, {}), found)

    # ---- rows per call -----------------------------------------------------------------------------------------------

    def _size(self, model: Model) -> int | None:
        return model.batch_rows and (self._scoring.micro_batch or model.batch_rows)

    def _cautious(self, caution: int) -> dict[str, int]:
        if not caution:
            return {}
        return {name: max(1, rows // FEWER**caution) for name, rows in self._sizes.items() if rows is not None}

    def _deviations(self, at: _Unit, failed: Mapping[str, str]) -> tuple[str, ...]:
        """What the receipt says of variants that had fewer rows per call than is planned."""
        fewer = {name: rows for name, rows in at.most.items() if name not in failed and rows != self._sizes[name]}
        said = [f"variant {name}: {count(rows, 'row')} per call" for name, rows in fewer.items()]
        said += [f"variant {name}: {HALVED}" for name in at.halved if name not in failed]
        return tuple(sorted(said))


def left_out_words(baseline: str | None) -> str:
    """Why a variant that did not fail itself does not count on a unit."""
    return f"the baseline {baseline!r} failed on this unit, so no variant counts on it."


def _is_too_much(error: ModelError | PreparationError) -> bool:
    return error.out_of_memory if isinstance(error, PreparationError) else is_out_of_memory(error)


def _failed(
    name: str,
    rows: Rows,
    batch: MicroBatch,
    error: ModelError | PreparationError,
    columns: Sequence[str],
    at: _Unit,
) -> ModelError:
    """The error with the rows that it is about; a few of them are kept. columns: that the model reads."""
    said = _said(error)
    if at.num_dead[name] == MOST_DEAD:
        said += f" It raised on more than {count(MOST_DEAD, 'row')} of the unit, so none of it is kept."
    if isinstance(error, PreparationError):
        at.samples[name] = error.sample
        return ModelError(name, said)
    at.samples[name] = sample(rows, batch, columns, error.row)
    if error.row is None:
        return ModelError(name, f"{said} {place(rows, batch)}")
    position = rows.positions[batch.rows.start + error.row]
    return ModelError(name, f"{said} In the data that is row {position} of {rows.path}.", error.row)


def _said(error: ModelError | PreparationError) -> str:
    return f"{ONE_ROW} {error.message}" if _is_too_much(error) else error.message


def _load(model: Model) -> Predictor | ModelError:
    try:
        return guarded(model.name, "loading it", model.load)
    except ModelError as error:
        return error
