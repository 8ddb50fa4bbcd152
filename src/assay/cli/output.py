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
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
