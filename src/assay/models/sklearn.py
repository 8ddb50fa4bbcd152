"""A variant saved by scikit-learn, or by a library with its interface: a joblib or pickle file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
import pyarrow as pa

from assay.errors import ModelError
from assay.models.fingerprint import describe_inputs, describe_outputs, digest_path, fingerprint, path_bytes
from assay.models.function import calling
from assay.models.inputs import Argument, InputReader, column_inputs, feature_columns, positional_columns
from assay.models.outputs import Outputs, Scores, TaskOutput, read_score, resolve_outputs
from assay.models.prepared import PreparedInputs, Reader, inputs_of
from assay.protocols import Predictor, Preparation
from assay.spec.model import ColumnInputs, OutputSpec, Receive, VariantSpec
from assay.spec.model import SklearnModel as SklearnSpec
from assay.spec.words import listing
from assay.value_names import names_of

Estimator = Any
"""Any: an estimator has no base class to name; what is missing is said when it is called."""
Method = Literal["predict_proba", "decision_function", "predict"]
METHODS: dict[str | None, Method] = {
    "probability": "predict_proba",
    "logit": "decision_function",
    "score": "predict",
    "interval": "predict",
}
METHODS_OF_SEVERAL: dict[str | None, Method] = {
    "probability": "predict_proba",
    "logit": "decision_function",
    "score": "decision_function",
    "label": "predict",
}
"""Of a task of several classes, or of sets of labels."""


class _Call(NamedTuple):
    """How the score of one task is got."""

    method: Method
    output: OutputSpec  # with `select` resolved to a column
    order: tuple[int, ...] | None = None  # the model's column of each of the task's classes, where they differ
    positives: tuple[int, ...] | None = None  # of a list with a matrix for each label, the column of 1 in each


@dataclass(frozen=True)
class SklearnModel:
    """Calls predict_proba (the column of class 1), decision_function or predict.

    Of several classes the columns are put in the order of the task's classes, by the `classes_` that the estimator
    recorded, which must be the same ones. Of sets of labels they stand as in training.

    An estimator that recorded the names it was trained on gets a pandas frame with these, whatever the order of the
    data's columns; one that recorded none gets a float matrix of `inputs`, in their order (or a frame, with `receive:
    pandas`). scikit-learn records no dtypes: in a frame integers and booleans are float64, so that a null does not
    change the type, and categories are plain values, never codes.
    """

    name: str
    path: Path
    method: Method | None
    inputs: ColumnInputs | None
    receive: Receive | None
    outputs: Outputs
    made_by: Preparation | None = None

    @classmethod
    def from_spec(
        cls, variant: VariantSpec, outputs: Mapping[str, OutputSpec], base: Path, made_by: Preparation | None = None
    ) -> SklearnModel:
        """`outputs`: the output of each task; made_by: of what it receives.

        ModelError when it may not be loaded, or a setting cannot be followed.
        """
        given = variant.sklearn
        spec = given if isinstance(given, SklearnSpec) else SklearnSpec(path=str(given), method=None)
        if variant.receive not in (None, "pandas", "matrix"):
            raise ModelError(
                variant.name, f"receive is {variant.receive!r}; a scikit-learn model receives pandas or matrix."
            )
        resolved = resolve_outputs(variant, outputs)
        lacks = []
        if not variant.trusted:
            lacks.append(
                f"{spec.path!r} is a joblib or pickle file, and loading one runs whatever code is in it; if you trust "
                "the one who wrote it, say trusted: true."
            )
        if spec.method is None and any(output.kind is None for output in resolved.values()):
            lacks.append(
                "the spec does not say what the score is, so the method to call is not known; write output: {is: "
                "probability}, {is: logit} or {is: score}."
            )
        if lacks:
            raise ModelError(variant.name, " And ".join(lacks))
        return cls(
            variant.name, base / spec.path, spec.method, column_inputs(variant), variant.receive, resolved, made_by
        )

    @cached_property
    def reader(self) -> Reader:
        """How the model gets its inputs, by the names that it recorded: opens the file, once."""
        if self.made_by is not None:
            return PreparedInputs(self.name, self.made_by, None)
        return self._reader(self._read_estimator())

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reader.columns

    @property
    def fingerprint(self) -> str:
        parts = {
            "method": self.method,
            "inputs": describe_inputs(self.inputs),
            "receive": self.receive,
            "outputs": describe_outputs(self.outputs),
            "weights": digest_path(self.name, self.path),
        }
        if self.made_by is not None:
            parts["prepare"] = self.made_by.fingerprint
        return fingerprint("sklearn", parts)

    @property
    def batch_rows(self) -> int:
        return 16_384  # a call costs milliseconds, whatever it holds

    @property
    def num_bytes(self) -> int:
        return path_bytes(self.path)

    def check(self, schema: pa.Schema) -> None:
        self.reader.check(schema)

    def load(self) -> Predictor:
        estimator, reader = self._read_estimator(), self.reader
        calls = {task: self._call(output, estimator) for task, output in self.outputs.items()}
        methods = {call.method: self._bound(estimator, call.method) for call in calls.values()}

        return LoadedEstimator(self.name, reader, calls, methods)

    def _read_estimator(self) -> Estimator:
        if not self.path.is_file():
            raise ModelError(self.name, f"there is no file {str(self.path)!r}.")
        return calling(self.name, f"loading {str(self.path)!r}", joblib.load, self.path)

    def _reader(self, estimator: Estimator) -> InputReader:
        features = getattr(estimator, "feature_names_in_", None)
        if features is not None and self.receive == "matrix":
            raise ModelError(
                self.name, "the model was trained with column names and receives pandas; remove receive: matrix."
            )
        if features is not None:
            names = tuple(str(feature) for feature in features)
            return self._single_columns(names, feature_columns(self.name, names, self.inputs), "pandas")
        columns = positional_columns(self.name, getattr(estimator, "n_features_in_", None), self.inputs)
        names = tuple(self.inputs) if self.inputs and len(self.inputs) == len(columns) else columns
        return self._single_columns(names, columns, self.receive or "matrix")

    def _single_columns(self, names: tuple[str, ...], columns: tuple[str, ...], receive: Receive) -> InputReader:
        arguments = tuple(Argument(name, (column,), True) for name, column in zip(names, columns, strict=True))
        return InputReader(self.name, arguments, receive, floats=True)

    def _bound(self, estimator: Estimator, method: Method) -> Callable[[object], object]:
        bound: Callable[[object], object] | None = getattr(estimator, method, None)
        if bound is None:
            has = [one for one in dict.fromkeys(METHODS.values()) if hasattr(estimator, one)]
            raise ModelError(
                self.name, f"the model ({type(estimator).__name__}) has no method {method!r}; it has {listing(has)}."
            )
        return bound

    def _call(self, output: OutputSpec, estimator: Estimator) -> _Call:
        classes = list(getattr(estimator, "classes_", ()))
        if isinstance(output, TaskOutput):
            method = self.method or METHODS_OF_SEVERAL[output.kind]
            return _call_of_several(self.name, method, output, classes)
        method = self.method or METHODS[output.kind]
        if method == "predict" or isinstance(output.select, int) or not classes:
            return _Call(method, output)
        column = _class_column(self.name, method, classes, output.select)
        return _Call(method, OutputSpec(kind=output.kind, select=column))


@dataclass(frozen=True)
class LoadedEstimator:
    """An estimator with the methods that its tasks call."""

    name: str
    reader: Reader
    calls: Mapping[str, _Call]  # by task
    methods: Mapping[Method, Callable[[object], object]]

    @property
    def preparation(self) -> Hashable:
        return self.reader.preparation

    def prepare(self, table: pa.Table) -> Any:  # Any: a frame or a matrix
        return calling(self.name, "preparing its inputs", self.reader.read, table)

    def score(self, prepared: Any, rows: slice) -> dict[str, Scores]:  # Any: as above
        features = inputs_of(self.reader, prepared, rows)
        with joblib.parallel_config(backend="sequential"):
            returned = {name: calling(self.name, name, method, features) for name, method in self.methods.items()}
        return {
            task: read_score(self.name, task, call.output, _put(returned[call.method], call), rows.stop - rows.start)
            for task, call in self.calls.items()
        }


def _call_of_several(variant: str, method: Method, output: TaskOutput, classes: list[Any]) -> _Call:  # Any: labels
    if method == "predict" or not classes:
        return _Call(method, output)
    if output.several == "classes":
        return _Call(method, output, order=_order(variant, classes, output.names))
    if all(np.ndim(one) == 1 for one in classes):
        return _Call(method, output, positives=_positives(variant, classes, output.names))
    return _Call(method, output)


def _order(variant: str, classes: list[Any], names: tuple[str, ...]) -> tuple[int, ...] | None:  # Any: labels
    """The model's column of each class; None where they stand in order."""
    known = [str(name) for name in names_of(pa.array([_plain(one) for one in classes]), "classes_").to_pylist()]
    unknown, missing = [one for one in known if one not in names], [one for one in names if one not in known]
    if missing:
        raise ModelError(
            variant,
            f"the model's classes are {listing(known)}, and it was never trained on {listing(missing)}, which the task "
            "has; a class without a column would have no score. Train it on all classes, or declare those it has.",
        )
    if unknown:
        raise ModelError(
            variant,
            f"the model's classes are {listing(known)}, and the task has no {listing(unknown)}; declare them in "
            "classes, where a class may have no row.",
        )
    order = tuple(known.index(one) for one in names)
    return None if order == tuple(range(len(order))) else order


def _positives(variant: str, classes: list[Any], names: tuple[str, ...]) -> tuple[int, ...]:  # Any: an array for each
    """Where 1 is among the two classes of each label."""
    found = []
    for label, two in enumerate(classes):
        places = [place for place, one in enumerate(two) if one == 1]
        if not places:
            name = names[label] if label < len(names) else str(label)
            raise ModelError(
                variant,
                f"the model's classes for the label {name!r} are {listing(map(_plain, two))}, and none is 1: it was "
                "never trained on a row with this label, and gives no score for it.",
            )
        found.append(places[0])
    return tuple(found)


def _plain(value: Any) -> Any:  # Any: a label as numpy holds it
    return value.item() if isinstance(value, np.generic) else value


def _put(returned: Any, call: _Call) -> Any:  # Any: what the estimator gives
    """The output with a column for each class or label of the task, in their order."""
    if call.positives is not None and isinstance(returned, list):
        pairs = zip(returned, call.positives, strict=True)
        return np.column_stack([np.asarray(matrix)[:, place] for matrix, place in pairs])
    if not isinstance(call.output, TaskOutput) or call.output.several != "classes" or call.method == "predict":
        return returned
    scores = np.asarray(returned)
    if scores.ndim == 1 and call.method == "decision_function" and len(call.output.names) == 2:
        scores = np.column_stack([np.zeros_like(scores), scores])  # of two classes it scores the second
    return (
        scores
        if call.order is None or scores.ndim != 2 or scores.shape[1] != len(call.order)
        else scores[:, call.order]
    )


def _class_column(variant: str, method: Method, classes: list[Any], select: str | None) -> int | None:  # Any: labels
    """The column of the chosen class, which is class 1 of two unless named; None where there is one column for two."""
    chosen = [i for i, label in enumerate(classes) if (str(label) == select if select else np.all(label == 1))]
    if len(chosen) != 1 or (select is None and len(classes) != 2):
        problem = f", and output.select is {select!r}" if select else ", not 0 and 1"
        raise ModelError(
            variant,
            f"the model's classes are {listing([str(label) for label in classes])}{problem}; say whose score is meant "
            "with output: {select: CLASS}.",
        )
    if method == "predict_proba" or len(classes) > 2:
        return chosen[0]
    if chosen[0] == 0:
        raise ModelError(
            variant,
            f"decision_function scores class {str(classes[1])!r}, not class {str(classes[0])!r}; use output: "
            "{is: probability}.",
        )
    return None
