"""What every test shares: one thread a process, and a terminal of one width without colours."""

from __future__ import annotations

import os

import pytest

collect_ignore = ["fakes"]  # imported by tests, none themselves

# One thread each, in workers that tests start too: two cores are shared by all of them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that is read by tests has one width and no colours."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
