"""Columns of any type come out as they went in, or as a note says, or are refused before a row is scored."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Context, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.build import sink
from assay.errors import DataError
from assay.pipeline.join import Join
from assay.records import SinkSettings
from assay.sinks import spliced
from assay.spec.load import build_spec

ROWS = 12
UNITS, ZONES = ("s", "ms", "us", "ns"), (None, "UTC", "Europe/Berlin", "+05:30")
LEAVES = [
    *(pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)),
    *(pa.decimal32(7, 2), pa.decimal64(12, 3), pa.decimal128(30, 4), pa.decimal256(60, 5)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.month_day_nano_interval(), pa.uuid(), pa.json_()),
]
Kinds = st.SearchStrategy[pa.DataType]


def around(inside: Kinds) -> Kinds:
    """Types that hold others."""
    name = st.sampled_from(["item", "entry"])
    field = st.builds(lambda name, kind, unit: pa.field(name, kind, metadata=unit), name, inside, METADATA)
    codes = st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()])
    return st.one_of(
        st.builds(pa.list_, field),
        st.builds(pa.large_list, inside),
        st.builds(pa.list_, inside, st.integers(1, 3)),
        st.builds(pa.list_view, inside),
        st.builds(lambda kinds: pa.struct(list(zip("abc", kinds, strict=False))), st.lists(inside, max_size=3)),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32(), pa.string_view()]), inside),
        st.builds(pa.dictionary, codes, inside, st.booleans()),
    )


METADATA = st.sampled_from([None, None, {"unit": "km"}])
KINDS = st.recursive(st.sampled_from(LEAVES), around, max_leaves=4)


# ---- values ----------------------------------------------------------------------------------------------------------


def values_of(kind: pa.DataType, number: int, chance: random.Random, *, nulls: bool = True) -> pa.Array:
    """So many values of a type, a quarter of them null."""
    missing = [nulls and chance.random() < 0.25 for _ in range(number)]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, values_of(kind.storage_type, number, chance, nulls=nulls))
    if pa.types.is_dictionary(kind):
        size = chance.randrange(1, 5)
        words = values_of(kind.value_type, size, chance, nulls=nulls and chance.random() < 0.4)
        codes = pa.array([None if one else chance.randrange(size) for one in missing], kind.index_type)
        return pa.DictionaryArray.from_arrays(codes, words, ordered=kind.ordered)
    if pa.types.is_struct(kind) and kind.num_fields:
        inside = [values_of(field.type, number, chance) for field in kind]
        return pa.StructArray.from_arrays(inside, fields=list(kind), mask=pa.array(missing, pa.bool_()))
    if pa.types.is_fixed_size_list(kind):
        items = values_of(kind.value_type, number * kind.list_size, chance)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=pa.array(missing, pa.bool_()))
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        return _lists(kind, missing, chance)
    filled = [None if one else value for one, value in zip(missing, _plain(kind, number, chance), strict=True)]
    return pa.array(filled, kind)


def _lists(kind: pa.DataType, missing: list[bool], chance: random.Random) -> pa.Array:
    lengths = [0 if one else chance.randrange(4) for one in missing]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    total, mask = int(begins[-1]), pa.array(missing, pa.bool_())
    if pa.types.is_map(kind):
        offsets = pa.array(begins, mask=np.array([*missing, False]))
        keys = values_of(kind.key_type, total, chance, nulls=False)
        return pa.MapArray.from_arrays(offsets, keys, values_of(kind.item_type, total, chance), type=kind)
    items = values_of(kind.value_type, total, chance)
    if pa.types.is_list_view(kind):
        sizes = pa.array(lengths, pa.int32())
        return pa.ListViewArray.from_arrays(pa.array(begins[:-1]), sizes, items, type=kind, mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array(begins), items, type=kind, mask=mask)
    return pa.LargeListArray.from_arrays(pa.array(begins, pa.int64()), items, type=kind, mask=mask)


def _plain(kind: pa.DataType, number: int, chance: random.Random) -> list[Any]:  # Any: of many types
    draw = _drawing(kind, chance)
    return [draw() for _ in range(number)]


def _drawing(kind: pa.DataType, chance: random.Random) -> Callable[[], Any]:  # Any: as above
    types, bits = pa.types, 0 if pa.types.is_nested(kind) or pa.types.is_null(kind) else _bits(kind)
    if types.is_boolean(kind):
        return lambda: chance.random() < 0.5
    if types.is_integer(kind):
        least = 0 if types.is_unsigned_integer(kind) else -(1 << (bits - 1))
        return lambda: chance.choice([least, least + (1 << bits) - 1, least + chance.randrange(1 << bits)])
    if types.is_floating(kind):
        return lambda: chance.choice([0.5, -0.0, float("nan"), float("-inf"), 1.25])
    if types.is_fixed_size_binary(kind):
        return lambda: chance.randbytes(kind.byte_width)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return lambda: chance.choice([b"", b"\xff\x00", b"y" * 15])
    if types.is_decimal(kind):
        most = 10**kind.precision
        return lambda: Decimal(chance.randrange(1 - most, most)).scaleb(-kind.scale, Context(prec=80))
    if types.is_date(kind):
        return lambda: date(2024, 3, 31) + timedelta(days=chance.randrange(-9000, 9000))
    if types.is_time(kind):
        return lambda: pa.scalar(chance.randrange(86_400), pa.int32() if bits == 32 else pa.int64()).cast(kind).as_py()
    if types.is_timestamp(kind) or types.is_duration(kind):
        return lambda: pa.scalar(chance.randrange(86_400_000), pa.int64()).cast(kind).as_py()
    if types.is_interval(kind):
        return lambda: (chance.randrange(5), chance.randrange(5), chance.randrange(5))
    if types.is_struct(kind):
        return dict
    return lambda: None if types.is_null(kind) else chance.choice(["", "é", "x" * 20, "{}", '"'])


def _bits(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:  # of text
        return 0


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns in several chunks that are slices of more; `x` is what the model reads."""
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    fields = [pa.field("x", pa.float64())]
    columns = [pa.chunked_array([np.arange(ROWS) / ROWS])]
    for number, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=4))):
        cut = draw(st.integers(0, ROWS))
        sizes = [size for size in (cut, ROWS - cut) if size]
        chunks = [values_of(kind, size + 3, chance).slice(2, size) for size in sizes]
        fields.append(pa.field(f"c{number}", kind, metadata=draw(METADATA)))
        columns.append(pa.chunked_array(chunks, kind))
    return pa.table(columns, schema=pa.schema(fields, draw(st.sampled_from([None, {"owner": "me"}]))))


# ---- the law ---------------------------------------------------------------------------------------------------------


@given(
    table=tables(),
    format=st.sampled_from(["parquet", "arrow"]),
    where=st.sampled_from([None, "x >= 0.5", "round(x * 12) % 3 = 0"]),
    from_file=st.booleans(),
)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_columns_come_out_as_they_went_in(table: pa.Table, format: str, where: str | None, from_file: bool) -> None:
    _must_come_out(table, format, where, from_file)


@given(table=tables())
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_so_do_columns_that_are_copied(table: pa.Table) -> None:
    with patch.object(spliced, "LEAST_GROUP_ROWS", 1), patch.object(Join, "_carried", side_effect=AssertionError):
        _must_come_out(table, "parquet", None, from_file=True)


def _must_come_out(table: pa.Table, format: str, where: str | None, from_file: bool) -> None:
    with TemporaryDirectory() as place:
        folder, path = Path(place), None
        if from_file:
            table, path = _through_a_file(table, folder / "rows.parquet"), "rows.parquet"
        kept = [row for row in range(ROWS) if where is None or (row >= 6 if ">=" in where else row % 3 == 0)]
        said, notes = _predict(folder, format, where, path, table)
        assert (folder / "run").exists() == (not said)
        assert all(_is_refusal(line, table) for line in said), said
        if not said:
            _check(table, _read(folder / "run" / "predictions", format), kept, notes)


def _through_a_file(table: pa.Table, path: Path) -> pa.Table:
    """The columns that Parquet takes, as a file of them gives them."""
    for name in table.column_names[1:]:
        try:
            pq.write_table(table.select([name]), path)
            pq.read_table(path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            table = table.drop_columns(name)
    pq.write_table(table, path, row_group_size=7)
    return pq.read_table(path)


def _predict(
    folder: Path, format: str, where: str | None, path: str | None, table: pa.Table
) -> tuple[list[str], tuple[str, ...]]:
    """Why it was refused, in lines; and what it noted."""
    data = {"where": where, "path": path}
    spec = {
        "data": {name: value for name, value in data.items() if value is not None},
        "variants": [{"name": "twice", "callable": "fakes.predictors:twice", "inputs": ["x"], "receive": "dict"}],
        "predictions": {"format": format},
        "carry_over": "all",
        "execution": {"unit_rows": 5, "micro_batch": 5},
    }
    frame = table if path is None else None
    try:
        found = assay.predict(
            build_spec(spec), frame=frame, base=folder, out=folder / "run", executor="local", workers=1
        )
    except DataError as error:
        return str(error).splitlines(), ()
    assert found.predictions is not None
    return [], found.predictions.notes


def _is_refusal(line: str, table: pa.Table) -> bool:
    if line == "Dead letters are Parquet, whatever predictions.format says.":
        return True
    names = [f"The column {name!r} is of type {table.schema.field(name).type}, which " for name in table.column_names]
    return any(line.startswith(name) for name in names) and " cannot hold" in line


def _read(folder: Path, format: str) -> pa.Table:
    if format == "parquet":
        return pq.read_table(folder)
    return pa.concat_tables(pa.ipc.open_file(path).read_all() for path in sorted(folder.glob("part-*")))


def _check(table: pa.Table, found: pa.Table, kept: list[int], notes: tuple[str, ...]) -> None:
    noted = {note.split("'")[1] for note in notes}
    assert (found.schema.metadata or {}) == (table.schema.metadata or {})
    for field in table.schema:
        written = found.schema.field(field.name)
        assert (written.metadata or {}) == (field.metadata or {})
        assert (written.type != field.type) == (field.name in noted), (field.type, written.type, notes)
        expected = [table[field.name][row].as_py() for row in kept]
        assert repr(found[field.name].to_pylist()) == repr(expected), field.type  # NaN is NaN, -0.0 is not 0.0


# ---- cases -----------------------------------------------------------------------------------------------------------


def written(folder: Path, format: str, *batches: pa.Array) -> pa.ChunkedArray:
    """A column of these batches as it comes out."""
    to = sink(SinkSettings(format, str(folder), "run"))
    schema = pa.schema({"c": batches[0].type})
    to.check(schema)
    to.write("u", schema, [pa.record_batch([one], schema=schema) for one in batches])
    return _read(folder, format)["c"]


def coded(*codes: int | None, words: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), words)


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("words", [["a", None, "b"], [1, None, 2]])
def test_a_code_of_a_word_that_is_null_is_a_null(tmp_path: Path, format: str, words: list[Any]) -> None:
    first, second = coded(0, 1, None, 2, words=pa.array(words)), coded(1, 0, words=pa.array(words[::-1][:2]))
    found = written(tmp_path, format, first, second)
    assert found.to_pylist() == [words[0], None, None, words[2], None, words[2]]
    assert found.null_count == 3


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("words", [["a", None, "b"], [1, None, 2]])
def test_so_it_is_inside_of_others(tmp_path: Path, format: str, words: list[Any]) -> None:
    inner = coded(0, 1, 2, None, 1, 0, words=pa.array(words))
    mask = pa.array([False, True, False])
    for number, outer in enumerate(
        (
            pa.ListArray.from_arrays([0, 2, None, 6], inner),
            pa.LargeListArray.from_arrays([0, 2, 4, 6], inner),
            pa.FixedSizeListArray.from_arrays(inner, 2, mask=mask),
            pa.MapArray.from_arrays([0, 2, 4, 6], list("abcdef"), inner),
            pa.StructArray.from_arrays([inner.slice(0, 3), inner.slice(3)], ["f", "g"], mask=mask),
        )
    ):
        found = written(tmp_path / str(number), format, outer, outer.slice(1))
        assert found.to_pylist() == [*outer.to_pylist(), *outer.to_pylist()[1:]]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_dictionaries_of_16_bit_floats_are_not_put_together(tmp_path: Path, format: str) -> None:
    """Arrow takes their bits for numbers when it does."""
    first = coded(0, 1, words=pa.array(np.array([0.5, 1.5], np.float16)))
    second = coded(0, 1, words=pa.array(np.array([2.5, 0.5], np.float16)))
    found = written(tmp_path, format, first, second)
    assert (found.type, found.to_pylist()) == (pa.float16(), [0.5, 1.5, 2.5, 0.5])


def test_times_that_are_coded_keep_their_zone(tmp_path: Path) -> None:
    kind = pa.timestamp("us", "Europe/Berlin")
    codes = coded(0, 1, None, words=pa.array([0, 10**15], pa.int64()).cast(kind))
    for number, (column, expected) in enumerate(
        (
            (codes, kind),
            (pa.ListArray.from_arrays([0, 1, 3], codes), pa.list_(kind)),
            (pa.StructArray.from_arrays([codes], ["f"]), pa.struct([("f", kind)])),
        )
    ):
        found = written(tmp_path / str(number), "parquet", column)
        assert (found.type, found.to_pylist()) == (expected, column.to_pylist())


def test_what_arrow_holds_and_dead_letters_do_not(tmp_path: Path) -> None:
    table = pa.table({"x": [0.5], "empty": pa.array([{}], pa.struct([]))})
    said, _ = _predict(tmp_path, "arrow", None, None, table)
    assert said == [
        "The column 'empty' is of type struct<>, which Parquet cannot hold. Write another format (parquet and "
        "arrow hold the most types), or leave it out: of carry_over, or of the variant's outputs.",
        "Dead letters are Parquet, whatever predictions.format says.",
    ]
