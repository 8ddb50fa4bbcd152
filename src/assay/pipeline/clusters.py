"""Which clusters have a bucket of their own: all of them where they are few, fixed in the plan by their hashes.

Lives here: looking at the cluster columns before the first row is scored. Not here: the bucket of a row (`partial.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.expressions import Expressions
from assay.hashing import hash_values, pair_hash
from assay.protocols import Source
from assay.records import Unit
from assay.rows import WHERE, cluster_texts
from assay.spec.model import DataSpec

PASS_ROWS = 20_000_000
"""Up to so many rows, the cluster columns are read once from end to end where a sample finds few clusters."""

Hashes = NDArray[np.uint64]
Found = list[Hashes]
"""Distinct hashes, increasing: of the one cluster, or of the first, of the second and of both."""


def fit_clusters(
    data: DataSpec, source: Source, seed: int, drawn: pa.Table, num_rows: int | None, most: int
) -> tuple[tuple[int, ...], ...]:
    """`Plan.clusters`: the hashes of at most `most` clusters, () where there are more.

    drawn: a sample of `cluster_columns`. Where it shows few clusters, all rows are looked at if they are known to be at
    most 20 million; else the clusters of the sample have their buckets, and others that may come share them.
    """
    if not cluster_texts(data):
        return ((),)
    expressions = Expressions(source.schema, _texts(data))
    found = _found(expressions.evaluate(drawn), data, seed)
    looks = num_rows is not None and drawn.num_rows < num_rows <= PASS_ROWS
    for table in _tables(source, expressions.columns) if looks else ():
        if all(len(hashes) > most for hashes in found):
            break
        more = _found(expressions.evaluate(table), data, seed)
        found = [_united(one, other, most) for one, other in zip(found, more, strict=True)]
    return tuple(tuple(hashes.tolist()) if len(hashes) <= most else () for hashes in found)


def cluster_columns(data: DataSpec, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that `fit_clusters` needs; () when it needs none. DataError when a text is wrong."""
    return Expressions(schema, _texts(data)).columns if cluster_texts(data) else ()


def _texts(data: DataSpec) -> dict[str, str]:
    return cluster_texts(data) | ({WHERE: data.where} if data.where is not None else {})


def _tables(source: Source, columns: Sequence[str]) -> Iterator[pa.Table]:
    for fragment in source.fragments:
        for chunk in source.read(Unit("clusters", fragment.path, 0, None, 0), columns):
            yield chunk.table


def _found(roles: pa.Table, data: DataSpec, seed: int) -> Found:
    """In the rows that pass the filter and where no cluster is null."""
    if data.where is not None:
        roles = roles.filter(roles[WHERE].cast(pa.bool_()).fill_null(False))
    hashed = [hash_values(roles[label], seed) for label in cluster_texts(data)]
    known = ~np.logical_or.reduce([missing for _, missing in hashed])
    several = [hashes[known] for hashes, _ in hashed]
    if len(several) > 1:
        several.append(pair_hash(*several))
    return [np.unique(hashes) for hashes in several]


def _united(one: Hashes, other: Hashes, most: int) -> Hashes:
    """Both, or the first alone where it has too many already."""
    return one if len(one) > most else np.union1d(one, other)
