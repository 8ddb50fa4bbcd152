"""What a spec asks of a Ray cluster is said to have no effect where there is none."""

from __future__ import annotations

from assay.pipeline.run import without_effect
from assay.spec.model import DataSpec, PrepareSpec, Spec, VariantSpec, WorkersSpec


def spec(prepare: PrepareSpec | None = None, workers: WorkersSpec | None = None) -> Spec:
    variants = (VariantSpec(name="a", callable="f:g", prepare="tokens"),)
    entries = {} if prepare is None else {"tokens": prepare}
    data = DataSpec(path="data.parquet")
    return Spec(data=data, variants=variants, prepare=entries, workers=workers or WorkersSpec())


def test_nothing_is_said_where_nothing_is_asked() -> None:
    assert without_effect(spec(PrepareSpec(function="f:h", inputs=("x",)), WorkersSpec(num_cpus=1))) == []


def test_gpus_of_workers() -> None:
    assert without_effect(spec(workers=WorkersSpec(num_gpus=1))) == [
        "The spec's `workers` has no effect here: it is for Ray, and these workers are threads."
    ]


def test_tasks_that_prepare() -> None:
    assert without_effect(spec(PrepareSpec(function="f:h", inputs=("x",), tasks=4))) == [
        "The `tasks` of 'tokens' have no effect here: they are Ray's, and workers do it themselves."
    ]
