"""What is decided by looking at the data: scales, rows, notes, and the plan they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.errors import DataError, ModelError, SpecError
from assay.pipeline import prepare as module
from assay.pipeline.prepare import Prepared, count_rows, prepare
from assay.spec.load import build_spec
from assay.spec.model import Spec

ROWS = 120
COLUMNS: dict[str, Any] = {
    "y": [0, 1] * (ROWS // 2),
    "p": [0.25, 0.75] * (ROWS // 2),
    "q": [0.5, 0.25] * (ROWS // 2),
    "w": [1.0, 5.0] * (ROWS // 2),
    "ts": list(range(ROWS)),
    "user": [row // 2 for row in range(ROWS)],
}


def spec(**data: Any) -> Spec:
    variants = [{"name": "old", "column": "p"}, {"name": "new", "column": "q"}]
    return Spec.model_validate(
        {"data": {"label": "y", **data}, "variants": variants, "baseline": "old", "metrics": ["auc"]}
    )


def prepared(given: Spec, **changes: Any) -> Prepared:
    return prepare(given, Path.cwd(), pa.table({**COLUMNS, **changes}))


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "exponent"),
    [
        ({}, 0),
        ({"weight": "w"}, -23),  # the largest is 5
        ({"weight": "w", "weight_max": 100}, -19),
        ({"weight": "w * 2"}, -16),  # the largest drawn is 10; with headroom 640
    ],
)
def test_the_scale_of_weights(data: dict[str, Any], exponent: int) -> None:
    assert prepared(spec(**data)).plan.weight_exponent == exponent


def test_weights_without_a_finite_largest_are_drawn() -> None:
    """Infinite ones are refused when their row is read; the scale is that of the others."""
    given = spec(weight="w")
    assert prepared(given, w=[float("inf"), 5.0] * (ROWS // 2)).plan.weight_exponent == -17
    assert prepared(given, w=pa.array([None] * ROWS, pa.float64())).plan.weight_exponent == -26


# ---- rows ------------------------------------------------------------------------------------------------------------


def csv(folder: Path) -> Spec:
    (folder / "rows.csv").write_text("y,p,q\n" + "0,0.5,0.25\n1,0.75,1\n" * 50)
    return spec(path="rows.csv")


def test_small_files_that_do_not_say_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepare(csv(tmp_path), tmp_path)
    assert (found.num_rows, found.plan.num_rows) == (100, None)
    assert found.plan.choice.exact_ranking
    monkeypatch.setattr(module, "COUNTED_BYTES", 10)
    assert count_rows(found.source) is None
    assert not prepare(csv(tmp_path), tmp_path).plan.choice.exact_ranking


# ---- labels and times ------------------------------------------------------------------------------------------------


def test_a_range_of_labels_is_no_fault_where_a_filter_may_drop_them() -> None:
    labels = [-1, 1] * (ROWS // 2)
    assert prepared(spec(where="y >= 0"), y=labels).num_rows == ROWS
    with pytest.raises(DataError, match=r"^The label 'y' goes from -1 to 1, but auc takes 0 and 1 only\."):
        prepared(spec(), y=labels)


def test_a_real_label_may_have_any_range() -> None:
    assert (
        prepared(spec().model_copy(update={"metrics": ("rmse",)}), y=list(range(ROWS))).plan.tasks[0].label_kind
        == "real"
    )


def test_time_must_be_a_column() -> None:
    with pytest.raises(SpecError, match=r"^data\.time: there is no column 't'; did you mean 'ts'\?$"):
        prepared(spec(time="t"))


def test_time_orders_the_strata(tmp_path: Path) -> None:
    pq.write_table(pa.table({**COLUMNS, "ts": list(range(ROWS, 0, -1))}), tmp_path / "rows.parquet", row_group_size=20)
    given = spec(path="rows.parquet", time="ts").model_copy(
        update={"execution": Spec.model_fields["execution"].default.model_copy(update={"unit_rows": 20})}
    )
    units = sorted(prepare(given, tmp_path).plan.units, key=lambda unit: unit.stratum)
    assert [unit.first_row for unit in units] == [100, 80, 60, 40, 20, 0]


def test_rows_with_large_columns_that_are_read_are_cut_into_more_units(tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text("def score(image): return image[:, 0]\n")
    rows = 10_000
    image = pa.FixedSizeListArray.from_arrays(pa.nulls(1024 * rows, pa.float32()).fill_null(0.5), 1024)
    table = pa.table({"y": [0, 1] * (rows // 2), "p": [0.5] * rows, "image": image})
    variants = {
        "p": {"name": "a", "column": "p"},
        "image": {"name": "a", "callable": "wide:score", "inputs": {"image": "image"}},
    }
    found = {
        name: prepare(
            build_spec({"data": {"label": "y"}, "variants": [one], "output": {"is": "score"}}), tmp_path, table
        ).plan
        for name, one in variants.items()
    }
    assert {name: len(plan.units) for name, plan in found.items()} == {
        "p": 1,
        "image": 5,
    }  # 4,104 bytes count as 8 rows: 2,048 each
    assert "units" not in found["p"].identity_parts


def test_a_function_that_the_module_does_not_have_is_told_by_the_plan(tmp_path: Path) -> None:
    (tmp_path / "missing_names.py").write_text("raise RuntimeError\ndef score(p): return p\nclass Pixels: pass\n")
    variants = [
        {"name": "a", "callable": "missing_names:scroe", "inputs": {"p": "old"}},
        {"name": "b", "torch": {"load": "missing_names:load", "path": "x"}, "inputs": ["old"]},
        {"name": "c", "callable": "missing_names:score", "prepare": "pixels"},
    ]
    made = {"pixels": {"function": "missing_names:Pixel", "inputs": ["old"]}}
    table = pa.table({"y": [0, 1], "old": [0.25, 0.5]})
    told = []
    for some, more in ((variants[:2], {}), (variants[2:], {"prepare": made})):
        with pytest.raises((ModelError, SpecError)) as caught:
            prepare(build_spec({"data": {"label": "y"}, "variants": some, **more}), tmp_path, table)
        told.append(str(caught.value))
    assert told == [
        "Variant 'a': module 'missing_names' has no function 'scroe'; did you mean 'score'?\n"
        "Variant 'b': module 'missing_names' has no function 'load'; expected 'score' or 'Pixels'.",
        "prepare.pixels: preparation 'pixels': module 'missing_names' has no function 'Pixel'; did you mean 'Pixels'? "
        "The variant 'c' needs it.",
    ]


# ---- notes -----------------------------------------------------------------------------------------------------------

ROWS_ARE_CLUSTERS = (
    "No cluster is named, so every row counts as independent. If a user or session has several rows, name it as the "
    "cluster: intervals are too narrow otherwise."
)
RANKING_ALONE = (
    "Only ranking is measured, since the spec does not say what the scores are. Say that they are a probability "
    "(output: {is: probability}, or --output probability) for log loss and calibration."
)
NO_TIMES = "data.time has no effect: the files do not record the range of 'name'."
NO_BATCHES = "execution.micro_batch has no effect: no variant is of a kind whose scores depend on rows per call."
TWINS = "'old' and 'copy' are the same: the same columns, or weights, code and settings."


@pytest.mark.parametrize(
    ("data", "changes", "notes"),
    [
        ({"cluster": "user"}, {}, ()),
        ({}, {}, (ROWS_ARE_CLUSTERS,)),
        ({"cluster": "user"}, {"metrics": ()}, (RANKING_ALONE,)),
        ({"cluster": "user", "time": "name"}, {}, (NO_TIMES,)),
        ({"cluster": "user"}, {"execution": {"micro_batch": 64}}, (NO_BATCHES,)),
        (
            {"cluster": "user"},
            {
                "variants": (
                    {"name": "old", "column": "p"},
                    {"name": "q", "column": "q"},
                    {"name": "copy", "column": "p"},
                )
            },
            (TWINS,),
        ),
    ],
)
def test_notes(data: dict[str, Any], changes: dict[str, Any], notes: tuple[str, ...]) -> None:
    given = Spec.model_validate({**spec(**data).model_dump(exclude_unset=True, by_alias=True), **changes})
    assert prepared(given, name=["x"] * ROWS).notes == notes


# ---- preparations ----------------------------------------------------------------------------------------------------


def with_preparations(base: Path, micro_batch: int | None, **batch_rows: int | None) -> Prepared:
    """A variant for each of these preparations, which reads `user`, and a plain one that reads `w`."""
    (base / "made.py").write_text("def features(table): ...\ndef score(made): ...")
    variants = [{"name": name, "callable": "made:score", "prepare": name} for name in batch_rows]
    tree = {
        "data": {"label": "y", "cluster": "ts"},
        "variants": [*variants, {"name": "plain", "callable": "made:score", "inputs": ["w"]}],
        "prepare": {
            name: {"function": "made:features", "inputs": ["user"], "batch_rows": rows}
            for name, rows in batch_rows.items()
        },
        "metrics": ["auc"],
        "execution": {"micro_batch": micro_batch},
    }
    return prepare(Spec.model_validate(tree), base, pa.table(COLUMNS))


def test_units_never_cut_a_micro_batch_of_a_preparation(tmp_path: Path) -> None:
    plan = with_preparations(tmp_path, None, own=96, usual=None).plan
    assert plan.batch_rows == {"own": 96, "usual": 1024, "plain": 1024}
    assert plan.micro_batch == 3072
    plan = with_preparations(tmp_path, 10, own=96, usual=None).plan
    assert plan.batch_rows == {"own": 96, "usual": 10, "plain": 10}
    assert plan.micro_batch == 480


def test_what_a_preparation_reads_is_read(tmp_path: Path) -> None:
    assert with_preparations(tmp_path, None, own=96).plan.columns == ("y", "w", "ts", "user")


def test_micro_batch_is_idle_where_each_preparation_says_its_own(tmp_path: Path) -> None:
    note = "execution.micro_batch has no effect: every variant that minds has a preparation with batch_rows."
    assert note not in with_preparations(tmp_path, 10, own=96).notes
    tree = with_preparations(tmp_path, 10, own=96).spec.model_dump(exclude_unset=True, by_alias=True)
    tree["variants"] = [tree["variants"][0], {"name": "p", "column": "p"}]
    assert note in prepare(Spec.model_validate(tree), tmp_path, pa.table(COLUMNS)).notes


# ---- the plan --------------------------------------------------------------------------------------------------------


def test_gates_are_kept_by_canonical_metrics() -> None:
    gates = [{"metric": "precision(threshold=0.50)", "min": 0.1}]
    tree = {**spec().model_dump(exclude_unset=True, by_alias=True), "metrics": ["precision"], "gates": gates}
    tree["output"] = {"is": "probability"}
    assert prepared(Spec.model_validate(tree)).spec.gates[0].metric == "precision"


def test_only_what_is_needed_is_read() -> None:
    assert prepared(spec(weight="w * 2", slices=["user"])).plan.columns == ("y", "p", "q", "w", "user")


def test_the_same_question_has_the_same_plan() -> None:
    assert prepared(spec(slices=["user"])).plan == prepared(spec(slices=["user"])).plan
