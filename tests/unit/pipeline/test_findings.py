from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from assay.errors import AssayError, DataError, Fault, ModelError, RunError, SpecError
from assay.pipeline.findings import Findings


def raising(error: Exception) -> Callable[[], None]:
    def step() -> None:
        raise error

    return step


def told(errors: Sequence[Exception]) -> AssayError:
    findings = Findings()
    for error in errors:
        findings.of(raising(error))
    with pytest.raises(AssayError) as caught:
        findings.tell()
    return caught.value


def test_sound_steps_give_what_they_give() -> None:
    findings = Findings()
    assert findings.of(lambda: 3) == 3
    findings.tell()


def test_one_error_is_itself() -> None:
    error = DataError("wrong.")
    assert told([error]) is error


def test_errors_of_one_kind_stay_of_it() -> None:
    models = told([ModelError("a", "one."), ModelError("b", "two.")])
    assert (type(models), str(models)) == (ModelError, "Variant 'a': one.\nVariant 'b': two.")
    data = told([DataError("one."), DataError("two.")])
    assert (type(data), str(data)) == (DataError, "one.\ntwo.")


def test_errors_of_several_kinds_are_faults() -> None:
    mixed = told([SpecError([Fault("metrics[0]", "one."), Fault("", "two.")]), DataError("three.\nfour.")])
    assert isinstance(mixed, SpecError)
    assert mixed.faults == (Fault("metrics[0]", "one."), Fault("", "two."), Fault("", "three."), Fault("", "four."))


def test_other_errors_go_through() -> None:
    with pytest.raises(RunError):
        Findings().of(raising(RunError("no run.")))
