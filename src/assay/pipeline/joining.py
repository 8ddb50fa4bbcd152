"""Which joins are done, and what they took: kept in the run directory, so that no driver does them again.

Lives here: keys, records, the ledger of joins. Not here: the join itself (`join.py`), and when it is done (`early.py`,
`predict.py`).

A record says what was written of a stretch. It is found by its key, a digest of all that the join is a function of, and
counts only where its files are still in their place: so it is right whoever made it, and whatever became of that
driver. A stretch whose outputs turn out to be of wider types has another key.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from typing import Any

from assay.costs import CostLedger
from assay.errors import RunError
from assay.merge import at_once
from assay.pipeline.join import Join, Joined, Piece
from assay.protocols import Sink
from assay.records import PartFile, Plan, SinkSettings, Worked
from assay.store.run import RunDirectory, as_json

VERSION = 2
"""Of joins and of their records: files that another version wrote are not taken."""
FOLDER = "joins"
KEEP_SECONDS = 5.0
"""So often at most a record is written; a driver that is killed takes with it what was joined since."""
OBJECTS_AT_ONCE = 16

Wrote = tuple[Joined, ...]
"""What was written of a stretch, piece by piece."""


class Keys:
    """Of the stretches that one work joins."""

    def __init__(self, work: Join, settings: SinkSettings, plan: Plan) -> None:
        self._files = {fragment.path: fragment.digest for fragment in plan.fragments}
        schemas = [work.columns.schema, work.columns.dead_schema]
        self._shared = _digest(
            {
                "version": VERSION,
                "schemas": [schema.serialize().to_pybytes().hex() for schema in schemas],
                "settings": asdict(settings),
                "where": work.where,
                "bundles": plan.bundles,
            }
        )

    def of(self, stretch: Sequence[Piece]) -> str:
        path = stretch[0].unit.path
        return _digest([self._shared, path, self._files[path], [_as_list(piece) for piece in stretch]])


def _as_list(piece: Piece) -> list[object]:
    """All of it but what follows from the file and the bundles."""
    unit = piece.unit
    held = [[one.unit, one.digest, one.span, dict(one.reasons)] for one in piece.held]
    return [piece.name, unit.first_row, unit.num_rows, held]


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


class Listing:
    """The files that are in the places of the predictions and the dead letters, asked for once, and only if needed."""

    def __init__(self, predictions: Sink, dead: Sink) -> None:
        self._predictions = predictions
        self._dead = dead

    @cached_property
    def _found(self) -> tuple[Set[str], Set[str]]:
        return frozenset(self._predictions.found()), frozenset(self._dead.found())

    def has(self, wrote: Wrote) -> bool:
        """Whether all of it is there."""
        parts = {part.path for one in wrote for part in one.parts}
        dead = {part.path for one in wrote for part in one.dead_parts}
        return not (parts or dead) or (parts <= self._found[0] and dead <= self._found[1])


class JoinBook:
    """The joins of a run, as one driver keeps them."""

    def __init__(self, directory: RunDirectory, driver: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._driver = driver
        self._clock = clock
        self._ledger = CostLedger()
        self._unsaved: dict[str, Wrote] = {}
        self._unbooked = False
        self._kept = float("-inf")

    @cached_property
    def _known(self) -> dict[str, Wrote]:
        """Of all drivers so far. RunError where a record cannot be read."""
        store, found = self._directory.store, dict[str, Wrote]()
        paths = store.list(FOLDER)
        for path, data in zip(paths, store.get_many(paths), strict=True):
            try:
                told = _from_json(json.loads(data))
                if told and path != _name(data):
                    raise ValueError("it is not what its name says")
                found |= told
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise RunError(
                    f"{path} of the run at {self._directory.place} is no record of joins ({error}). Remove it: what it "
                    "told of is joined again."
                ) from error
        return found

    def wrote(self, key: str, listing: Listing) -> Wrote | None:
        """What is there of a stretch already."""
        wrote = self._known.get(key)
        return wrote if wrote is not None and listing.has(wrote) else None

    def spend(self, worked: Worked) -> None:
        """It is no join, but a step towards one."""
        self._ledger.joined(worked)
        self._unbooked = True

    def add(self, key: str, worked: Worked) -> None:
        """A stretch is joined."""
        self.spend(worked)
        self._known[key] = self._unsaved[key] = worked.result

    def keep(self, *, now: bool = False) -> None:
        """Write down what is new, if it is time; RunError."""
        if not self._unbooked or (not now and self._clock() - self._kept < KEEP_SECONDS):
            return
        if self._unsaved:
            data = as_json(_as_json(self._unsaved))
            self._directory.store.put_new(_name(data), data)
        self._directory.save_costs(f"{self._driver}-joins", self._ledger.as_json(self._driver, 0.0))
        self._kept, self._unbooked = self._clock(), False
        self._unsaved.clear()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """At the end what is new is written down, whatever has happened."""
        try:
            yield
        except BaseException:
            with suppress(RunError):  # what went wrong before is told, and not this
                self.keep(now=True)
            raise
        self.keep(now=True)

    def forget(self) -> None:
        """Remove all records: the manifest follows, or all is to be joined again."""
        store = self._directory.store
        for _ in at_once(store.delete, store.list(FOLDER), OBJECTS_AT_ONCE):
            pass


# ---- records as JSON -------------------------------------------------------------------------------------------------


def _name(data: bytes) -> str:
    return f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:32]}.json"


def _as_json(joins: Mapping[str, Wrote]) -> dict[str, Any]:  # Any: JSON
    return {"version": VERSION, "joins": {key: [asdict(one) for one in wrote] for key, wrote in joins.items()}}


def _from_json(content: Mapping[str, Any]) -> dict[str, Wrote]:  # Any: JSON
    if content["version"] != VERSION:
        return {}
    return {key: tuple(_joined(one) for one in wrote) for key, wrote in content["joins"].items()}


def _joined(fields: Mapping[str, Any]) -> Joined:  # Any: JSON
    parts = {name: tuple(PartFile(**one) for one in fields[name]) for name in ("parts", "dead_parts")}
    return Joined(**{**fields, **parts})
