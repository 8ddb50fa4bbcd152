from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from fakes.scores import score_all
from safetensors.torch import save_file

from assay.errors import ModelError
from assay.models.outputs import TaskOutput
from assay.models.torch import TorchModel
from assay.protocols import ThreadedModel
from assay.spec.model import OutputSpec, VariantSpec

WriteModule = Callable[[str, str], Path]
TABLE = pa.table(
    {
        "age": pa.array([30, 40], pa.int32()),
        "price": pa.array([1.5, 2.5], pa.float64()),
        "country": pa.array([2, 0], pa.uint8()),
        "city": ["x", "y"],
        "sure": [True, False],
    }
)
SOURCE = """
    import json
    from pathlib import Path

    import torch

    class Ranker(torch.nn.Module):
        def __init__(self, width=2):
            super().__init__()
            self.embed = torch.nn.Embedding(3, 1)
            self.linear = torch.nn.Linear(width, 1)
            self.drop = torch.nn.Dropout(0.5)
            with torch.no_grad():
                self.embed.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
                self.linear.weight.fill_(0.5)
                self.linear.bias.fill_(0.25)

        def forward(self, dense, country):
            assert not torch.is_grad_enabled()
            ctr = self.linear(self.drop(dense)) + self.embed(country)
            return {"ctr": ctr, "half": ctr[:, 0].to(torch.bfloat16), "double": ctr[:, 0].double() / 3}

    class Seen(torch.nn.Module):
        def forward(self, inputs):
            kinds = {k: str(v.dtype) for k, v in inputs.items()} if isinstance(inputs, dict) else str(inputs.dtype)
            raise TypeError(kinds)

    class Text(torch.nn.Module):
        def forward(self, table):
            return torch.tensor([float(len(town)) for town in table.column("town").to_pylist()])

    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.sum(dim=1), x[:, :1]

    class Heads(torch.nn.Module):
        def forward(self, x):
            three = torch.stack([x[:, 0], x[:, 1], x[:, 0] - x[:, 1]], dim=1)
            return {"kind": three, "best": three.argmax(dim=1), "range": (x[:, 1], x[:, 0])}

    def heads(path):
        return Heads()

    def from_dir(path, scale=1.0):
        ranker = Ranker()
        bias = json.loads((Path(path) / "bias.json").read_text())
        with torch.no_grad():
            ranker.linear.bias.fill_(bias * scale)
        return ranker

    def seen(path):
        return Seen()

    def text(path):
        return Text()

    def total(path):
        return Sum()

    def nothing(path):
        return None
    """
INPUTS = {"dense": ["age", "price"], "country": "country"}
# 0.5 * (age + price) + 0.25 + (country + 1)
EXPECTED = [0.5 * 31.5 + 0.25 + 3, 0.5 * 42.5 + 0.25 + 1]


@pytest.fixture
def base(write_module: WriteModule, tmp_path: Path) -> Path:
    write_module("ranker", SOURCE)
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "bias.json").write_text("0.25")
    return tmp_path


@pytest.fixture
def weights(base: Path) -> dict[str, torch.Tensor]:
    """A state dict whose scores are EXPECTED + 1."""
    sys.path.append(str(base))
    __import__("ranker")
    state = sys.modules["ranker"].Ranker().state_dict()
    return {name: tensor + (name == "linear.bias") for name, tensor in state.items()}


def model(base: Path, torch_spec: dict[str, Any], select: str | int | None = "ctr", **spec: Any) -> TorchModel:
    spec = {"name": "prod", "torch": torch_spec, "inputs": INPUTS, **spec}
    outputs = {"main": OutputSpec(kind="logit", select=select)}
    return TorchModel.from_spec(VariantSpec.model_validate(spec), outputs, base)


def scores(one: TorchModel) -> np.ndarray[Any, np.dtype[Any]]:
    one.check(TABLE.schema)
    return np.asarray(score_all(one.load(), TABLE.select(one.columns))["main"])


LOAD = {"load": "ranker:from_dir", "path": "prod/"}


# ---- where the module comes from


def test_a_module_from_a_function_of_the_path(base: Path) -> None:
    got = scores(model(base, LOAD))
    assert got.dtype == np.float32
    assert got.tolist() == EXPECTED
    assert scores(model(base, LOAD | {"settings": {"scale": 5.0}})).tolist() == [value + 1 for value in EXPECTED]


def test_a_module_from_a_factory_and_safetensors(base: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, base / "w.safetensors")
    got = scores(model(base, {"factory": "ranker:Ranker", "path": "w.safetensors"}))
    assert got.tolist() == [value + 1 for value in EXPECTED]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_module_from_a_factory_and_a_state_dict(base: Path, weights: dict[str, torch.Tensor], zipped: bool) -> None:
    torch.save(weights, base / "w.pt", _use_new_zipfile_serialization=zipped)
    got = scores(model(base, {"factory": "ranker:Ranker", "path": "w.pt", "settings": {"width": 2}}))
    assert got.tolist() == [value + 1 for value in EXPECTED]


def test_a_pickled_module_is_loaded_when_trusted(base: Path, weights: dict[str, torch.Tensor]) -> None:
    torch.save(sys.modules["ranker"].Ranker(), base / "whole.pt")
    assert scores(model(base, {"path": "whole.pt"}, trusted=True)).tolist() == EXPECTED
    factory = {"factory": "ranker:Ranker", "path": "whole.pt"}
    assert scores(model(base, factory, trusted=True)).tolist() == EXPECTED


REFUSAL = (
    "Variant 'prod': 'whole.pt' is a pickled torch file, and loading one runs whatever code is in it; save a state "
    "dict with safetensors and name its factory, or, if you trust the one who wrote it, say trusted: true."
)


def test_a_pickled_module_needs_trust(base: Path, weights: dict[str, torch.Tensor]) -> None:
    torch.save(sys.modules["ranker"].Ranker(), base / "whole.pt")
    with pytest.raises(ModelError) as caught:
        model(base, {"path": "whole.pt"})
    assert str(caught.value) == REFUSAL
    with pytest.raises(ModelError) as caught:
        model(base, {"factory": "ranker:Ranker", "path": "whole.pt"}).load()
    assert str(caught.value) == REFUSAL


# ---- what forward receives and returns


def test_floats_integers_and_booleans_arrive_as_float32_int64_and_bool(base: Path) -> None:
    inputs = {"a": "age", "p": "price", "c": "country", "s": "sure", "d": ["age"]}
    with pytest.raises(ModelError) as caught:
        scores(model(base, {"load": "ranker:seen", "path": "prod"}, inputs=inputs, receive="dict"))
    assert str(caught.value) == (
        "Variant 'prod': forward failed with TypeError: {'a': 'torch.int64', 'p': 'torch.float32', 'c': 'torch.int64', "
        "'s': 'torch.bool', 'd': 'torch.float32'} (ranker.py, line 26)."
    )


def test_a_list_arrives_as_a_float32_matrix(base: Path) -> None:
    with pytest.raises(ModelError, match=r"^Variant 'prod': forward failed with TypeError: torch\.float32 \("):
        scores(model(base, {"load": "ranker:seen", "path": "prod"}, inputs=["age", "country"]))
    total = {"load": "ranker:total", "path": "prod"}
    assert scores(model(base, total, select=0, inputs=["age", "country"])).tolist() == [32.0, 40.0]
    assert scores(model(base, total, select=1, inputs=["age", "country"])).tolist() == [30.0, 40.0]


def test_text_arrives_as_arrow(base: Path) -> None:
    one = model(base, {"load": "ranker:text", "path": "prod"}, None, inputs={"town": "city"}, receive="arrow")
    assert scores(one).tolist() == [1.0, 1.0]


def test_text_cannot_be_a_tensor(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(base, LOAD, inputs={"dense": "city", "country": "country"}).check(TABLE.schema)
    assert str(caught.value) == (
        "Variant 'prod': column 'city' is of type string, which cannot be a tensor; say receive: arrow or receive: "
        "pandas and convert it in the model."
    )


def test_half_precision_becomes_float32_and_double_stays(base: Path) -> None:
    half, double = scores(model(base, LOAD, "half")), scores(model(base, LOAD, "double"))
    assert (half.dtype, double.dtype) == (np.float32, np.float64)
    assert half.tolist() == EXPECTED  # exact in 8 bits
    assert double.tolist() == [value / 3 for value in EXPECTED]


def test_torch_has_one_thread_where_that_is_asked_for_and_then_as_many_as_before(base: Path) -> None:
    described, before = model(base, LOAD), torch.get_num_threads()
    assert isinstance(described, ThreadedModel)
    torch.set_num_threads(2)
    with described.one_thread():
        described.load()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


# ---- the description


def test_a_pickled_model_scores_alike(base: Path) -> None:
    one = pickle.loads(pickle.dumps(model(base, LOAD)))
    assert scores(one).tolist() == EXPECTED
    assert one.columns == ("age", "price", "country")
    assert one.batch_rows == 1024


def test_the_fingerprint_covers_weights_code_settings_inputs_and_outputs(base: Path) -> None:
    before = model(base, LOAD).fingerprint
    assert model(base, LOAD, name="twin").fingerprint == before
    seen = {
        before,
        model(base, LOAD | {"settings": {"scale": 2}}).fingerprint,
        model(base, LOAD, inputs={"dense": ["price", "age"], "country": "country"}).fingerprint,
        model(base, LOAD, "half").fingerprint,
        model(base, {"factory": "ranker:from_dir", "path": "prod/"}).fingerprint,
    }
    (base / "prod" / "bias.json").write_text("0.5")
    seen.add(model(base, LOAD).fingerprint)
    (base / "ranker.py").write_text("# changed")
    seen.add(model(base, LOAD).fingerprint)
    for text in ("1", "2"):
        (base / "vocabulary.txt").write_text(text)
        seen.add(model(base, LOAD | {"files": ["vocabulary.txt"]}).fingerprint)
    assert len(seen) == 9


# ---- what is refused


def test_a_function_must_give_a_module(base: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model(base, {"load": "ranker:nothing", "path": "prod"}).load()
    assert str(caught.value) == (
        "Variant 'prod': function 'ranker:nothing' gave an object of type NoneType; expected a torch.nn.Module."
    )


def test_weights_must_fit_the_module(base: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, base / "w.safetensors")
    spec = {"factory": "ranker:Ranker", "path": "w.safetensors", "settings": {"width": 3}}
    with pytest.raises(
        ModelError, match=r"^Variant 'prod': loading 'w\.safetensors' into the module failed with Runtime"
    ):
        model(base, spec).load()


def test_a_file_that_holds_something_else_is_refused(base: Path) -> None:
    torch.save([1, 2], base / "list.pt")
    with pytest.raises(ModelError, match=r"^Variant 'prod': 'list\.pt' holds a list; expected a state dict\.$"):
        model(base, {"factory": "ranker:Ranker", "path": "list.pt"}).load()


def test_a_missing_or_damaged_file_is_named(base: Path) -> None:
    gone = {"factory": "ranker:Ranker", "path": "gone.pt"}
    with pytest.raises(ModelError) as caught:
        model(base, gone).load()
    assert str(caught.value) == f"Variant 'prod': there is no file or folder '{base}/gone.pt'."
    for name in ("bad.pt", "bad.safetensors"):
        (base / name).write_bytes(b"")
        with pytest.raises(ModelError, match=f"^Variant 'prod': loading '{name}' failed with "):
            model(base, {"factory": "ranker:Ranker", "path": name}).load()


def test_each_task_has_its_head(base: Path) -> None:
    spec = {"name": "v", "torch": {"load": "ranker:heads", "path": "prod/"}, "inputs": ["age", "price"]}
    outputs = {
        "kind": TaskOutput(kind="logit", select="kind", several="classes", names=("a", "b", "c")),
        "best": TaskOutput(kind="label", select="best", several="classes", names=("0", "1", "2")),
        "range": OutputSpec(kind="interval", select="range"),
    }
    one = TorchModel.from_spec(VariantSpec.model_validate(spec), outputs, base)
    found = score_all(one.load(), TABLE)
    assert found["kind"].tolist() == [[30, 1.5, 28.5], [40, 2.5, 37.5]]
    assert found["best"].tolist() == [0, 0]
    assert found["range"].tolist() == [[1.5, 30], [2.5, 40]]
