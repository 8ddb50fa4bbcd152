"""Where the steps run of a dataset that is yet to run: on the nodes where its wide columns may be seen, if they can.

Lives here: what the steps of a plan ask of Ray. Not here: which nodes these are (`placement.py`). The plan is Ray
Data's own: where it looks different from what is known here, the choice is Ray's.
"""

from __future__ import annotations

from typing import Any

from ray.data import Dataset, TaskPoolStrategy

from assay.integrations.ray_data.placement import (
    LABELS_WHOLE_DATASETS,
    Asked,
    Place,
    Selector,
    chosen,
    everywhere,
    fits,
    has_labels,
    living,
    may_be_placed,
)

STEPS_THAT_ASK_NOTHING = (
    "InputData", "FromArrow", "FromBlocks", "FromItems", "FromNumpy", "FromPandas", "ListFiles", "Limit", "Union",
    "Zip",
)  # fmt: skip
"""What Ray Data calls the steps of a dataset for which it takes no arguments of a task."""


def labels_of_steps(ds: Dataset, place: Place) -> Selector:
    """The labels of nodes for the steps of `ds`, so that wide columns are made where they may be seen.

    Empty, which leaves it to Ray, unless `place` has labels, all steps read or map in tasks that ask for CPUs and
    memory alone, and a node with these labels has as much. Actors may hold all CPUs of the nodes that are left, so that
    the steps before wait.
    """
    selector: Selector = place.asked.get("label_selector") or {}
    if not (selector and LABELS_WHOLE_DATASETS and may_be_placed(ds)):
        return {}
    last = getattr(getattr(ds, "_logical_plan", None), "dag", None)
    steps = asked_by_steps(last)
    if steps is None:
        return {}
    most = {name: max([0, *(asked.get(name) or 0 for asked in steps)]) for name in ("num_cpus", "memory")}
    labels = {**everywhere(ds), **selector}
    return labels if any(has_labels(node, labels) and fits(node, most) for node in living()) else {}


def asked_by_steps(last: Any) -> list[Asked] | None:  # Any: Ray Data's own operator
    """What the tasks of this step and of those before ask of Ray.

    None where one chooses nodes, or may, or is of another kind than those that read and map (a shuffle, say).
    """
    asked: list[Asked] = []
    steps = [last]
    while steps:
        step = steps.pop()
        steps += getattr(step, "input_dependencies", ())
        if type(step).__name__ in STEPS_THAT_ASK_NOTHING:
            continue
        if not all(hasattr(step, name) for name in ("compute", "ray_remote_args", "ray_remote_args_fn")):
            return None
        in_tasks = step.compute is None or isinstance(step.compute, TaskPoolStrategy)
        said = step.ray_remote_args or {}
        if not in_tasks or step.ray_remote_args_fn or said.get("num_gpus") or chosen(said):
            return None
        asked.append(said)
    return asked
