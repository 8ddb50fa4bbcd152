"""A driver of a small run in a process of its own: python -m fakes.driver FOLDER EXECUTOR [ADDRESS]"""

from __future__ import annotations

import sys
from pathlib import Path

from fakes.small_run import job, make_setup

from assay.cluster.driver import RayExecutor
from assay.local import LocalExecutor
from assay.store.log import CommitLog
from assay.store.run import RunDirectory

MODELS = {"base": "same", "waits": "waits_at_45"}


def main(folder: str, executor: str, address: str | None = None) -> None:
    of = job(Path(folder), MODELS)
    chosen = LocalExecutor(2, make_setup) if executor == "local" else RayExecutor(2, make_setup, address)
    with CommitLog(RunDirectory.create(of.run)) as log:
        chosen.run(of, log, lambda _: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
