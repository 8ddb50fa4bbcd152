from __future__ import annotations

import copy

import pytest

from assay.spec.overrides import override

TREE = {"data": {"path": "old/"}, "variants": [{"name": "a"}, {"name": "b", "column": {"click": "p"}}], "gates": None}


@pytest.mark.parametrize(
    ("setting", "place", "value"),
    [
        ("data.path=new/", ("data", "path"), "new/"),
        ("data.where=a = 'b'", ("data", "where"), "a = 'b'"),
        ("seed=7", ("seed",), 7),
        ("execution.micro_batch=256", ("execution", "micro_batch"), 256),
        ("gates.x=1", ("gates", "x"), 1),
        ("variants[1].column.click=q", ("variants", 1, "column", "click"), "q"),
        ("variants[0]={name: c}", ("variants", 0), {"name": "c"}),
        ("data.path=${ROOT}/x", ("data", "path"), "/r/x"),
        ("data.path=", ("data", "path"), None),
    ],
)
def test_one_value_is_replaced(setting: str, place: tuple[str | int, ...], value: object) -> None:
    before = copy.deepcopy(TREE)
    changed, faults = override(TREE, [setting], {"ROOT": "/r"})
    found = changed
    for step in place:
        found = found[step]  # type: ignore[index]  # the path is one of the tree's
    assert (found, faults) == (value, ())
    assert before == TREE


def test_later_settings_win() -> None:
    assert override(TREE, ["seed=1", "seed=2"], {}).tree == {**TREE, "seed": 2}


def test_every_setting_that_does_not_fit_is_told() -> None:
    settings = [
        "seed",
        "=3",
        "data.path.x=1",
        "variants[2].name=c",
        "data[0]=1",
        "variants.a=1",
        "a..b=1",
        "seed=${GONE}",
    ]
    assert [str(fault) for fault in override(TREE, settings, {}).faults] == [
        "got --set 'seed'; expected a path and a value, as in data.path=new/.",
        "got --set '=3'; expected a path and a value, as in data.path=new/.",
        "data.path.x: data.path is 'old/', not a mapping; it has no key 'x'.",
        "variants[2].name: variants has 2 entries, numbered from 0; it has no position 2.",
        "data[0]: data is {'path': 'old/'}, not a list; it has no position 0.",
        "variants.a: variants is [{'name': 'a'}, {'name': 'b', 'column': {'click': 'p'}}], not a mapping; "
        "it has no key 'a'.",
        "got --set 'a..b=1'; expected a path and a value, as in data.path=new/.",
        "seed: the environment variable 'GONE' is not set; set it, or write ${GONE:-default}.",
    ]
