"""What whoever watches a run is told of it while this driver scores nothing: what earlier ones have committed."""

from __future__ import annotations

from assay.pipeline.prepare import Prepared
from assay.records import Progress
from assay.spec.words import agree, count
from assay.store.log import CommitLog, Committed
from assay.store.run import RunDirectory


def so_far(prepared: Prepared, committed: Committed | CommitLog, message: str) -> Progress:
    """With the number of rows, which the plan does not know of files that had to be counted."""
    plan = prepared.plan
    rows = _rows(committed) // max(1, len(plan.bundles))  # each bundle reads all of them
    done, units, variants = _units_done(committed), len(plan.units), len(plan.fingerprints)
    return Progress(done, units, rows, prepared.num_rows, variants, 0.0, rows_before=rows, message=message)


def going_on(prepared: Prepared, committed: Committed | CommitLog) -> Progress:
    """For a run that has units already."""
    done, units = _units_done(committed), len(prepared.plan.units)
    message = f"Going on: {done:,} of {count(units, 'unit')} {agree(done, 'is', 'are')} committed already."
    return so_far(prepared, committed, message)


def finished_before(directory: RunDirectory, committed: Committed) -> Progress:
    """For a run that has its results; nothing of its plan is read, which may be of another version."""
    units, rows, variants = _units_done(committed), _rows(committed), len(directory.read_json("variants.json"))
    message = f"The run at {directory.place} was finished before: nothing is scored or written again."
    return Progress(units, units, rows, None, variants, 0.0, rows_before=rows, message=message)


def _units_done(committed: Committed | CommitLog) -> int:
    """Committed or given up."""
    return len({receipt.unit for file in committed.files for receipt in file.receipts} | set(committed.lost))


def _rows(committed: Committed | CommitLog) -> int:
    return sum(receipt.rows for file in committed.files for receipt in file.receipts)
