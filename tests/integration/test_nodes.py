"""A Ray cluster of several nodes: labels, GPUs, nodes that go, and a head that does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.placed import notes
from fakes.ray_cluster import cluster_of
from fakes.states import committed_tally, states_digest

from assay.costs import Account
from assay.pipeline.cost import spent
from assay.store.run import RunDirectory

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]
TESTS = Path(__file__).parent.parent
STORE_BYTES = 80 << 20
ROWS, STOP_AT = 200, 105
SECONDS = 300
MARKET = "ray.io/market-type"
SETTINGS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 20_000,
    "health_check_failure_threshold": 2,
}
"""A node that is gone refuses to answer and is given up after about two seconds; one that is slow has more time."""
DRIVER = """
import sys
import assay.cluster.actors, assay.cluster.connect
from assay.cli.app import main
assay.cluster.actors.POLL_SECONDS = 0.5
assay.cluster.connect.HEAD_GONE_SECONDS = 2.0
sys.argv[0] = "assay"
main()
"""


@pytest.fixture
def cluster() -> Iterator[Any]:  # Any: Ray's class is untyped
    """A head without CPUs that stays; tests add nodes."""
    labels = {MARKET: "on-demand"}
    made = cluster_of(num_cpus=0, object_store_memory=STORE_BYTES, _system_config=SETTINGS, labels=labels)
    yield made
    made.shutdown()


def add(cluster: Any, market: str = "", **more: Any) -> Any:
    return cluster.add_node(object_store_memory=STORE_BYTES, labels={MARKET: market} if market else {}, **more)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    chance = np.random.default_rng(4)
    clicked = (chance.random(ROWS) < 0.3).astype(np.int8)
    table = pa.table({"clicked": clicked, "number": np.arange(ROWS), "p": chance.uniform(0, 1, ROWS)})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=100)
    (tmp_path / "notes").mkdir()
    return tmp_path


def spec(base: Path, prepare: dict[str, Any], workers: dict[str, Any]) -> Path:
    settings = {"folder": str(base / "notes")}
    numbers = {"function": "fakes.placed:wide", "inputs": ["number"], "settings": settings, "batch_rows": 10}
    mean = {"function": "fakes.placed:mean", "settings": settings}
    tree = {
        "data": {"path": "data.parquet", "label": "clicked"},
        "output": {"is": "probability"},
        "prepare": {"numbers": {**numbers, **prepare}},
        "variants": [
            {"name": "old", "column": "p"},
            {"name": "mean", "callable": mean, "prepare": "numbers", "receive": "arguments"},
        ],
        "baseline": "old",
        "metrics": ["auc"],
        "execution": {"unit_rows": 20, "micro_batch": 10},
        "workers": workers,
    }
    (base / "eval.yaml").write_text(json.dumps(tree))
    return base / "eval.yaml"


@contextmanager
def driver(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """`assay WORDS`, which asks the cluster and its head more often than it does by default."""
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    patient = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}  # Ray itself would end it after a minute without a head
    environment = {**os.environ, **patient, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
    command = [sys.executable, "-c", DRIVER, *map(str, words)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def scored(base: Path, place: Path, *words: str) -> str:
    """The digest of the states of a run of `eval.yaml`."""
    with driver("run", base / "eval.yaml", "--out", place, *words) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out + err
    return states_digest(committed_tally(place))


def test_workers_share_a_gpu_and_prefer_spot_nodes_while_tasks_have_their_own(cluster: Any, base: Path) -> None:
    add(cluster, "spot", num_cpus=4, num_gpus=1)
    add(cluster, "on-demand", num_cpus=1, resources={"tokenizer": 1})
    spec(base, {"tasks": 1, "resources": {"tokenizer": 1}}, {"num_gpus": 0.5})
    digest = scored(base, base / "ray", "--executor", "ray", "--address", cluster.address)
    prepared, workers = notes(base / "notes", "prepare"), notes(base / "notes", "score")
    assert {(market, gpus) for _, market, gpus in workers} == {("spot", "0")}
    assert {market for _, market, _ in prepared} == {"on-demand"}
    accounts = spent(RunDirectory.for_worker(str(base / "ray")))
    amount = accounts[Account("local", "spot", "variant", "mean")]
    assert amount.node_seconds == pytest.approx(amount.seconds / 2)  # half a GPU, though a quarter of the CPUs
    whole = accounts[Account("local", "on_demand", "preparing", "numbers")]
    assert whole.node_seconds == pytest.approx(whole.seconds)
    events = min((base / "ray" / "events").iterdir())  # a run that takes longer writes more than one
    assert '"num_workers": 2' in events.read_text()
    assert digest == scored(base, base / "local", "--executor", "local")


def test_a_preparing_node_that_goes_in_the_middle_changes_nothing(cluster: Any, base: Path) -> None:
    """With what it had prepared, and with what it was at."""
    add(cluster, num_cpus=1, resources={"worker": 1})
    going = add(cluster, num_cpus=1, resources={"tokenizer": 1})
    path = spec(base, {"tasks": 1, "resources": {"tokenizer": 1}}, {"resources": {"worker": 1}})
    local = scored(base, base / "local", "--executor", "local")
    for pipe in ("arrived", "go"):
        os.mkfifo(base / "notes" / pipe)
    (base / "notes" / "stop_at").write_text(str(STOP_AT))
    words = ("--executor", "ray", "--address", cluster.address)
    with driver("run", path, "--out", base / "ray", *words) as process:
        (base / "notes" / "arrived").read_text()  # a task has begun with the row
        add(cluster, num_cpus=1, resources={"tokenizer": 1})
        cluster.remove_node(going, allow_graceful=False)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out + err
    assert states_digest(committed_tally(base / "ray")) == local


def test_a_run_whose_cluster_loses_its_head_says_so_and_goes_on_elsewhere(cluster: Any, base: Path) -> None:
    add(cluster, num_cpus=1)
    path = spec(base, {}, {})
    for pipe in ("arrived", "go"):
        os.mkfifo(base / "notes" / pipe)
    (base / "notes" / "stop_at").write_text(str(STOP_AT))
    address = cluster.address
    with driver("run", path, "--out", base / "ray", "--executor", "ray", "--address", address) as process:
        (base / "notes" / "arrived").read_text()
        cluster.head_node.kill_gcs_server()
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2, out + err
    sentence = (
        f"The head of the Ray cluster at {address} has not answered for 2 seconds ([Errno 111] Connection refused). "
        f"What is committed in {base / 'ray'} stays; start the Ray cluster again, then go on with: "
        f"assay resume {base / 'ray'}"
    )
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    assert "GCS" not in err
    with driver("resume", base / "ray", "--executor", "local") as resumed:
        out, err = resumed.communicate(timeout=SECONDS)
    assert resumed.returncode == 0, out + err
    assert states_digest(committed_tally(base / "ray")) == scored(base, base / "local", "--executor", "local")
