"""Names and the objects behind them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay import build
from assay.errors import ModelError, RunError
from assay.models.outputs import TaskOutput
from assay.pipeline.prepare import prepare
from assay.records import Job, Task
from assay.sources.frame import FrameSource
from assay.sources.parquet import ParquetSource
from assay.spec.model import BudgetSpec, DataSpec, OutputSpec, Spec, VariantSpec
from assay.spec.variant_checks import MODEL_KINDS

SPEC = Spec(data=DataSpec(label="y"), variants=(VariantSpec(name="a", lightgbm="m.txt"),))


def test_a_package_that_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(place: str) -> object:
        raise ModuleNotFoundError("No module named 'lightgbm'", name="lightgbm")

    monkeypatch.setattr(build, "load", missing)
    sentence = r"^Variant 'a': the package 'lightgbm' is not installed; pip install 'assay\[lightgbm\]'\.$"
    with pytest.raises(ModelError, match=sentence):
        build.model(SPEC, SPEC.variants[0], Path())
    with pytest.raises(RunError, match=r"^The executor 'ray' cannot be used: the package 'lightgbm' is not installed;"):
        build.executor("ray", None, None)


@pytest.mark.parametrize("name", ["auto", "local", "ray"])
def test_executors(name: str) -> None:
    build.check_executor(name, None)


@pytest.mark.parametrize(
    ("name", "address", "sentence"),
    [
        ("rya", None, "There is no executor 'rya'; did you mean 'ray'?"),
        ("spark", None, "There is no executor 'spark'; expected 'auto', 'local' or 'ray'."),
        (
            "local",
            "head:1",
            "The executor 'local' uses this process alone, but got the address 'head:1'; drop one of them.",
        ),
    ],
)
def test_executors_that_cannot_be(name: str, address: str | None, sentence: str) -> None:
    with pytest.raises(RunError) as caught:
        build.check_executor(name, address)
    assert str(caught.value) == sentence


def test_a_spec_without_tasks_has_one() -> None:
    assert list(build.task_specs(SPEC)) == ["main"]
    assert build.task_specs(SPEC)["main"].label == "y"


def test_the_kinds_of_models_are_the_same_in_the_spec_its_checks_and_the_table() -> None:
    of_every_kind = {"name", "inputs", "prepare", "receive", "output", "outputs", "family", "memory_bytes", "trusted"}
    assert [key for key in VariantSpec.model_fields if key not in of_every_kind] == list(MODEL_KINDS)
    assert list(build.MODELS) == list(MODEL_KINDS)


def test_a_device_that_this_process_does_not_have_is_told_before_anything_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = {"load": "m:f", "path": "w"}
    tree = {"data": {"label": "y"}, "variants": [{"name": "a", "torch": torch, "inputs": ["x"]}]}
    build.check_here(Spec.model_validate(tree))
    tree["variants"] = [{"name": "a", "torch": {**torch, "device": "cuda"}, "inputs": ["x"]}]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ModelError, match=r"^Variant 'a': its device is cuda, but torch finds no CUDA device in this"):
        build.check_here(Spec.model_validate(tree))


def test_the_specs_folder_comes_first_on_pythons_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/a", "/b", "/c"])
    for base in ("/b", "/new", "/b"):
        build.import_from(base)
    assert sys.path == ["/b", "/new", "/a", "/c"]


# ---- tasks, and what their workers hold ------------------------------------------------------------------------------

TWO = Spec.model_validate(
    {
        "data": {},
        "tasks": {
            "click": {"label": "c", "output": {"is": "logit"}},
            "kind": {"label": "k", "classes": "auto", "output": {"is": "probability", "select": "kind"}},
            "tags": {"labels": {"a": "x"}, "output": {"is": "score"}},
        },
        "variants": [{"name": "a", "callable": "m:f"}, {"name": "b", "callable": "m:f", "output": {"is": "score"}}],
    }
)


def test_each_task_has_its_family_and_output() -> None:
    assert build.families(TWO) == {"click": "single", "kind": "classes", "tags": "labels"}
    resolved = [Task("kind", "k", "class", None, (), ("u", "v"))]
    outputs = build.outputs_of(TWO, TWO.variants[0], resolved)
    assert outputs == {
        "click": OutputSpec(kind="logit"),
        "kind": TaskOutput(kind="probability", select="kind", several="classes", names=("u", "v")),
        "tags": TaskOutput(kind="score", several="labels"),
    }
    other = build.outputs_of(TWO, TWO.variants[1], resolved)["kind"]
    assert other == TaskOutput(kind="score", several="classes", names=("u", "v"))


def test_a_worker_of_a_bundle_holds_its_variants_and_the_baseline(tmp_path: Path) -> None:
    names = ("base", "a", "b", "c")
    spec = Spec(
        data=DataSpec(label="y"),
        output=OutputSpec(kind="probability"),
        variants=tuple(VariantSpec(name=name, column=name, memory_bytes=1) for name in names),
        baseline="base",
        budget=BudgetSpec(model_bytes=3),
    )
    table = pa.table({"y": [0, 1], "unused": [0, 1], **{name: [0.25, 0.5] for name in names}})
    found = prepare(spec, tmp_path, table)
    assert found.plan.bundles == (("base", "a", "b"), ("c",))
    job = Job(found.spec, found.plan, str(tmp_path), found.source, str(tmp_path))
    held = [build.worker_setup(job, bundle).scoring for bundle in (0, 1)]
    assert [[one.name for one in scoring.models] for scoring in held] == [["base", "a", "b"], ["base", "c"]]
    assert [scoring.layout.counted for scoring in held] == [{"base", "a", "b"}, {"c"}]
    [rows] = build.worker_setup(job, 1).read(found.plan.units[0])
    assert rows.table.column_names == ["base", "c"]  # what others read is not read


def test_a_reader_that_prepares_gives_what_is_made_apart_and_the_columns_of_all_else(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        "def pairs(table):\n"
        "    if 6 in table['a'].to_pylist():\n"
        "        raise ValueError('six')\n"
        "    return list(zip(table['a'].to_pylist(), table['b'].to_pylist()))\n"
        "def score(made): ...\n"
    )
    preparation = {"function": "shapes:pairs", "inputs": ["a", "b"], "batch_rows": 2}
    tree = {
        "data": {"label": "y", "where": "y >= 0"},
        "variants": [
            {"name": "plain", "column": "p"},
            {"name": "one", "callable": "shapes:score", "prepare": "apart"},
            {"name": "two", "callable": "shapes:score", "prepare": "here"},
        ],
        "prepare": {"apart": {**preparation, "tasks": 3}, "here": {**preparation, "inputs": {"a": "c", "b": "c"}}},
        "metrics": ["mae"],
    }
    columns = {"y": [0, 1, -1, -1, 0, 1, 0, 1], "p": [0.5] * 8, "c": list(range(8))}
    table = pa.table({**columns, "a": list(range(8)), "b": list("abcdefgh"), "d": [0] * 8})
    found = prepare(Spec.model_validate(tree), tmp_path, table)
    job = Job(found.spec, found.plan, str(tmp_path), found.source, str(tmp_path))
    [rows] = build.preparing_reader(job)(found.plan.units[0])
    [plain] = build.worker_setup(job).read(found.plan.units[0])
    assert plain.table.column_names == ["p", "c", "a", "b"]
    assert rows.table == plain.table.select(["p", "c"])
    *made, failed = rows.prepared["apart"]
    assert made == [[(0, "a"), (1, "b")], [(4, "e"), (5, "f")]]  # of rows 2 and 3 none is left
    said = "preparation 'apart' failed with ValueError: six (shapes.py, line 3). It was given rows 6 to 7 of frame."
    assert str(failed) == said
    assert failed.sample == '[{"a": 6, "b": "g"}, {"a": 7, "b": "h"}]'
    assert rows.prepared.keys() == {"apart"}
    np.testing.assert_array_equal(rows.positions, plain.positions)


class Sorted(ParquetSource):
    """A source of the user's, which another process has from this module alone."""


class Money(pa.ExtensionType):  # type: ignore[misc]  # pyarrow is not typed
    """A type of the user's."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Money:
        return cls()


def test_a_source_is_the_users_where_its_class_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")
    assert build.is_of_ours(ParquetSource(["rows.parquet"], tmp_path))
    assert build.is_of_ours(build.source(DataSpec(path="rows.parquet"), tmp_path))
    assert not build.is_of_ours(Sorted(["rows.parquet"], tmp_path))


def test_a_source_is_the_users_where_a_type_in_it_is() -> None:
    money = pa.ExtensionArray.from_storage(Money(), pa.array([5, 7]))
    in_lists = pa.ListArray.from_arrays([0, 1, 2], money)
    deep = pa.StructArray.from_arrays([in_lists], ["prices"])
    for theirs in (money, in_lists, deep):
        assert not build.is_of_ours(FrameSource(pa.table({"x": [0.5, 1.5], "theirs": theirs})))


def test_the_types_that_count_are_those_that_columns_are_carried_over_with(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")
    source = ParquetSource(["rows.parquet"], tmp_path)
    source.original = pa.schema([("a", Money())])  # and read as numbers
    assert not build.is_of_ours(source)


def test_the_types_of_arrow_are_nobodys_module() -> None:
    kinds = [
        pa.uuid(),
        pa.list_(pa.uuid()),
        pa.map_(pa.string(), pa.struct([("at", pa.timestamp("us", "UTC"))])),
        pa.dictionary(pa.int32(), pa.string()),
        pa.fixed_shape_tensor(pa.float32(), [2, 2]),
        pa.string_view(),
    ]
    assert build.is_of_ours(FrameSource(pa.table({str(kind): pa.nulls(1, kind) for kind in kinds})))
