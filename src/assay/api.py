"""What users call from Python; the command line calls nothing else.

`evaluate` takes data and a few words, `run` a spec, `resume` and `open_run` a run directory. All give an `Evaluation`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from rich.console import Console, RenderableType

from assay import build
from assay.errors import AssayError, Fault, Interrupted, RunError, SpecError, Unfinished
from assay.pipeline import compare as comparing
from assay.pipeline import finish
from assay.pipeline import gate as gating
from assay.pipeline import power as powers
from assay.pipeline import run as runs
from assay.pipeline.prepare import Prepared, prepare
from assay.pipeline.run import How
from assay.pipeline.table import table_spec
from assay.protocols import Direction
from assay.records import Progress, Results, Task, Verdict
from assay.report.notebook import html
from assay.report.power import Power
from assay.report.runs import RunSummary
from assay.report.terminal import render
from assay.report.why import explain
from assay.sources.frame import as_table
from assay.spec.checks import check_tree
from assay.spec.load import build_spec, load_spec
from assay.spec.model import DataSpec, Spec
from assay.spec.names import offer
from assay.store.log import read_committed
from assay.store.place import locate, shown
from assay.store.run import RunDirectory, find_runs

Report = Callable[[Progress], None]
_NO_WORDS = ("settings", "path")
TableName = Literal["metrics", "comparisons", "curves", "coverage", "families", "cost"]


class Evaluation:
    """A finished run: tables, verdicts, and a form that prints in a terminal and shows in a notebook.

    Tables are pyarrow tables with the columns of docs/run-directory.md; `to_pandas` gives the same as DataFrames.
    """

    def __init__(self, results: Results, path: Path | str, directions: Mapping[str, Direction]) -> None:
        """path: the run directory; a text where it is in a bucket. directions: which way each metric is better."""
        self.results = results
        self.path = path
        self._directions = directions
        self._first: Evaluation | None = None  # the one whose temporary directory this is in; kept so that it stays

    @property
    def metrics(self) -> pa.Table:
        """A row per variant, task, metric and slice: value, 95 % interval, error bound, or why it is undefined."""
        return self.results.metrics

    @property
    def comparisons(self) -> pa.Table:
        """A row per variant, task, metric and slice: paired difference to the baseline with interval and p-value."""
        return self.results.comparisons

    @property
    def curves(self) -> pa.Table:
        """Points of curves (reliability) with the counts behind them."""
        return self.results.curves

    @property
    def coverage(self) -> pa.Table:
        """What happened to every row, per variant, task and slice."""
        return self.results.coverage

    @property
    def families(self) -> pa.Table:
        """Seeds of one recipe together: their mean, its difference from the baseline, and the spread between them."""
        return self.results.families

    @property
    def cost(self) -> pa.Table:
        """What workers spent, by type of machine and variant; RunError where that was not recorded."""
        if self.results.cost is None:
            raise RunError(f"What the run at {self.path} has cost was not recorded.")
        return self.results.cost

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each variant but the baseline."""
        return self.results.verdicts

    @property
    def outcome(self) -> str:
        """pass, fail, undecided or "not gated": of the whole run."""
        return self.results.outcome

    def to_pandas(self, table: TableName = "metrics") -> Any:  # Any: a pandas DataFrame; pandas is optional
        """A table as a pandas DataFrame; pandas must be installed."""
        if table not in (*finish.TABLES, "cost"):
            raise ValueError(f"There is no table {table!r}{offer(table, (*finish.TABLES, 'cost'))}")
        if find_spec("pandas") is None:
            raise RunError("to_pandas needs pandas, which is not installed; pip install pandas.")
        return getattr(self, table).to_pandas()

    def why(self, variant: str) -> str:
        """The verdict on one variant in sentences. RunError when there is no such variant."""
        return explain(self.results, variant)

    def compare(self, variant: str, other: str, metrics: Sequence[str] = (), slices: Sequence[str] = ()) -> pa.Table:
        """Any two variants, from the run's states: both values, variant - other with its interval and p-value.

        metrics, slices: only these. Where the difference cannot be had (`row sets differ`), it is null. RunError for an
        unknown name.
        """
        return comparing.compare(str(self.path), variant, other, metrics, slices)

    def gate(self, gates: object) -> Evaluation:
        """The same run with the verdicts of other gates; what is stored stays as it is.

        gates: a list as in a spec, or {"gates": [...], "decide": "any"}. SpecError with all their faults.
        """
        again = Evaluation(gating.judge_again(str(self.path), gates), self.path, self._directions)
        again._first = self._first or self
        return again

    def __rich__(self) -> RenderableType:
        return render(self.results, self._directions)

    def __str__(self) -> str:
        out = StringIO()
        Console(file=out, width=100, no_color=True).print(render(self.results, self._directions))
        return out.getvalue().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html(self.results, self._directions)


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

    data: a frame (pandas, polars, pyarrow, anything with `__arrow_c_stream__`) or a path, folder, glob or list of them.
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
    spec: Spec | str | Path,
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

    spec: a Spec, or the path of a file. base: where relative paths start; the spec file's folder, or else the current
    one. max_cost: stop when the run has cost so much, over all times that it was gone on with; needs `prices.default`.
    deadline: stop after so many seconds. At either units in flight are finished and committed, and Unfinished says what
    is left. All else, and what is raised, as for `evaluate`.
    """
    how = _how(executor, workers, address, max_cost, deadline)
    if out is not None:
        locate(out)  # what is wrong with it is told before all work
    asked, folder = _loaded(spec, base)
    prepared = prepare(asked, folder, frame)
    if out is not None:
        return _carried_out(prepared, asked, str(out), how, report)
    place = tempfile.mkdtemp(prefix="assay-")
    try:
        found = _carried_out(prepared, asked, place, how, report)
    except (Interrupted, Unfinished):
        raise  # what is committed is kept, as its message says
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, place, ignore_errors=True)
    return found


def plan(spec: Spec | str | Path, *, frame: object = None, base: str | Path | None = None) -> Prepared:
    """What a run would do: checks of spec, data and models, units, slices, states. Nothing is scored."""
    asked, folder = _loaded(spec, base)
    return prepare(asked, folder, frame)


def power(
    spec: Spec | str | Path,
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
    asked, folder = _loaded(spec, base)
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

    max_cost, deadline: as for `run`. RunError when there is no run, another process works on it, or data, models or
    spec have changed since it began.
    """
    how = _how(executor, workers, address, max_cost, deadline)
    results = runs.resume(str(path), how, report or _silent)
    return Evaluation(results, shown(path), _saved_directions(path))


def open_run(path: str | Path) -> Evaluation:
    """The answer of a finished run. RunError when there is no run, Unfinished when it is not finished."""
    results = finish.read(RunDirectory.open(str(path)))
    return Evaluation(results, shown(path), _saved_directions(path))


def list_runs(folder: str | Path) -> tuple[RunSummary, ...]:
    """The runs that lie in a folder, or the folder itself when it is one; by path. RunError when there is no folder."""
    return tuple(_summary(place) for place in find_runs(str(folder)))


def directions(tasks: Sequence[Task]) -> dict[str, Direction]:
    """Which way each metric of the tasks is better, by name."""
    return {metric.name: metric.direction for several in build.metrics_of(tasks).values() for metric in several}


# ---- steps -----------------------------------------------------------------------------------------------------------


def _how(
    executor: str, workers: int | None, address: str | None, max_cost: float | None, deadline: float | None
) -> How:
    """The time of a deadline begins with the call."""
    return How(executor, workers, address, None if deadline is None else time.monotonic() + deadline, max_cost)


def _carried_out(prepared: Prepared, spec: Spec, place: str, how: How, report: Report | None) -> Evaluation:
    results = runs.run(prepared, spec, place, how, report or _silent)
    return Evaluation(results, shown(place), directions(prepared.plan.tasks))


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


def _loaded(spec: Spec | str | Path, base: str | Path | None) -> tuple[Spec, Path]:
    if isinstance(spec, Spec):
        check_tree(spec)
        return spec, Path(base or ".").absolute()
    return load_spec(spec), Path(base or Path(spec).parent).absolute()


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
    return None, as_table(data)


def _silent(progress: Progress) -> None:
    """No report."""
