"""Who is judged, by which gates, and what comes of it; the evidence comes variant by variant.

Lives here: what a run and a second judgement of it (`gate.py`) have in common. Not here: tables (`finish.py`).
"""

from __future__ import annotations

from assay.build import Metrics
from assay.gates.cases import Case, measure
from assay.gates.judge import conclude
from assay.gates.selection import Ranked, Selection, chosen_by, ranked, selection_notes, verdicts_of_all
from assay.pipeline.asked import confirm_of
from assay.records import Plan, Tally, Verdict
from assay.spec.model import Spec
from assay.stats.estimate import selection_values
from assay.stats.evidence import VariantEvidence


def chosen(spec: Spec, plan: Plan, metrics: Metrics, tally: Tally) -> Selection | None:
    """Who was chosen on the part of the clusters that serves to choose; None where the spec chooses nobody."""
    confirm = confirm_of(spec)
    if confirm is None:
        return None
    name, metric = chosen_by(confirm, metrics)
    task = next(one for one in plan.tasks if one.name == name)
    candidates = [variant.name for variant in spec.variants if variant.name != spec.baseline]
    values = selection_values(tally, plan, metric, task, candidates)
    order = ranked([Ranked(variant, values[variant]) for variant in candidates], metric.direction)
    return Selection(name, metric.name, confirm.fraction, confirm.keep, order)


class Judging:
    """Takes in the evidence on each variant in turn, and judges once it has all of it."""

    def __init__(self, spec: Spec, plan: Plan, selection: Selection | None) -> None:
        """spec: with gates by canonical metrics."""
        self._spec = spec
        self._plan = plan
        self._selection = selection
        self._measured: list[tuple[str, list[Case]]] = []
        self._values: dict[str, float] = {}  # of the metric that variants are chosen by, where they are judged

    def add(self, evidence: VariantEvidence) -> bool:
        """Whether the variant is judged, and so one of those that corrections are over."""
        if not evidence.compared or not self._is_chosen(evidence.variant):
            return False
        self._measured.append((evidence.variant, measure(self._spec.gates, evidence, self._plan.slices)))
        if self._selection is not None:
            self._values[evidence.variant] = _value(evidence, self._selection)
        return True

    def verdicts(self) -> tuple[Verdict, ...]:
        """Of every variant but the baseline, in the spec's order."""
        judged = conclude(self._spec.gates, self._measured)
        variants = [variant.name for variant in self._spec.variants if variant.name != self._spec.baseline]
        return verdicts_of_all(self._selection, variants, judged)

    def notes(self) -> list[str]:
        """How variants were chosen; nothing where none were."""
        return [] if self._selection is None else selection_notes(self._selection, self._values)

    def _is_chosen(self, variant: str) -> bool:
        return self._selection is None or variant in self._selection.variants


def _value(evidence: VariantEvidence, selection: Selection) -> float:
    """Over all rows that are judged."""
    task = next(one for one in evidence.tasks if one.task.name == selection.task)
    metric = next(one for one in task.metrics if one.metric.name == selection.metric)
    return float(metric.own.replicates.value[0])
