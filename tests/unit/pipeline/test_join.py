"""The late join on pieces made by hand: alignment is checked, and a row without an output is told, with its reason."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import RunError
from assay.pipeline import join as pipeline_join
from assay.pipeline.columns import Columns, OutputColumn
from assay.pipeline.join import Held, Join, Joined, Piece
from assay.predicted import Key, contents, digest, encode, key
from assay.records import PartFile, Predicted, SinkSettings, Unit
from assay.sinks import spliced
from assay.sinks.arrow import arrow_sink
from assay.sinks.parquet import parquet_sink
from assay.sources.frame import FrameSource
from assay.sources.parquet import ParquetSource
from assay.spec.model import WorkersSpec
from assay.store.folder import open_folder
from assay.store.run import RunDirectory

ROWS = 12
UNIT = Unit("u1", "frame", 2, 8, 0)
"""Rows 2 to 9 of twelve."""


@dataclass
class Kept:
    """A sink in memory."""

    parts: dict[str, pa.Table] = field(default_factory=dict)

    def check(self, schema: pa.Schema) -> tuple[str, ...]:
        return ()

    def begin(self, schema: pa.Schema) -> None: ...

    def write(self, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[PartFile, ...]:
        table = pa.Table.from_batches(list(batches), schema)
        self.parts[part] = table
        return (PartFile(part, table.num_rows, table.nbytes, ""),)

    def commit(self, parts: Sequence[PartFile], schema: pa.Schema) -> None: ...


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(str(tmp_path / "run"))


def join(run: RunDirectory, *outputs: Key, carry: Sequence[str] = ("name",), where: str | None = None) -> Join:
    table = pa.table({"name": [f"n{row}" for row in range(ROWS)], "x": list(range(ROWS))})
    source = FrameSource(table)
    columns = Columns(
        carried=tuple(source.original.field(name) for name in carry),
        provenance=True,
        outputs=tuple(OutputColumn(one, ".".join(one), pa.float64()) for one in outputs),
        metadata=None,
    )
    return Join("", WorkersSpec(), run.store.url, source, where, columns, Kept(), Kept())


def held(run: RunDirectory, unit: str, columns: dict[Key, list[float | str | None]], rows: Sequence[int]) -> Held:
    """What a worker has written for the rows."""
    table = pa.table({"position": pa.array(rows, pa.int64()), **{key(*one): values for one, values in columns.items()}})
    data = encode([Predicted(unit, table)])
    run.save_outputs(digest(data), data)
    [span] = contents(pa.py_buffer(data), "it").spans
    return Held(unit, tuple(dict.fromkeys(one.variant for one in columns)), digest(data), span, {})


def written(of: Join) -> list[dict[str, object]]:
    """The rows of all parts."""
    assert isinstance(of.sink, Kept)
    return [row for name in sorted(of.sink.parts) for row in of.sink.parts[name].to_pylist()]


def dead(of: Join) -> list[tuple[object, ...]]:
    assert isinstance(of.dead_sink, Kept)
    rows = [row for name in sorted(of.dead_sink.parts) for row in of.dead_sink.parts[name].to_pylist()]
    return [(row["_variant"], row["_row"], row["_reason"]) for row in rows]


def test_rows_that_a_filter_left_are_found_by_their_positions(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"))
    [found] = work([Piece("p", UNIT, (held(run, "u1", {Key("a", "main"): [0.5, 0.25]}, [3, 8]),))])
    assert (found.rows, found.dead) == (2, {})
    assert written(work) == [
        {"name": "n3", "_file": "frame", "_row": 3, "a.main": 0.5},
        {"name": "n8", "_file": "frame", "_row": 8, "a.main": 0.25},
    ]


def test_pieces_of_one_stretch_each_have_their_own_rows(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"))
    later = Unit("u2", "frame", 10, 2, 0)
    first = held(run, "u1", {Key("a", "main"): [1.0] * 8}, range(2, 10))
    second = held(run, "u2", {Key("a", "main"): [2.0, None]}, [10, 11])
    found = work([Piece("1", UNIT, (first,)), Piece("2", later, (second,))])
    assert [one.rows for one in found] == [8, 2]
    assert [row["name"] for row in written(work)] == [f"n{row}" for row in range(2, 12)]
    assert dead(work) == [("a", 11, "it gave no score (null, NaN or infinite).")]
    assert [len(one.dead_parts) for one in found] == [1, 1]


def test_bundles_are_put_side_by_side(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"), Key("b", "main"))
    a = held(run, "u1.0", {Key("a", "main"): [1.0, 2.0]}, [3, 4])
    b = held(run, "u1.1", {Key("b", "main"): [3.0, 4.0]}, [3, 4])
    work([Piece("p", UNIT, (a, b))])
    assert [(row["a.main"], row["b.main"]) for row in written(work)] == [(1.0, 3.0), (2.0, 4.0)]


def test_bundles_with_other_rows_are_refused(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"), Key("b", "main"))
    a = held(run, "u1.0", {Key("a", "main"): [1.0, 2.0]}, [3, 4])
    b = held(run, "u1.1", {Key("b", "main"): [3.0, 4.0]}, [3, 5])
    with pytest.raises(RunError, match="The bundles scored different rows of unit u1: the run cannot be trusted"):
        work([Piece("p", UNIT, (a, b))])


@pytest.mark.parametrize("rows", [[1, 3], [9, 10], [4, 4], [5, 4]])
def test_rows_that_are_not_the_units_own_are_refused(run: RunDirectory, rows: list[int]) -> None:
    work = join(run, Key("a", "main"))
    with pytest.raises(RunError, match="The outputs of unit u1 are not of rows of its own"):
        work([Piece("p", UNIT, (held(run, "u1", {Key("a", "main"): [1.0, 2.0]}, rows),))])


def test_a_source_with_fewer_rows_than_were_scored_is_refused(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"))
    beyond = Unit("u1", "frame", 2, 20, 0)
    with pytest.raises(RunError, match=re.escape("frame has only 1 of the 2 rows that were scored in unit u1")):
        work([Piece("p", beyond, (held(run, "u1", {Key("a", "main"): [1.0, 2.0]}, [3, 15]),))])


def test_of_several_outputs_those_are_named_that_are_missing(run: RunDirectory) -> None:
    work = join(run, Key("a", "click"), Key("a", "buy"))
    columns: dict[Key, list[float | str | None]] = {
        Key("a", "click"): [1.0, None, None, 1.0],
        Key("a", "buy"): [1.0, 1.0, None, None],
    }
    work([Piece("p", UNIT, (held(run, "u1", columns, [2, 3, 4, 5]),))])
    assert dead(work) == [
        ("a", 3, "it gave no output (null, NaN or infinite) for 'click'."),
        ("a", 4, "it gave no output (null, NaN or infinite) for 'click' and 'buy'."),
        ("a", 5, "it gave no output (null, NaN or infinite) for 'buy'."),
    ]


def test_a_reason_of_the_row_goes_before_that_of_the_unit(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"))
    columns: dict[Key, list[float | str | None]] = {
        Key("a", "main"): [1.0, None, None],
        Key("a", ""): [None, "it raised at this row.", None],
    }
    given = replace(held(run, "u1", columns, [2, 3, 4]), reasons={"a": "it failed on the unit."})
    work([Piece("p", UNIT, (given,))])
    assert dead(work) == [("a", 3, "it raised at this row."), ("a", 4, "it failed on the unit.")]


def test_a_unit_that_was_given_up_is_all_dead_letters(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"), Key("b", "main"), where="x % 2 = 0")
    lost = Held("u1", ("a", "b"), "", None, {"": "no worker survived the unit: it fell."})
    [found] = work([Piece("p", UNIT, (lost,))])
    assert found == Joined("u1", 4, found.parts, {"a": 4, "b": 4}, found.dead_parts)
    assert [(row["_row"], row["a.main"]) for row in written(work)] == [(2, None), (4, None), (6, None), (8, None)]
    assert set(dead(work)) == {
        (name, row, "no worker survived the unit: it fell.") for name in ("a", "b") for row in (2, 4, 6, 8)
    }


def test_a_unit_that_was_given_up_in_one_bundle_alone(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"), Key("b", "main"))
    a = held(run, "u1.0", {Key("a", "main"): [1.0, 2.0]}, [3, 4])
    lost = Held("u1.1", ("b",), "", None, {"": "no worker survived the unit: it fell."})
    [found] = work([Piece("p", UNIT, (a, lost))])
    assert [(row["a.main"], row["b.main"]) for row in written(work)] == [(1.0, None), (2.0, None)]
    assert found.dead == {"b": 2}


def test_nothing_is_read_where_nothing_is_carried_over(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    work = join(run, Key("a", "main"), carry=())
    monkeypatch.setattr(FrameSource, "read", lambda *_: pytest.fail("it was read"))
    monkeypatch.setattr(FrameSource, "read_original", lambda *_: pytest.fail("it was read"))
    work([Piece("p", UNIT, (held(run, "u1", {Key("a", "main"): [1.0, None]}, [3, 4]),))])
    assert written(work)[0] == {"_file": "frame", "_row": 3, "a.main": 1.0}
    assert [row for _, row, _ in dead(work)] == [4]


def test_it_goes_to_other_processes(run: RunDirectory) -> None:
    work = join(run, Key("a", "main"))
    assert pickle.loads(pickle.dumps(work)).columns == work.columns


# ---- columns that are copied -----------------------------------------------------------------------------------------

GROUP = 8_192
MAIN = Key("a", "main")


@pytest.fixture
def wide(run: RunDirectory, tmp_path: Path) -> Join:
    """Carries a column of a file with two row groups, into a folder of Parquet."""
    table = pa.table({"name": [f"n{row}" for row in range(2 * GROUP)], "x": range(2 * GROUP)})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=GROUP)
    source = ParquetSource(["data.parquet"], tmp_path)
    columns = Columns((source.original.field("name"),), True, (OutputColumn(MAIN, "a", pa.float32()),), None)
    sinks = [
        parquet_sink(SinkSettings("parquet", str(tmp_path / name), "run"), open_folder) for name in ("out", "dead")
    ]
    return Join("", WorkersSpec(), run.store.url, source, None, columns, *sinks)


def scored(run: RunDirectory, name: str, first: int, rows: int, dead_row: int | None = None) -> Piece:
    """A unit of the file, all of whose rows have a score but one."""
    values = [None if row == dead_row else row / 2 for row in range(first, first + rows)]
    unit = Unit(name, "data.parquet", first, rows, 0)
    table = {"position": range(first, first + rows), key(*MAIN): pa.array(values, pa.float32())}
    data = encode([Predicted(name, pa.table(table))])
    run.save_outputs(digest(data), data)
    [span] = contents(pa.py_buffer(data), "it").spans
    return Piece(f"0-{name}", unit, (Held(name, ("a",), digest(data), span, {}),))


def files(folder: Path) -> dict[str, pa.Table]:
    """The files of predictions, by the unit in their names."""
    return {path.name.split("-")[2]: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}


def rows_of_the_data(first: int, rows: int) -> pa.Table:
    """What is to be written of them."""
    span = range(first, first + rows)
    return pa.table(
        {
            "name": [f"n{row}" for row in span],
            "_file": ["data.parquet"] * rows,
            "_row": span,
            "a": pa.array([row / 2 for row in span], pa.float32()),
        }
    )


def test_units_that_share_a_row_group_are_one_part_with_the_columns_as_they_lie(
    wide: Join, run: RunDirectory, tmp_path: Path
) -> None:
    half = GROUP // 2
    found = wide([scored(run, "u1", GROUP, half), scored(run, "u2", GROUP + half, half)])
    assert [(one.unit, one.rows, len(one.parts)) for one in found] == [("u1", half, 1), ("u2", half, 0)]
    assert files(tmp_path / "out") == {"u1": rows_of_the_data(GROUP, GROUP)}
    before = pq.read_metadata(tmp_path / "data.parquet").row_group(1).column(0)
    [path] = (tmp_path / "out").glob("*.parquet")
    assert pq.read_metadata(path).row_group(0).column(0).total_compressed_size == before.total_compressed_size


def test_a_unit_of_several_row_groups_has_each_of_them(wide: Join, run: RunDirectory, tmp_path: Path) -> None:
    [found] = wide([scored(run, "u1", 0, 2 * GROUP)])
    [part] = found.parts
    assert files(tmp_path / "out") == {"u1": rows_of_the_data(0, 2 * GROUP)}
    assert pq.read_metadata(tmp_path / "out" / part.path).num_row_groups == 2


def test_dead_rows_of_a_part_that_is_copied_are_told_unit_by_unit(
    wide: Join, run: RunDirectory, tmp_path: Path
) -> None:
    half = GROUP // 2
    found = wide([scored(run, "u1", 0, half), scored(run, "u2", half, half, dead_row=half + 3)])
    assert [one.dead for one in found] == [{}, {"a": 1}]
    assert files(tmp_path / "out")["u1"]["a"].null_count == 1
    assert files(tmp_path / "dead")["u2"].select(["_row", "name"]).to_pylist() == [
        {"_row": half + 3, "name": f"n{half + 3}"}
    ]


@pytest.mark.parametrize("why", ["a filter", "too much to hold", "no Parquet", "a part of a row group"])
def test_where_columns_cannot_be_copied_each_unit_is_a_part_of_its_own(
    wide: Join, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    half = GROUP // 2
    pieces = [scored(run, "u1", 0, half), scored(run, "u2", half, half)]
    if why == "a filter":
        wide = replace(wide, where="x >= 0")
    elif why == "too much to hold":
        monkeypatch.setattr(pipeline_join, "MOST_OWN_BYTES", 1)
    elif why == "no Parquet":
        wide = replace(wide, sink=arrow_sink(SinkSettings("arrow", str(tmp_path / "out"), "run"), open_folder))
    else:
        pieces = [scored(run, "u1", 0, half), scored(run, "u2", half, half - 1)]
    found = wide(pieces)
    assert [len(one.parts) for one in found] == [1, 1]
    if why != "no Parquet":
        rows = [piece.unit.num_rows for piece in pieces]
        assert files(tmp_path / "out") == {"u1": rows_of_the_data(0, half), "u2": rows_of_the_data(half, rows[1])}


def test_outputs_are_read_once_where_columns_cannot_be_copied(
    wide: Join, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spliced, "LEAST_GROUP_ROWS", GROUP + 1)
    with patch.object(Join, "_read", autospec=True, side_effect=Join._read) as read:
        wide([scored(run, "u1", 0, GROUP)])
    assert read.call_count == 1


def test_a_unit_that_lacks_rows_though_none_is_filtered_ends_the_run(wide: Join, run: RunDirectory) -> None:
    piece = scored(run, "u1", 0, GROUP - 1)
    short = replace(piece, unit=replace(piece.unit, num_rows=GROUP))
    with pytest.raises(RunError, match="Unit u1 lacks rows, and none is filtered: the run cannot be trusted"):
        wide([short])


@pytest.mark.parametrize(
    ("kind", "most_rows"),
    [
        (pa.float32(), 64),
        (pa.bool_(), 256),
        (pa.list_(pa.float64(), 4), 8),
        (pa.string(), 0),
        (pa.list_(pa.int8()), 0),
    ],
)
def test_units_of_one_row_group_are_held_at_once_as_far_as_their_outputs_are_light(
    wide: Join, run: RunDirectory, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, most_rows: int
) -> None:
    monkeypatch.setattr(pipeline_join, "MOST_OWN_BYTES", 256)
    outputs = (replace(wide.columns.outputs[0], kind=kind),)
    work = replace(wide, columns=replace(wide.columns, outputs=outputs, provenance=False))
    unit = Unit("u", "data.parquet", 0, 1, 0)
    assert (work._row_bytes(unit) * most_rows <= 256) == (most_rows > 0)
    assert work._row_bytes(unit) * (most_rows + 1) > 256 or work._row_bytes(unit) == float("inf")
    with_place = replace(work, columns=replace(work.columns, provenance=True))
    assert with_place._row_bytes(unit) == work._row_bytes(unit) + len("data.parquet") + 12
