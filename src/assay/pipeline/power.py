"""What all the data could detect, from scoring a sample of them.

Lives here: the sample, scoring it in a directory of its own, and the arithmetic. Not here: how it is shown
(`report/power.py`). The standard error of a difference shrinks with the square root of the number of clusters, so a
sample says what all of them would come to.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from assay import build
from assay.errors import Fault, Interrupted, SpecError
from assay.gates.judge import ALPHA
from assay.gates.rules import rule_of, words_of
from assay.pipeline.asked import confirm_of
from assay.pipeline.finish import merged
from assay.pipeline.prepare import Prepared, prepare
from assay.pipeline.run import begin
from assay.records import Interval, Job, Plan, Progress, Tally, Undefined
from assay.report.power import Detectable, Needed, Power
from assay.spec.model import GateSpec, Spec
from assay.spec.words import count
from assay.stats.estimate import gather
from assay.stats.jackknife import critical, difference
from assay.store.log import CommitLog
from assay.store.run import RunDirectory

POWER = 0.8
PIECES = 16
"""A sample by units is made of about so many: rows that lie together are alike."""
LEAST_UNIT_ROWS = 1_024
ENOUGH_CLUSTERS = 300
"""With so many, all 64 buckets hold some; a sample that is too small is advised to have as many."""
_CELLS = 1_000_000

Report = Callable[[Progress], None]


class Sample(NamedTuple):
    """A run over a part of the data."""

    prepared: Prepared
    share: float  # of the clusters (of the rows, where no cluster is named)
    how: str  # a sentence


class Seen(NamedTuple):
    """One metric of one variant against the baseline, in the sample."""

    task: str
    metric: str
    variant: str
    difference: Interval
    baseline: float  # the baseline's value
    clusters: int  # estimated, of the sample


def power(spec: Spec, base: Path, frame: object, share: float, workers: int | None, report: Report) -> Power:
    """Score a sample of `share` of the data and say what all of them can detect.

    SpecError without a baseline, with two clusters, or for a share that is none; else what `prepare` and scoring raise.
    """
    whole = prepare(spec, base, frame)
    _check(whole.spec, share)
    sample = _by_cluster(whole, frame, share) if whole.spec.data.cluster is not None else _by_unit(whole, frame, share)
    with tempfile.TemporaryDirectory(prefix="assay-power-") as place:
        try:
            tally = _scored(sample.prepared, place, workers, report)
        except Interrupted:
            raise Interrupted("Stopped. Of a sample nothing is kept; the same command starts anew.") from None
        seen = list(_seen(sample.prepared, tally))
    return _concluded(whole.spec, sample, seen)


def detects(seen: Interval, family: int, degrees: int) -> float:
    """The difference that is detected with a power of 80 % with as many clusters as gave the interval; NaN without one.

    family: how many variants Holm's correction is over, at whose first step the test stands. degrees: of freedom that
    the test will have.
    """
    return (critical(ALPHA / family, degrees) + critical(1.0 - POWER, degrees)) * seen.standard_error


# ---- the sample ------------------------------------------------------------------------------------------------------


def _check(spec: Spec, share: float) -> None:
    if not 0.0 < share <= 1.0:
        raise SpecError(
            [Fault("--sample", f"got {share:g}; expected a share above 0 and up to 1, such as 0.01 or 1%.")]
        )
    if spec.baseline is None:
        raise SpecError([Fault("--sample", "says what difference to the baseline can be detected; name a baseline.")])
    if isinstance(spec.data.cluster, tuple):
        raise SpecError(
            [Fault("--sample", "is for data with one cluster; with two, no part of them keeps how rows depend.")]
        )


def _plain(spec: Spec) -> Spec:
    """Without what says nothing of all rows: slices, gates, the choice of the best."""
    changes = {"data": spec.data.model_copy(update={"slices": ()}), "gates": (), "confirm": None}
    return spec.model_copy(update=changes)


def _by_cluster(whole: Prepared, frame: object, share: float) -> Sample:
    """A cluster is wholly in the sample or out of it, by a hash of its name."""
    spec, names = _plain(whole.spec), whole.source.schema.names
    cluster = _as_sql(str(spec.data.cluster), names)
    condition = f"hash({cluster}, {spec.seed}) % {_CELLS} < {round(share * _CELLS)}"
    where = condition if spec.data.where is None else f"({_as_sql(spec.data.where, names)}) AND {condition}"
    data = spec.data.model_copy(update={"where": where})
    prepared = prepare(spec.model_copy(update={"data": data}), whole.base, frame)
    how = f"Sampled by cluster: all rows were read, those of {100 * share:.3g} % of the clusters scored."
    return Sample(prepared, share, how)


def _by_unit(whole: Prepared, frame: object, share: float) -> Sample:
    """The first units in the order of the plan's seed, which deals all parts of the data alike."""
    spec = _plain(whole.spec)
    if spec.execution.unit_rows is None and whole.num_rows is not None:
        rows = max(LEAST_UNIT_ROWS, math.ceil(whole.num_rows * share / PIECES))
        spec = spec.model_copy(update={"execution": spec.execution.model_copy(update={"unit_rows": rows})})
    prepared = prepare(spec, whole.base, frame)
    units, num_bundles = prepared.plan.units, max(1, len(prepared.plan.bundles))
    pieces = [units[first : first + num_bundles] for first in range(0, len(units), num_bundles)]
    taken = pieces[: max(1, math.ceil(share * len(pieces)))]
    known = [piece[0].num_rows for piece in taken if piece[0].num_rows is not None]
    total = prepared.plan.num_rows
    found = sum(known) / total if total and len(known) == len(taken) else len(taken) / len(pieces)
    how = f"Sampled by units: {len(taken)} of {count(len(pieces), 'unit')} scored, {100 * found:.3g} % of the rows."
    plan = replace(prepared.plan, units=tuple(unit for piece in taken for unit in piece))
    return Sample(replace(prepared, plan=plan), found, how)


def _as_sql(text: str, columns: Sequence[str]) -> str:
    """A text of the spec as a part of an expression: the name of a column must be quoted there."""
    return '"' + text.replace('"', '""') + '"' if text in columns else f"({text})"


def _scored(prepared: Prepared, place: str, workers: int | None, report: Report) -> Tally:
    """The tally of all units, scored in this process."""
    directory, plan = RunDirectory.create(place), prepared.plan
    with CommitLog(directory) as log:
        begin(directory, prepared, prepared.spec, log)
        job = Job(prepared.spec, plan, str(prepared.base), prepared.source, place)
        build.executor("local", workers, None).run(job, log, report)
        return merged(directory, log.files, plan)


# ---- from the sample to all data -------------------------------------------------------------------------------------


def _seen(prepared: Prepared, tally: Tally) -> Iterator[Seen]:
    spec, plan = prepared.spec, prepared.plan
    variants = [variant.name for variant in spec.variants]
    for evidence in gather(tally, plan, prepared.metrics, variants, spec.baseline):
        for task in evidence.tasks:
            for one in task.metrics:
                if one.pair is not None:
                    contrast = difference(one.pair.candidate.replicates, one.pair.baseline.replicates)
                    shown = one.pair.candidate.intervals_of(contrast).at(0)
                    base = float(one.pair.baseline.replicates.value[0])
                    yield Seen(task.task.name, one.metric.name, evidence.variant, shown, base, task.clusters)


def _concluded(spec: Spec, sample: Sample, seen: Sequence[Seen]) -> Power:
    confirm = confirm_of(spec)
    num_variants = len(spec.variants) - 1 if confirm is None else confirm.keep
    in_sample = max((one.clusters for one in seen), default=0)
    clusters = round(in_sample / sample.share * (1.0 if confirm is None else confirm.fraction))
    degrees = max(1, min(sample.prepared.plan.sizes.num_buckets, clusters) - 1)
    tell = _Teller(spec, sample.prepared.plan, num_variants, degrees, clusters)
    metrics = tuple(tell.of(group) for group in _by_metric(seen))
    reasons = {one.difference.undefined for one in seen}
    return Power(
        share=sample.share,
        sample_clusters=in_sample,
        clusters=clusters,
        num_variants=num_variants,
        how=sample.how,
        metrics=metrics,
        more=_enough(sample.share, in_sample, reasons) if sample.share < 1.0 else None,
    )


def _by_metric(seen: Sequence[Seen]) -> list[list[Seen]]:
    groups: dict[tuple[str, str], list[Seen]] = {}
    for one in seen:
        groups.setdefault((one.task, one.metric), []).append(one)
    return list(groups.values())


class _Teller(NamedTuple):
    """What is the same for all metrics."""

    spec: Spec
    plan: Plan
    num_variants: int
    degrees: int
    clusters: int

    def of(self, group: Sequence[Seen]) -> Detectable:
        """One metric of all variants, as far as they have an interval."""
        known = [one for one in group if one.difference.undefined is None]
        task, metric = group[0].task, group[0].metric
        if not known:
            return Detectable(task, metric, math.nan, math.nan, "", (), str(group[0].difference.undefined))
        found = [self._detects(one) for one in known]
        worst = int(np.argmax(found))
        return Detectable(
            task, metric, float(np.median(found)), found[worst], known[worst].variant,
            tuple(self._needed(gate, known[worst], found[worst]) for gate in self._gates(task, metric)), None,
        )  # fmt: skip

    def _detects(self, one: Seen) -> float:
        shrunk = math.sqrt(one.clusters / self.clusters) if self.clusters else math.nan
        return detects(one.difference, self.num_variants, self.degrees) * shrunk

    def _gates(self, task: str, metric: str) -> Iterator[GateSpec]:
        """Those on the metric's difference over all rows."""
        mine = [one for one in self.spec.gates if one.metric == metric and one.task in (None, task) and not one.slices]
        return (gate for gate in mine if rule_of(gate).kind in ("margin", "improve"))

    def _needed(self, gate: GateSpec, worst: Seen, detected: float) -> Needed:
        rule = rule_of(gate)
        margin = rule.limit * (abs(worst.baseline) if rule.relative else 1.0)
        clusters = math.ceil(self.clusters * (detected / margin) ** 2) if margin > 0.0 else None
        return Needed(words_of(gate), margin, clusters)


def _enough(share: float, clusters: int, reasons: set[Undefined | None]) -> float | None:
    """The share that would allow steady intervals, where this one does not for want of data; None where it does."""
    if clusters < ENOUGH_CLUSTERS:
        return min(1.0, share * ENOUGH_CLUSTERS / max(1, clusters))
    wanting = {
        Undefined.TOO_FEW_POSITIVES,
        Undefined.ONE_CLASS,
        Undefined.NO_POSITIVES,
        Undefined.ONE_CLUSTER_DECIDES,
        Undefined.HARDLY_DIFFERENT,
    }
    return min(1.0, 4.0 * share) if wanting & reasons else None
