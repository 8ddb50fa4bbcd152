"""The audit of a run: do the log, the states, the ledger and the results say the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import AssayError, RunError
from assay.merge import at_once, listed, open_file, reduced_here
from assay.pipeline.audit_predictions import Check, predictions_checks
from assay.pipeline.finish import TABLES, conclude_run, read
from assay.pipeline.run import expanded_spec, saved_plan
from assay.pipeline.shards import ShardFindings, TaskCounts, in_order, reduction_of, trees
from assay.records import CommittedFile, Plan
from assay.spec.model import Spec
from assay.spec.words import agree, count
from assay.store.entries import Entry, read_entries
from assay.store.log import Committed, read_committed
from assay.store.run import RunDirectory

FILES_AT_ONCE = 4
"""State files that are checked at the same time, each part by part."""


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
    try:
        entries, committed = read_entries(directory, volumes=False), read_committed(directory)
    except RunError as error:
        saved_plan(directory)  # says it better where the run is of another version
        return Audit((Check("log", False, str(error)),))
    log, head = _log(entries, committed), _head(directory, committed)
    if not head.passed:
        return Audit((log, head), committed.finished)
    plan, files = saved_plan(directory), committed.files
    checks = [
        log,
        head,
        _states(directory, files),
        _units(plan, committed),
        _failures(directory, plan, committed),
    ]
    if all(check.passed for check in checks):
        spec = expanded_spec(directory)
        found = tuple(reduced_here(reduction_of(directory, spec, plan), trees(spec, plan, listed(files))))
        checks += [_rows(plan, committed, found[0].tasks), _coverage(spec, found)]
        checks += [_results(directory, spec, plan, found)] if committed.finished else []
        checks += predictions_checks(directory, spec, plan, committed)
    return Audit(tuple(checks), committed.finished)


def _log(entries: tuple[Entry, ...], committed: Committed) -> Check:
    """entries: each read for itself; committed: what readers of volumes see."""
    if entries != committed.entries:
        return Check("log", False, "The entries in volumes/ are not those in commits/: remove volumes/.")
    return Check("log", True, f"{len(entries):,} {agree(len(entries), 'entry', 'entries')} without a gap.")


def _head(directory: RunDirectory, committed: Committed) -> Check:
    """The files that say what the run is are those that the first commit found."""
    altered = directory.altered_head(committed.head)
    if altered:
        return Check("head", False, f"Missing or altered since the first commit: {', '.join(altered)}.")
    if not committed.head:
        return Check(
            "head", True, "No commit says what spec and plan were: there is none, or an older version made it."
        )
    return Check("head", True, f"{', '.join(committed.head)} are what the first commit says.")


def _states(directory: RunDirectory, files: tuple[CommittedFile, ...]) -> Check:
    """Every listed file is there, is what its name says, and holds the units of its entry."""
    wrong = altered(directory, files)
    if wrong:
        detail = f"{len(wrong)} of {count(len(files), 'state file')} missing or altered: {wrong[0]}."
        return Check("states", False, detail)
    return Check("states", True, f"The content of {count(len(files), 'state file')} is what names and commits say.")


def altered(directory: RunDirectory, files: tuple[CommittedFile, ...]) -> list[str]:
    """The files that are missing, are not what their name says, or hold other units than their commit says."""
    whole = at_once(lambda file: _is_whole(directory, file), files, FILES_AT_ONCE)
    return [file.file for file, is_whole in zip(files, whole, strict=True) if not is_whole]


def _is_whole(directory: RunDirectory, file: CommittedFile) -> bool:
    try:
        open_file(directory.open_state, *listed([file])).check()
    except AssayError:
        return False
    return True


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


def _failures(directory: RunDirectory, plan: Plan, committed: Committed) -> Check:
    """For each variant the planned units are those that it scored, those on which it failed, and those that were given
    up; each failure is explained, and nothing else is."""
    later = {unit.id for unit in plan.units if unit.bundle > 0}
    failed = Counter(
        (receipt.unit, variant)
        for receipt in committed.receipts
        for variant in receipt.failed
        if receipt.unit not in later or variant not in plan.bundles[0]  # the baseline: the first bundle says so
    )
    failed.update((unit, "") for unit in committed.lost)
    unknown = {variant for _, variant in failed} - {"", *plan.fingerprints}
    try:
        explained = Counter((one.unit, one.variant) for one in directory.failures(committed.receipts, committed.lost))
    except RunError as error:
        return Check("failures", False, str(error))
    if unknown or explained != failed:
        wrong = sorted({*(failed - explained), *(explained - failed)})
        which = [f"{variant or 'all variants'} on unit {unit}" for unit, variant in wrong]
        return Check(
            "failures", False, f"Not explained, or not in the log: {'; '.join([*sorted(unknown), *which][:5])}."
        )
    variants, lost = {variant for _, variant in failed} - {""}, len(committed.lost)
    return Check(
        "failures",
        True,
        f"For each variant, planned units are scored, failed or given up: {count(len(failed) - lost, 'failure')} of "
        f"{count(len(variants), 'variant')}, {count(lost, 'unit')} given up, each explained.",
    )


def _rows(plan: Plan, committed: Committed, counts: Sequence[TaskCounts]) -> Check:
    """The rows of the receipts are those of the plan, and each task's ledger counts them all."""
    units = {unit.id: unit for unit in plan.units}
    wrong = [one.unit for one in committed.receipts if units[one.unit].num_rows not in (None, one.rows)]
    # Each bundle of variants reads all rows; the first one counts them.
    total = sum(receipt.rows for receipt in committed.receipts if units[receipt.unit].bundle == 0)
    by_task = {one.task: one.rows_read for one in counts}
    counted = [by_task.get(task.name, 0) for task in plan.tasks]
    passed = not wrong and all(read == total for read in counted)
    return Check(
        "rows",
        passed,
        f"{count(total, 'row')} read by units; the ledgers count {', '.join(f'{one:,}' for one in counted)}.",
    )


def _coverage(spec: Spec, found: Sequence[ShardFindings]) -> Check:
    """For each task and variant, every usable row is counted once, in every slice."""
    wrong = [f"{one.variant} for {task}" for one in in_order(spec, found) for task in one.miscounted]
    if wrong:
        return Check("coverage", False, f"Usable rows lost or counted twice: {', '.join(wrong)}.")
    return Check("coverage", True, "For every variant, rows scored, missing and failed add up to the usable rows.")


def _results(directory: RunDirectory, spec: Spec, plan: Plan, found: Sequence[ShardFindings]) -> Check:
    """The stored tables are those that the states give."""
    try:
        stored = read(directory)
    except AssayError as error:
        return Check("results", False, str(error))
    again = conclude_run(spec, plan, found, notes=())
    differing = [name for name in TABLES if not getattr(again, name).equals(getattr(stored, name))]
    if again.outcome != stored.outcome or repr(again.verdicts) != repr(stored.verdicts):
        differing.append("verdicts")
    if differing:
        return Check("results", False, f"Computed again from the states, these differ: {', '.join(differing)}.")
    return Check("results", True, "Computed again from the states, every table and verdict is the same.")
