from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fakes.scores import score_all

from assay.errors import ModelError
from assay.models.callable import CallableModel
from assay.spec.model import OutputSpec, VariantSpec

WriteModule = Callable[[str, str], Path]
OUTPUTS = {"main": OutputSpec(kind="score")}
TABLE = pa.table({"age": [30, 40], "price": [1.5, None], "city": ["x", "y"]})
SOURCE = """
    import numpy as np

    def by_name(age, cost, bonus=0.0):
        return age + np.nan_to_num(cost) + bonus

    def by_two(age, price):
        return age + price

    def by_matrix(x):
        return x.sum(axis=1)

    def calls_by_name(x):
        return by_name(x)

    def by_dict(inputs, key):
        return inputs[key]

    def by_table(table):
        return table.column("town").to_pylist().__len__() * np.ones(table.num_rows)

    def by_frame(frame):
        return frame["town"].map({"x": 1.0, "y": 2.0})

    def too_short(x):
        return x[:1, 0]

    def fails(x):
        raise KeyError("missing")
    """


@pytest.fixture
def base(write_module: WriteModule, tmp_path: Path) -> Path:
    write_module("scoring", SOURCE)
    return tmp_path


def model(base: Path, **spec: Any) -> CallableModel:
    return CallableModel.from_spec(VariantSpec.model_validate({"name": "rule", **spec}), OUTPUTS, base)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"callable": "scoring:by_name", "inputs": {"age": "age", "cost": "price"}}, [31.5, 40.0]),
        (
            {
                "callable": {"function": "scoring:by_name", "settings": {"bonus": 1}},
                "inputs": {"age": "age", "cost": "price"},
            },
            [32.5, 41.0],
        ),
        ({"callable": "scoring:by_matrix", "inputs": ["price", "age"]}, [31.5, None]),
        (
            {
                "callable": {"function": "scoring:by_dict", "settings": {"key": "age"}},
                "inputs": ["age"],
                "receive": "dict",
            },
            [30.0, 40.0],
        ),
        ({"callable": "scoring:by_table", "inputs": {"town": "city"}, "receive": "arrow"}, [2.0, 2.0]),
        ({"callable": "scoring:by_frame", "inputs": {"town": "city"}, "receive": "pandas"}, [1.0, 2.0]),
    ],
)
def test_the_function_gets_its_inputs_as_asked(base: Path, spec: dict[str, Any], expected: list[float | None]) -> None:
    one = model(base, **spec)
    one.check(TABLE.schema)
    scores = score_all(one.load(), TABLE.select(one.columns))["main"]
    assert pa.array(scores, from_pandas=True).to_pylist() == expected


def test_a_pickled_model_scores_alike(base: Path) -> None:
    one = model(base, callable="scoring:by_matrix", inputs=["age"])
    assert score_all(pickle.loads(pickle.dumps(one)).load(), TABLE)["main"].tolist() == [30.0, 40.0]
    assert one.batch_rows == 1024


def test_a_column_that_is_not_there_is_refused(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(base, callable="scoring:by_matrix", inputs=["aeg"]).check(TABLE.schema)
    assert str(caught.value) == (
        "Variant 'rule': the model wants column 'aeg', which the data do not have; did you mean 'age'?"
    )


def test_a_function_that_fails_is_named(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        score_all(model(base, callable="scoring:fails", inputs=["age"]).load(), TABLE)
    said = "function 'scoring:fails' failed with KeyError: 'missing' (scoring.py, line 29)."
    assert caught.value.message == said


def test_a_function_of_several_arguments_that_gets_a_matrix_is_told_how_to_have_them(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        score_all(model(base, callable="scoring:by_two", inputs=["age", "price"]).load(), TABLE)
    assert caught.value.message == (
        "function 'scoring:by_two' failed with TypeError: by_two() missing 1 required positional argument: 'price'. "
        "It was given all inputs at once (receive: matrix); say receive: arguments to give it each as an argument."
    )


def test_a_setting_that_is_missing_is_no_matter_of_the_inputs(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        score_all(model(base, callable="scoring:by_dict", inputs=["age"], receive="dict").load(), TABLE)
    assert caught.value.message == (
        "function 'scoring:by_dict' failed with TypeError: by_dict() missing 1 required positional argument: 'key'."
    )


def test_a_function_that_calls_another_one_wrongly_gets_no_such_hint(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        score_all(model(base, callable="scoring:calls_by_name", inputs=["age", "price"]).load(), TABLE)
    assert caught.value.message == (
        "function 'scoring:calls_by_name' failed with TypeError: by_name() missing 1 required positional argument: "
        "'cost' (scoring.py, line 14)."
    )


def test_a_wrong_length_is_refused(base: Path) -> None:
    with pytest.raises(ModelError, match=r"^Variant 'rule': the model returned 1 score for 2 rows\.$"):
        score_all(model(base, callable="scoring:too_short", inputs=["age"]).load(), TABLE)


def test_an_argument_is_given_once(base: Path) -> None:
    with pytest.raises(ModelError, match=r"^Variant 'rule': 'age' is given by inputs and by settings; remove one\.$"):
        model(base, callable={"function": "scoring:by_name", "settings": {"age": 1}}, inputs={"age": "age"})


def test_the_fingerprint_covers_code_settings_inputs_and_outputs(base: Path, write_module: WriteModule) -> None:
    spec = {"callable": {"function": "scoring:by_name", "settings": {"bonus": 1}}, "inputs": {"age": "age"}}
    before = model(base, **spec).fingerprint
    assert model(base, **spec | {"name": "twin"}).fingerprint == before
    others = [
        spec | {"callable": {"function": "scoring:by_name", "settings": {"bonus": 2}}},
        spec | {"callable": {"function": "scoring:by_name", "settings": {"bonus": 1}, "files": ["scoring.py"]}},
        spec | {"inputs": {"age": "price"}},
        spec | {"inputs": {"age": ["age"]}},
        spec | {"receive": "dict"},
        spec | {"output": {"is": "logit"}},
    ]
    assert len({before, *(model(base, **other).fingerprint for other in others)}) == 7
    write_module("scoring", SOURCE + "\n    # changed\n")
    assert model(base, **spec).fingerprint != before


def test_the_fingerprint_covers_the_files_that_the_code_reads(base: Path) -> None:
    spec = {"callable": {"function": "scoring:by_name", "files": ["rates.json", "tables"]}, "inputs": {"age": "age"}}
    (base / "tables").mkdir()
    with pytest.raises(ModelError) as caught:
        _ = model(base, **spec).fingerprint
    assert str(caught.value) == f"Variant 'rule': there is no file or folder '{base}/rates.json'."

    prints = set()
    for name, text in (("rates.json", "1"), ("rates.json", "2"), ("tables/a.csv", "1")):
        (base / name).write_text(text)
        prints.add(model(base, **spec).fingerprint)
    assert len(prints) == 3
