"""One block in, the same rows with the outputs appended out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay.errors import DataError, ModelError
from assay.integrations.ray_data.batches import check_outputs
from assay.integrations.ray_data.columns import carry_over_of
from assay.integrations.ray_data.model_spec import ModelSpec, part_of
from assay.integrations.ray_data.stage import Leaving, Stage

ALL = Leaving(carry_over_of("all"))
BLOCK = pa.table(
    [pa.array([1, 2, 3]), pa.array(["a", None, "c"])],
    schema=pa.schema([pa.field("x", pa.int64(), metadata={"unit": "s"}), ("text", pa.string())], {"made": "here"}),
)


class Noting:
    """Doubles x, and keeps what it was called with."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        assert list(batch) == ["x"]
        self.batches.append(batch["x"].tolist())
        return batch["x"] * 2


def stage(model: Any, leaving: Leaving = ALL, **settings: Any) -> Stage:
    spec = ModelSpec(**{"model": model, "inputs": ["x"], "outputs": "p", **settings})
    return Stage([part_of("m", spec)], leaving)


def test_outputs_are_appended_and_nothing_else_changes() -> None:
    model = Noting()
    result = stage(model, batch_size=2)(BLOCK)
    assert result.equals(BLOCK.append_column("p", pa.array([2, 4, 6])), check_metadata=True)
    assert model.batches == [[1, 2], [3]]


def test_carried_columns_are_the_blocks_own_memory() -> None:
    result = stage(Noting())(BLOCK)
    for name in BLOCK.column_names:
        theirs = [buffer and buffer.address for buffer in result[name].chunk(0).buffers()]
        assert theirs == [buffer and buffer.address for buffer in BLOCK[name].chunk(0).buffers()]


def test_only_what_is_asked_for_leaves() -> None:
    assert stage(Noting(), Leaving(carry_over_of("te*")))(BLOCK).column_names == ["text", "p"]
    assert stage(Noting(), Leaving(carry_over_of([])))(BLOCK).equals(pa.table({"p": [2, 4, 6]}))


def test_an_output_may_replace_a_column_that_is_left_behind() -> None:
    result = stage(Noting(), Leaving(carry_over_of("text")), outputs="x")(BLOCK)
    assert result.to_pydict() == {"text": ["a", None, "c"], "x": [2, 4, 6]}
    with pytest.raises(DataError) as caught:
        stage(Noting(), outputs="x")(BLOCK)
    assert str(caught.value) == (
        "The output 'x' has the name of a column that is carried over. Give it another name, or leave it out of "
        "carry_over."
    )


def test_no_model_is_called_without_rows() -> None:
    model = Noting()
    assert stage(model)(BLOCK.slice(0, 0)).schema.field("p").type == pa.null()
    assert stage(model, outputs={"p": "int64"})(BLOCK.slice(0, 0)).schema.field("p").type == pa.int64()
    assert stage(model)(pa.table({})).num_columns == 0
    assert model.batches == []


def test_a_class_is_built_once_with_its_arguments() -> None:
    class Times:
        built = 0

        def __init__(self, factor: int, plus: int = 0) -> None:
            type(self).built += 1
            self.factor, self.plus = factor, plus

        def __call__(self, batch: Mapping[str, Any]) -> Any:
            return batch["x"] * self.factor + self.plus

    scorer = stage(Times, batch_size=1, fn_constructor_args=[3], fn_constructor_kwargs={"plus": 1})
    assert scorer(BLOCK)["p"].to_pylist() == [4, 7, 10]
    assert Times.built == 1


def test_models_share_what_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = []

    def note(batch: Mapping[str, Any]) -> Any:
        addresses.append(batch["m"].__array_interface__["data"][0])
        return np.zeros(len(batch["m"]))

    parts = [part_of(name, ModelSpec(note, {"m": ["x"]}, name)) for name in ("a", "b")]
    result = Stage(parts, ALL)(BLOCK)
    assert result.column_names == ["x", "text", "a", "b"]
    assert len(set(addresses)) == 1


def test_several_stages_give_the_outputs_in_the_order_of_the_models() -> None:
    second = part_of("second", ModelSpec(Noting(), ["x"], "b"))
    first = part_of("first", ModelSpec(Noting(), ["x"], "a"))
    carry_over = carry_over_of("text")
    between = Stage([second], Leaving(carry_over, needed=("x",)))(BLOCK)
    assert between.column_names == ["x", "text", "b"]
    result = Stage([first], Leaving(carry_over, earlier=("b",), order=("a", "b")))(between)
    assert result.column_names == ["text", "a", "b"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": 3}, "a int is no model; expected a function or a class."),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or more rows."),
        ({"fn_constructor_args": [1]}, "fn_constructor_args are for a class, but the model is a function."),
        ({"model": object}, "an object of object cannot be called; give it __call__."),
    ],
)
def test_models_that_cannot_be_used(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        stage(**{"model": Noting(), **settings})
    assert caught.value.message == sentence


def test_a_model_that_fails_is_told_with_what_it_was_given() -> None:
    def fails(batch: Mapping[str, Any]) -> Any:
        return batch["text"] * 2.0

    with pytest.raises(ModelError) as caught:
        stage(fails, inputs=["text"])(BLOCK)
    assert caught.value.message.startswith(
        "the model, given 'text' (string, as objects), failed with TypeError: can't multiply sequence by non-int of "
        "type 'float' ("
    )
    assert "test_stage.py, line " in caught.value.message
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_model_that_cannot_be_made_is_told() -> None:
    class Weights:
        def __init__(self) -> None:
            raise OSError("no weights")

    with pytest.raises(ModelError) as caught:
        stage(Weights)
    assert caught.value.message.startswith("making a Weights failed with OSError: no weights (")


def test_outputs_and_inputs_of_several_models_are_apart() -> None:
    def parts(**models: tuple[str, str]) -> list[Any]:
        return [part_of(name, ModelSpec(Noting(), [reads], adds)) for name, (reads, adds) in models.items()]

    check_outputs(parts(a=("x", "p"), b=("x", "q")))
    with pytest.raises(ModelError) as caught:
        check_outputs(parts(a=("x", "p"), b=("x", "p")))
    assert str(caught.value) == ("Variant 'b': output 'p' is of model 'a' too; give each output a name of its own.")
    with pytest.raises(ModelError) as caught:
        check_outputs(parts(a=("x", "p"), b=("p", "q")))
    assert str(caught.value) == (
        "Variant 'b': it reads 'p', which has the name of an output of model 'a'. Run one after the other by "
        "map_batches, or rename the output."
    )
