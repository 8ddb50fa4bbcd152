"""Evaluate many variants of a model on real data in one pass, and say which of them may ship and why.

    import assay
    assay.evaluate("preds.parquet", label="clicked", scores=["p_*"], baseline="p_old", cluster="user_id")

A name below is loaded when it is first used, so that `import assay` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api import evaluate, open_run, predict, resume, run
    from assay.errors import (
        AssayError,
        DataError,
        Fault,
        Fenced,
        Interrupted,
        MetricError,
        ModelError,
        RunError,
        SpecError,
        Unfinished,
    )
    from assay.evaluation import Evaluation
    from assay.metrics.own import Batch
    from assay.spec.load import load_spec
    from assay.spec.model import Spec

__version__ = "0.1.0"

__all__ = [
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

_ERRORS = (
    "AssayError",
    "DataError",
    "Fault",
    "Fenced",
    "Interrupted",
    "MetricError",
    "ModelError",
    "RunError",
    "SpecError",
    "Unfinished",
)
_MODULES = {
    **dict.fromkeys(("evaluate", "open_run", "predict", "resume", "run"), "assay.api"),
    **dict.fromkeys(_ERRORS, "assay.errors"),
    "Batch": "assay.metrics.own",
    "Evaluation": "assay.evaluation",
    "Spec": "assay.spec.model",
    "load_spec": "assay.spec.load",
}


def __getattr__(name: str) -> Any:  # Any: whatever the name stands for; TYPE_CHECKING above says it precisely
    if name not in _MODULES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
