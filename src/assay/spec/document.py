"""YAML text to a plain tree and back. Not here: what the tree means (`model.py`).

The scalars are those of YAML 1.2 (`no`, `on` and `2013-01-01` are text, `1e-3` is a number), and digits after a leading
zero are text. A key given twice is a fault. `${NAME}` and `${NAME:-default}` in values are replaced from the
environment, as if the value had been written there; `$${` is a plain `${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import yaml

from assay.errors import Fault
from assay.spec.paths import Steps, render

_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),
)
_REFERENCE = re.compile(r"\$(?P<escaped>\$?)\{(?P<inside>[^{}]*)\}")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - a class attribute of yaml's


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - a class attribute of yaml's

    def ignore_aliases(self, data: object) -> bool:
        return True


for _tag, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)


class Document(NamedTuple):
    """A parsed text, and what is wrong with it; `tree` is as good as it can be in spite of the faults."""

    tree: object
    faults: tuple[Fault, ...]


def parse(text: str, environ: Mapping[str, str]) -> Document:
    """Parse YAML with one document.

    >>> parse("data: {path: '${HOME}/a', label: no}", {"HOME": "/home/u"}).tree
    {'data': {'path': '/home/u/a', 'label': 'no'}}
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        faults = list(_Reader(loader, environ).faults_of(node, ())) if node else []
        return Document(loader.construct_document(node) if node else None, tuple(faults))
    except yaml.YAMLError as error:
        return Document(None, (Fault("", _syntax(text, error)),))
    finally:
        loader.dispose()


def write(tree: object) -> str:
    """YAML that `parse` reads back as the same tree, whatever the environment is."""
    text: str = yaml.dump(_escaped(tree), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Reader:
    """Replaces references in a tree of nodes, in place, and says what is wrong with it."""

    def __init__(self, loader: _Loader, environ: Mapping[str, str]) -> None:
        self._loader = loader
        self._environ = environ
        self._seen: set[int] = set()  # an anchored node is met once for each alias

    def faults_of(self, node: yaml.Node, steps: Steps) -> Iterator[Fault]:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield from self._scalar(node, steps)
        elif isinstance(node, yaml.SequenceNode):
            for position, child in enumerate(node.value):
                yield from self.faults_of(child, (*steps, position))
        elif isinstance(node, yaml.MappingNode):
            yield from _repeated(node, steps)
            for key, child in node.value:
                yield from self.faults_of(child, (*steps, str(key.value)))

    def _scalar(self, node: yaml.ScalarNode, steps: Steps) -> Iterator[Fault]:
        if "${" not in node.value:
            return
        faults: list[Fault] = []
        node.value = _REFERENCE.sub(lambda match: self._replacement(match, steps, faults), node.value)
        if node.style is None:
            resolve: Callable[..., str] = self._loader.resolve  # untyped in the stubs
            node.tag = resolve(yaml.ScalarNode, node.value, (True, False))
        yield from faults

    def _replacement(self, match: re.Match[str], steps: Steps, faults: list[Fault]) -> str:
        if match["escaped"]:
            return match[0][1:]
        inside = _INSIDE.fullmatch(match["inside"])
        if inside is None:
            faults.append(
                Fault(render(steps), f"{match[0]!r} names no variable; write ${{NAME}}, or $${{ for a plain ${{.")
            )
            return match[0]
        found = self._environ.get(inside["name"], "")
        if found or inside["default"] is not None:
            return found or inside["default"]
        if inside["name"] not in self._environ:
            remedy = f"set it, or write ${{{inside['name']}:-default}}"
            faults.append(Fault(render(steps), f"the environment variable {inside['name']!r} is not set; {remedy}."))
        return found


def _repeated(node: yaml.MappingNode, steps: Steps) -> Iterator[Fault]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key, yaml.ScalarNode) and key.value in lines:
            first = lines[key.value]
            yield Fault(
                render((*steps, key.value)), f"the key is given twice, on line {first} and on line {line}; keep one."
            )
        lines.setdefault(str(key.value), line)


def _syntax(text: str, error: yaml.YAMLError) -> str:
    what = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"the text is not YAML: {what}."
    hint = (
        " Quote a value with ${...} inside braces."
        if any("${" in line for line in text.splitlines()[mark.line : mark.line + 1])
        else ""
    )
    return f"the text is not YAML on line {mark.line + 1}, column {mark.column + 1}: {what}.{hint}"


def _escaped(tree: object) -> object:
    if isinstance(tree, str):
        return re.sub(r"\$(?=\{[^{}]*\})", "$$", tree)
    if isinstance(tree, Mapping):
        return {key: _escaped(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_escaped(value) for value in tree]
    return tree
