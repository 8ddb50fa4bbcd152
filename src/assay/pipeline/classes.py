"""Classes and labels that the spec leaves open (`auto`): the values that the label has, read from the data.

Lives here: one pass over the columns that it takes. Not here: what a class is called (`value_names.py`), and what a row
of an unknown class means (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from assay.errors import DataError
from assay.expressions import Expressions
from assay.protocols import Source
from assay.records import Task, Unit
from assay.rows import WHERE, label_texts, where_of
from assay.spec.model import DataSpec
from assay.value_names import distinct, is_list, items_of, names_of

MOST = 10_000
"""Classes that a label may have when the data are to tell."""


def is_open(task: Task) -> bool:
    """Whether its classes or labels are still to be read from the data."""
    return task.label_kind in ("class", "labels") and not task.classes


def with_classes(tasks: Sequence[Task], data: DataSpec, source: Source) -> tuple[Task, ...]:
    """The tasks, those that are open with their classes: the values that the label has in the rows that take part.

    Numbers are sorted by value, everything else by its name. DataError for a label of one class, of none, and of more
    than 10,000.
    """
    if not any(is_open(task) for task in tasks):
        return tuple(tasks)
    found = {task.name: _Values(task) for task in tasks if is_open(task)}
    texts = {} if data.where is None else {WHERE: data.where}
    for one in found.values():
        texts |= label_texts(one.task)
        if one.task.where is not None:
            texts[where_of(one.task)] = one.task.where
    expressions = Expressions(source.schema, texts)
    for fragment in source.fragments:
        rows = None if fragment.row_groups is None else sum(fragment.row_groups)
        if rows == 0:
            continue
        for chunk in source.read(Unit("classes", fragment.path, 0, rows, 0), expressions.columns):
            computed = expressions.evaluate(chunk.table)
            if data.where is not None:
                computed = computed.filter(_true(computed[WHERE]))
            for one in found.values():
                one.add(computed)
    return tuple(replace(task, classes=found[task.name].names()) if task.name in found else task for task in tasks)


class _Values:
    """The different values of one label so far."""

    def __init__(self, task: Task) -> None:
        self.task = task
        [self._label] = label_texts(task)
        self._names: set[str] = set()
        self._numeric = False

    def add(self, computed: pa.Table) -> None:
        column = computed[self._label]
        if self.task.where is not None:
            column = column.filter(_true(computed[where_of(self.task)]))
        if pa.types.is_null(column.type):
            return
        values = items_of(column).values if is_list(column.type) else column.combine_chunks()
        if pa.types.is_null(values.type):
            return
        known = distinct(values.unique(), self._label).dictionary
        self._numeric = pa.types.is_integer(known.type) or pa.types.is_floating(known.type)
        self._names |= {name for name in names_of(known, self._label).to_pylist() if name is not None}
        if len(self._names) > MOST:
            raise DataError(
                f"{self._label}: {self.task.label!r} has more than {MOST:,} different values. Declare the "
                f"{self._noun}, or write an expression with fewer."
            )

    def names(self) -> tuple[str, ...]:
        if not self._names:
            raise DataError(f"0 rows usable: the label {self.task.label!r} has no value in any row that takes part.")
        if self.task.label_kind == "class" and len(self._names) == 1:
            raise DataError(
                f"{self._label}: {self.task.label!r} is {next(iter(self._names))!r} in all rows that take part. "
                "Declare the classes if there are others."
            )
        return tuple(sorted(self._names, key=Decimal) if self._numeric else sorted(self._names))

    @property
    def _noun(self) -> str:
        return "classes" if self.task.label_kind == "class" else "labels"


def _true(condition: pa.ChunkedArray) -> pa.ChunkedArray:
    return condition.cast(pa.bool_()).fill_null(False)
