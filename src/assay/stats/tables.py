"""The result tables of a run: their Arrow schemas and their rows. The schemas are a public interface.

An undefined value is null, with the reason in `undefined`; a value without interval has null limits, with the reason.
NaN and infinity are values like others. Axes: S slices, B buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from assay.records import Undefined
from assay.spec.model import OVERALL
from assay.stats.benjamini_hochberg import q_values
from assay.stats.evidence import Coverage, MetricEvidence, Pair, TaskEvidence, VariantEvidence
from assay.stats.jackknife import Intervals, difference, two_sided


def _schema(text: Sequence[str], numbers: Mapping[str, pa.DataType], last: Sequence[str] = ()) -> pa.Schema:
    fields = [(name, pa.string()) for name in text]
    return pa.schema([*fields, *numbers.items(), *((name, pa.string()) for name in last)])


METRICS = _schema(
    ("variant", "task", "metric", "slice"),
    {"rows": pa.int64(), **dict.fromkeys(("weight", "value", "low", "high", "error_bound"), pa.float64())},
    ("interval", "undefined"),
)
COMPARISONS = _schema(
    ("variant", "baseline", "task", "metric", "slice"),
    {
        "rows": pa.int64(),
        **dict.fromkeys(
            ("difference", "low", "high", "p_value", "q_value", "simultaneous_low", "simultaneous_high"), pa.float64()
        ),
    },
    ("interval", "undefined"),
)
CURVES = _schema(
    ("variant", "task", "curve", "slice"),
    {"x": pa.float64(), "y": pa.float64(), "rows": pa.int64(), "weight": pa.float64(), "positive_weight": pa.float64()},
)
_COUNTS = ("rows_read", "rows_filtered", "null_label", "null_weight", "null_score", "failed", "scored")
COVERAGE = _schema(("variant", "task", "slice"), {**dict.fromkeys(_COUNTS, pa.int64()), "weight": pa.float64()})


@dataclass(frozen=True, slots=True)
class Tables:
    """The result tables, of one variant or of all."""

    metrics: pa.Table
    comparisons: pa.Table
    curves: pa.Table
    coverage: pa.Table


def tabulate(evidence: VariantEvidence, slices: Sequence[str]) -> Tables:
    """The rows of one variant. slices: length S, the slices' names."""
    metrics, comparisons, curves, coverage = [], [], [], []
    for one in evidence.tasks:
        keys = {"variant": evidence.variant, "task": one.task.name}
        for metric in one.metrics:
            metrics.append(_metric_rows(keys, metric, slices))
            if metric.pair is not None:
                comparisons.append(_comparison_rows(keys, str(evidence.baseline), metric, metric.pair, slices))
        curves.extend(_curve_rows(keys, one, slices))
        coverage.append(_coverage_rows(keys, one.coverage, slices))
    return Tables(
        _concatenate(METRICS, metrics),
        _concatenate(COMPARISONS, comparisons),
        _concatenate(CURVES, curves),
        _concatenate(COVERAGE, coverage),
    )


def concatenate(parts: Iterable[Tables]) -> Tables:
    """One set of tables from those of all variants, whose memory they share: together they are large."""
    parts = tuple(parts)
    return Tables(
        pa.concat_tables([METRICS.empty_table(), *(part.metrics for part in parts)]),
        pa.concat_tables([COMPARISONS.empty_table(), *(part.comparisons for part in parts)]),
        pa.concat_tables([CURVES.empty_table(), *(part.curves for part in parts)]),
        pa.concat_tables([COVERAGE.empty_table(), *(part.coverage for part in parts)]),
    )


def with_simultaneous(comparisons: pa.Table, limits: Mapping[tuple[str, str, str], tuple[float, float]]) -> pa.Table:
    """Comparisons with their simultaneous intervals over all rows: (variant, task, metric) -> (low, high)."""
    places = np.flatnonzero(pc.equal(comparisons["slice"], OVERALL).to_numpy())
    overall = comparisons.filter(pc.equal(comparisons["slice"], OVERALL))
    keys = zip(*(overall[name].to_pylist() for name in ("variant", "task", "metric")), strict=True)
    found = np.array([limits.get(key, (np.nan, np.nan)) for key in keys]).reshape(-1, 2)
    for end, name in enumerate(("simultaneous_low", "simultaneous_high")):
        column = np.full(comparisons.num_rows, np.nan)
        column[places] = found[:, end]
        at = comparisons.schema.get_field_index(name)
        comparisons = comparisons.set_column(at, name, pa.array(column, mask=np.isnan(column)))
    return comparisons


def _metric_rows(keys: Mapping[str, str], evidence: MetricEvidence, slices: Sequence[str]) -> pa.Table:
    own = evidence.own
    shown = own.intervals()
    numbers = {"rows": own.rows, "weight": own.weight, **_interval_columns("value", shown, own.replicates.reason)}
    bound = _nullable(own.replicates.error_bound, own.replicates.reason)
    return _table(METRICS, {**keys, "metric": evidence.metric.name}, slices, {**numbers, "error_bound": bound})


def _comparison_rows(
    keys: Mapping[str, str], baseline: str, evidence: MetricEvidence, pair: Pair, slices: Sequence[str]
) -> pa.Table:
    contrast = difference(pair.candidate.replicates, pair.baseline.replicates)
    shown = pair.candidate.intervals_of(contrast)
    p = two_sided(shown)
    unknown = pa.nulls(len(slices), pa.float64())  # until all variants are known
    numbers = {
        "rows": pair.candidate.rows,
        **_interval_columns("difference", shown, contrast.reason),
        "p_value": _nullable(p, shown.undefined),
        "q_value": _exploratory(p),
        "simultaneous_low": unknown,
        "simultaneous_high": unknown,
    }
    return _table(COMPARISONS, {**keys, "baseline": baseline, "metric": evidence.metric.name}, slices, numbers)


def _exploratory(p: NDArray[np.float64]) -> pa.Array:
    """q-values over the slices of one variant and metric; none for `overall`, which is no find among many."""
    q = np.concatenate([np.full(min(len(p), 1), np.nan), q_values(p[1:])])
    return pa.array(q, pa.float64(), mask=np.isnan(q))


def _curve_rows(keys: Mapping[str, str], evidence: TaskEvidence, slices: Sequence[str]) -> list[pa.Table]:
    curves = evidence.curves
    if not curves:
        return []
    lengths = [len(one.x) for one in curves]
    numbers = {
        name: np.concatenate([getattr(one, name) for one in curves]) for name in ("x", "y", "weight", "positive_weight")
    }
    counts = [np.zeros(len(one.x), np.int64) if one.rows is None else one.rows for one in curves]
    unknown = np.repeat([one.rows is None for one in curves], lengths)
    texts = {
        "curve": _repeated([one.curve for one in curves], lengths),
        "slice": _repeated([slices[one.slice] for one in curves], lengths),
    }
    rows = pa.array(np.concatenate(counts), mask=unknown)
    return [_table(CURVES, keys, texts["slice"], {**numbers, "rows": rows, "curve": texts["curve"]})]


def _repeated(texts: Sequence[str], times: Sequence[int]) -> pa.Array:
    """Each text so many times."""
    return pa.array(texts, pa.string()).take(pa.array(np.repeat(np.arange(len(texts)), times)))


def _coverage_rows(keys: Mapping[str, str], coverage: Coverage, slices: Sequence[str]) -> pa.Table:
    numbers = {name: getattr(coverage, name) for name in (*_COUNTS, "weight") if name != "rows_filtered"}
    only_overall = [coverage.rows_filtered, *[None] * (len(slices) - 1)]
    return _table(COVERAGE, keys, slices, {**numbers, "rows_filtered": pa.array(only_overall, pa.int64())})


def _interval_columns(name: str, shown: Intervals, reason: Sequence[Undefined | None]) -> dict[str, Any]:
    """Any: a pyarrow array, which is untyped here."""
    return {
        name: _nullable(shown.value, reason),
        "low": _nullable(shown.low, shown.undefined),
        "high": _nullable(shown.high, shown.undefined),
        "interval": pa.array(shown.method, pa.string()),
        "undefined": pa.array([None if why is None else why.value for why in shown.undefined], pa.string()),
    }


def _nullable(values: NDArray[np.float64], reason: Sequence[Undefined | None]) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.array([why is not None for why in reason], np.bool_))


def _table(
    schema: pa.Schema, keys: Mapping[str, str], slices: Sequence[str] | pa.Array, numbers: Mapping[str, ArrayLike]
) -> pa.Table:
    texts = {name: pa.repeat(pa.scalar(text, pa.string()), len(slices)) for name, text in keys.items()}
    names = slices if isinstance(slices, pa.Array) else pa.array(slices, pa.string())
    columns = {**texts, "slice": names, **numbers}
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _concatenate(schema: pa.Schema, parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
