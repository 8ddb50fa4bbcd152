"""Who is judged, by which gates, and what comes of it, once all variants were measured.

Lives here: what a run and a second judgement of it (`gate.py`) have in common. Not here: measuring (`shards.py`),
tables (`finish.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.catalogue import Metrics
from assay.gates.cases import Case
from assay.gates.judge import conclude
from assay.gates.selection import Ranked, Selection, chosen_by, ranked, selection_notes, verdicts_of_all
from assay.pipeline.asked import confirm_of
from assay.records import Verdict
from assay.spec.model import Spec


def chosen(spec: Spec, metrics: Metrics, values: Mapping[str, float]) -> Selection | None:
    """Who was chosen on the part of the clusters that serves to choose; None where the spec chooses nobody.

    values: of every variant but the baseline, the metric to choose by on that part; NaN where undefined.
    """
    confirm = confirm_of(spec)
    if confirm is None:
        return None
    name, metric = chosen_by(confirm, metrics)
    order = ranked([Ranked(variant, values[variant]) for variant in candidates(spec)], metric.direction)
    return Selection(name, metric.name, confirm.fraction, confirm.keep, order)


def candidates(spec: Spec) -> list[str]:
    """Every variant but the baseline, in the spec's order."""
    return [variant.name for variant in spec.variants if variant.name != spec.baseline]


class Judging:
    """Takes in what was measured on each variant in turn, and judges once it has all of it."""

    def __init__(self, spec: Spec, selection: Selection | None) -> None:
        """spec: with gates by canonical metrics."""
        self._spec = spec
        self._selection = selection
        self._measured: list[tuple[str, list[Case]]] = []
        self._values: dict[str, float] = {}  # of the metric that variants are chosen by, where they are judged

    def add(self, variant: str, cases: Sequence[Case], value: float) -> bool:
        """Whether the variant is judged, and so one of those that corrections are over.

        value: of the metric that variants are chosen by, over all rows that are judged.
        """
        if variant == self._spec.baseline or not self._is_chosen(variant):
            return False
        self._measured.append((variant, list(cases)))
        self._values[variant] = value
        return True

    def verdicts(self) -> tuple[Verdict, ...]:
        """Of every variant but the baseline, in the spec's order."""
        judged = conclude(self._spec.gates, self._measured)
        return verdicts_of_all(self._selection, candidates(self._spec), judged)

    def notes(self) -> list[str]:
        """How variants were chosen; nothing where none were."""
        return [] if self._selection is None else selection_notes(self._selection, self._values)

    def _is_chosen(self, variant: str) -> bool:
        return self._selection is None or variant in self._selection.variants
