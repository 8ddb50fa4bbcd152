"""Our errors as Ray Data shows them: the sentence comes last, and Ray's own advice not after it.

Ray Data puts what a function raises inside an exception of its own, whose words then end the traceback, but lets one of
its own kind out of a generator as it is. Not here: which errors there are (`errors.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from ray.exceptions import UserCodeException

from assay.errors import DataError, ModelError


class FailedModel(UserCodeException, ModelError):
    """A ModelError in a process of Ray Data, which takes it for the user's and asks nobody to report a fault of Ray."""

    def __str__(self) -> str:
        """Without what Ray Data appends of tries: none helps here."""
        return str(ModelError(self.variant, self.message, self.row))


class FailedData(UserCodeException, DataError):
    """A DataError, the same."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)

    def __str__(self) -> str:
        """As of FailedModel."""
        return self.message


def shown(step: Callable[[pa.Table], pa.Table | Iterator[pa.Table]], block: pa.Table) -> Iterator[pa.Table]:
    """What a step makes of a block, for Ray Data to iterate over. Of what fails only the cause's traceback is kept."""
    try:
        made = step(block)
        if isinstance(made, pa.Table):
            yield made
        else:
            yield from made
    except ModelError as error:
        raise FailedModel(error.variant, error.message, error.row) from error.__cause__
    except DataError as error:
        raise FailedData(str(error)) from error.__cause__
