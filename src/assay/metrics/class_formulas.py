"""Precision, recall and F1 of each class or label, and their averages, as plain functions of counts.

Averages over classes are over those whose value is defined: a class that no row has has no recall, one that is never
predicted no precision, and one that is neither no F1. So a class that is declared and absent changes nothing. How many
entered is the number of points of the curves `class_recall` and `class_precision`.

Axes: S slices, C classes or labels. Counts have a last axis of three: actual, predicted, both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from assay.metrics.pooled import divide
from assay.records import Curve, Floats, State
from assay.states import ints

Quantity = Literal["precision", "recall", "f1"]
Average = Literal["macro", "micro", "weighted"]


def per_class(quantity: Quantity, counts: Floats) -> Floats:
    """Precision, recall or F1 [...] of counts [..., 3]; NaN where it is undefined."""
    actual, predicted, both = (counts[..., i] for i in range(3))
    if quantity == "precision":
        return divide(both, predicted)
    return divide(both, actual) if quantity == "recall" else divide(2.0 * both, actual + predicted)


def average_of(quantity: Quantity, average: Average, counts: Floats) -> Floats:
    """Over the classes of counts [..., C, 3], those where it is defined; NaN where there are none.

    macro: their plain mean. weighted: by the weight of each class's rows. micro: of the counts of all classes together.

    >>> counts = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    >>> [float(average_of("precision", one, counts)) for one in ("macro", "weighted", "micro")]
    [0.5, 1.0, 0.5]
    """
    if average == "micro":
        return per_class(quantity, counts.sum(axis=-2))
    return mean_of(per_class(quantity, counts), counts[..., 0] if average == "weighted" else None)


def mean_of(values: Floats, weight: Floats | None = None) -> Floats:
    """The mean [...] of the values [..., C] that are not NaN; NaN where there are none."""
    defined = ~np.isnan(values)
    share = defined.astype(np.float64) if weight is None else np.where(defined, weight, 0.0)
    return divide((np.where(defined, values, 0.0) * share).sum(axis=-1), share.sum(axis=-1))


def class_curves(state: State, weight_unit: float, names: Mapping[Quantity, str]) -> tuple[Curve, ...]:
    """Per slice a curve for precision and one for recall: class number (x) and value (y) where it is defined.

    Behind each point: the rows and their weight that are predicted (of that class, for recall), and the weight of those
    that are both.
    """
    rows, weight = ints(state, "rows"), ints(state, "weight").astype(np.float64)
    curves = []
    for quantity, name in names.items():
        values, below = per_class(quantity, weight), 1 if quantity == "precision" else 0
        for one in range(len(weight)):
            x = np.flatnonzero(~np.isnan(values[one]))
            behind, real = rows[one, x, below], weight[one, x] * weight_unit
            if len(x):
                y = values[one, x]
                curves.append(Curve(name, one, x.astype(np.float64), y, behind, real[:, below], real[:, 2]))
    return tuple(curves)
