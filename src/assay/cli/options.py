"""The options of the commands, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

DATA = "The table (only when the argument is data, not a spec)"
RUN = "How to run"


class Executor(StrEnum):
    """What scores a run; auto says which it takes, and why."""

    auto = "auto"
    local = "local"
    ray = "ray"


Target = Annotated[
    str, Argument(help="A spec (.yaml), or a table of predictions: a Parquet or CSV file, folder or glob.")
]
Run = Annotated[Path, Argument(help="A run directory.", show_default=False)]
Folder = Annotated[Path, Argument(help="A folder with runs.")]
Variant = Annotated[str, Argument(help="The name of a variant.", show_default=False)]
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
Cluster = Annotated[str | None, Option(help="Column naming the independent entity (user).", rich_help_panel=DATA)]
Weight = Annotated[str | None, Option(help="Column with row weights.", rich_help_panel=DATA)]
Where = Annotated[str | None, Option(help="SQL condition on the rows.", rich_help_panel=DATA)]
Slices = Annotated[
    list[str] | None, Option("--slice", help="Slicing column; 'a,b' is a cross of two.", rich_help_panel=DATA)
]
Metrics = Annotated[list[str] | None, Option("--metric", help="See `assay metrics`.", rich_help_panel=DATA)]
Output = Annotated[str | None, Option(help="What the scores are: probability, logit or score.", rich_help_panel=DATA)]
Out = Annotated[
    Path | None,
    Option(help="The run directory. By default runs/<name of the target>-<digest of the spec>.", rich_help_panel=RUN),
]
ExecutorName = Annotated[
    Executor,
    Option("--executor", help="This process, a Ray cluster, or what suits the work.", rich_help_panel=RUN),
]
Address = Annotated[str | None, Option(help="Address of a Ray cluster.", rich_help_panel=RUN)]
Workers = Annotated[int | None, Option(min=1, help="Workers; by default one a core.", rich_help_panel=RUN)]
Json = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress.")]
