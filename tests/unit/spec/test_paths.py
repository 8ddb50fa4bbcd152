from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.spec.paths import Steps, parse_prefix, render


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((), ""),
        (("data",), "data"),
        (("variants", 2, "torch", "path"), "variants[2].torch.path"),
        ((0, "a"), "[0].a"),
        (("tasks", "a.b", "label"), 'tasks["a.b"].label'),
        (("tasks", "", "label"), 'tasks[""].label'),
        (("tasks", "très", 0, 1), "tasks.très[0][1]"),
    ],
)
def test_a_path_as_steps_and_as_text(steps: Steps, text: str) -> None:
    assert render(steps) == text
    assert parse_prefix(text) == (steps, "")


@pytest.mark.parametrize(
    ("text", "steps", "rest"),
    [
        ("a.b=c.d=e", ("a", "b"), "=c.d=e"),
        ("a", ("a",), ""),
        ("=a", (), "=a"),
        (".a=1", (), ".a=1"),
        ("a..b=1", ("a",), "..b=1"),
        ("a[x]=1", ("a",), "[x]=1"),
        ("a[0]b=1", ("a", 0), "b=1"),
    ],
)
def test_a_path_ends_where_the_text_is_no_path(text: str, steps: Steps, rest: str) -> None:
    assert parse_prefix(text) == (steps, rest)


@given(st.lists(st.one_of(st.integers(0, 99), st.text(st.characters(exclude_characters='"'))), max_size=5))
def test_every_path_is_read_back(steps: list[str | int]) -> None:
    assert parse_prefix(render(steps) + "=") == (tuple(steps), "=")
