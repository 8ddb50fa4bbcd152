"""What outputs say of the rows of each piece: of units that were scored, in part, or by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.pipeline.audit_outputs import Found, Scored, read_again
from assay.pipeline.prepare import prepare
from assay.predicted import POSITION, digest, encode, key
from assay.records import CommittedFile, Plan, Predicted, Receipt
from assay.spec.load import build_spec
from assay.spec.model import Spec
from assay.store.run import RunDirectory

ROWS = 4
"""Of each of two units."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(str(tmp_path / "run"))


def planned(folder: Path, where: str | None = None) -> tuple[Spec, Plan]:
    """`both` gives a score and a text; two units, in the order of the data."""
    pq.write_table(pa.table({"x": [float(row) for row in range(2 * ROWS)]}), folder / "rows.parquet")
    calls = {"callable": "fakes.predictors:twice", "inputs": ["x"], "receive": "dict"}
    spec = build_spec(
        {
            "data": {"path": "rows.parquet", **({} if where is None else {"where": where})},
            "output": {"is": "score"},
            "predictions": {},
            "variants": [
                {"name": "one", **calls},
                {"name": "both", **calls, "outputs": {"word": {"type": "string"}}},
            ],
        }
    )
    plan = prepare(spec, folder).plan
    [unit] = plan.units
    units = (replace(unit, id=f"u{number}", first_row=number * ROWS, num_rows=ROWS) for number in (0, 1))
    return spec, replace(plan, units=tuple(units))


def committed(run: RunDirectory, units: Mapping[str, Mapping[str, Sequence[object]]]) -> CommittedFile:
    """An object with the outputs of these units, and a commit that lists it."""
    tables = {
        unit: pa.table({POSITION: pa.array(range(ROWS), pa.int64()), **columns}) for unit, columns in units.items()
    }
    data = encode([Predicted(unit, table) for unit, table in tables.items()])
    run.save_outputs(digest(data), data)
    return CommittedFile("state", tuple(Receipt(unit, ROWS, "") for unit in units), digest(data))


ONE, BOTH, WORD = key("one", "main"), key("both", "main"), key("both", "word")
WHOLE = {ONE: [1.0] * ROWS, BOTH: [1.0] * ROWS, WORD: ["w"] * ROWS}


def test_a_row_is_dead_where_any_of_a_variants_outputs_is_null(run: RunDirectory, tmp_path: Path) -> None:
    spec, plan = planned(tmp_path)
    gaps = {ONE: [1.0, None, 1.0, 1.0], BOTH: [None, 1.0, 1.0, 1.0], WORD: [None, "w", None, "w"]}
    found = read_again(run, spec, plan, [committed(run, {"u0": WHOLE, "u1": gaps})])
    assert found == Found(
        (),
        2 * ROWS,
        ((Scored("u0", "00000-u0", ROWS, {}), Scored("u1", "00001-u1", ROWS, {"one": 1, "both": 2})),),
    )


def test_a_variant_that_has_no_column_gave_nothing(run: RunDirectory, tmp_path: Path) -> None:
    spec, plan = planned(tmp_path)
    found = read_again(run, spec, plan, [committed(run, {"u0": {ONE: WHOLE[ONE]}, "u1": {ONE: WHOLE[ONE]}})])
    assert [one.dead for one in found.stretches[0]] == [{"both": ROWS}, {"both": ROWS}]


def test_of_a_unit_that_was_given_up_all_rows_are_dead(run: RunDirectory, tmp_path: Path) -> None:
    spec, plan = planned(tmp_path)
    found = read_again(run, spec, plan, [committed(run, {"u0": WHOLE})])
    assert (found.rows, found.stretches[0][1]) == (ROWS, Scored("u1", "00001-u1", ROWS, {"one": ROWS, "both": ROWS}))


def test_nobody_knows_how_many_of_them_the_filter_lets_pass(run: RunDirectory, tmp_path: Path) -> None:
    spec, plan = planned(tmp_path, where="x < 100")
    found = read_again(run, spec, plan, [committed(run, {"u0": WHOLE})])
    assert found.stretches[0][1] == Scored("u1", "00001-u1", None, None)


def test_a_piece_has_a_unit_for_each_bundle(run: RunDirectory, tmp_path: Path) -> None:
    """Where that of the first is given up, that of the second has counted the rows."""
    spec, plan = planned(tmp_path, where="x < 100")
    units = [replace(unit, id=f"{unit.id}.{bundle}", bundle=bundle) for unit in plan.units for bundle in (0, 1)]
    plan = replace(plan, units=tuple(units), bundles=(("one",), ("both",)))
    gaps = {BOTH: [None, 1.0, 1.0, 1.0], WORD: WHOLE[WORD]}
    files = [committed(run, {"u0.0": {ONE: WHOLE[ONE]}, "u0.1": gaps, "u1.1": gaps})]
    found = read_again(run, spec, plan, files)
    assert found.rows == ROWS
    assert found.stretches == (
        (
            Scored("u0.0", "00000-u0", ROWS, {"both": 1}),
            Scored("u1.0", "00001-u1", ROWS, {"one": ROWS, "both": 1}),
        ),
    )


def test_an_object_that_is_missing_altered_or_of_other_units(run: RunDirectory, tmp_path: Path) -> None:
    spec, plan = planned(tmp_path)
    other = committed(run, {"u0": WHOLE})
    missing = replace(other, predictions="0" * 32)
    swapped = replace(other, receipts=(Receipt("u1", ROWS, ""),))
    altered = committed(run, {"u1": WHOLE})
    path = tmp_path / "run" / "outputs" / f"{altered.predictions}.arrow"
    path.write_bytes(path.read_bytes().replace(b"w", b"v", 1))
    for file in (missing, swapped, altered):
        assert read_again(run, spec, plan, [file]) == Found((file.predictions,), 0, ())
