"""The chaos suite: python -m chaos [--short] [NAME ...]. Prints a table; ends with 1 unless all came out the same.

Not here: what is done to the runs (`scenarios.py`), and how (`play.py`).
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from chaos.nodes import Nodes
from chaos.play import Outcome, Play
from chaos.scenarios import SCENARIOS, SHORT, Scenario
from chaos.stage import IMPORTABLE, Stage
from fakes import s3

Setting = tuple[str, bool, int | None, int]
"""Runs of the same one take the same time, if nobody disturbs them."""


def main(words: Sequence[str]) -> int:
    short = "--short" in words
    names = SHORT if short else [word for word in words if not word.startswith("--")]
    chosen = [one for one in SCENARIOS if not names or one.name in names]
    os.environ["PYTHONPATH"] = IMPORTABLE  # of the actors' processes
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True))
        os.environ["RAY_TMPDIR"] = folder  # or others' ray.init() on this machine would find these nodes
        port = stack.enter_context(s3.server("runs"))
        proxy = stack.enter_context(s3.proxied(s3.Proxy(port)))
        os.environ.update(s3.environment(proxy.port))
        return _play_all(Path(folder), proxy, chosen, measure=not short)


def _play_all(folder: Path, proxy: s3.Proxy, chosen: Sequence[Scenario], *, measure: bool) -> int:
    started = time.monotonic()
    stage, nodes = Stage(folder), Nodes()
    undisturbed: dict[Setting, float] = {}
    outcomes: list[Outcome] = []
    try:
        print("| scenario | seed | losses | drains | copies | drivers | seconds | undisturbed | scored again | same |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for scenario in chosen:
            setting = _setting(scenario)
            if measure and setting not in undisturbed:
                undisturbed[setting] = Play(stage, nodes, proxy, _undisturbed(scenario)).play().seconds
            outcomes.append(Play(stage, nodes, proxy, scenario).play())
            print(_row(outcomes[-1], undisturbed.get(setting)), flush=True)
            if outcomes[-1].fault:
                print(f"{scenario.name}, seed {scenario.seed}: {outcomes[-1].fault}", file=sys.stderr, flush=True)
    finally:
        nodes.close()
    print(_sums(outcomes, time.monotonic() - started))
    return 1 if any(one.fault for one in outcomes) else 0


def _setting(scenario: Scenario) -> Setting:
    return scenario.kind, scenario.bucket, scenario.workers, scenario.nodes


def _undisturbed(scenario: Scenario) -> Scenario:
    kind, bucket, workers, nodes = _setting(scenario)
    return Scenario(f"undisturbed {kind}", scenario.seed, (), kind, bucket, workers=workers, nodes=nodes)


def _row(outcome: Outcome, undisturbed: float | None) -> str:
    scenario = outcome.scenario
    cells = [
        f"{scenario.name} ({', '.join(outcome.done)})" if scenario.name.startswith("mix") else scenario.name,
        scenario.seed,
        outcome.losses,
        outcome.drains,
        outcome.copies,
        outcome.drivers,
        f"{outcome.seconds:.1f}",
        "" if undisturbed is None else f"{undisturbed:.1f}",
        outcome.again,
        "no" if outcome.fault else "yes",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _sums(outcomes: Sequence[Outcome], seconds: float) -> str:
    """How many came out the same, and how soon losses were known and made good."""
    same = sum(not one.fault for one in outcomes)
    lines = ["", f"{same} of {len(outcomes)} scenarios gave the bytes of a local run, in {seconds:.0f} s on"]
    lines[-1] += f" {os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()})."
    for kind in ("actor", "node"):
        noticed = sorted(value for one in outcomes for value in one.noticed.get(kind, []))
        replaced = sorted(value for one in outcomes for value in one.replaced.get(kind, []))
        if noticed:
            lines.append(f"A killed {kind} was noticed after {_spread(noticed)}, {len(noticed)} times measured.")
        if replaced:
            lines.append(f"One in its place was ready after {_spread(replaced)} more, {len(replaced)} times measured.")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} s (least {values[0]:.2f}, most {values[-1]:.2f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
