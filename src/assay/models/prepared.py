"""The inputs of a variant that names a preparation: what that makes of a micro-batch, as it is.

Not here: how it is made (`preparation.py`), and when (`scoring.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from assay.errors import ModelError
from assay.models.inputs import InputReader, rows_of
from assay.protocols import Preparation
from assay.spec.model import Receive
from assay.spec.words import listing


@dataclass(frozen=True, slots=True)
class PreparedInputs:
    """In the place of an `InputReader`. With `receive: arguments` the object is a dict with an entry for each."""

    variant: str
    made_by: Preparation
    receive: Receive | None
    taken: tuple[str, ...] = ()  # names of arguments that are given otherwise

    def __post_init__(self) -> None:
        if self.receive not in (None, "arguments"):
            raise ModelError(
                self.variant,
                f"receive is {self.receive!r}, but the model receives what preparation {self.made_by.name!r} makes; "
                "say receive: arguments for the entries of a dict, or drop it.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.made_by.columns

    @property
    def preparation(self) -> Hashable:
        return "prepare", self.made_by.name

    def check(self, schema: pa.Schema) -> None:
        """Nothing: a preparation is checked once for all variants that name it."""

    def read(self, table: pa.Table) -> Any:  # Any: never returned
        raise AssertionError("what a preparation makes is given by whoever scores")

    def given(self, made: Any) -> Any:  # Any: the user's own object
        """What the model receives. Of a dict a copy, so that taking an entry out of it changes nothing for others.

        ModelError where it cannot be given as arguments.
        """
        if self.receive != "arguments":
            return dict(made) if type(made) is dict else made
        if not isinstance(made, Mapping):
            raise ModelError(
                self.variant,
                f"preparation {self.made_by.name!r} made a {type(made).__name__}; receive: arguments takes a dict. "
                "Drop receive, to get the object as it is.",
            )
        names = [key for key in made if not isinstance(key, str)]
        if names:
            raise ModelError(
                self.variant,
                f"preparation {self.made_by.name!r} made a dict with the key {names[0]!r}; receive: arguments takes "
                "names only.",
            )
        twice = [name for name in made if name in self.taken]
        if twice:
            raise ModelError(
                self.variant,
                f"{listing(twice)} is given by preparation {self.made_by.name!r} and by settings; remove one.",
            )
        return dict(made)


Reader = InputReader | PreparedInputs


def inputs_of(reader: Reader, prepared: Any, rows: slice) -> Any:  # Any: what the model receives
    """The inputs of some rows: of a preparation the whole object, which is of these rows alone."""
    return reader.given(prepared) if isinstance(reader, PreparedInputs) else rows_of(prepared, rows)
