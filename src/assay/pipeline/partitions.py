"""Whether a part of the predictions has too many partitions: looked at in the first rows of the data, before any is
scored.

Not here: which columns may be partitions (`sinks/forms.py`), and what becomes of those that only a join finds to be too
many (`sinks/spool.py`).
"""

from __future__ import annotations

import pyarrow as pa

from assay.errors import DataError
from assay.expressions import Expressions
from assay.pipeline.columns import Columns
from assay.pipeline.prepare import Prepared
from assay.rows import WHERE
from assay.sinks.spool import MAX_PARTITIONS, Key, keys_of
from assay.spec.words import agree, count, listing

MOST_ROWS = 200_000
"""So many rows are looked at, or a few more, of one unit, whose rows are one part."""


def check_partitions_of_data(prepared: Prepared, columns: Columns) -> None:
    """DataError where columns that are carried over cut a part into too many partitions; of outputs nothing is known.

    columns: of the predictions.
    """
    said, source = prepared.spec.predictions, prepared.source
    carried = [field.name for field in columns.carried]
    names = [name for name in (said.partition_by if said is not None else ()) if name in carried]
    if not names or said is None or said.top_k is not None:  # the best rows of groups are too few to tell
        return
    where = prepared.spec.data.where
    passing = Expressions(source.schema, {} if where is None else {WHERE: where})
    unit, found, num_rows = prepared.plan.units[0], set[Key](), 0
    for chunk in source.read(unit, list(dict.fromkeys([*names, *passing.columns]))):
        rows = chunk.table.select(names)
        if where is not None:
            rows = rows.filter(passing.evaluate(chunk.table)[WHERE].cast(pa.bool_()).fill_null(False))
        found |= keys_of(rows, names)
        num_rows += len(rows)
        if len(found) > MAX_PARTITIONS or num_rows >= MOST_ROWS:
            break
    if len(found) > MAX_PARTITIONS:
        together = "" if len(names) == 1 else " together"
        raise DataError(
            f"predictions.partition_by: {listing(names)} {agree(len(names), 'has', 'have')} {len(found):,} "
            f"values{together} in {count(num_rows, 'row')} of {unit.path}, where a part may have {MAX_PARTITIONS} "
            "partitions at most, each a file of its own. Take columns with fewer values, or none."
        )
