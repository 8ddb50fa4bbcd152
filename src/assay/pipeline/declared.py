"""Which columns the predictions of a spec have, and what is wrong with them before a row is scored.

Not here: what such columns are (`columns.py`), reading and writing rows (`join.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import pyarrow as pa

from assay import build
from assay.errors import Fault, SpecError
from assay.models.values import value_type
from assay.pipeline.columns import DEAD, PROVENANCE, Columns, OutputColumn
from assay.predicted import Key, in_type
from assay.protocols import OriginalSource, Source
from assay.records import Task
from assay.spec.model import PredictionsSpec, Spec, VariantSpec
from assay.spec.names import offer
from assay.spec.words import listing
from assay.spec.written import written

_GLOB = "*?["
MOST_NAMES = 12
"""Names listed in one line."""


def columns_of(spec: Spec, tasks: Sequence[Task], source: Source) -> Columns:
    """As far as they are known before rows are scored: outputs are of the widest type that they may have.

    SpecError with all that is wrong: a column that is not there, a glob that matches none, two columns of one name.
    """
    said = spec.predictions
    assert said is not None, "asked for where predictions are written"
    schema = original_schema(source)
    names, faults = _carried(spec, schema.names)
    outputs = tuple(_outputs(spec, said, tasks))
    found = Columns(tuple(schema.field(name) for name in names), said.provenance, outputs, schema.metadata)
    faults += _clashes(found if said.top_k is None else replace(found, outputs=()))  # whose names are not used there
    if faults:
        raise SpecError(faults)
    return found


def original_schema(source: Source) -> pa.Schema:
    return source.original if isinstance(source, OriginalSource) else source.schema


def _carried(spec: Spec, known: Sequence[str]) -> tuple[list[str], list[Fault]]:
    """The columns that `carry_over` means, in the data's order."""
    if spec.carry_over == "all":
        return list(known), []
    wanted, faults = set[str](), list[Fault]()
    for position, text in enumerate(spec.carry_over):
        is_glob = text not in known and any(sign in text for sign in _GLOB)
        matched = [name for name in known if fnmatchcase(name, text)] if is_glob else [text] if text in known else []
        if not matched:
            of_glob = f"the glob {text!r} matches none of the columns {listing(known)}."
            what = of_glob if is_glob else f"there is no column {text!r}{offer(text, known)}"
            faults.append(Fault(f"carry_over[{position}]", what))
        wanted.update(matched)
    return [name for name in known if name in wanted], faults


def _outputs(spec: Spec, said: PredictionsSpec, tasks: Sequence[Task]) -> Iterator[OutputColumn]:
    variants, by_name = {one.name: one for one in spec.variants}, {task.name: task for task in tasks}
    for one in written(spec, said):
        variant, key = variants[one.variant], Key(one.variant, one.output)
        if one.output not in by_name:
            yield OutputColumn(key, one.name, _declared(variant.outputs[one.output].type), is_score=False)
        else:
            kind, classes = _expected(spec, variant, by_name[one.output])
            yield OutputColumn(key, one.name, in_type(kind, one.type), classes, chosen=one.type is not None)


def _declared(said: str) -> pa.DataType:
    """A list whose size the spec leaves open is one of any size, until there are outputs."""
    kind = value_type(said)
    return pa.list_(kind.value_type) if said.endswith(">") else kind


def _expected(spec: Spec, variant: VariantSpec, task: Task) -> tuple[pa.DataType, tuple[str, ...]]:
    """The type of a score, where a variant may give several, and the names of what it is of."""
    kind = build.outputs_of(spec, variant)[task.name].kind
    if kind == "interval":
        return pa.list_(pa.float64(), 2), ()
    if not task.classes:
        return pa.float64(), ()
    if kind == "label" and task.label_kind == "class":
        return pa.string(), ()
    return pa.list_(pa.float64(), len(task.classes)), task.classes


def _clashes(columns: Columns) -> list[Fault]:
    faults = []
    reserved = [field.name for field in columns.carried if field.name in (one.name for one in DEAD)]
    faults += [
        Fault("carry_over", f"names the column {name!r}, a name that provenance and dead letters take; leave it out.")
        for name in reserved
    ]
    taken = {field.name: "is carried over too" for field in columns.carried}
    taken |= {field.name: "is that of provenance" for field in PROVENANCE}
    for one in columns.outputs:
        if one.name in taken:
            faults.append(
                Fault(
                    "predictions.names",
                    f"the output of variant {one.key.variant!r} would be the column {one.name!r}, which "
                    f'{taken[one.name]}; choose other names, such as "prediction.{{variant}}".',
                )
            )
        taken.setdefault(one.name, f"is that of variant {one.key.variant!r} too")
    return faults
