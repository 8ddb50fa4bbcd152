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


def test_where_scores_are_written_there_need_be_no_label() -> None:
    assert tree_faults(spec(data={}, predictions={}, carry_over="all")) == ()
    gates = [{"coverage": 0.9, "slices": "country"}]
    variants = [{"name": "a", "column": "p"}, {"name": "b", "column": "q"}]
    assert tree_faults(spec(data={"slices": ["country"]}, predictions={}, gates=gates, variants=variants)) == ()


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
        (
            {"carry_over": ["id"]},
            "carry_over: has no effect without predictions; give that (predictions: {}), or drop this.",
        ),
        (
            {"data": {"slices": ["country"]}, "predictions": {}},
            "data.slices: has no effect where nothing is measured; give a label, or drop this.",
        ),
        (
            {"data": {"cluster": "user"}, "predictions": {}},
            "data.cluster: has no effect where nothing is measured; give a label, or drop this.",
        ),
        (
            {"data": {}, "predictions": {"format": "iceberg"}},
            "predictions.to: is required by iceberg: the table, as catalog.namespace.table.",
        ),
        (
            {"data": {}, "predictions": {"partition_by": ["a", "b", "a"]}},
            "predictions.partition_by[2]: names the column 'a' twice; keep one.",
        ),
        (
            {"data": {}, "predictions": {}, "metrics": ["auc"]},
            "metrics: need a label, and there is none; give data.label, or drop them.",
        ),
        (
            {"data": {"classes": "auto"}, "predictions": {}},
            "data.classes: is auto, the values of the label, and there is no label; name them.",
        ),
        (
            {
                "data": {},
                "tasks": {"click": {"label": "c"}, "buy": {}},
                "predictions": {},
                "metrics": [{"metric": "auc", "task": "buy"}],
                "variants": [{"name": "a", "callable": "m:f"}],
            },
            "metrics[0].task: the task 'buy' has no label; give it one.",
        ),
        (
            {"predictions": {"names": "{varian}"}},
            "predictions.names: got {varian}; expected {variant} and {task} alone.",
        ),
        (
            {"predictions": {"names": "{"}},
            "predictions.names: got '{', which is no template (Single '{' encountered in format string); expected such "
            "as {variant}.{task}.",
        ),
        (
            {
                "predictions": {"names": "score"},
                "variants": [{"name": "a", "column": "p"}, {"name": "b", "column": "q"}],
            },
            "predictions.names: got 'score', so that columns would have one name; put {variant} into it.",
        ),
        (
            {
                "data": {},
                "tasks": TWO_TASKS,
                "predictions": {"top_k": {"k": 3, "group": "g"}},
                "variants": [{"name": "a", "callable": "m:f"}],
            },
            "predictions.top_k.task: is required, since there are 2 tasks: 'click' and 'buy'.",
        ),
        ({"decide": "any"}, "decide: has no effect without gates; give these, or drop this."),
        (
            {"on_error": "continue"},
            "on_error: has no effect: the baseline is the only variant, and must not fail; drop it.",
        ),
        (
            {"on_error": {"units": 0}, "variants": [{"name": "a", "column": "p"}, {"name": "b", "column": "q"}]},
            "on_error.units: is 0, which tolerates nothing: write on_error: stop.",
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


# ---- classes, labels, intervals, metrics of the spec's own


def column(columns: Any, **changes: Any) -> dict[str, Any]:
    return {"variants": [{"name": "a", "column": columns}], **changes}


@pytest.mark.parametrize(
    "changes",
    [
        data(classes="auto"),
        data(classes=[0, 1, 2]),
        {**column(["x", "y"]), "data": {"label": "y", "classes": ["a", "b"]}},
        {**column({"main": ["x", "y"]}), "data": {"label": "y", "classes": ["a", "b"]}},
        {**column("x", output={"is": "label"}), "data": {"label": "y", "classes": "auto"}},
        {"data": {"label": "tags", "labels": "auto"}},
        {"data": {"labels": {"a": "is_a", "b": "n > 1"}}},
        {**column(["x", "y"], output={"is": "label"}), "data": {"labels": {"a": "is_a", "b": "is_b"}}},
        column(["low", "high"], output={"is": "interval"}),
        {"metrics": [{"metric": "gain", "function": "my.module:gain", "columns": ["c"], "settings": {"k": 1}}]},
        {"tasks": {"one": {"label": "y", "classes": "auto"}, "two": {"labels": {"a": "b"}}}, "data": {},
         **column({"one": "p", "two": "q"})},
    ],
)  # fmt: skip
def test_sound_labels_and_outputs(changes: dict[str, Any]) -> None:
    assert tree_faults(spec(**changes)) == ()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            data(classes="auto", labels="auto"),
            "data.labels: got classes and labels; expected one of them.",
        ),
        (
            data(labels={"a": "b"}),
            "data.label: has no effect beside labels that name a column each; drop it.",
        ),
        (
            {"data": {"labels": ["a"]}},
            "data.label: is required: the column, or SQL expression, with the label.",
        ),
        (
            {"data": {}, "tasks": {"one": {"classes": "auto"}}},
            "tasks.one.label: is required: the column, or SQL expression, with the label.",
        ),
        (data(classes=["a"]), "data.classes: got ['a']; expected at least 2 classes, or auto."),
        (data(labels=[]), "data.labels: got []; expected at least 1 label, or auto."),
        ({"data": {"labels": {}}}, "data.labels: got []; expected at least 1 label, or auto."),
        (data(classes=["1", 2, 1]), "data.classes: names the class '1' twice; keep one."),
        (data(classes=[True, "true"]), "data.classes: names the class 'true' twice; keep one."),
        (data(labels=["a", "a"]), "data.labels: names the label 'a' twice; keep one."),
        (
            {"data": {"classes": "auto"}, "tasks": {"one": {"label": "y"}}},
            "data.classes: has no effect beside tasks, which name their own labels; drop it.",
        ),
        (
            {"output": {"is": "label"}},
            "output.is: is label, but the task has neither classes nor labels; give these, or say what the score is.",
        ),
        (
            {**data(classes="auto"), "output": {"is": "interval"}},
            "output.is: is interval, but the task has classes; expected probability, logit, score or label.",
        ),
        (
            {**data(labels="auto"), "variants": [{"name": "a", "column": "p", "output": {"is": "interval"}}]},
            "variants[0].output.is: is interval, but the task has labels; expected probability, logit, score or label.",
        ),
        (
            {
                "data": {},
                "tasks": {"one": {"label": "y", "classes": "auto"}, "two": {"label": "z"}},
                "variants": [{"name": "a", "column": {"one": "p", "two": "q"}, "output": {"is": "label"}}],
            },
            "variants[0].output.is: is label, but the task has neither classes nor labels; give these, or say what the "
            "score is. It is for task 'two'.",
        ),
        (
            column(["x", "y"]),
            "variants[0].column: got ['x', 'y']; expected one column, since the task has neither classes nor labels.",
        ),
        (
            column(["x", "y", "z"], output={"is": "interval"}),
            "variants[0].column: got 3 columns; an interval has two, lower and upper.",
        ),
        (
            {**column({"main": ["x", "y"]}, output={"is": "label"}), **data(classes="auto")},
            "variants[0].column.main: got ['x', 'y']; expected one column, since the output is the predicted class.",
        ),
        (
            {**column(["x", "y"]), "data": {}, "tasks": TWO_TASKS},
            "variants[0].column: got a list of 2 columns for 2 tasks; expected {click: ..., buy: ...}.",
        ),
        (
            {"metrics": [{"metric": "auc", "direction": "higher"}]},
            "metrics[0].direction: has no effect without function; give that, or drop this.",
        ),
        (
            {"metrics": ["auc", {"metric": "auc", "columns": ["x"]}]},
            "metrics[1].columns: has no effect without function; give that, or drop this.",
        ),
        (
            {"metrics": [{"metric": "auc", "settings": {"k": 1}}]},
            "metrics[0].settings: has no effect without function; give that, or drop this.",
        ),
        (
            {"metrics": [{"metric": "gain", "function": "my.module.gain"}]},
            "metrics[0].function: got 'my.module.gain'; expected \"module:function\".",
        ),
        (
            {"metrics": [{"metric": "my gain", "function": "m:f"}]},
            "metrics[0].metric: got 'my gain'; expected a name of letters, digits and _.",
        ),
    ],
)
def test_one_fault_of_labels_and_outputs(changes: dict[str, Any], fault: str) -> None:
    assert [str(one) for one in tree_faults(spec(**changes))] == [fault]


# ---- preparations ----------------------------------------------------------------------------------------------------

FEATURES = {"function": "features:tokens", "inputs": ["text"]}


def prepared(preparation: dict[str, Any] | None = None, **of_variant: Any) -> dict[str, Any]:
    """One variant with what is given, and a sound one."""
    variants = [{"name": "a", "callable": "m:f", "prepare": "features"}, {"name": "b", **of_variant}]
    return {
        "variants": variants if of_variant else variants[:1],
        "prepare": {"features": FEATURES | (preparation or {})},
    }


@pytest.mark.parametrize("receive", [None, "arguments"])
def test_a_sound_preparation_has_no_faults(receive: str | None) -> None:
    assert tree_faults(spec(**prepared(callable="m:f", prepare="features", receive=receive))) == ()
    torch = {"load": "m:f", "path": "w"}
    assert tree_faults(spec(**prepared(torch=torch, prepare="features", receive=receive))) == ()
    assert tree_faults(spec(**prepared({"tasks": 2, "num_cpus": 0.5, "resources": {"fast": 1}}))) == ()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            prepared(callable="m:f", prepare="faetures"),
            "variants[1].prepare: there is no preparation 'faetures'; did you mean 'features'?",
        ),
        (
            {"variants": [{"name": "a", "callable": "m:f", "prepare": "features"}]},
            "variants[0].prepare: there is no preparation 'features'; the spec has no prepare.",
        ),
        (
            {"prepare": {"features": FEATURES}},
            "prepare.features: has no effect, since no variant names it; say prepare: features in a variant, or drop "
            "it.",
        ),
        (
            prepared(callable="m:f", prepare="features", inputs=["x"]),
            "variants[1].inputs: has no effect beside prepare, which makes what the model receives; drop one.",
        ),
        (
            prepared(callable="m:f", prepare="features", receive="arrow"),
            "variants[1].receive: is arrow, but with prepare the model receives what that makes, as it is; say "
            "receive: arguments for the entries of a dict, or drop it.",
        ),
        (
            prepared(sklearn="m.joblib", trusted=True, prepare="features", receive="arguments"),
            "variants[1].receive: is arguments, but with prepare the model receives what that makes, as it is; drop "
            "it.",
        ),
        (
            prepared(column="p", prepare="features"),
            "variants[1].prepare: cannot go with column, which reads a score that is already in the data; drop it.",
        ),
        (
            prepared(lightgbm="m.txt", prepare="features"),
            "variants[1].prepare: cannot go with lightgbm, which takes the features that it recorded; drop it.",
        ),
        (
            prepared({"function": "features.py"}),
            "prepare.features.function: got 'features.py'; expected \"module:function\".",
        ),
        (prepared({"inputs": []}), "prepare.features.inputs: names no column; expected at least one."),
        (prepared({"inputs": {}}), "prepare.features.inputs: names no column; expected at least one."),
        (prepared({"inputs": ["x", "y", "x"]}), "prepare.features.inputs: names column 'x' twice; keep one."),
        (
            prepared({"num_cpus": 2}),
            "prepare.features.num_cpus: has no effect without tasks; give these, or drop this.",
        ),
        (
            prepared({"labels": {"market": "spot"}}),
            "prepare.features.labels: has no effect without tasks; give these, or drop this.",
        ),
    ],
)
def test_one_fault_of_a_preparation(changes: dict[str, Any], fault: str) -> None:
    assert [str(one) for one in tree_faults(spec(**changes))] == [fault]
