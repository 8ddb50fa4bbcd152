"""What comes out of Ray's object store: waited for with a bound, and found to be what it was when it was measured.

Lives here: waiting for blocks that may have been lost, telling whether one was made again as it was, and sentences on
both. Not here: which blocks there are (`dataset.py`).

A block that went with its node is made again by Ray, in a task like the one that made it, which needs a CPU. Where
workers hold all CPUs that task never begins: so a worker gives up its place where blocks are lost and none comes back.
Where none is known to be lost its place is of no use to Ray, and it gives up only when the wait seems to have no end.
Both are a RunError, which is a loss of that worker alone as long as it does not keep happening (`losses.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
import xxhash
from ray.exceptions import GetTimeoutError, ObjectLostError, RayTaskError
from ray.experimental import get_object_locations

from assay.cluster.connect import first_line
from assay.errors import DataError, RunError
from assay.spec.words import agree, count

Reference = Any  # Any: Ray has two names for one type of reference
LEAST_PATIENCE_SECONDS, MOST_PATIENCE_SECONDS = 30.0, 600.0
"""Of the time between two counts of lost blocks; the greater is also how long is waited in all where none is lost."""
ASKED_SECONDS = 5.0
MARKED_ROWS = 16
FILES_INSTEAD = "Write the dataset to Parquet (ds.write_parquet) and evaluate the files"


class Expected(NamedTuple):
    """What a block is known again by: a step without a seed may make other rows the second time."""

    rows: int
    marks: Mapping[str, int]  # by column


def patience_for(seconds: float) -> float:
    """How long is waited between two counts of lost blocks, where the dataset took so long."""
    return min(max(seconds, LEAST_PATIENCE_SECONDS), MOST_PATIENCE_SECONDS)


def fetched(
    wanted: Reference, num_missing: Callable[[], int | None], what: str, patience: float
) -> Any:  # Any: Ray's own
    """What a reference gives.

    num_missing: blocks of the dataset that are gone, None where Ray does not say. what: "Rows 0 to 50", for sentences.

    Lost blocks are counted each time that `patience` seconds have gone by. RunError where a count finds blocks lost and
    no fewer than the one before, so after twice `patience` at the earliest; and where it finds none lost, and none come
    back since the one before, after MOST_PATIENCE_SECONDS in all. DataError where Ray cannot make a block again.
    """
    lost: int | None = None
    waited = 0.0
    while True:
        try:
            return ray.get(wanted, timeout=patience)
        except GetTimeoutError as error:
            waited += patience
            before, lost = lost, num_missing()
            if _is_in_vain(before, lost, waited):
                raise RunError(_late(what, waited, lost)) from error
        except ObjectLostError as error:
            raise _gone(what, error) from error
        except RayTaskError as error:
            if isinstance(error.cause, ObjectLostError):
                raise _gone(what, error.cause) from error
            raise


def num_lost(blocks: Sequence[Reference]) -> int | None:
    """How many are on no node, as small ones never are: they lie in the process that owns them. None where Ray does not
    say in time."""
    try:
        known = get_object_locations(list(blocks), timeout_ms=int(1000 * ASKED_SECONDS))
    except GetTimeoutError:
        return None
    return sum(not one["node_ids"] for one in known.values())


def marks_of(table: pa.Table, columns: Sequence[str]) -> dict[str, int]:
    """Of each column a hash of what it holds in some rows of a block, first and last among them."""
    positions = np.unique(np.linspace(0, table.num_rows - 1, MARKED_ROWS).astype(np.int64))
    return {name: _mark(table.column(name), pa.array(positions)) for name in columns}


def check_block(table: pa.Table, expected: Expected) -> None:
    """DataError when a block is not what it was."""
    if table.num_rows != expected.rows:
        how = f"has {count(table.num_rows, 'row')} where it had {expected.rows:,}"
    else:
        marks = marks_of(table, list(expected.marks))
        differing = [name for name, mark in expected.marks.items() if marks[name] != mark]
        how = f"has other values of {differing[0]!r}" if differing else ""
    if how:
        raise DataError(
            f"A block of the dataset was lost with its node, was made again, and {how}: a step of the dataset gives "
            "other rows each time, so that some would count twice and others never. Give that step a seed. "
            f"{FILES_INSTEAD} where it has none."
        )


def _mark(column: pa.ChunkedArray, positions: pa.Array) -> int:
    """Of the values alone: not of how they are cut into chunks, or of what lies under nulls."""
    if not len(column):
        return 0
    some = column.take(positions)
    kind = some.type
    if isinstance(kind, pa.BaseExtensionType):
        some = pa.chunked_array([chunk.storage for chunk in some.chunks], kind.storage_type)
    elif pa.types.is_dictionary(kind):
        some = some.cast(kind.value_type)
    sink = pa.BufferOutputStream()
    one = pa.table({"": some.combine_chunks()})
    with pa.ipc.new_stream(sink, one.schema) as stream:
        stream.write_table(one)
    return xxhash.xxh3_64_intdigest(sink.getvalue())


def _is_in_vain(before: int | None, lost: int | None, waited: float) -> bool:
    """before, lost: two counts of lost blocks, one after the other; None where there was no count."""
    if lost:
        return before is not None and lost >= before
    return not before and waited >= MOST_PATIENCE_SECONDS


def _late(what: str, seconds: float, lost: int | None) -> str:
    late = f"{what} of the dataset have not come for {seconds:.0f} seconds"
    if not lost:
        known = (
            "though Ray names no block that is gone" if lost == 0 else "and Ray does not say whether blocks are gone"
        )
        return (
            f"{late}, {known}: a node may be out of reach, or an object store full. "
            "`ray status` shows the nodes, `ray memory --stats-only` the object stores. Where one is full, start the "
            "nodes with a larger one (`ray start --object-store-memory`), or name fewer `workers`. "
            f"{FILES_INSTEAD} where that is no way."
        )
    return (
        f"{late}. {count(lost, 'block')} of it went with {agree(lost, 'its node', 'their nodes')}, and none is made "
        "again: the workers may hold all CPUs of the Ray cluster. Name fewer `workers`, so that one stays free. "
        f"{FILES_INSTEAD} where that is no way."
    )


def _gone(what: str, error: Exception) -> DataError:
    return DataError(
        f"{what} of the dataset cannot be had: a block went with its node, and Ray cannot make it again "
        f"({first_line(error).rstrip('.')}). {FILES_INSTEAD}."
    )
