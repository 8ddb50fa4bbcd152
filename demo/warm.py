"""Runs one tiny evaluation at set-up, so that kernels are compiled once and no run waits for it (some ten seconds)."""

from __future__ import annotations

import pyarrow as pa

import assay
from assay.catalogue import metric, metric_places

ROWS = pa.table({"label": [0, 1] * 100, "old": [0.25, 0.5] * 100, "new": [0.25, None] * 100, "day": list(range(200))})


def main() -> None:
    binary = [name for name in metric_places() if metric(name).label_kind != "real"]
    warm(binary, "probability", exact_rows=len(ROWS))
    warm(["rmse", "mae"], "score", exact_rows=0)


def warm(metrics: list[str], output: str, exact_rows: int) -> None:
    assay.evaluate(
        ROWS,
        label="label",
        scores=["old", "new"],
        baseline="old",
        cluster="day",
        metrics=metrics,
        output=output,
        executor="local",
        budget={"exact_rows": exact_rows},
    )


if __name__ == "__main__":
    main()
