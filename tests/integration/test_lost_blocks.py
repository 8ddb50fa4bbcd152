"""Ray datasets whose blocks go with a node: the run ends with the digits that it would have, or with a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from chaos.nodes import Nodes
from fakes.losing import numbers, words

import assay

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]
TESTS = Path(__file__).parent.parent
SECONDS = 600


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.close()


@contextmanager
def driver(*words: object) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])}
    command = [sys.executable, "-m", "fakes.losing", *map(str, words)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What it says as JSON; Ray says other things too."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def played(nodes: Nodes, folder: Path, kind: str, *, num_nodes: int, workers: int) -> dict[str, Any]:
    """The end of an evaluation that loses the node with the most blocks. It has so many nodes with one CPU each."""
    nodes.restore(num_nodes)
    (folder / "stop").touch()
    for pipe in ("arrived", "go"):
        os.mkfifo(folder / pipe)
    with driver(nodes.address, folder, kind, workers) as process:
        said = lines(process)
        asked = next(said)
        assert "lose" in asked, asked
        [lost] = [node for node in nodes.alive if node.node_id == asked["lose"]]
        nodes.lose(lost)
        os.close(os.open(folder / "go", os.O_RDWR))  # whether or not the worker that waits is among the lost
        end = next(said)
        process.communicate(timeout=SECONDS)
    return end


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    frame = numbers().filter(pc.field("number") >= 50)
    found = assay.evaluate(frame, **words(tmp_path_factory.mktemp("local")))
    return found.metrics.to_pylist()


@pytest.mark.chaos
def test_blocks_are_made_again_while_workers_leave_a_cpu_free(
    nodes: Nodes, tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    end = played(nodes, tmp_path, "steps", num_nodes=3, workers=0)
    assert end.get("metrics") == expected, end


@pytest.mark.chaos
def test_a_worker_gives_up_its_place_where_workers_hold_all_cpus(
    nodes: Nodes, tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    end = played(nodes, tmp_path, "steps", num_nodes=2, workers=2)
    assert end.get("metrics") == expected, end
    assert any("and none is made again: the workers may hold all CPUs" in line for line in end["said"]), end


def test_a_step_that_gives_other_rows_each_time_is_found(nodes: Nodes, tmp_path: Path) -> None:
    end = played(nodes, tmp_path, "otherwise", num_nodes=3, workers=1)
    assert end.get("error") == (
        "A block of the dataset was lost with its node, was made again, and has other values of 'p': a step of the "
        "dataset gives other rows each time, so that some would count twice and others never. Give that step a seed. "
        "Write the dataset to Parquet (ds.write_parquet) and evaluate the files where it has none."
    ), end


@pytest.mark.chaos
def test_what_a_join_made_is_made_again_or_the_end_is_a_sentence(
    nodes: Nodes, tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    end = played(nodes, tmp_path, "join", num_nodes=3, workers=1)
    if "error" not in end:
        assert [row["value"] for row in end["metrics"]] == [row["value"] for row in expected], end
    else:
        assert "Write the dataset to Parquet (ds.write_parquet) and evaluate the files" in end["error"], end
