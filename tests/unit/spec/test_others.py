"""Variants that take what others give: names, order, faults."""

from __future__ import annotations

from typing import Any

import pytest

from assay.spec.checks import tree_faults
from assay.spec.model import Spec
from assay.spec.others import Taken, taken, takes, together, with_columns, with_others


def spec(*variants: dict[str, Any], **changes: Any) -> Spec:
    return Spec.model_validate({"data": {"label": "y"}, "variants": list(variants), **changes})


def variant(name: str, /, **inputs: Any) -> dict[str, Any]:
    return {"name": name, "callable": "m:f", "inputs": inputs or {"x": "x"}}


def test_what_is_taken_once_and_in_the_order_of_inputs() -> None:
    of = spec(
        variant("first"),
        variant(
            "last",
            q=["x", {"variant": "first", "output": "vector"}],
            p={"variant": "first"},
            again={"variant": "first"},
        ),
    )
    assert taken(of, of.variants[1]) == (Taken("first", "vector"), Taken("first", "main"))
    assert takes(of.variants) == {"last": ("first",)}
    replaced = with_columns(of.variants[1], lambda asked: f"<{asked.variant}>")
    assert replaced.inputs == {"q": ("x", "<first>"), "p": "<first>", "again": "<first>"}


def test_without_a_task_it_is_the_only_one() -> None:
    of = spec(variant("a"), variant("b", p={"variant": "a"}), data={}, tasks={"click": {"label": "c"}})
    assert taken(of, of.variants[1]) == (Taken("a", "click"),)
    assert tree_faults(of) == ()


def test_those_that_are_needed_come_first() -> None:
    others = {"d": ["c"], "c": ["a", "b"], "b": ["a"]}
    assert with_others(["d", "x"], others) == ("a", "b", "c", "d", "x")
    assert with_others(["x", "a"], others) == ("x", "a")


def test_groups_that_cannot_be_apart() -> None:
    others = {"c": ["a"], "d": ["c"], "e": ["b"], "f": ["e", "d"], "g": ["z"]}
    assert together(list("abcdegz"), others) == [("a", "c", "d"), ("b", "e"), ("g", "z")]
    assert together(list("abcdefgz"), others, everywhere=["z"]) == [("a", "b", "c", "d", "e", "f"), ("g",)]
    assert together(["a", "b"], {}) == [("a",), ("b",)]


BROKEN = "none of them can be the first; break the circle."


@pytest.mark.parametrize(
    ("variants", "fault"),
    [
        (
            [variant("a", p={"variant": "b"}), variant("b", p=["x", {"variant": "a"}])],
            f"variants[0].inputs: 'a' takes the output of 'b', which takes that of 'a': {BROKEN}",
        ),
        (
            [variant("a", p={"variant": "a"})],
            "variants[0].inputs: 'a' takes its own output; a variant takes those of others.",
        ),
        (
            [variant("first"), variant("b", p={"variant": "frist"})],
            "variants[1].inputs.p.variant: there is no variant 'frist'; did you mean 'first'?",
        ),
        (
            [variant("first"), variant("b", p=["x", {"variant": "first", "task": "main", "output": "v"}])],
            "variants[1].inputs.p[1]: got task and output; expected the score for a task, or one of the variant's "
            "outputs.",
        ),
        (
            [variant("first"), variant("b", p={"variant": "first", "output": "v"})],
            "variants[1].inputs.p.output: there is no 'v' among the outputs of 'first', which has none; give it "
            "outputs, or drop this.",
        ),
        (
            [variant("first"), variant("b", p={"variant": "first", "task": "mian"})],
            "variants[1].inputs.p.task: there is no task 'mian'; did you mean 'main'?",
        ),
    ],
)
def test_faults(variants: list[dict[str, Any]], fault: str) -> None:
    assert [str(one) for one in tree_faults(spec(*variants))] == [fault]


def test_one_of_several_tasks_is_named() -> None:
    of = spec(
        variant("a"), variant("b", p={"variant": "a"}), data={}, tasks={"click": {"label": "c"}, "buy": {"label": "b"}}
    )
    assert [str(one) for one in tree_faults(of)] == [
        "variants[1].inputs.p.task: is required, since there are 2 tasks: 'click' and 'buy'."
    ]


# ---- other outputs ---------------------------------------------------------------------------------------------------


def giving(**outputs: Any) -> dict[str, Any]:
    return {**variant("first"), "outputs": outputs}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"variants": [giving(v={"type": "float32"})]},
            "variants[0].outputs.v: has no effect: nothing is written without predictions, and no variant takes it.",
        ),
        (
            {"variants": [giving(v={"type": "flaot"})], "predictions": {}},
            "variants[0].outputs.v.type: got 'flaot'; expected 'bool', 'int8', 'int16', 'int32', 'int64', 'uint8', "
            "'uint16', 'uint32', 'uint64', 'float32', 'float64' or 'string', or a list of numbers: list<float32>, or "
            "with their number list<float32>[384].",
        ),
        (
            {"variants": [giving(main={"type": "float32"})], "predictions": {}},
            "variants[0].outputs.main: is the name of a task, whose output is the score 'main'; choose another.",
        ),
        (
            {"variants": [{"name": "a", "column": "p", "outputs": {"v": {"type": "string"}}}], "predictions": {}},
            "variants[0].outputs: cannot go with column, which gives scores alone; drop it.",
        ),
    ],
)
def test_faults_of_other_outputs(changes: dict[str, Any], fault: str) -> None:
    of = Spec.model_validate({"data": {"label": "y"}, **changes})
    assert [str(one) for one in tree_faults(of)] == [fault]


def test_an_output_that_is_taken_or_written_has_an_effect() -> None:
    first = giving(v={"type": "list<float32>[3]"})
    assert tree_faults(spec(first, predictions={})) == ()
    assert tree_faults(spec(first, variant("b", p={"variant": "first", "output": "v"}))) == ()
