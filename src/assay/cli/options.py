"""The options of the commands, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

from typer import Argument, Option

from assay.errors import Fault, SpecError
from assay.spec.names import offer

DATA = "The table (only when the argument is data, not a spec)"
RUN = "How to run"
ANSWER = "The answer as a file"


class Executor(StrEnum):
    """What scores a run; auto says which it takes, and why."""

    auto = "auto"
    local = "local"
    ray = "ray"


class MetricFamily(StrEnum):
    """What a task's label is."""

    single = "single"
    classes = "classes"
    labels = "labels"


class Form(StrEnum):
    """How an answer is printed."""

    text = "text"
    json = "json"
    markdown = "markdown"
    junit = "junit"


Choice = TypeVar("Choice", bound=StrEnum)


def _one_of(option: str, kind: type[Choice]) -> Callable[[str], Choice]:
    """How the words of an option are read: what is none of them is told as a fault of a spec would be."""

    def parse(text: str) -> Choice:
        known = [one.value for one in kind]
        if text not in known:
            raise SpecError([Fault(option, f"got {text!r}{offer(text, known)}")])
        return kind(text)

    return parse


Target = Annotated[
    str, Argument(help="A spec (.yaml), or a table of predictions: a Parquet or CSV file, folder or glob.")
]
PredictSpec = Annotated[str, Argument(help="A spec (.yaml).", show_default=False)]
Run = Annotated[str, Argument(help="A run directory, or s3://BUCKET/PATH, gs://, az://.", show_default=False)]
Folder = Annotated[str, Argument(help="A folder with runs, or s3://BUCKET/PATH, gs://, az://.")]
Variant = Annotated[str, Argument(help="The name of a variant.", show_default=False)]
Predicting = Annotated[bool, Option("--predict", help="What `assay predict` would do; takes a spec.")]
Overrides = Annotated[
    list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change one value of the spec: --set data.path=new/")
]
Label = Annotated[str | None, Option(help="Column or SQL expression of the label.", rich_help_panel=DATA)]
Scores = Annotated[
    list[str] | None,
    Option(
        help="Score column, a variant each; may come again. A glob ('p_*') takes numbers that play no other part.",
        rich_help_panel=DATA,
    ),
]
Baseline = Annotated[str | None, Option(help="The score column to compare with.", rich_help_panel=DATA)]
Classes = Annotated[
    str | None,
    Option(help="The label is one of several classes: cat,dog,fox, or auto for those there are.", rich_help_panel=DATA),
]
Labels = Annotated[
    str | None,
    Option(help="The label is a list of labels: indoor,night, or auto for those there are.", rich_help_panel=DATA),
]
Cluster = Annotated[
    list[str] | None,
    Option(help="Column naming the independent entity (user); a second one (day) for two-way.", rich_help_panel=DATA),
]
Weight = Annotated[str | None, Option(help="Column with row weights.", rich_help_panel=DATA)]
Where = Annotated[str | None, Option(help="SQL condition on the rows.", rich_help_panel=DATA)]
Slices = Annotated[
    list[str] | None, Option("--slice", help="Slicing column; 'a,b' is a cross of two.", rich_help_panel=DATA)
]
Metrics = Annotated[list[str] | None, Option("--metric", help="See `assay metrics`.", rich_help_panel=DATA)]
Output = Annotated[
    str | None, Option(help="What the scores are: probability, logit, score, label or interval.", rich_help_panel=DATA)
]
Out = Annotated[
    str | None,
    Option(
        help="The run directory, or s3://BUCKET/PATH, gs://, az://. By default runs/<name of the target>-<digest of "
        "the spec>.",
        rich_help_panel=RUN,
    ),
]
ExecutorName = Annotated[
    Executor,
    Option(
        "--executor",
        parser=_one_of("--executor", Executor),
        metavar="[auto|local|ray]",
        help="This process, a Ray cluster, or what suits the work.",
        rich_help_panel=RUN,
    ),
]
Address = Annotated[str | None, Option(help="Address of a Ray cluster.", rich_help_panel=RUN)]
Workers = Annotated[
    int | None, Option(min=1, metavar="INTEGER", help="Workers; by default one a core.", rich_help_panel=RUN)
]
MaxCost = Annotated[
    float | None,
    Option(
        min=0,
        metavar="COST",
        help="Stop when the run has cost so much, over all its resumes; the spec needs prices.default.",
        rich_help_panel=RUN,
    ),
]
Deadline = Annotated[
    str | None,
    Option(
        metavar="TIME",
        help="Stop after so long (2h, 90m, 1h30m, 45s), with what is committed; assay resume goes on.",
        rich_help_panel=RUN,
    ),
]
Junit = Annotated[
    Path | None, Option(help="Also write the verdicts as JUnit XML to this file.", rich_help_panel=ANSWER)
]
Markdown = Annotated[Path | None, Option(help="Also write a summary in Markdown to this file.", rich_help_panel=ANSWER)]
Format = Annotated[
    Form,
    Option(
        "--format",
        parser=_one_of("--format", Form),
        metavar="[text|json|markdown|junit]",
        help="Of the answer: text, json, markdown or junit (XML).",
    ),
]
Gates = Annotated[
    Path, Option("--gates", help="A YAML file: a list of gates as in a spec, or {gates: [...], decide: any}.")
]
WhichVariant = Annotated[str | None, Argument(help="The name of a variant.", show_default=False)]
Other = Annotated[str, Argument(help="The variant that it is compared with.", show_default=False)]
OnlyMetrics = Annotated[list[str] | None, Option("--metric", help="Only this metric; may come again.")]
OnlySlices = Annotated[list[str] | None, Option("--slice", help="Only this slice, as country=US; may come again.")]
Sample = Annotated[
    str | None,
    Option(
        "--sample",
        metavar="SHARE",
        help="Score a share of the data (1% or 0.01) and say which differences all of it can detect.",
    ),
]
Family = Annotated[
    MetricFamily | None,
    Option(
        "--family",
        parser=_one_of("--family", MetricFamily),
        metavar="[single|classes|labels]",
        help="Only those of tasks of one kind: single score, classes or labels.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress.")]
