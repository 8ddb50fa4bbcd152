"""From the words of a command to what is asked: a spec and the folder of its paths, a place, a time, a share."""

from __future__ import annotations

import glob
import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import Fault, SpecError
from assay.pipeline.table import table_spec
from assay.sources.files import ENDINGS
from assay.spec.load import SPEC_ENDINGS, build_spec, is_spec_file, load_spec, no_spec, spec_to_yaml
from assay.spec.model import Spec
from assay.spec.names import nearest

RUNS = Path("runs")
TABLES = tuple(ending for endings in ENDINGS.values() for ending in endings)
AS_TABLE = "--label COLUMN --scores COLUMN"
A_SPEC = f"a spec (a YAML file, {' or '.join(SPEC_ENDINGS)})"

Words = Mapping[str, Any]  # Any: a text or a list of texts


def said(**words: str | list[str] | None) -> Words:
    """What was said of a table, by the name of its option."""
    return {name: value for name, value in words.items() if value}


def asked(command: str, target: str, words: Words, overrides: list[str]) -> tuple[Spec, Path]:
    """The spec that the command line asks for, and the folder that its paths start from."""
    if is_spec_file(target):
        if words:
            raise SpecError([Fault(f"--{next(iter(words))}", "the spec says this; change it with --set PATH=VALUE.")])
        try:
            return load_spec(target, overrides), Path(target).parent.absolute()
        except SpecError as error:
            raise SpecError([*error.faults, *_as_predictions(command, target, overrides)]) from None
    missing = [name for name in ("label", "scores") if name not in words]
    if len(missing) > 1:
        raise SpecError([Fault("", _no_table(command, target))])
    if missing:
        raise SpecError([Fault(f"--{missing[0]}", f"a table needs it; {target} is no spec (.yaml).")])
    tree = table_spec(
        target,
        label=words["label"],
        scores=words["scores"],
        baseline=words.get("baseline"),
        data={name: _listed(words[name]) for name in ("classes", "labels") if name in words},
        cluster=words["cluster"] if len(words.get("cluster", ())) > 1 else "".join(words.get("cluster", ())) or None,
        weight=words.get("weight"),
        where=words.get("where"),
        slices=[one.split(",") if "," in one else one for one in words.get("slice", ())],
        metrics=words.get("metric", ()),
        output=words.get("output"),
    )
    return build_spec(tree, overrides), Path.cwd()


def asked_to_predict(command: str, target: str, overrides: list[str]) -> tuple[Spec, Path]:
    """As `asked`, for a spec alone."""
    then = f"{command} SPEC{SPEC_ENDINGS[0]}"
    if _is_other_file(target):
        table = Path(target).with_suffix(TABLES[0])
        named = f"Save it as one of these and name it in a spec (data: {{path: {table}}}), then: {then}"
        raise SpecError([Fault("", f"{target} is neither {A_SPEC} nor a table in Parquet or CSV. {named}")])
    if Path(target).exists() and not is_spec_file(target):
        measured = f"Scores that are in a table already are measured by: assay run {target} {AS_TABLE}"
        raise SpecError([Fault("", f"{no_spec(target)} Write one, then: {then}. {measured}")])
    return load_spec(target, overrides, predicting=True), Path(target).parent.absolute()


def default_place(target: str, spec: Spec) -> Path:
    """runs/<name of the target>-<digest of the spec>: asking the same again finds the same run."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in Path(target).stem) or "data"
    asked = spec.lasting
    return RUNS / f"{name}-{hashlib.sha256(spec_to_yaml(asked).encode()).hexdigest()[:8]}"


def deadline_seconds(text: str | None) -> float | None:
    """`2h`, `1h30m` or `45s` as seconds. SpecError for what is none of these."""
    if text is None:
        return None
    parts = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    if not text or parts is None:
        raise SpecError([Fault("--deadline", f"got {text!r}; expected a time such as 2h, 90m, 1h30m or 45s.")])
    hours, minutes, seconds = (float(one or 0) for one in parts.groups())
    return 3600 * hours + 60 * minutes + seconds


def share_of(text: str) -> float:
    """`1%` or `0.01`. SpecError for what is neither."""
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if rest or not 0.0 < share <= 1.0:
        raise SpecError([Fault("--sample", f"got {text!r}; expected a share above 0 and up to 1, such as 1% or 0.01.")])
    return share


def _as_predictions(command: str, target: str, overrides: list[str]) -> list[Fault]:
    """What is said beside the faults of a spec that has none where predictions are to be written."""
    try:
        load_spec(target, overrides, predicting=True)
    except SpecError:
        return []
    instead = "assay predict" if command == "assay run" else f"{command} --predict"
    return [Fault("", f"As a spec of predictions it has no fault: {instead} {target}")]


def _listed(text: str) -> str | list[str]:
    return text if text == "auto" else [name.strip() for name in text.split(",")]


def _no_table(command: str, target: str) -> str:
    """What is said where neither a spec is named, nor what a table needs."""
    path = Path(target)
    if not path.exists() and not glob.has_magic(target):
        near = nearest(path.name, (one.name for one in path.parent.iterdir()) if path.parent.is_dir() else ())
        hint = f"; did you mean {path.parent / near}?" if near else f"; expected {A_SPEC} or a table."
        return f"there is no file or folder {target}{hint}"
    if _is_other_file(target):
        then = f"{command} {path.with_suffix(TABLES[0])} {AS_TABLE}"
        return f"{target} is neither {A_SPEC} nor a table in Parquet or CSV. Save it as one of these, then: {then}"
    return (
        f"{target} is not {A_SPEC}, and a table of predictions needs a label and scores: {command} {target} {AS_TABLE}"
    )


def _is_other_file(target: str) -> bool:
    """Neither a spec nor a table, by its name."""
    return Path(target).is_file() and not is_spec_file(target) and not target.lower().endswith(TABLES)
