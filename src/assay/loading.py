"""What a text "module:attribute" stands for. Not here: the tables of such texts (`build.py`, `catalogue.py`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:  # Any: whatever the place holds
    """The object at "module:attribute", whose module is imported if it was not yet."""
    module, attribute = place.split(":")
    return getattr(import_module(module), attribute)
