"""What a run has written, in a few lines."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from assay.records import Predictions
from assay.report.jsonable import Json
from assay.spec.words import count


def render_predictions(found: Predictions) -> RenderableType:
    """Where the rows are, and which variants lack some."""
    return Group(*map(Text, prediction_lines(found)))


def prediction_lines(found: Predictions) -> list[str]:
    files = count(len(found.parts), "file")
    lines = [f"Predictions: {count(found.rows, 'row')} in {files} ({found.format}) in {found.place}"]
    if found.dead:
        each = ", ".join(f"{name} {number:,}" for name, number in found.dead.items())
        lines.append(
            f"Dead letters: rows that a variant has no output for, with the reason, in {found.dead_place}: {each}"
        )
    return [*lines, *(f"Note: {note}" for note in found.notes)]


def predictions_json(found: Predictions) -> dict[str, Json]:
    """Without the list of files, which the manifest has."""
    return {
        "place": found.place,
        "format": found.format,
        "rows": found.rows,
        "files": len(found.parts),
        "columns": [{"name": name, "type": kind} for name, kind in found.columns],
        "dead_letters": {"place": found.dead_place, "rows": dict(found.dead), "files": len(found.dead_parts)},
        "notes": list(found.notes),
    }
