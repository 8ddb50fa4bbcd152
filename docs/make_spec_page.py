"""Writes spec.md: every key of a spec with its type, default and meaning, from the model itself.

python docs/make_spec_page.py        prints the page; `make docs` writes it, and a test says when it is out of date
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.spec.load import json_schema

HEAD = """# The spec

One YAML file is one run. This page lists every key; `assay schema` prints the same as JSON schema for editors, and
`assay plan SPEC` says what is wrong with a file, all that can be found at that point together. The same keys make a
spec in Python (`assay.Spec.model_validate({...})`).

- A text that is the name of a column means that column; any other text where "column or SQL expression" is said is SQL,
  evaluated by DuckDB on each row (no aggregates, no subqueries, nothing random).
- `${NAME}` and `${NAME:-default}` are read from the environment; `$${` is a plain `${`.
- `--set data.path=other/` on the command line changes one value.
- YAML is read as version 1.2: `no` and `2013-01-01` are text.

"""


def page() -> str:
    schema = json_schema()
    definitions: dict[str, Any] = schema["$defs"]  # Any: JSON schema
    parts = [HEAD, "## Top level\n\n", *_rows(schema)]
    for name, definition in definitions.items():
        if "properties" not in definition:  # any JSON value
            continue
        parts += [f"## {name}\n\n", *_intro(definition), *_rows(definition)]
    return "".join(parts).rstrip() + "\n"


def _intro(definition: dict[str, Any]) -> Iterator[str]:  # Any: JSON schema, as in all below
    text = " ".join(str(definition.get("description", "")).split())
    if text:
        yield text + "\n\n"


def _rows(definition: dict[str, Any]) -> Iterator[str]:
    required = definition.get("required", [])
    yield "| key | type | default | meaning |\n|---|---|---|---|\n"
    for key, field in definition["properties"].items():
        default = "required" if key in required else _default(field)
        meaning = " ".join(field.get("description", "").split()).replace("|", "\\|")
        yield f"| `{key}` | {_type(field)} | {default} | {meaning} |\n"
    yield "\n"


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "" if value in (None, [], {}) or isinstance(value, dict) else f"`{value}`"


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "any value" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "const" in field:
        return f"`{str(field['const']).lower()}`"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}" if "items" in field else "list"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"map to {_type(inner)}" if isinstance(inner, dict) else "map"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    return names.get(field.get("type", ""), "number")


if __name__ == "__main__":
    print(page(), end="")
