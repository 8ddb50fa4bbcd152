"""A model scored as a whole, for tests that don't care about batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.protocols import Predictor


def score_all(predictor: Predictor, table: pa.Table) -> Mapping[str, NDArray[np.floating]]:
    return predictor.score(predictor.prepare(table), slice(0, table.num_rows))
