"""`assay WORDS` with short waits: python -m chaos.driver [--elsewhere | --patient] WORDS.

Nothing is changed but how long is waited for what does not answer, and that those who join may be made to stand. With
--elsewhere the process says that it is one of another host, so that no other driver can know whether it lives. With
--patient it never takes a silent driver for dead, however long this process took to start.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from assay import build
from assay.cli.app import main
from assay.store.process import Process

WAITS = {
    "assay.cluster.actors:POLL_SECONDS": 0.5,
    "assay.cluster.actors:UNAVAILABLE_SECONDS": 6.0,
    "assay.keeper:KEEP_SECONDS": 0.5,
    "assay.store.log:BEAT_SECONDS": 1.0,
    "assay.store.log:STALE_SECONDS": 5.0,
}
ELSEWHERE = Process("elsewhere", 7, "at noon")


def shorten() -> None:
    for place, seconds in WAITS.items():
        module, _, name = place.partition(":")
        assert hasattr(import_module(module), name), f"there is no {place} any more"
        setattr(import_module(module), name, seconds)


if __name__ == "__main__":
    shorten()
    build.SOURCES["parquet"] = "chaos.traps:StandingSource"
    log: Any = import_module("assay.store.log")  # Any: what no other program may set
    if "--elsewhere" in sys.argv:
        sys.argv.remove("--elsewhere")
        log.this_process = lambda: ELSEWHERE
    if "--patient" in sys.argv:
        sys.argv.remove("--patient")
        log.STALE_SECONDS = float("inf")
    main()
