"""Mergeable states as such: multi-limb integers, and the file form of a tally.

Lives here: what holds for every state, whatever it means. Not here: the states of metrics (`metrics/`), the coverage
ledgers (`ledgers.py`) and the loops that fill them (`kernels/`).

Axes: S slices, B buckets, L limbs. A sum is held as L limbs of 32 bits in int64 on the
trailing axis, the lowest first. Canonical: all limbs but the top one in [0, 2^32), the top one signed; so equal sums
have equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assay.errors import RunError
from assay.records import IntArray, Receipt, State, StateKey, Tally

LIMB_BITS = 32
_LIMB_MASK = (1 << LIMB_BITS) - 1
_LIMB = np.uint64(LIMB_BITS)

# ---- limbs -----------------------------------------------------------------------------------------------------------


def carry(limbs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The canonical form of limbs [..., L] of any size and sign, in a new array."""
    result = limbs.copy()
    for low in range(result.shape[-1] - 1):
        result[..., low + 1] += result[..., low] >> LIMB_BITS
        result[..., low] &= _LIMB_MASK
    return result


def to_float(limbs: NDArray[np.int64], unit: float = 1.0) -> NDArray[np.float64]:
    """The sums [...] that canonical limbs [..., L] hold, correctly rounded, times `unit` (a power of two).

    >>> to_float(np.array([[5, 0], [(1 << 32) - 1, -1]])).tolist()
    [5.0, -1.0]
    """
    negative = limbs[..., -1] < 0
    magnitude = carry(np.where(negative[..., None], -limbs, limbs))
    top, below = magnitude[..., -1:], np.zeros((*limbs.shape[:-1], 2), np.int64)
    digits = np.concatenate([below, magnitude[..., :-1], top & _LIMB_MASK, top >> LIMB_BITS], axis=-1).astype(np.uint64)
    used = digits != 0
    first = np.maximum(digits.shape[-1] - 1 - np.argmax(used[..., ::-1], axis=-1), 2)
    a, b, c = (np.take_along_axis(digits, (first - i)[..., None], axis=-1)[..., 0] for i in range(3))
    shift = (LIMB_BITS - np.frexp(a.astype(np.float64))[1]).astype(np.uint64)
    # The first 64 bits; bit 0 also says whether anything follows, so that the conversion rounds as the whole would.
    window = (((a << _LIMB) | b) << shift) | (c >> (_LIMB - shift))
    follows = ((c << shift) & np.uint64(_LIMB_MASK)) != 0
    follows |= used.sum(axis=-1) > (a != 0).astype(np.int64) + (b != 0) + (c != 0)
    exponent = LIMB_BITS * (first - 3) - shift.astype(np.int64)
    value: NDArray[np.float64] = np.ldexp((window | follows).astype(np.float64), exponent.astype(np.int32)) * unit
    return np.where(negative, -value, value)


def add_states(left: State, right: State, limbs: frozenset[str] = frozenset()) -> State:
    """Field by field `left + right`; the fields named in `limbs` carry."""
    return {name: _carried(left[name] + right[name], name in limbs) for name in left}


def subtract_states(whole: State, part: State, limbs: frozenset[str] = frozenset()) -> State:
    """Field by field `whole - part`; the fields named in `limbs` carry."""
    return {name: _carried(whole[name] - part[name], name in limbs) for name in whole}


def _carried(result: IntArray, carries: bool) -> IntArray:
    return carry(np.asarray(result, np.int64)) if carries else result


def pooled(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """From cells [S, B, ...] the sum over all buckets, then the sums without each bucket: [S, 1 + B, ...]."""
    total = cells.sum(axis=1, keepdims=True)
    return np.concatenate([total, total - cells], axis=1)


def pooled_limbs(cells: NDArray[np.int64], unit: float = 1.0) -> NDArray[np.float64]:
    """`pooled` for limbs [S, B, ..., L], as floats [S, 1 + B, ...]."""
    return to_float(carry(pooled(cells)), unit)


def ints(state: State, name: str) -> NDArray[np.int64]:
    """The array of that name, which is int64 in a state made by an accumulator: itself, not a copy."""
    return np.asarray(state[name], np.int64)


def num_bytes(state: State) -> int:
    """What the arrays of a state take in memory."""
    return sum(array.nbytes for array in state.values())


# ---- file form -------------------------------------------------------------------------------------------------------

_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "variant", "accumulator", "part", "view", "field", "dtype")),
        ("shape", pa.list_(pa.int64())),
        ("index", pa.list_(pa.int64())),
        ("values", pa.list_(pa.int64())),
    ]
)
_FORMAT = b"assay.format"
FORMAT_VERSION = b"2"
_RECEIPTS = b"assay.receipts"


class _Field(NamedTuple):
    key: StateKey
    name: str
    array: IntArray


def encode(tally: Tally) -> bytes:
    """The tally as one Arrow IPC file: a row for each array of each state, the receipts as JSON in the metadata.

    `values` are the array's integers in C order (uint64 as the int64 of the same bits); where most are zero, only those
    that are not, at the flat positions in `index`. Equal tallies need not give equal bytes under different versions of
    Arrow: compare them by `digest`.
    """
    fields = list(_fields(tally))
    packed = [_pack(field.array) for field in fields]
    columns = [pa.array([field.key[i] for field in fields], pa.string()) for i in range(len(StateKey._fields))]
    columns.append(pa.array([field.name for field in fields], pa.string()))
    columns.append(pa.array([field.array.dtype.name for field in fields], pa.string()))
    columns.append(pa.array([list(field.array.shape) for field in fields], _SCHEMA.field("shape").type))
    columns.append(_lists([index for index, _ in packed]))
    columns.append(_lists([values for _, values in packed]))
    schema = _SCHEMA.with_metadata({_FORMAT: FORMAT_VERSION, _RECEIPTS: _receipts_json(tally).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return cast(bytes, sink.getvalue().to_pybytes())  # pyarrow is untyped here


def decode(data: bytes) -> Tally:
    """The tally that `encode` wrote. RunError when the bytes are not such a file."""
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            table, metadata = reader.read_all().combine_chunks(), reader.schema.metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise RunError(f"A state file of {len(data)} bytes cannot be read: {error}.") from error
    if metadata.get(_FORMAT) != FORMAT_VERSION:
        raise RunError(
            f"A state file has format {metadata.get(_FORMAT)!r}; this version of assay reads format {FORMAT_VERSION!r}."
        )
    receipts = tuple(Receipt(**{**one, "failed": tuple(one["failed"])}) for one in json.loads(metadata[_RECEIPTS]))
    columns = [table[name].to_pylist() for name in _SCHEMA.names[:-2]]
    index, values = _arrays(table["index"]), _arrays(table["values"])
    states: dict[StateKey, State] = {}
    for row, (*key, name, dtype, shape) in enumerate(zip(*columns, strict=True)):
        states.setdefault(StateKey(*key), {})[name] = _unpack(index[row], values[row], shape, np.dtype(dtype))
    return Tally(receipts, states)


def digest(tally: Tally) -> str:
    """SHA-256, in hex, of what the tally holds: receipts, keys, names, types, shapes and integers, in sorted order.

    Of an array that is mostly zero the positions and values of the others are hashed, as they are written.
    """
    sha = hashlib.sha256(_receipts_json(tally).encode())
    for key, name, array in _fields(tally):
        index, values = _pack(array)
        count = None if index is None else len(index)
        sha.update(json.dumps([*key, name, array.dtype.name, array.shape, count]).encode())
        for integers in (values,) if index is None else (index, values):
            sha.update(np.ascontiguousarray(integers, "<i8").data)
    return sha.hexdigest()


def _fields(tally: Tally) -> Iterator[_Field]:
    for key in sorted(tally.states):
        state: Mapping[str, IntArray] = tally.states[key]
        yield from (_Field(key, name, state[name]) for name in sorted(state))


def _receipts_json(tally: Tally) -> str:
    return json.dumps([asdict(receipt) for receipt in tally.receipts], sort_keys=True, separators=(",", ":"))


def _pack(array: IntArray) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    flat = np.ascontiguousarray(array).reshape(-1)
    values = flat.view(np.int64) if flat.dtype == np.uint64 else flat.astype(np.int64, copy=False)
    index = np.flatnonzero(values)
    return (index, values[index]) if 2 * len(index) < len(values) else (None, values)


def _unpack(
    index: NDArray[np.int64] | None,
    values: NDArray[np.int64] | None,
    shape: Sequence[int],
    dtype: np.dtype[np.integer[Any]],  # Any: the width is in the file
) -> IntArray:
    flat = np.zeros(0, np.int64) if values is None else values
    if index is not None:
        flat = np.zeros(math.prod(shape), np.int64)
        flat[index] = 0 if values is None else values
    typed: IntArray = flat.view(np.uint64) if dtype == np.uint64 else flat.astype(dtype, copy=False)
    return np.array(typed.reshape(shape))  # a copy: arrays out of a file are read-only


def _lists(arrays: Sequence[NDArray[np.int64] | None]) -> pa.Array:
    """A column of lists, null where there is no array, without a Python object per integer."""
    lengths = [0 if array is None else len(array) for array in arrays]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kept = [array for array in arrays if array is not None]
    values = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    mask = pa.array([array is None for array in arrays], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)


def _arrays(column: pa.ChunkedArray) -> list[NDArray[np.int64] | None]:
    return [one.values.to_numpy() if one.is_valid else None for chunk in column.chunks for one in chunk]
