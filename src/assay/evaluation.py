"""A finished run as a user holds it: its tables and verdicts, and how it looks in a terminal and a notebook.

Lives here: reading an answer, and asking a finished run for another one (`compare`, `gate`). Not here: how an answer
comes about (`api.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.text import Text

from assay.errors import RunError, Unfinished
from assay.pipeline import compare as comparing
from assay.pipeline import finish
from assay.pipeline import gate as gating
from assay.protocols import Direction
from assay.records import Predictions, Results, Verdict
from assay.report.board import baseline_of, is_judged
from assay.report.notebook import html
from assay.report.predictions import dead_lines_of, render_predictions
from assay.report.terminal import render
from assay.report.why import explain
from assay.spec.names import offer

TableName = Literal["metrics", "comparisons", "curves", "coverage", "families", "cost"]


class Evaluation:
    """A finished run: tables, verdicts, and a form that prints in a terminal and shows in a notebook.

    Tables are pyarrow tables with the columns of docs/run-directory.md; `to_pandas` gives the same as DataFrames.
    """

    def __init__(
        self,
        results: Results,
        path: Path | str,
        directions: Mapping[str, Direction],
        predictions: Predictions | None = None,
        reasons: Mapping[str, Sequence[str]] = MappingProxyType({}),
        unlisted: str = "",
    ) -> None:
        """path: the run directory; a text where it is in a bucket. directions: which way each metric is better.
        predictions: what was written, where that was asked for; reasons: by variant, why it lacks outputs.
        unlisted: why it is not known what was written, though it was asked for; a sentence."""
        self.results = results
        self.path = path
        self.reasons = reasons
        self._predictions = predictions
        self._unlisted = unlisted
        self._directions = directions
        self._first: Evaluation | None = None  # the one whose temporary directory this is in; kept so that it stays

    @property
    def predictions(self) -> Predictions | None:
        """What was written of the variants' outputs; None where that was not asked for. Unfinished: it is lost."""
        if self._unlisted:
            raise Unfinished(self._unlisted)
        return self._predictions

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
    def variants(self) -> tuple[str, ...]:
        """Their names, that of the baseline first."""
        baseline = baseline_of(self.results)
        return (*([] if baseline is None else [baseline]), *(one.variant for one in self.verdicts))

    @property
    def outcome(self) -> str:
        """pass, fail, undecided or "not gated": of the whole run."""
        return self.results.outcome

    @property
    def judged(self) -> bool:
        """False where predictions were written, and there are neither metrics nor gates."""
        return self._predictions is None or is_judged(self.results)

    def to_pandas(self, table: TableName = "metrics") -> Any:  # Any: a pandas DataFrame; pandas is optional
        """A table as a pandas DataFrame; pandas must be installed."""
        if table not in (*finish.TABLES, "cost"):
            raise ValueError(f"There is no table {table!r}{offer(table, (*finish.TABLES, 'cost'))}")
        if find_spec("pandas") is None:
            raise RunError("to_pandas needs pandas, which is not installed; pip install pandas.")
        return getattr(self, table).to_pandas()

    def why(self, variant: str) -> str:
        """The verdict on one variant in sentences, and why it lacks outputs, where these were written.

        RunError when there is no such variant.
        """
        return "\n".join([explain(self.results, variant), *self._where_metrics_are(), *self._lacks(variant)])

    def _where_metrics_are(self) -> list[str]:
        """Of a run without gates, which has nothing to explain."""
        is_measured = self.results.outcome == "not gated" and self.results.metrics.num_rows > 0
        return [f"Its metrics are shown by: assay show {self.path}"] if is_measured else []

    def _lacks(self, variant: str) -> list[str]:
        """The verdict can be told without, so that a list of predictions that is lost is a line of it."""
        if self._unlisted or self._predictions is None:
            return [self._unlisted] if self._unlisted else []
        lacking = dead_lines_of(self._predictions, self.reasons, variant)
        return lacking or [f"Variant {variant!r} lacks no outputs."]

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
        results = gating.judge_again(str(self.path), gates)
        again = Evaluation(results, self.path, self._directions, self._predictions, self.reasons, self._unlisted)
        again._first = self._first or self
        return again

    def __rich__(self) -> RenderableType:
        answer = render(self.results, self._directions)
        if self._unlisted:
            return Group(Text(self._unlisted), answer)
        if self._predictions is None:
            return answer
        return Group(render_predictions(self._predictions, self.reasons), answer)

    def __str__(self) -> str:
        out = StringIO()
        Console(file=out, width=100, no_color=True).print(self.__rich__())
        return out.getvalue().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html(self.results, self._directions, self._predictions, self.reasons)
