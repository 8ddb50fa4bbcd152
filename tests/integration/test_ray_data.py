"""Models in Ray Data pipelines, on real Ray: what is carried over is untouched, and models see their inputs alone."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import ray
import ray.data
from fakes.ray_models import CountedRows, Linear, Many, Scale, Witness, double, many
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ray.data.expressions import col
from ray.data.extensions import ArrowTensorArray
from ray.exceptions import RayError

from assay.errors import DataError, ModelError
from assay.integrations.ray_data import ModelSpec, ParquetRows, map_batches, multi_model
from assay.integrations.ray_data.batches import WHOLE_BLOCKS
from assay.integrations.ray_data.inputs import FORMATS

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),  # Ray Data's, at its own defaults
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
ROWS = 100
LARGE = 2**53 + 1


@pytest.fixture(autouse=True)
def _quiet(ray_address: str) -> Iterator[None]:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    level = logging.getLogger("ray.data").level
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    logging.getLogger("ray.data").setLevel(level)


def column(kind: pa.DataType, value: Any, other: Any) -> pa.Array:
    """A third nulls."""
    return pa.array([(value, other, None)[row % 3] for row in range(ROWS)], kind)


def every_type() -> pa.Table:
    """Columns of all types that come through Parquet and Ray Data, with nulls and metadata."""
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 123456)
    columns = {
        "x": pa.array(range(ROWS), pa.int64()),
        "identity": column(pa.int64(), LARGE, -LARGE),
        "unsigned": column(pa.uint64(), 2**64 - 1, 0),
        "small": column(pa.int8(), -128, 127),
        "single": column(pa.float32(), 0.1, float("-inf")),  # NaN equals nothing
        "flag": column(pa.bool_(), True, False),
        "text": column(pa.string(), "ä", ""),
        "large_text": column(pa.large_string(), "b" * 300, ""),
        "bytes": column(pa.binary(), b"\x00\xff", b""),
        "fixed_bytes": column(pa.binary(2), b"\x00\xff", b"ab"),
        "price": column(pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.1")),
        "moment": column(pa.timestamp("us", "Europe/Berlin"), moment, datetime.datetime(1900, 1, 1)),
        "nanoseconds": column(pa.timestamp("ns"), 1, 2**62),
        "day": column(pa.date32(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
        "time": column(pa.time64("us"), datetime.time(23, 59, 59, 999999), datetime.time()),
        "duration": column(pa.duration("us"), 5, -5),
        "words": column(pa.list_(pa.string()), ["a", None, "b"], []),
        "nested": column(pa.list_(pa.list_(pa.int64())), [[LARGE], None, []], []),
        "pair": column(pa.list_(pa.float32(), 2), [0.5, None], [1.0, 2.0]),
        "record": column(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), {"a": LARGE, "b": ["x"]}, {}),
        "attributes": column(pa.map_(pa.string(), pa.int64()), [("k", LARGE)], []),
        "country": column(pa.string(), "DE", "US").dictionary_encode(),
        "nothing": pa.nulls(ROWS),
    }
    fields = [
        pa.field(name, array.type, metadata={"describes": name} if name != "x" else None)
        for name, array in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields, {"owner": "data team"}))


def pieces(table: pa.Table, *sizes: int) -> ray.data.Dataset:
    """A dataset of blocks of these sizes."""
    starts = np.cumsum([0, *sizes])
    return ray.data.from_arrow([table.slice(start, size) for start, size in zip(starts, sizes, strict=False)])


def collected(ds: ray.data.Dataset) -> pa.Table:
    return pa.concat_tables(block for block in ray.get(ds.to_arrow_refs()) if block.num_columns)


def with_output(table: pa.Table, name: str = "p") -> pa.Table:
    return table.append_column(name, pa.array([2 * x for x in table["x"].to_pylist()], pa.int64()))


def message(error: BaseException) -> str:
    return str(error)


@pytest.mark.parametrize("batch_format", ["numpy", "torch", "pandas", "pyarrow"])
def test_every_type_comes_out_as_it_went_in(batch_format: Any) -> None:
    table = every_type()
    model = (lambda batch: batch["x"].to_numpy() * 2) if batch_format in ("pandas", "pyarrow") else double
    ds = map_batches(
        pieces(table, 40, 0, 60), model, inputs=["x"], outputs="p", batch_format=batch_format, batch_size=7
    )
    result = collected(ds)
    assert result.equals(with_output(table), check_metadata=True)
    assert result.schema.equals(with_output(table).schema, check_metadata=True)


def test_every_type_comes_out_late_as_it_went_in() -> None:
    table = every_type()
    ds = map_batches(pieces(table, 40, 0, 60), double, inputs=["x"], outputs="p", late=True)
    assert collected(ds).equals(with_output(table), check_metadata=True)


def test_every_type_comes_out_late_of_files_as_it_is_in_them(tmp_path: Path) -> None:
    pq.write_table(every_type(), tmp_path / "a.parquet", row_group_size=30)
    rows = ParquetRows(str(tmp_path))
    ds = map_batches(rows.dataset(["x"]), double, inputs=["x"], outputs="p", late=rows)
    sent = pa.BufferOutputStream()
    in_file = pq.ParquetFile(tmp_path / "a.parquet").read()
    with pa.ipc.new_stream(sent, in_file.schema) as stream:
        stream.write_table(in_file)
    expected = pa.ipc.open_stream(sent.getvalue()).read_all()  # Arrow's own format names a map's values anew
    assert collected(ds).equals(with_output(expected), check_metadata=True)


@pytest.mark.parametrize("late", [False, True])
def test_rows_keep_their_order_in_many_blocks(late: bool) -> None:
    table = pa.table({"x": range(300), "text": [f"row {number}" for number in range(300)]})
    ds = map_batches(
        pieces(table, *[10] * 30), Scale, inputs={"features": ["x", "x"]}, outputs={"p": pa.int64()}, late=late,
        fn_constructor_args=[1], concurrency=2,
    )  # fmt: skip
    assert collected(ds).equals(with_output(table))


def test_after_filter_map_and_join() -> None:
    left = pa.table({"x": range(60), "text": [f"row {number}" for number in range(60)]})
    right = pa.table({"x": range(0, 60, 3), "weight": [LARGE + number for number in range(20)]})
    ds = pieces(left, 20, 20, 20).filter(expr=col("x") >= 20)  # the first block has no rows
    ds = ds.join(pieces(right, 20), "inner", 2, on=("x",)).map(lambda row: {**row, "y": row["x"] + 1})
    rows = collected(map_batches(ds, double, inputs=["x"], outputs="p")).sort_by("x").to_pylist()
    assert rows == [
        {"x": x, "text": f"row {x}", "weight": LARGE + x // 3, "y": x + 1, "p": 2 * x} for x in range(21, 60, 3)
    ]


def test_a_dataset_without_rows() -> None:
    ds = pieces(pa.table({"x": range(20)}), 10, 10).filter(expr=col("x") < 0)
    assert map_batches(ds, double, inputs=["x"], outputs={"p": "int64"}).count() == 0
    with pytest.raises(DataError) as caught:
        map_batches(ds, double, inputs=["x"], outputs="p", late=True)
    assert str(caught.value) == "The dataset has no rows, so there is nothing to score."


def test_tensor_columns_of_ray_data() -> None:
    images = np.arange(48, dtype=np.uint8).reshape(4, 3, 4)
    ds = ray.data.from_numpy(images)
    result = map_batches(ds, lambda batch: batch["data"].sum((1, 2)), inputs=["data"], outputs="total")
    assert [row["total"] for row in result.take_all()] == images.sum((1, 2)).tolist()
    assert [row["data"].tolist() for row in result.take_all()] == images.tolist()


def test_outputs_of_a_torch_module_have_the_declared_types() -> None:
    ds = pieces(pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]}), 3)
    outputs = {"score": "float64", "embedding": pa.list_(pa.float32(), 2)}
    model = Linear()
    result = collected(map_batches(ds, model, inputs=["x"], outputs=outputs, batch_format="torch", carry_over="text"))
    assert result.schema.equals(pa.schema([("text", pa.string()), *outputs_as_fields(outputs)]))
    assert result.to_pydict() == {
        "text": ["a", "b", "c"],
        "score": [2.5, 5.0, 7.5],
        "embedding": [[0.5, 2.0], [1.0, 4.0], [1.5, 6.0]],
    }


def outputs_as_fields(outputs: dict[str, Any]) -> list[pa.Field]:
    return [pa.field(name, pa.float64() if kind == "float64" else kind) for name, kind in outputs.items()]


# ---- late ------------------------------------------------------------------------------------------------------------


def test_the_process_of_the_model_never_has_a_wide_column() -> None:
    table = pa.table({"x": range(20), "wide": ["w" * 1000] * 20})
    result = map_batches(pieces(table, 10, 10), Witness, inputs=["x"], outputs=["process", "seen"], late=True)
    found = collected(result)
    assert set(found["seen"].to_pylist()) == {"x,row_number"}
    assert os.getpid() not in found["process"].to_pylist()
    assert found["wide"].to_pylist() == table["wide"].to_pylist()


def test_wide_columns_of_files_are_read_by_the_process_that_writes_them(tmp_path: Path) -> None:
    """And enter the object store neither before the model nor after it: appending and writing are one operator."""
    (tmp_path / "in").mkdir()
    table = pa.table({"x": range(200), "wide": [f"{number:01000}" for number in range(200)]})
    for part in range(4):
        pq.write_table(table.slice(50 * part, 50), tmp_path / "in" / f"{part}.parquet", row_group_size=25)
    rows = CountedRows(str(tmp_path / "in")).at(tmp_path / "notes")
    ds = map_batches(rows.dataset(["x"]), Witness, inputs=["x"], outputs=["process", "seen"], late=rows)
    ds.write_parquet(str(tmp_path / "out"))

    written = pyarrow.dataset.dataset(str(tmp_path / "out")).to_table().sort_by("x")
    assert written.select(["x", "wide"]).equals(table)
    assert set(written["seen"].to_pylist()) == {"x,row_number"}
    reads = [line.split(" ") for line in (tmp_path / "notes").read_text().splitlines()]
    scorers = {str(process) for process in written["process"].to_pylist()}
    assert {columns for process, columns in reads if process in scorers} <= {"x"}
    assert sum(columns == "wide" for _, columns in reads) == 8  # each row group once
    assert {columns for _, columns in reads} == {"x", "wide"}
    assert "MapBatches(append_wide)->Write" in ds._write_ds.stats()  # Ray Data tells it nowhere else


def test_late_rows_that_were_filtered_and_changed_keep_their_wide_columns(tmp_path: Path) -> None:
    table = pa.table({"x": range(200), "wide": [f"row {number}" for number in range(200)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=40)
    rows = ParquetRows(str(tmp_path))
    ds = (
        rows.dataset(["x"])
        .filter(expr=col("x").is_in(list(range(0, 200, 7))))
        .map(lambda row: {**row, "x": row["x"] + 1000})
    )
    result = collected(map_batches(ds, double, inputs=["x"], outputs="p", late=rows))
    kept = range(0, 200, 7)
    assert result.to_pydict() == {
        "x": [number + 1000 for number in kept],
        "wide": [f"row {number}" for number in kept],
        "p": [2 * (number + 1000) for number in kept],
    }


# ---- several models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("memory_per_actor", [100, 50])
def test_several_models_in_one_pass(late: bool, memory_per_actor: int) -> None:
    table = pa.table({"x": range(30), "y": [float(number) for number in range(30)], "text": ["t"] * 30})
    models = {
        "plain": ModelSpec(double, ["x"], "a", memory=50),
        "scaled": ModelSpec(
            Scale, {"features": ["x", "y"]}, {"b": "float32"}, batch_format="torch", fn_constructor_args=[3], memory=50
        ),
    }
    ds = pieces(table, 10, 20)
    ds = multi_model(ds, models, carry_over="te*", late=late, memory_per_actor=memory_per_actor)
    result = collected(ds)
    assert result.schema.equals(pa.schema([("text", pa.string()), ("a", pa.int64()), ("b", pa.float32())]))
    assert result["a"].to_pylist() == [2 * number for number in range(30)]
    assert result["b"].to_pylist() == [6.0 * number for number in range(30)]


@pytest.mark.parametrize("late", [False, True])
def test_every_format_and_kind_of_model_gives_the_same_outputs(late: bool) -> None:
    """A function, a class, one with arguments, and an object; blocks of many rows, of one, and of none."""
    table = pa.table({"x": range(20), "text": [f"row {number}" for number in range(20)]})
    kinds: dict[str, tuple[Any, list[float]]] = {
        "function": (many, []),
        "class": (Many, []),
        "arguments": (Many, [2.0]),
        "object": (Many(), []),
    }
    outputs = {"score": None, "embedding": None, "items": pa.list_(pa.string()), "word": None}
    models = {
        f"{form}_{kind}": ModelSpec(
            model,
            ["x"],
            {f"{name}_{form}_{kind}": declared for name, declared in outputs.items()},
            batch_size=7,
            batch_format=form,
            fn_constructor_args=arguments,
        )
        for form in FORMATS
        for kind, (model, arguments) in kinds.items()
    }
    result = collected(multi_model(pieces(table, 12, 0, 1, 7), models, late=late, concurrency=1))
    assert result.select(["x", "text"]).equals(table)
    numbers = range(20)
    expected = {
        "score": pa.array([2.0 * n for n in numbers], pa.float32()),
        "embedding": pa.array([[n, n + 0.5] for n in numbers], pa.list_(pa.float32(), 2)),
        "items": pa.array([[str(n)] * (n % 3) for n in numbers], pa.list_(pa.string())),
        "word": pa.array([f"n{n}" for n in numbers]),
    }
    for model in models:
        for name, column in expected.items():
            assert result[f"{name}_{model}"].combine_chunks().equals(column), (name, model)


def test_parts_of_gpus_are_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is needed to see what a pipeline would ask for."""
    asked: list[dict[str, Any]] = []
    unchecked = next(name for name in WHOLE_BLOCKS if hasattr(ray.data.Dataset, name))
    plain = getattr(ray.data.Dataset, unchecked)

    def noted(ds: ray.data.Dataset, function: Any, **settings: Any) -> ray.data.Dataset:
        pool = settings["compute"]
        actors = None if pool is None else (pool.min_size, pool.max_size)
        asked.append({name: settings.get(name) for name in ("num_gpus", "num_cpus", "memory")} | {"actors": actors})
        return plain(ds, function, **settings)

    monkeypatch.setattr(ray.data.Dataset, unchecked, noted)
    ds = pieces(pa.table({"x": [1, 2]}), 2)
    map_batches(ds, Scale, inputs={"features": ["x"]}, outputs="p", num_gpus=0.5, fn_constructor_args=[1])
    specs = {name: ModelSpec(Scale, {"features": ["x"]}, name, num_gpus=0.3, memory=5) for name in ("a", "b", "c", "d")}
    multi_model(ds, specs, concurrency=2)
    assert asked == [
        {"num_gpus": 0.5, "num_cpus": None, "memory": None, "actors": None},
        {"num_gpus": 0.9, "num_cpus": None, "memory": 15, "actors": (2, 2)},
        {"num_gpus": 0.3, "num_cpus": None, "memory": 5, "actors": (2, 2)},
    ]


# ---- carry-over, of all kinds of columns -----------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
LARGE_NUMBERS = st.integers(2**53, 2**62)
RECORDS = st.fixed_dictionaries({"a": st.text(max_size=3), "b": st.none()})
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "identity": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "price": (pa.decimal128(20, 4), st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-4))),
    "moment": (pa.timestamp("us", "Asia/Kathmandu"), MOMENTS),
    "nested": (pa.list_(pa.list_(pa.int64())), st.lists(st.none() | st.lists(LARGE_NUMBERS, max_size=2), max_size=2)),
    "record": (pa.struct([("a", pa.large_string()), ("b", pa.float32())]), RECORDS),
    "word": (pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["a", "b", "ü"])),
    "pairs": (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(st.text(max_size=2), LARGE_NUMBERS), max_size=2)),
}


@st.composite
def cut_tables(draw: st.DrawFn) -> tuple[pa.Table, list[int]]:
    """Columns of all these types with nulls and metadata, and a tensor column of Ray's; and the sizes of blocks."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 8]), min_size=1, max_size=4).filter(sum))
    rows = sum(sizes)
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in VALUES.values()
    ]
    fields = [
        pa.field(name, kind, metadata={"note": draw(st.text(max_size=3))} if name != "word" else None)
        for name, (kind, _) in VALUES.items()
    ]
    table = pa.table(columns, schema=pa.schema(fields, {"owner": "data team"}))
    tensors = ArrowTensorArray.from_numpy(np.arange(6.0 * rows).reshape(rows, 2, 3))
    return table.append_column("image", tensors).append_column("x", pa.array(range(rows))), sizes


@pytest.mark.parametrize("late", [False, True])
@settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(cut=cut_tables())
def test_whatever_is_carried_over_comes_out_as_it_went_in(late: bool, cut: tuple[pa.Table, list[int]]) -> None:
    table, sizes = cut
    result = collected(map_batches(pieces(table, *sizes), double, inputs=["x"], outputs="p", batch_size=2, late=late))
    assert result.schema.equals(with_output(table).schema, check_metadata=True)
    assert result.equals(with_output(table))


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_missing_columns_are_known_before_anything_runs() -> None:
    ds = pieces(pa.table({"x": [1], "text": ["a"]}), 1)
    with pytest.raises(ModelError) as caught:
        map_batches(ds, double, inputs=["xx", "zzz"], outputs="p")
    assert str(caught.value) == (
        "Variant 'double': the model wants column 'xx', which the data do not have; did you mean 'x'? It also wants "
        "'zzz'."
    )


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"outputs": "text"},
            "The output 'text' has the name of a column that is carried over. Give it another name, or leave it out of "
            "carry_over.",
        ),
        ({"carry_over": "txt"}, "carry_over names 'txt', which matches no column of the data; did you mean 'text'?"),
    ],
)
def test_names_that_clash_or_match_nothing(asked: dict[str, Any], sentence: str) -> None:
    """Said at once where the columns are known, by the worker where a step before hides them."""
    ds = pieces(pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]}), 3)
    words = {"model": double, "inputs": ["x"], "outputs": "p", **asked}
    with pytest.raises(DataError) as said:
        map_batches(ds, **words)
    assert str(said.value) == sentence
    with pytest.raises(RayError) as caught:
        map_batches(ds.map_batches(lambda table: table, batch_format="pyarrow"), **words).materialize()
    assert sentence in message(caught.value)


@pytest.mark.parametrize("late", [False, True])
def test_a_model_that_returns_fewer_rows_is_named(late: bool) -> None:
    ds = pieces(pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]}), 3)
    with pytest.raises(RayError) as caught:
        map_batches(ds, lambda batch: batch["x"][1:], inputs=["x"], outputs="p", late=late).materialize()
    sentence = "Variant '<lambda>': it returned 2 rows of 'p' for a batch of 3 rows; expected one for each."
    assert message(caught.value).endswith(sentence)
    assert isinstance(caught.value, ModelError)


@pytest.mark.parametrize("late", [False, True])
def test_a_model_that_fails_is_told_last_and_once(late: bool) -> None:
    ds = pieces(pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]}), 3)
    with pytest.raises(ModelError) as caught:
        map_batches(ds, lambda batch: batch["y"], inputs=["x"], outputs="p", late=late).materialize()
    sentence = "Variant '<lambda>': the model, given 'x' (int64), failed with KeyError: 'y' ("
    assert sentence in message(caught.value).splitlines()[-1]
    assert "in <lambda>" in message(caught.value)  # where the user's function failed
    assert message(caught.value).count("The above exception was the direct cause") == 1


def test_what_is_appended_late_fails_as_models_do(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]}), tmp_path / "a.parquet")
    rows = ParquetRows(str(tmp_path))
    ds = rows.dataset(["x"]).map_batches(lambda table: table.drop_columns("row_number"), batch_format="pyarrow")
    with pytest.raises(DataError) as caught:
        map_batches(ds, double, inputs=["x"], outputs="p", late=rows).materialize()
    assert message(caught.value).endswith("Keep it in all steps between ParquetRows.dataset and here.")
    assert "The above exception was the direct cause" not in message(caught.value)


@pytest.mark.parametrize("form", ["blocks", "files"])
def test_inputs_that_are_missing_are_told_before_a_late_model_runs(form: str, tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, 3], "text": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = ParquetRows(str(tmp_path))
    hidden = pieces(table, 3).map_batches(lambda block: block, batch_format="pyarrow")
    ds, late = (rows.dataset(["x"]), rows) if form == "files" else (hidden, True)
    with pytest.raises(ModelError) as missing:
        map_batches(ds, double, inputs=["xx"], outputs="p", late=late)
    assert str(missing.value) == (
        "Variant 'double': the model wants column 'xx', which the data do not have; did you mean 'x'?"
    )
    with pytest.raises(DataError, match=r"^carry_over names 'tex', which matches no column of the data; did you mean"):
        map_batches(ds, double, inputs=["x"], outputs="p", carry_over="tex", late=late)


def test_arguments_of_another_kind_are_refused() -> None:
    table: Any = pa.table({"x": [1]})
    with pytest.raises(
        DataError, match=r"^ds is a Table; expected a dataset of Ray Data, such as ray\.data\.from_arrow"
    ):
        map_batches(table, double, inputs=["x"], outputs="p")
    late: Any = "rows"
    with pytest.raises(
        DataError, match=r"^late is 'rows'; expected True, False, or a ParquetRows, of which ds was made\."
    ):
        map_batches(pieces(table, 1), double, inputs=["x"], outputs="p", late=late)


def test_settings_without_effect_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        map_batches(
            pieces(pa.table({"x": [1]}), 1), double, inputs=["x"], outputs="p", late_ray_remote_args={"num_cpus": 2}
        )
    assert str(caught.value) == ("late_ray_remote_args have no effect without late. Say late=True or leave them out.")
