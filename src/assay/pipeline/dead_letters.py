"""Why variants lack outputs, as the first dead letters say it.

Not here: how many rows there are of each variant, which the manifest has, and writing them (`join.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from assay.errors import RunError
from assay.pipeline.columns import REASON, VARIANT
from assay.records import Predictions
from assay.store.run import RunDirectory

DEAD_LETTER = "dead-letter"
"""Their folder in the run directory."""
MOST_FILES = 8
MOST_REASONS = 3


def first_reasons(directory: RunDirectory, found: Predictions) -> Mapping[str, tuple[str, ...]]:
    """Variant -> the first reasons that differ, of those with dead letters; of a few files, the first of the data.

    Where files cannot be read, that is said in the place of a reason.
    """
    reasons: dict[str, dict[str, None]] = {variant: {} for variant in found.dead}
    for part in found.dead_parts[:MOST_FILES]:
        for variant, reason in _pairs(directory, part.file.path, tuple(found.dead)):
            told = reasons.setdefault(variant, {})
            if len(told) < MOST_REASONS:
                told[reason] = None
        if all(reasons.values()):
            break
    return {variant: tuple(told) for variant, told in reasons.items()}


def _pairs(directory: RunDirectory, path: str, variants: tuple[str, ...]) -> list[tuple[str, str]]:
    """Variant and reason, each pair once, in the order of the rows."""
    try:
        with directory.store.open(f"{DEAD_LETTER}/{path}") as file:
            table = pq.ParquetFile(file).read(columns=[VARIANT, REASON], use_threads=False)
    except (RunError, pa.ArrowException) as error:
        return [(variant, str(error).split("\n")[0]) for variant in variants]
    pairs = table.group_by([VARIANT, REASON], use_threads=False).aggregate([])
    return list(zip(pairs[VARIANT].to_pylist(), pairs[REASON].to_pylist(), strict=True))
