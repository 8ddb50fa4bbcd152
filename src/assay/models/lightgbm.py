"""A variant saved by LightGBM as a text model.

The file's header names the features and its last line the categories of the pandas columns that it was trained on, so
columns and categories are known without loading it. Categories are mapped by value, as LightGBM itself does for pandas;
the codes of an Arrow dictionary mean nothing to a model.

Axes: n rows of the batch, f features.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assay.errors import ModelError
from assay.models.fingerprint import describe_inputs, describe_outputs, digest_path, fingerprint, path_bytes
from assay.models.function import calling
from assay.models.inputs import (
    check_columns,
    column_inputs,
    decode,
    feature_columns,
    floats,
    is_number,
    positional_columns,
)
from assay.models.outputs import Outputs, Scores, TaskOutput, read_score, resolve_outputs
from assay.protocols import Predictor
from assay.spec.model import ColumnInputs, OutputSpec, VariantSpec
from assay.spec.model import LightGBMModel as LightGBMSpec
from assay.spec.words import listing

LOG_ODDS = ("binary", "cross_entropy", "xentropy")
"""Objectives whose raw score is a logit (times `sigmoid`) and whose prediction is a probability."""
PER_CLASS = ("multiclass", "multiclassova")
"""Objectives that give a probability for each class; `select` chooses one."""

Category = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Header:
    """What a model file says of itself."""

    features: tuple[str, ...]
    objective: str  # "" for one of the user's own
    sigmoid: float
    categories: Mapping[str, pa.Array]  # feature -> its categories, in the order of their codes

    @property
    def named(self) -> bool:
        """False when the model was trained on a matrix, whose columns LightGBM numbers."""
        return self.features != tuple(f"Column_{i}" for i, _ in enumerate(self.features))


@dataclass(frozen=True)
class LightGBMModel:
    """Calls Booster.predict on a float matrix [n, f], on one thread.

    The output's kind decides: probability is the prediction of a binary or multiclass objective, logit the raw score of
    a binary one (or, of several classes, of multiclass), score the prediction of any. Its classes are numbers: column k
    is taken for the task's class k. Null, NaN and a category that the model does not know are missing values.
    """

    name: str
    path: Path
    inputs: ColumnInputs | None
    outputs: Outputs

    @classmethod
    def from_spec(cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path) -> LightGBMModel:
        """`outputs`: the output of each task. ModelError when a setting has no effect."""
        if variant.receive is not None:
            raise ModelError(variant.name, "receive has no effect on a LightGBM model; remove it.")
        given = variant.lightgbm
        path = given.path if isinstance(given, LightGBMSpec) else str(given)
        return cls(variant.name, base / path, column_inputs(variant), resolve_outputs(variant, outputs))

    @cached_property
    def header(self) -> Header:
        return read_header(self.name, self.path)

    @cached_property
    def feature_columns(self) -> tuple[str, ...]:
        """[f] the column of each feature, in the model's order."""
        if self.header.named:
            return feature_columns(self.name, self.header.features, self.inputs)
        return positional_columns(self.name, len(self.header.features), self.inputs)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.feature_columns))

    @property
    def fingerprint(self) -> str:
        parts = {
            "inputs": describe_inputs(self.inputs),
            "outputs": describe_outputs(self.outputs),
            "weights": digest_path(self.name, self.path),
        }
        return fingerprint("lightgbm", parts)

    @property
    def batch_rows(self) -> None:
        return None  # a row goes its own way through the trees

    @property
    def num_bytes(self) -> int:
        return path_bytes(self.path)

    def check(self, schema: pa.Schema) -> None:
        check_columns(self.name, self.columns, schema)
        for feature, column in zip(self.header.features, self.feature_columns, strict=True):
            self._check_type(column, schema.field(column).type, self.header.categories.get(feature))
        for output in self.outputs.values():
            self._check_kind(output)

    def load(self) -> Predictor:
        for output in self.outputs.values():
            self._check_kind(output)
        booster = calling(self.name, f"loading {str(self.path)!r}", lightgbm.Booster, model_file=str(self.path))
        return LoadedBooster(self, booster)

    def features(self, table: pa.Table) -> NDArray[np.float64]:
        """The features [n, f] of rows, categories by the numbers that the model gave them."""
        pairs = zip(self.header.features, self.feature_columns, strict=True)
        columns = [_feature(table.column(column), self.header.categories.get(feature)) for feature, column in pairs]
        return np.column_stack(columns)

    def _check_type(self, column: str, kind: pa.DataType, categories: pa.Array | None) -> None:
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if categories is None and not is_number(kind):
            raise ModelError(
                self.name,
                f"column {column!r} is of type {kind}, but the model records no categories for it and was trained on "
                "numbers.",
            )
        if categories is not None and _family(value) != _family(categories.type):
            raise ModelError(
                self.name,
                f"column {column!r} is of type {kind}, but the model was trained on the categories "
                f"{listing(categories.to_pylist())}, which are of type {categories.type}.",
            )

    def _check_kind(self, output: OutputSpec) -> None:
        objective = self.header.objective
        several = isinstance(output, TaskOutput) and output.several == "classes"
        if output.kind in ("label", "interval"):
            raise ModelError(
                self.name,
                f"the output is to be {'a label' if output.kind == 'label' else 'an interval'}, but a LightGBM model "
                "gives scores; write output: {is: probability} or {is: score}.",
            )
        if several and output.kind == "probability" and objective == "multiclassova":
            raise ModelError(
                self.name,
                "the output is to be a probability, but the model's objective is 'multiclassova', whose predictions do "
                "not sum to 1; write output: {is: score}.",
            )
        if output.kind == "probability" and objective not in LOG_ODDS + PER_CLASS:
            raise ModelError(
                self.name,
                f"the output is to be a probability, but the model's objective is {objective or 'custom'!r}, whose "
                "predictions are none; write output: {is: score}"
                + ("." if objective else ", or {is: logit} if its raw score is one."),
            )
        if output.kind == "logit" and objective not in (*LOG_ODDS, "", *(["multiclass"] if several else [])):
            raise ModelError(
                self.name,
                f"the output is to be a logit, but the model's objective is {objective!r}, whose raw score is none; "
                "write output: {is: score}.",
            )


@dataclass(frozen=True)
class LoadedBooster:
    """A booster, loaded."""

    model: LightGBMModel
    booster: Any  # Any: lightgbm has no types

    @property
    def preparation(self) -> Hashable:
        header = self.model.header
        categories = tuple((feature, tuple(values.to_pylist())) for feature, values in header.categories.items())
        return "lightgbm", tuple(header.features), self.model.feature_columns, categories

    def prepare(self, table: pa.Table) -> NDArray[np.float64]:
        features: NDArray[np.float64] = calling(self.model.name, "preparing its inputs", self.model.features, table)
        return features

    def score(self, prepared: NDArray[np.float64], rows: slice) -> dict[str, Scores]:
        kinds = {output.kind == "logit" for output in self.model.outputs.values()}
        returned = {raw: self._predict(prepared[rows], raw) for raw in kinds}
        return {
            task: read_score(self.model.name, task, output, returned[output.kind == "logit"], rows.stop - rows.start)
            for task, output in self.model.outputs.items()
        }

    def _predict(self, features: NDArray[np.float64], raw: bool) -> object:
        header = self.model.header
        predicted = calling(self.model.name, "predict", self.booster.predict, features, raw_score=raw, num_threads=1)
        return predicted * header.sigmoid if raw and header.objective == "binary" else predicted


def read_header(variant: str, path: Path) -> Header:
    """Reads what the file says of features, objective and categories. ModelError when it is no LightGBM text model."""
    if not path.is_file():
        raise ModelError(variant, f"there is no file {str(path)!r}.")
    try:
        fields = _read_fields(path)
        features = tuple(fields["feature_names"].split(" "))
        objective, _, settings = fields.get("objective", "").partition(" ")
        codes = dict(zip(features, fields["feature_infos"].split(" "), strict=True))
    except (ValueError, KeyError) as error:
        raise ModelError(variant, f"{str(path)!r} is not a model that LightGBM saved as text.") from error
    sigmoid = dict(part.split(":", 1) for part in settings.split() if ":" in part).get("sigmoid", "1")
    categories = _categories(variant, fields, features, codes)
    return Header(features, "" if objective == "custom" else objective, float(sigmoid), categories)


def _read_fields(path: Path) -> dict[str, str]:
    """The header's `name=value` lines, which end at the first empty line, and two lines from behind the trees."""
    with path.open(encoding="utf-8") as lines:
        header = itertools.takewhile(lambda line: line.strip(), lines)
        fields = dict(line.rstrip("\n").split("=", 1) for line in header if "=" in line)
        for line in lines:
            if line.startswith("[categorical_feature:"):
                fields["categorical_feature"] = line.rstrip("]\n").split(":", 1)[1].strip()
            elif line.startswith("pandas_categorical:"):
                fields["pandas_categorical"] = line.split(":", 1)[1]
    return fields


def _categories(
    variant: str, fields: Mapping[str, str], features: tuple[str, ...], codes: Mapping[str, str]
) -> dict[str, pa.Array]:
    """feature -> categories: the recorded lists, in the order of the categorical features' positions."""
    recorded: list[list[Category]] = json.loads(fields.get("pandas_categorical", "null")) or []
    positions = sorted(int(i) for i in fields.get("categorical_feature", "").split(",") if i)
    if not recorded:
        return {}
    named = {features[i]: values for i, values in zip(positions, recorded, strict=False)}
    if len(positions) != len(recorded) or any(_most(codes[name]) >= len(values) for name, values in named.items()):
        raise ModelError(
            variant,
            f"the model records the categories of {len(recorded)} pandas columns and has {len(positions)} categorical "
            f"features, {listing([features[i] for i in positions])}, so it cannot be told which list is whose; "
            "train it with unordered categories and categorical_feature: auto.",
        )
    return {name: _category_array(variant, name, values) for name, values in named.items()}


def _most(codes: str) -> int:
    """The largest code that training saw: `-1:2:0:1` is 2. Other forms (`none`, `[0:1]`) are of no list of codes."""
    return max((int(code) for code in codes.split(":")), default=-1) if codes[:1] not in ("n", "[") else -1


def _category_array(variant: str, feature: str, values: list[Category]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ModelError(variant, f"the categories of feature {feature!r} are of several types: {values}.") from error


def _family(kind: pa.DataType) -> str:
    """Types whose values compare: text, numbers, booleans."""
    if pa.types.is_boolean(kind):
        return "boolean"
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return "text" if is_text else "number" if is_number(kind) else str(kind)


def _feature(column: pa.ChunkedArray, categories: pa.Array | None) -> NDArray[np.float64]:
    """[n] the values of a feature, or the model's own codes for its categories; NaN where missing or not known."""
    if categories is None:
        return floats(column)
    values = decode(column)
    common = pa.float64() if _family(categories.type) == "number" else categories.type
    return floats(pc.index_in(values.cast(common, safe=False), value_set=categories.cast(common)))
