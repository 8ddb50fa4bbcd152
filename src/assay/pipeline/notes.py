"""What a reader must be told beside the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from assay import build, catalogue
from assay.catalogue import Metrics
from assay.ledgers import VariantLedger
from assay.metrics.own import own_sum
from assay.metrics.ranking_states import ranking_state
from assay.pipeline.asked import output_kinds
from assay.protocols import Source
from assay.records import OwnMetric, Plan, StateChoice, StateKey, Tally, Task
from assay.spec.model import GateSpec, Spec
from assay.spec.task_checks import has_label
from assay.spec.words import count, listing
from assay.stats.resolution import resolution_notes
from assay.stats.tables import Tables


def notes_of(spec: Spec, source: Source, plan: Plan) -> tuple[str, ...]:
    """Sentences, in the order in which they are shown, as known before the first row is scored."""
    return (
        *_about_spec(spec, source),
        *_about_memory(spec),
        *_about_batches(spec, plan),
        *_about_bits(spec, plan),
        *_about_intervals(spec, plan),
        *_about_twins(plan.fingerprints),
    )


def notes_on_resolution(plan: Plan, metrics: Metrics, found: Tables) -> tuple[str, ...]:
    """Where binned scores are too coarse for what was found."""
    ranked = {
        (task.name, metric.name)
        for task in plan.tasks
        for metric in metrics[task.name]
        for accumulator in metric.accumulators(plan.choice.of(task))
        if accumulator.identity == ranking_state(plan.choice).identity
    }
    return resolution_notes(found.metrics, found.comparisons, ranked, plan.choice.ranking_bits)


class LeftOut(NamedTuple):
    """Rows of one variant that a function of the spec's own gave no value, of the rows that are judged."""

    task: str
    metric: str  # of the spec's own
    rows: int
    scored: int


def left_out(plan: Plan, tally: Tally, variant: str) -> tuple[LeftOut, ...]:
    """Of each function of the spec's own; nothing of one of which the variant has no states."""
    found = []
    for task in plan.tasks:
        ledger = tally.states.get(StateKey(task.name, variant, VariantLedger.identity, "scored"))
        for own in task.own:
            state = tally.states.get(StateKey(task.name, variant, own_sum(own).identity, "scored"))
            if ledger is not None and state is not None:
                scored = int(ledger["scored"][0])
                found.append(LeftOut(task.name, own.name, scored - int(state["rows"][0].sum()), scored))
    return tuple(found)


def notes_on_own(plan: Plan, found: Mapping[str, Sequence[LeftOut]]) -> tuple[str, ...]:
    """Where a function of the spec's own gave NaN, so that rows do not enter its mean. found: by variant."""
    return tuple(sentence for task in plan.tasks for own in task.own for sentence in _left_out(task, own, plan, found))


def _left_out(task: Task, own: OwnMetric, plan: Plan, found: Mapping[str, Sequence[LeftOut]]) -> Iterator[str]:
    """One sentence for all variants of which as many rows are left out."""
    alike: dict[tuple[int, int], list[str]] = {}
    for variant in plan.fingerprints:
        for one in found.get(variant, ()):
            if (one.task, one.metric) == (task.name, own.name):
                alike.setdefault((one.rows, one.scored), []).append(variant)
    for (missing, scored), variants in alike.items():
        if missing:
            every = len(variants) == len(plan.fingerprints)
            whom = "every variant" if every and len(variants) > 1 else listing(variants)
            yield f"{own.name} is a mean without {missing:,} of {count(scored, 'row')} of {whom}: no value there (NaN)."


def _about_spec(spec: Spec, source: Source) -> Iterator[str]:
    time = spec.data.time
    if time is not None and source.first_values(time) is None:
        yield f"data.time has no effect: the files do not record the range of {time!r}."
    if not any(has_label(task) for task in build.task_specs(spec).values()):
        return
    if not spec.metrics and None in output_kinds(spec).values():
        yield (
            "Only ranking is measured, since the spec does not say what the scores are. Say that they are a "
            "probability (output: {is: probability}, or --output probability) for log loss and calibration."
        )
    if spec.data.cluster is None:
        yield (
            "No cluster is named, so every row counts as independent. If a user or session has several rows, name it "
            "as the cluster: intervals are too narrow otherwise."
        )


def _about_memory(spec: Spec) -> Iterator[str]:
    said = [variant.name for variant in spec.variants if variant.memory_bytes is not None]
    if said and spec.budget.model_bytes is None:
        yield f"memory_bytes of {listing(said)} has no effect: the spec sets no budget.model_bytes."


def _about_batches(spec: Spec, plan: Plan) -> Iterator[str]:
    own = {name for name, made_by in build.made_by(spec.variants).items() if spec.prepare[made_by].batch_rows}
    minding = [name for name, rows in plan.batch_rows.items() if rows is not None]
    if minding and spec.execution.micro_batch is not None and own.issuperset(minding):
        yield "execution.micro_batch has no effect: every variant that minds has a preparation with batch_rows."
    if spec.execution.micro_batch is not None and not minding:
        yield "execution.micro_batch has no effect: no variant is of a kind whose scores depend on rows per call."


def _about_bits(spec: Spec, plan: Plan) -> Iterator[str]:
    if spec.budget.auc_bits is not None and plan.choice.exact_ranking:
        yield "budget.auc_bits has no effect: the rows are few enough for every distinct score to be kept."


def _about_intervals(spec: Spec, plan: Plan) -> Iterator[str]:
    """Of gates that no number of rows decides, since the budget left out the states behind their intervals."""
    whole = plan.choice.bucketed == "overall"  # all rows have theirs
    gates = [gate for gate in spec.gates if gate.slices or not whole]
    names = [name for task in plan.tasks for gate in gates if (name := _without_interval(gate, task, plan.choice))]
    if names:
        yield (
            f"Gates on {listing(dict.fromkeys(names))}{' in slices' if whole else ''} stay undecided, since the budget "
            "leaves no interval there. Raise budget.state_bytes, or evaluate fewer variants, slices or metrics at once."
        )


def _without_interval(gate: GateSpec, task: Task, choice: StateChoice) -> str | None:
    """The gate's metric, where it is one of the task's and its states would be others if the budget held all."""
    if gate.metric not in task.metrics or gate.task not in (None, task.name):
        return None
    metric, chosen = catalogue.metric_of(task, gate.metric), choice.of(task)
    return gate.metric if metric.accumulators(chosen) != metric.accumulators(replace(chosen, bucketed="all")) else None


def _about_twins(fingerprints: Mapping[str, str]) -> Iterator[str]:
    """Of each set of variants with one fingerprint."""
    twins: dict[str, list[str]] = {}
    for variant, fingerprint in fingerprints.items():
        twins.setdefault(fingerprint, []).append(variant)
    for names in twins.values():
        if len(names) > 1:
            yield f"{' and '.join(map(repr, names))} are the same: the same columns, or weights, code and settings."
