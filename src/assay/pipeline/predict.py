"""Predictions of a run whose units are all committed: joined, made visible at once, and listed in a manifest.

Lives here: where they are written, and the order in which things become visible. Not here: the join itself (`join.py`),
which joins are done already (`joining.py`) or are done while rows are scored (`early.py`), what is joined in which
stretch (`pieces.py`), what the columns are (`columns.py`), formats (`sinks/`).

Parts that the manifest does not list are deleted before it is written, so that a reader who knows nothing of manifests
finds each row once, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay import build
from assay.errors import DataError
from assay.pipeline import top_k
from assay.pipeline.apart import PREDICTIONS, WITHOUT_FOLDER, check_predictions_apart
from assay.pipeline.columns import Columns
from assay.pipeline.dead_letters import DEAD_LETTER
from assay.pipeline.declared import columns_of
from assay.pipeline.join import Join, Joined, Piece
from assay.pipeline.joining import FOLDER as JOINS
from assay.pipeline.joining import JoinBook, Keys, Listing, Wrote
from assay.pipeline.manifest import run_id, save_manifest
from assay.pipeline.partitions import check_partitions_of_data
from assay.pipeline.pieces import Outputs, reasons_of, stretches
from assay.pipeline.prepare import Prepared
from assay.protocols import Executor, Sink, Work
from assay.records import ListedPart, Plan, Predictions, SinkSettings, Worked
from assay.sinks.names import claim_of
from assay.spec.model import PredictionsSpec, Spec
from assay.spec.words import agree, count
from assay.store.log import CommitLog, Committed
from assay.store.place import absolute, locate
from assay.store.run import RunDirectory

TOLD = 10
"""So many times at most it is said how far the joins have come."""
TOLD_SECONDS = 10.0
"""At least so long it is not said again: what takes no longer needs but its first word and its last."""


def check(prepared: Prepared) -> None:
    """What can be said before a run has a place. SpecError, DataError, RunError: predictions cannot be written so."""
    check_predictions_apart(prepared.spec, prepared.base)
    sinks = Sinks.under(str(prepared.base), prepared, "")
    schema, dead_schema = _schemas(prepared)
    sinks.predictions.check(schema)
    try:
        sinks.dead.check(dead_schema)
    except DataError as error:
        raise DataError(f"{error}\nDead letters are Parquet, whatever predictions.format says.") from None
    check_partitions_of_data(prepared, columns_of(prepared.spec, prepared.plan.tasks, prepared.source))


def claim(prepared: Prepared, directory: RunDirectory) -> None:
    """The place of the predictions, before a row is scored. RunError, DataError when it is another run's, or a table
    that does not fit."""
    _claimed(prepared, Sinks.of(prepared, directory))


def _claimed(prepared: Prepared, sinks: Sinks) -> frozenset[str]:
    """Which outputs are written with 64 bits whatever variants give, since the table has them so."""
    outputs = columns_of(prepared.spec, prepared.plan.tasks, prepared.source).outputs
    names = [one.name for one in outputs if not one.chosen]
    wide = sinks.predictions.expect(_schemas(prepared)[0], [top_k.SCORE, *names])
    return frozenset(names) if top_k.SCORE in wide else wide


def _schemas(prepared: Prepared) -> tuple[pa.Schema, pa.Schema]:
    """Of predictions and of dead letters, as far as they are known before there are outputs."""
    columns = columns_of(prepared.spec, prepared.plan.tasks, prepared.source)
    best = top_k.ranked(prepared.spec, prepared.plan.tasks, prepared.source, columns)
    return (columns.schema if best is None else best.schema), columns.dead_schema


def join_of(
    prepared: Prepared,
    directory: RunDirectory,
    sinks: Sinks,
    types: Mapping[str, Sequence[pa.DataType]],
    wide: Collection[str] = (),
) -> Join:
    """The join of a run. types: of outputs, as `Outputs` has them; wide: which have the widest type that they may."""
    spec = prepared.spec
    return Join(
        base=None if build.is_of_ours(prepared.source) else str(prepared.base),
        workers=spec.workers,
        run=directory.store.url,
        source=prepared.source,
        where=spec.data.where,
        columns=columns_of(spec, prepared.plan.tasks, prepared.source).with_types(types, wide),
        sink=sinks.predictions,
        dead_sink=sinks.dead,
    )


def write(
    prepared: Prepared,
    directory: RunDirectory,
    committed: Committed | CommitLog,
    executor: Executor,
    book: JoinBook,
    say: Callable[[str], None],
) -> Predictions:
    """Join what is committed and not joined yet, and make it visible. Done again, it comes to the same."""
    spec, plan = prepared.spec, prepared.plan
    outputs = Outputs(directory, spec, plan)
    outputs.look_into(file.predictions for file in committed.files)
    sinks = Sinks.of(prepared, directory)
    work = join_of(prepared, directory, sinks, outputs.types, _claimed(prepared, sinks))
    columns = work.columns
    best = top_k.ranked(spec, plan.tasks, prepared.source, columns)
    schema, dead_schema = columns.schema, columns.dead_schema
    if best is not None:
        schema, dead_schema = best.schema, best.read.dead_schema
    notes = sinks.predictions.check(schema)
    sinks.predictions.begin(schema)
    sinks.dead.begin(dead_schema)
    items = _items(directory, spec, plan, outputs, committed)
    told = _Told(sum(map(len, items)), say)
    joins = _Joins(executor, book, told)
    with book.kept():
        if best is None:
            wrote = joins.rest(work, items, Keys(work, sinks.settings, plan), Listing(sinks.predictions, sinks.dead))
        else:
            wrote, said = joins.best(work, best, items)
            notes = (*notes, *said)
    found = _listed(directory, sinks, columns, schema, [one for several in wrote for one in several], notes)
    sinks.dead.commit([one.file for one in found.dead_parts], dead_schema)
    sinks.predictions.commit([one.file for one in found.parts], schema)
    book.forget()  # before the manifest: where that is removed by hand, all is to be written again
    save_manifest(directory, found)
    top_k.clean(directory)
    _remove_empty(directory, found)
    told.end(found, spec)
    return found


def _remove_empty(directory: RunDirectory, found: Predictions) -> None:
    """Folders in which a run that is written has nothing."""
    if not found.dead_parts:
        directory.store.delete(f"{DEAD_LETTER}/{claim_of(found.run)}")
        directory.store.remove_empty(DEAD_LETTER)
    directory.store.remove_empty(JOINS)


def _items(
    directory: RunDirectory, spec: Spec, plan: Plan, outputs: Outputs, committed: Committed | CommitLog
) -> list[tuple[Piece, ...]]:
    """All stretches, with what is committed of them."""
    lost, every = committed.lost, [receipt for file in committed.files for receipt in file.receipts]
    reasons = reasons_of(spec, directory.failures(every, lost))
    given_up = frozenset(lost)
    receipts = {receipt.unit: receipt for receipt in every if receipt.unit not in given_up}
    return [outputs.pieces(stretch, receipts, reasons) for stretch in stretches(plan)]


class _Joins:
    """The joins of the end: what they take is booked, and how far they have come is told."""

    def __init__(self, executor: Executor, book: JoinBook, told: _Told) -> None:
        self._executor = executor
        self._book = book
        self._told = told

    def rest(self, work: Join, items: Sequence[tuple[Piece, ...]], keys: Keys, listing: Listing) -> list[Wrote]:
        """What was written of each stretch: before, or now."""
        book, named = self._book, [keys.of(item) for item in items]
        found = {number: wrote for number, key in enumerate(named) if (wrote := book.wrote(key, listing)) is not None}
        self._told.begin(sum(map(len, found.values())))
        left = [number for number in range(len(items)) if number not in found]
        for worked in self._executor.map(work, [items[number] for number in left]):
            number = left[worked.number]
            found[number] = worked.result
            book.add(named[number], worked)
            book.keep()
            self._told.add(worked)
        return [found[number] for number in range(len(items))]

    def best(
        self, join: Join, ranked: top_k.Ranked, items: Sequence[tuple[Piece, ...]]
    ) -> tuple[list[Wrote], tuple[str, ...]]:
        """What was written of the best rows of each group, all of it now; and sentences about it."""
        self._told.begin(0)
        work, notes = top_k.chosen(join, ranked, items, self._mapped)
        return self._mapped(work, items, self._told.add), notes

    def _mapped(
        self,
        work: Work,
        items: Sequence[Any],  # Any: as in Executor.map, and the results
        heard: Callable[[Worked], None] = lambda worked: None,
    ) -> list[Any]:
        """What the work makes of each item, in their order."""
        found = {}
        for worked in self._executor.map(work, items):
            found[worked.number] = worked.result
            self._book.spend(worked)
            self._book.keep()
            heard(worked)
        return [found[number] for number in range(len(items))]


class _Told:
    """Now and then it is said how far the joins have come."""

    def __init__(self, num_pieces: int, say: Callable[[str], None]) -> None:
        self._whole = num_pieces
        self._say = say
        self._done = 0
        self._told = 0  # pieces, when it was last said
        self._said_at = time.monotonic()

    def begin(self, done: int) -> None:
        """done: pieces that were written before."""
        self._done = self._told = done
        before = f", of which {done:,} {agree(done, 'is', 'are')} written already" if done else ""
        self._say(f"Writing the predictions of {count(self._whole, 'unit')}{before}.")

    def add(self, worked: Worked) -> None:
        """A stretch is joined."""
        self._done += len(worked.result)
        is_more = self._done * TOLD // self._whole > self._told * TOLD // self._whole
        if self._done < self._whole and is_more and time.monotonic() - self._said_at >= TOLD_SECONDS:
            self._told, self._said_at = self._done, time.monotonic()
            self._say(f"Written: {self._done:,} of {count(self._whole, 'unit')}.")

    def end(self, found: Predictions, spec: Spec) -> None:
        """All is written, and readers see it."""
        if found.parts:
            self._say(f"Written: {count(found.rows, 'row')} in {count(len(found.parts), 'file')}.")
        else:
            self._say(f"Written: no file, since there is no row to write{_filtered(spec)}.")


def _filtered(spec: Spec) -> str:
    """Where the filter may be why: of the best rows of groups there may be none for other reasons, too."""
    said = spec.predictions
    if spec.data.where is None or said is None or said.top_k is not None:
        return ""
    return f": none passes data.where ({spec.data.where})"


# ---- where -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where the predictions of a run are written, and its dead letters."""

    predictions: Sink
    dead: Sink
    settings: SinkSettings
    dead_place: str

    @classmethod
    def of(cls, prepared: Prepared, directory: RunDirectory) -> Sinks:
        return cls.under(directory.store.url, prepared, run_id(directory))

    @classmethod
    def under(cls, place: str, prepared: Prepared, run: str) -> Sinks:
        """place: of the run."""
        said = prepared.spec.predictions
        assert said is not None, "asked for where predictions are written"
        settings = SinkSettings(
            format=said.format,
            to=_place(said, prepared.base, place),
            run=run,
            partition_by=said.partition_by,
            row_group_rows=said.row_group_rows,
            file_rows=said.file_rows,
            compression=said.compression,
        )
        dead = SinkSettings(format="parquet", to=f"{place}/{DEAD_LETTER}", run=run)
        return cls(build.sink(settings), build.sink(dead), settings, dead.to)


def _place(said: PredictionsSpec, base: Path, run: str) -> str:
    """As all processes see it; relative paths start where the spec's do."""
    if said.to is None:
        return f"{run}/{PREDICTIONS}"
    if said.format in WITHOUT_FOLDER:
        return said.to
    place = locate(said.to)
    return absolute(base / place) if isinstance(place, Path) else said.to


def _listed(
    directory: RunDirectory,
    sinks: Sinks,
    columns: Columns,
    schema: pa.Schema,
    joined: Sequence[Joined],
    notes: Sequence[str],
) -> Predictions:
    dead: Counter[str] = Counter()
    for one in joined:
        dead.update(one.dead)
    order = dict.fromkeys(one.key.variant for one in columns.outputs)
    return Predictions(
        run=run_id(directory),
        place=sinks.settings.to,
        format=sinks.settings.format,
        rows=sum(one.rows for one in joined),
        columns=tuple((field.name, str(field.type)) for field in sinks.predictions.stored(schema)),
        parts=tuple(ListedPart(one.unit, part) for one in joined for part in one.parts),
        dead={name: dead[name] for name in order if dead[name]},
        dead_place=sinks.dead_place,
        dead_parts=tuple(ListedPart(one.unit, part) for one in joined for part in one.dead_parts),
        notes=tuple(notes),
    )
