from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from assay.errors import SpecError
from assay.spec.load import build_spec, json_schema, load_spec, spec_to_yaml
from assay.spec.model import PredictionsSpec, Spec

ROOT = Path(__file__).parents[3]

FULL = """
data:
  path: ${ROOT}/requests/
  weight: w
  cluster: user_id
  time: ts
  slices: [country, [country, device], {day: "date_trunc('day', ts)"}, {price: {edges: [1, 10]}}]
  where: "surface = 'home'"
tasks:
  click: {label: clicked, output: {select: ctr, is: logit}}
  buy: {label: bought, where: "clicked = 1", output: {select: cvr, is: logit}}
variants:
  - {name: served, column: {click: p_ctr, buy: p_cvr}}
  - name: prod
    torch: {load: "ranker.load:from_dir", path: models/prod/}
    inputs: {dense: [age, price], country: country}
  - {name: "sweep-{trial}", torch: {load: "ranker.load:from_dir", path: "models/sweep/{trial}/"}}
  - {name: gbdt, lightgbm: models/gbdt.txt, output: {is: probability}}
baseline: prod
metrics: [auc, log_loss, {metric: ece, task: buy}]
gates: [{metric: log_loss, margin: 1e-3}, {metric: auc, slices: country, harm: true}, {coverage: 0.99}]
"""


def file(folder: Path, text: str) -> Path:
    path = folder / "eval.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def tree(**changes: Any) -> dict[str, Any]:
    return {"data": {"label": "y"}, "variants": [{"name": "a", "column": "p"}], **changes}


def told(tree: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        build_spec(tree)
    return [str(fault) for fault in caught.value.faults]


# ---- what is read


def test_a_full_spec_is_read(tmp_path: Path) -> None:
    spec = load_spec(file(tmp_path, FULL), ["seed=3", "budget.exact_rows=0"], {"ROOT": "/d"})
    assert spec.data.path == "/d/requests/"
    assert spec.data.slices[1] == ("country", "device")
    assert spec.tasks["buy"].output.kind == "logit"
    assert spec.variants[1].inputs == {"dense": ("age", "price"), "country": "country"}
    assert spec.gates[0].margin == 0.001
    assert (spec.seed, spec.budget.exact_rows) == (3, 0)


def test_a_spec_written_is_read_back_equal(tmp_path: Path) -> None:
    spec = load_spec(file(tmp_path, FULL), environ={"ROOT": "/d"})
    assert load_spec(file(tmp_path, spec_to_yaml(spec)), environ={}) == spec


def test_only_what_was_asked_is_written() -> None:
    spec = build_spec(tree(output={"is": "probability"}))
    assert spec_to_yaml(spec) == ("data:\n  label: y\noutput:\n  is: probability\nvariants:\n- name: a\n  column: p\n")


def test_text_with_a_dollar_is_written_so_that_it_stays(tmp_path: Path) -> None:
    spec = build_spec(tree(data={"label": "y", "path": "a/${HOME}"}))
    assert load_spec(file(tmp_path, spec_to_yaml(spec)), environ={"HOME": "x"}).data.path == "a/${HOME}"


def test_overrides_reach_a_tree() -> None:
    assert build_spec(tree(), ["data.label=z"]).data.label == "z"


# ---- what is wrong with a file


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path, overrides, {})
    return str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    file(tmp_path, "")
    wrong = tmp_path / "evil.yaml"
    assert refusal(wrong) == f"there is no spec file {wrong}; did you mean {tmp_path / 'eval.yaml'}?"
    assert refusal(tmp_path / "no" / "x.yaml") == f"there is no spec file {tmp_path / 'no' / 'x.yaml'}; check the path."


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(path).startswith(f"the spec file {path} cannot be read: 'utf-8' codec")


def test_an_empty_file(tmp_path: Path) -> None:
    path = file(tmp_path, "# nothing\n")
    assert refusal(path) == f"the file {path} is empty; expected data and variants."


def test_a_file_that_is_no_mapping(tmp_path: Path) -> None:
    assert refusal(file(tmp_path, "- 3")) == "got [3]; expected a mapping."


def test_a_file_names_its_data(tmp_path: Path) -> None:
    path = file(tmp_path, "data: {label: y}\nvariants: [{name: a, column: p}]")
    assert refusal(path) == "data.path: is required: the file, folder or glob to evaluate on."


def test_faults_of_every_sort_are_told_at_once(tmp_path: Path) -> None:
    text = """
data: {path: "${GONE}", label: y, slices: [{age: {edgs: [1]}}]}
variants:
  - {name: a, column: p}
  - {name: a, sklearn: {pth: x}}
metrics: [auc]
metrics: [auc]
baseline: b
"""
    assert refusal(file(tmp_path, text), "seed=-1", "data.path.x=1").splitlines() == [
        "metrics: the key is given twice, on line 6 and on line 7; keep one.",
        "data.path: the environment variable 'GONE' is not set; set it, or write ${GONE:-default}.",
        "data.path.x: data.path is '', not a mapping; it has no key 'x'.",
        "data.slices[0].age.edgs: unknown key 'edgs'; did you mean 'edges'?",
        "variants[1].sklearn.pth: unknown key 'pth'; did you mean 'path'?",
        "seed: got -1; expected at least 0.",
    ]


# ---- what is wrong with keys and values


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"workers": {"num_cpus": float("inf")}}, ["workers.num_cpus: got inf; expected a finite number."]),
        ({"workers": {"num_gpus": float("nan")}}, ["workers.num_gpus: got nan; expected a finite number."]),
        (
            {"execution": {"unit_seconds": float("inf")}},
            ["execution.unit_seconds: got inf; expected a finite number."],
        ),
        ({"execution": {"unit_seconds": True}}, ["execution.unit_seconds: got true; expected a number."]),
        ({"execution": {"unit_seconds": 0}}, ["execution.unit_seconds: got 0; expected more than 0.0."]),
        ({"metrcs": []}, ["metrcs: unknown key 'metrcs'; did you mean 'metrics'?"]),
        (
            {"zzz": 1},
            [
                "zzz: unknown key 'zzz'; expected 'data', 'tasks', 'output', 'variants', 'prepare', 'baseline', "
                "'metrics', 'gates', 'confirm', 'recalibrate', 'decide', 'on_error' or one of 7 more.",
            ],
        ),
        ({"data": 3}, ["data: got 3; expected a mapping."]),
        ({"data": "x"}, ["data: got 'x'; expected a mapping."]),
        ({"output": "none"}, ["output: got 'none'; expected a mapping: {is: none}."]),
        (
            {"variants": [{"name": "a", "callable": "m:f", "outputs": {"v": "list<float32>[3]"}}]},
            ["""variants[0].outputs.v: got 'list<float32>[3]'; expected a mapping: {type: "list<float32>[3]"}."""],
        ),
        (
            {"variants": [{"name": "a", "column": "p", "output": "logit"}]},
            ["variants[0].output: got 'logit'; expected a mapping: {is: logit}."],
        ),
        (
            {"data": {"path": "d"}, "tasks": {"click": {"label": "y", "output": "score"}}},
            ["tasks.click.output: got 'score'; expected a mapping: {is: score}."],
        ),
        ({"data": {"label": 3}}, ["data.label: got 3; expected text."]),
        ({"data": {"label": "y", "slices": [7]}}, ["data.slices[0]: got 7; expected text, a list or a mapping."]),
        ({"data": {"label": "y", "slices": [["a", 2]]}}, ["data.slices[0][1]: got 2; expected text."]),
        ({"data": {"label": "y", "slices": [{"z": 5}]}}, ["data.slices[0].z: got 5; expected text or a mapping."]),
        ({"data": {"label": "y", "slice_cap": 0}}, ["data.slice_cap: got 0; expected at least 1."]),
        ({"variants": []}, ["variants: is empty."]),
        ({"variants": [{"column": "p"}]}, ["variants[0].name: is required, and not given."]),
        ({"variants": [{"name": "", "column": "p"}]}, ["variants[0].name: is empty."]),
        (
            {"variants": [{"name": "a", "sklearn": {"pth": "x"}}]},
            [
                "variants[0].sklearn.pth: unknown key 'pth'; did you mean 'path'?",
            ],
        ),
        (
            {"variants": [{"name": "a", "column": "p", "output": {"iz": "logit"}}]},
            [
                "variants[0].output.iz: unknown key 'iz'; expected 'is' or 'select'.",
            ],
        ),
        (
            {"variants": [{"name": "a", "column": "p", "output": {"main": {"is": "logt"}}}]},
            [
                "variants[0].output.main.is: got 'logt'; did you mean 'logit'?",
            ],
        ),
        (
            {"variants": [{"name": "a", "callable": {"function": "m:f", "settings": {"k": [1]}}}]},
            [
                "variants[0].callable.settings.k: got [1]; expected text, a whole number, a number or true or false.",
            ],
        ),
        ({"metrics": [4]}, ["metrics[0]: got 4; expected text or a mapping."]),
        ({"metrics": [{"metrc": "auc"}]}, ["metrics[0].metrc: unknown key 'metrc'; did you mean 'metric'?"]),
        ({"gates": [{"coverage": 3}]}, ["gates[0].coverage: got 3; expected at most 1.0."]),
        ({"gates": [{"metric": "auc", "min": "a"}]}, ["gates[0].min: got 'a'; expected a number."]),
        ({"gates": [{"metric": "auc", "harm": False}]}, ["gates[0].harm: got false; expected true."]),
        ({"gates": [{"metric": "auc", "margin": True}]}, ["gates[0].margin: got true; expected a number."]),
        ({"gates": [{"metric": "auc", "max": True}]}, ["gates[0].max: got true; expected a number."]),
        ({"gates": [{"coverage": True}]}, ["gates[0].coverage: got true; expected a number."]),
        ({"confirm": {"keep": True}}, ["confirm.keep: got true; expected a number."]),
        (
            {"data": {"label": "y", "weight": "w", "weight_max": True}},
            ["data.weight_max: got true; expected a number."],
        ),
        ({"confirm": True}, ["confirm: got true; expected a number."]),
        ({"confirm": {"fraction": True}}, ["confirm.fraction: got true; expected a number."]),
        ({"confirm": 1}, ["confirm: got 1; expected less than 1.0."]),
        ({"data": {"label": "y", "classes": 3}}, ["data.classes: got 3; expected 'auto' or a list."]),
        (
            {"data": {"label": "y", "cluster": ["u", "d", "g"]}},
            ["data.cluster: got ['u', 'd', 'g']; expected at most 2."],
        ),
        ({"data": {"label": "y", "cluster": ["u"]}}, ["data.cluster[1]: is missing from the list."]),
        (
            {"data": {"label": "y", "cluster": ["u", "u"]}},
            ["data.cluster: names 'u' twice; expected two different ones, or one alone."],
        ),
        ({"decide": "some"}, ["decide: got 'some'; expected 'all' or 'any'."]),
        ({"tasks": {1: {"label": "y"}}}, ["tasks[1]: the key 1 is not text; quote it."]),
        ({"seed": 1.5}, ["seed: got 1.5; expected a whole number."]),
        ({"prices": 5}, ["prices: got 5; expected a mapping."]),
        ({"prices": {"default": -1}}, ["prices.default: got -1; expected at least 0.0."]),
        ({"prices": {"default": True}}, ["prices.default: got true; expected a number."]),
        ({"prices": {"big": {"spot": 1.1}}}, ["prices.big.on_demand: is required, and not given."]),
        (
            {"prices": {"big": {"on_demnd": 3.06}}},
            ["prices.big.on_demnd: unknown key 'on_demnd'; did you mean 'on_demand'?"],
        ),
        ({"prices": {"big": "cheap"}}, ["prices.big: got 'cheap'; expected a number."]),
        (
            {"workers": {"resources": {"CPU": 1}}},
            ["workers.resources.CPU: is no custom resource of Ray; say num_cpus."],
        ),
        ({"workers": {"resources": {"tpu": -1}}}, ["workers.resources.tpu: got -1; expected more than 0.0."]),
        (
            {"workers": {"resources": {"tpu": float("nan")}}},
            ["workers.resources.tpu: got nan; expected a finite number."],
        ),
        (
            {"prices": {"currency": "USD"}},
            ["prices: has no price; expected default, or a type of node, such as {default: 1.20}."],
        ),
    ],
)
def test_keys_and_values(changes: dict[str, Any], faults: list[str]) -> None:
    assert told(tree(**changes)) == faults


def test_a_fault_that_may_follow_from_another_waits() -> None:
    assert told(tree(data={"lable": "y"}, baseline="a", seed=-1)) == [
        "data.lable: unknown key 'lable'; did you mean 'label'?",
        "seed: got -1; expected at least 0.",
    ]


def test_a_fault_elsewhere_is_told_too() -> None:
    changes = {"variants": [{"name": "a", "column": "p", "trused": True}], "data": {"label": "y", "slices": ["c", "c"]}}
    assert told(tree(**changes)) == [
        "variants[0].trused: unknown key 'trused'; did you mean 'trusted'?",
        "data.slices[1]: the dimension 'c' is given by data.slices[0] already; keep one.",
    ]


@pytest.mark.parametrize(
    ("said", "meant"), [("all", "all"), ("k*", ("k*",)), (["k*", "id"], ("k*", "id")), (["all"], ("all",)), ([], ())]
)
def test_one_column_needs_no_list(said: object, meant: object, tmp_path: Path) -> None:
    changes = {"carry_over": said, "predictions": {}, "data": {"label": "y", "path": "x"}}
    spec = build_spec(tree(**changes))
    assert spec.carry_over == meant
    assert load_spec(file(tmp_path, spec_to_yaml(spec)), environ={}) == spec
    jsonschema.validate(json.loads(json.dumps(tree(**changes))), json_schema())


def test_one_partition_needs_no_list() -> None:
    spec = build_spec(tree(predictions={"partition_by": "country"}))
    assert spec.predictions is not None
    assert spec.predictions.partition_by == ("country",)


@pytest.mark.parametrize("said", [5, {"id": 1}, True])
def test_what_carry_over_may_be(said: object) -> None:
    shown = {True: "true"}.get(said is True, repr(said))
    assert told(tree(carry_over=said, predictions={})) == [f"carry_over: got {shown}; expected 'all' or a list."]


def test_a_text_in_the_place_of_a_list_says_how_it_is_written() -> None:
    assert told(tree(metrics="auc")) == ["metrics: got 'auc'; expected a list: [auc]."]


def test_data_in_the_place_of_a_spec(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("a,b\n1,2\n")
    for place in (table, tmp_path):
        with pytest.raises(SpecError) as caught:
            load_spec(place)
        assert str(caught.value) == (
            f"{place} is no spec: a spec is a YAML file (.yaml or .yml) that names the data, as in data: "
            f"{{path: {place}}}, and the variants."
        )


# ---- the schema


def test_prices_survive_the_round_trip(tmp_path: Path) -> None:
    prices = {"default": 1.2, "currency": "USD", "p3.2xlarge": {"on_demand": 3.06, "spot": 1.1}, "small": 0.5}
    spec = build_spec(tree(prices=prices, data={"path": "x", "label": "y"}))
    assert spec.prices is not None
    assert spec.prices.node_types == ("p3.2xlarge", "small")
    assert load_spec(file(tmp_path, spec_to_yaml(spec)), environ={}).prices == spec.prices


def test_the_published_schema_is_current() -> None:
    published = json.loads((ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8"))
    assert published == json_schema(), "run `make docs`"


def test_the_schema_accepts_what_a_user_writes(tmp_path: Path) -> None:
    spec = load_spec(file(tmp_path, FULL), environ={"ROOT": "/d"})
    written = json.loads(spec.model_dump_json(by_alias=True, exclude_defaults=True))
    jsonschema.validate(written, json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "metrcs": []}, json_schema())


def test_every_field_of_the_spec_itself_is_described_or_named_by_its_type() -> None:
    assert set(json_schema()["properties"]) == {field.alias or name for name, field in Spec.model_fields.items()}


def test_a_spec_that_says_nothing_of_predictions_has_them_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "predict.yaml"
    file.write_text("data: {path: rows}\nvariants: [{name: a, column: p}]\n")
    assert load_spec(file, predicting=True).predictions == PredictionsSpec()
    with pytest.raises(SpecError, match=r"data\.label: is required"):
        load_spec(file)
    file.write_text("data: {path: rows}\nvariants: [{name: a, column: p}]\npredictions: {provenance: true}\n")
    assert load_spec(file, predicting=True).predictions == PredictionsSpec(provenance=True)
