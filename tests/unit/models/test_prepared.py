"""Models receive what a preparation makes, as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LinearRegression

from assay.errors import ModelError
from assay.models.callable import CallableModel
from assay.models.prepared import PreparedInputs
from assay.models.sklearn import SklearnModel
from assay.models.torch import TorchModel, placed
from assay.spec.model import OutputSpec, VariantSpec

WriteModule = Callable[[str, str], Path]
OUTPUTS = {"main": OutputSpec(kind="score")}
SOURCE = """
    import torch

    def total(made, bonus=0.0):
        return made["x"] + bonus

    def by_name(x, y, bonus=0.0):
        return x + y + bonus

    def takes_out(made):
        return made.pop("x")

    class Sum(torch.nn.Module):
        def forward(self, x, y):
            assert x.dtype == torch.float32 and y.dtype == torch.int64
            return x.add_(y)

    class Seen(torch.nn.Module):
        def forward(self, made):
            raise TypeError(kinds(made))

    def kinds(made):
        if isinstance(made, dict):
            return {name: kinds(one) for name, one in made.items()}
        return str(made.dtype) if isinstance(made, torch.Tensor) else type(made).__name__

    def sums(path):
        return Sum()

    def seen(path):
        return Seen()
    """


@dataclass(frozen=True)
class Tokens:
    """A preparation, as models see it."""

    name: str = "tokens"
    columns: tuple[str, ...] = ("text",)
    fingerprint: str = "f"
    batch_rows: int = 8
    apart: bool = False

    def check(self, schema: pa.Schema) -> None: ...

    def load(self) -> Callable[[pa.Table], object]:
        return lambda table: table


@pytest.fixture
def base(write_module: WriteModule, tmp_path: Path) -> Path:
    write_module("scoring", SOURCE)
    (tmp_path / "weights").touch()
    return tmp_path


def variant(**spec: Any) -> VariantSpec:
    return VariantSpec.model_validate({"name": "a", "prepare": "tokens", **spec})


def function(base: Path, name: str, made_by: Tokens = Tokens(), **spec: Any) -> CallableModel:
    settings = spec.pop("settings", {})
    of = variant(callable={"function": f"scoring:{name}", "settings": settings}, **spec)
    return CallableModel.from_spec(of, OUTPUTS, base, made_by)


def module(base: Path, name: str, made_by: Tokens = Tokens(), **spec: Any) -> TorchModel:
    of = variant(torch={"load": f"scoring:{name}", "path": "weights", **spec.pop("torch", {})}, **spec)
    return TorchModel.from_spec(of, OUTPUTS, base, made_by)


def frozen(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def made() -> dict[str, np.ndarray]:
    return {"x": frozen(np.array([0.5, 1.5])), "y": frozen(np.array([1, 2], np.int32))}


def scored(model: Any, given: object, rows: int = 2) -> list[float]:
    scores: Mapping[str, np.ndarray] = model.load().score(given, slice(0, rows))
    return scores["main"].tolist()


def test_it_reads_what_the_preparation_reads_and_is_called_as_that_is(base: Path) -> None:
    for model in (function(base, "total"), module(base, "sums")):
        assert model.columns == ("text",)
        assert model.load().preparation == ("prepare", "tokens")


def test_a_function_gets_the_object_or_its_entries(base: Path) -> None:
    assert scored(function(base, "total", settings={"bonus": 1.0}), made()) == [1.5, 2.5]
    by_name = function(base, "by_name", receive="arguments", settings={"bonus": 1.0})
    assert scored(by_name, made()) == [2.5, 4.5]
    shared = made()
    assert scored(function(base, "takes_out"), shared) == [0.5, 1.5]
    assert list(shared) == ["x", "y"]


def test_a_module_gets_tensors_of_its_own(base: Path) -> None:
    shared = made()
    for _ in range(2):  # it changes x in place
        assert scored(module(base, "sums", receive="arguments"), shared) == [1.5, 3.5]
    assert shared["x"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        (np.zeros(2), "torch.float32"),
        (np.zeros((2, 3), np.float16), "torch.float32"),
        (np.zeros(2, np.uint8), "torch.int64"),
        (np.zeros(2, np.bool_), "torch.bool"),
        (torch.zeros(2, dtype=torch.float64), "torch.float64"),
        (
            {"a": np.zeros(2), "b": torch.zeros(2, dtype=torch.int32), "c": np.array(["x", "y"], object), "d": [1, 2]},
            "{'a': 'torch.float32', 'b': 'torch.int32', 'c': 'ndarray', 'd': 'list'}",
        ),
        ((np.zeros(2), 1), "tuple"),
        (pa.table({"x": [1, 2]}), "Table"),
    ],
)
def test_a_module_gets_the_object_as_it_is_but_for_arrays_of_numbers(base: Path, given: object, kinds: str) -> None:
    with pytest.raises(ModelError) as caught:
        scored(module(base, "seen"), given)
    assert caught.value.message == f"forward failed with TypeError: {kinds} (scoring.py, line 20)."


def test_an_estimator_gets_it_as_its_features(tmp_path: Path) -> None:
    joblib.dump(LinearRegression().fit(np.array([[1.0], [2.0], [3.0]]), [2.0, 4.0, 6.0]), tmp_path / "m.joblib")
    of = variant(sklearn="m.joblib", trusted=True)
    model = SklearnModel.from_spec(of, OUTPUTS, tmp_path, Tokens())
    assert model.columns == ("text",)
    assert scored(model, frozen(np.array([[5.0], [7.0]]))) == pytest.approx([10.0, 14.0])
    alone = SklearnModel.from_spec(
        VariantSpec.model_validate({"name": "a", "sklearn": "m.joblib", "inputs": ["x"], "trusted": True}),
        OUTPUTS,
        tmp_path,
    )
    other = SklearnModel.from_spec(of, OUTPUTS, tmp_path, Tokens(fingerprint="g"))
    assert len({model.fingerprint, alone.fingerprint, other.fingerprint}) == 3


def test_the_rows_that_come_back_are_counted(base: Path) -> None:
    with pytest.raises(ModelError, match=r"^Variant 'a': the model returned 2 scores for 3 rows\.$"):
        scored(function(base, "total"), made(), rows=3)


def test_the_fingerprint_covers_the_preparations(base: Path) -> None:
    for make, name in ((function, "total"), (module, "sums")):
        prints = [
            make(base, name).fingerprint,
            make(base, name, Tokens(fingerprint="g")).fingerprint,
            make(base, name, receive="arguments").fingerprint,
        ]
        assert len(set(prints)) == 3
        assert make(base, name, Tokens(name="other")).fingerprint == prints[0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            [1, 2],
            "preparation 'tokens' made a list; receive: arguments takes a dict. Drop receive, to get the object as it "
            "is.",
        ),
        ({1: 2}, "preparation 'tokens' made a dict with the key 1; receive: arguments takes names only."),
        ({"bonus": 2}, "'bonus' is given by preparation 'tokens' and by settings; remove one."),
    ],
)
def test_what_cannot_be_arguments_is_refused(base: Path, given: object, sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        scored(function(base, "by_name", receive="arguments", settings={"bonus": 1.0}), given)
    assert caught.value.message == sentence


def test_another_form_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        PreparedInputs("a", Tokens(), "matrix")
    assert caught.value.message == (
        "receive is 'matrix', but the model receives what preparation 'tokens' makes; say receive: arguments for the "
        "entries of a dict, or drop it."
    )


# ---- devices


def test_a_device_that_is_not_there_is_told_when_it_is_loaded(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = module(base, "sums", torch={"device": "cuda"})
    with pytest.raises(ModelError) as caught:
        model.load()
    assert caught.value.message == (
        "its device is cuda, but torch finds no CUDA device in this process; say device: cpu, give each worker a GPU "
        "(workers: {num_gpus: 1}), or install a torch that is built for CUDA."
    )
    assert model.fingerprint != module(base, "sums").fingerprint
    assert module(base, "sums", torch={"device": "cpu"}).fingerprint == module(base, "sums").fingerprint


def test_all_that_can_be_moved_goes_to_the_device() -> None:
    class Jagged:
        def to(self, device: torch.device) -> str:
            return f"on {device}"

    given = {"x": torch.zeros(2), "y": [torch.ones(1), 3], "z": (Jagged(), "text")}
    moved = placed(given, torch.device("meta"))
    assert moved["x"].device.type == moved["y"][0].device.type == "meta"
    assert (moved["y"][1], moved["z"]) == (3, ("on meta", "text"))
    here = placed(given, torch.device("cpu"))
    assert here["x"] is given["x"]
    assert here["z"] == given["z"]
