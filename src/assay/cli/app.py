"""The command line: words in, tables or JSON out, exit code by verdict. No arithmetic here.

Exit codes: 0 pass or not gated, 1 a gate failed, 2 a usage, spec or data error, 3 undecided, 4 not finished
or stopped by Ctrl-C.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from typer.core import TyperGroup

from assay import api, build
from assay.cli import options
from assay.cli.progress import Reporter
from assay.errors import AssayError, Fault, Interrupted, SpecError, Unfinished
from assay.gates.judge import exit_code
from assay.gates.rules import words_of
from assay.pipeline.table import table_spec
from assay.pipeline.verify import verify as audit
from assay.protocols import Metric
from assay.report.jsonable import evaluation_json, jsonable
from assay.report.plan import Planned, plan_json, render_plan
from assay.report.runs import render_audit, render_metrics, render_runs
from assay.spec.load import build_spec, json_schema, load_spec, spec_to_yaml
from assay.spec.model import Spec

SPEC_ENDINGS = (".yaml", ".yml")
RUNS = Path("runs")


class _Commands(TyperGroup):
    """Ctrl-C ends any command with a sentence, and not as typer ends it."""

    def invoke(self, ctx: Any) -> Any:  # Any: click's context, which some versions of typer bring along
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("Stopped before the command came to its end.") from None


app = typer.Typer(
    name="assay",
    cls=_Commands,
    help="Evaluate many variants of a model in one pass, and say which of them may ship, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """The entry point. A user's mistake ends with a sentence and an exit code, never with a traceback."""
    try:
        app(prog_name="assay")
    except AssayError as error:
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(f"Error: {error}" if "\n" not in str(error) else f"Error:\n{error}", markup=False)
        sys.exit(error.exit_code)


@app.command()
def run(
    target: options.Target,
    label: options.Label = None,
    scores: options.Scores = None,
    baseline: options.Baseline = None,
    cluster: options.Cluster = None,
    weight: options.Weight = None,
    where: options.Where = None,
    slices: options.Slices = None,
    metrics: options.Metrics = None,
    output: options.Output = None,
    overrides: options.Overrides = None,
    out: options.Out = None,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Evaluate: a spec, or a table of predictions with --label and --scores.

    A finished run gives its answer again, an unfinished one goes on.
    """
    words = _said(
        label=label,
        scores=scores,
        baseline=baseline,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    spec, base = _asked(target, words, overrides or [])
    place = out or default_place(target, spec)
    with _stoppable(place), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.run(
            spec, base=base, out=place, executor=executor.value, workers=workers, address=address, report=reporter
        )
    _end(found, as_json)


@app.command()
def plan(
    target: options.Target,
    label: options.Label = None,
    scores: options.Scores = None,
    baseline: options.Baseline = None,
    cluster: options.Cluster = None,
    weight: options.Weight = None,
    where: options.Where = None,
    slices: options.Slices = None,
    metrics: options.Metrics = None,
    output: options.Output = None,
    overrides: options.Overrides = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
) -> None:
    """Check everything and show what a run would do, without scoring a row."""
    words = _said(
        label=label,
        scores=scores,
        baseline=baseline,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    spec, base = _asked(target, words, overrides or [])
    with redirect_stdout(sys.stderr):
        found = api.plan(spec, base=base)
    gates = [words_of(gate) for gate in found.spec.gates]
    planned = Planned(found.plan, found.num_rows, found.spec.baseline, gates, found.notes)
    if as_json:
        _print_json(plan_json(planned))
    else:
        _show(render_plan(planned, workers or build.num_cores()))


@app.command()
def resume(
    path: options.Run,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with a run that was stopped or killed. Only what is not committed is scored."""
    with _stoppable(path), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.resume(path, executor=executor.value, workers=workers, address=address, report=reporter)
    _end(found, as_json)


@app.command()
def show(path: options.Run, as_json: options.Json = False) -> None:
    """Show the answer of a finished run."""
    found = api.open_run(path)
    _answer(found, as_json)
    raise typer.Exit(exit_code(found.results.outcome))


@app.command()
def ls(folder: options.Folder = RUNS, as_json: options.Json = False) -> None:
    """List the runs in a folder."""
    found = api.list_runs(folder)
    if as_json:
        _print_json([one._asdict() for one in found])
    else:
        _show(render_runs(str(folder), found))


@app.command()
def verify(path: options.Run, as_json: options.Json = False) -> None:
    """Audit a run: digests, every unit once, rows accounted for, results computed again from the states."""
    found = audit(str(path))
    if as_json:
        checks = [check._asdict() for check in found.checks]
        _print_json({"passed": found.passed, "finished": found.finished, "checks": checks})
    else:
        _show(render_audit(found.checks))
    if found.passed and not found.finished:
        raise Unfinished(f"The run at {path} is not finished. Go on with: assay resume {path}")
    raise typer.Exit(0 if found.passed else 1)


@app.command()
def why(path: options.Run, variant: options.Variant, as_json: options.Json = False) -> None:
    """Explain the verdict on one variant in sentences."""
    found = api.open_run(path)
    text = found.why(variant)
    if as_json:
        verdict = next((one for one in found.verdicts if one.variant == variant), None)
        _print_json({"variant": variant, "text": text, "verdict": jsonable(verdict)})
    else:
        print(text)


@app.command()
def metrics(as_json: options.Json = False) -> None:
    """List the metrics that a spec may name."""
    found = [build.metric(name) for name in build.metric_places()]
    if as_json:
        _print_json([_metric_json(one) for one in found])
    else:
        _show(render_metrics(found))


@app.command()
def schema() -> None:
    """Print the JSON schema of the spec file, for editors."""
    _print_json(json_schema())


# ---- steps -----------------------------------------------------------------------------------------------------------


def default_place(target: str, spec: Spec) -> Path:
    """runs/<name of the target>-<digest of the spec>: asking the same again finds the same run."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in Path(target).stem) or "data"
    return RUNS / f"{name}-{hashlib.sha256(spec_to_yaml(spec).encode()).hexdigest()[:8]}"


def _said(**words: str | list[str] | None) -> dict[str, Any]:  # Any: a text or a list of texts
    """What was said of a table, by the name of its option."""
    return {name: value for name, value in words.items() if value}


def _asked(target: str, words: Mapping[str, Any], overrides: list[str]) -> tuple[Spec, Path]:  # Any: see _said
    """The spec that the command line asks for, and the folder that its paths start from."""
    if target.endswith(SPEC_ENDINGS):
        if words:
            raise SpecError([Fault(f"--{next(iter(words))}", "the spec says this; change it with --set PATH=VALUE.")])
        return load_spec(target, overrides), Path(target).parent.absolute()
    missing = [name for name in ("label", "scores") if name not in words]
    if missing:
        raise SpecError([Fault(f"--{name}", f"a table needs it; {target} is no spec (.yaml).") for name in missing])
    tree = table_spec(
        target,
        label=words["label"],
        scores=words["scores"],
        baseline=words.get("baseline"),
        cluster=words.get("cluster"),
        weight=words.get("weight"),
        where=words.get("where"),
        slices=[one.split(",") if "," in one else one for one in words.get("slice", ())],
        metrics=words.get("metric", ()),
        output=words.get("output"),
    )
    return build_spec(tree, overrides), Path.cwd()


@contextmanager
def _stoppable(place: Path) -> Iterator[None]:
    """Ctrl-C at a moment when no unit is scored, or the second one."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Stopped. What is committed in {place} is kept, and the same command goes on.") from None


def _end(found: api.Evaluation, as_json: bool) -> None:
    """The answer of a run that was carried out, where it lies, and the exit code."""
    _answer(found, as_json)
    _say(f"Run: {found.path}. Next: assay show {found.path}, assay why {found.path} VARIANT, assay verify {found.path}")
    raise typer.Exit(exit_code(found.results.outcome))


def _answer(found: api.Evaluation, as_json: bool) -> None:
    if as_json:
        _print_json(evaluation_json(found.results))
    else:
        _show(found)


def _metric_json(metric: Metric) -> dict[str, Any]:  # Any: JSON
    return {
        "name": metric.name,
        "description": metric.description,
        "direction": metric.direction,
        "label": metric.label_kind,
        "needs_probability": metric.needs_probability,
    }


def _show(what: RenderableType) -> None:
    Console().print(what)


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
