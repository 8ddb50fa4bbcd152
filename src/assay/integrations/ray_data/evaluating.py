"""`evaluate`: a Ray dataset, with all that is upstream of it, as the rows of an evaluation."""

from __future__ import annotations

from typing import Any

from ray.data import Dataset

from assay import api
from assay.errors import RunError
from assay.evaluation import Evaluation
from assay.integrations.ray_data.dataset import DatasetSource


def evaluate(ds: Dataset, **words: Any) -> Evaluation:
    """Evaluate variants on the rows of a Ray dataset, in its order, on the Ray cluster that it belongs to.

    words: those of `assay.evaluate`. The dataset is run once, and its blocks stay in the object store (which spills to
    disk) until the evaluation is done; workers fetch the columns and rows that they need from there, and none go
    through this process. Results depend on the rows and their order alone, not on blocks. `out` keeps the run, but it
    cannot be resumed: where the dataset may be long, write it to Parquet first.

    Raises what `assay.evaluate` raises; RunError for another executor than Ray, and for `address`; DataError where the
    dataset cannot be run.
    """
    executor, address = words.get("executor", "auto"), words.get("address")
    if executor == "local":
        raise RunError("A Ray dataset cannot be read by the executor 'local': drop it, or say executor='ray'.")
    if address is not None:
        raise RunError(
            f"A Ray dataset is evaluated on the Ray cluster that it belongs to, but got the address {address!r}; drop "
            "it, and connect with ray.init before the dataset is made."
        )
    return api.evaluate(DatasetSource(ds), **words)
