"""Limbs are exact, and a tally survives its file form."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import RunError
from assay.records import Receipt, StateKey, Tally
from assay.states import (
    StateFile,
    add_states,
    carry,
    decode,
    digest,
    encode,
    pooled,
    pooled_limbs,
    receipts_json,
    receipts_of,
    subtract_states,
    to_float,
)

KEY = StateKey("main", "prod", "support.v1", "scored")


def whole(limbs):
    """The Python integer that limbs hold."""
    return sum(int(limb) << (32 * i) for i, limb in enumerate(limbs))


@pytest.mark.parametrize("num_limbs", [2, 3, 10])
def test_carry_keeps_the_number_and_is_canonical(num_limbs):
    rng = np.random.default_rng(num_limbs)
    limbs = rng.integers(-(2**50), 2**50, (200, num_limbs))
    carried = carry(limbs)
    assert [whole(one) for one in carried] == [whole(one) for one in limbs]
    assert ((carried[:, :-1] >= 0) & (carried[:, :-1] < 2**32)).all()


@pytest.mark.parametrize("num_limbs", [2, 3, 10])
def test_to_float_is_correctly_rounded(num_limbs):
    rng = np.random.default_rng(num_limbs)
    limbs = carry(rng.integers(-(2**40), 2**40, (500, num_limbs)) >> rng.integers(0, 40, (500, 1)))
    limbs = limbs * (rng.random((500, num_limbs)) < 0.6)
    assert to_float(limbs).tolist() == [float(whole(one)) for one in limbs]


def test_to_float_breaks_ties_to_even_unless_something_follows():
    tie = [0, 1, 1 << 21]  # 2^85 + 2^32: just half a unit in the last place above 2^85
    assert to_float(np.array([tie]), 2.0**-32).tolist() == [2.0**53]
    assert to_float(np.array([[1, *tie[1:]]]), 2.0**-32).tolist() == [2.0**53 + 2]


def test_adding_and_subtracting_carry_only_where_told():
    left = {"sum": np.array([[2**32 - 1, 0]]), "rows": np.array([2**32 - 1])}
    right = {"sum": np.array([[1, 0]]), "rows": np.array([1])}
    both = add_states(left, right, frozenset({"sum"}))
    assert both["sum"].tolist() == [[0, 1]]
    assert both["rows"].tolist() == [2**32]
    assert subtract_states(both, right, frozenset({"sum"}))["sum"].tolist() == [[2**32 - 1, 0]]


def test_pooled_is_all_buckets_then_all_but_each():
    assert pooled(np.array([[1, 2, 4]])).tolist() == [[7, 6, 5, 3]]
    assert pooled_limbs(np.array([[[1, 0], [0, 1]]])).tolist() == [[2.0**32 + 1, 2.0**32, 1.0]]


# ---- file form -------------------------------------------------------------------------------------------------------


def tally():
    states = {
        KEY: {"rows": np.array([[1, 2], [3, 4]]), "empty": np.zeros((0, 2), np.int64)},
        KEY._replace(variant=""): {"sparse": np.eye(40, dtype=np.int64), "scalar": np.zeros(1, np.int32)},
        KEY._replace(accumulator="hash"): {"hash": np.array([2**64 - 1, 0, 0], np.uint64)},
    }
    return Tally((Receipt("a", 3, "ab", ("prod",)), Receipt("b", 0, "")), states)


def test_a_tally_survives_its_file():
    before, after = tally(), decode(encode(tally()))
    assert after.receipts == before.receipts
    assert after.states.keys() == before.states.keys()
    for key, state in before.states.items():
        for name, array in state.items():
            assert after.states[key][name].dtype == array.dtype
            assert after.states[key][name].shape == array.shape
            assert after.states[key][name].tolist() == array.tolist()
            assert after.states[key][name].flags.writeable
    assert digest(after) == digest(before)


def test_an_empty_tally_survives_its_file():
    assert decode(encode(Tally((), {}))) == Tally((), {})


def test_mostly_zero_arrays_are_stored_by_position():
    with pa.ipc.open_file(pa.py_buffer(encode(tally()))) as reader:
        rows = {row["field"]: row for row in reader.read_all().to_pylist()}
    assert rows["sparse"]["index"] == [41 * i for i in range(40)]
    assert rows["sparse"]["values"] == [1] * 40
    assert rows["rows"]["index"] is None
    assert rows["hash"] | {"index": [0], "values": [-1], "dtype": "uint64", "shape": [3]} == rows["hash"]


def test_the_digest_is_of_content_not_of_order():
    one = tally()
    other = Tally(
        one.receipts, dict(reversed([(key, dict(reversed(state.items()))) for key, state in one.states.items()]))
    )
    assert digest(one) == digest(other)
    assert len(digest(one)) == 64


@pytest.mark.parametrize(
    "change",
    [
        lambda t: Tally(t.receipts[:1], t.states),
        lambda t: Tally(t.receipts, {**t.states, KEY: {"rows": np.array([[1, 2, 3, 4]])}}),
        lambda t: Tally(t.receipts, {**t.states, KEY: {"rows": np.array([[1, 2], [3, 5]])}}),
        lambda t: Tally(t.receipts, {**t.states, KEY: {"rows": np.array([[1, 2], [3, 4]], np.int32)}}),
        lambda t: Tally(t.receipts, {**t.states, KEY._replace(part="baseline_only"): t.states[KEY]}),
    ],
)
def test_the_digest_tells_any_change(change):
    assert digest(change(tally())) != digest(tally())


def grouped():
    """Of three variants, the first with states in two tasks."""
    keys = [("click", "a"), ("buy", "a"), ("click", "b"), ("click", "c")]
    states = {
        KEY._replace(task=task, variant=variant): {"rows": np.arange(9) + at} for at, (task, variant) in enumerate(keys)
    }
    return Tally((Receipt("u", 9, "ab"),), states)


def opened(data, what="states/x.arrow"):
    return StateFile(pa.BufferReader(data), what)


def test_states_of_some_variants_are_read_alone():
    file = opened(encode(grouped()))
    assert [(one.task, one.variant) for one in file.groups] == [
        ("buy", "a"), ("click", "a"), ("click", "b"), ("click", "c"),
    ]  # fmt: skip
    assert {(key.task, key.variant) for key in file.tally({"a", "c", "d"}).states} == {
        ("buy", "a"), ("click", "a"), ("click", "c"),
    }  # fmt: skip
    assert file.receipts == grouped().receipts
    assert digest(file.tally()) == digest(grouped()) == file.name


def test_a_file_is_a_batch_for_each_task_and_variant():
    with pa.ipc.open_file(pa.py_buffer(encode(grouped()))) as reader:
        assert reader.num_record_batches == 4
        assert set(reader.get_batch(2)["variant"].to_pylist()) == {"b"}


def with_batches_of(data, order):
    """The file with its batches in another order, under the digests that it had."""
    sink = pa.BufferOutputStream()
    with pa.ipc.open_file(pa.py_buffer(data)) as reader, pa.ipc.new_file(sink, reader.schema) as writer:
        for number in order:
            writer.write_batch(reader.get_batch(number))
    return sink.getvalue().to_pybytes()


ALTERED = "states/x.arrow is not what its own digests say: it was altered, do not trust the run."


def test_batches_that_changed_places_are_refused():
    file = opened(with_batches_of(encode(grouped()), [0, 2, 1, 3]))
    assert file.name == digest(grouped())
    assert file.tally({"c"}).states.keys() == {KEY._replace(task="click", variant="c")}
    for read in (file.check, file.tally, lambda: file.tally({"b"})):
        with pytest.raises(RunError, match=f"^{re.escape(ALTERED)}$"):
            read()


def test_a_batch_too_few_is_refused():
    with pytest.raises(RunError, match=f"^{re.escape(ALTERED)}$"):
        opened(with_batches_of(encode(grouped()), [0, 1, 2]))


@pytest.mark.parametrize("old", [b"accumulator", b"values"])
def test_a_file_with_other_columns_is_refused(old):
    data = encode(grouped())
    with pytest.raises(RunError, match=f"^{re.escape(ALTERED)}$"):
        opened(data[: data.rindex(old)] + old.upper() + data[data.rindex(old) + len(old) :])


def test_a_whole_file_passes_its_check():
    opened(encode(grouped())).check()


def test_receipts_leave_out_what_is_as_always():
    receipts = (Receipt("a", 3, "ab", ("prod",)), Receipt("b", 0, ""))
    text = receipts_json(receipts)
    assert text == '[{"digest":"ab","failed":["prod"],"rows":3,"unit":"a"},{"digest":"","rows":0,"unit":"b"}]'
    assert receipts_of(text) == receipts


def test_a_truncated_file_is_refused():
    with pytest.raises(RunError, match=r"^A state file of 100 bytes cannot be read: .*\.$"):
        decode(encode(tally())[:100])


def test_a_file_of_another_format_is_refused():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("x", pa.int64())])):
        pass
    sentence = "A state file of 290 bytes has format None; this version of assay reads format b'3'."
    with pytest.raises(RunError, match=re.escape(sentence)):
        decode(sink.getvalue().to_pybytes())
