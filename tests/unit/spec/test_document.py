from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import Fault
from assay.spec.document import parse, write


def faults(text: str) -> list[str]:
    return [str(fault) for fault in parse(text, {"HOME": "/home/u"}).faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("012", "012"),
        ("1e-3", 0.001),
        ("-1.5", -1.5),
        (".5", 0.5),
        (".inf", float("inf")),
        ("12:30", "12:30"),
        ("2013-01-01", "2013-01-01"),
        ("'12'", "12"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    assert parse(f"key: {text}", {}).tree == {"key": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${HOME}/a", "/home/u/a"),
        ("${SEED}", 7),
        ("'${SEED}'", "7"),
        ("${NONE:-3}", 3),
        ("${EMPTY:-x}", "x"),
        ("${NONE:-}", None),
        ("a$${HOME}", "a${HOME}"),
        ("$HOME", "$HOME"),
        ("${HOME}${SEED}", "/home/u7"),
    ],
)
def test_references_to_the_environment(text: str, value: object) -> None:
    document = parse(f"key: {text}", {"HOME": "/home/u", "SEED": "7", "EMPTY": ""})
    assert document == ({"key": value}, ())


def test_a_reference_in_a_key_is_left_alone() -> None:
    assert parse("'${HOME}': 1", {"HOME": "x"}).tree == {"${HOME}": 1}


def test_an_anchored_value_is_replaced_once() -> None:
    assert parse("a: &x $${HOME}\nb: *x", {"HOME": "y"}).tree == {"a": "${HOME}", "b": "${HOME}"}


def test_merge_keys_work() -> None:
    assert parse("a: &x {b: 1}\nc: {<<: *x, d: 2}", {}).tree == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_every_fault_is_told_with_its_path() -> None:
    assert faults("a:\n  - b: ${GONE}\n    c: ${1x}\n  - {d: 1, e: 2, d: 3}\n") == [
        "a[0].b: the environment variable 'GONE' is not set; set it, or write ${GONE:-default}.",
        "a[0].c: '${1x}' names no variable; write ${NAME}, or $${ for a plain ${.",
        "a[1].d: the key is given twice, on line 4 and on line 4; keep one.",
    ]


def test_text_that_is_no_yaml() -> None:
    assert faults("a: [1, 2\nb: 3") == ["the text is not YAML on line 2, column 2: expected ',' or ']', but got ':'."]
    assert faults("a: {b: ${HOME}}") == [
        "the text is not YAML on line 1, column 9: expected ',' or '}', but got '{'. "
        "Quote a value with ${...} inside braces."
    ]
    assert faults("a: !!python/object:os.system {}")[0].startswith(
        "the text is not YAML on line 1, column 4: could not"
    )


# Without line separators other than "\n", which YAML folds.
TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], include_characters="\n\t"))
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
TREES = st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXT, inner)), max_leaves=8)


@given(TREES)
def test_what_is_written_is_read_back(tree: object) -> None:
    assert parse(write(tree), {}) == (tree, ())


@given(st.sampled_from(["${A}", "$${A}", "$$${A}", "1e-3", "012", "no", "<<", "=", "~", "${A:-b} $ ${}", "${A"]))
def test_text_that_looks_like_something_else_is_read_back(text: str) -> None:
    assert parse(write({"key": text}), {"A": "x"}) == ({"key": text}, ())


def test_a_fault_is_a_record() -> None:
    assert parse("- ${X}", {}).faults == (
        Fault("[0]", "the environment variable 'X' is not set; set it, or write ${X:-default}."),
    )
