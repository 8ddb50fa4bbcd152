"""Two tasks, models of three kinds and a sweep named by a template: every number beside scikit-learn's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from assay import api

ROWS = 3000
LOADER = '''
import json
from pathlib import Path

import torch


class Ranker(torch.nn.Module):
    """dense [n, 2], country [n] -> two logits [n]."""

    def __init__(self, weights):
        super().__init__()
        self.dense = torch.nn.Parameter(torch.tensor(weights["dense"]))
        self.country = torch.nn.Parameter(torch.tensor(weights["country"]))

    def forward(self, dense, country):
        shared = self.country[country]
        return {"ctr": dense @ self.dense[0] + shared, "cvr": dense @ self.dense[1] - shared}


def from_dir(path):
    return Ranker(json.loads((Path(path) / "weights.json").read_text()))
'''
WEIGHTS = {
    "prod": '{"dense": [[0.9, -0.4], [0.2, 0.5]], "country": [0.0, 0.3, -0.3]}',
    "sweep/1": '{"dense": [[1.0, -0.5], [0.3, 0.6]], "country": [0.1, 0.3, -0.4]}',
    "sweep/2": '{"dense": [[0.1, 0.1], [0.1, 0.1]], "country": [0.0, 0.0, 0.0]}',
}
SPEC = """
data: {path: data/requests/, weight: w, cluster: user_id, time: ts,
       slices: [country, device, [country, device], {day: "date_trunc('day', ts)"}], where: "surface = 'home'"}
tasks:
  click: {label: clicked, output: {select: ctr, is: logit}}
  buy:   {label: bought, where: "clicked = 1", output: {select: cvr, is: logit}}
variants:
  - {name: served, column: {click: p_ctr, buy: p_cvr}, output: {is: probability}}
  - name: prod
    torch: {load: "ranker:from_dir", path: models/prod/}
    inputs: {dense: [age, price], country: country}
  - {name: "sweep-{trial}", torch: {load: "ranker:from_dir", path: "models/sweep/{trial}/"}}
  - {name: gbdt, lightgbm: models/gbdt.txt, output: {is: probability}}
baseline: prod
metrics: [auc, log_loss, normalised_entropy, ece, calibration_ratio]
gates: [{metric: log_loss, margin: 0.001}, {metric: auc, slices: country, harm: true}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "ranker.py").write_text(LOADER)
    for name, weights in WEIGHTS.items():
        place = tmp_path / "models" / name
        place.mkdir(parents=True)
        (place / "weights.json").write_text(weights)
    (tmp_path / "eval.yaml").write_text(SPEC)
    yield tmp_path
    sys.modules.pop("ranker", None)


def requests() -> pd.DataFrame:
    chance = np.random.default_rng(5)
    age, price = chance.normal(size=(2, ROWS)).astype(np.float32)
    country = chance.integers(0, 3, ROWS)
    clicked = chance.random(ROWS) < 1 / (1 + np.exp(-(age - 0.5 * price)))
    bought = clicked & (chance.random(ROWS) < 0.4)
    return pd.DataFrame(
        {
            "clicked": clicked,
            "bought": bought.astype(np.int8),
            "w": chance.choice([0.5, 1.0, 2.0], ROWS),
            "user_id": chance.integers(0, 400, ROWS),
            "ts": pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(ROWS), unit="min"),
            "country": country,
            "device": chance.choice(["ios", "web"], ROWS),
            "surface": chance.choice(["home", "search"], ROWS, p=[0.8, 0.2]),
            "age": age,
            "price": price,
            "p_ctr": chance.random(ROWS),
            "p_cvr": chance.random(ROWS),
        }
    )


def write(folder: Path, frame: pd.DataFrame) -> None:
    data = folder / "data" / "requests"
    data.mkdir(parents=True)
    half = ROWS // 2
    for name, part in (("a", frame[:half]), ("b", frame[half:])):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), data / f"{name}.parquet", row_group_size=700)
    settings = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1, "seed": 1}
    features = lightgbm.Dataset(frame[["age", "price"]], frame.clicked)
    lightgbm.train(settings, features, 10).save_model(folder / "models" / "gbdt.txt")


def probabilities(folder: Path, frame: pd.DataFrame, variant: str, task: str) -> np.ndarray:
    if variant == "served":
        return frame[{"click": "p_ctr", "buy": "p_cvr"}[task]].to_numpy()
    if variant == "gbdt":
        return lightgbm.Booster(model_file=folder / "models" / "gbdt.txt").predict(frame[["age", "price"]])
    scope: dict = {}
    exec(LOADER, scope)
    module = scope["from_dir"](folder / "models" / variant.replace("-", "/"))
    with torch.no_grad():
        dense = torch.tensor(frame[["age", "price"]].to_numpy())
        outputs = module(dense=dense, country=torch.tensor(frame.country.to_numpy()))
    return torch.sigmoid(outputs[{"click": "ctr", "buy": "cvr"}[task]].double()).numpy()


def test_every_value_is_scikit_learns(folder: Path) -> None:
    frame = requests()
    write(folder, frame)

    found = api.run(folder / "eval.yaml", out=folder / "run")

    variants = ["served", "prod", "sweep-1", "sweep-2", "gbdt"]
    assert list(dict.fromkeys(found.metrics["variant"].to_pylist())) == variants
    values = {tuple(row[k] for k in ("variant", "task", "metric", "slice")): row for row in found.metrics.to_pylist()}
    home = frame[frame.surface == "home"]
    for variant in variants:
        for task, rows, label in (("click", home, "clicked"), ("buy", home[home.clicked], "bought")):
            for slice_, part in (
                ("overall", rows),
                ("country=1,device=ios", rows.query("country == 1 & device == 'ios'")),
            ):
                score = probabilities(folder, part, variant, task)
                expected = {
                    "auc": roc_auc_score(part[label], score, sample_weight=part.w),
                    "log_loss": log_loss(part[label], score, sample_weight=part.w),
                    "calibration_ratio": (score * part.w).sum() / (part[label] * part.w).sum(),
                }
                for metric, value in expected.items():
                    row = values[variant, task, metric, slice_]
                    assert row["value"] == pytest.approx(value, rel=2e-6), (variant, task, metric, slice_)
                    assert row["rows"] == len(part)
    assert "day=2024-03-02" in found.metrics["slice"].to_pylist()
    assert {verdict.variant for verdict in found.verdicts} == set(variants) - {"prod"}
