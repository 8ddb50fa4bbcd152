"""Whether a manifest can be that of its run: compared with the spec, the plan and the outputs. No file is read.

Not here: the files that it lists (`audit_files.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from assay.pipeline.apart import PREDICTIONS, TABLES
from assay.pipeline.audit_outputs import Scored
from assay.pipeline.dead_letters import DEAD_LETTER
from assay.pipeline.manifest import run_id
from assay.records import ListedPart, Predictions
from assay.sinks.names import folder_of, part_name
from assay.sinks.tables import part_of
from assay.spec.model import PredictionsSpec
from assay.spec.words import count
from assay.store.run import RunDirectory

Stretches = Sequence[Sequence[Scored]]


def manifest_faults(
    directory: RunDirectory, found: Predictions, said: PredictionsSpec, stretches: Stretches
) -> Iterator[str]:
    """What the manifest says and cannot be, in clauses whose subject it is."""
    yield from _identity_faults(directory, found, said)
    is_table = said.format in TABLES
    kind, run = "parquet" if is_table else said.format, run_id(directory)
    names = {one.unit: one.name for stretch in stretches for one in stretch}
    own = {unit: part_of(run, name) for unit, name in names.items()} if is_table else names
    yield from _part_faults(found.parts, own, kind, said.partition_by)
    yield from _part_faults(found.dead_parts, names, "parquet", ())
    yield from _row_faults(found, said, stretches)
    yield from _dead_faults(found, [one for stretch in stretches for one in stretch])


def _identity_faults(directory: RunDirectory, found: Predictions, said: PredictionsSpec) -> Iterator[str]:
    run, url = run_id(directory), directory.store.url
    if found.run != run:
        yield f"says that it is of the run {found.run!r}, and this run is {run!r}"
    if found.format != said.format:
        yield f"says that the format is {found.format!r}, and the spec of the run says {said.format!r}"
    if said.to is None and found.place != f"{url}/{PREDICTIONS}":
        yield f"says that the predictions are in {found.place}, and the run writes them to {url}/{PREDICTIONS}"
    if found.dead_place != f"{url}/{DEAD_LETTER}":
        yield f"says that the dead letters are in {found.dead_place}, and the run writes them to {url}/{DEAD_LETTER}"


def _part_faults(
    parts: Sequence[ListedPart], names: dict[str, str], kind: str, partition_by: Sequence[str]
) -> Iterator[str]:
    """Files in the order of the data, each once, under the path that follows from unit, partition and content.

    names: unit -> what its parts are named after, in the order of the data.
    """
    order = {unit: number for number, unit in enumerate(names)}
    numbers, seen, last = Counter[tuple[str, str]](), set[str](), 0
    for unit, file in ((one.unit, one.file) for one in parts):
        folder = folder_of(file.partition, exact=False)
        if file.path in seen:
            yield f"lists {file.path} twice"
        elif unit not in names:
            yield f"lists {file.path} as one of the unit {unit!r}, which is not in the plan"
        elif list(file.partition) != list(partition_by):
            yield f"lists {file.path} as one of the partition {dict(file.partition)}, not by {list(partition_by)}"
        elif order[unit] < last:
            yield f"lists {file.path} of the unit {unit!r} behind files of later units"
        else:
            expected = folder + part_name(names[unit], numbers[unit, folder], file.digest, f".{kind}")
            numbers[unit, folder] += 1
            last = order[unit]
            if not file.path.startswith(expected):
                yield f"lists {file.path}, and its unit, partition and digest make it {expected}"
        seen.add(file.path)


def _row_faults(found: Predictions, said: PredictionsSpec, stretches: Stretches) -> Iterator[str]:
    """As many rows as were scored, in the pieces that they were scored in; of ranked rows that is not known."""
    by_unit = Counter[str]()
    for one in found.parts:
        by_unit[one.unit] += one.file.rows
    if by_unit.total() != found.rows:
        yield f"says {found.rows:,} rows, and lists files with {by_unit.total():,}"
    for stretch in stretches if said.top_k is None else ():
        scored = [one.rows for one in stretch if one.rows is not None]
        if len(scored) < len(stretch):
            continue
        listed = [by_unit[one.unit] for one in stretch]
        if listed not in (scored, [sum(scored), *(0 for _ in scored[1:])]):  # one file may hold a whole stretch
            unit, rows, right = next(
                (one.unit, rows, right)
                for one, rows, right in zip(stretch, listed, scored, strict=True)
                if rows != right
            )
            yield f"lists files with {count(rows, 'row')} of the unit {unit!r}, of which {right:,} were scored"


def _dead_faults(found: Predictions, pieces: Sequence[Scored]) -> Iterator[str]:
    """As many dead letters as the outputs lack: for each variant, and for each piece."""
    by_unit, dead = Counter[str](), Counter[str]()
    for listed in found.dead_parts:
        by_unit[listed.unit] += listed.file.rows
    if by_unit.total() != sum(found.dead.values()):
        yield f"says {count(sum(found.dead.values()), 'dead letter')}, and lists files with {by_unit.total():,}"
    for one in pieces:
        if one.dead is None:
            continue
        dead.update(one.dead)
        if by_unit[one.unit] != sum(one.dead.values()):
            yield (
                f"lists files with {count(by_unit[one.unit], 'dead letter')} of the unit {one.unit!r}, where the "
                f"outputs lack {sum(one.dead.values()):,}"
            )
    if all(one.dead is not None for one in pieces):
        for variant in sorted({*dead, *found.dead}):
            if dead[variant] != found.dead.get(variant, 0):
                yield (
                    f"says that the variant {variant!r} lacks an output in {count(found.dead.get(variant, 0), 'row')}, "
                    f"and it does in {dead[variant]:,}"
                )
