from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import ModelError
from assay.models.template import expand
from assay.spec.model import VariantSpec


def variant(**spec: Any) -> VariantSpec:
    return VariantSpec.model_validate(spec)


def touch(base: Path, *paths: str) -> None:
    for path in paths:
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).touch()


def test_one_variant_a_folder_in_natural_order(tmp_path: Path) -> None:
    touch(tmp_path, *(f"sweep/{trial}/weights" for trial in ("10", "9", "b", ".hidden")), "sweep/a_file")
    sweep = variant(name="sweep-{trial}", torch={"load": "m:f", "path": "sweep/{trial}/"}, inputs=["x"])
    made = expand(sweep, tmp_path)
    assert [(one.name, one.torch and one.torch.path) for one in made] == [
        ("sweep-9", "sweep/9/"),
        ("sweep-10", "sweep/10/"),
        ("sweep-b", "sweep/b/"),
    ]
    assert {(one.inputs, one.torch and one.torch.load) for one in made} == {(("x",), "m:f")}


@pytest.mark.parametrize("kind", ["lightgbm", "sklearn"])
@pytest.mark.parametrize("long", [False, True])
def test_files_of_any_kind_match(tmp_path: Path, kind: str, long: bool) -> None:
    touch(tmp_path, "m/gbdt_a.txt", "m/gbdt_b.txt", "m/other.txt")
    path = "m/gbdt_{x}.txt"
    made = expand(variant(name="{x}", **{kind: {"path": path} if long else path}), tmp_path)
    found = [getattr(one, kind) for one in made]
    assert [one.name for one in made] == ["a", "b"]
    assert [one.path if long else one for one in found] == ["m/gbdt_a.txt", "m/gbdt_b.txt"]


def test_several_placeholders_and_one_that_comes_again(tmp_path: Path) -> None:
    touch(tmp_path, "a/1/a.txt", "a/2/b.txt", "b/1/b.txt")
    made = expand(variant(name="{model} {seed}", lightgbm="{model}/{seed}/{model}.txt"), tmp_path)
    assert [(one.name, one.lightgbm) for one in made] == [("a 1", "a/1/a.txt"), ("b 1", "b/1/b.txt")]


def test_an_absolute_path_and_special_characters(tmp_path: Path) -> None:
    touch(tmp_path, "a[1]+/x.txt")
    (one,) = expand(variant(name="{n}", lightgbm=f"{tmp_path}/a[1]+/{{n}}.txt"), Path("/nowhere"))
    assert (one.name, one.lightgbm) == ("x", f"{tmp_path}/a[1]+/x.txt")


def test_a_variant_without_placeholders_is_itself(tmp_path: Path) -> None:
    for spec in ({"column": "p"}, {"lightgbm": "not/there.txt"}, {"callable": "m:f"}):
        one = variant(name="v", **spec)
        assert expand(one, tmp_path) == (one,)


@pytest.mark.parametrize(
    ("name", "spec", "sentence"),
    [
        ("gbdt", {"lightgbm": "{x}.txt"}, "its name has the placeholders none and its path '{x}.txt' has 'x'"),
        ("{x}", {"lightgbm": "a.txt"}, "its name has the placeholders 'x' and its path 'a.txt' has none"),
        ("{x}{y}", {"lightgbm": "{x}.txt"}, "its name has the placeholders 'x' and 'y' and its path '{x}.txt' has 'x'"),
    ],
)
def test_name_and_path_have_the_same_placeholders(
    tmp_path: Path, name: str, spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ModelError) as caught:
        expand(variant(name=name, **spec), tmp_path)
    assert str(caught.value) == f"Variant {name!r}: {sentence}; they must be the same."


def test_no_match_says_what_was_looked_for(tmp_path: Path) -> None:
    touch(tmp_path, "sweep/a_file")
    with pytest.raises(ModelError) as caught:
        expand(variant(name="{trial}", torch={"load": "m:f", "path": "sweep/{trial}/"}), tmp_path)
    assert str(caught.value) == f"Variant '{{trial}}': nothing matches its path; looked for '{tmp_path}/sweep/*/'."


@pytest.mark.parametrize(
    ("name", "spec", "sentence"),
    [
        ("{x}", {"column": "p"}, "its name has the placeholder 'x', but this kind of model has no path to match."),
        (
            "v",
            {"lightgbm": "m/*.txt"},
            "its path 'm/*.txt' has a wildcard; write a {placeholder} in its place, and in the variant's name.",
        ),
    ],
)
def test_placeholders_and_wildcards_out_of_place(
    tmp_path: Path, name: str, spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ModelError) as caught:
        expand(variant(name=name, **spec), tmp_path)
    assert str(caught.value) == f"Variant {name!r}: {sentence}"
