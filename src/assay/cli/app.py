"""The command line: words in, tables or JSON out, exit code by verdict. No arithmetic here.

Exit codes: 0 pass or not gated, 1 a gate failed, 2 a usage, spec or data error, 3 undecided, 4 not finished
or stopped by Ctrl-C, --deadline or --max-cost.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, Group, RenderableType
from typer.core import TyperGroup

from assay import api, build, catalogue
from assay.cli import options
from assay.cli.progress import Reporter
from assay.errors import AssayError, Fault, Interrupted, RunError, SpecError, Unfinished
from assay.evaluation import Evaluation
from assay.gates.judge import exit_code
from assay.gates.rules import words_of
from assay.pipeline.asked import choice_words
from assay.pipeline.columns import written_words
from assay.pipeline.gate import read_gates
from assay.pipeline.replay import replay as tell
from assay.pipeline.table import table_spec
from assay.pipeline.verify import verify as audit
from assay.protocols import Metric
from assay.report.comparison import render_comparison
from assay.report.jsonable import evaluation_json, jsonable, verdicts_json
from assay.report.junit import junit as junit_xml
from assay.report.markdown import markdown as as_markdown
from assay.report.plan import Planned, plan_json, render_plan
from assay.report.power import power_json, render_power
from assay.report.predictions import predictions_json
from assay.report.runs import parameters_of, render_audit, render_metrics, render_runs
from assay.report.terminal import verdict_lines
from assay.spec.load import build_spec, json_schema, load_spec, spec_to_yaml
from assay.spec.model import Spec

SPEC_ENDINGS = (".yaml", ".yml")
RUNS = Path("runs")


OUTPUT_CLOSED = 141
"""What a command ends with whose output nobody reads on (`| head -1`), as the shell says it: it is no verdict."""


class _Output(Console):
    """Where answers go; rich would end with 1, which is a verdict, when nobody reads on."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Commands(TyperGroup):
    """Ctrl-C ends any command with a sentence, and a closed pipe with a code of its own; not as typer ends them."""

    def invoke(self, ctx: Any) -> Any:  # Any: click's context, which some versions of typer bring along
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # so that Python's own flush at exit succeeds
            raise typer.Exit(OUTPUT_CLOSED) from None
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
    classes: options.Classes = None,
    labels: options.Labels = None,
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
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    junit: options.Junit = None,
    markdown: options.Markdown = None,
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
        classes=classes,
        labels=labels,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    spec, base = _asked(target, words, overrides or [])
    place, seconds = out or default_place(target, spec), _deadline(deadline)
    with _stoppable(place), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.run(
            spec,
            base=base,
            out=place,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    for file, form in ((junit, options.Form.junit), (markdown, options.Form.markdown)):
        if file is not None:
            _write(file, _text_of(found, form))
    _end(found, as_json)


@app.command()
def predict(
    target: options.PredictSpec,
    overrides: options.Overrides = None,
    out: options.Out = None,
    executor: options.ExecutorName = options.Executor.auto,
    address: options.Address = None,
    workers: options.Workers = None,
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write what the variants of a spec give, row by row, with the columns of `carry_over`. It needs no label.

    Where the spec names labels, metrics are measured in the same pass. A finished run gives its answer again, an
    unfinished one goes on.
    """
    spec = load_spec(target, overrides or [], predicting=True)
    place, seconds = out or default_place(target, spec), _deadline(deadline)
    with _stoppable(place), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.predict(
            spec,
            base=Path(target).parent.absolute(),
            out=place,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    _end(found, as_json)


@app.command()
def plan(
    target: options.Target,
    label: options.Label = None,
    scores: options.Scores = None,
    baseline: options.Baseline = None,
    classes: options.Classes = None,
    labels: options.Labels = None,
    cluster: options.Cluster = None,
    weight: options.Weight = None,
    where: options.Where = None,
    slices: options.Slices = None,
    metrics: options.Metrics = None,
    output: options.Output = None,
    overrides: options.Overrides = None,
    workers: options.Workers = None,
    share: options.Sample = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check everything and show what a run would do, without scoring a row; with --sample, what data can detect."""
    words = _said(
        label=label,
        scores=scores,
        baseline=baseline,
        classes=classes,
        labels=labels,
        cluster=cluster,
        weight=weight,
        where=where,
        slice=slices,
        metric=metrics,
        output=output,
    )
    spec, base = _asked(target, words, overrides or [])
    if share is not None:
        _show_power(spec, base, _share(share), workers, as_json, quiet)
        return
    if quiet:
        _say("--quiet has no effect without --sample: nothing is scored.")
    with redirect_stdout(sys.stderr):
        found = api.plan(spec, base=base)
    gates = [words_of(gate) for gate in found.spec.gates]
    said = found.spec.data.cluster or ()
    planned = Planned(
        found.plan,
        found.num_rows,
        found.spec.baseline,
        gates,
        (said,) if isinstance(said, str) else said,
        choice_words(found.spec, found.metrics),
        found.notes,
        found.why_bundles,
        written_words(found.spec, found.plan.tasks, found.source),
    )
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
    max_cost: options.MaxCost = None,
    deadline: options.Deadline = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with a run that was stopped or killed. Only what is not committed is scored."""
    seconds = _deadline(deadline)
    with _stoppable(path), redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.resume(
            path,
            executor=executor.value,
            workers=workers,
            address=address,
            max_cost=max_cost,
            deadline=seconds,
            report=reporter,
        )
    _end(found, as_json)


@app.command()
def show(path: options.Run, form: options.Format = options.Form.text, as_json: options.Json = False) -> None:
    """Show the answer of a finished run."""
    found = api.open_run(path)
    form = options.Form.json if as_json else form
    if form in (options.Form.markdown, options.Form.junit):
        print(_text_of(found, form), end="")
    else:
        _answer(found, form is options.Form.json)
    raise typer.Exit(exit_code(found.results.outcome))


@app.command()
def gate(path: options.Run, gates: options.Gates, as_json: options.Json = False) -> None:
    """Judge a finished run by other gates, from its states. What is stored in the run stays as it is."""
    found = api.open_run(path).gate(read_gates(gates, os.environ))
    if as_json:
        _print_json(verdicts_json(found.results))
    else:
        _show(Group(*verdict_lines(found.results)))
    _say(f"Judged by {gates}. The verdicts that are stored in {path} stay as they are.")
    raise typer.Exit(exit_code(found.results.outcome))


@app.command()
def compare(
    path: options.Run,
    variant: options.Variant,
    other: options.Other,
    metrics: options.OnlyMetrics = None,
    slices: options.OnlySlices = None,
    as_json: options.Json = False,
) -> None:
    """Compare any two variants of a finished run, from its states."""
    found = api.open_run(path).compare(variant, other, metrics or (), slices or ())
    if as_json:
        _print_json({"variant": variant, "other": other, "comparisons": jsonable(found)})
    else:
        _show(render_comparison(variant, other, found))


@app.command()
def ls(folder: options.Folder = str(RUNS), as_json: options.Json = False) -> None:
    """List the runs in a folder."""
    found = api.list_runs(folder)
    if as_json:
        _print_json([one._asdict() for one in found])
    else:
        _show(render_runs(folder, found))


@app.command()
def verify(path: options.Run, as_json: options.Json = False) -> None:
    """Audit a run: digests, every unit once, rows accounted for, results computed again from the states."""
    found = audit(path)
    if as_json:
        checks = [check._asdict() for check in found.checks]
        _print_json({"passed": found.passed, "finished": found.finished, "checks": checks})
    else:
        _show(render_audit(found.checks))
    if found.passed and not found.finished:
        raise Unfinished(f"The run at {path} is not finished. Go on with: assay resume {path}")
    raise typer.Exit(0 if found.passed else 1)


@app.command()
def replay(path: options.Run, as_json: options.Json = False) -> None:
    """Tell what happened in a run, and check that its events lead to the same orders again."""
    found = tell(str(path))
    if as_json:
        parts = [{**one._asdict(), "lines": [line._asdict() for line in one.lines]} for one in found.parts]
        _print_json({"same": found.same, "drivers": parts})
    else:
        for part in found.parts:
            print("\n".join(f"{line.seconds:10,.1f} s  {line.text}" for line in part.lines))
            print(part.detail)
    raise typer.Exit(0 if found.same else 1)


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
def metrics(family: options.Family = None, as_json: options.Json = False) -> None:
    """List the metrics that a spec may name, by what the task's label is."""
    found = {
        name: catalogue.listed_metrics(name) for name in catalogue.FAMILIES if family is None or name == family.value
    }
    if as_json:
        _print_json([{"family": name, **_metric_json(one)} for name, several in found.items() for one in several])
    else:
        _show(render_metrics({f"Of {catalogue.FAMILIES[name]}": several for name, several in found.items()}))


@app.command()
def schema() -> None:
    """Print the JSON schema of the spec file, for editors."""
    _print_json(json_schema())


# ---- steps -----------------------------------------------------------------------------------------------------------


def default_place(target: str, spec: Spec) -> Path:
    """runs/<name of the target>-<digest of the spec>: asking the same again finds the same run."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in Path(target).stem) or "data"
    asked = spec.lasting
    return RUNS / f"{name}-{hashlib.sha256(spec_to_yaml(asked).encode()).hexdigest()[:8]}"


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
        data={name: _listed(words[name]) for name in ("classes", "labels") if name in words},
        cluster=words["cluster"] if len(words.get("cluster", ())) > 1 else "".join(words.get("cluster", ())) or None,
        weight=words.get("weight"),
        where=words.get("where"),
        slices=[one.split(",") if "," in one else one for one in words.get("slice", ())],
        metrics=words.get("metric", ()),
        output=words.get("output"),
    )
    return build_spec(tree, overrides), Path.cwd()


def _listed(text: str) -> str | list[str]:
    return text if text == "auto" else [name.strip() for name in text.split(",")]


@contextmanager
def _stoppable(place: Path | str) -> Iterator[None]:
    """Ctrl-C at a moment when no unit is scored, or the second one."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Stopped. What is committed in {place} is kept, and the same command goes on.") from None


def _end(found: Evaluation, as_json: bool) -> None:
    """The answer of a run that was carried out, where it lies, and the exit code."""
    _answer(found, as_json)
    _say(f"Run: {found.path}. Next: assay show {found.path}, assay why {found.path} VARIANT, assay verify {found.path}")
    raise typer.Exit(exit_code(found.results.outcome))


def _answer(found: Evaluation, as_json: bool) -> None:
    if as_json:
        written = {} if found.predictions is None else {"predictions": predictions_json(found.predictions)}
        _print_json({**evaluation_json(found.results), **written})
    else:
        _show(found)


def _metric_json(metric: Metric) -> dict[str, Any]:  # Any: JSON
    return {
        "name": metric.name,
        "description": metric.description,
        "direction": metric.direction,
        "label": metric.label_kind,
        "parameters": parameters_of(metric),
        "needs_probability": metric.needs_probability,
        "needs_outputs": metric.needs_outputs,
        "needs_interval": metric.needs_interval,
        "needs_baseline": metric.needs_baseline,
    }


def _show_power(spec: Spec, base: Path, share: float, workers: int | None, as_json: bool, quiet: bool) -> None:
    with redirect_stdout(sys.stderr), Reporter(Console(stderr=True), quiet) as reporter:
        found = api.power(spec, share, base=base, workers=workers, report=reporter)
    if as_json:
        _print_json(power_json(found))
    else:
        _show(render_power(found))


def _deadline(text: str | None) -> float | None:
    """`2h`, `1h30m` or `45s` as seconds. SpecError for what is none of these."""
    if text is None:
        return None
    parts = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    if not text or parts is None:
        raise SpecError([Fault("--deadline", f"got {text!r}; expected a time such as 2h, 90m, 1h30m or 45s.")])
    hours, minutes, seconds = (float(one or 0) for one in parts.groups())
    return 3600 * hours + 60 * minutes + seconds


def _share(text: str) -> float:
    """`1%` or `0.01`. SpecError for what is neither."""
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if rest or not 0.0 < share <= 1.0:
        raise SpecError([Fault("--sample", f"got {text!r}; expected a share above 0 and up to 1, such as 1% or 0.01.")])
    return share


def _text_of(found: Evaluation, form: options.Form) -> str:
    return junit_xml(found.results) if form is options.Form.junit else as_markdown(found.results)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{file} cannot be written: {error.strerror}. The run itself is finished.") from error


def _show(what: RenderableType) -> None:
    _Output().print(what)


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
