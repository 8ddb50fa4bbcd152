"""The recalibrated twins of metrics of probabilities, for a spec that says `recalibrate`.

Side by side they show ranking and calibration apart: what is left of a log loss after recalibration is what the order
of the rows costs, and the difference is what miscalibration costs.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.errors import Fault
from assay.metrics.calibration import ECE
from assay.metrics.probability import Brier, LogLoss
from assay.metrics.recalibrated import RecalibratedBrier, RecalibratedECE, RecalibratedLogLoss
from assay.protocols import Metric


def with_recalibrated(metrics: Iterable[Metric], method: str | None) -> list[Metric]:
    """The metrics, `log_loss`, `brier` and `ece` each followed by itself after recalibration; each name once.

    method: `isotonic` or `platt`; None: no recalibration. That outputs are probabilities is for the metrics to ask.

    >>> [one.name for one in with_recalibrated([LogLoss(), ECE(bins=16)], "isotonic")]
    ['log_loss', 'recalibrated_log_loss', 'ece(bins=16)', 'recalibrated_ece(bins=16)']
    """
    found: dict[str, Metric] = {}
    for metric in metrics:
        twin = None if method is None else _twin(metric, method)
        for one in (metric,) if twin is None else (metric, twin):
            found.setdefault(one.name, one)
    return list(found.values())


def recalibrate_fault(metrics: Iterable[Metric], method: str | None) -> Fault | None:
    """A spec that says `recalibrate` without effect. metrics: of all tasks."""
    if method is None or any(_twin(metric, method) is not None for metric in metrics):
        return None
    return Fault(
        "recalibrate",
        f"{method} changes nothing, since no task of 0/1 labels has the metric log_loss, brier or ece; name one of "
        "them, or take recalibrate out.",
    )


def _twin(metric: Metric, method: str) -> Metric | None:
    if type(metric) is LogLoss:
        return RecalibratedLogLoss(method=method)
    if type(metric) is Brier:
        return RecalibratedBrier(method=method)
    return RecalibratedECE(method=method, bins=metric.bins) if type(metric) is ECE else None
