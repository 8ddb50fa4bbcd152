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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
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
FORMAT_VERSION = b"3"
_RECEIPTS = b"assay.receipts"
_GROUPS = b"assay.groups"


class Group(NamedTuple):
    """The states of one variant in one task: what a reader takes out of a file at once, and checks by itself."""

    task: str
    variant: str
    digest: str


class _Packed(NamedTuple):
    """One array of a state as it is hashed and written."""

    key: StateKey
    name: str
    dtype: str
    shape: tuple[int, ...]
    places: NDArray[np.int64] | None  # flat positions of `values`; None: all are there
    values: NDArray[np.int64]


def encode(tally: Tally) -> bytes:
    """The tally as one Arrow IPC file: a row for each array of each state, a record batch for each task and variant.

    In the metadata are the receipts as JSON, and a digest of each batch, in their order. `values` are an array's
    integers in C order (uint64 as the int64 of the same bits); where most are zero, only those that are not, at the
    flat positions in `index`. Equal tallies need not give equal bytes under different versions of Arrow: compare them
    by `digest`.
    """
    grouped = _grouped(tally)
    groups = [Group(*key, _digest_of(_packed(tally, keys))) for key, keys in grouped.items()]
    metadata = {
        _FORMAT: FORMAT_VERSION,
        _RECEIPTS: receipts_json(tally.receipts).encode(),
        _GROUPS: _compact([list(one) for one in groups]).encode(),
    }
    schema = _SCHEMA.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for keys in grouped.values():
            writer.write_batch(_batch(list(_packed(tally, keys)), schema))
    return cast(bytes, sink.getvalue().to_pybytes())  # pyarrow is untyped here


def decode(data: bytes) -> Tally:
    """The tally that `encode` wrote. RunError when the bytes are not such a file, or were altered."""
    return StateFile(pa.py_buffer(data), f"A state file of {len(data)} bytes").tally()


def digest(tally: Tally) -> str:
    """SHA-256, in hex, of what the tally holds: receipts, keys, names, types, shapes and integers, in sorted order.

    Made of a digest for each task and variant, so that these can be checked one by one. Of an array that is mostly zero
    the positions and values of the others are hashed, as they are written.
    """
    grouped = _grouped(tally)
    return _digest_of_groups(
        receipts_json(tally.receipts), [Group(*key, _digest_of(_packed(tally, keys))) for key, keys in grouped.items()]
    )


class StateFile:
    """A state file of which parts are read: no more is in memory, and each part is checked before it is believed.

    What there is to check is below one root, the file's name: that is the digest of the receipts and of the digests of
    all groups (`digest`), and each group has its own.
    """

    def __init__(self, source: Any, what: str) -> None:  # Any: what Arrow opens, a buffer or a file
        """what: the file, as the subject of a sentence. RunError when it is not of this form."""
        self._what = what
        try:
            self._reader = pa.ipc.open_file(source)
            metadata = self._reader.schema.metadata or {}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if metadata.get(_FORMAT) != FORMAT_VERSION:
            raise RunError(
                f"{what} has format {metadata.get(_FORMAT)!r}; this version of assay reads format {FORMAT_VERSION!r}."
            )
        try:
            self.receipts = receipts_of(metadata[_RECEIPTS].decode())
            self.groups = tuple(Group(*one) for one in json.loads(metadata[_GROUPS]))
        except (ValueError, TypeError, KeyError) as error:
            raise self._unreadable(error) from error
        as_written = self._reader.schema.remove_metadata().equals(_SCHEMA)
        if not as_written or self._reader.num_record_batches != len(self.groups):
            raise self._altered()

    @property
    def name(self) -> str:
        """The digest of the tally that it says it holds: the name it must have."""
        return _digest_of_groups(receipts_json(self.receipts), self.groups)

    def tally(self, wanted: Collection[str] | None = None) -> Tally:
        """All that it holds, or the states of these variants alone. RunError when it was altered."""
        states: dict[StateKey, State] = {}
        for number, group in enumerate(self.groups):
            if wanted is None or group.variant in wanted:
                states |= self.states(number)
        return Tally(self.receipts, states)

    def states(self, number: int) -> dict[StateKey, State]:
        """The states of one group. RunError when it was altered."""
        states: dict[StateKey, State] = {}
        for one in self._checked(number):
            states.setdefault(one.key, {})[one.name] = _unpack(one)
        return states

    def check(self) -> None:
        """Read all, of which one group at a time is in memory. RunError when it was altered."""
        for number in range(len(self.groups)):
            self._checked(number)

    def _checked(self, number: int) -> list[_Packed]:
        group = self.groups[number]
        try:
            packed = _unbatch(self._reader.get_batch(number))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        foreign = any((one.key.task, one.key.variant) != (group.task, group.variant) for one in packed)
        if foreign or _digest_of(packed) != group.digest:
            raise self._altered()
        return packed

    def _unreadable(self, error: Exception) -> RunError:
        return RunError(f"{self._what} cannot be read: {str(error).rstrip('.')}.")

    def _altered(self) -> RunError:
        return RunError(f"{self._what} is not what its own digests say: it was altered, do not trust the run.")


def receipts_json(receipts: Iterable[Receipt]) -> str:
    """As they are hashed and written: fields that hold their defaults are left out."""
    return _compact([_plain(receipt) for receipt in receipts])


def receipts_of(text: str) -> tuple[Receipt, ...]:
    """What `receipts_json` wrote. ValueError or TypeError when it is something else."""
    return tuple(Receipt(**{name: _frozen(value) for name, value in one.items()}) for one in json.loads(text))


def _plain(receipt: Receipt) -> dict[str, object]:
    return {one.name: value for one in fields(receipt) if (value := getattr(receipt, one.name)) != one.default}


def _frozen(value: Any) -> Any:  # Any: JSON
    """Lists of JSON as the tuples that they were."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _grouped(tally: Tally) -> dict[tuple[str, str], list[StateKey]]:
    """The keys of each task and variant; all of them sorted."""
    grouped: dict[tuple[str, str], list[StateKey]] = {}
    for key in sorted(tally.states):
        grouped.setdefault((key.task, key.variant), []).append(key)
    return grouped


def _digest_of_groups(receipts: str, groups: Iterable[Group]) -> str:
    return hashlib.sha256((receipts + _compact([list(one) for one in groups])).encode()).hexdigest()


def _digest_of(packed: Iterable[_Packed]) -> str:
    sha = hashlib.sha256()
    for one in packed:
        count = None if one.places is None else len(one.places)
        sha.update(json.dumps([*one.key, one.name, one.dtype, one.shape, count]).encode())
        for integers in (one.values,) if one.places is None else (one.places, one.values):
            sha.update(np.ascontiguousarray(integers, "<i8").data)
    return sha.hexdigest()


def _packed(tally: Tally, keys: Iterable[StateKey]) -> Iterator[_Packed]:
    for key in keys:
        state = tally.states[key]
        for name in sorted(state):
            array = state[name]
            yield _Packed(key, name, array.dtype.name, array.shape, *_pack(array))


def _pack(array: IntArray) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    flat = np.ascontiguousarray(array).reshape(-1)
    values = flat.view(np.int64) if flat.dtype == np.uint64 else flat.astype(np.int64, copy=False)
    index = np.flatnonzero(values)
    return (index, values[index]) if 2 * len(index) < len(values) else (None, values)


def _unpack(packed: _Packed) -> IntArray:
    """A new array: those of a file are read-only."""
    if packed.places is None:
        flat = packed.values.copy()
    else:
        flat = np.zeros(math.prod(packed.shape), np.int64)
        flat[packed.places] = packed.values
    dtype = np.dtype(packed.dtype)
    typed: IntArray = flat.view(np.uint64) if dtype == np.uint64 else flat.astype(dtype, copy=False)
    return typed.reshape(packed.shape)


def _batch(packed: Sequence[_Packed], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([one.key[i] for one in packed], pa.string()) for i in range(len(StateKey._fields))]
    columns.append(pa.array([one.name for one in packed], pa.string()))
    columns.append(pa.array([one.dtype for one in packed], pa.string()))
    columns.append(pa.array([list(one.shape) for one in packed], schema.field("shape").type))
    columns.append(_lists([one.places for one in packed]))
    columns.append(_lists([one.values for one in packed]))
    return pa.record_batch(columns, schema=schema)


def _unbatch(batch: pa.RecordBatch) -> list[_Packed]:
    """Views of the batch's memory. ValueError when a row lacks what it must have."""
    batch.validate(full=True)
    *texts, shapes = (batch.column(name).to_pylist() for name in _SCHEMA.names[:-2])
    index, values = (_arrays(batch.column(name)) for name in _SCHEMA.names[-2:])
    packed = []
    for *key, name, dtype, shape, at, numbers in zip(*texts, shapes, index, values, strict=True):
        if shape is None or numbers is None:
            raise ValueError("a row has no shape or no values")
        packed.append(_Packed(StateKey(*key), name, dtype, tuple(shape), at, numbers))
    return packed


def _lists(arrays: Sequence[NDArray[np.int64] | None]) -> pa.Array:
    """A column of lists, null where there is no array, without a Python object per integer."""
    lengths = [0 if array is None else len(array) for array in arrays]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kept = [array for array in arrays if array is not None]
    values = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    mask = pa.array([array is None for array in arrays], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)


def _arrays(column: pa.ListArray) -> list[NDArray[np.int64] | None]:
    values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
    return [
        values[offsets[row] : offsets[row + 1]] if is_there else None
        for row, is_there in enumerate(column.is_valid().to_pylist())
    ]
