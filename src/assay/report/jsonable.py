"""Records and tables as JSON values, and verdicts back from them.

JSON has no NaN and no infinity: NaN becomes null, infinity the text "Infinity" or "-Infinity".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from assay.records import GateResult, Results, Verdict

Json = (
    Any  # a JSON value: None, bool, int, float, str, list or dict of them; the recursive type defeats mypy's inference
)


def jsonable(value: object) -> Json:
    """A record (dataclass or named tuple), mapping, sequence, array, Arrow table or plain value as a JSON value.

    >>> jsonable({"a": (1, float("nan"), float("inf"))})
    {'a': [1, None, 'Infinity']}
    """
    if isinstance(value, pa.Table):
        return [jsonable(row) for row in value.to_pylist()]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(one) for one in value]
    return _number(value) if isinstance(value, float) else _plain(value)


def evaluation_json(results: Results) -> dict[str, Json]:
    """Everything of an evaluation: result tables as lists of rows, verdicts, outcome, notes."""
    return {
        "outcome": results.outcome,
        **{field.name: jsonable(getattr(results, field.name)) for field in fields(results)},
    }


def verdicts_json(results: Results) -> dict[str, Json]:
    """The content of results/verdicts.json: outcome, notes and verdicts, without the tables."""
    return {name: jsonable(getattr(results, name)) for name in ("outcome", "notes", "verdicts")}


def read_verdicts(content: Mapping[str, Json]) -> tuple[Verdict, ...]:
    """The verdicts of `verdicts_json`, with NaN where it wrote null."""
    return tuple(
        Verdict(one["variant"], one["outcome"], one["reason"], tuple(_gate_result(gate) for gate in one["gates"]))
        for one in content["verdicts"]
    )


def _gate_result(content: Mapping[str, Json]) -> GateResult:
    values: dict[str, Any] = {name: _float(one) if name in _FLOATS else one for name, one in content.items()}
    return GateResult(**values)


_FLOATS = frozenset(field.name for field in fields(GateResult) if field.type in ("float", float))


def _float(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _plain(value: object) -> Json:
    return value if value is None or isinstance(value, bool | int | str) else str(value)
