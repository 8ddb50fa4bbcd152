"""What users call from Python; the command line calls nothing else.

`evaluate` takes data and a few words, `run` a spec, `resume` and `open_run` a run directory. All give an `Evaluation`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal, cast

from assay import build, catalogue
from assay.errors import AssayError, Fault, Interrupted, RunError, SpecError, Unfinished
from assay.evaluation import Evaluation
from assay.pipeline import finish
from assay.pipeline import power as powers
from assay.pipeline import predict as predictions
from assay.pipeline import run as runs
from assay.pipeline.apart import check_apart
from assay.pipeline.dead_letters import first_reasons
from assay.pipeline.manifest import has_manifest, read_manifest, unlisted
from assay.pipeline.prepare import Prepared, prepare
from assay.pipeline.run import How
from assay.pipeline.table import table_spec
from assay.protocols import Direction, is_source
from assay.records import Predictions, Progress, Task
from assay.report.power import Power
from assay.report.runs import RunSummary
from assay.sources.frame import as_table
from assay.spec.checks import check_tree
from assay.spec.load import build_spec, load_spec, with_data, with_predictions
from assay.spec.model import DataSpec, PredictionsSpec, Spec
from assay.spec.names import offer
from assay.store.log import read_committed
from assay.store.place import shown
from assay.store.run import RunDirectory, find_runs

Report = Callable[[Progress], None]
SpecLike = Spec | Mapping[str, Any] | str | Path  # Any: what is in it is what is checked
"""A spec, the tree of one as its file has it, or the path of the file."""
_NO_WORDS = ("settings", "path")


def evaluate(
    data: object,
    *,
    label: str | None = None,
    scores: Sequence[str] = (),
    variants: Sequence[Mapping[str, Any]] = (),  # Any: what is in it is what is checked
    baseline: str | None = None,
    classes: Literal["auto"] | Sequence[Any] | None = None,  # Any: as above
    labels: Literal["auto"] | Sequence[str] | Mapping[str, str] | None = None,
    cluster: str | Sequence[str] | None = None,
    slices: Sequence[Any] = (),  # Any: as above
    metrics: Sequence[Any] = (),  # Any: as above
    gates: Sequence[Mapping[str, Any]] = (),  # Any: as above
    output: str | Mapping[str, Any] | None = None,  # Any: as above
    weight: str | None = None,
    where: str | None = None,
    time: str | None = None,
    tasks: Mapping[str, Any] | None = None,  # Any: as above
    confirm: float | Mapping[str, Any] | None = None,  # Any: as above
    recalibrate: Literal["platt", "isotonic"] | None = None,
    out: str | Path | None = None,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    max_cost: float | None = None,
    deadline: float | None = None,
    report: Report | None = None,
    **settings: Any,  # Any: other top-level keys of a spec
) -> Evaluation:
    """Evaluate variants on a frame or on files.

    data: a frame (pandas, polars, pyarrow, anything with `__arrow_c_stream__`) or a path, folder, glob or list of them;
    a Ray dataset goes to `assay.integrations.ray_data.evaluate`.
    scores: columns that hold a variant's score each, by name or glob; a glob takes columns of numbers that play no
    other part (label, weight, cluster, time, slices, where), and of lists of numbers with classes, labels or intervals;
    a name takes whatever it names. variants: other variants, as in a spec. slices, metrics, gates, tasks, output: as in
    a spec; a plain text as output is its `is`. label, cluster, weight, where: columns or SQL expressions. Without
    `cluster` every row counts as independent; ["user", "day"] is two-way. classes: the label is one of these, or
    "auto"; labels: the label is a list of these, or "auto", or {label: 0/1 column}. confirm: 0.5 chooses the best on
    half of the clusters and judges it on the other. recalibrate: also shows metrics after recalibration. out: the run
    directory (or s3://BUCKET/PATH, gs://, az://), kept and resumable; by default a temporary one that goes with the
    result. max_cost, deadline: where the run is to stop, as for `run`; the first needs `prices`.
    report: called with each `Progress`. settings: other keys of a spec (`seed`, `on_error`, `decide`,
    `budget`, `execution`) or of its `data` (`weight_max`, `slice_cap`, `format`).

    Raises SpecError with all faults at once, DataError for rows that are not as said, ModelError for a variant that
    fails, RunError when `out` holds another run.

    >>> import pyarrow as pa
    >>> table = pa.table({"y": [0, 1, 0, 1] * 50, "old": [0.4, 0.5, 0.6, 0.3] * 50, "new": [0.1, 0.8, 0.3, 0.6] * 50})
    >>> found = evaluate(table, label="y", scores=["old", "new"], baseline="old", metrics=["auc"])
    >>> found.metrics.select(["variant", "slice", "rows", "value"]).to_pylist()
    [{'variant': 'old', 'slice': 'overall', 'rows': 200, 'value': 0.25},
     {'variant': 'new', 'slice': 'overall', 'rows': 200, 'value': 1.0}]
    """
    paths, frame = _paths_or_frame(data)
    words = {"classes": classes, "labels": labels, "confirm": confirm, "recalibrate": recalibrate}
    said = settings | {name: value for name, value in words.items() if value is not None}
    tree = table_spec(
        paths,
        frame=frame,
        label=label,
        scores=scores,
        variants=variants,
        baseline=baseline,
        cluster=cluster,
        slices=slices,
        metrics=metrics,
        gates=gates,
        output=output,
        weight=weight,
        where=where,
        time=time,
        tasks=tasks,
        data={name: value for name, value in said.items() if name in DataSpec.model_fields},
        **{name: value for name, value in said.items() if name not in DataSpec.model_fields},
    )
    try:
        spec = build_spec(tree)
    except SpecError as error:
        raise SpecError([_of_word(fault, settings) for fault in error.faults]) from None
    return run(
        spec,
        frame=frame,
        out=out,
        executor=executor,
        workers=workers,
        address=address,
        max_cost=max_cost,
        deadline=deadline,
        report=report,
    )


def _of_word(fault: Fault, settings: Mapping[str, object]) -> Fault:
    """A word of `evaluate` that is unknown to a spec is offered those that are flat here and nested there, too."""
    word = fault.path
    if word not in settings or word in Spec.model_fields:
        return fault
    known = [*signature(evaluate).parameters, *Spec.model_fields, *DataSpec.model_fields]
    return Fault(word, f"unknown key {word!r}{offer(word, (one for one in known if one not in _NO_WORDS))}")


def run(
    spec: SpecLike,
    *,
    frame: object = None,
    base: str | Path | None = None,
    out: str | Path | None = None,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    max_cost: float | None = None,
    deadline: float | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Carry out a spec, from wherever it stands in `out`.

    spec: the path of its file, a mapping with the keys of such a file, or a Spec. frame: the rows, as for `evaluate`; a
    mapping need say nothing of `data` then. base: where relative paths start; the spec file's folder, or else the
    current one. max_cost: stop when the run has cost so much, over all times that it was gone on with; needs
    `prices.default`. deadline: stop after so many seconds. At either units in flight are finished and committed, and
    Unfinished says what is left. All else, and what is raised, as for `evaluate`.
    """
    how = _how(executor, workers, address, max_cost, deadline)
    return _run(*_loaded(spec, base, frame), frame, out, how, report)


def _run(
    asked: Spec, folder: Path, frame: object, out: str | Path | None, how: How, report: Report | None
) -> Evaluation:
    _check_data(asked, frame)
    if out is not None:
        check_apart(asked, folder, out)  # what is wrong with it is told before all work
    with build.reachable(asked, folder, how.executor, how.workers, how.address):
        prepared = prepare(asked, folder, frame)
        if out is not None:
            return _carried_out(prepared, asked, str(out), how, report)
        return _carried_out_for_now(prepared, asked, how, report)


def _carried_out_for_now(prepared: Prepared, spec: Spec, how: How, report: Report | None) -> Evaluation:
    """In a temporary directory, which goes with the result."""
    place = tempfile.mkdtemp(prefix="assay-")
    try:
        found = _carried_out(prepared, spec, place, how, report)
    except (Interrupted, Unfinished):
        raise  # what is committed is kept, as its message says
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, place, ignore_errors=True)
    return found


def predict(
    spec: SpecLike,
    *,
    frame: object = None,
    base: str | Path | None = None,
    out: str | Path | None = None,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    max_cost: float | None = None,
    deadline: float | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Write what the variants of a spec give, row by row, with the columns of `carry_over`.

    It need name no label and no metrics; where it does, they are measured in the same pass. `predictions` of what is
    returned says where the rows are. Without `out` they go with it, unless `predictions.to` names another place. All
    else, and what is raised, as for `run`.

    >>> import pyarrow as pa
    >>> rows = pa.table({"id": [7, 8], "score": [0.25, 0.5]})
    >>> found = predict({"variants": [{"name": "new", "column": "score"}], "carry_over": "id"}, frame=rows)
    >>> found.predictions.rows, [name for name, _ in found.predictions.columns]
    (2, ['id', 'new'])
    """
    how = _how(executor, workers, address, max_cost, deadline)
    return _run(*_loaded(spec, base, frame, predicting=True), frame, out, how, report)


def plan(spec: SpecLike, *, frame: object = None, base: str | Path | None = None, predicting: bool = False) -> Prepared:
    """What a run would do: checks of spec, data and models, units, slices, states. Nothing is scored.

    predicting: what `predict` would do.
    """
    asked, folder = _loaded(spec, base, frame, predicting=predicting)
    _check_data(asked, frame)
    with build.reachable(asked, folder):
        prepared = prepare(asked, folder, frame)
    if asked.predicts:
        predictions.check(prepared)
    return prepared


def power(
    spec: SpecLike,
    share: float,
    *,
    frame: object = None,
    base: str | Path | None = None,
    workers: int | None = None,
    report: Report | None = None,
) -> Power:
    """What difference to the baseline all data could detect, from scoring a share of them in this process.

    With `data.cluster` whole clusters are taken, which reads all rows and scores few; else units. SpecError without a
    baseline, or for a share that is not in (0, 1].
    """
    asked, folder = _loaded(spec, base, frame)
    _check_data(asked, frame)
    with build.reachable(asked, folder):
        return powers.power(asked, folder, frame, share, workers, report or _silent)


def resume(
    path: str | Path,
    *,
    executor: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    max_cost: float | None = None,
    deadline: float | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Go on with the run in a directory; a finished one gives its answer again.

    executor, address: those that the run had, where none is named. max_cost, deadline: as for `run`. RunError when
    there is no run, another process works on it, or data, models or spec have changed since it began.
    """
    how = _how(executor, workers, address, max_cost, deadline)
    results = runs.resume(str(path), how, report or _silent)
    return Evaluation(results, shown(path), _saved_directions(path), *_written(path))


def open_run(path: str | Path) -> Evaluation:
    """The answer of a finished run. RunError when there is no run, Unfinished when it is not finished."""
    directory = RunDirectory.open(str(path))
    results = finish.read(directory)
    return Evaluation(results, shown(path), _saved_directions(path), *_written(path), unlisted(directory))


def list_runs(folder: str | Path) -> tuple[RunSummary, ...]:
    """The runs that lie in a folder, or the folder itself when it is one; by path. RunError when there is no folder."""
    return tuple(_summary(place) for place in find_runs(str(folder)))


def directions(tasks: Sequence[Task]) -> dict[str, Direction]:
    """Which way each metric of the tasks is better, by name."""
    return {metric.name: metric.direction for several in catalogue.metrics_of(tasks).values() for metric in several}


# ---- steps -----------------------------------------------------------------------------------------------------------


def _how(
    executor: str, workers: int | None, address: str | None, max_cost: float | None, deadline: float | None
) -> How:
    """The time of a deadline begins with the call."""
    return How(executor, workers, address, None if deadline is None else time.monotonic() + deadline, max_cost)


def _carried_out(prepared: Prepared, spec: Spec, place: str, how: How, report: Report | None) -> Evaluation:
    results = runs.run(prepared, spec, place, how, report or _silent)
    return Evaluation(results, shown(place), directions(prepared.plan.tasks), *_written(place))


def _written(path: str | Path) -> tuple[Predictions | None, Mapping[str, Sequence[str]]]:
    """What a run has written of its variants' outputs, None where it was not asked to; and why variants lack some."""
    directory = RunDirectory.open(str(path))
    if not has_manifest(directory):
        return None, {}
    found = read_manifest(directory)
    return found, first_reasons(directory, found)


def _summary(place: str) -> RunSummary:
    try:
        return _read_summary(place)
    except AssayError:
        return RunSummary(place, "unreadable", "", 0, 0, 0, "")


def _read_summary(place: str) -> RunSummary:
    directory = RunDirectory.open(place)
    plan = runs.stored_plan(directory)
    committed = read_committed(directory)
    done = len(committed.receipts) + len(committed.lost)
    finished = finish.has_results(directory)
    return RunSummary(
        path=place,
        state="finished" if finished else "unfinished",
        outcome=finish.read(directory).outcome if finished else "",
        units_done=done,
        num_units=len(plan.units),
        num_variants=len(plan.fingerprints),
        baseline=runs.saved_spec(directory).baseline or "",
    )


def _loaded(spec: object, base: str | Path | None, frame: object, *, predicting: bool = False) -> tuple[Spec, Path]:
    """The spec, and the folder that its paths start from. predicting: it has predictions, whether it says so or not."""
    if isinstance(spec, str | Path):
        return load_spec(spec, predicting=predicting), Path(base or Path(spec).parent).absolute()
    folder = Path(base or ".").absolute()
    if isinstance(spec, Mapping):
        tree = spec if frame is None else with_data(spec)
        return build_spec(cast("Mapping[str, Any]", with_predictions(tree) if predicting else tree)), folder
    if not isinstance(spec, Spec):
        got = f"got a {type(spec).__name__}; expected a spec: its file, a mapping with the keys of such a file"
        raise SpecError([Fault("", f"{got}, or an assay.Spec. Rows in memory are given as frame=...")])
    if predicting and not spec.predicts:
        spec = spec.model_copy(update={"predictions": PredictionsSpec()})
    check_tree(spec)
    return spec, folder


def _check_data(spec: Spec, frame: object) -> None:
    if spec.data.path is None and spec.data.reader is None and frame is None:
        what = "is required: the file, folder or glob of the rows, or frame=... with the rows themselves."
        raise SpecError([Fault("data.path", what)])


def _saved_directions(path: str | Path) -> dict[str, Direction]:
    """None where the run is of metrics that there are not any more: its tables can be read all the same."""
    try:
        return directions(runs.saved_plan(RunDirectory.open(str(path))).tasks)
    except RunError:
        return {}


def _paths_or_frame(data: object) -> tuple[str | tuple[str, ...] | None, object]:
    if isinstance(data, str | Path):
        return str(data), None
    if isinstance(data, list | tuple) and all(isinstance(one, str | Path) for one in data):
        return tuple(map(str, data)), None
    return None, data if is_source(data) else as_table(data)


def _silent(progress: Progress) -> None:
    """No report."""
