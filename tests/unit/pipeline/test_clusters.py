"""Which clusters the plan gives a bucket of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from assay.hashing import hash_values, pair_hash
from assay.pipeline import clusters
from assay.pipeline.clusters import cluster_columns, fit_clusters
from assay.records import Chunk, Fragment, Unit
from assay.spec.model import DataSpec

SEED = 5


@dataclass
class Parts:
    """A file in chunks; counts those that are read."""

    tables: Sequence[pa.Table]
    read_chunks: list[int] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        return self.tables[0].schema

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        return (Fragment("x", 1, "", tuple(table.num_rows for table in self.tables)),)

    def read(self, unit: Unit, columns: Sequence[str]) -> Iterator[Chunk]:
        for position, table in enumerate(self.tables):
            self.read_chunks.append(position)
            yield Chunk(unit.path, 0, table.select(columns))


def table(shop: Sequence[object], day: Sequence[object] | None = None) -> pa.Table:
    return pa.table({"shop": shop, "day": [0] * len(shop) if day is None else day, "x": range(len(shop))})


def hashes(values: Sequence[object]) -> np.ndarray:
    return hash_values(pa.array(values), SEED)[0]


def fit(data: DataSpec, *parts: pa.Table, drawn: pa.Table | None = None, known: bool = True, most: int = 4) -> tuple:
    rows = sum(part.num_rows for part in parts) if known else None
    sample = parts[0] if drawn is None else drawn
    return fit_clusters(data, Parts(parts), SEED, sample, rows, most)


def test_few_clusters_have_a_bucket_each_in_the_order_of_their_hashes() -> None:
    found = fit(DataSpec(cluster="shop"), table(["a", "b", None, "b", "c"]))
    assert found == (tuple(sorted(hashes(["a", "b", "c"]).tolist())),)


def test_what_the_sample_lacks_is_found_by_one_pass() -> None:
    found = fit(DataSpec(cluster="shop"), table(["a", "b"]), table(["c", "a"]))
    assert found == (tuple(sorted(hashes(["a", "b", "c"]).tolist())),)


def test_more_than_there_are_buckets_are_hashed_and_the_pass_ends_there() -> None:
    parts = Parts([table(["a"]), table(list("bcdef")), table(["g"]), table(["h"])])
    assert fit_clusters(DataSpec(cluster="shop"), parts, SEED, table(["a"]), 8, 4) == ((),)
    assert parts.read_chunks == [0, 1, 2]


@pytest.mark.parametrize("rows", [None, clusters.PASS_ROWS + 1])
def test_of_rows_too_many_or_not_known_the_sample_decides(rows: int | None) -> None:
    parts = Parts([table(["a"]), table(["b"])])
    found = fit_clusters(DataSpec(cluster="shop"), parts, SEED, table(["a"]), rows, 4)
    assert found == ((int(hashes(["a"])[0]),),)
    assert parts.read_chunks == []


def test_only_rows_that_pass_the_filter_count() -> None:
    data = DataSpec(cluster="shop", where="x < 3")
    assert fit(data, table(["a", "b", "b", "c"])) == (tuple(sorted(hashes(["a", "b"]).tolist())),)


def test_of_two_clusters_each_is_looked_at_and_so_are_both_together() -> None:
    shop, day = ["a", "a", "b", None], [1, 2, 2, 3]
    found = fit(DataSpec(cluster=("shop", "day")), table(shop, day), most=2)
    assert found[:2] == (tuple(sorted(hashes(["a", "b"]).tolist())), tuple(sorted(hashes([1, 2]).tolist())))
    assert found[2] == ()
    pairs = pair_hash(hashes(["a", "a", "b"]), hashes([1, 2, 2]))
    assert fit(DataSpec(cluster=("shop", "day")), table(shop, day))[2] == tuple(sorted(pairs.tolist()))


def test_an_expression_is_a_cluster_too_and_without_one_nothing_is_read() -> None:
    assert len(fit(DataSpec(cluster="x // 2"), table(["a"] * 6))[0]) == 3
    assert fit(DataSpec(), table(["a"])) == ((),)
    assert cluster_columns(DataSpec(), table(["a"]).schema) == ()
    assert cluster_columns(DataSpec(cluster=("shop", "day"), where="x > 1"), table(["a"]).schema) == (
        "shop",
        "day",
        "x",
    )
