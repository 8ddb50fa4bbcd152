"""The columns that variants give: names, types that the spec chooses, and variants without a score."""

from __future__ import annotations

from typing import Any

import pytest

from assay.spec.checks import tree_faults
from assay.spec.model import Spec
from assay.spec.written import score_types, written

VECTOR = {"vector": {"type": "list<float32>"}}
TWO_TASKS = {"click": {}, "buy": {}}


def variant(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "callable": "m:f", "inputs": ["x"], **more}


def spec(*variants: dict[str, Any], **changes: Any) -> Spec:
    return Spec.model_validate({"data": {}, "variants": list(variants), "predictions": {}, **changes})


def names(of: Spec) -> list[str]:
    assert of.predictions is not None
    return [one.name for one in written(of, of.predictions)]


def test_scores_come_first_and_then_other_outputs_of_each_variant() -> None:
    assert names(spec(variant("a", outputs=VECTOR), variant("b"))) == ["a", "a.vector", "b"]
    assert names(spec(variant("a", outputs=VECTOR), tasks=TWO_TASKS)) == ["a.click", "a.buy", "a.vector"]


def test_a_mapping_gives_other_names_to_some() -> None:
    of = spec(variant("a", outputs=VECTOR), variant("b"), predictions={"names": {"a": "p_a", "a.vector": "embedding"}})
    assert names(of) == ["p_a", "embedding", "b"]
    assert not tree_faults(of)


def test_types_are_of_all_scores_or_of_some_by_their_final_names() -> None:
    variants = (variant("a", outputs=VECTOR), variant("b"))
    assert score_types(spec(*variants, predictions={"types": "float32"})) == {
        ("a", "main"): "float32",
        ("b", "main"): "float32",
    }
    of = spec(*variants, predictions={"names": {"b": "rank"}, "types": {"rank": "int16"}})
    assert score_types(of) == {("b", "main"): "int16"}
    assert not tree_faults(of)


def test_a_type_of_all_leaves_out_predicted_classes_which_are_text() -> None:
    of = spec(
        variant("guess", output={"is": "label"}),
        variant("chances"),
        data={"classes": ["cat", "dog"]},
        predictions={"types": "float32"},
    )
    assert score_types(of) == {("chances", "main"): "float32"}
    assert not tree_faults(of)


def test_a_variant_without_a_score_has_its_other_outputs_alone() -> None:
    of = spec(variant("a", output={"is": "none"}, outputs=VECTOR), variant("b"))
    assert names(of) == ["a.vector", "b"]
    assert not tree_faults(of)


def test_it_may_lack_the_score_of_one_task() -> None:
    of = spec(variant("a", output={"buy": {"is": "none"}}), tasks=TWO_TASKS)
    assert names(of) == ["a.click"]
    assert not tree_faults(of)


@pytest.mark.parametrize(
    ("variants", "changes", "fault"),
    [
        (
            [variant("a")],
            {"predictions": {"names": {"aa": "p"}}},
            "predictions.names.aa: no output has the name 'aa'; did you mean 'a'?",
        ),
        (
            [variant("a")],
            {"predictions": {"names": {"a": "p"}, "types": {"a": "float32"}}},
            "predictions.types.a: no score has the name 'a'; expected 'p'.",
        ),
        (
            [variant("a", outputs=VECTOR)],
            {"predictions": {"types": {"a.vector": "float32"}}},
            "predictions.types.a.vector: is no score: `outputs` of its variant say what type it has; drop it.",
        ),
        (
            [variant("a", output={"is": "label"})],
            {"data": {"classes": ["cat", "dog"]}, "predictions": {"types": {"a": "float32"}}},
            "predictions.types.a: is the predicted class, which is text; drop it.",
        ),
        (
            [variant("a")],
            {"predictions": {"types": "float32", "top_k": {"k": 1, "group": "g"}}},
            "predictions.types: has no effect with top_k, which writes scores as they come; drop it.",
        ),
        (
            [variant("a", output={"is": "none"})],
            {},
            "variants[0].output: is none, and 'a' has no `outputs`: nothing would be written; give these.",
        ),
        (
            [variant("a")],
            {"output": {"is": "none"}},
            "output: is none, and 'a' has no `outputs`: nothing would be written; give these.",
        ),
        (
            [variant("a")],
            {"tasks": {"click": {"output": {"is": "none"}}}},
            "tasks.click.output: is none, and 'a' has no `outputs`: nothing would be written; give these.",
        ),
        (
            [variant("a")],
            {"predictions": {"names": {}}},
            "predictions.names: is empty, so that it has no effect; drop it.",
        ),
        (
            [variant("a")],
            {"predictions": {"types": {}}},
            "predictions.types: is empty, so that it has no effect; drop it.",
        ),
        (
            [variant("a", output={"is": "none"}, outputs=VECTOR)],
            {"predictions": {"types": "float32"}},
            "predictions.types: has no effect: no variant gives a score that is a number; drop it.",
        ),
        (
            [variant("a")],
            {"predictions": {"names": {"zz": "b"}, "top_k": {"k": 1, "group": "g"}}},
            "predictions.names: has no effect with top_k, whose columns have names of their own; drop it.",
        ),
        (
            [variant("a", output={"buy": {"is": "none"}})],
            {"tasks": TWO_TASKS, "predictions": {"top_k": {"k": 1, "group": "g"}}},
            "predictions.top_k.task: is required, since there are 2 tasks: 'click' and 'buy'.",
        ),
        (
            [{"name": "a", "column": "p", "output": {"is": "none"}}],
            {},
            "variants[0].output: is none, but column gives a score and nothing else; say what it is.",
        ),
        (
            [variant("a", output={"is": "none"}, outputs=VECTOR)],
            {"data": {"label": "y"}},
            "variants[0].output.is: is none, but there is a label to measure a score by; say what the score is, or "
            "drop the label.",
        ),
        (
            [variant("a", output={"is": "none", "select": 1}, outputs=VECTOR)],
            {},
            "variants[0].output.select: has no effect where there is no score; drop it.",
        ),
        (
            [variant("a", output={"buy": {"is": "none"}})],
            {"tasks": TWO_TASKS, "predictions": {"top_k": {"k": 1, "group": "g", "task": "buy"}}},
            "predictions.top_k: has nothing to rank: no variant gives a score; say what one gives, or drop it.",
        ),
        (
            [variant("a")],
            {"predictions": {"names": "{variant:d}"}},
            "predictions.names: got '{variant:d}'; expected {variant} and {task} without : and !.",
        ),
        (
            [variant("a")],
            {"predictions": {"names": "{variant!z}"}},
            "predictions.names: got '{variant!z}'; expected {variant} and {task} without : and !.",
        ),
        (
            [
                variant("a", output={"buy": {"is": "none"}}),
                variant("b") | {"inputs": {"x": {"variant": "a", "task": "buy"}}},
            ],
            {"tasks": TWO_TASKS},
            "variants[1].inputs.x: asks for a score, and 'a' gives none; name one of its outputs by `output`.",
        ),
        (
            [variant("a", output={"is": "none"}, outputs=VECTOR), variant("b") | {"inputs": {"x": {"variant": "a"}}}],
            {},
            "variants[1].inputs.x: asks for a score, and 'a' gives none; name one of its outputs by `output`.",
        ),
    ],
)
def test_faults(variants: list[dict[str, Any]], changes: dict[str, Any], fault: str) -> None:
    assert [str(one) for one in tree_faults(spec(*variants, **changes))] == [fault]


def test_the_score_of_another_task_may_be_ranked_and_taken() -> None:
    first = variant("a", output={"buy": {"is": "none"}})
    last = variant("b") | {"inputs": {"x": {"variant": "a", "task": "click"}}}
    assert not tree_faults(
        spec(first, last, tasks=TWO_TASKS, predictions={"top_k": {"k": 1, "group": "g", "task": "click"}})
    )
