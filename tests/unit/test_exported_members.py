"""The public names of the package are a list; each is there, and no other."""

from __future__ import annotations

import re

import pytest

import assay


def test_the_public_names() -> None:
    assert assay.__all__ == [
        "AssayError",
        "Batch",
        "DataError",
        "Evaluation",
        "Fault",
        "Fenced",
        "Interrupted",
        "MetricError",
        "ModelError",
        "RunError",
        "Spec",
        "SpecError",
        "Unfinished",
        "__version__",
        "evaluate",
        "load_spec",
        "open_run",
        "predict",
        "resume",
        "run",
    ]
    assert dir(assay) == sorted(assay.__all__)


@pytest.mark.parametrize("name", assay.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    member = getattr(assay, name)
    assert name == "__version__" or member.__doc__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=re.escape("module 'assay' has no attribute 'evalute'")):
        assay.evalute  # noqa: B018 - the access is the test


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", assay.__version__)
