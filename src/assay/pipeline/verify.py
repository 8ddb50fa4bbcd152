"""The audit of a run: do the log, the states, the ledger and the results say the same?"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import NamedTuple

import numpy as np

from assay import build
from assay.errors import AssayError, RunError
from assay.ledgers import TaskLedger, VariantLedger
from assay.pipeline.finish import TABLES, conclude_run, merged, read
from assay.pipeline.run import expanded_spec, saved_plan
from assay.records import CommittedFile, Plan, State, StateKey, Tally, View
from assay.spec.words import agree, count
from assay.states import decode, digest
from assay.store.entries import Entry, read_entries
from assay.store.log import Committed, read_committed
from assay.store.run import RunDirectory


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str  # a sentence


class Audit(NamedTuple):
    """What was looked at, and whether the run has come to its end."""

    checks: tuple[Check, ...]
    finished: bool = False

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def verify(out: str) -> Audit:
    """Read all state files again, merge them, and compare with the log, the plan and the results. Data are not read.

    RunError when there is no run. Later checks are left out where an earlier one fails.
    """
    directory = RunDirectory.open(out)
    plan = saved_plan(directory)
    try:
        entries, committed = read_entries(directory, volumes=False), read_committed(directory)
    except RunError as error:
        return Audit((Check("log", False, str(error)),))
    files = committed.files
    checks = [
        _log(entries, committed),
        _states(directory, files),
        _units(plan, committed),
    ]
    if all(check.passed for check in checks):
        tally = merged(directory, files, plan)
        checks += [_rows(plan, tally), _coverage(plan, tally)]
        checks += [_results(directory, plan, tally)] if committed.finished else []
    return Audit(tuple(checks), committed.finished)


def _log(entries: tuple[Entry, ...], committed: Committed) -> Check:
    """entries: each read for itself; committed: what readers of volumes see."""
    if entries != committed.entries:
        return Check("log", False, "The entries in volumes/ are not those in commits/: remove volumes/.")
    return Check("log", True, f"{len(entries):,} {agree(len(entries), 'entry', 'entries')} without a gap.")


def _states(directory: RunDirectory, files: tuple[CommittedFile, ...]) -> Check:
    """Every listed file is there, is what its name says, and holds the units of its entry."""
    wrong = altered(directory, files)
    if wrong:
        detail = f"{len(wrong)} of {count(len(files), 'state file')} missing or altered: {wrong[0]}."
        return Check("states", False, detail)
    return Check("states", True, f"The content of {count(len(files), 'state file')} is what names and commits say.")


def altered(directory: RunDirectory, files: tuple[CommittedFile, ...]) -> list[str]:
    """The files that are missing, are not what their name says, or hold other units than their commit says."""
    return [file.file for file in files if not _is_whole(directory, file)]


def _is_whole(directory: RunDirectory, file: CommittedFile) -> bool:
    try:
        tally = decode(directory.read_state(file.file))
    except AssayError:
        return False
    return digest(tally) == file.file and tally.receipts == file.receipts


def _units(plan: Plan, committed: Committed) -> Check:
    """Each planned unit once, as far as the run has come."""
    planned = {unit.id for unit in plan.units}
    counts = Counter(receipt.unit for receipt in committed.receipts)
    counts.update(committed.lost)
    twice = [unit for unit, times in counts.items() if times > 1]
    missing, unknown = planned - counts.keys(), counts.keys() - planned
    if not committed.finished and not (twice or unknown):
        return Check("units", True, f"{len(counts):,} of {count(len(planned), 'unit')} committed, each once, so far.")
    if twice or missing or unknown:
        return Check(
            "units",
            False,
            f"{count(len(missing), 'unit')} missing, {len(twice)} counted twice, {len(unknown)} not in the plan.",
        )
    return Check("units", True, f"{count(len(planned), 'unit')}, each committed once ({len(committed.lost)} given up).")


def _rows(plan: Plan, tally: Tally) -> Check:
    """The rows of the receipts are those of the plan, and each task's ledger counts them all."""
    rows = {unit.id: unit.num_rows for unit in plan.units}
    wrong = [one.unit for one in tally.receipts if rows[one.unit] not in (None, one.rows)]
    total = sum(receipt.rows for receipt in tally.receipts)
    counted = [
        sum(int(ledger["rows_read"][0]) for part in _parts(plan) if (ledger := _ledger(tally, task.name, part)))
        for task in plan.tasks
    ]
    passed = not wrong and all(read == total for read in counted)
    return Check(
        "rows",
        passed,
        f"{count(total, 'row')} read by units; the ledgers count {', '.join(f'{one:,}' for one in counted)}.",
    )


def _coverage(plan: Plan, tally: Tally) -> Check:
    """For each task and variant, every usable row is counted once, in every slice."""
    wrong = []
    for task, part in product(plan.tasks, _parts(plan)):
        ledger = _ledger(tally, task.name, part)
        if ledger is None:
            continue
        usable = ledger["bucket_rows"].sum(axis=1)
        for variant in plan.fingerprints:
            counts = tally.states[StateKey(task.name, variant, VariantLedger.identity, "scored", part)]
            if not np.array_equal(counts["null_score"] + counts["failed"] + counts["scored"], usable):
                wrong.append(f"{variant} for {task.name}")
    if wrong:
        return Check("coverage", False, f"Usable rows lost or counted twice: {', '.join(wrong)}.")
    return Check("coverage", True, "For every variant, rows scored, missing and failed add up to the usable rows.")


def _parts(plan: Plan) -> tuple[View, ...]:
    """Each row is in the ledgers of one."""
    return ("",) if plan.confirm_fraction is None else ("", "selection")


def _ledger(tally: Tally, task: str, part: View) -> State | None:
    """None where every unit was given up."""
    return tally.states.get(StateKey(task, "", TaskLedger.identity, "scored", part))


def _results(directory: RunDirectory, plan: Plan, tally: Tally) -> Check:
    """The stored tables are those that the states give."""
    try:
        stored = read(directory)
    except AssayError as error:
        return Check("results", False, str(error))
    spec = expanded_spec(directory)
    again = conclude_run(spec, plan, build.metrics_of(plan.tasks), tally, notes=())
    differing = [name for name in TABLES if not getattr(again, name).equals(getattr(stored, name))]
    if again.outcome != stored.outcome or repr(again.verdicts) != repr(stored.verdicts):
        differing.append("verdicts")
    if differing:
        return Check("results", False, f"Computed again from the states, these differ: {', '.join(differing)}.")
    return Check("results", True, "Computed again from the states, every table and verdict is the same.")
