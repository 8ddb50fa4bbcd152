"""A user's function or class makes what several variants receive."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay.calls import is_out_of_memory
from assay.errors import PreparationError
from assay.models.preparation import FunctionPreparation
from assay.spec.model import PrepareSpec

WriteModule = Callable[[str, str], Path]
SOURCE = """
    from pathlib import Path

    built = []

    def named(table, times=1):
        return {name: table[name].to_pylist() * times for name in table.column_names}

    class Counting:
        def __init__(self, vocabulary):
            built.append(vocabulary)
            self._size = len(Path(vocabulary).read_text().split())

        def __call__(self, table):
            return table.num_rows * self._size, len(built)

    class Mute:
        pass

    def fails(table):
        raise KeyError("missing")

    def full(table):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    """
TABLE = pa.table({"city": pa.array(["x", None, "x"]).dictionary_encode(), "age": [1, 2, 3], "other": [0, 0, 0]})


@pytest.fixture
def base(write_module: WriteModule, tmp_path: Path) -> Path:
    write_module("features", SOURCE)
    (tmp_path / "vocabulary.txt").write_text("a b")
    return tmp_path


def preparation(base: Path, function: str = "features:named", **spec: Any) -> FunctionPreparation:
    spec = {"function": function, "inputs": ["city", "age"], **spec}
    return FunctionPreparation("tokens", PrepareSpec.model_validate(spec), base, 1024)


def test_a_function_gets_its_columns_by_value_and_its_settings(base: Path) -> None:
    one = preparation(base, settings={"times": 2})
    assert one.columns == ("city", "age")
    assert one.load()(TABLE) == {"city": ["x", None, "x"] * 2, "age": [1, 2, 3] * 2}


def test_columns_are_named_as_the_inputs_say(base: Path) -> None:
    one = preparation(base, inputs={"town": "city"})
    assert one.columns == ("city",)
    assert one.load()(TABLE) == {"town": ["x", None, "x"]}


def test_of_a_class_an_object_is_made_once_and_then_called(base: Path) -> None:
    make = preparation(base, "features:Counting", settings={"vocabulary": str(base / "vocabulary.txt")}).load()
    assert [make(TABLE), make(TABLE.slice(0, 1))] == [(6, 1), (2, 1)]


def test_a_pickled_preparation_makes_the_same(base: Path) -> None:
    one = preparation(base)
    one.fingerprint  # noqa: B018 - is kept, and must pickle
    assert pickle.loads(pickle.dumps(one)).load()(TABLE) == one.load()(TABLE)


@pytest.mark.parametrize("tasks", [None, 4])
def test_it_is_made_apart_where_it_has_tasks(base: Path, tasks: int | None) -> None:
    assert preparation(base, tasks=tasks).apart == (tasks is not None)


@pytest.mark.parametrize(
    "changes",
    [
        {"function": "features:fails"},
        {"settings": {"times": 2}},
        {"inputs": ["age", "city"]},
        {"inputs": {"city": "age", "age": "city"}},
        {"files": ["vocabulary.txt"]},
    ],
)
def test_the_fingerprint_covers_what_is_made(base: Path, changes: dict[str, Any]) -> None:
    assert preparation(base, **changes).fingerprint != preparation(base).fingerprint


def test_the_fingerprint_covers_code_files_and_rows_per_call(base: Path) -> None:
    before = preparation(base, files=["vocabulary.txt"])
    prints = [before.fingerprint, replace(before, batch_rows=512).fingerprint]
    (base / "vocabulary.txt").write_text("a b c")
    prints.append(preparation(base, files=["vocabulary.txt"]).fingerprint)
    (base / "features.py").write_text("def named(table): ...")
    prints.append(preparation(base, files=["vocabulary.txt"]).fingerprint)
    assert len(set(prints)) == 4


def test_the_fingerprint_does_not_cover_its_name_and_where_it_is_made(base: Path) -> None:
    placed = preparation(base, tasks=4, num_cpus=2, resources={"fast": 1}, labels={"market": "spot"})
    assert replace(placed, name="other").fingerprint == preparation(base).fingerprint


def test_missing_columns_are_named_with_the_nearest(base: Path) -> None:
    with pytest.raises(PreparationError) as caught:
        preparation(base, inputs=["citi", "price"]).check(TABLE.schema)
    assert str(caught.value) == (
        "preparation 'tokens' reads column 'citi', which the data do not have; did you mean 'city'? It also reads "
        "'price'."
    )


@pytest.mark.parametrize(
    ("function", "settings", "sentence"),
    [
        ("nowhere:f", {}, r"^preparation 'tokens': there is no module 'nowhere' in "),
        (
            "features:nmaed",
            {},
            r"^preparation 'tokens': module 'features' has no function 'nmaed'; did you mean 'named'",
        ),
        (
            "features:Counting",
            {"vocabulary": "nowhere.txt"},
            r"^preparation 'tokens': making an object of 'features:Counting' failed with FileNotFoundError: ",
        ),
        (
            "features:Mute",
            {},
            r"^preparation 'tokens': 'features:Mute' is a class whose objects cannot be called; give it a method "
            r"__call__ that takes a table\.$",
        ),
    ],
)
def test_what_cannot_be_built_says_so(base: Path, function: str, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(PreparationError, match=sentence):
        preparation(base, function, settings=settings).load()


def test_what_it_raises_is_told(base: Path) -> None:
    with pytest.raises(PreparationError) as caught:
        preparation(base, "features:fails").load()(TABLE)
    assert str(caught.value) == "preparation 'tokens' failed with KeyError: 'missing' (features.py, line 21)."
    assert not is_out_of_memory(caught.value)
    with pytest.raises(PreparationError) as caught:
        preparation(base, "features:full").load()(TABLE)
    assert is_out_of_memory(caught.value)


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    error = ValueError("of itself")
    error.__cause__ = error
    assert not is_out_of_memory(error)


def test_its_error_travels_whole() -> None:
    error = PreparationError("tokens", "preparation 'tokens' failed.", out_of_memory=True, sample="[]")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.preparation, again.message) == (str(error), "tokens", error.message)
    assert (again.out_of_memory, again.sample) == (True, "[]")
