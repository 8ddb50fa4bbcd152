"""What a plan says of predictions: format, place, partitions and columns, in words."""

from __future__ import annotations

from collections.abc import Sequence

from assay.pipeline import top_k
from assay.pipeline.apart import PREDICTIONS
from assay.pipeline.columns import PROVENANCE
from assay.pipeline.declared import MOST_NAMES, columns_of
from assay.protocols import Source
from assay.records import Task
from assay.spec.model import Spec
from assay.spec.words import count


def written_words(spec: Spec, tasks: Sequence[Task], source: Source) -> str:
    """Empty where none are written."""
    said = spec.predictions
    if said is None:
        return ""
    columns = columns_of(spec, tasks, source)
    best = top_k.ranked(spec, tasks, source, columns)
    names = (columns if best is None else best).schema.names
    given = [one.name for one in columns.outputs] if best is None else list(top_k.ADDED)
    added = [field.name for field in PROVENANCE] if columns.provenance else []
    carried = [name for name in names if name not in (*given, *added)]
    groups = {"carried over": carried, "of provenance": added, "of ranks" if best else "of variants": given}
    shown = {what: _names(several, said.partition_by) for what, several in groups.items()}
    listed = ", ".join(f"{len(several):,} {what} ({shown[what]})" for what, several in groups.items() if several)
    by = f", partitioned by {', '.join(said.partition_by)}" if said.partition_by else ""
    rows = "" if best is None else f"; of each {best.group.name} and variant the best {best.k}"
    place = said.to or f"{PREDICTIONS}/ of the run directory"
    return f"{said.format} in {place}{by}: {count(len(names), 'column')}: {listed}{rows}"


def _names(names: Sequence[str], partition_by: Sequence[str]) -> str:
    """The first of them, and all that partitions are made of."""
    told = [name for position, name in enumerate(names) if position < MOST_NAMES or name in partition_by]
    left_out = len(names) - len(told)
    return ", ".join(told) if not left_out else f"{', '.join(told)} and {left_out:,} more"
