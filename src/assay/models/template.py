"""One variant per model file: `{placeholders}` in a variant's name and path, matched against the file system."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from assay.errors import ModelError
from assay.spec.model import Inputs, LightGBMModel, OtherOutput, SklearnModel, TorchModel, VariantSpec
from assay.spec.words import listing

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def expand(variant: VariantSpec, base: Path) -> tuple[VariantSpec, ...]:
    """The variants that a template stands for; the variant itself where its name and path have no placeholders.

    A placeholder matches one or more characters of one file or folder name, not a leading dot; a path that ends with
    `/` matches folders only. Paths are relative to `base`. Variants come in the natural order of their names: `trial-2`
    before `trial-10`. ModelError when name and path have different placeholders, or nothing matches.
    """
    path = _path(variant)
    _check_placeholders(variant.name, path)
    if path is None or not PLACEHOLDER.search(path):
        return (variant,)
    matches = _matches(path, base)
    if not matches:
        looked_for = os.path.join(base, PLACEHOLDER.sub("*", path))
        raise ModelError(variant.name, f"nothing matches its path; looked for {looked_for!r}.")
    made = [_filled(variant, path, values) for values in matches]
    return tuple(sorted(made, key=lambda one: natural_key(one.name)))


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Orders names by their text, and the numbers in them by value.

    >>> sorted(["trial-10", "trial-2", "trial-b"], key=natural_key)
    ['trial-2', 'trial-10', 'trial-b']
    """
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


def _check_placeholders(name: str, path: str | None) -> None:
    in_name, in_path = (sorted(set(PLACEHOLDER.findall(text))) for text in (name, path or ""))
    if path is None and in_name:
        raise ModelError(
            name, f"its name has the placeholder {in_name[0]!r}, but this kind of model has no path to match."
        )
    if in_name != in_path:
        raise ModelError(
            name,
            f"its name has the placeholders {listing(in_name)} and its path {path!r} has {listing(in_path)}; they must "
            "be the same.",
        )
    if path and "*" in path:
        raise ModelError(
            name, f"its path {path!r} has a wildcard; write a {{placeholder}} in its place, and in the variant's name."
        )


def _matches(path: str, base: Path) -> list[dict[str, str]]:
    """The values of the placeholders for each file or folder that matches."""
    expression = _expression(path.rstrip("/"))
    root = glob.escape(str(base)) + "/" if not Path(path).is_absolute() else ""
    found = []
    for one in glob.glob(root + _pattern(path)):
        match = expression.fullmatch(one.removeprefix(f"{base}/").rstrip("/"))
        if match:
            found.append(match.groupdict())
    return found


def _pattern(path: str) -> str:
    return "*".join(glob.escape(part) for part in PLACEHOLDER.split(path)[::2])


def _expression(path: str) -> re.Pattern[str]:
    """The path as a regular expression; a placeholder that comes again must match the same text."""
    seen: set[str] = set()
    parts = []
    for position, part in enumerate(PLACEHOLDER.split(path)):
        is_name = position % 2 == 1
        parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>[^/]+)" if is_name else re.escape(part))
        seen.update([part] if is_name else [])
    return re.compile("".join(parts))


def _path(variant: VariantSpec) -> str | None:
    """Where the model is; None for kinds without a path."""
    for kind in (variant.sklearn, variant.lightgbm, variant.torch):
        if kind is not None:
            return kind if isinstance(kind, str) else kind.path
    return None


def _filled(variant: VariantSpec, path: str, values: dict[str, str]) -> VariantSpec:
    path = _fill(path, values)
    update: dict[str, object] = {"name": _fill(variant.name, values), "inputs": _filled_inputs(variant.inputs, values)}
    for key in ("sklearn", "lightgbm", "torch"):
        kind: str | SklearnModel | LightGBMModel | TorchModel | None = getattr(variant, key)
        if kind is not None:
            update[key] = path if isinstance(kind, str) else kind.model_copy(update={"path": path})
    return variant.model_copy(update=update)


def _filled_inputs(inputs: Inputs | None, values: dict[str, str]) -> Inputs | None:
    """With the names of other variants, whose outputs are taken, filled in too."""
    if not isinstance(inputs, dict):
        return inputs

    def filled(given: str | OtherOutput) -> str | OtherOutput:
        if isinstance(given, str):
            return given
        return given.model_copy(update={"variant": _fill(given.variant, values)})

    return {
        name: tuple(map(filled, given)) if isinstance(given, tuple) else filled(given) for name, given in inputs.items()
    }


def _fill(text: str, values: dict[str, str]) -> str:
    """A placeholder that has no value stays."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
