"""Places in a spec: `variants[2].torch.path` as text and as steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

Steps = tuple[str | int, ...]
"""Keys of mappings and positions in lists, from the top."""

_STEP = re.compile(
    r"""(?P<dot>\.?)(?P<key>[^.\[\]="\s]+) | \[(?P<position>\d+)\] | \["(?P<quoted>[^"]*)"\]""", re.VERBOSE
)
_PLAIN = re.compile(r"""[^.\[\]="\s]+""")


def render(steps: Sequence[str | int]) -> str:
    """The text of a path; keys that would be misread are quoted.

    >>> render(("variants", 2, "torch", "path"))
    'variants[2].torch.path'
    >>> render(("tasks", "a.b", "label"))
    'tasks["a.b"].label'
    """
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def parse_prefix(text: str) -> tuple[Steps, str]:
    """The path at the start of a text, and what follows it. No steps when there is no path at the start.

    >>> parse_prefix("variants[2].torch.path=models/a=b.pt")
    (('variants', 2, 'torch', 'path'), '=models/a=b.pt')
    """
    steps: list[str | int] = []
    end = 0
    while (match := _STEP.match(text, end)) and bool(match["dot"]) == bool(steps and match["key"]):
        steps.append(int(match["position"]) if match["position"] else match["key"] or match["quoted"])
        end = match.end()
    return tuple(steps), text[end:]
