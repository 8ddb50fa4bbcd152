"""Hashes: known values, and equal values hash alike whatever holds them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from assay.hashing import (
    bucket_of,
    hash_values,
    in_part,
    own_buckets,
    pair_hash,
    row_hash,
    splitmix64,
    with_seed,
)

MASK = (1 << 64) - 1


def splitmix_by_hand(value: int) -> int:
    mixed = (value + 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


def hashes(values: pa.Array | pa.ChunkedArray, seed: int = 0) -> list[int]:
    return [int(value) for value in hash_values(values, seed)[0]]


@pytest.mark.parametrize("value", [0, 1, 2**32, 2**63, MASK])
def test_splitmix64_is_the_published_one(value: int) -> None:
    assert int(splitmix64(np.array([value], np.uint64))[0]) == splitmix_by_hand(value)


def test_an_integers_hash_is_splitmix_of_it_and_the_seed() -> None:
    assert hashes(pa.array([42]), seed=7) == [splitmix_by_hand(42 ^ splitmix_by_hand(7))]


def test_a_strings_hash_is_xxh64_of_its_bytes_mixed_with_the_seed() -> None:
    expected = splitmix_by_hand(xxhash.xxh64_intdigest("zürich".encode()) ^ splitmix_by_hand(3))
    assert hashes(pa.array(["zürich"]), seed=3) == [expected]


@pytest.mark.parametrize(
    "array",
    [pa.array([0, 1], kind) for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float16(), pa.float64())]
    + [pa.array([False, True]), pa.array([Decimal("0.00"), Decimal("1.00")]), pa.array([0, 1]).dictionary_encode()],
)
def test_equal_numbers_hash_alike(array: pa.Array) -> None:
    assert hashes(array) == hashes(pa.array([0, 1], pa.int64()))


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())])
def test_equal_strings_hash_alike(kind: pa.DataType) -> None:
    assert hashes(pa.array(["a", "bc", "a"]).cast(kind)) == hashes(pa.array(["a", "bc", "a"]))


def test_a_uuid_hashes_as_its_bytes() -> None:
    values = [bytes(16), None, bytes(range(16))]
    assert hashes(pa.array(values, pa.uuid())) == hashes(pa.array(values, pa.binary()))


def test_equal_times_hash_alike() -> None:
    day = datetime.date(2013, 1, 31)
    expected = hashes(pa.array([day], pa.date32()))
    assert hashes(pa.array([day], pa.date64())) == expected
    for unit in ("s", "ms", "us", "ns"):
        assert hashes(pa.array([day], pa.date32()).cast(pa.timestamp(unit))) == expected
    zones = [pa.array([1_000_000], pa.timestamp("us", zone)) for zone in ("UTC", "Asia/Tokyo")]
    assert hashes(zones[0]) == hashes(zones[1])


def test_different_values_hash_differently() -> None:
    arrays = [
        pa.array([1, 2, -1]),
        pa.array([0.5, 1.5, float("inf")]),
        pa.array(["1", "2", ""]),
        pa.array([Decimal("0.25")]),
    ]
    found = [value for array in arrays for value in hashes(array)]
    assert len(set(found)) == len(found)
    assert hashes(pa.array([1]), seed=1) != hashes(pa.array([1]), seed=2)


@pytest.mark.parametrize(
    ("array", "missing"),
    [
        (pa.array([1, None]), [False, True]),
        (pa.array([float("nan"), None, 1.0], from_pandas=False), [True, True, False]),
        (pa.array(["a", None]).dictionary_encode(), [False, True]),
        (pa.DictionaryArray.from_arrays([0, 1, None], ["a", None]), [False, True, True]),
        (pa.array([None, None], pa.string()), [True, True]),
        (pa.nulls(2), [True, True]),
        (pa.array([], pa.string()), []),
        (pa.array([{"x": 1}, None]), [False, True]),
        (pa.chunked_array([[True], [None]]), [False, True]),
    ],
)
def test_null_and_nan_are_missing(array: pa.Array, missing: list[bool]) -> None:
    values, found = hash_values(array, 0)
    assert found.tolist() == missing
    assert values.dtype == np.uint64


def test_a_slice_of_an_array_hashes_as_its_own_values() -> None:
    for array in (pa.array(["a", "b", "c"]), pa.array(["a", "b", "c"]).dictionary_encode(), pa.array([1, 2, 3])):
        assert hashes(array.slice(1, 2)) == hashes(array)[1:]


def test_a_rows_hash_is_of_its_path_and_position() -> None:
    positions = np.array([0, 5])
    path = xxhash.xxh64_intdigest(b"a.parquet")
    assert row_hash("a.parquet", positions).tolist() == [splitmix_by_hand(path), splitmix_by_hand(path ^ 5)]
    assert set(row_hash("b.parquet", positions).tolist()).isdisjoint(row_hash("a.parquet", positions).tolist())


def test_buckets_are_the_upper_bits_scaled() -> None:
    chosen = np.array([0, MASK, 1 << 63, (1 << 58) - 1, 1 << 58], np.uint64)
    assert bucket_of(chosen, 64).tolist() == [0, 63, 32, 0, 1]
    counts = np.bincount(bucket_of(splitmix64(np.arange(64_000, dtype=np.uint64)), 64), minlength=64)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_a_seed_changes_all() -> None:
    values = np.arange(10, dtype=np.uint64)
    assert set(with_seed(values, 1).tolist()).isdisjoint(with_seed(values, 2).tolist())


def test_hashes_of_the_plan_have_the_bucket_of_their_position_and_others_share() -> None:
    own = np.array([10, 20, 2**64 - 1], np.uint64)
    hashes = np.array([20, 2**64 - 1, 10, 11, 2**63], np.uint64)
    bucket, shares = own_buckets(hashes, own, 64)
    assert bucket.tolist() == [1, 2, 0, 0, 32]
    assert shares.tolist() == [False, False, False, True, True]
    assert bucket.dtype == np.int32


def test_without_hashes_of_the_plan_all_share() -> None:
    hashes = splitmix64(np.arange(100, dtype=np.uint64))
    bucket, shares = own_buckets(hashes, np.zeros(0, np.uint64), 64)
    assert bucket.tolist() == bucket_of(hashes, 64).tolist()
    assert shares.all()


def test_the_hash_of_a_pair_depends_on_both_and_on_their_order() -> None:
    one, other = np.arange(1000, dtype=np.uint64), np.full(1000, 7, np.uint64)
    assert len(np.unique(np.concatenate([pair_hash(one, other), pair_hash(other, one)]))) == 1999  # (7, 7) is its own


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_the_part_of_a_hash_has_the_share_asked_for_in_every_bucket(fraction: float) -> None:
    hashes = splitmix64(np.arange(64_000, dtype=np.uint64))
    inside = in_part(hashes, fraction)
    shares = [inside[bucket_of(hashes, 64) == bucket].mean() for bucket in range(64)]
    assert inside.mean() == pytest.approx(fraction, abs=0.006)
    assert max(abs(share - fraction) for share in shares) < 0.07
    assert in_part(hashes, 0.95)[inside].all()
