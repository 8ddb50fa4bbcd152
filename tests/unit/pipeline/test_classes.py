"""Classes that the data tell: one pass over all rows that take part."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay import build
from assay.errors import DataError, ModelError
from assay.pipeline import classes as module
from assay.pipeline.classes import is_open, with_classes
from assay.pipeline.prepare import prepare
from assay.records import Task
from assay.spec.model import DataSpec, Spec


def task(label: str = "y", kind: str = "class", where: str | None = None, name: str = "main") -> Task:
    return Task(name, label, kind, where, ())  # type: ignore[arg-type]  # a kind of label


def found(columns: dict[str, Any], *tasks: Task, where: str | None = None) -> list[tuple[str, ...]]:
    data = DataSpec(label="y", where=where)
    source = build.source(data, Path(), pa.table(columns))
    return [one.classes for one in with_classes(tasks or (task(),), data, source)]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", None, "b", "B"], ("B", "a", "b")),
        ([10, 9, None, -1], ("-1", "9", "10")),
        ([10.0, 9.0, 0.5, float("nan")], ("0.5", "9", "10")),
        ([True, False, None], ("false", "true")),
        ([Decimal("1.50"), Decimal("1.0")], ("1", "1.5")),
        (pa.array(["b", "a"]).dictionary_encode(), ("a", "b")),
    ],
)
def test_classes_are_the_values_in_order(values: Any, names: tuple[str, ...]) -> None:
    assert found({"y": values}) == [names]


def test_labels_are_what_the_lists_hold() -> None:
    assert found({"y": [["b", "a"], [], None, ["c", "a"]]}, task(kind="labels")) == [("a", "b", "c")]
    assert found({"y": [[10], [9, 10]]}, task(kind="labels")) == [("9", "10")]


def test_only_rows_that_take_part_count() -> None:
    columns = {"y": ["a", "b", "c", "d"], "n": [1, 2, 3, None]}
    assert found(columns, where="n < 3") == [("a", "b")]
    several = found(columns, task(where="n > 1"), task("n", name="other"), where="n < 10")
    assert several == [("b", "c"), ("1", "2", "3")]


def test_expressions_and_tasks_that_are_not_open() -> None:
    declared = Task("d", "y", "class", None, (), ("x", "y"))
    plain = Task("p", "y", "real", None, ())
    assert found({"y": [1, 2, 3]}, declared, plain, task("y % 2 = 0")) == [("x", "y"), (), ("false", "true")]
    assert (is_open(declared), is_open(plain), is_open(task())) == (False, False, True)


def test_every_file_and_row_group_is_read(tmp_path: Path) -> None:
    for number in range(3):
        table = pa.table({"y": [f"{number}a", f"{number}b", None, f"{number}a"]})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=1)
    data = DataSpec(label="y", path=str(tmp_path))
    [one] = with_classes([task()], data, build.source(data, Path()))
    assert one.classes == ("0a", "0b", "1a", "1b", "2a", "2b")


def refusal(values: list[Any], kind: str = "class") -> str:
    with pytest.raises(DataError) as caught:
        found({"y": values}, task(kind=kind))
    return str(caught.value)


def test_too_many_and_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(["a", "a", None]) == (
        "data.label: 'y' is 'a' in all rows that take part. Declare the classes if there are others."
    )
    assert found({"y": [["a"]]}, task(kind="labels")) == [("a",)]
    assert refusal([None, None]) == "0 rows usable: the label 'y' has no value in any row that takes part."
    monkeypatch.setattr(module, "MOST", 2)
    assert refusal(["a", "b", "c"]) == (
        "data.label: 'y' has more than 2 different values. Declare the classes, or write an expression with fewer."
    )
    assert refusal([["a", "b"], ["c"]], "labels") == (
        "data.label: 'y' has more than 2 different values. Declare the labels, or write an expression with fewer."
    )


# ---- in a plan


def planned(classes: Any, column: Any = "p") -> Any:
    spec = Spec.model_validate(
        {
            "data": {"label": "y", "classes": classes},
            "output": {"is": "probability"},
            "variants": [{"name": "a", "column": column}],
            "metrics": ["accuracy"],
        }
    )
    table = pa.table({"y": ["u", "v"] * 5, "p": [[0.5, 0.5]] * 10, "x": [0.5] * 10, "z": [0.5] * 10})
    return prepare(spec, Path.cwd(), table).plan


def test_the_plan_holds_the_classes_and_is_another_with_others() -> None:
    auto, declared, turned = planned("auto"), planned(["u", "v"]), planned(["v", "u"])
    assert (auto.tasks[0].classes, turned.tasks[0].classes) == (("u", "v"), ("v", "u"))
    assert auto.identity == declared.identity
    assert auto.identity != turned.identity


@pytest.mark.parametrize("classes", ["auto", ["u", "v"]])
def test_a_column_for_each_class_is_counted_at_plan_time(classes: Any) -> None:
    assert planned(classes, ["x", "z"]).columns == ("y", "x", "z")
    with pytest.raises(ModelError) as caught:
        planned(classes, ["x", "z", "x"])
    assert str(caught.value) == "Variant 'a': column gives 3 columns; expected 2, one for each of 'u' and 'v'."
