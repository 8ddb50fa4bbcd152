"""The pieces of the data that joins are made of: which there are, in which stretches, and what is committed of them.

Not here: the join itself (`join.py`), and when it is done (`early.py`, `predict.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from assay.errors import RunError
from assay.merge import at_once
from assay.pipeline.join import Held, Piece
from assay.predicted import POSITION, REASON, Span, contents, key_of
from assay.records import Failure, Plan, Receipt, Unit
from assay.scoring import left_out_words
from assay.spec.model import Spec
from assay.store.run import RunDirectory

OBJECTS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of the data, whatever is committed of it."""

    name: str  # of its parts: in the order of names they are in the order of the data
    units: tuple[Unit, ...]  # one for each bundle


Stretch = tuple[Place, ...]
"""Pieces that lie in one row group, which is decoded once."""


def stretches(plan: Plan) -> list[Stretch]:
    """All of the data, in their order: by file, then by row. What lies in no row group with others is alone."""
    starts = {fragment.path: _starts(fragment.row_groups) for fragment in plan.fragments}
    found: list[list[Place]] = []
    for place in _places(plan):
        unit = place.units[0]
        if found and unit.first_row not in starts[unit.path] and found[-1][-1].units[0].path == unit.path:
            found[-1].append(place)
        else:
            found.append([place])
    return [tuple(several) for several in found]


def _places(plan: Plan) -> Iterable[Place]:
    order = {fragment.path: position for position, fragment in enumerate(plan.fragments)}
    by_place: dict[tuple[int, int], list[Unit]] = {}
    for unit in plan.units:
        by_place.setdefault((order[unit.path], unit.first_row), []).append(unit)
    width = max(5, len(str(len(by_place) - 1)))
    for number, place in enumerate(sorted(by_place)):
        units = sorted(by_place[place], key=lambda unit: unit.bundle)
        name = units[0].id.rpartition(".")[0] if plan.bundles else units[0].id
        yield Place(f"{number:0{width}d}-{name}", tuple(units))


def _starts(row_groups: tuple[int, ...] | None) -> frozenset[int]:
    found, begin = {0}, 0
    for rows in row_groups or ():
        begin += rows
        found.add(begin)
    return frozenset(found)


class Outputs:
    """Where the outputs of committed units lie, and of what types they are, of objects that were looked into."""

    def __init__(self, directory: RunDirectory, spec: Spec, plan: Plan) -> None:
        self._directory = directory
        self._spec = spec
        self._plan = plan
        self._spans: dict[str, tuple[str, Span]] = {}  # unit -> object and where in it
        self._seen: set[str] = set()
        self.types: dict[str, list[pa.DataType]] = {}  # by `predicted.key`: those that there are

    def look_into(self, names: Iterable[str]) -> None:
        """Objects, each of them once. RunError where one is not what it should be."""
        new = [name for name in dict.fromkeys(names) if name and name not in self._seen]

        def looked_into(name: str) -> Any:  # Any: as `at_once` gives it; Contents
            with self._directory.open_outputs(name) as file:
                return contents(file, f"outputs/{name}.arrow")

        for name, found in zip(new, at_once(looked_into, new, OBJECTS_AT_ONCE), strict=True):
            self._seen.add(name)
            self._spans |= {span.unit: (name, span) for span in found.spans}
            for field in found.schema:
                if field.name != POSITION and key_of(field.name).output != REASON:
                    known = self.types.setdefault(field.name, [])
                    known += [] if field.type in known else [field.type]

    def pieces(
        self, stretch: Stretch, receipts: Mapping[str, Receipt], reasons: Mapping[str, Mapping[str, str]]
    ) -> tuple[Piece, ...]:
        """What is to be joined. receipts: by unit; a unit without one was given up. reasons: as of `reasons_of`.

        RunError where a committed unit has no outputs.
        """
        return tuple(
            Piece(
                place.name,
                place.units[0],
                tuple(self._held(unit, receipts.get(unit.id), reasons) for unit in place.units),
            )
            for place in stretch
        )

    def _held(self, unit: Unit, receipt: Receipt | None, reasons: Mapping[str, Mapping[str, str]]) -> Held:
        bundles = self._plan.bundles
        variants = bundles[unit.bundle] if bundles else tuple(one.name for one in self._spec.variants)
        name, span = ("", None) if receipt is None else self._spans.get(unit.id, ("", None))
        if receipt is not None and span is None:
            raise RunError(
                f"Unit {unit.id} is committed without its outputs in the run at {self._directory.place}: the run "
                "cannot be trusted. Start a new one in another directory."
            )
        return Held(unit.id, variants, name, span, reasons.get(unit.id, {}))


def reasons_of(spec: Spec, failures: Sequence[Failure]) -> dict[str, dict[str, str]]:
    """Unit -> variant -> why it has no outputs there, "" for all of them. A variant that is left out of the metrics
    because the baseline failed has its outputs."""
    found: dict[str, dict[str, str]] = {}
    for one in failures:
        if one.error != left_out_words(spec.baseline):
            said = one.error if one.variant else f"no worker survived the unit: {one.error}"
            found.setdefault(one.unit, {})[one.variant] = said
    return found
