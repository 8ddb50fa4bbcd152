"""Results as Markdown, for a comment on a pull request: leaderboard, families, verdicts, notes.

Tables are those of GitHub's Markdown. Names and sentences are escaped, so that they read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from assay.records import Predictions, Results
from assay.report.board import (
    Board,
    Row,
    baseline_of,
    boards,
    error_rule,
    families_title,
    is_judged,
    left_out_note,
    not_selected,
    notes_of,
    outcomes_of,
    shown_variants,
    simultaneous_note,
)
from assay.report.cost import cost_line
from assay.report.numbers import number, with_half_width, with_interval
from assay.report.predictions import Reasons, dead_rows, dead_title, lacking_lines, prediction_lines
from assay.spec.model import MAIN_TASK

MOST_VARIANTS = 50
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(results: Results, predictions: Predictions | None = None, reasons: Reasons = MappingProxyType({})) -> str:
    """The run's outcome as a title, then tables and sentences.

    predictions: what was written; reasons: by variant, why it lacks outputs.
    """
    only_written = predictions is not None and not is_judged(results)
    parts = [f"## assay: {'predictions' if only_written else results.outcome}"]
    parts += [] if predictions is None else _predictions(predictions, reasons)
    for board in boards(results):
        parts += _board(board, results)
    parts += _families(results)
    parts += [_verdicts(results)] if results.verdicts and results.outcome != "not gated" else []
    notes = notes_of(results)
    parts += ["\n".join(f"- {_escaped(note)}" for note in notes)] if notes else []
    parts += [f"<sub>{_escaped(line)}</sub>" for line in [cost_line(results), error_rule(results)] if line]
    return "\n\n".join(parts) + "\n"


def _predictions(found: Predictions, reasons: Reasons) -> Iterator[str]:
    lines = [*lacking_lines(found, reasons), *prediction_lines(found), *found.notes]
    yield "\n".join(f"- {_escaped(line)}" for line in lines)
    if found.dead:
        yield _escaped(f"{dead_title(found)}.")
        rows = [[variant, "\n".join(why), f"{number:,}"] for variant, number, why in dead_rows(found, reasons)]
        yield _table(["variant", "first reasons", "rows"], rows, text=2)


def _board(board: Board, results: Results) -> Iterator[str]:
    if board.task != MAIN_TASK:
        yield f"### task {_escaped(board.task)}"
    variants, outcomes = shown_variants(board, results, MOST_VARIANTS), outcomes_of(results)
    note = simultaneous_note(board)
    rows = [
        [
            variant,
            outcomes.get(variant, "not gated"),
            *(_cell(board, variant, metric) for metric in board.metrics),
        ]
        for variant in variants
    ]
    yield _table(["variant", "verdict", *board.metrics], rows, text=2)
    left_out = left_out_note(board, MOST_VARIANTS)
    if left_out:
        yield _escaped(left_out)
    if board.differences:
        below = f"Below each value: the difference from {baseline_of(results)}, with its 95 % interval."
        yield f"<sub>{_escaped(f'{below} {note}'.strip())}</sub>"


def _cell(board: Board, variant: str, metric: str) -> str:
    row = board.values[variant, metric]
    compared = board.differences.get((variant, metric))
    lines = [_value(row)]
    if compared is not None:
        lines.append(_difference(compared) + board.mark(variant, metric))
    return "\n".join(dict.fromkeys(lines))


def _value(row: Row) -> str:
    return f"({row['undefined']})" if row["value"] is None else with_half_width(row["value"], row["low"], row["high"])


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return f"({row['undefined']})"
    return with_interval(row["difference"], row["low"], row["high"])


def _families(results: Results) -> Iterator[str]:
    rows = results.families.to_pylist()
    if not rows:
        return
    yield f"### {families_title(results)}"
    head = ["family", "task", "metric", "seeds", "mean", "sd", "least", "greatest", "difference"]
    cells = [
        [
            *(row[name] for name in head[:3]),
            str(row["num_seeds"]),
            *(number(row[name], row["spread"]) for name in ("value", "spread", "least", "greatest")),
            _difference(row) if row["difference"] is not None or row["undefined"] else "",
        ]
        for row in rows
    ]
    yield _table(head, cells, text=3)


def _verdicts(results: Results) -> str:
    judged = [verdict for verdict in results.verdicts if verdict.outcome != "not selected"]
    lines = [f"- **{_escaped(one.variant)}**: {one.outcome}. {_escaped(one.reason)}" for one in judged]
    return "\n".join([*lines, *(f"- {one}" for one in [not_selected(results)] if one)])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> str:
    """text: how many of the columns are words, which stand left."""
    rule = ["---" if position < text else "--:" for position in range(len(head))]
    body = [[_escaped(cell).replace("\n", "<br>") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ([*map(_escaped, head)], rule, *body))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
