"""What a run directory has committed, for comparison to the byte."""

from __future__ import annotations

from pathlib import Path

from assay.pipeline.finish import merged
from assay.pipeline.run import saved_plan
from assay.records import Tally
from assay.states import digest
from assay.store.log import read_committed
from assay.store.run import RunDirectory


def committed_tally(place: Path) -> Tally:
    """All that is committed, merged: RunError when a unit is there twice."""
    directory = RunDirectory.open(str(place))
    return merged(directory, read_committed(directory).files, saved_plan(directory))


def committed_units(place: Path) -> list[str]:
    return sorted(receipt.unit for receipt in read_committed(RunDirectory.open(str(place))).receipts)


def planned_units(place: Path) -> list[str]:
    return sorted(unit.id for unit in saved_plan(RunDirectory.open(str(place))).units)


def states_digest(tally: Tally) -> str:
    """Of the states alone: equal when every array of every state is, byte by byte."""
    return digest(Tally((), tally.states))
