"""From committed states to results: merge, audit, estimate, judge, and the files that hold the answer.

Lives here: what a finished run is made of, and reading it back. Not here: scoring (`run.py`), formulas.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from assay import catalogue
from assay.errors import DataError, RunError, Unfinished
from assay.gates.judge import run_outcome
from assay.merge import merge_files
from assay.pipeline.judging import Judging, chosen
from assay.pipeline.notes import notes_on_own, notes_on_resolution
from assay.pipeline.shards import ShardFindings, TaskCounts, check_known, in_order, run_accumulators
from assay.plan import decode_plan, read_parquet
from assay.records import CommittedFile, Failure, Outcome, Plan, Receipt, Results, Tally
from assay.report.jsonable import read_verdicts, verdicts_json
from assay.scoring import HALVED
from assay.spec.model import Spec
from assay.spec.words import agree, count
from assay.stats.families import Families
from assay.stats.max_t import SimultaneousIntervals
from assay.stats.tables import concatenate, with_simultaneous
from assay.store.log import read_committed
from assay.store.run import RunDirectory

TABLES = ("metrics", "comparisons", "curves", "coverage", "families")
COST = "cost.parquet"
"""Not among them: two runs of one spec have the same tables, and not the same cost."""
FILES = (*(f"{name}.parquet" for name in TABLES), "verdicts.json")

Made = TypeVar("Made")


def merged(directory: RunDirectory, files: Sequence[CommittedFile], plan: Plan) -> Tally:
    """The whole tally of all committed files: where its states are few. RunError as in `merge_files`, and when states
    are of another version's metrics or ledgers."""
    accumulators = run_accumulators(plan)
    tally = merge_files(directory.open_state, files, accumulators)
    check_known(tally, accumulators, directory.place)
    return tally


def conclude_run(spec: Spec, plan: Plan, findings: Iterable[ShardFindings], notes: Sequence[str]) -> Results:
    """Everything that a reader sees, from what the shards of all variants found. DataError when a task has no usable
    row."""
    metrics = catalogue.metrics_of(plan.tasks)
    ordered = in_order(spec, _usable(plan, findings))
    selection = chosen(spec, metrics, {one.variant: one.selection_value for one in ordered})
    simultaneous, families, family_of = SimultaneousIntervals(), Families(_families(spec)), _families(spec)
    judging = Judging(spec, selection)
    for one in ordered:
        if one.variant in family_of:
            families.add(one.variant, one.seeds)
        if judging.add(one.variant, one.cases, one.judged_value):
            simultaneous.add(one.members)
    whole = concatenate(one.tables for one in ordered)
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
            *notes_on_own(plan, {one.variant: one.left_out for one in ordered}),
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


def deviation_notes(receipts: Iterable[Receipt], plan: Plan) -> list[str]:
    """Where variants were called with fewer rows than is planned: memory was short, or rows that raised were found."""
    num_bundles = max(1, len(plan.bundles))  # the baseline, in each of them, counts once
    pieces = {unit: place // num_bundles for place, unit in enumerate(_ids(plan))}
    found = {(one, pieces[receipt.unit]) for receipt in receipts for one in receipt.deviations}
    units = Counter(deviation for deviation, _ in found)
    of_all = count(len(pieces) // num_bundles, "unit")
    return [
        f"On {units[one]} of {of_all}, {one}. Last digits there may differ from those of a run without such rows."
        if one.endswith(HALVED)
        else f"Memory was short on {units[one]} of {of_all}: {one}. Last digits there may differ from those of a run "
        "with more memory."
        for one in sorted(units)
    ]


def failure_notes(failures: Iterable[Failure], plan: Plan) -> list[str]:
    """A sentence for each variant that failed somewhere, with its first error in the order of the plan."""
    units, variants = ({one: place for place, one in enumerate(of)} for of in (_ids(plan), ["", *plan.fingerprints]))
    num_units = len(units) // max(1, len(plan.bundles))  # of a variant; a unit of several bundles is never given up
    by_variant: dict[str, list[Failure]] = {}
    for failure in sorted(failures, key=lambda one: (variants[one.variant], units[one.unit])):
        by_variant.setdefault(failure.variant, []).append(failure)
    notes = []
    for variant, several in by_variant.items():
        of_all = f"{len(several)} of {count(num_units, 'unit')}"
        given_up = f"{of_all} {agree(len(several), 'was', 'were')} given up"
        notes.append(f"{f'Variant {variant!r} failed on {of_all}' if variant else given_up}: {several[0].error}")
    return notes


def _ids(plan: Plan) -> list[str]:
    return [unit.id for unit in plan.units]


def _usable(plan: Plan, findings: Iterable[ShardFindings]) -> Iterator[ShardFindings]:
    """The same, unless a task has no usable row."""
    for shard in findings:
        _check_usable(plan, shard.tasks)
        yield shard


def _check_usable(plan: Plan, counts: Iterable[TaskCounts]) -> None:
    tasks = {task.name: task for task in plan.tasks}
    for one in counts:
        task = tasks[one.task]
        if not one.any_usable and tasks[one.task].has_label:
            weightless = one.rows_judged - one.rows_filtered - one.null_label - one.null_weight
            label = f"the label {task.label!r}" if task.targets is None else f"the labels of task {task.name!r}"
            raise DataError(
                f"0 of {one.rows_judged:,} rows usable for {label}: {one.rows_filtered:,} dropped by a filter, "
                f"{one.null_label:,} with a null label, {one.null_weight:,} with a null weight, {weightless:,} with "
                "weight 0. Nothing can be said of any variant; check the label, the weight and `where`."
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
