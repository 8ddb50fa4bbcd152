"""Results for a notebook: one HTML fragment, with its own few styles, that also reads in the dark."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader

from assay.protocols import Direction
from assay.records import Results
from assay.report.board import ERROR_RULE, SLICES_TITLE, baseline_of, boards, coverage_notes, telling_slices
from assay.report.numbers import p_value, with_half_width, with_interval

MOST_VARIANTS = 200
MOST_SLICES = 20

_ENVIRONMENT = Environment(loader=PackageLoader("assay.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.globals.update(with_half_width=with_half_width, with_interval=with_interval, p_value=p_value)


def html(results: Results, directions: Mapping[str, Direction] | None = None) -> str:
    """What `_repr_html_` of an evaluation returns; `directions` as in the terminal's `render`."""
    outcomes: dict[str, str] = {verdict.variant: verdict.outcome for verdict in results.verdicts}
    outcomes[baseline_of(results) or ""] = "baseline"
    return _ENVIRONMENT.get_template("notebook.html.jinja").render(
        boards=boards(results),
        most_variants=MOST_VARIANTS,
        outcomes=outcomes,
        slices=telling_slices(results, MOST_SLICES, directions or {}),
        verdicts=[verdict for verdict in results.verdicts if verdict.outcome != "not gated"],
        notes=[*results.notes, *coverage_notes(results.coverage)],
        error_rule=ERROR_RULE,
        slices_title=SLICES_TITLE,
    )
