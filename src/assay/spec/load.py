"""From a file or a plain tree to a checked `Spec`, with everything that is wrong told at once; and back."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay.errors import Fault, SpecError
from assay.spec.checks import tree_faults
from assay.spec.document import parse, write
from assay.spec.faults import Located, located_faults
from assay.spec.model import Spec
from assay.spec.names import nearest
from assay.spec.overrides import override
from assay.spec.paths import Steps

SCHEMA_URL = "https://json-schema.org/draft/2020-12/schema"
SPEC_ENDINGS = (".yaml", ".yml")

_LAST_STEP = re.compile(r"(^|\.)[^.\[\]]+$|\[[^\]]*\]$")


def load_spec(
    path: str | Path,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    *,
    predicting: bool = False,
) -> Spec:
    """Read a spec file, whose name ends with .yaml or .yml.

    overrides: `path=value` texts, as of `--set`; environ: where `${NAME}` is looked up, the process's own by default;
    predicting: a spec that says nothing of predictions has them as they are by default.
    Raises SpecError with every fault: of the text, the environment, the overrides, the keys and values, and of what
    they say together (templates of variants are not expanded, see `check_names`).
    """
    environ = os.environ if environ is None else environ
    document = parse(_text(Path(path)), environ)
    if document.tree is None:
        raise SpecError(document.faults or [Fault("", f"the file {path} is empty; expected data and variants.")])
    changed = override(document.tree, overrides, environ)
    tree = with_predictions(changed.tree) if predicting else changed.tree
    return _build(tree, [*document.faults, *changed.faults], _file_faults)


def build_spec(
    tree: Mapping[str, Any],  # Any: what is in it is what is to be checked
    overrides: Sequence[str] = (),
) -> Spec:
    """Check a spec given as a tree, for the faults of `load_spec`. `data.path` may be absent; `${NAME}` is left alone.

    >>> spec = build_spec({"data": {"label": "clicked"}, "variants": [{"name": "old", "column": "p_old"}]})
    >>> spec.variants[0].column
    'p_old'
    >>> build_spec({"data": {"lable": "clicked"}, "variants": [{"name": "old", "column": "p_old"}]})
    Traceback (most recent call last):
    assay.errors.SpecError: data.lable: unknown key 'lable'; did you mean 'label'?
    """
    changed = override(tree, overrides, os.environ)
    return _build(changed.tree, changed.faults, tree_faults)


def with_predictions(tree: object) -> object:
    """A spec's tree that asks for predictions."""
    if isinstance(tree, Mapping) and tree.get("predictions") is None:
        return {**tree, "predictions": {}}
    return tree


def with_data(tree: Mapping[str, Any]) -> Mapping[str, Any]:  # Any: as above
    """A spec's tree whose rows are given beside it, so that it need say nothing of data."""
    return {**tree, "data": {}} if tree.get("data") is None else tree


def is_spec_file(path: str | Path) -> bool:
    """By its name."""
    return str(path).lower().endswith(SPEC_ENDINGS)


def no_spec(path: str | Path) -> str:
    """What is said of data, or anything else, in the place of a spec."""
    return (
        f"{path} is no spec: a spec is a YAML file ({' or '.join(SPEC_ENDINGS)}) that names the data, as in "
        f"data: {{path: {path}}}, and the variants."
    )


def spec_to_yaml(spec: Spec) -> str:
    """The spec as a file that `load_spec` reads back equal; what is at its default is left out."""
    return write(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def json_schema() -> dict[str, Any]:  # Any: JSON
    """The JSON schema of the spec file, for editors."""
    return {"$schema": SCHEMA_URL, **Spec.model_json_schema(by_alias=True)}


def _text(path: Path) -> str:
    if path.exists() and not is_spec_file(path):
        raise SpecError([Fault("", no_spec(path))])
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        siblings = [one.name for one in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        near = nearest(path.name, siblings)
        hint = f"; did you mean {path.parent / near}?" if near else "; check the path."
        raise SpecError([Fault("", f"there is no spec file {path}{hint}")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Fault("", f"the spec file {path} cannot be read: {error}.")]) from error


def _file_faults(spec: Spec) -> tuple[Fault, ...]:
    absent = Fault("data.path", "is required: the file, folder or glob to evaluate on.")
    is_absent = spec.data.path is None and spec.data.reader is None
    return (*([absent] if is_absent else []), *tree_faults(spec))


def _build(tree: object, earlier: Sequence[Fault], check: Callable[[Spec], Sequence[Fault]]) -> Spec:
    """The spec, or all faults: of keys and values and, of what is left without them, those of `check`."""
    spec, located = _validated(tree)
    if located:
        spec, _ = _validated(_without(tree, [one.steps for one in located]))
    told = {fault.path for fault in earlier}
    faults = [*earlier, *(one.fault for one in located if one.fault.path not in told)]
    if spec is not None:
        faults += [fault for fault in check(spec) if not _follows(fault, faults)]
    if faults or spec is None:
        raise SpecError(faults)
    return spec


def _validated(tree: object) -> tuple[Spec | None, list[Located]]:
    try:
        return Spec.model_validate(tree), []
    except ValidationError as error:
        return None, located_faults(Spec, tree, error)


def _without(tree: object, places: Sequence[Steps], at: Steps = ()) -> object:
    """The tree less the faulty values, as far as they are values of a mapping."""
    if isinstance(tree, Mapping):
        return {key: _without(value, places, (*at, key)) for key, value in tree.items() if (*at, key) not in places}
    if isinstance(tree, list | tuple):
        return [_without(value, places, (*at, position)) for position, value in enumerate(tree)]
    return tree


def _follows(fault: Fault, earlier: Sequence[Fault]) -> bool:
    """Whether a fault lies beside, below or above one that was found already, and so may only be its consequence."""
    return any(_holds(_parent(one.path), fault.path) or _holds(fault.path, one.path) for one in earlier)


def _holds(path: str, inner: str) -> bool:
    return inner.startswith(path) and (not path or inner[len(path) : len(path) + 1] in ("", ".", "["))


def _parent(path: str) -> str:
    return _LAST_STEP.sub("", path)
