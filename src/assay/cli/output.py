"""How commands speak: answers on stdout, all else on stderr."""

from __future__ import annotations

import json

from rich.console import Console, RenderableType


class _Output(Console):
    """Where answers go; rich would end with 1, which is a verdict, when nobody reads on."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show_text(what: RenderableType) -> None:
    _Output().print(what)


def say(text: str) -> None:
    told(Console(stderr=True), text)


def told(console: Console, text: str) -> None:
    """On a terminal broken between words; elsewhere a sentence is one line, for whoever searches it."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
