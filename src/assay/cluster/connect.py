"""Being connected to a Ray cluster, and noticing that its head is gone.

Lives here: connecting and disconnecting, with sentences where that fails. Not here: what the cluster has (`nodes.py`),
and what runs on it (`actors.py`, `preparing.py`, `reduce.py`).

A process whose head is gone is ended by Ray, with a notice of Ray's own, after a minute. So the head is knocked at now
and then, and the run ends by itself before: actors go on without a head, but none can be had anew.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from assay.drive import START_AGAIN
from assay.errors import RunError
from assay.probes import within

INIT_ATTEMPTS = 3
KNOCK_SECONDS = 10.0
HEAD_GONE_SECONDS = 25.0
"""How long a head may not answer. Ray ends this process a minute after it was last heard, by default."""
HEAD_KNOCK_SECONDS = 2.0
LEAVE_SECONDS = 10.0
"""How long leaving a cluster may take whose head is gone."""

LOCAL_ENVIRONMENT = {
    "RAY_worker_niceness": "0",  # by default workers run at 15, behind everything else on the machine
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without GPUs see none as it is; without this Ray warns
}


_connected_here = ""
"""On which cluster this process is, in a sentence, as long as `connected` is what has connected it; else ""."""


class HeadGone(RunError):
    """The head of the Ray cluster does not answer any more."""


class Head:
    """The process that all others of a Ray cluster report to, as seen from the driver."""

    def __init__(self, address: str, run: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        """run: the place of the run, for the sentence; None where it cannot be resumed."""
        self._address = address
        self._run = run
        self._clock = clock
        self._silent_since: float | None = None
        self._is_seen = _answers(self._address)  # not so through a proxy: then nothing can be told of it

    def check(self) -> bool:
        """Does it answer? False where it did a while ago, when nothing should be asked of it; HeadGone later."""
        if not self._is_seen:
            return True
        try:
            knock(self._address, HEAD_KNOCK_SECONDS)
        except OSError as error:
            now = self._clock()
            self._silent_since = now if self._silent_since is None else self._silent_since
            if now - self._silent_since < HEAD_GONE_SECONDS:
                return False
            raise HeadGone(
                f"The head of the Ray cluster at {self._address} has not answered for {HEAD_GONE_SECONDS:.0f} seconds "
                f"({first_line(error)}). {self._way_on()}"
            ) from error
        self._silent_since = None
        return True

    @property
    def silent(self) -> bool:
        """It did not answer the last time."""
        return self._silent_since is not None

    def _way_on(self) -> str:
        if self._run is None:
            return START_AGAIN
        return (
            f"What is committed in {self._run} stays; start the Ray cluster again, then go on with: assay resume "
            f"{self._run}"
        )


@contextmanager
def connected(address: str | None, num_cpus: int | None) -> Iterator[str]:
    """This process is connected to a Ray cluster; only what is started or connected here ends here. Gives a sentence
    on which cluster that is; where it stands within another `connected`, the other's."""
    global _connected_here
    if ray.is_initialized():
        yield _connected_here or f"Ray: the cluster at {_gcs_address()}, which this process is connected to."
        return
    if address in (None, "local"):
        os.environ.update({name: os.environ.get(name, value) for name, value in LOCAL_ENVIRONMENT.items()})
        _init(address="local", num_cpus=num_cpus, include_dashboard=False)
        where = "a cluster of this run's own, started on this machine at {}. It ends with the run."
    else:
        _init(address=address)
        where = "joined the cluster at {}."
    try:
        _connected_here = f"Ray: {where.format(_gcs_address())}"
        yield _connected_here
    except HeadGone:
        within(LEAVE_SECONDS, ray.shutdown)
        raise
    except BaseException:
        ray.shutdown()
        raise
    finally:
        _connected_here = ""
    ray.shutdown()


def _gcs_address() -> str:
    return str(ray.get_runtime_context().gcs_address)


def is_the_users() -> bool:
    """Whether this process was connected by somebody else, whose tasks may have run in the same processes as ours."""
    return ray.is_initialized() and not _connected_here


def knock(address: str, seconds: float) -> None:
    """OSError where nothing listens at HOST:PORT; nothing at another kind of address."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()


def _answers(address: str) -> bool:
    try:
        knock(address, HEAD_KNOCK_SECONDS)
    except OSError:
        return False
    return True


def first_line(error: Exception) -> str:
    """What an error says, without what Ray adds; of one raised in an actor or a task, that one's."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, Exception):
        return f"{type(error.cause).__name__}: {first_line(error.cause)}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _init(**settings: Any) -> None:  # Any: what ray.init takes
    for attempt in range(1, INIT_ATTEMPTS + 1):
        try:
            knock(settings["address"], KNOCK_SECONDS)  # Ray itself would try for minutes
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
            return
        except (RayError, RuntimeError, OSError, ValueError) as error:
            ray.shutdown()
            if attempt == INIT_ATTEMPTS:
                raise RunError(_cannot_connect(settings["address"], error)) from error


def _cannot_connect(address: str, error: Exception) -> str:
    if address == "local":
        return (
            f"A Ray cluster on this machine could not be started in {INIT_ATTEMPTS} attempts: {first_line(error)} "
            "Run without Ray (--executor local), or give the --address of a cluster."
        )
    return (
        f"No Ray cluster could be reached at {address!r}: {first_line(error).rstrip('.')}. Check --address and "
        "RAY_ADDRESS, and that the cluster runs the same versions of Ray and Python."
    )
