"""From committed states to results: merge, audit, estimate, judge, and the files that hold the answer.

Lives here: what a finished run is made of, and reading it back. Not here: scoring (`run.py`), formulas.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from assay import build
from assay.build import Metrics
from assay.errors import DataError, RunError, Unfinished
from assay.gates.judge import run_outcome
from assay.ledgers import TaskLedger, VariantLedger
from assay.merge import merge_files
from assay.pipeline.judging import Judging, chosen
from assay.pipeline.notes import notes_on_own, notes_on_resolution
from assay.plan import decode_plan, read_parquet
from assay.protocols import Accumulator
from assay.records import CommittedFile, Failure, Outcome, Plan, Results, StateKey, Tally
from assay.report.jsonable import read_verdicts, verdicts_json
from assay.spec.model import Spec
from assay.spec.words import count
from assay.stats.estimate import gather
from assay.stats.families import Families
from assay.stats.max_t import SimultaneousIntervals
from assay.stats.tables import concatenate, tabulate, with_simultaneous
from assay.store.log import read_committed
from assay.store.run import RunDirectory

TABLES = ("metrics", "comparisons", "curves", "coverage", "families")
COST = "cost.parquet"
"""Not among them: two runs of one spec have the same tables, and not the same cost."""
FILES = (*(f"{name}.parquet" for name in TABLES), "verdicts.json")
LEDGERS = {TaskLedger.identity, VariantLedger.identity}

Made = TypeVar("Made")


def merged(directory: RunDirectory, files: Sequence[CommittedFile], plan: Plan) -> Tally:
    """The tally of all committed files. RunError when a file is missing, or is not what its commit says, or when its
    states are of another version's metrics or ledgers."""
    states = directory.read_states([file.file for file in files])  # in the order in which they are merged
    accumulators = run_accumulators(plan)
    tally = merge_files(lambda digest: next(states), files, accumulators)
    foreign = sorted({key.accumulator for key in tally.states} - accumulators.keys() - LEDGERS)
    if foreign:
        raise RunError(
            f"The run at {directory.place} holds states of {foreign[0]!r}, which this assay does not read: it was "
            "written by another version. Go on with the assay that wrote it, or start a new run."
        )
    return tally


def run_accumulators(plan: Plan) -> dict[str, Accumulator]:
    """All accumulators of a run, by identity."""
    metrics = build.metrics_of(plan.tasks)
    every = (build.accumulators(metrics[task.name], plan.choice.of(task)) for task in plan.tasks)
    return {one.identity: one for several in every for one in several}


def conclude_run(spec: Spec, plan: Plan, metrics: Metrics, tally: Tally, notes: Sequence[str]) -> Results:
    """Everything that a reader sees, from the merged states. DataError when a task has no usable row."""
    _check_usable(plan, tally)
    selection = chosen(spec, plan, metrics, tally)
    simultaneous, families = SimultaneousIntervals(), Families(_families(spec))
    tables, judging = [], Judging(spec, plan, selection)
    for evidence in gather(tally, plan, metrics, [variant.name for variant in spec.variants], spec.baseline):
        tables.append(tabulate(evidence, plan.slices.names))
        families.add(evidence)
        if judging.add(evidence):
            simultaneous.add(evidence)
    whole = concatenate(tables)
    verdicts = judging.verdicts()
    return Results(
        metrics=whole.metrics,
        comparisons=with_simultaneous(whole.comparisons, simultaneous.limits()),
        curves=whole.curves,
        coverage=whole.coverage,
        families=families.table(),
        verdicts=verdicts,
        outcome=run_outcome(verdicts, spec.decide),
        notes=(
            *judging.notes(),
            *_notes_on_families(spec),
            *notes,
            *notes_on_own(plan, tally),
            *notes_on_resolution(plan, metrics, whole),
        ),
    )


def _families(spec: Spec) -> dict[str, str]:
    return {variant.name: variant.family for variant in spec.variants if variant.family is not None}


def _notes_on_families(spec: Spec) -> list[str]:
    """Of families that have no spread to show."""
    sizes = Counter(_families(spec).values())
    alone = [family for family, size in sizes.items() if size == 1]
    return [f"The family {family!r} has one variant: there is no spread between seeds to show." for family in alone]


def failure_notes(failures: Iterable[Failure], num_units: int) -> list[str]:
    """A sentence for each variant that failed somewhere, with its first error."""
    by_variant: dict[str, list[Failure]] = {}
    for failure in failures:
        by_variant.setdefault(failure.variant, []).append(failure)
    return [
        (f"Variant {variant!r}" if variant else "No worker survived it: a unit")
        + f" failed on {len(several)} of {count(num_units, 'unit')}: {several[0].error}"
        for variant, several in by_variant.items()
    ]


def _check_usable(plan: Plan, tally: Tally) -> None:
    for task in plan.tasks:
        ledger = tally.states.get(StateKey(task.name, "", TaskLedger.identity, "scored"))
        if ledger is None:
            continue
        read, filtered = int(ledger["rows_read"][0]), int(ledger["rows_filtered"][0])
        labels, weights = int(ledger["null_label"][0]), int(ledger["null_weight"][0])
        if not ledger["bucket_rows"][0].any():
            weightless = read - filtered - labels - weights
            label = f"the label {task.label!r}" if task.targets is None else f"the labels of task {task.name!r}"
            raise DataError(
                f"0 of {read} rows usable for {label}: {filtered} dropped by a filter, {labels} with "
                f"a null label, {weights} with a null weight, {weightless} with weight 0. Nothing can be said of any "
                "variant; check the label, the weight and `where`."
            )


# ---- files -----------------------------------------------------------------------------------------------------------


def save(directory: RunDirectory, results: Results) -> None:
    """Write results/. verdicts.json comes last: where it is, all is."""
    for name in TABLES:
        sink = pa.BufferOutputStream()
        pq.write_table(getattr(results, name), sink)
        directory.write_result(f"{name}.parquet", sink.getvalue().to_pybytes())
    if results.cost is not None:
        save_cost(directory, results.cost)
    content = json.dumps(verdicts_json(results), indent=1, ensure_ascii=False)
    directory.write_result("verdicts.json", content.encode() + b"\n")


def save_cost(directory: RunDirectory, table: pa.Table) -> None:
    """results/cost.parquet: beside the answer, which does not depend on it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    directory.write_result(COST, sink.getvalue().to_pybytes())


def has_results(directory: RunDirectory) -> bool:
    """Whether all files are there."""
    return all(directory.has_result(name) for name in FILES)


def read(directory: RunDirectory) -> Results:
    """The results of a finished run. Unfinished when it has none; RunError when they cannot be read."""
    if not has_results(directory):
        raise Unfinished(unfinished(directory))
    content = _read("verdicts.json", directory, json.loads)
    tables = {name: _read(f"{name}.parquet", directory, read_parquet) for name in TABLES}
    return Results(
        **tables,
        verdicts=read_verdicts(content),
        outcome=cast(Outcome, content["outcome"]),
        notes=tuple(content["notes"]),
        cost=_read(COST, directory, read_parquet) if directory.has_result(COST) else None,
    )


def unfinished(directory: RunDirectory) -> str:
    """How far a run without results has come, and how to go on."""
    units = len(decode_plan(directory.read("plan.parquet")).units)  # first: the log of another version may look torn
    committed = read_committed(directory)
    done = len(committed.receipts) + len(committed.lost)
    what = "the results are missing" if done == units else f"{done} of {count(units, 'unit')} committed"
    return f"The run at {directory.place} is not finished: {what}. Go on with: assay resume {directory.place}"


def _read(name: str, directory: RunDirectory, read_from: Callable[[bytes], Made]) -> Made:
    try:
        return read_from(directory.read_result(name))
    except (ValueError, pa.ArrowException) as error:
        raise RunError(
            f"results/{name} of the run at {directory.place} cannot be read: {str(error).splitlines()[0].rstrip('.')}. "
            f"Remove it, and have it computed again with: assay resume {directory.place}"
        ) from error
