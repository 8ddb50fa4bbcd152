"""Metric names as data: `auc`, `ndcg@10`, `precision(threshold=0.3)`.

Lives here: the grammar, the canonical form, and making a metric from its class and parameters. Not here: which class a
name stands for (`table.py`, read by `build`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

from assay.protocols import Metric
from assay.spec.names import offer

Number = int | float

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:@\s*(\d+)\s*)?(?:\((.*)\)\s*)?", re.DOTALL)


def parse(text: str) -> tuple[str, dict[str, Number]]:
    """A metric's name and its parameters; `name@5` means k=5. ValueError when the text is no metric name.

    >>> parse("precision(threshold=0.3)")
    ('precision', {'threshold': 0.3})
    >>> parse("ndcg@10")
    ('ndcg', {'k': 10})
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no metric name; expected one like 'auc', 'ndcg@10' or 'f1(threshold=0.3)'.")
    name, cutoff, inside = match.groups()
    parameters: dict[str, Number] = {} if cutoff is None else {"k": int(cutoff)}
    for part in (inside or "").split(",") if (inside or "").strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key.isidentifier():
            raise ValueError(f"In the metric {text!r}, {part.strip()!r} is no parameter; expected 'name=number'.")
        if key in parameters:
            raise ValueError(f"In the metric {text!r}, the parameter {key!r} is given twice.")
        parameters[key] = _number(text, key, value)
    return name, parameters


def canonical(name: str, parameters: Mapping[str, Number], defaults: Mapping[str, Number]) -> str:
    """The one name of a metric: only parameters that are not the defaults, in the order of `defaults`.

    >>> canonical("ece", {"bins": 16}, {"bins": 32})
    'ece(bins=16)'
    >>> canonical("ece", {"bins": 32}, {"bins": 32})
    'ece'
    """
    changed = [f"{key}={_plain(parameters[key])}" for key in defaults if parameters[key] != defaults[key]]
    return f"{name}({', '.join(changed)})" if changed else name


def make(metric: Callable[..., Metric], name: str, parameters: Mapping[str, Number]) -> Metric:
    """The metric of that class with these parameters. ValueError for a parameter that it does not have or not allow."""
    known = list(inspect.signature(metric).parameters)
    for key in parameters:
        if key not in known:
            end = offer(key, known) if known else "; it takes none."
            raise ValueError(f"The metric {name!r} has no parameter {key!r}{end}")
    return metric(**parameters)


def _number(text: str, key: str, value: str) -> Number:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    raise ValueError(f"In the metric {text!r}, the parameter {key!r} is {value!r}; expected a number.")


def _plain(value: Number) -> str:
    return str(int(value)) if value == int(value) else repr(value)
