"""Digests of what a model's scores depend on: weights, code, settings, inputs and outputs.

They are the same on every machine: no absolute path, time or order of a folder's listing enters them, and neither does
the variant's name, so that twins under two names are found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.errors import ModelError
from assay.models.outputs import Outputs, TaskOutput, ValueOutput
from assay.models.prepared import PreparedInputs, Reader
from assay.spec.model import ColumnInputs


def fingerprint(kind: str, parts: Mapping[str, object]) -> str:
    """The hex digest of a model: its kind and named parts, each of which JSON can hold."""
    document = json.dumps([kind, parts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(document.encode()).hexdigest()


def describe_outputs(outputs: Outputs) -> dict[str, list[str | int | None]]:
    """Without the names of classes, which are the plan's."""
    return {
        task: [
            spec.kind,
            spec.select,
            *([spec.several] if isinstance(spec, TaskOutput) else [spec.type] if isinstance(spec, ValueOutput) else []),
        ]
        for task, spec in outputs.items()
    }


def describe_inputs(inputs: ColumnInputs | None) -> object:
    """Inputs with their order, which decides a matrix; a mapping and a list stay apart."""
    return ["mapping", list(inputs.items())] if isinstance(inputs, dict) else ["list", inputs]


def describe_reader(reader: Reader) -> object:
    if isinstance(reader, PreparedInputs):
        return ["prepared", reader.receive, reader.made_by.fingerprint]
    return [reader.receive, reader.arguments]


def digest_files(variant: str, base: Path, files: Sequence[str]) -> list[str]:
    """The digests of files or folders that user code reads. ModelError when one is missing."""
    return [digest_path(variant, base / file) for file in files]


def digest_path(variant: str, path: Path) -> str:
    """The digest of a file's content, or of a folder's files with their relative paths. ModelError without either."""
    if path.is_file():
        return _digest_file(path)
    if not path.is_dir():
        raise ModelError(variant, f"there is no file or folder {str(path)!r}.")
    files = {one.relative_to(path).as_posix(): one for one in path.rglob("*") if one.is_file()}
    lines = [f"{name}\0{_digest_file(files[name])}\n" for name in sorted(files) if "__pycache__/" not in name]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def path_bytes(*paths: Path) -> int:
    """The bytes of what is digested: files, and those in folders. What is missing has none: the digest refuses it."""
    files = (one for path in paths for one in ((path,) if path.is_file() else path.rglob("*")) if one.is_file())
    return sum(one.stat().st_size for one in files if one.parent.name != "__pycache__")


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
