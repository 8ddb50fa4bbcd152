"""Delta tables as rows: versions, partitions, and what cannot be read."""

from __future__ import annotations

import base64
import datetime
import json
import pickle
import string
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import assay
from assay import api
from assay.errors import DataError, RunError, SpecError
from assay.records import Unit
from assay.sources.delta import DeltaSource, check_place
from assay.spec.load import build_spec
from assay.spec.model import DataSpec

FIRST = pa.table({"y": [0, 1, 1, 0], "p": [0.1, 0.9, 0.4, 0.6]})


def source(place: Path, **settings: Any) -> DeltaSource:
    return DeltaSource(DataSpec(reader="delta", path=place.name, settings=settings), place.parent)


def rows(found: DeltaSource, *columns: str) -> list[dict[str, Any]]:
    chunks = [
        chunk for fragment in found.fragments for chunk in found.read(Unit("u", fragment.path, 0, None, 0), columns)
    ]
    return [row for chunk in chunks for row in chunk.table.to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_deltalake(str(tmp_path / "log"), FIRST)
    write_deltalake(str(tmp_path / "log"), pa.table({"y": [1], "p": [0.7]}), mode="append")
    return tmp_path / "log"


def test_the_latest_version_or_another(place: Path) -> None:
    assert len(rows(source(place), "y", "p")) == 5
    assert rows(source(place, version=0), "p", "y") == FIRST.select(["p", "y"]).to_pylist()


def test_partitions_are_columns_of_their_type(tmp_path: Path) -> None:
    """Their values are not in the files; null is one of them."""
    day = datetime.date(2024, 2, 29)
    table = pa.table({"day": pa.array([day, None]), "y": [0, 1], "of/city": ["São Paulo", "São Paulo"]})
    write_deltalake(str(tmp_path / "log"), table, partition_by=["day", "of/city"])
    found = pickle.loads(pickle.dumps(source(tmp_path / "log")))
    assert found.schema == pa.schema({"day": pa.date32(), "y": pa.int64(), "of/city": pa.string()})
    expected = [{"day": None, "of/city": "São Paulo", "y": 1}, {"day": day, "of/city": "São Paulo", "y": 0}]
    assert sorted(rows(found, "day", "of/city", "y"), key=lambda row: -row["y"]) == expected
    assert sorted(map(str, rows(found, "day"))) == sorted(map(str, [{"day": None}, {"day": day}]))
    (chunk,) = found.read_original(Unit("u", found.fragments[0].path, 0, None, 0), ["y", "day"])
    assert chunk.table.column_names == ["y", "day"]
    assert found.statistics("y") is not None
    assert (found.statistics("day"), found.first_values("day")) == (None, None)


def test_a_run_goes_on_over_the_version_that_it_began_with(place: Path, tmp_path: Path) -> None:
    def evaluate(out: str, **settings: int) -> assay.Evaluation:
        data = {"reader": "delta", "path": "log", "label": "y", "settings": settings}
        tree = {"data": data, "variants": [{"name": "p", "column": "p"}], "metrics": ["auc"]}
        return api.run(build_spec(tree), base=place.parent, out=tmp_path / out, executor="local")

    before = evaluate("pinned", version=1).metrics
    evaluate("latest")
    write_deltalake(str(place), FIRST, mode="append")
    (tmp_path / "pinned" / "results" / "metrics.parquet").unlink()
    assert assay.resume(tmp_path / "pinned").metrics.equals(before)
    (tmp_path / "latest" / "results" / "metrics.parquet").unlink()
    with pytest.raises(RunError, match=r"is of something else: data changed since it began\."):
        assay.resume(tmp_path / "latest")


def test_what_cannot_be_read_is_said(place: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^There is no Delta table at '.*/nowhere': "):
        source(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^There is no Delta table in version 7 at '.*/log': "):
        source(place, version=7)
    with pytest.raises(SpecError) as caught:
        source(place, version="1", columns=["y"])
    assert [str(fault) for fault in caught.value.faults] == [
        "data.settings.columns: the reader 'delta' takes no 'columns' on a disk; expected 'version'.",
        "data.settings.version: got '1'; expected a whole number.",
    ]
    DeltaTable(str(place)).delete()
    with pytest.raises(
        DataError, match=r"^The data have no rows: the Delta table '.*/log' is empty\. Name data with rows "
    ):
        source(place)


def vector_of(*deleted: int) -> str:
    """An inline deletion vector as the Delta protocol has it: one roaring bitmap with one array, in Z85."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(deleted) - 1, 16) + struct.pack(f"<{len(deleted)}H", *deleted)
    whole = struct.pack("<IqI", 1681511377, 1, 0) + bitmap
    ours = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
    theirs = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(whole).decode().translate(str.maketrans(ours, theirs))


def test_rows_deleted_by_vectors_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "log"
    DeltaTable.create(str(place), pa.schema({"y": pa.int64()}), configuration={"delta.enableDeletionVectors": "true"})
    write_deltalake(str(place), pa.table({"y": range(30)}), mode="append")
    assert len(rows(source(place), "y")) == 30
    log = place / "_delta_log"
    added = json.loads((log / "00000000000000000001.json").read_text().splitlines()[-1])["add"]
    vector = {
        "storageType": "i",
        "pathOrInlineDv": vector_of(3, 4),
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    removed = {"path": added["path"], "deletionTimestamp": 0, "dataChange": True}
    actions = [{"remove": removed}, {"add": {**added, "deletionVector": vector}}]
    (log / "00000000000000000002.json").write_text("\n".join(map(json.dumps, actions)))
    for read in (source, lambda place: check_place(str(place), {})):
        with pytest.raises(
            DataError, match=r"^Rows of the Delta table '.*/log' are deleted by vectors, which are not r"
        ):
            read(place)
    check_place(str(place), {"version": 1})


def test_columns_of_other_names_are_refused(tmp_path: Path) -> None:
    DeltaTable.create(
        str(tmp_path / "log"),
        pa.schema({"y": pa.int64()}),
        configuration={"delta.columnMapping.mode": "name"},
        raise_if_key_not_exists=False,
    )
    with pytest.raises(DataError, match=r"^The columns of the Delta table '.*/log' have other names in its files"):
        source(tmp_path / "log")


def test_columns_lie_in_files_unless_the_table_is_partitioned_by_them(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "log"), pa.table({"day": [1, 1], "y": [0, 1], "z": [2, 3]}), partition_by=["day"])
    found = source(tmp_path / "log")
    unit = Unit("u", found.fragments[0].path, 0, None, 0)
    rows = found.encoded(unit, ["z"])
    assert rows is not None
    assert (rows.group_rows, list(rows.columns)) == ((2,), ["z"])
    assert found.encoded(unit, ["z", "day"]) is None
