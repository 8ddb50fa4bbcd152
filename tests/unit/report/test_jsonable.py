"""JSON forms and the way back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa

from assay.records import Interval, Undefined
from assay.report.jsonable import evaluation_json, jsonable, read_verdicts, verdicts_json


def test_values():
    assert jsonable(float("nan")) is None
    assert jsonable([float("inf"), -float("inf"), 1.5, True, None, 3, "x"]) == [
        "Infinity",
        "-Infinity",
        1.5,
        True,
        None,
        3,
        "x",
    ]
    assert jsonable(np.array([1.0, np.nan])) == [1.0, None]
    assert jsonable(np.int64(3)) == 3
    assert jsonable({Undefined.FAILED: Undefined.FAILED}) == {"the variant failed": "the variant failed"}
    assert jsonable(pa.table({"a": [1.0, None]})) == [{"a": 1.0}, {"a": None}]


def test_records_and_named_tuples_by_field():
    interval = Interval(1.0, float("nan"), 0.0, 2.0, 63, Undefined.ONE_CLASS)

    assert jsonable(interval) == {
        "value": 1.0, "standard_error": None, "low": 0.0, "high": 2.0, "degrees": 63, "undefined": "one class",
    }  # fmt: skip


def test_an_evaluation_is_strict_json(results):
    content = json.loads(json.dumps(evaluation_json(results), allow_nan=False))

    tables = ["metrics", "comparisons", "curves", "coverage", "families"]
    assert list(content) == ["outcome", *tables, "verdicts", "notes", "cost"]
    assert content["metrics"][1]["undefined"] == "one class"
    assert content["verdicts"][0]["gates"][1]["p_pass"] is None


def test_verdicts_survive_the_round_trip_with_nan_and_infinity(results):
    verdict = results.verdicts[0]
    gates = (replace(verdict.gates[0], value=math.inf, low=-math.inf, clusters_more=120), verdict.gates[1])
    whole = replace(results, verdicts=(replace(verdict, gates=gates),))

    back = read_verdicts(json.loads(json.dumps(verdicts_json(whole), allow_nan=False)))

    assert repr(back) == repr(whole.verdicts)
    assert math.isnan(back[0].gates[1].p_pass)


def test_fields_keep_their_types(results):
    gates = (replace(results.verdicts[0].gates[0], value=1.0),)
    back = read_verdicts(
        json.loads(json.dumps(verdicts_json(replace(results, verdicts=(replace(results.verdicts[0], gates=gates),)))))
    )

    assert isinstance(back[0].gates[0].value, float)
    assert isinstance(back[0].gates[0].rows, int)
