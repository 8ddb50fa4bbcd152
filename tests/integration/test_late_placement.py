"""Wide columns stay off the node of the model: a Ray cluster of a GPU's node and one with CPUs alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.ray_cluster import cluster_of

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]
TESTS = Path(__file__).parent.parent
STORE_BYTES = 80 << 20
DRIVER = """
import json, sys
import pandas as pd
import pyarrow as pa
import ray, ray.data
from ray.experimental import get_object_locations
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from assay.integrations.ray_data import ParquetRows, map_batches

@ray.remote
def frame(first):
    numbers = range(first, first + 10)
    return pd.DataFrame({"x": numbers, "text": [f"{number:050d}" * 1000 for number in numbers]})

@ray.remote
def table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)

def widen(batch):
    numbers = batch["id"].tolist()
    text = [f"{number:050d}" * 1000 for number in numbers]
    maker = ray.get_runtime_context().get_node_id()
    return {"x": numbers, "text": text, "maker": [maker] * len(numbers)}

class Where:
    def __init__(self):
        self.node = ray.get_runtime_context().get_node_id()

    def __call__(self, batch):
        return [self.node] * len(batch["x"])

def lie(refs):
    return sorted({node for place in get_object_locations(refs).values() for node in place["node_ids"]})

address, folder = sys.argv[1:]
ray.init(address, log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
frames = [frame.remote(first) for first in range(0, 80, 10)]
tables = [table.remote(one) for one in frames]
rows = ParquetRows(folder)
cases = {
    "frames": (ray.data.from_pandas_refs(frames), True, frames),
    "tables": (ray.data.from_arrow_refs(tables), True, tables),
    "files": (rows.dataset(["x"]), rows, []),
    "steps": (ray.data.range(80, override_num_blocks=8).map_batches(widen, batch_size=None), True, []),
}
print(json.dumps({"made": lie(frames + tables)}), flush=True)
sys.stdin.readline()  # now the node of the models is there
for name, (ds, late, before) in cases.items():
    result = map_batches(ds, Where, inputs=["x"], outputs="node", num_gpus=1, concurrency=1, late=late).materialize()
    refs = result.to_arrow_refs()
    said = {"case": name, "blocks": len(refs), "before": lie(before), "after": lie(refs)}
    table = pa.concat_tables(ray.get(refs))  # copies them to the head
    said |= {"columns": table.column_names, "rows": table.num_rows, "models": table["node"].unique().to_pylist()}
    if name == "steps":  # not before that node was there, as the others were
        said |= {"before": table["maker"].unique().to_pylist(), "columns": table.drop("maker").column_names}
    print(json.dumps(said), flush=True)
group = placement_group([{"CPU": 2, "GPU": 1}])  # all that the node of the models has
ds = ray.data.from_arrow_refs(tables[:2])
ds.context.scheduling_strategy = PlacementGroupSchedulingStrategy(group)
ds.context.scheduling_strategy_large_args = PlacementGroupSchedulingStrategy(group)
result = map_batches(ds, Where, inputs=["x"], outputs="node", num_gpus=1, num_cpus=1, concurrency=1, late=True)
table = pa.concat_tables(ray.get(result.materialize().to_arrow_refs()))
print(json.dumps({"in the group": table["node"].unique().to_pylist()}), flush=True)
remove_placement_group(group)
"""


@pytest.fixture
def cluster() -> Iterator[Any]:  # Any: Ray's class is untyped
    """A head without CPUs; the test adds nodes."""
    made = cluster_of(num_cpus=0, object_store_memory=STORE_BYTES)
    yield made
    made.shutdown()


def until_said(lines: Iterable[str]) -> Iterator[str]:
    """To the first line that is JSON; Ray says other things too."""
    for line in lines:
        yield line
        if line.startswith("{"):
            return


def test_wide_columns_are_never_on_the_node_of_the_model(cluster: Any, tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(80), "text": [f"{number:050d}" * 1000 for number in range(80)]})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=10)
    other = cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES)
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src"), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    command = [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = list(until_said(process.stdout))
            model = cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=STORE_BYTES)
            out, _ = process.communicate("\n", timeout=500)
        finally:
            process.kill()
    assert process.returncode == 0, "".join(lines) + out
    made, *said, grouped = [json.loads(line) for line in [*lines, *out.splitlines()] if line.startswith("{")]
    assert made == {"made": [other.node_id]}
    assert grouped == {"in the group": [model.node_id]}
    assert [one["case"] for one in said] == ["frames", "tables", "files", "steps"]
    for one in said:
        assert (one["rows"], one["columns"]) == (80, ["x", "text", "node"])
        assert one["blocks"] >= 8  # so many tasks append that Ray would use both nodes
        assert one["models"] == [model.node_id]
        assert one["before"] == ([] if one["case"] == "files" else [other.node_id]), one["case"]
        assert one["after"] == [other.node_id], one["case"]
