"""Metric names as data: `auc`, `ndcg@10`, `precision(threshold=0.3)`, `recall(class='two words')`.

A parameter is a number, a word (letters, digits, `_`, `.` and `-`, a letter or `_` first), or a text in quotes, where a
backslash takes the character after it as it is.

Lives here: the grammar, the canonical form, and making a metric from its class and parameters. Not here: which class a
name stands for (`table.py`, read by `catalogue`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from keyword import iskeyword

from assay.protocols import Metric
from assay.spec.names import offer

Number = int | float
Value = int | float | str

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:@\s*(\d+)\s*)?(?:\((.*)\)\s*)?", re.DOTALL)
_PARAMETER = re.compile(r"""(?: [^,'"\\] | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )+""", re.DOTALL | re.VERBOSE)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_WORD = re.compile(r"[^\W\d][\w.-]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def parse(text: str) -> tuple[str, dict[str, Value]]:
    """A metric's name and its parameters; `name@5` means k=5. ValueError when the text is no metric name.

    >>> parse("precision(threshold=0.3)")
    ('precision', {'threshold': 0.3})
    >>> parse("ndcg@10")
    ('ndcg', {'k': 10})
    >>> parse("recall(class='two words')")
    ('recall', {'class': 'two words'})
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no metric name; expected one like 'auc', 'ndcg@10' or 'f1(threshold=0.3)'.")
    name, cutoff, inside = match.groups()
    parameters: dict[str, Value] = {} if cutoff is None else {"k": int(cutoff)}
    for part in _parts(text, inside or ""):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key.isidentifier():
            raise ValueError(f"In the metric {text!r}, {part.strip()!r} is no parameter; expected 'name=value'.")
        if key in parameters:
            raise ValueError(f"In the metric {text!r}, the parameter {key!r} is given twice.")
        parameters[key] = _value(text, key, value)
    return name, parameters


def canonical(name: str, parameters: Mapping[str, Value], defaults: Mapping[str, Value | None]) -> str:
    """The one name of a metric: only parameters that are not the defaults, in the order of `defaults`.

    A parameter without a default has None there.

    >>> canonical("ece", {"bins": 16}, {"bins": 32})
    'ece(bins=16)'
    >>> canonical("ece", {"bins": 32}, {"bins": 32})
    'ece'
    >>> canonical("recall", {"class": "two words"}, {"class": None})
    "recall(class='two words')"
    """
    changed = [f"{key}={_plain(parameters[key])}" for key in defaults if parameters[key] != defaults[key]]
    return f"{name}({', '.join(changed)})" if changed else name


def make(metric: Callable[..., Metric], name: str, parameters: Mapping[str, Value]) -> Metric:
    """The metric of that class with these parameters.

    A parameter whose name is a keyword of Python has an underscore at its end in the class. ValueError for one that it
    does not have or not allow, for one that is missing, and for a word where it wants a number.
    """
    known = {_shown(key): one for key, one in inspect.signature(metric).parameters.items()}
    for key, value in parameters.items():
        if key not in known:
            end = offer(key, known) if known else "; it takes none."
            raise ValueError(f"The metric {name!r} has no parameter {key!r}{end}")
        if isinstance(value, str) and not _takes_words(known[key]):
            raise ValueError(f"In the metric {name!r}, the parameter {key!r} is {value!r}; expected a number.")
    for key, one in known.items():
        if key not in parameters and one.default is inspect.Parameter.empty:
            like = f"{name}@5" if key == "k" else f"{name}({key}=...)"
            raise ValueError(f"The metric {name!r} needs the parameter {key!r}, as in '{like}'.")
    return metric(**{known[key].name: value for key, value in parameters.items()})


def _shown(key: str) -> str:
    return key[:-1] if key.endswith("_") and iskeyword(key[:-1]) else key


def _takes_words(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    return "str" in (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation)))


def _parts(text: str, inside: str) -> list[str]:
    """What stands between commas, but for those in quotes; none where there is nothing."""
    parts, position = [], 0
    while inside.strip() and position <= len(inside):
        match = _PARAMETER.match(inside, position)
        end = position if match is None else match.end()
        if end < len(inside) and inside[end] != ",":
            raise ValueError(f"In the metric {text!r}, {inside[position:].strip()!r} has a quote that is not closed.")
        parts.append(inside[position:end])
        position = end + 1
    return parts


def _value(text: str, key: str, value: str) -> Value:
    if _NUMBER.fullmatch(value):
        return int(value) if _WHOLE.fullmatch(value) else float(value)
    if _WORD.fullmatch(value):
        return value
    if _QUOTED.fullmatch(value):
        return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
    raise ValueError(
        f"In the metric {text!r}, the parameter {key!r} is {value!r}; expected a number, a word or a text in quotes."
    )


def _plain(value: Value) -> str:
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) or _is_plain_integer(value) else _quoted(value)
    return str(int(value)) if value == int(value) else repr(value)


def _is_plain_integer(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None and str(int(value)) == value


def _quoted(value: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
