"""What pydantic says of a tree, as faults: each with the path a user would write, one for each thing that is wrong.

pydantic tries every member of a union and reports what each lacks. Here only the member that the user most likely meant
is kept, and its name leaves the path.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from assay.errors import Fault
from assay.spec.names import nearest, offer
from assay.spec.paths import Steps, render

_WRONG_TYPE = ("string_type", "tuple_type", "dict_type", "model_type", "int_type", "float_type", "bool_type")
_EXPECTED = {
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "invalid_key": "keys that are text",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
OFTEN_ALONE = ("is", "type")
"""Keys of outputs whose values are often written in the place of the mapping."""


class _Tag(str):
    """The name of a union's member, where pydantic puts it between the steps of a path."""


class _Finding(NamedTuple):
    """One of pydantic's errors. `steps` holds real steps and, until settled, union members."""

    steps: Steps
    error: ErrorDetails


class Located(NamedTuple):
    """A fault with its path as steps."""

    steps: Steps
    fault: Fault


def located_faults(model: type[BaseModel], tree: object, error: ValidationError) -> list[Located]:
    """The faults of a tree that `model` refused, in the order of the tree."""
    findings = [_Finding(_marked(tree, one), one) for one in error.errors(include_url=False)]
    settled = list(_settled(findings))
    return [
        Located(one.steps, Fault(render(one.steps), _sentence(model, one)))
        for one in settled
        if not _is_echo(model, one, settled)
    ]


def _marked(tree: object, error: ErrorDetails) -> Steps:
    """The location, with what is no step into the tree marked as a union's member."""
    location = [step for step in error["loc"] if step != "[key]"]
    steps: list[str | int] = []
    for position, step in enumerate(location):
        absent_key = position == len(location) - 1 and error["type"] == "missing"
        if absent_key or _steps_into(tree, step):
            steps.append(step)
            tree = None if absent_key else tree[step]  # type: ignore[index]  # _steps_into has looked
        else:
            steps.append(_Tag(step))
    return tuple(steps)


def _steps_into(tree: object, step: str | int) -> bool:
    if isinstance(tree, list | tuple):
        return isinstance(step, int) and step < len(tree)
    return isinstance(tree, Mapping) and step in tree


def _settled(findings: Sequence[_Finding]) -> Iterator[_Finding]:
    """Of each union's members keep one; outer unions first."""
    for (start, has_tag), group in groupby(findings, key=lambda one: _before_tag(one.steps)):
        if not has_tag:
            yield from group
            continue
        by_member: dict[str | int, list[_Finding]] = {}
        for one in group:
            rest = (*start, *one.steps[len(start) + 1 :])
            by_member.setdefault(one.steps[len(start)], []).append(one._replace(steps=rest))
        fitting = [members for members in by_member.values() if not _misfits(members, start)]
        if fitting:
            yield from _settled(min(fitting, key=_unlikelihood))
        else:
            yield _merged(start, [one for members in by_member.values() for one in members])


def _before_tag(steps: Steps) -> tuple[Steps, bool]:
    position = next((index for index, step in enumerate(steps) if isinstance(step, _Tag)), None)
    return (steps, False) if position is None else (steps[:position], True)


def _misfits(findings: Sequence[_Finding], place: Steps) -> bool:
    """Whether the value at `place` is of another type altogether."""
    return all(one.steps == place and (one.error["type"] in _WRONG_TYPE or _is_no_word(one)) for one in findings)


def _is_no_word(finding: _Finding) -> bool:
    """Whether a word was expected, and what is there is none."""
    return finding.error["type"] == "literal_error" and not isinstance(finding.error["input"], str)


def _unlikelihood(findings: Sequence[_Finding]) -> tuple[int, int, int]:
    """Small for the member that was most likely meant: few values of a wrong type, faults deep inside, few faults."""
    wrong_types = sum(one.error["type"] in _WRONG_TYPE for one in findings)
    return wrong_types, -max(len(one.steps) for one in findings), len(findings)


def _merged(place: Steps, findings: Sequence[_Finding]) -> _Finding:
    expected = list(dict.fromkeys(_expected(one.error) for one in findings))
    error = findings[0].error.copy()
    error["type"] = "union_type"
    error["msg"] = " or ".join(filter(None, (", ".join(expected[:-1]), expected[-1])))
    return _Finding(place, error)


def _expected(error: ErrorDetails) -> str:
    words: str = error.get("ctx", {}).get("expected", "") or _EXPECTED[error["type"]]
    return words


def _is_echo(model: type[BaseModel], finding: _Finding, findings: Sequence[_Finding]) -> bool:
    """Whether another fault says it better: a key is missing as it is misspelt, a list short of its faulty entries."""
    kind, steps = finding.error["type"], finding.steps
    if kind == "too_short":
        return any(len(one.steps) > len(steps) and one.steps[: len(steps)] == steps for one in findings)
    if kind != "missing":
        return False
    unknown = [one.steps for one in findings if one.error["type"] == "extra_forbidden"]
    keys = _keys_at(model, steps[:-1])
    return any(other[:-1] == steps[:-1] and nearest(str(other[-1]), keys) == steps[-1] for other in unknown)


def _sentence(model: type[BaseModel], finding: _Finding) -> str:
    error, got = finding.error, f"got {_shown(finding.error['input'])}"
    kind, context = error["type"], error.get("ctx", {})
    if error["loc"] and error["loc"][-1] == "[key]":
        return f"the key {error['input']!r} is not text; quote it."
    if kind == "extra_forbidden":
        key = str(finding.steps[-1])
        return f"unknown key {key!r}{offer(key, _keys_at(model, finding.steps[:-1]))}"
    if kind == "missing":
        in_list = isinstance(finding.steps[-1], int)
        return "is missing from the list." if in_list else "is required, and not given."
    if kind == "too_long":
        return f"{got}; expected at most {context['max_length']}."
    if kind in ("too_short", "string_too_short"):
        return "is empty."
    if kind == "literal_error":
        return f"{got}{_literal(error['input'], context['expected'])}"
    if kind == "tuple_type" and isinstance(error["input"], str) and error["input"]:
        return f"{got}; expected a list: [{error['input']}]."
    if kind in ("model_type", "union_type") and isinstance(error["input"], str):
        for key in _keys_at(model, finding.steps):
            if key in OFTEN_ALONE:
                return f"{got}; expected a mapping: {{{key}: {_quoted_word(error['input'])}}}."
    if kind in _EXPECTED:
        return f"{got}; expected {_EXPECTED[kind].format(**context)}."
    return f"{got}; expected {error['msg'].removeprefix('Input should be ').removeprefix('Value error, ')}."


def _literal(value: object, expected: str) -> str:
    if isinstance(value, str) and (near := nearest(value, _quoted(expected))):
        return f"; did you mean {near!r}?"
    return f"; expected {expected.replace('True', 'true')}."


def _quoted_word(text: str) -> str:
    """As YAML takes it in a mapping."""
    return text if text.isidentifier() else f'"{text}"'


def _quoted(expected: str) -> list[str]:
    return expected.split("'")[1::2]


def _shown(value: object) -> str:
    """A value as a user wrote it, cut when long."""
    plain = {None: "nothing", True: "true", False: "false"}
    text = plain[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _keys_at(model: type[BaseModel], steps: Steps) -> list[str]:
    """The keys that may be given at a place in the tree."""
    kinds: list[Any] = [model]  # Any: annotations
    for step in steps:
        kinds = [inner for kind in kinds for inner in _stepped(kind, step)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


def _stepped(kind: Any, step: str | int) -> Iterator[Any]:  # Any: annotations
    """The types, unions taken apart, that lie one step below a type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {field.alias or name: field for name, field in kind.model_fields.items()}
        if step in fields:
            yield from _members(fields[str(step)].annotation)
        elif kind.model_config.get("extra") == "allow":
            yield from _stepped(get_type_hints(kind)["__pydantic_extra__"], step)
    elif get_origin(kind) is dict or get_origin(kind) is tuple:
        yield from _members(get_args(kind)[get_origin(kind) is dict])


def _members(kind: Any) -> Iterator[Any]:  # Any: annotations
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind
