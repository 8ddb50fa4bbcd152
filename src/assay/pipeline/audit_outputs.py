"""What the outputs of a run say of its predictions: how many rows each piece of the data has, and how many are dead.

Not here: what is then compared with it (`audit_predictions.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assay.errors import RunError
from assay.merge import at_once
from assay.pipeline.pieces import Place, stretches
from assay.predicted import Span, contents, digest, key
from assay.records import CommittedFile, Plan
from assay.spec.model import Spec
from assay.spec.written import written
from assay.store.run import RunDirectory

OBJECTS_AT_ONCE = 4

Written = Mapping[str, Sequence[str]]
"""Variant -> the outputs of it that are written, by `predicted.key`."""


class Counted(NamedTuple):
    """A unit's rows as they were scored."""

    rows: int
    dead: Mapping[str, int]  # variant -> rows that lack one of its outputs


class Scored(NamedTuple):
    """What is known of a piece of the data, whose units are one for each bundle."""

    unit: str  # the first of them, by which the manifest knows the piece
    name: str  # of its parts
    rows: int | None  # that pass the filter; None where all its units were given up, so that nobody counted
    dead: Mapping[str, int] | None  # variant -> rows that lack one of its outputs; None: not known either


class Found(NamedTuple):
    """The objects that commits list, read again."""

    wrong: tuple[str, ...]  # names of those that are missing, altered, or hold other units than their entry says
    rows: int  # in the first bundle
    stretches: tuple[tuple[Scored, ...], ...]  # all of the data; empty where an object is wrong


def read_again(directory: RunDirectory, spec: Spec, plan: Plan, files: Sequence[CommittedFile]) -> Found:
    """All objects, a few at a time."""
    outputs: dict[str, list[str]] = {}
    for one in written(spec, spec.predictions) if spec.predictions is not None else ():
        outputs.setdefault(one.variant, []).append(key(one.variant, one.output))
    by_unit = {unit.id: _own(spec, plan, unit.bundle, outputs) for unit in plan.units}
    looked_into = at_once(lambda file: _counted(directory, file, by_unit), files, OBJECTS_AT_ONCE)
    counted, wrong = dict[str, Counted](), []
    for file, found in zip(files, looked_into, strict=True):
        if found is None:
            wrong.append(file.predictions)
        else:
            counted |= found
    if wrong:
        return Found(tuple(wrong), 0, ())
    scored = tuple(
        tuple(_scored(place, counted, by_unit, spec.data.where is not None) for place in stretch)
        for stretch in stretches(plan)
    )
    rows = sum(counted[unit.id].rows for unit in plan.units if unit.bundle == 0 and unit.id in counted)
    return Found((), rows, scored)


def _own(spec: Spec, plan: Plan, bundle: int, outputs: Written) -> Written:
    names = plan.bundles[bundle] if plan.bundles else [one.name for one in spec.variants]
    return {name: outputs[name] for name in names if name in outputs}


def _counted(directory: RunDirectory, file: CommittedFile, by_unit: Mapping[str, Written]) -> dict[str, Counted] | None:
    """Of each unit of an object. None where it is not what its name and its entry say."""
    try:
        data = directory.read_outputs(file.predictions)
        spans = contents(pa.py_buffer(data), f"outputs/{file.predictions}.arrow").spans
    except RunError:
        return None
    if {span.unit for span in spans} != {one.unit for one in file.receipts} or digest(data) != file.predictions:
        return None
    reader = pa.ipc.open_file(pa.py_buffer(data))
    return {span.unit: Counted(span.num_rows, _dead(reader, span, by_unit[span.unit])) for span in spans}


def _dead(reader: pa.RecordBatchFileReader, span: Span, own: Written) -> dict[str, int]:
    found: Counter[str] = Counter()
    for number in range(span.first_batch, span.first_batch + span.num_batches):
        batch = reader.get_batch(number)
        for variant, names in own.items():
            lacking = np.zeros(len(batch), np.bool_)
            for name in names:
                is_there = name in batch.schema.names
                lacking |= pc.is_null(batch[name]).to_numpy(zero_copy_only=False) if is_there else True
            found[variant] += int(lacking.sum())
    return dict(+found)


def _scored(place: Place, counted: Mapping[str, Counted], by_unit: Mapping[str, Written], is_filtered: bool) -> Scored:
    first = place.units[0]
    rows = next((counted[unit.id].rows for unit in place.units if unit.id in counted), None)
    if rows is None and not is_filtered:
        rows = first.num_rows
    if rows is None:
        return Scored(first.id, place.name, None, None)
    dead: Counter[str] = Counter()
    for unit in place.units:
        given_up = dict.fromkeys(by_unit[unit.id], rows)
        dead.update(counted[unit.id].dead if unit.id in counted else given_up)
    return Scored(first.id, place.name, rows, dict(+dead))
