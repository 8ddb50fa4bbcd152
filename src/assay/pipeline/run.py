"""A run from its plan to its results: the whole way in one page.

Lives here: starting, going on, and ending a run. Not here: what is decided before (`prepare.py`), what is computed
after (`finish.py`), and how workers are had (the executors).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, cast

import pyarrow as pa

from assay import build, catalogue
from assay.errors import ModelError, RunError
from assay.failings import Failings, with_way_out
from assay.merge import listed, reduced_here
from assay.pipeline import predict
from assay.pipeline.asked import canonical_gates
from assay.pipeline.cost import check_limits, cost_table, limits, spent
from assay.pipeline.early import EarlyJoins, may_be_early
from assay.pipeline.finish import conclude_run, deviation_notes, failure_notes, has_results, read, save, save_cost
from assay.pipeline.head import FRAME, environment, execution, notes_of_versions, rows_words, variants
from assay.pipeline.joining import JoinBook
from assay.pipeline.manifest import has_manifest
from assay.pipeline.prepare import Prepared, prepare
from assay.pipeline.shards import MOST_LEAVES, ShardFindings, reduction_of, trees
from assay.pipeline.so_far import finished_before, going_on, so_far
from assay.plan import decode_plan, encode_plan
from assay.protocols import Executor, PlacedSource
from assay.records import CommittedFile, Job, Plan, Progress, Results
from assay.spec.document import parse
from assay.spec.load import build_spec, spec_to_yaml
from assay.spec.model import Spec, VariantSpec, WorkersSpec
from assay.spec.words import agree, count, listing
from assay.store.log import CommitLog, Committed, read_committed
from assay.store.run import RunDirectory, as_json

LOCAL_WORK = 100_000_000
"""Scores (rows times variants) up to which `auto` takes this process: starting Ray takes seconds."""
LARGE_MERGE_BYTES = 8 << 30
"""Declared bytes of all state files up to which this process merges them itself: tasks on Ray take seconds to begin."""
Report = Callable[[Progress], None]


class How(NamedTuple):
    """How a run is carried out: no part of what it is."""

    executor: str = "auto"  # local, ray or auto
    workers: int | None = None
    address: str | None = None
    until: float | None = None  # of time.monotonic(): stop then, with what is committed
    max_cost: float | None = None  # of the whole run: stop when it has cost so much
    as_before: bool = False  # executor and address are those that the run had


def run(prepared: Prepared, spec: Spec, out: str, how: How, report: Report) -> Results:
    """Carry a prepared run to its end in the directory `out`, from wherever it stands there.

    spec: as the user gave it. A finished run gives the same answer again. One without a committed unit begins anew, so
    that a corrected spec or model may follow a mistake. RunError when another run lies in `out`, or `how` names no
    executor.
    """
    build.check_executor(how.executor, how.address)
    check_limits(spec.prices, how.max_cost)
    if spec.predicts:
        predict.check(prepared)
    directory = RunDirectory.create(out)
    committed = _read_log(directory)
    if committed.finished:
        _check_same(directory, prepared, spec)
        _refuse_beyond(prepared, committed.files, committed.lost)
        with _ChosenExecutor(prepared, directory, how) as chosen:
            if spec.predicts and not has_manifest(directory):
                book = JoinBook(directory, uuid.uuid4().hex[:12])
                _predict(prepared, directory, committed, chosen, book, report)
            elif has_results(directory):
                report(finished_before(directory, committed))
            return _priced(_answer(prepared, directory, committed, chosen), directory, spec)
    with CommitLog(directory, known=committed) as log, _ChosenExecutor(prepared, directory, how) as chosen:
        begin(directory, prepared, spec, log)
        if spec.predicts:
            predict.claim(prepared, directory)
        book = JoinBook(directory, log.driver)
        before = going_on(prepared, log)
        if before.units_done:
            report(before)
        if before.units_done < before.num_units:
            prepared = replace(prepared, notes=(*prepared.notes, *notes_of_versions(directory)))
            try:
                _score(prepared, directory, log, chosen, book, report)
            except ModelError as error:
                told = with_way_out(error, predicts=spec.predicts)
                if told is error:
                    raise
                raise told from error
        _refuse_beyond(prepared, log.files, log.lost)
        if spec.predicts:
            _predict(prepared, directory, log, chosen, book, report)
        results = _concluded(prepared, directory, log.files, log.lost, chosen)
        log.finish()
    return results


def resume(out: str, how: How, report: Report) -> Results:
    """Go on with the run in a directory, or read what it came to.

    RunError when there is none, or its data, models or spec have changed.
    """
    directory = RunDirectory.open(out)
    committed = _read_log(directory)
    if has_results(directory) and not _lacks_predictions(directory):
        report(finished_before(directory, committed))
        return read(directory)
    environment = directory.read_json("environment.json")
    if not environment["resumable"]:
        rows = environment.get("rows", FRAME)
        again = "with the frame" if rows == FRAME else "in another directory"
        raise RunError(f"The run at {out} was over {rows}, which is gone. Start it again {again}.")
    spec = saved_spec(directory)
    return run(prepare(spec, Path(environment["base"])), spec, out, _as_before(how, directory), report)


def _as_before(how: How, directory: RunDirectory) -> How:
    """With the executor that the run had, where none is named."""
    before = directory.executor()
    if before is None or how.executor != "auto" or how.address is not None:
        return how
    return how._replace(executor=before["executor"], address=before["address"], as_before=True)


def saved_spec(directory: RunDirectory) -> Spec:
    """The spec as the user gave it."""
    return build_spec(cast("dict[str, object]", parse(directory.read("spec.yaml").decode(), {}).tree))


def expanded_spec(directory: RunDirectory) -> Spec:
    """The spec as it was carried out: with the variants that its templates stood for when the run began."""
    recorded = directory.read_json("variants.json")
    plain = [{key: value for key, value in one.items() if key not in ("baseline", "fingerprint")} for one in recorded]
    variants = tuple(VariantSpec.model_validate(one) for one in plain)
    spec = saved_spec(directory)
    return spec.model_copy(update={"variants": variants, "gates": canonical_gates(spec.gates, build.families(spec))})


def stored_plan(directory: RunDirectory) -> Plan:
    """As it was written, whether or not there still are its metrics. RunError when it is of another version."""
    return decode_plan(directory.read("plan.parquet"))


def saved_plan(directory: RunDirectory) -> Plan:
    """RunError when it is of another version, or has metrics that there are not."""
    plan = stored_plan(directory)
    try:
        catalogue.metrics_of(plan.tasks)
    except ValueError as error:
        raise RunError(
            f"The run at {directory.place} was begun by another version of assay, or with a package of metrics that is "
            f"not installed here. {error}"
        ) from error
    return plan


def begin(directory: RunDirectory, prepared: Prepared, spec: Spec, log: CommitLog) -> None:
    """Write what a run is. Once a unit is committed it can only be the same: RunError says what differs."""
    if log.files or log.lost:
        _check_same(directory, prepared, spec)
        return
    plan = prepared.plan
    directory.write_head("environment.json", as_json(environment(prepared, directory)))
    directory.write_head("variants.json", as_json(variants(prepared)))
    directory.write_head("execution.json", as_json(execution(plan)))
    directory.write_head("plan.parquet", encode_plan(plan))
    directory.write_head("spec.yaml", spec_to_yaml(spec).encode())


def choose_executor(prepared: Prepared, how: How) -> tuple[str, str]:
    """The executor's name, and a sentence on why where it was not asked for."""
    source = prepared.source
    if isinstance(source, PlacedSource):
        if how.executor not in ("auto", source.executor):
            raise RunError(
                f"The rows are those of {source.whence}, which the executor {how.executor!r} cannot have. Drop the "
                f"executor, or name {source.executor}."
            )
        return source.executor, f"Executor: {source.executor}, for {source.whence}. The run cannot be resumed."
    if how.executor != "auto":
        at = "" if how.address is None else f" at {how.address}"
        return how.executor, f"Executor: {how.executor}{at}, as the run had." if how.as_before else ""
    if how.address is not None:
        return "ray", f"Executor: ray, at {how.address}."
    rows, variants = prepared.num_rows, len(prepared.plan.fingerprints)
    work = f"{count(rows or 0, 'row')} and {count(variants, 'variant')}"
    if rows is not None and rows * variants <= LOCAL_WORK:
        return "local", f"Executor: local, since {work} are few enough for this process."
    if not prepared.source.resumable:
        return "local", "Executor: local, since the data are in this process's memory."
    if find_spec("ray") is None:
        return "local", "Executor: local, since Ray is not installed; pip install 'assay[ray]' brings it."
    if rows is None:
        return "local", "Executor: local, since the number of rows is not known; --executor ray takes a cluster."
    return "ray", f"Executor: ray, since {work} are much work; --executor local avoids it."


def without_effect(spec: Spec) -> list[str]:
    """Sentences on what the spec asks of a Ray cluster, for a run that has none."""
    apart = [name for name, one in spec.prepare.items() if one.tasks]
    said = []
    if spec.workers != WorkersSpec():
        said.append("The spec's `workers` has no effect here: it is for Ray, and these workers are threads.")
    if apart:
        said.append(
            f"The `tasks` of {listing(apart)} have no effect here: they are Ray's, and workers do it themselves."
        )
    return said


class _ChosenExecutor:
    """The executor of a run: had when it is first needed, and closed with what it has started at the end."""

    def __init__(self, prepared: Prepared, directory: RunDirectory, how: How) -> None:
        self._prepared = prepared
        self._directory = directory
        self.how = how
        self._opened = ExitStack()

    @cached_property
    def name_and_why(self) -> tuple[str, str]:
        """See `choose_executor`."""
        return choose_executor(self._prepared, self.how)

    @cached_property
    def executor(self) -> Executor:
        how = self.how
        limited = limits(self._directory, self._prepared.spec.prices, how.until, how.max_cost)
        return self._opened.enter_context(build.executor(self.name_and_why[0], how.workers, how.address, limited))

    def __enter__(self) -> _ChosenExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)


def _score(
    prepared: Prepared, directory: RunDirectory, log: CommitLog, chosen: _ChosenExecutor, book: JoinBook, report: Report
) -> None:
    name, why = chosen.name_and_why
    if name == "local":
        build.check_here(prepared.spec)
    plan = prepared.plan

    def counted(progress: Progress) -> None:
        """With the number of rows, which the plan does not know of files that had to be counted."""
        report(replace(progress, num_rows=prepared.num_rows))

    if name == "ray" and chosen.how.address is None and not why:
        why = "Executor: ray. Where no cluster is named, one is started on this machine, which takes some seconds."
    for message in filter(None, [why, *(without_effect(prepared.spec) if name == "local" else ())]):
        report(so_far(prepared, log, message))
    directory.save_executor({"executor": name, "address": chosen.how.address})
    job = Job(prepared.spec, plan, str(prepared.base), prepared.source, directory.store.url)
    aside = None
    if may_be_early(prepared, directory):
        aside = chosen.executor.aside(prepared.spec.workers)
    if aside is None:
        chosen.executor.run(job, log, counted)
        return
    with book.kept(), EarlyJoins(log, prepared, directory, book, aside, counted) as early:
        chosen.executor.run(job, early, early.progress)
        early.end()


def _read_log(directory: RunDirectory) -> Committed:
    """What the log says; ended, where a driver died after it wrote the results, which need every unit, and before it
    could say so. RunError where it cannot be read; of a run of another version the plan says so better."""
    try:
        committed = read_committed(directory)
    except RunError:
        if directory.store.exists("plan.parquet"):
            saved_plan(directory)
        raise
    altered = directory.altered_head(committed.head)
    if altered:
        raise RunError(
            f"{' and '.join(altered)} of the run at {directory.place} {agree(len(altered), 'is', 'are')} not what "
            f"{agree(len(altered), 'it was', 'they were')} when its first unit was committed: what it would come to "
            "could not be trusted. Put back what was there, or start a new run in another directory."
        )
    if committed.finished or not has_results(directory):
        return committed
    with CommitLog(directory, known=committed) as log:
        log.finish()
    return read_committed(directory)


def _answer(prepared: Prepared, directory: RunDirectory, committed: Committed, chosen: _ChosenExecutor) -> Results:
    """Of a finished run: read, or computed from its states where the results are gone."""
    if has_results(directory):
        return read(directory)
    return _concluded(prepared, directory, committed.files, committed.lost, chosen)


def _concluded(
    prepared: Prepared,
    directory: RunDirectory,
    files: Sequence[CommittedFile],
    lost: Sequence[str],
    chosen: _ChosenExecutor,
) -> Results:
    """Merge, estimate, judge, and write the results."""
    spec, plan = prepared.spec, prepared.plan
    findings = _reduced(prepared, directory, files, chosen)
    failures = directory.failures((receipt for file in files for receipt in file.receipts), lost)
    cost, untold = _cost(directory, spec)
    deviations = deviation_notes((receipt for file in files for receipt in file.receipts), plan)
    notes = [*prepared.notes, *failure_notes(failures, plan), *deviations, *untold]
    results = replace(conclude_run(spec, plan, findings, notes), cost=cost)
    save(directory, results)
    return results


def _reduced(
    prepared: Prepared, directory: RunDirectory, files: Sequence[CommittedFile], chosen: _ChosenExecutor
) -> Iterator[ShardFindings]:
    """What the shards of all variants found: as tasks of the executor where there is much to merge, else here."""
    spec, plan = prepared.spec, prepared.plan
    reduction = reduction_of(directory, spec, plan, str(prepared.base))
    if len(files) * plan.state_bytes < LARGE_MERGE_BYTES:
        return reduced_here(reduction, trees(spec, plan, listed(files)))
    num_leaves = 1 if chosen.name_and_why[0] == "local" else MOST_LEAVES
    return chosen.executor.reduce(reduction, trees(spec, plan, listed(files), num_leaves))


def _predict(
    prepared: Prepared,
    directory: RunDirectory,
    committed: Committed | CommitLog,
    chosen: _ChosenExecutor,
    book: JoinBook,
    report: Report,
) -> None:
    """Write the predictions of a run whose units are all committed: before its results, which tell of the end."""

    def say(message: str) -> None:
        report(so_far(prepared, committed, message))

    predict.write(prepared, directory, committed, chosen.executor, book, say)


def _lacks_predictions(directory: RunDirectory) -> bool:
    return saved_spec(directory).predicts and not has_manifest(directory)


def _cost(directory: RunDirectory, spec: Spec) -> tuple[pa.Table | None, tuple[str, ...]]:
    """The table, and a sentence where it cannot be had: no result depends on it."""
    try:
        return cost_table(spent(directory), spec.prices), ()
    except RunError as error:
        return None, (str(error),)


def _priced(results: Results, directory: RunDirectory, spec: Spec) -> Results:
    """With the cost at the prices of this spec, which may be others than when it was written."""
    table, _ = _cost(directory, spec)
    if table is None or (results.cost is not None and table.equals(results.cost)):
        return results
    save_cost(directory, table)
    return replace(results, cost=table)


def _refuse_beyond(prepared: Prepared, files: Sequence[CommittedFile], lost: Sequence[str]) -> None:
    """RunError where more has failed than the spec tolerates: the last driver may have stopped for it with all units
    committed, or have tolerated more."""
    plan, share = prepared.plan, prepared.spec.most_failed
    for bundle in range(max(1, len(plan.bundles))) if share is not None else ():
        units = {unit.id for unit in plan.units if unit.bundle == bundle}
        if beyond := Failings(units, files, lost, share).beyond:
            raise beyond


def _check_same(directory: RunDirectory, prepared: Prepared, spec: Spec) -> None:
    if not prepared.source.resumable:
        raise RunError(
            f"There is a run at {directory.place} already, and one over {rows_words(prepared.source)} cannot go on or "
            "be compared with it. Choose another directory."
        )
    stored, plan = saved_plan(directory), prepared.plan
    if stored.identity != plan.identity:
        names = sorted(stored.identity_parts.keys() | plan.identity_parts.keys())
        changed = [one for one in names if stored.identity_parts.get(one) != plan.identity_parts.get(one)]
        raise RunError(
            f"The run at {directory.place} is of something else: {', '.join(changed)} changed since it began. Choose "
            "another directory for a new run, or undo the change to go on with this one."
        )
    before, now = saved_spec(directory).lasting, spec.lasting
    if before != now:
        keys = [name for name in Spec.model_fields if getattr(before, name) != getattr(now, name)]
        raise RunError(
            f"The run at {directory.place} began with another spec: {', '.join(keys)} changed. Choose another "
            "directory for a new run, or undo the change to go on with this one."
        )
