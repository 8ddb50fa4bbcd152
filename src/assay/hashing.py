"""64-bit hashes of values and row positions: the same on every machine, in every process, for every Arrow layout.

Lives here: the splitmix64 finaliser over arrays, the hash of a column's values, the hash of a row's place, the bucket
of a hash and the part of the data it falls to; digests of large files. Not here: digests of settings and states.

Axes: n values of a column.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_PART = np.uint64(0x2545F4914F6CDD1D)  # keeps the part of a hash apart from its bucket
_BLOCK_BYTES = 1 << 20
_FRACTIONAL = np.uint64(0x5851F42D4C957F2D)  # keeps the bits of 0.5 apart from the integer that has the same bits


def splitmix64(values: Hashes) -> Hashes:
    """The splitmix64 finaliser of each value: a bijection of uint64, wrapping.

    Reference: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.

    >>> hex(int(splitmix64(np.zeros(1, np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    mixed = values + _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result


def with_seed(hashes: Hashes, seed: int) -> Hashes:
    """Hashes mixed with a seed of 0 <= seed < 2^63: other seeds give unrelated hashes."""
    return splitmix64(hashes ^ splitmix64(np.array([seed & _MASK], np.uint64)))


def hash_values(array: pa.Array | pa.ChunkedArray, seed: int) -> tuple[Hashes, NDArray[np.bool_]]:
    """The hash of each value ([n] uint64) and where the value is null or NaN ([n] bool; the hash there means nothing).

    Equal values hash alike whatever holds them: integers of any width, booleans, integral floats and decimals; strings
    plain, large, view or dictionary-encoded; dates and timestamps of any unit to the microsecond, with a time zone by
    the instant.
    """
    flat = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    hashes, missing = _canonical(flat)
    return with_seed(hashes, seed), missing


def row_hash(path: str, positions: NDArray[np.int64]) -> Hashes:
    """The hash of each row's place: its fragment's path and its position in it."""
    return splitmix64(positions.astype(np.uint64) ^ np.uint64(xxhash.xxh64_intdigest(path.encode())))


def bucket_of(hashes: Hashes, num_buckets: int) -> NDArray[np.int32]:
    """The bucket, 0 <= b < num_buckets < 2^31, of each hash: by its upper 32 bits, so that no division is biased."""
    scaled = (hashes >> np.uint64(32)) * np.uint64(num_buckets)
    return (scaled >> np.uint64(32)).astype(np.int32)


def own_buckets(hashes: Hashes, own: Hashes, num_buckets: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The bucket of each hash, and whether it shares it [n]: hashes among `own` (increasing, at most `num_buckets`)
    have the bucket of their position there, all others that of `bucket_of`."""
    bucket = bucket_of(hashes, num_buckets)
    if not len(own):
        return bucket, np.ones(len(hashes), np.bool_)
    place = np.minimum(np.searchsorted(own, hashes), len(own) - 1)
    shares = own[place] != hashes
    return np.where(shares, bucket, place).astype(np.int32), shares


def pair_hash(first: Hashes, second: Hashes) -> Hashes:
    """The hash of each pair of hashes, in this order."""
    return splitmix64(first ^ splitmix64(second))


def in_part(hashes: Hashes, fraction: float) -> NDArray[np.bool_]:
    """Whether each hash falls to a part of about this share: whatever its bucket is."""
    drawn: NDArray[np.bool_] = splitmix64(hashes ^ _PART) < np.uint64(min(int(fraction * 2.0**64), _MASK))
    return drawn


def content_digest(blocks: Iterable[bytes]) -> str:
    """32 hex digits of some bytes, however they are cut: XXH3, which finds what an accident has changed. It takes far
    less time than SHA-256, and is no proof against somebody who wants two files to have one digest.

    >>> content_digest([b"as", b"say"]) == content_digest([b"assay"])
    True
    """
    digest = xxhash.xxh3_128()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """That of a file's content."""
    with path.open("rb") as file:
        return content_digest(iter(lambda: file.read(_BLOCK_BYTES), b""))


def _canonical(array: pa.Array) -> tuple[Hashes, NDArray[np.bool_]]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _of_integers(array)
    if pa.types.is_floating(kind):
        return _of_floats(array)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _of_integers(array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).view(pa.int64()))
    if pa.types.is_nested(kind):
        return _of_objects(array)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64), np.ones(len(array), np.bool_)
    return _through_distinct(array)


def _missing(array: pa.Array) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return result


def _of_integers(array: pa.Array) -> tuple[Hashes, NDArray[np.bool_]]:
    if pa.types.is_uint64(array.type):
        return array.fill_null(0).to_numpy(zero_copy_only=False), _missing(array)
    whole = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return whole.view(np.uint64), _missing(array)


def _of_floats(array: pa.Array) -> tuple[Hashes, NDArray[np.bool_]]:
    values = array.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    missing = np.isnan(values)
    integral = (np.abs(values) < 2.0**63) & (values == np.floor(values))
    whole = np.where(integral, values, 0.0).astype(np.int64).view(np.uint64)
    bits = splitmix64(values.view(np.uint64) ^ _FRACTIONAL)
    return np.where(integral, whole, bits), missing


def _through_dictionary(array: pa.DictionaryArray) -> tuple[Hashes, NDArray[np.bool_]]:
    hashes, missing = _canonical(array.dictionary)
    indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    absent = _missing(array.indices)
    if not len(hashes):
        return np.zeros(len(array), np.uint64), absent
    return hashes[indices], absent | missing[indices]


def _through_distinct(array: pa.Array) -> tuple[Hashes, NDArray[np.bool_]]:
    """Strings, binaries, decimals, times: each distinct value is hashed once."""
    if isinstance(array.type, pa.BaseExtensionType):  # a UUID is its bytes
        array = array.storage
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    encoded = array.dictionary_encode()
    hashes = _of_distinct(encoded.dictionary)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    taken = hashes[indices] if len(hashes) else np.zeros(len(array), np.uint64)
    return taken, _missing(encoded.indices)


def _of_distinct(values: pa.Array) -> Hashes:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    elif pa.types.is_time(kind) or pa.types.is_duration(kind):
        values = pc.cast(values, pa.string())
    # Bytes, of which there may be one value a row, go to the hash without a function of ours between.
    binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return np.fromiter(
        map(xxhash.xxh64_intdigest if binary else _of_object, values.to_pylist()), np.uint64, len(values)
    )


def _of_objects(array: pa.Array) -> tuple[Hashes, NDArray[np.bool_]]:
    return np.array([_of_object(value) for value in array.to_pylist()], np.uint64), _missing(array)


def _of_object(value: object) -> int:
    """Decimals that are 64-bit integers are themselves; other values are the XXH64 of their canonical bytes."""
    if isinstance(value, bytes):
        return xxhash.xxh64_intdigest(value)
    if isinstance(value, Decimal):
        if value == value.to_integral_value() and abs(value) < 1 << 63:
            return int(value) & _MASK
        return xxhash.xxh64_intdigest(format(value.normalize(), "f").encode())
    return xxhash.xxh64_intdigest(str(value).encode())
