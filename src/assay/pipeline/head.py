"""The head of a run: what it is, written before its first commit.

Not here: when it is written, and what is compared with it later (`run.py`).
"""

from __future__ import annotations

import platform
import uuid
from importlib.metadata import PackageNotFoundError, version

from assay.pipeline.prepare import Prepared
from assay.protocols import PlacedSource, Source
from assay.records import Plan
from assay.store.run import RunDirectory

PACKAGES = ("assay", "numpy", "pyarrow", "numba", "duckdb", "scikit-learn", "lightgbm", "torch", "ray")
FRAME = "a frame in memory"


def environment(prepared: Prepared, directory: RunDirectory) -> dict[str, object]:
    name = "environment.json"
    begun = directory.read_json(name) if directory.store.exists(name) else {}
    return {
        "base": str(prepared.base),
        "resumable": prepared.source.resumable,
        **({} if prepared.source.resumable else {"rows": rows_words(prepared.source)}),
        "run": begun.get("run") or uuid.uuid4().hex,  # by which a folder or table knows its predictions
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "packages": _versions(),
    }


def notes_of_versions(directory: RunDirectory) -> list[str]:
    """What differs from the versions that the run began with, among the packages that there were and are."""
    before, now = directory.read_json("environment.json")["packages"], _versions()
    return [
        f"This run began with {name} {before[name]} and went on with {now[name]}; last digits may differ between its "
        "units."
        for name in now
        if before.get(name, now[name]) != now[name]
    ]


def rows_words(source: Source) -> str:
    """What rows are that are gone with this process."""
    return source.whence if isinstance(source, PlacedSource) else FRAME


def variants(prepared: Prepared) -> list[dict[str, object]]:
    return [
        {
            "name": variant.name,
            "baseline": variant.name == prepared.spec.baseline,
            "fingerprint": prepared.plan.fingerprints[variant.name],
            **variant.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"name"}),
        }
        for variant in prepared.spec.variants
    ]


def execution(plan: Plan) -> dict[str, object]:
    return {
        "path": "loop",
        "precision": "as the model gives it",
        "rows_per_call": dict(plan.batch_rows),  # null: a whole row group, or the unit's part of it
        "calls_start_at": "the first row of a row group",
    }


def _versions() -> dict[str, str]:
    """Of those of `PACKAGES` that are installed."""
    return {name: found for name in PACKAGES if (found := _version(name))}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
