"""How many workers a run may lose in a row, and whose an error is: the worker's or the run's.

Lives here: counting, and the sentence that ends a run. Not here: what becomes of the units (`schedule.py`), and which
of them is to blame (`suspects.py`).

    error                             while it loads                          while it scores    while it flushes
    RunError (the store is full, out  the worker's                            the worker's       the worker's
    of reach, not seen from its node)
    any other (model, data, metric,   the run's where no worker has loaded;   the run's          the run's
    package, a fault of ours)         else the worker's: others can

A worker's own error is a loss of that worker: its units are scored again by others, on other nodes. Where it keeps
happening it is the run's after all, which then ends with the error's own sentence: a full disk that all workers share
looks like that. A model that cannot load ends a run at once, when the first worker says so.
"""

from __future__ import annotations

from assay.errors import RunError

LOSSES_PER_WORKER, LEAST_LOSSES = 4, 4
"""So many losses in a row, without a unit done, end a run."""
ERRORS_PER_WORKER, LEAST_ERRORS = 0.5, 3
"""Beyond so many errors of workers' own in a row, without a commit (or one that loads), they are the run's."""


class Losses:
    """Of one driver's run."""

    def __init__(self) -> None:
        self._lost = 0  # since a unit was done
        self._not_loaded = 0  # since one loaded
        self._not_written = 0  # since a commit
        self._any_loaded = False

    def loaded(self) -> None:
        """A worker is ready."""
        self._any_loaded, self._not_loaded = True, 0

    def progress(self) -> None:
        """A unit was done, or given up."""
        self._lost = 0

    def written(self) -> None:
        """A flush is committed."""
        self._not_written = 0

    def lose(self, reason: str, num_workers: int) -> RunError | None:
        """A worker was lost. What ends the run, where there have been too many."""
        self._lost += 1
        if self._lost <= LOSSES_PER_WORKER * num_workers + LEAST_LOSSES:
            return None
        return RunError(
            f"Workers were lost {self._lost} times in a row without finishing a unit (the last time: {reason}). What "
            "is committed is kept; when the cause is mended, resume the run."
        )

    def is_workers_own(self, error: Exception, *, loading: bool) -> bool:
        """May others go on where one met this error? See the table above."""
        return isinstance(error, RunError) or (loading and self._any_loaded)

    def fail(self, error: Exception, num_workers: int, *, loading: bool) -> Exception | None:
        """A worker met an error of its own. What ends the run, where it keeps happening."""
        if loading:
            self._not_loaded += 1
        else:
            self._not_written += 1
        most = LEAST_ERRORS + int(ERRORS_PER_WORKER * num_workers)
        return error if max(self._not_loaded, self._not_written) > most else None
