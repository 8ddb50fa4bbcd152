"""Results for a notebook: one HTML fragment, with its own few styles, that also reads in the dark."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jinja2 import Environment, PackageLoader

from assay.protocols import Direction
from assay.records import Predictions, Results
from assay.report.board import (
    SLICES_TITLE,
    boards,
    error_rule,
    families_title,
    left_out_note,
    not_selected,
    notes_of,
    outcomes_of,
    shown_variants,
    simultaneous_note,
    telling_slices,
)
from assay.report.cost import cost_line
from assay.report.numbers import number, p_value, with_half_width, with_interval
from assay.report.predictions import Reasons, dead_rows, dead_title, lacking_lines, prediction_lines

MOST_VARIANTS = 200
MOST_SLICES = 20

_ENVIRONMENT = Environment(loader=PackageLoader("assay.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.globals.update(
    with_half_width=with_half_width,
    with_interval=with_interval,
    p_value=p_value,
    number=number,
    simultaneous_note=simultaneous_note,
    left_out_note=left_out_note,
)


def html(
    results: Results,
    directions: Mapping[str, Direction] | None = None,
    predictions: Predictions | None = None,
    reasons: Reasons = MappingProxyType({}),
) -> str:
    """What `_repr_html_` of an evaluation returns; `directions` as in the terminal's `render`.

    predictions: what was written; reasons: by variant, why it lacks outputs.
    """
    return _ENVIRONMENT.get_template("notebook.html.jinja").render(
        written=predictions and [*lacking_lines(predictions, reasons), *prediction_lines(predictions)],
        dead_title=predictions and dead_title(predictions),
        dead=predictions and dead_rows(predictions, reasons),
        written_notes=predictions.notes if predictions else (),
        cost=cost_line(results),
        boards=[(board, shown_variants(board, results, MOST_VARIANTS, directions)) for board in boards(results)],
        most_variants=MOST_VARIANTS,
        outcomes=outcomes_of(results),
        families=results.families.to_pylist(),
        families_title=families_title(results),
        slices=telling_slices(results, MOST_SLICES, directions or {}),
        verdicts=[verdict for verdict in results.verdicts if verdict.outcome not in ("not gated", "not selected")],
        not_selected=not_selected(results),
        notes=notes_of(results),
        error_rule=error_rule(results),
        slices_title=SLICES_TITLE,
    )
