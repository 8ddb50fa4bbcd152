"""What every test shares: one thread a process, a terminal of one width without colours, the same examples each time.
Also which process runs a test where there are several (`make test`)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

collect_ignore = ["fakes"]  # imported by tests, none themselves

# One thread each, in workers that tests start too: two cores are shared by all of them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell that starts the tests in the background has them and their children ignore Ctrl-C, which some are about.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each process that runs tests keeps compiled kernels of its own: numba may mix up two forms of one kernel that two
# processes save at the same moment.
if _process := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(sys.prefix) / "numba" / _process))

# The same examples each time, however busy the machine is.
settings.register_profile("assay", derandomize=True, deadline=None, database=None)
settings.load_profile("assay")


class ByFile(LoadFileScheduling):
    """Which process runs a test, where there are several: all files whose tests share a Ray cluster are for one, so
    that there is one such cluster; each other file is for one, so that what its tests share is made once."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "ray" if path.endswith(".py") and "ray_address" in _text(path) else path


@cache
def _text(path: str) -> str:
    return (Path(__file__).parents[1] / path).read_text(encoding="utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of `make chaos` are for those who ask for them: `-m chaos`. In CI (TRY_TWICE) one that starts or kills
    processes of Ray's is tried once more when it fails, since a busy machine may be late; the summary lists these."""
    left_out = [] if "chaos" in config.option.markexpr else [one for one in items if one.get_closest_marker("chaos")]
    if left_out:
        items[:] = [one for one in items if one not in left_out]
        config.hook.pytest_deselected(items=left_out)
    if os.environ.get("TRY_TWICE"):
        for item in items:
            if item.get_closest_marker("ray"):
                item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that is read by tests has one width and no colours."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(autouse=True)
def _own_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run puts the folder of its spec first, where modules are looked for; no other test finds what lies there."""
    monkeypatch.setattr(sys, "path", list(sys.path))
