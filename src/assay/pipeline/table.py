"""A table of predictions as a spec: which columns are scores, and the words of `evaluate` as a tree.

Lives here: what needs no spec file. Not here: checking the tree (`spec/load.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa

from assay import build
from assay.errors import DataError, Fault, SpecError
from assay.expressions import Expressions
from assay.models.inputs import is_number
from assay.spec.model import DataSpec
from assay.spec.names import offer
from assay.spec.words import either
from assay.value_names import is_list


def table_spec(
    paths: str | tuple[str, ...] | None,
    *,
    frame: object = None,
    label: str | None = None,
    scores: Sequence[str] = (),
    variants: Sequence[Mapping[str, Any]] = (),  # Any: parts of a spec, to be checked; so below
    baseline: str | None = None,
    output: str | Mapping[str, Any] | None = None,
    metrics: Sequence[Any] = (),
    gates: Sequence[Mapping[str, Any]] = (),
    tasks: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    cluster: str | Sequence[str] | None = None,
    weight: str | None = None,
    where: str | None = None,
    time: str | None = None,
    slices: Sequence[Any] = (),
    **settings: Any,
) -> dict[str, Any]:
    """The tree of a spec over files or a frame, from the words of `api.evaluate`; not yet checked.

    data: further keys of the spec's `data`. SpecError when a name or glob of `scores` matches nothing; DataError when
    there are no data to match it with.
    """
    scores = [scores] if isinstance(scores, str) else scores
    roles = {"label": label, "weight": weight, "cluster": cluster, "time": time, "slices": slices, "where": where}
    columns = []
    if scores:
        schema, several = _schema(paths, frame, data or {}), _several(data or {}, tasks, output)
        columns = _score_columns(schema, scores, [*roles.values(), tasks], several)
    return {
        "data": {**_given(path=paths, **roles), **(data or {})},
        "variants": [*({"name": column, "column": column} for column in columns), *variants],
        **_given(baseline=baseline, metrics=metrics, gates=gates, tasks=tasks),
        **_given(output={"is": output} if isinstance(output, str) else output),
        **settings,
    }


def _given(**words: Any) -> dict[str, Any]:  # Any: parts of a spec, to be checked
    """Without what was left out, so that a spec made of it is as short as one written by hand."""
    return {name: value for name, value in words.items() if value is not None and value != () and value != []}


def _schema(
    paths: str | tuple[str, ...] | None,
    frame: object,
    data: Mapping[str, Any],  # Any: not checked yet
) -> pa.Schema:
    reader, format = data.get("reader"), data.get("format")
    if reader is not None:
        raise SpecError(
            [Fault("scores", f"cannot be looked for before the reader {reader!r} reads; give variants with a column.")]
        )
    return build.source(
        DataSpec(path=paths, format=format if format in build.SOURCES else None), Path.cwd(), frame
    ).schema


def _several(data: Mapping[str, Any], tasks: object, output: object) -> bool:  # Any: not checked yet
    """Whether a score is a list of numbers: of several classes or labels, or an interval."""
    kind = output.get("is") if isinstance(output, Mapping) else output
    classes, labels = data.get("classes") is not None, data.get("labels") is not None
    return not tasks and (kind == "interval" or labels or (classes and kind != "label"))


def _score_columns(schema: pa.Schema, scores: Sequence[str], roles: object, several: bool = False) -> list[str]:
    """The columns that the names and globs of `scores` match, in the order of the data.

    roles: texts, and mappings and lists of them, that give other columns their parts. several: a glob takes lists.
    """
    taken = {column for text in _texts(roles) for column in _columns_of(text, schema)}
    fits = is_list if several else is_number
    free = [field.name for field in schema if fits(field.type) and field.name not in taken]
    matches = {pattern: _matched(pattern, schema.names, free) for pattern in scores}
    what = "list" if several else "number"
    faults = [
        Fault("scores", _unmatched(pattern, schema.names, free, what)) for pattern in scores if not matches[pattern]
    ]
    if faults:
        raise SpecError(faults)
    return [column for column in schema.names if any(column in found for found in matches.values())]


def _matched(pattern: str, columns: Sequence[str], free: Sequence[str]) -> list[str]:
    return [pattern] if pattern in columns else [column for column in free if fnmatchcase(column, pattern)]


def _unmatched(pattern: str, columns: Sequence[str], free: Sequence[str], what: str) -> str:
    other = [column for column in columns if fnmatchcase(column, pattern)]
    if not other:
        return f"no column matches {pattern!r}{offer(pattern, free)}"
    return (
        f"{pattern!r} matches {either(other)} alone, which is no {what} or plays another part; name a column outright "
        "to take it all the same."
    )


def _texts(roles: object) -> Iterator[str]:
    if isinstance(roles, str):
        yield roles
    elif isinstance(roles, Mapping):
        yield from _texts([*roles, *roles.values()])
    elif isinstance(roles, list | tuple):
        for one in roles:
            yield from _texts(one)


def _columns_of(text: str, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that a text needs; none when it is wrong, which is told when the spec is checked."""
    try:
        return Expressions(schema, {"": text}).columns
    except DataError:
        return ()
