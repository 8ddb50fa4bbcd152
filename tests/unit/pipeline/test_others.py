"""Variants that take what others give: fingerprints, and the columns that models find it in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from assay import build
from assay.errors import ModelError
from assay.models.lightgbm import LightGBMModel
from assay.pipeline import others
from assay.records import Task
from assay.spec.model import Spec, VariantSpec

FAKES = Path(__file__).parents[2]


def stacked(name: str, **settings: float) -> Spec:
    """`blend` takes the score of a variant of that name."""
    given = {"function": "fakes.stacked:first", "settings": settings}
    taking = {"callable": "fakes.stacked:blend", "inputs": {"p": {"variant": name}, "x": "x"}}
    variants = [{"name": "blend", **taking}, {"name": name, "callable": given, "inputs": {"x": "x"}}]
    return Spec.model_validate({"data": {"label": "y"}, "variants": variants})


def fingerprints(of: Spec) -> dict[str, str]:
    described = [build.model(of, one, FAKES) for one in of.variants]
    return others.fingerprints(of, described, FAKES)


def test_a_fingerprint_covers_what_is_taken_of_others_whatever_their_names() -> None:
    one, renamed, other = (fingerprints(of) for of in (stacked("a"), stacked("b"), stacked("a", fails_at=3.0)))
    assert list(one) == ["blend", "a"]
    assert one["blend"] == renamed["blend"]
    assert one["blend"] != other["blend"]
    assert one["a"] == renamed["b"] != other["a"]


def test_all_models_without_fingerprint_are_told_but_for_those_that_take_from_them() -> None:
    of = stacked("a")
    broken = of.model_copy(update={"variants": (of.variants[0], VariantSpec(name="a", lightgbm="none.txt"))})
    with pytest.raises(ModelError, match=r"^Variant 'a': there is no file or folder '.*none.txt'\.$"):
        others.fingerprints(broken, [build.model(of, of.variants[0], FAKES), *_absent()], FAKES)


def _absent() -> list[LightGBMModel]:
    return [LightGBMModel("a", FAKES / "none.txt", None, {})]


def test_a_model_is_described_with_columns_in_which_it_finds_what_it_takes() -> None:
    of = stacked("a")
    described = build.model(of, of.variants[0], FAKES)
    assert described.columns == ("main of variant a", "x")
    schema = pa.schema({"x": pa.float64(), "y": pa.int8()})
    seen = others.given_schema(of, (), schema)
    assert (seen.names, seen.field(2).type) == (["x", "y", "main of variant a"], pa.float64())
    described.check(seen)
    assert build.model_columns([described], schema) == ("x",)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"data": {"label": "y", "classes": ["u", "v", "w"]}}, pa.list_(pa.float64(), 3)),
        ({"data": {"label": "y", "classes": ["u", "v", "w"]}, "output": {"is": "label"}}, pa.string()),
        ({"data": {"label": "y", "labels": ["u", "v"]}, "output": {"is": "label"}}, pa.list_(pa.float64(), 2)),
        ({"output": {"is": "interval"}}, pa.list_(pa.float64(), 2)),
    ],
)
def test_the_types_of_what_is_taken(changes: dict[str, object], kind: pa.DataType) -> None:
    of = Spec.model_validate(stacked("a").model_dump(by_alias=True) | changes)
    names = ("u", "v", "w") if "classes" in str(changes) else ("u", "v") if "labels" in str(changes) else ()
    tasks = (Task("main", "y", "real", None, (), names),)
    assert others.given_schema(of, tasks, pa.schema({"x": pa.float64()})).field("main of variant a").type == kind


def test_a_column_of_the_data_may_not_have_that_name() -> None:
    said = "Variant 'blend': the data have a column 'main of variant a', as its input is called; rename it."
    with pytest.raises(ModelError) as raised:
        others.given_schema(stacked("a"), (), pa.schema({"main of variant a": pa.float64()}))
    assert str(raised.value) == said
