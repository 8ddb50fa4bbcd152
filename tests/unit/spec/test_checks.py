from __future__ import annotations

from typing import Any

import pytest

from assay.errors import SpecError
from assay.spec.checks import check_names, dimension_names, tree_faults
from assay.spec.model import Spec

TWO_TASKS = {"click": {"label": "c"}, "buy": {"label": "b"}}


def spec(**changes: Any) -> Spec:
    given = {"data": {"label": "y"}, "variants": [{"name": "a", "column": "p"}], "baseline": "a", **changes}
    return Spec.model_validate(given)


def data(**changes: Any) -> dict[str, Any]:
    return {"data": {"label": "y", **changes}}


def variant(**changes: Any) -> dict[str, Any]:
    return {"variants": [{"name": "a", **changes}]}


def gate(**changes: Any) -> dict[str, Any]:
    return {"gates": [changes], "variants": [{"name": "a", "column": "p"}, {"name": "b", "column": "q"}]}


def test_a_sound_spec_has_no_faults() -> None:
    assert tree_faults(spec()) == ()


NOTHING_TO_JUDGE = "gates: have nothing to judge: the baseline is the only variant; add another."
ONE_RULE = "expected exactly one of 'margin', 'improve', 'harm', 'min', 'max', 'coverage' or 'same_rows'."
ONE_MODEL = "expected exactly one of 'column', 'callable', 'sklearn', 'lightgbm' or 'torch'."


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"data": {}}, "data.label: is required: the column, or SQL expression, with the label."),
        (data(path=[]), "data.path: is an empty list; expected at least one file, folder or glob."),
        (data(weight_max=2), "data.weight_max: has no effect without data.weight; give that, or drop this."),
        (data(slice_cap=5), "data.slice_cap: has no effect without data.slices; give these, or drop this."),
        ({"decide": "any"}, "decide: has no effect without gates; give these, or drop this."),
        (
            {"on_error": "continue"},
            "on_error: has no effect: the baseline is the only variant, and must not fail; drop it.",
        ),
        (
            data(slices=["c", {"c": "d"}]),
            "data.slices[1]: the dimension 'c' is given by data.slices[0] already; keep one.",
        ),
        (data(slices=[["c"]]), "data.slices[0]: a cross takes two or more different dimensions, got ['c']."),
        (data(slices=[["c", "c"]]), "data.slices[0]: a cross takes two or more different dimensions, got ['c', 'c']."),
        (data(slices=["overall"]), "data.slices[0]: the name 'overall' stands for all rows; give another."),
        (
            data(slices=[{"c": {"edges": [2, 1]}}]),
            "data.slices[0].c.edges: got [2.0, 1.0]; expected finite numbers, each larger than the last.",
        ),
        (
            data(slices=[{"c": {"edges": []}}]),
            "data.slices[0].c.edges: got []; expected finite numbers, each larger than the last.",
        ),
        (
            data(slices=[{"c": {"edges": [1, float("inf")]}}]),
            "data.slices[0].c.edges: got [1.0, inf]; expected finite numbers, each larger than the last.",
        ),
        (
            data(slices=[{"c": {"edges": [1], "quantiles": 4}}]),
            "data.slices[0].c: got edges and quantiles; expected one of them.",
        ),
        (
            {"tasks": {"click": {"label": "c"}}},
            "data.label: has no effect beside tasks, which name their own labels; drop it.",
        ),
        (
            {"data": {}, "tasks": {"click": {"label": "c"}}, "output": {"is": "logit"}},
            "output: has no effect beside tasks, which name their own output; move it into each task.",
        ),
        (variant(), f"variants[0]: no model given; {ONE_MODEL}"),
        (variant(column="p", lightgbm="m"), f"variants[0]: got column and lightgbm; {ONE_MODEL}"),
        (
            variant(torch={"path": "m", "load": "a:b", "factory": "a:b"}),
            "variants[0].torch: expected load or factory, got both.",
        ),
        (
            variant(column="p", inputs=["x"]),
            "variants[0].inputs: has no effect on a score that is already in the data; drop it.",
        ),
        (
            variant(column="p", output={"select": "ctr"}),
            "variants[0].output.select: has no effect on a score that is already in the data; drop it.",
        ),
        (
            variant(column="p", output={"main": {"select": 1}}),
            "variants[0].output.main.select: has no effect on a score that is already in the data; drop it.",
        ),
        (
            variant(column="p", trusted=True),
            "variants[0].trusted: has no effect on column, which loads no file that runs code; drop it.",
        ),
        (
            variant(torch={"path": "m.pt", "settings": {"width": 2}}, trusted=True),
            "variants[0].torch.settings: has no effect without load or factory; drop it.",
        ),
        (
            {"data": {}, "tasks": TWO_TASKS, **variant(column={"click": "p"})},
            "variants[0].column: names no column for task 'buy'; expected {click: ..., buy: ...}.",
        ),
        (
            {"data": {}, "tasks": TWO_TASKS},
            "variants[0].column: got one column for 2 tasks; expected {click: ..., buy: ...}.",
        ),
        (variant(column={"clik": "p"}), "variants[0].column: there is no task 'clik'; expected 'main'."),
        (
            {"data": {}, "tasks": TWO_TASKS, **variant(lightgbm="m", output={"clik": {"is": "logit"}})},
            "variants[0].output: there is no task 'clik'; did you mean 'click'?",
        ),
        ({"metrics": [{"metric": "auc", "task": "x"}]}, "metrics[0].task: there is no task 'x'; expected 'main'."),
        ({"gates": [{"metric": "auc", "min": 0.5}], "variants": [{"name": "a", "column": "p"}]}, NOTHING_TO_JUDGE),
        (gate(metric="auc"), f"gates[0]: no rule given; {ONE_RULE}"),
        (gate(metric="auc", min=0, max=1), f"gates[0]: got min and max; {ONE_RULE}"),
        (gate(min=0), "gates[0].metric: is required by min."),
        (
            gate(metric="auc", coverage=0.5),
            "gates[0].metric: has no effect beside coverage, which looks at rows; drop it.",
        ),
        (gate(metric="auc", task="x", min=0), "gates[0].task: there is no task 'x'; expected 'main'."),
        (
            gate(metric="auc", margin=-0.1),
            'gates[0].margin: got -0.1; expected a number of 0 or more, or a share such as "0.1%".',
        ),
        (
            gate(metric="auc", margin="1e400"),
            "gates[0].margin: got '1e400'; expected a number of 0 or more, or a share such as \"0.1%\".",
        ),
        (
            gate(metric="auc", improve="1 percent"),
            "gates[0].improve: got '1 percent'; expected a number of 0 or more, or a share such as \"0.1%\".",
        ),
        (gate(metric="auc", max=float("inf")), "gates[0].max: got inf; expected a finite number."),
        (gate(metric="auc", min=float("nan")), "gates[0].min: got nan; expected a finite number."),
        (
            {**data(slices=["country"]), **gate(same_rows=True, slices="country")},
            "gates[0].slices: has no effect beside same_rows, which compares all rows at once; drop it.",
        ),
        (
            {"baseline": None, **gate(metric="auc", harm=True)},
            "gates[0].harm: compares with the baseline, and none is named; give baseline.",
        ),
        (
            {**data(slices=["country"]), **gate(metric="auc", harm=True, slices="contry")},
            "gates[0].slices: 'contry' is no dimension of data.slices; did you mean 'country'?",
        ),
        ({"baseline": "A1"}, "baseline: there is no variant 'A1'; did you mean 'a'?"),
        (
            {"variants": [{"name": "a", "column": "p"}, {"name": "a", "column": "q"}]},
            "variants[1].name: the name 'a' is taken by variants[0]; give another.",
        ),
    ],
)
def test_one_fault(changes: dict[str, Any], fault: str) -> None:
    assert [str(one) for one in tree_faults(spec(**changes))] == [fault]


@pytest.mark.parametrize("amount", [0, 0.001, "0.001", "0.1%", "5 %", "1e-3", ".5%"])
def test_amounts(amount: float | str) -> None:
    assert tree_faults(spec(**gate(metric="auc", margin=amount))) == ()


def test_a_whole_torch_module_needs_neither_load_nor_factory() -> None:
    assert tree_faults(spec(**variant(torch={"path": "m.pt"}, inputs=["x"], trusted=True))) == ()


def test_crosses_and_expressions_are_dimensions_of_gates() -> None:
    slices = ["country", ["country", "device"], {"day": "date_trunc('day', ts)"}]
    changes = {**data(slices=slices), **gate(metric="auc", harm=True, slices=["country,device", "day"])}
    assert tree_faults(spec(**changes)) == ()


def test_names_wait_for_templates() -> None:
    waiting = spec(variants=[{"name": "s-{trial}", "column": "p_{trial}"}], baseline="s-1")
    assert tree_faults(waiting) == ()
    with pytest.raises(SpecError, match=r"^baseline: there is no variant 's-1'; expected 's-\{trial\}'\.$"):
        check_names(waiting)


def test_names_of_dimensions() -> None:
    given = spec(**data(slices=["a", ["a", "b"], {"c": "x", "d": "y"}])).data.slices
    assert [dimension_names(one) for one in given] == [("a",), ("a,b",), ("c", "d")]
