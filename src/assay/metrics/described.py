"""What every metric says of itself, so that a metric names only what is particular to it.

Not here: how values come about (`pooled.py` and its siblings).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from assay.protocols import Direction
from assay.records import Curve, LabelKind, State, StateChoice


class DescribedMetric(ABC):
    """The part of `protocols.Metric` that is constant in a class: of a 0/1 label, from any score, without curves."""

    description: ClassVar[str]
    label_kind: ClassVar[LabelKind | None] = "binary"
    needs_probability: ClassVar[bool] = False
    needs_baseline: ClassVar[bool] = False
    needs_interval: ClassVar[bool] = False
    needs_outputs: ClassVar[bool] = False
    direction: ClassVar[Direction] = None
    nonnegative: ClassVar[bool] = True

    def curves(self, states: Mapping[str, State], choice: StateChoice, weight_unit: float) -> tuple[Curve, ...]:
        return ()
