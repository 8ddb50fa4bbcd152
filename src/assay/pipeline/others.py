"""Variants that take what others give, as they are planned: their fingerprints, and the columns that they find it in.

Not here: names, order and faults (`spec/others.py`), and the values (`scoring.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from assay.build import model, outputs_of
from assay.errors import ModelError, joined
from assay.models.outputs import TaskOutput
from assay.models.values import value_type
from assay.protocols import Model
from assay.records import Task
from assay.spec.model import Spec, VariantSpec
from assay.spec.others import taken, takes, with_others

_GIVEN = {b"assay": b"given by a variant"}


def fingerprints(spec: Spec, described: Sequence[Model], base: Path, tasks: Iterable[Task] = ()) -> dict[str, str]:
    """Variant -> digest, in which those of the variants are that it takes outputs of; all their ModelErrors as one.

    described: the spec's variants, in its order; the rest as for `model`.
    """
    specs, whole = {one.name: one for one in spec.variants}, {one.name: one for one in described}
    others, tasks = takes(spec.variants), tuple(tasks)
    found: dict[str, str] = {}
    errors: dict[str, ModelError] = {}
    for name in with_others(whole, others):
        if errors.keys() & set(others.get(name, ())):
            continue
        try:
            known = {other: found[other] for other in others.get(name, ())}
            of_all = model(spec, specs[name], base, tasks, fingerprints=known) if known else whole[name]
            found[name] = of_all.fingerprint
        except ModelError as error:
            errors[name] = error
    if errors:
        raise joined([errors[name] for name in whole if name in errors])
    return {name: found[name] for name in whole}


def given_schema(spec: Spec, tasks: Iterable[Task], schema: pa.Schema) -> pa.Schema:
    """The data's columns, and those in which variants find what they take of others.

    tasks: resolved. ModelError where the data have a column of such a name.
    """
    tasks, variants = tuple(tasks), {one.name: one for one in spec.variants}
    for variant in spec.variants:
        for one in taken(spec, variant):
            if one.column in schema.names and schema.field(one.column).metadata != _GIVEN:
                raise ModelError(
                    variant.name, f"the data have a column {one.column!r}, as its input is called; rename it."
                )
            if one.column not in schema.names:
                kind = _given_kind(spec, variants[one.variant], one.output, tasks)
                schema = schema.append(pa.field(one.column, kind, metadata=_GIVEN))
    return schema


def _given_kind(spec: Spec, variant: VariantSpec, output: str, tasks: Iterable[Task]) -> pa.DataType:
    """What another variant's output is as a column; lists may turn out longer."""
    if output in variant.outputs:
        return value_type(variant.outputs[output].type)
    said = outputs_of(spec, variant, tasks)[output]
    if said.kind == "interval":
        return pa.list_(pa.float64(), 2)
    if not isinstance(said, TaskOutput):
        return pa.float64()
    if said.several == "classes" and said.kind == "label":
        return pa.string()
    return pa.list_(pa.float64(), max(1, len(said.names)))
