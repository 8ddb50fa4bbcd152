"""Predictions beside the columns that are carried over: every row once, in its order, as it went in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from fakes.sources import CountingSource, reads
from fakes.states import committed_units

import assay
from assay import api, build
from assay.errors import DataError, ModelError, SpecError
from assay.evaluation import Evaluation
from assay.local import LocalExecutor
from assay.pipeline.manifest import MANIFEST
from assay.pipeline.verify import verify
from assay.protocols import Work
from assay.records import Worked
from assay.report.comparison import render_comparison
from assay.spec.load import build_spec
from assay.store.run import RunDirectory

ROWS = 60
NUM_UNITS = 7  # as the files below are cut
FIRST_ID = (1 << 60) + 1
WIDE = ("id", "tags", "when", "price", "kind", "note", "pair")


def rows() -> pa.Table:
    """`x` is read by models; the others are of types that few formats keep."""
    every = range(ROWS)
    start = datetime(2024, 3, 31, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([FIRST_ID + 2 * row for row in every], pa.int64()),
            "x": pa.array([row / ROWS for row in every], pa.float64()),
            "tags": pa.array(
                [None if row % 4 == 0 else [[row], [], None] for row in every], pa.list_(pa.list_(pa.int16()))
            ),
            "when": pa.array([start + timedelta(hours=row) for row in every], pa.timestamp("ms", "Europe/Paris")),
            "price": pa.array([Decimal(row) / 100 for row in every], pa.decimal128(20, 2)),
            "kind": pa.array([("a", "b", None)[row % 3] for row in every]).dictionary_encode(),
            "note": pa.array([None if row % 5 == 0 else f"n{row}" for row in every], pa.large_string()),
            "pair": pa.array([{"u": row, "v": str(row)} for row in every]),
        }
    )
    fields = [field.with_metadata({"unit": f"of {field.name}"}) for field in table.schema]
    return as_read(table.cast(pa.schema(fields, {"owner": "me"})))


def as_read(table: pa.Table) -> pa.Table:
    """Parquet calls the items of lists `element`."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


def write_files(folder: Path, table: pa.Table | None = None) -> None:
    """Two files; the first has a row group that is cut into several units."""
    table = rows() if table is None else table
    (folder / "rows").mkdir()
    pq.write_table(table.slice(0, 40), folder / "rows" / "a.parquet", row_group_size=25)
    pq.write_table(table.slice(40), folder / "rows" / "b.parquet", row_group_size=7)


def variant(name: str, function: str = "twice", **more: object) -> dict[str, object]:
    return {"name": name, "callable": f"fakes.predictors:{function}", "inputs": ["x"], "receive": "dict", **more}


def tree(**changes: object) -> dict[str, Any]:  # Any: a spec
    return {
        "data": {"path": "rows"},
        "variants": [variant("twice")],
        "predictions": {},
        "carry_over": "all",
        "execution": {"unit_rows": 10, "micro_batch": 5},
        **changes,
    }


REMEDY = "To have all written again, remove predictions.json of the run and resume it."


def predict(folder: Path, spec: Mapping[str, object], name: str = "run", **how: object) -> Evaluation:
    return assay.predict(build_spec(spec), base=folder, out=folder / name, executor="local", workers=2, **how)  # type: ignore[arg-type]


def plain(folder: Path, name: str = "run") -> pa.Table:
    """What a reader finds in the folder who knows nothing of manifests."""
    return pq.read_table(folder / name / "predictions")


def letters(folder: Path, name: str = "run") -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(folder / name / "dead-letter").to_pylist()
    return found


def content(folder: Path, name: str) -> dict[str, bytes]:
    """The files of both folders by name."""
    return {
        str(path.relative_to(folder / name)): path.read_bytes()
        for part in ("predictions", "dead-letter")
        for path in sorted((folder / name / part).rglob("part-*"))
    }


# ---- carry-over ------------------------------------------------------------------------------------------------------


def test_types_and_values_come_out_as_they_went_in_and_in_their_order(tmp_path: Path) -> None:
    write_files(tmp_path)
    found = predict(tmp_path, tree())
    written = plain(tmp_path)
    assert written.select(rows().column_names).equals(rows(), check_metadata=True)
    assert written["twice"].to_pylist() == [2 * row / ROWS for row in range(ROWS)]
    assert found.predictions is not None
    assert found.predictions.rows == ROWS


def test_a_score_is_of_the_type_that_the_model_gave(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(variants=[variant("twice"), variant("single", "twice_in_float32")]))
    schema = plain(tmp_path).schema
    assert (schema.field("twice").type, schema.field("single").type) == (pa.float64(), pa.float32())


def test_named_columns_and_globs_in_the_order_of_the_data(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(carry_over=["price", "k*"]))
    assert plain(tmp_path).column_names == ["price", "kind", "twice"]


def test_nothing_need_be_carried_over(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(predictions={"provenance": True})
    del spec["carry_over"]
    predict(tmp_path, spec)
    written = plain(tmp_path)
    assert written.column_names == ["_file", "_row", "twice"]
    assert written["_file"].to_pylist() == ["a.parquet"] * 40 + ["b.parquet"] * 20
    assert written["_row"].to_pylist() == [*range(40), *range(20)]


def test_scoring_reads_what_models_need_and_the_join_alone_reads_the_rest_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(build.SOURCES, "parquet", "fakes.sources:CountingSource")
    write_files(tmp_path)
    (tmp_path / "reads").mkdir()
    spec = build_spec(tree(data={"path": "rows", "where": "x >= 0.5"}, carry_over=list(WIDE)))
    assay.predict(spec, base=tmp_path, out=tmp_path / "run", executor="local", workers=1)
    found = reads(tmp_path)
    assert {one.columns for one in found if one.verb == "read"} == {("x",)}
    joined = [one for one in found if one.verb == "read_original"]
    assert {one.columns for one in joined} == {WIDE}
    assert sum(one.rows for one in joined) == ROWS  # a row group of several units is decoded once
    assert max(one.rows for one in joined) == 25


def test_a_row_group_is_decoded_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.sources.parquet.PIECE_ROWS", 4)
    monkeypatch.setitem(build.SOURCES, "parquet", "fakes.sources:CountingSource")
    write_files(tmp_path)
    (tmp_path / "reads").mkdir()
    predict(tmp_path, tree())
    assert max(one.rows for one in reads(tmp_path) if one.verb == "read_original") == 4
    assert plain(tmp_path).select(rows().column_names).equals(rows(), check_metadata=True)


def test_a_filter_leaves_rows_out_of_both(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(data={"path": "rows", "where": "x < 0.1 OR id % 3 = 0"}))
    expected = rows().filter(
        pc.or_(pc.less(rows()["x"], 0.1), pa.array([(FIRST_ID + 2 * i) % 3 == 0 for i in range(ROWS)]))
    )
    assert 0 < expected.num_rows < ROWS
    assert plain(tmp_path).select(rows().column_names).equals(expected, check_metadata=True)
    assert plain(tmp_path)["twice"].to_pylist() == [2 * x for x in expected["x"].to_pylist()]


def test_no_row_passes_the_filter_of_some_units(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(data={"path": "rows", "where": "x >= 0.75"}))
    assert plain(tmp_path)["id"].to_pylist() == [FIRST_ID + 2 * row for row in range(45, 60)]
    assert verify(str(tmp_path / "run")).passed


def test_no_row_passes_the_filter_at_all(tmp_path: Path) -> None:
    write_files(tmp_path)
    found = predict(tmp_path, tree(data={"path": "rows", "where": "x > 5"}))
    assert found.predictions is not None
    assert (found.predictions.rows, found.predictions.parts) == (0, ())
    assert verify(str(tmp_path / "run")).passed


def test_files_of_csv(tmp_path: Path) -> None:
    pv.write_csv(rows().select(["id", "x", "note"]), tmp_path / "rows.csv")
    predict(tmp_path, tree(data={"path": "rows.csv"}))
    written = plain(tmp_path)
    assert written.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.float64()]
    assert written["id"].to_pylist() == rows()["id"].to_pylist()
    assert written["note"].to_pylist() == rows()["note"].to_pylist()


def test_a_frame_keeps_its_types_too(tmp_path: Path) -> None:
    spec = tree(data={})
    predict(tmp_path, spec, frame=rows())
    assert plain(tmp_path).select(rows().column_names).equals(rows(), check_metadata=True)


def test_the_join_asks_for_the_users_modules_only_where_the_rows_are_of_a_source_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    (tmp_path / "reads").mkdir()
    bases, mapped = list[str | None](), LocalExecutor.map

    def noted(self: LocalExecutor, work: Work, items: Sequence[Any]) -> Iterator[Worked]:  # Any: as there
        bases.append(work.base)
        return mapped(self, work, items)

    monkeypatch.setattr(LocalExecutor, "map", noted)
    predict(tmp_path, tree(), "files")
    names = sorted(file.name for file in (tmp_path / "rows").iterdir())
    predict(tmp_path, tree(data={}), "theirs", frame=CountingSource(names, tmp_path / "rows"))
    assert bases == [None, str(tmp_path)]


def test_texts_in_structs_of_a_polars_frame_may_be_filtered(tmp_path: Path) -> None:
    structs = pa.array([{"a": str(row)} for row in range(4)], pa.struct([("a", pa.string_view())]))
    frame = pa.table({"x": [0.0, 1.0, 2.0, 3.0], "pair": structs})
    spec = tree(data={"path": "frame", "where": "x <> 1"}, carry_over=["pair"], predictions={"format": "arrow"})
    predict(tmp_path, spec, frame=frame)
    [part] = (tmp_path / "run" / "predictions").glob("part-*")
    written = pa.ipc.open_file(part).read_all()["pair"]
    assert (written.type, written.to_pylist()) == (structs.type, [{"a": "0"}, {"a": "2"}, {"a": "3"}])


def test_dictionaries_of_two_widths_come_out_as_one(tmp_path: Path) -> None:
    narrow = rows().set_column(5, "kind", rows()["kind"].cast(pa.dictionary(pa.int8(), pa.string())))
    (tmp_path / "rows").mkdir()
    pq.write_table(rows(), tmp_path / "rows" / "a.parquet")
    pq.write_table(narrow, tmp_path / "rows" / "b.parquet")
    predict(tmp_path, tree(carry_over=["kind"]))
    written = plain(tmp_path)
    assert written.schema.field("kind").type == pa.dictionary(pa.int32(), pa.string())
    assert written["kind"].to_pylist() == 2 * rows()["kind"].to_pylist()


def of_every_type() -> pa.Table:
    """Columns of types that are read as others, or hardly ever met."""
    every = range(ROWS)
    columns = {
        "x": pa.array([row / ROWS for row in every]),
        "uuid": pa.array([UUID(int=row).bytes for row in every], pa.uuid()),
        "map": pa.array([[("k", row)] if row % 3 else None for row in every], pa.map_(pa.string(), pa.int32())),
        "view": pa.array([b"x" * (row + 20) for row in every], pa.binary_view()),
        "ids": pa.ListArray.from_arrays(list(range(ROWS + 1)), pa.array([UUID(int=row) for row in every], pa.uuid())),
        "map of views": pa.array([[(str(row), None)] for row in every], pa.map_(pa.string_view(), pa.string_view())),
        "pair of views": pa.array([["a", str(row)] for row in every], pa.list_(pa.string_view(), 2)),
        "views": pa.array([[str(row), None] for row in every], pa.large_list(pa.string_view())),
        "small": pa.array(["ab"[row % 2] for row in every], pa.dictionary(pa.int8(), pa.string())),
        "u64": pa.array([2**64 - 1 - row for row in every], pa.uint64()),
        "d256": pa.array([Decimal(row) for row in every], pa.decimal256(60, 5)),
        "ns": pa.array(every, pa.timestamp("ns", "UTC")),
        "east": pa.array(every, pa.timestamp("ms", "+05:30")),
        "time": pa.array(every, pa.time64("ns")),
        "span": pa.array(every, pa.duration("us")),
        "half": pa.array(np.arange(ROWS, dtype=np.float16)),
        "bytes": pa.array([b"%04d" % row for row in every], pa.binary(4)),
        "pair": pa.array([[row, -row] for row in every], pa.list_(pa.float32(), 2)),
        "deep": pa.array([{"a": None, "b": [{"c": row}]} for row in every]),
        "none": pa.nulls(ROWS),
    }
    return as_read(pa.table(columns))


@pytest.mark.parametrize("where", [None, "x > 0.2 AND round(x * 60) % 2 = 0"])
def test_every_type_comes_out_as_it_went_in(tmp_path: Path, where: str | None) -> None:
    write_files(tmp_path, of_every_type())
    predict(tmp_path, tree(data={"path": "rows"} if where is None else {"path": "rows", "where": where}))
    kept = [row for row in range(ROWS) if where is None or (row > 12 and row % 2 == 0)]
    expected, written = of_every_type(), plain(tmp_path).drop_columns("twice")
    assert written.schema.equals(expected.schema, check_metadata=True)
    values = {name: column.to_pylist() for name, column in zip(expected.column_names, expected.columns, strict=True)}
    assert written.to_pydict() == {name: [column[row] for row in kept] for name, column in values.items()}


# ---- what is missing -------------------------------------------------------------------------------------------------


def test_a_missing_score_is_null_and_a_dead_letter(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(variants=[variant("twice"), variant("gaps", "gaps_above_half")], carry_over=["id", "tags"])
    found = predict(tmp_path, spec)
    written, expected = plain(tmp_path), [row for row in range(ROWS) if row / ROWS > 0.5]
    assert [row for row, score in enumerate(written["gaps"].to_pylist()) if score is None] == expected
    dead = letters(tmp_path)
    assert [one["id"] for one in dead] == [FIRST_ID + 2 * row for row in expected]
    assert dead[-1] == {
        "_variant": "gaps",
        "_reason": "it gave no score (null, NaN or infinite).",
        "_file": "b.parquet",
        "_row": 19,
        "id": FIRST_ID + 2 * 59,
        "tags": [[59], [], None],
    }
    assert found.predictions is not None
    assert found.predictions.dead == {"gaps": len(expected)}
    said = [
        "Dead letters: rows that a variant has no output for, with the reason, in",
        f"{tmp_path}/run/dead-letter:",
    ]
    assert "\n  gaps: 29 rows: it gave no score (null, NaN or infinite)." in str(found)
    assert [line.strip() for line in str(found).splitlines() if "dead" in line.lower()] == said


def test_a_row_on_which_a_variant_failed_is_null_for_it_alone(tmp_path: Path) -> None:
    write_files(tmp_path)
    variants = [variant("twice"), variant("bad", "fails_at_a_third")]
    predict(tmp_path, tree(variants=variants, on_error="continue", carry_over=["id"]))
    written, dead = plain(tmp_path), letters(tmp_path)
    assert written["twice"].null_count == 0
    assert [row for row, score in enumerate(written["bad"].to_pylist()) if score is None] == [20]
    assert [(one["id"], one["_variant"], one["_row"]) for one in dead] == [(FIRST_ID + 40, "bad", 20)]
    assert "failed with ValueError: no third (fakes/predictors.py, line " in str(dead[0]["_reason"])
    assert verify(str(tmp_path / "run")).passed


def test_what_others_gave_is_written_where_the_baseline_failed(tmp_path: Path) -> None:
    write_files(tmp_path)
    table = rows().append_column("y", pa.array([row % 2 for row in range(ROWS)]))
    (tmp_path / "labelled").mkdir()
    pq.write_table(table, tmp_path / "labelled" / "a.parquet", row_group_size=20)
    spec = tree(
        data={"path": "labelled", "label": "y"},
        variants=[variant("bad", "fails_at_a_third"), variant("twice")],
        baseline="bad",
        on_error="continue",
        carry_over=["id"],
    )
    predict(tmp_path, spec)
    assert plain(tmp_path)["twice"].null_count == 0
    assert {one["_variant"] for one in letters(tmp_path)} == {"bad"}


# ---- a run as a whole ------------------------------------------------------------------------------------------------


def test_metrics_come_from_the_same_pass_and_are_those_of_a_run_without_predictions(tmp_path: Path) -> None:
    table = rows().append_column("y", pa.array([row % 3 == 0 for row in range(ROWS)], pa.bool_()))
    write_files(tmp_path, table)
    labelled = tree(
        data={"path": "rows", "label": "y"}, variants=[variant("twice"), variant("gaps", "gaps_above_half")]
    )
    found = predict(tmp_path, labelled)
    without = {key: value for key, value in labelled.items() if key not in ("predictions", "carry_over")}
    alone = assay.run(build_spec(without), base=tmp_path, out=tmp_path / "alone", executor="local")
    assert found.metrics.num_rows > 0
    assert found.metrics.equals(alone.metrics)
    assert alone.predictions is None


def test_bundles_and_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    write_files(tmp_path)
    several = [variant("twice"), variant("gaps", "gaps_above_half"), variant("single", "twice_in_float32")]
    spec = tree(variants=[{**one, "memory_bytes": 10} for one in several])
    predict(tmp_path, spec, "whole")
    packed = predict(tmp_path, {**spec, "budget": {"model_bytes": 10}}, "packed")
    assert len(json.loads((tmp_path / "packed" / MANIFEST).read_text())["parts"]) == 7
    assert packed.predictions is not None
    assert plain(tmp_path, "packed").equals(plain(tmp_path, "whole"), check_metadata=True)
    assert letters(tmp_path, "packed") == letters(tmp_path, "whole")
    assert verify(str(tmp_path / "packed")).passed


def test_done_again_it_writes_the_same_bytes(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(variants=[variant("gaps", "gaps_above_half")])
    for name, workers in (("first", 1), ("second", 3)):
        assay.predict(build_spec(spec), base=tmp_path, out=tmp_path / name, executor="local", workers=workers)
    assert content(tmp_path, "first") == content(tmp_path, "second")


def test_a_run_that_died_before_its_manifest_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(variants=[variant("gaps", "gaps_above_half")])
    predict(tmp_path, spec)
    before = content(tmp_path, "run")
    (tmp_path / "run" / MANIFEST).unlink()
    lost, *_ = (tmp_path / "run" / "predictions").glob("part-00003-*")
    lost.unlink()
    stale = tmp_path / "run" / "predictions" / f"part-00003-{'0' * 16}-{'0' * 32}.parquet"
    pq.write_table(plain(tmp_path), stale)
    assert not verify(str(tmp_path / "run")).passed
    assay.resume(tmp_path / "run", executor="local")
    assert content(tmp_path, "run") == before
    assert not stale.exists()
    assert verify(str(tmp_path / "run")).passed


def test_a_run_that_was_moved_knows_its_files(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(variants=[variant("gaps", "gaps_above_half")]))
    (tmp_path / "run").rename(tmp_path / "moved")
    found = assay.open_run(tmp_path / "moved").predictions
    assert found is not None
    assert (found.place, found.dead_place) == (f"{tmp_path}/moved/predictions", f"{tmp_path}/moved/dead-letter")
    assert verify(str(tmp_path / "moved")).passed


def test_the_audit_finds_a_part_that_was_altered_and_one_that_is_not_listed(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree())
    first, *_ = sorted((tmp_path / "run" / "predictions").glob("part-*"))
    whole = first.read_bytes()
    first.write_bytes(whole + b" ")
    [failed] = [one for one in verify(str(tmp_path / "run")).checks if not one.passed]
    assert (failed.name, failed.detail) == (
        "predictions",
        f"1 file not as the manifest says: {first.name} was altered. {REMEDY}",
    )
    first.write_bytes(whole)
    other = first.with_name(f"part-00000-{'1' * 16}-{'1' * 32}.parquet")
    other.write_bytes(whole)
    away = f"Move it out of {first.parent}, whose readers read it too."
    [failed] = [one for one in verify(str(tmp_path / "run")).checks if not one.passed]
    assert failed.detail == f"1 file not as the manifest says: {other.name} is not listed. {away}"
    other.unlink()
    (first.parent / "mine.parquet").write_bytes(whole)
    [failed] = [one for one in verify(str(tmp_path / "run")).checks if not one.passed]
    assert failed.detail == f"1 file not as the manifest says: mine.parquet is not listed. {away}"


def test_the_audit_finds_files_with_other_columns_than_the_manifest_says(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(carry_over=["id", "kind"], predictions={"partition_by": ["kind"]}))
    assert verify(str(tmp_path / "run")).passed
    manifest = tmp_path / "run" / "predictions.json"
    manifest.write_text(manifest.read_text().replace('"twice"', '"thrice"'))
    [failed] = [one for one in verify(str(tmp_path / "run")).checks if not one.passed]
    assert failed.detail.endswith(f"has the columns 'id' and 'twice' and not 'id' and 'thrice'. {REMEDY}")


def test_the_audit_finds_outputs_that_were_altered(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree())
    first, *_ = sorted((tmp_path / "run" / "outputs").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    [failed] = [one for one in verify(str(tmp_path / "run")).checks if not one.passed]
    assert failed.name == "outputs"
    assert failed.detail.endswith(
        f"missing or altered: outputs/{first.name}. Put it back from a copy, or start a new run in another directory: "
        "this one scores no unit again."
    )


def test_another_place_is_claimed_before_rows_are_scored(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "there").mkdir()
    pq.write_table(rows(), tmp_path / "there" / "mine.parquet")
    spec = tree(predictions={"to": "there"})
    with pytest.raises(assay.RunError, match=r"there is not empty: it holds 'mine\.parquet'"):
        predict(tmp_path, spec)
    assert not RunDirectory.open(str(tmp_path / "run")).store.list("states")
    (tmp_path / "there" / "mine.parquet").unlink()
    predict(tmp_path, spec)
    assert pq.read_table(tmp_path / "there").num_rows == ROWS


@pytest.mark.parametrize("to", ["rows", "rows/out", "there/../rows/out"])
def test_a_place_in_the_data_is_refused(tmp_path: Path, to: str) -> None:
    write_files(tmp_path)
    with pytest.raises(assay.SpecError) as refused:
        predict(tmp_path, tree(predictions={"to": to}))
    assert str(refused.value) == (
        f"predictions.to: '{to}' is in the data's folder 'rows', so that what is written would be read as data. Name a "
        "folder outside of it."
    )
    predict(tmp_path, tree(predictions={"to": "rows/_out"}), "hidden")
    assert pq.read_table(tmp_path / "rows" / "_out").num_rows == ROWS


def test_values_that_a_format_cannot_hold_are_refused_before_rows_are_scored(tmp_path: Path) -> None:
    write_files(tmp_path)
    with pytest.raises(DataError, match=r"The column 'tags' is of type .* which CSV cannot hold"):
        predict(tmp_path, tree(predictions={"format": "csv"}))
    assert not (tmp_path / "run").exists()


def test_an_output_that_a_format_cannot_hold_is_told_as_what_it_is_and_not_as_carried_over(tmp_path: Path) -> None:
    write_files(tmp_path)
    outputs = {"open": {"type": "list<float32>", "select": 1}, "sized": {"type": "list<float32>[2]", "select": 1}}
    given = variant("v", "a_score_and_two_chances", output={"select": 0}, outputs=outputs)
    with pytest.raises(DataError) as refused:
        predict(tmp_path, tree(variants=[given], carry_over="id", predictions={"format": "csv"}))
    cure = (
        "which CSV cannot hold. Write another format (parquet and arrow hold the most types), or leave it out: of "
        "carry_over, or of the variant's outputs."
    )
    assert str(refused.value).splitlines() == [
        f"The column 'v.open' is of type list<item: float>, {cure}",
        f"The column 'v.sized' is of type fixed_size_list<item: float>[2], {cure}",
    ]


def test_the_last_word_of_the_joins_is_that_all_is_written(tmp_path: Path) -> None:
    write_files(tmp_path)
    said = list[str]()
    predict(tmp_path, tree(), report=lambda progress: said.append(progress.message))
    told = [message for message in said if message.startswith("Written: ")]
    assert told == ["Written: 60 rows in 7 files."]
    (tmp_path / "run" / MANIFEST).unlink()
    said.clear()
    predict(tmp_path, tree(), report=lambda progress: said.append(progress.message))
    assert said[-1] == told[0]


def test_how_far_the_joins_are_is_said_of_those_that_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.pipeline.predict.TOLD_SECONDS", 0.0)
    write_files(tmp_path)
    said = list[str]()
    predict(tmp_path, tree(), report=lambda progress: said.append(progress.message))
    *on_the_way, last = [message for message in said if message.startswith("Written: ")]
    assert on_the_way == sorted(on_the_way)
    assert {*on_the_way} <= {f"Written: {done} of 7 units." for done in range(1, 7)}
    assert len(on_the_way) >= 2  # stretches are joined in any order, and some have several units
    assert last == "Written: 60 rows in 7 files."


@pytest.mark.parametrize(("function", "left"), [("twice", set()), ("gaps_above_half", {"dead-letter"})])
def test_a_finished_run_has_no_folders_without_files(tmp_path: Path, function: str, left: set[str]) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(variants=[variant("v", function)]))
    folders = {path.name for path in (tmp_path / "run").iterdir() if path.is_dir()}
    assert folders & {"joins", "dead-letter", "top-k"} == left
    assert verify(str(tmp_path / "run")).passed


def test_a_plan_says_what_predictions_cannot_be(tmp_path: Path) -> None:
    write_files(tmp_path)
    for column, said in (
        ("knd", "the output has no column 'knd'; did you mean 'kind'?"),
        ("zzz", "the output has no column 'zzz'. Columns of the data are in it once carry_over names them."),
        (
            "when",
            "the values of the column 'when', of type timestamp[ms, tz=Europe/Paris], cannot name folders. Take a "
            "column of texts, integers, booleans or days.",
        ),
    ):
        with pytest.raises(DataError) as refused:
            api.plan(build_spec(tree(predictions={"partition_by": [column]})), base=tmp_path)
        assert str(refused.value) == f"predictions.partition_by[0]: {said}"


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_of_outputs(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(predictions={"names": "p_{variant}"}, carry_over=["id"]))
    assert plain(tmp_path).column_names == ["id", "p_twice"]


def test_several_tasks_and_a_list_of_classes(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(
        data={"path": "rows"},
        tasks={
            "click": {"output": {"select": 0}},
            "kind": {"classes": ["a", "b"], "output": {"is": "probability", "select": 1}},
        },
        variants=[variant("two", "a_score_and_two_chances")],
        carry_over=["id"],
    )
    predict(tmp_path, spec)
    written = plain(tmp_path)
    assert written.column_names == ["id", "two.click", "two.kind"]
    assert written.schema.field("two.kind").type == pa.list_(pa.float64(), 2)
    assert written.schema.field("two.kind").metadata[b"assay.classes"] == b'["a", "b"]'
    np.testing.assert_array_equal(written["two.kind"].to_pylist()[15], [0.25, 0.75])


def test_chosen_names_and_types(tmp_path: Path) -> None:
    write_files(tmp_path)
    outputs = {"chances": {"type": "list<float32>", "select": 1}}
    spec = tree(
        variants=[
            variant("two", "a_score_and_two_chances", output={"select": 0}, outputs=outputs),
            variant("rank", "sixtieths"),
        ],
        predictions={
            "names": {"two": "p_two", "two.chances": "vector"},
            "types": {"p_two": "float32", "rank": "int8"},
        },
        carry_over=["id"],
    )
    found = predict(tmp_path, spec)
    written = plain(tmp_path)
    assert written.column_names == ["id", "p_two", "vector", "rank"]
    kinds = [written.schema.field(name).type for name in ("p_two", "vector", "rank")]
    assert kinds == [pa.float32(), pa.list_(pa.float32(), 2), pa.int8()]
    assert written["rank"].to_pylist() == [None if row == 30 else row for row in range(ROWS)]
    assert found.predictions is not None
    assert found.predictions.dead == {"rank": 1}


def test_the_best_rows_by_a_variant_that_takes_from_one_without_a_score(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(
        variants=[
            variant("encoder", "a_vector", output={"is": "none"}, outputs={"vector": {"type": "list<float64>[2]"}}),
            variant("sum", "twice") | {"inputs": {"x": {"variant": "encoder", "output": "vector"}}},
        ],
        output={"select": 0},
        predictions={"top_k": {"k": 1, "group": "price"}},
        carry_over=["id"],
    )
    found = predict(tmp_path, spec)
    written = plain(tmp_path)
    assert set(written["_variant"].to_pylist()) == {"sum"}
    assert written.num_rows == ROWS
    assert found.predictions is not None
    assert found.predictions.dead == {}


def test_why_a_variant_that_is_not_ranked_gave_nothing_is_told(tmp_path: Path) -> None:
    write_files(tmp_path)
    spec = tree(
        variants=[
            variant("raises", "fails_at_a_third", output={"is": "none"}, outputs={"number": {"type": "float64"}}),
            variant("sum", "twice") | {"inputs": {"x": {"variant": "raises", "output": "number"}}},
        ],
        predictions={"top_k": {"k": 1, "group": "price"}},
        carry_over=["id"],
        on_error="continue",
    )
    found = predict(tmp_path, spec)
    assert found.predictions is not None
    assert found.predictions.dead == {"raises": 1, "sum": 1}
    reasons = {one["_variant"]: str(one["_reason"]) for one in letters(tmp_path)}
    assert "failed with ValueError: no third" in reasons["raises"]
    assert reasons["sum"] == "it gave no score (null, NaN or infinite)."


def test_variants_of_a_run_without_metrics_have_nothing_to_compare(tmp_path: Path) -> None:
    write_files(tmp_path)
    predict(tmp_path, tree(variants=[variant("a"), variant("b")]))
    found = assay.open_run(tmp_path / "run").compare("a", "b")
    assert found.num_rows == 0
    assert str(render_comparison("a", "b", found)) == "a against b: nothing is compared, since the run has no metrics."


def test_a_score_that_the_chosen_type_cannot_hold(tmp_path: Path) -> None:
    write_files(tmp_path)
    with pytest.raises(ModelError) as raised:
        predict(tmp_path, tree(variants=[variant("v", "beyond_float32")], predictions={"types": "float32"}))
    assert (
        "the score 1e+300 is none that float32 can hold (predictions.types); choose float64. In the data that is row "
        "30 of a.parquet."
    ) in str(raised.value)


@pytest.mark.parametrize("bundles", [1, 2])
def test_where_it_is_tolerated_such_a_score_is_a_dead_letter_and_metrics_have_it(tmp_path: Path, bundles: int) -> None:
    """However many bundles there are, the baseline's too."""
    write_files(tmp_path)
    one, other = (variant(name, "beyond_float32") | {"memory_bytes": 600} for name in ("base", "other"))
    spec = tree(
        variants=[one, other, variant("rank", "sixtieths") | {"memory_bytes": 600}],
        baseline="base",
        predictions={"types": "float32"},
        gates=[{"coverage": 1.0}],
        on_error="continue",
        budget={"model_bytes": 1800 if bundles == 1 else 1200},
    )
    found = predict(tmp_path, spec)
    assert plain(tmp_path)["base"].null_count == 1
    said = "the score 1e+300 is none that float32 can hold (predictions.types)."
    assert [(dead["_variant"], dead["_reason"], dead["id"]) for dead in letters(tmp_path)] == [
        ("base", said, FIRST_ID + 60),
        ("other", said, FIRST_ID + 60),
        ("rank", "it gave no score (null, NaN or infinite).", FIRST_ID + 60),
    ]
    outcomes = {one.variant: one.outcome for one in found.verdicts}
    assert outcomes["other"] == "pass"
    assert len(committed_units(tmp_path / "run")) == bundles * NUM_UNITS


def test_variants_that_give_no_score(tmp_path: Path) -> None:
    """Its rows count as scored where it gives all that it should."""
    write_files(tmp_path)
    both = {"vector": {"type": "list<float32>[3]"}, "word": {"type": "string"}}
    spec = tree(
        variants=[
            variant("tower", "a_vector_and_a_word", output={"is": "none"}, outputs=both),
            variant("plain", "a_vector", output={"is": "none"}, outputs={"vector": {"type": "list<float64>"}}),
            variant("sum", "twice") | {"inputs": {"x": {"variant": "plain", "output": "vector"}}},
        ],
        output={"select": 0},
        predictions={"names": {"plain.vector": "embedding"}},
        carry_over=["id"],
        gates=[{"coverage": 0.95}],
    )
    found = predict(tmp_path, spec)
    written = plain(tmp_path)
    assert written.column_names == ["id", "tower.vector", "tower.word", "embedding", "sum"]
    x = rows()["x"].to_numpy()
    assert written["tower.word"].to_pylist() == [None if one < 0.1 else f"{one:.2f}" for one in x]
    np.testing.assert_array_equal(np.stack(written["embedding"].to_numpy()), np.stack([x, 1 - x], axis=1))
    np.testing.assert_array_equal(written["sum"].to_numpy(), 2 * x)
    assert {(one["_variant"], one["_reason"]) for one in letters(tmp_path)} == {
        ("tower", "it gave no output (null, NaN or infinite) for 'word'.")
    }
    assert found.predictions is not None
    assert found.predictions.dead == {"tower": 6}
    assert {one.variant: one.outcome for one in found.verdicts} == {"tower": "fail", "plain": "pass", "sum": "pass"}


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"carry_over": ["prize"]}, ["carry_over[0]: there is no column 'prize'; did you mean 'price'?"]),
        (
            {"carry_over": ["z*"]},
            [
                "carry_over[0]: the glob 'z*' matches none of the columns 'id', 'x', 'tags', 'when', 'price', 'kind', "
                "'note' and 'pair'."
            ],
        ),
        (
            {"variants": [variant("price")]},
            [
                "predictions.names: the output of variant 'price' would be the column 'price', which is carried over "
                'too; choose other names, such as "prediction.{variant}".'
            ],
        ),
    ],
)
def test_faults(tmp_path: Path, changes: dict[str, object], faults: list[str]) -> None:
    write_files(tmp_path)
    with pytest.raises(SpecError) as caught:
        predict(tmp_path, tree(**changes))
    assert [str(fault) for fault in caught.value.faults] == faults


def test_columns_that_dead_letters_name_themselves(tmp_path: Path) -> None:
    write_files(tmp_path, rows().append_column("_row", pa.array(range(ROWS))))
    with pytest.raises(SpecError) as caught:
        predict(tmp_path, tree())
    said = "carry_over: names the column '_row', a name that provenance and dead letters take; leave it out."
    assert [str(fault) for fault in caught.value.faults] == [said]


def test_a_table_that_has_another_type_than_the_chosen_one_is_told_before_rows_are_scored(tmp_path: Path) -> None:
    write_files(tmp_path)
    table = {"format": "delta", "to": str(tmp_path / "table")}
    predict(tmp_path, tree(carry_over=["id"], predictions=table), "first")
    with pytest.raises(DataError, match="it has 'twice' as double, not as float"):
        predict(tmp_path, tree(carry_over=["id"], predictions=table | {"types": "float32"}), "second")
    assert not (tmp_path / "second" / "outputs").exists()
