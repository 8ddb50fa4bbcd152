"""The best rows of each group: beside a second implementation, wherever the rows of a group lie."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import RunError, SpecError
from assay.pipeline import predict, top_k
from assay.pipeline.manifest import read_manifest
from assay.pipeline.prepare import prepare
from assay.pipeline.run import How, run
from assay.pipeline.top_k import best_of
from assay.pipeline.verify import verify
from assay.records import Progress
from assay.spec.load import build_spec
from assay.store.run import RunDirectory

FILE_ROWS = (230, 170)
K = 3


def by_hand(groups: list[Any], scores: list[float], k: int) -> list[tuple[int, int]]:
    """(row, rank) of the best rows, by group."""
    found = []
    for group in sorted(set(groups)):
        rows = [row for row, one in enumerate(groups) if one == group]
        best = sorted(rows, key=lambda row: (-scores[row], row))[:k]
        found += [(row, rank) for rank, row in enumerate(best, 1)]
    return found


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 2)), max_size=60), st.integers(1, 5))
def test_the_best_of_each_group(rows: list[tuple[int, int]], k: int) -> None:
    groups, scores = [group for group, _ in rows], [float(score) for _, score in rows]
    best = best_of(np.array(groups, np.int64), np.array(scores), k)
    assert list(zip(best.rows.tolist(), best.rank.tolist(), strict=True)) == by_hand(groups, scores, k)


def test_of_equal_scores_the_first_by_the_order_that_is_given() -> None:
    best = best_of(np.zeros(3, np.int64), np.ones(3), 2, np.array([2, 0, 1]))
    assert best.rows.tolist() == [1, 2]


# ---- a run -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Groups whose rows lie all over two files, few distinct scores, nulls in all of it."""
    chance = np.random.default_rng(5)
    number = sum(FILE_ROWS)
    groups = [f"q{one}" for one in chance.integers(0, 30, number)]
    return pa.table(
        {
            "request": pa.array(groups, mask=chance.random(number) < 0.05).dictionary_encode(),
            "a": pa.array(chance.integers(0, 6, number).astype(np.float32), mask=chance.random(number) < 0.1),
            "b": chance.integers(0, 6, number).astype(np.float32),
            "wide": [[int(one), 2**60 + int(one)] for one in range(number)],
            "kept": chance.random(number) < 0.8,
        }
    )


@pytest.fixture(scope="module")
def base(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top_k")
    (folder / "data").mkdir()
    first, number = 0, 0
    for number, length in enumerate(FILE_ROWS):
        pq.write_table(rows.slice(first, length), folder / "data" / f"{number}.parquet", row_group_size=70)
        first += length
    return folder


def tree(to: Path, **changes: Any) -> dict[str, Any]:
    top = {"k": K, "group": "request"}
    return {
        "data": {"path": "data/", "where": "kept"},
        "variants": [{"name": "a", "column": "a"}, {"name": "b", "column": "b"}],
        "predictions": {"to": str(to), "top_k": top, "provenance": True},
        "carry_over": ["wide"],
        "execution": {"unit_rows": 40},
        **changes,
    }


def silent(progress: Progress) -> None: ...


def written(base: Path, tmp_path: Path, workers: int, **changes: Any) -> pa.Table:
    spec = build_spec(tree(tmp_path / "rows", **changes))
    run(prepare(spec, base), spec, str(tmp_path / "run"), How("local", workers), silent)
    assert verify(str(tmp_path / "run")).passed
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    return pa.concat_tables(pq.read_table(one) for one in files)


def expected(rows: pa.Table, variant: str) -> list[tuple[Any, ...]]:
    """(group, rank, score, wide) by hand."""
    whole = [one for one in rows.to_pylist() if one["kept"] and one["request"] is not None and one[variant] is not None]
    best = by_hand([one["request"] for one in whole], [one[variant] for one in whole], K)
    return [(whole[row]["request"], rank, whole[row][variant], whole[row]["wide"]) for row, rank in best]


def test_the_rows_of_a_run(rows: pa.Table, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brought together in several ranges of hashes."""
    choose = top_k.chosen
    monkeypatch.setattr(top_k, "chosen", partial(choose, most_bytes=4000))
    table = written(base, tmp_path, workers=1)
    assert table.schema.names == ["request", "_variant", "_rank", "_score", "_file", "_row", "wide"]
    assert table.schema.field("request").type == rows.schema.field("request").type
    assert (table.schema.field("_score").type, table.schema.field("_rank").type) == (pa.float32(), pa.int32())
    for variant in ("a", "b"):
        own = [one for one in table.to_pylist() if one["_variant"] == variant]
        found = sorted(
            ((one["request"], one["_rank"], one["_score"], one["wide"]) for one in own), key=lambda one: one[:2]
        )
        assert found == expected(rows, variant)
    places = [(one["_file"], one["_row"], one["_variant"]) for one in table.to_pylist()]
    assert places == sorted(places)
    wide = [(one["_file"], one["_row"]) for one in table.to_pylist()]
    assert [one["wide"][0] for one in table.to_pylist()] == [int(file[0]) * FILE_ROWS[0] + row for file, row in wide]


def test_rows_of_row_groups_that_could_be_copied(rows: pa.Table, tmp_path: Path) -> None:
    """Long ones, whole, with no filter."""
    many = pa.concat_tables([rows] * 11).combine_chunks()
    (tmp_path / "data").mkdir()
    pq.write_table(many, tmp_path / "data" / "0.parquet")
    table = written(tmp_path, tmp_path, 1, data={"path": "data/"}, execution={})
    assert table.schema.names == ["request", "_variant", "_rank", "_score", "_file", "_row", "wide"]
    found = [(one["request"], one["_rank"], one["_row"]) for one in table.to_pylist() if one["_variant"] == "b"]
    kept = [row for row, group in enumerate(many["request"].to_pylist()) if group is not None]
    groups, scores = many["request"].take(kept).to_pylist(), many["b"].take(kept).to_pylist()
    best = [(groups[row], rank, kept[row]) for row, rank in by_hand(groups, scores, K)]
    assert sorted(found) == sorted(best)


def test_the_manifest_says_what_is_left_out(rows: pa.Table, base: Path, tmp_path: Path) -> None:
    table = written(base, tmp_path, workers=2)
    directory = RunDirectory.open(str(tmp_path / "run"))
    manifest = read_manifest(directory)
    kept = [one for one in rows.to_pylist() if one["kept"]]
    no_group = sum(one["request"] is None for one in kept)
    assert manifest.notes == (f"{no_group} rows with a null 'request' are in no group.",)
    assert manifest.rows == len(table)
    assert manifest.dead == {"a": sum(one["a"] is None for one in kept)}
    assert directory.store.list("top-k") == ()


def test_a_group_that_is_no_number_is_none(tmp_path: Path) -> None:
    table = pa.table({"g": [1.0, np.nan, 1.0, None], "a": [0.1, 0.2, 0.3, 0.4]})
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "0.parquet")
    top = {"to": str(tmp_path / "rows"), "top_k": {"k": 4, "group": "g"}}
    changes = {"data": {"path": "data/"}, "variants": [{"name": "a", "column": "a"}]}
    found = written(tmp_path, tmp_path, 1, **changes, predictions=top, carry_over=[])
    assert found["_score"].to_pylist() == [0.1, 0.3]
    manifest = read_manifest(RunDirectory.open(str(tmp_path / "run")))
    assert manifest.notes == ("2 rows with a null or NaN 'g' are in no group.",)


def test_a_run_that_stops_before_its_manifest_goes_on_and_comes_to_the_same(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = written(base, whole, workers=1)

    def full(*_: object) -> None:
        raise RunError("the disk is full.")

    monkeypatch.setattr(predict, "save_manifest", full)
    with pytest.raises(RunError, match=r"^the disk is full\.$"):
        written(base, broken, workers=2)
    monkeypatch.undo()
    assert RunDirectory.open(str(broken / "run")).store.list("top-k")
    assert written(base, broken, workers=2).equals(expected)
    assert not RunDirectory.open(str(broken / "run")).store.list("top-k")


def test_the_same_files_whatever_the_workers_and_the_units(base: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    left = written(base, one, workers=1)
    right = written(base, other, workers=2)
    assert left.equals(right)
    assert sorted(path.name for path in (one / "rows").glob("part-*")) == sorted(
        path.name for path in (other / "rows").glob("part-*")
    )
    by_place = [("_file", "ascending"), ("_row", "ascending"), ("_variant", "ascending")]
    third = tmp_path / "third"
    third.mkdir()
    coarse = written(base, third, workers=1, execution={"unit_rows": 1000})
    assert coarse.sort_by(by_place).equals(left.sort_by(by_place))


def in_groups(codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    """A value of the type for each code."""
    if kind == pa.uuid():
        return pa.array([bytes([code] * 16) for code in codes], pa.binary(16)).cast(kind)
    if kind in (pa.string_view(), pa.json_()):
        return pa.array(codes.astype(str)).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(int(code)) for code in codes], kind)
    return pa.array(codes).cast(pa.int8() if kind == pa.bool8() else pa.int64()).cast(kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.bool_(),
        pa.timestamp("us", "Europe/Rome"),
        pa.decimal32(5, 2),
        pa.decimal64(15, 2),
        pa.decimal128(21, 2),
        pa.float64(),
        pa.string_view(),
        pa.uuid(),
        pa.json_(),
        pa.bool8(),
    ],
    ids=str,
)
def test_groups_of_any_type_that_is_one_value(tmp_path: Path, kind: pa.DataType) -> None:
    chance = np.random.default_rng(2)
    codes = chance.integers(0, 2, 200)
    table = pa.table({"g": in_groups(codes, kind), "a": chance.random(200), "row": np.arange(200)})
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "0.parquet", row_group_size=60)
    top = {"to": str(tmp_path / "rows"), "top_k": {"k": 4, "group": "g"}}
    changes = {"data": {"path": "data/"}, "variants": [{"name": "a", "column": "a"}]}
    found = written(tmp_path, tmp_path, 1, **changes, predictions=top, carry_over=["row", "g"])
    assert found.schema.names == ["g", "_variant", "_rank", "_score", "row"]
    best = sorted(by_hand(codes.tolist(), table["a"].to_pylist(), 4))
    assert list(zip(found["row"].to_pylist(), found["_rank"].to_pylist(), strict=True)) == best
    groups = table["g"].to_pylist()
    assert found["g"].to_pylist() == [groups[row] for row, _ in best]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"predictions": {"top_k": {"k": 1, "group": "reqest"}}},
            "predictions.top_k.group: there is no column 'reqest'; did you mean 'request'?",
        ),
        (
            {"predictions": {"top_k": {"k": 1, "group": "wide"}}},
            "predictions.top_k.group: the column 'wide' is of type list<element: int64>; a group is one value.",
        ),
        (
            {
                "variants": [{"name": "a", "column": ["a", "b"], "output": {"is": "interval"}}],
                "predictions": {"top_k": {"k": 1, "group": "request"}},
            },
            "predictions.top_k: ranks rows by one number, and scores of intervals, as 'a' gives, have no order.",
        ),
        (
            {"predictions": {"names": "p.{variant}", "top_k": {"k": 1, "group": "request"}}},
            "predictions.names: has no effect with top_k, whose columns have names of their own; drop it.",
        ),
    ],
)
def test_faults(base: Path, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(SpecError) as raised:
        prepare(build_spec(tree(Path("x"), **changes)), base)
    assert str(raised.value) == fault
