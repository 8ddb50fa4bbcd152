"""Any two variants of a finished run compared, from its states: no data are read.

Lives here: what is compared, as a table. Not here: the pairing (`stats/estimate.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assay import catalogue
from assay.errors import RunError, Unfinished
from assay.merge import listed
from assay.pipeline.finish import has_results, unfinished
from assay.pipeline.run import expanded_spec, saved_plan
from assay.pipeline.shards import Leaf, reduction_of
from assay.spec.names import offer
from assay.stats.estimate import compare_any
from assay.stats.evidence import Estimate, MetricEvidence, VariantEvidence
from assay.stats.tables import tabulate
from assay.store.log import read_committed
from assay.store.run import RunDirectory

COLUMNS = (
    *("task", "metric", "slice", "rows", "value", "other_value", "difference", "low", "high", "p_value"),
    *("interval", "undefined"),
)


def compare(out: str, variant: str, other: str, metrics: Sequence[str] = (), slices: Sequence[str] = ()) -> pa.Table:
    """A row per task, metric and slice: both values, variant - other with its interval and p-value, or why not.

    Values and difference are over the rows that both scored; where that cannot be had, values are over each one's own
    rows and the difference is undefined. metrics, slices: only these; all when empty. RunError for a name that the run
    does not have, Unfinished when it is not finished.
    """
    directory = RunDirectory.open(out)
    if not has_results(directory):
        raise Unfinished(unfinished(directory))
    spec, plan = expanded_spec(directory), saved_plan(directory)
    for name in (variant, other):
        _check("variant", name, [one.name for one in spec.variants])
    for name in metrics:
        _check("metric", name, [name for task in plan.tasks for name in task.metrics])
    for name in slices:
        _check("slice", name, plan.slices.names)
    reduction = reduction_of(directory, spec, plan)
    tally = reduction.read(Leaf(listed(read_committed(directory).files), (variant, other)))
    evidence = compare_any(tally, plan, catalogue.metrics_of(plan.tasks), variant, other, spec.baseline)
    table = _table(evidence, plan.slices.names)
    for column, kept in (("metric", metrics), ("slice", slices)):
        if kept:
            table = table.filter(pc.is_in(table[column], pa.array(kept)))
    return table


def _check(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise RunError(f"There is no {what} {name!r} in this run{offer(name, known)}")


def _table(evidence: VariantEvidence, slices: Sequence[str]) -> pa.Table:
    """The comparisons, with both values beside the difference."""
    compared = tabulate(evidence, slices).comparisons
    values = [(np.zeros(0), np.zeros(0)), *_values(evidence)]
    for end, name in enumerate(("value", "other_value")):
        column = np.concatenate([both[end] for both in values])
        compared = compared.append_column(name, pa.array(column, mask=np.isnan(column)))
    return compared.select(COLUMNS)


def _values(evidence: VariantEvidence) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Of each metric, in the order of the comparisons."""
    for task in evidence.tasks:
        for one in task.metrics:
            yield _shown(one, one.own, first=True), _shown(one, one.baseline_own, first=False)


def _shown(one: MetricEvidence, own: Estimate | None, *, first: bool) -> NDArray[np.float64]:
    """The values behind the difference, and where there is none the variant's own."""
    assert one.pair is not None, "two variants were compared"
    assert own is not None, "two variants were compared"
    behind = (one.pair.candidate if first else one.pair.baseline).replicates.value
    return np.where(np.isnan(behind), own.replicates.value, behind)
