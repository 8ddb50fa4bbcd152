"""Shares that rest on few rows: with four errors among a hundred thousand rows, four say how far the share may be off.

An interval around such a value is too narrow on the side of more of them. Two variants that differ in many rows may
well be compared, so it is the value alone that goes without. Axes: S slices, B buckets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.records import Floats, Replicates, Undefined

FEWEST_BUCKETS = 10
"""With events in fewer there is no interval of their share."""


def unless_rare(known: Replicates, *events: Floats) -> Replicates:
    """Without an interval of the value in slices where one of the events is in too few buckets.

    events: the weight of the rows where each is seen, pooled [S, 1 + B]: less without a bucket where it is seen.
    """
    seen = [(one[:, 1:] < one[:, :1]).sum(axis=1) for one in events]
    few = np.min(seen, axis=0) < FEWEST_BUCKETS
    return replace(known, alone=tuple(Undefined.RARE if one else None for one in few))
