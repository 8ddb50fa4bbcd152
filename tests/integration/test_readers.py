"""What Ray Data reads, named in a spec: real files, faults as sentences."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import deltalake
import lance
import numpy as np
import pyarrow.parquet as pq
import pytest
from fakes.ray_sources import NUMBERS
from PIL import Image
from pyiceberg.catalog import load_catalog

import assay
from assay import api
from assay.errors import DataError, RunError, SpecError
from assay.records import Progress
from assay.spec.load import build_spec

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),  # Ray Data's, at its own defaults
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _connected(ray_address: str) -> None:
    """All of these find the tests' own cluster."""


def spec(data: dict[str, Any], **other: Any) -> assay.Spec:
    tree = {
        "data": {"label": "y", **data},
        "variants": [{"name": "p", "column": "p"}],
        "metrics": ["auc", "brier"],
        "output": {"is": "probability"},
        **other,
    }
    return build_spec(tree)


def run(data: dict[str, Any], base: Path, **other: Any) -> assay.Evaluation:
    return api.run(spec(data, **other), base=base, workers=1)


def values(found: assay.Evaluation) -> dict[str, float]:
    return dict(zip(found.metrics["metric"].to_pylist(), found.metrics["value"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def expected() -> dict[str, float]:
    found = assay.evaluate(NUMBERS, label="y", scores=["p"], output="probability", metrics=["auc", "brier"])
    return values(found)


BRIGHT = {
    "variants": [
        {"name": "mean", "callable": "fakes.ray_sources:brightness", "inputs": {"image": "image"}},
    ],
}


def grey(value: int, size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.fromarray(np.full(size, value, np.uint8))


def test_images_with_labels_from_folders(tmp_path: Path) -> None:
    """Two folders of PNG files; the score is the mean brightness, 0.2 and 0.8, so that it separates them."""
    for folder, value in (("cat", 51), ("dog", 204)):
        (tmp_path / "images" / folder).mkdir(parents=True)
        for number in range(5):
            grey(value).save(tmp_path / "images" / folder / f"{number}.png")
    data = {
        "reader": "images",
        "path": "images",
        "settings": {"mode": "L", "partitioning": {"field_names": ["kind"]}},
        "label": "kind = 'dog'",
        "slices": ["kind"],
    }
    said: list[Progress] = []
    found = api.run(spec(data, **BRIGHT), base=tmp_path, workers=1, report=said.append)
    assert said[0].message == "Executor: ray, for a Ray dataset. The run cannot be resumed."
    separated = [row["value"] for row in found.metrics.to_pylist() if row["metric"] == "auc"]
    assert separated[0] == 1.0
    rows = {row["slice"]: row for row in found.metrics.to_pylist() if row["metric"] == "brier" and row["rows"]}
    assert rows["overall"]["value"] == pytest.approx(0.04)
    assert {name: row["rows"] for name, row in rows.items()} == {"overall": 10, "kind=cat": 5, "kind=dog": 5}


def test_images_of_several_sizes(tmp_path: Path) -> None:
    """They come as data and shape of each, of which expressions and models make what they like."""
    for number, size in enumerate([(2, 2), (3, 5), (4, 4)]):
        grey(50 * number, size).save(tmp_path / f"{number}.png")
    data = {"reader": "images", "path": ".", "settings": {"mode": "L"}, "label": "image.data[1] > 60"}
    height = {"callable": "fakes.ray_sources:height", "inputs": {"image": "image"}, "receive": "arrow"}
    found = run(data, tmp_path, variants=[{"name": "p", **height}])
    assert found.metrics["rows"].to_pylist() == [3, 3]
    assert values(found)["brier"] == pytest.approx((0.5**2 + 0.75**2 + 0) / 3)


def test_webdataset(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard-0.tar", "w") as shard:
        for number in range(8):
            image = io.BytesIO()
            grey(51 if number % 2 else 204).convert("RGB").save(image, "png")
            parts = {"png": image.getvalue(), "cls": b"%d" % (number % 2), "json": json.dumps({"p": 0.25}).encode()}
            for ending, content in parts.items():
                info = tarfile.TarInfo(f"{number:03d}.{ending}")
                info.size = len(content)
                shard.addfile(info, io.BytesIO(content))
    data = {"reader": "webdataset", "path": "shard-*.tar", "settings": {"expand_json": True}, "label": "cls"}
    variants = [
        {"name": "mean", "callable": "fakes.ray_sources:brightness", "inputs": {"image": "png"}},
        {"name": "p", "column": "p"},
    ]
    found = run(data, tmp_path, variants=variants, metrics=["brier"])
    assert found.metrics["value"].to_pylist() == [pytest.approx(0.8**2), pytest.approx((0.25**2 + 0.75**2) / 2)]


@pytest.mark.parametrize("reader", ["delta", "lance"])
@pytest.mark.parametrize("by_ray", [False, True])
def test_tables_with_versions(reader: str, by_ray: bool, tmp_path: Path, expected: dict[str, float]) -> None:
    """An address is Ray Data's to read; a place on a disk is read without Ray, so that the run can go on."""
    place = str(tmp_path / "table")
    if reader == "delta":
        deltalake.write_deltalake(place, NUMBERS)
        deltalake.write_deltalake(place, NUMBERS.slice(0, 4), mode="append")
    else:
        lance.write_dataset(NUMBERS, place)
        lance.write_dataset(NUMBERS.slice(0, 4), place, mode="append")
    first = 0 if reader == "delta" else 1
    path = (tmp_path / "table").as_uri() if by_ray else "table"
    said: list[Progress] = []
    found = run({"reader": reader, "path": path, "settings": {"version": first}}, tmp_path)
    assert values(found) == expected
    latest = api.run(spec({"reader": reader, "path": path}), base=tmp_path, workers=1, report=said.append)
    assert latest.metrics["rows"].to_pylist() == [24, 24]
    assert said[0].message.startswith("Executor: ray, for" if by_ray else "Executor: local, since")


def test_sql(tmp_path: Path, expected: dict[str, float]) -> None:
    settings = {"sql": "SELECT * FROM log", "connection_factory": "fakes.ray_sources:table_of_numbers"}
    assert values(run({"reader": "sql", "settings": settings}, tmp_path)) == expected


def test_iceberg(tmp_path: Path, expected: dict[str, float]) -> None:
    """A catalog in SQLite, and a table of two snapshots."""
    settings = {"name": "own", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = load_catalog(**settings)
    catalog.create_namespace("logs")
    table = catalog.create_table("logs.clicks", NUMBERS.schema)
    table.append(NUMBERS)
    first = table.current_snapshot()
    table.append(NUMBERS.slice(0, 4))
    data = {"reader": "iceberg", "path": "logs.clicks"}
    found = run({**data, "settings": {"catalog_kwargs": settings, "snapshot_id": first.snapshot_id}}, tmp_path)
    assert values(found) == expected
    latest = run({**data, "settings": {"catalog_kwargs": settings}}, tmp_path)
    assert latest.metrics["rows"].to_pylist() == [24, 24]
    with pytest.raises(DataError, match=r"^The reader 'iceberg' failed: Table does not exist: logs\.klicks\.$"):
        run({"reader": "iceberg", "path": "logs.klicks", "settings": {"catalog_kwargs": settings}}, tmp_path)


def test_hugging_face(tmp_path: Path, expected: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """What `save_to_disk` wrote, with splits and without, and files that its own loaders read; nothing is fetched."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict(NUMBERS.to_pydict())
    whole.save_to_disk(str(tmp_path / "one"))
    splits = {"test": whole, "train": whole.select(range(4))}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "several"))
    (tmp_path / "files").mkdir()
    pq.write_table(NUMBERS, tmp_path / "files" / "test-0.parquet")
    data = {"reader": "huggingface", "path": "several"}
    assert values(run({"reader": "huggingface", "path": "one"}, tmp_path)) == expected
    assert values(run({**data, "settings": {"split": "test"}}, tmp_path)) == expected
    cached = {"split": "test", "cache_dir": str(tmp_path / "cache")}
    assert values(run({**data, "path": "files", "settings": cached}, tmp_path)) == expected
    for settings, which in (({}, "several splits"), ({"split": "tset"}, "no split 'tset'")):
        with pytest.raises(
            DataError, match=rf"^The data set 'several' has {which}.*Say settings: \{{split: \.\.\.\}}\.$"
        ):
            run({**data, "settings": settings}, tmp_path)


def test_tfrecords(tmp_path: Path, expected: dict[str, float]) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    train = tensorflow.train
    with tensorflow.io.TFRecordWriter(str(tmp_path / "log.tfrecords")) as writer:
        for row in NUMBERS.to_pylist():
            y = train.Feature(int64_list=train.Int64List(value=[row["y"]]))
            p = train.Feature(float_list=train.FloatList(value=[row["p"]]))
            writer.write(train.Example(features=train.Features(feature={"y": y, "p": p})).SerializeToString())
    found = values(run({"reader": "tfrecords", "path": "log.tfrecords"}, tmp_path))
    assert found["auc"] == expected["auc"]
    assert found["brier"] == pytest.approx(expected["brier"], abs=1e-7)  # records have float32


def test_a_function_of_the_users(tmp_path: Path, expected: dict[str, float]) -> None:
    pq.write_table(NUMBERS, tmp_path / "log.parquet")
    data = {"reader": "fakes.ray_sources:of_path", "path": "log.parquet", "settings": {"least": 0.3}}
    assert run(data, tmp_path).metrics["rows"].to_pylist() == [15, 15]
    assert values(run({"reader": "fakes.ray_sources:numbers", "settings": {"blocks": 3}}, tmp_path)) == expected


def test_a_function_beside_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, float]
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_rows.py").write_text("from fakes.ray_sources import numbers as logged\n")
    assert values(run({"reader": "own_rows:logged"}, tmp_path)) == expected


def test_the_plan_knows_its_rows(tmp_path: Path) -> None:
    prepared = api.plan(spec({"reader": "fakes.ray_sources:numbers"}), base=tmp_path)
    assert prepared.num_rows == 20
    assert not prepared.source.resumable


def test_predictions_carry_its_columns_over(tmp_path: Path) -> None:
    asked = spec({"reader": "fakes.ray_sources:numbers", "settings": {"blocks": 3}}, predictions={}, carry_over=["y"])
    found = api.predict(asked, base=tmp_path, workers=1, out=tmp_path / "run")
    assert found.predictions is not None
    written = pq.read_table(tmp_path / "run" / "predictions", columns=["y", "p"])
    assert written.equals(NUMBERS)


def faults(data: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        spec(data)
    return [str(fault) for fault in caught.value.faults]


def test_faults_of_the_spec() -> None:
    assert faults({"reader": "image", "path": "x"}) == [
        "data.reader: there is no reader 'image'; did you mean 'images'?"
    ]
    assert faults({"settings": {"a": 1}, "path": "x"}) == [
        "data.settings: have no effect without data.reader; give that, or drop these."
    ]
    assert faults({"reader": "delta", "path": ["a", "b"], "format": "csv"}) == [
        "data.format: has no effect beside the reader 'delta'; drop one of them.",
        "data.path: is a list; the reader 'delta' takes one.",
    ]
    assert faults({"reader": "lance"}) == ["data.path: is required by the reader 'lance'."]
    assert faults({"reader": "sql", "path": "x"}) == [
        "data.path: has no effect with the reader 'sql', whose settings say what is read; drop it."
    ]
    assert faults({"reader": "mongo", "path": "x"}) == [
        "data.reader: 'mongo' reads from a service with credentials of its own. Write a function beside the spec that "
        'returns ray.data.read_mongo(...), and name it here: "module:function".'
    ]
    assert faults({"reader": "a b:c"}) == ["data.reader: got 'a b:c'; expected \"module:function\"."]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"reader": "images", "path": "nowhere"},
            r"^There is no file or folder '.*/nowhere'\.$",
        ),
        (
            {"reader": "images", "path": "*.png"},
            r"^The pattern '.*/\*\.png' matches no file\.$",
        ),
        (
            {"reader": "images", "path": ".", "settings": {"sise": [2, 2]}},
            r"^data\.settings\.sise: the reader 'images' takes no 'sise'; did you mean 'size'\?$",
        ),
        (
            {"reader": "sql", "settings": {"sql": "SELECT 1"}},
            r"^data\.settings: the reader 'sql' needs 'connection_factory'; give it\.$",
        ),
        (
            {"reader": "huggingface", "path": "x"},
            r"^The reader 'huggingface' needs the package 'datasets', which is not installed; pip install datasets\.$",
        ),
        (
            {"reader": "fakes.no_such:rows"},
            r"^data\.reader: there is no module 'fakes\.no_such' beside the spec or installed\.$",
        ),
        (
            {"reader": "fakes.ray_sources:nunbers"},
            r"^data\.reader: the module 'fakes\.ray_sources' has no function 'nunbers'; did you mean 'numbers'\?$",
        ),
        (
            {"reader": "fakes.ray_sources:no_dataset"},
            r"^The reader 'fakes\.ray_sources:no_dataset' returned a list; expected a Ray dataset\.$",
        ),
        (
            {"reader": "fakes.ray_sources:failing"},
            r"^The reader 'fakes\.ray_sources:failing' failed: it has a bad day\.$",
        ),
    ],
)
def test_what_cannot_be_read_is_said(data: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((DataError, SpecError), match=message):
        run(data, tmp_path)


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    """Ray Data asks for tensorflow in the task that reads."""
    (tmp_path / "x.tfrecords").write_bytes(b"")
    with pytest.raises(DataError, match=r"No module named 'tensorflow'"):
        run({"reader": "tfrecords", "path": "x.tfrecords"}, tmp_path)


def test_another_executor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"^The reader 'images' is one of Ray Data's, whose rows the executor 'local' can"
    ):
        api.run(spec({"reader": "images", "path": "."}), base=tmp_path, executor="local")


def test_scores_cannot_be_looked_for() -> None:
    with pytest.raises(
        SpecError, match=r"^scores: cannot be looked for before the reader 'images' reads; give variants"
    ):
        assay.evaluate("x", reader="images", label="y", scores=["p*"])
