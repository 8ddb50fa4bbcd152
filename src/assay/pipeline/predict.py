"""Predictions of a run whose units are all committed: joined, made visible at once, and listed in a manifest.

Lives here: what is joined in which stretch, and the order in which things become visible. Not here: the join itself
(`join.py`), what the columns are (`columns.py`), formats (`sinks/`).

Parts that the manifest does not list are deleted before it is written, so that a reader who knows nothing of manifests
finds each row once, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay import build
from assay.errors import Fault, RunError, SpecError
from assay.merge import at_once
from assay.pipeline import top_k
from assay.pipeline.columns import Columns, columns_of
from assay.pipeline.join import Held, Join, Joined, Piece
from assay.pipeline.manifest import run_id, save_manifest
from assay.pipeline.prepare import Prepared
from assay.predicted import POSITION, REASON, Span, contents, key_of
from assay.protocols import Executor, Sink
from assay.records import CommittedFile, Failure, ListedPart, Plan, Predictions, SinkSettings, Unit
from assay.scoring import left_out_words
from assay.sinks.folder import FolderSink
from assay.sinks.names import is_hidden
from assay.spec.model import PredictionsSpec, Spec
from assay.spec.words import count
from assay.store.place import absolute, locate
from assay.store.run import RunDirectory

DEAD_LETTER = "dead-letter"
OBJECTS_AT_ONCE = 8
TOLD = 10
"""So many times it is said how far the joins have come."""
_NO_PATH = ("iceberg",)
"""Formats whose `to` is the name of a table."""


def check(prepared: Prepared) -> None:
    """What can be said before a run has a place. SpecError, DataError, RunError: predictions cannot be written so."""
    sinks = _Sinks.under(str(prepared.base), prepared, "")
    _check_apart(prepared.spec, prepared.base, sinks.settings.to)
    schema, dead_schema = _schemas(prepared)
    sinks.predictions.check(schema)
    sinks.dead.check(dead_schema)


def claim(prepared: Prepared, directory: RunDirectory) -> None:
    """The place of the predictions, before a row is scored. RunError when it is another run's."""
    sinks = _Sinks.of(prepared, directory, run_id(directory))
    if isinstance(sinks.predictions, FolderSink):  # of tables the types of columns are not known yet
        sinks.predictions.begin(_schemas(prepared)[0])


def _schemas(prepared: Prepared) -> tuple[pa.Schema, pa.Schema]:
    """Of predictions and of dead letters, as far as they are known before there are outputs."""
    columns = columns_of(prepared.spec, prepared.plan.tasks, prepared.source)
    best = top_k.ranked(prepared.spec, prepared.plan.tasks, prepared.source, columns)
    return (columns.schema if best is None else best.schema), columns.dead_schema


def write(
    prepared: Prepared,
    directory: RunDirectory,
    files: Sequence[CommittedFile],
    lost: Sequence[str],
    executor: Executor,
    say: Callable[[str], None],
) -> Predictions:
    """Join what is committed, and make it visible. Done again, it comes to the same."""
    spec, plan = prepared.spec, prepared.plan
    outputs = _Outputs.of(directory, files)
    columns = columns_of(spec, plan.tasks, prepared.source).with_types(outputs.types)
    sinks = _Sinks.of(prepared, directory, run_id(directory))
    best = top_k.ranked(spec, plan.tasks, prepared.source, columns)
    schema, dead_schema = columns.schema, columns.dead_schema
    if best is not None:
        schema, dead_schema = best.schema, best.read.dead_schema
    notes = sinks.predictions.check(schema)
    sinks.predictions.begin(schema)
    sinks.dead.begin(dead_schema)
    work = Join(
        base=str(prepared.base),
        workers=spec.workers,
        run=directory.store.url,
        source=prepared.source,
        where=spec.data.where,
        columns=columns,
        sink=sinks.predictions,
        dead_sink=sinks.dead,
    )
    failures = directory.failures((receipt for file in files for receipt in file.receipts), lost)
    pieces = pieces_of(spec, plan, outputs, _reasons(spec, failures), lost)
    say(f"Writing the predictions of {count(len(pieces), 'unit')}.")
    items = stretches(plan, pieces)
    if best is not None:
        work, said = top_k.chosen(work, best, items, executor)
        notes = (*notes, *said)
    joined = list(_told(executor.map(work, items), len(pieces), say))
    found = _listed(directory, sinks, columns, schema, joined, notes)
    sinks.dead.commit([one.file for one in found.dead_parts], dead_schema)
    sinks.predictions.commit([one.file for one in found.parts], schema)
    save_manifest(directory, found)
    top_k.clean(directory)
    return found


def _told(stretches: Iterable[Sequence[Joined]], num_pieces: int, say: Callable[[str], None]) -> Iterator[Joined]:
    """Each piece that was joined; now and then how far that has come."""
    done = 0
    for stretch in stretches:
        yield from stretch
        before, done = done, done + len(stretch)
        if done < num_pieces and done * TOLD // num_pieces > before * TOLD // num_pieces:
            say(f"Written: {done:,} of {count(num_pieces, 'unit')}.")


# ---- where -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sinks:
    predictions: Sink
    dead: Sink
    settings: SinkSettings
    dead_place: str

    @classmethod
    def of(cls, prepared: Prepared, directory: RunDirectory, run: str) -> _Sinks:
        return cls.under(directory.store.url, prepared, run)

    @classmethod
    def under(cls, place: str, prepared: Prepared, run: str) -> _Sinks:
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
        return f"{run}/predictions"
    if said.format in _NO_PATH:
        return said.to
    place = locate(said.to)
    return absolute(base / place) if isinstance(place, Path) else said.to


def _check_apart(spec: Spec, base: Path, to: str) -> None:
    """SpecError where the next run would read what this one writes, as rows of the data."""
    said, paths = spec.predictions, spec.data.path
    if said is None or said.to is None or said.format in _NO_PATH or not isinstance(locate(to), Path):
        return
    for text in (paths,) if isinstance(paths, str) else paths or ():
        folder = (base / text).resolve()
        place = Path(to).resolve()
        inside = place.relative_to(folder).as_posix() if place.is_relative_to(folder) else "_"
        if folder.is_dir() and (inside == "." or not is_hidden(inside)):
            raise SpecError(
                [
                    Fault(
                        "predictions.to",
                        f"{said.to!r} is in the data's folder {text!r}, so that what is written would be read as data. "
                        "Name a folder outside of it.",
                    )
                ]
            )


# ---- what ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Where the outputs of each unit lie, and of what types they are."""

    places: Mapping[str, tuple[str, Span]]  # unit -> object and where in it
    types: Mapping[str, Sequence[pa.DataType]]  # by `predicted.key`

    @classmethod
    def of(cls, directory: RunDirectory, files: Sequence[CommittedFile]) -> _Outputs:
        """RunError where a committed unit has none."""
        names = [file.predictions for file in files if file.predictions]

        def looked_into(name: str) -> Any:  # Any: as `at_once` gives it; Contents
            with directory.open_outputs(name) as file:
                return contents(file, f"outputs/{name}.arrow")

        places: dict[str, tuple[str, Span]] = {}
        types: dict[str, list[pa.DataType]] = {}
        for name, found in zip(names, at_once(looked_into, names, OBJECTS_AT_ONCE), strict=True):
            places |= {span.unit: (name, span) for span in found.spans}
            for field in found.schema:
                if field.name != POSITION and key_of(field.name).output != REASON:
                    types.setdefault(field.name, []).append(field.type)
        for receipt in (receipt for file in files for receipt in file.receipts):
            if receipt.unit not in places:
                raise RunError(
                    f"Unit {receipt.unit} is committed without its outputs in the run at {directory.place}: the run "
                    "cannot be trusted. Start a new one in another directory."
                )
        return cls(places, types)


def pieces_of(
    spec: Spec, plan: Plan, outputs: _Outputs, reasons: Mapping[str, Mapping[str, str]], lost: Sequence[str]
) -> tuple[Piece, ...]:
    """The pieces of the data in their order: by file, then by row."""
    order = {fragment.path: position for position, fragment in enumerate(plan.fragments)}
    by_piece: dict[tuple[int, int], list[Unit]] = {}
    for unit in plan.units:
        by_piece.setdefault((order[unit.path], unit.first_row), []).append(unit)
    width = max(5, len(str(len(by_piece) - 1)))
    given_up = frozenset(lost)
    found = []
    for number, place in enumerate(sorted(by_piece)):
        units = sorted(by_piece[place], key=lambda unit: unit.bundle)
        first = units[0]
        name = first.id.rpartition(".")[0] if plan.bundles else first.id
        held = tuple(_held(spec, plan, unit, outputs, reasons, given_up) for unit in units)
        found.append(Piece(f"{number:0{width}d}-{name}", first, held))
    return tuple(found)


def _held(
    spec: Spec,
    plan: Plan,
    unit: Unit,
    outputs: _Outputs,
    reasons: Mapping[str, Mapping[str, str]],
    lost: frozenset[str],
) -> Held:
    variants = plan.bundles[unit.bundle] if plan.bundles else tuple(one.name for one in spec.variants)
    name, span = outputs.places.get(unit.id, ("", None))
    if unit.id in lost:
        name, span = "", None
    return Held(unit.id, variants, name, span, reasons.get(unit.id, {}))


def _reasons(spec: Spec, failures: Sequence[Failure]) -> dict[str, dict[str, str]]:
    """Unit -> variant -> why it has no outputs there, "" for all of them. A variant that is left out of the metrics
    because the baseline failed has its outputs."""
    found: dict[str, dict[str, str]] = {}
    for one in failures:
        if one.error != left_out_words(spec.baseline):
            said = one.error if one.variant else f"no worker survived the unit: {one.error}"
            found.setdefault(one.unit, {})[one.variant] = said
    return found


def stretches(plan: Plan, pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """Pieces that lie in one row group together, so that it is decoded once; all others alone."""
    starts = {fragment.path: _starts(fragment.row_groups) for fragment in plan.fragments}
    found: list[list[Piece]] = []
    for piece in pieces:
        unit = piece.unit
        if found and unit.first_row not in starts[unit.path] and found[-1][-1].unit.path == unit.path:
            found[-1].append(piece)
        else:
            found.append([piece])
    return [tuple(several) for several in found]


def _starts(row_groups: tuple[int, ...] | None) -> frozenset[int]:
    found, begin = {0}, 0
    for rows in row_groups or ():
        begin += rows
        found.add(begin)
    return frozenset(found)


def _listed(
    directory: RunDirectory,
    sinks: _Sinks,
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
        columns=tuple((field.name, str(field.type)) for field in schema),
        parts=tuple(ListedPart(one.unit, part) for one in joined for part in one.parts),
        dead={name: dead[name] for name in order if dead[name]},
        dead_place=sinks.dead_place,
        dead_parts=tuple(ListedPart(one.unit, part) for one in joined for part in one.dead_parts),
        notes=tuple(notes),
    )
