"""Writes metrics.md: every metric with its parameters, from the tables themselves.

python docs/make_metrics_page.py     prints the page; `make docs` writes it, and a test says when it is out of date

Whether a metric has intervals, and which curves it draws, is found out by evaluating it on a few made-up rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any

import numpy as np

from assay import catalogue
from assay.metrics.table import TABLES, Family
from assay.protocols import Metric
from assay.records import Block, Sizes, StateChoice
from assay.testing import make_block

HEAD = """# Metrics

What each metric is called, what it takes and what it gives. `assay metrics` prints the list too, plug-ins included
(`--family classes`); a metric of your own is a function of a few lines:
[metrics-of-your-own.md](metrics-of-your-own.md).

```yaml
metrics: [auc, log_loss, "precision(threshold=0.3)", "precision_at(k=100)", "recall_at(precision=0.95)"]
```

Parameters are given by name, in brackets; `k` also as `top_accuracy@5`. A name is data: it stands in tables,
gates and comparisons as it stands here, without parameters that have their default.

## Which metric for what

| question | metric | beside it |
|---|---|---|
| Does it order rows well? | `auc` | `average_precision` where positives are rare |
| Are its probabilities good, all in all? | `log_loss` | `normalised_entropy`, which does not depend on the base rate |
| Do its probabilities mean what they say? | `calibration_ratio` in total, `ece_mass` by score | `ece_debiased`, of \
few rows |
| Is a loss due to ranking or to calibration? | `recalibrated_log_loss` beside `log_loss` | `brier_reliability`, \
`brier_resolution` |
| Is it too bold or too shy? | `calibration_slope` | `calibration_intercept` |
| Only the top is shown or acted on | `precision_at(k=...)`, `lift` | `recall_at` |
| False alarms are capped | `partial_auc(max_fpr=...)` | `recall_at(precision=...)` |
| A decision at a fixed threshold | `f1`, or `expected_cost` where errors have prices | `precision`, `recall` |
| Which threshold to take | `threshold_at(precision=...)` | the curve `pr` of `average_precision` |
| A number, errors in its unit | `mae`, `rmse` | `bias`, `error_quantile` |
| Amounts over several magnitudes | `gamma_deviance`, `tweedie_deviance` with zeros | `mape` |
| Counts | `poisson_deviance` | `bias` |
| A predicted quantile | `pinball(quantile=...)` | |
| A predicted interval | `interval_score` | `interval_coverage`, `interval_width` |
| One of several classes | `log_loss`, `accuracy` | `balanced_accuracy`, `macro_f1` where classes are uneven |
| A set of labels | `macro_f1`, `macro_auc` | `subset_accuracy`, `label_ranking_average_precision` |
| How much does a variant change? | `flip_rate` | `prediction_correlation`, `prediction_absolute_difference` |

## What all have in common

- **Weights.** A row of weight 2 is two rows, to the bit, in every value. `count` and the column `rows` count rows.
- **Ties** are averaged and never broken by the order of rows: `auc` counts them one half; `average_precision` and
  curves go in steps of distinct scores; a cut inside of tied scores takes a share of each.
- **Scores** are compared as 32-bit floats, so thresholds are too; predictions and labels of regression are doubles.
- **Undefined** is a value of its own with a reason (no rows, one class, nothing predicted positive), never 0, 0.5 or
  1; no gate passes on it. Averages over classes leave undefined ones out.
- **Better** says which way a gate's margins count; with "near 1" it is the distance from it, and without one only `min`
  and `max` can be asked.
- **Needs**: *probability* is an output that is a probability or a logit, *scores* a score for each class, *interval* an
  output `[lower, upper]`, *baseline* a spec that names one.
- **Interval**: a 95 % interval of the value, and one of the paired difference to the baseline; how, and when there is
  none, is in [statistics.md](statistics.md). Where the budget does not hold them in all slices, those of ranking,
  calibration, quantiles and counts by class are left to all rows together.
- **Curves** go to `results/curves.parquet`, those of ranking for all rows alone.

"""
HEADINGS: Mapping[tuple[Family, str], str] = {
    ("single", "any"): "A label of any kind, one score",
    ("single", "binary"): "A label of 0 or 1",
    ("single", "real"): "A label that is a number",
    ("classes", "any"): "One of several classes",
    ("labels", "any"): "A set of labels",
}
NUM_ROWS = 4000
NAMES = ("a", "b", "c", "d", "e", "f")  # `a` is the example that listed metrics have for a class or label
CHOICE = StateChoice(exact_ranking=True, bucketed="all")


def page() -> str:
    sections = [HEAD]
    for (family, kind), heading in HEADINGS.items():
        of_kind = [
            one for one in catalogue.listed_metrics(family) if kind == _kind(one, family) and _is_ours(one, family)
        ]
        sections += [f"## {heading}\n\n", *_table(of_kind, family)]
    return "".join(sections).rstrip() + "\n"


def _kind(metric: Metric, family: Family) -> str:
    return (metric.label_kind or "any") if family == "single" else "any"


def _is_ours(metric: Metric, family: Family) -> bool:
    return _name(metric) in TABLES[family]  # and not a plug-in of this machine


def _table(metrics: Sequence[Metric], family: Family) -> Iterator[str]:
    yield "| metric | what it is | better | needs | interval | curves |\n|---|---|---|---|---|---|\n"
    for one in metrics:
        has_interval, curves = _found(one, family)
        cells = (_signature(one), one.description, _better(one), _needs(one), has_interval, ", ".join(curves))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    yield "\n"


def _signature(metric: Metric) -> str:
    """The name with all parameters: `precision(threshold=0.5)`; those without a default as `class=...`."""
    name = _name(metric)
    several = fields(metric)  # type: ignore[arg-type]  # every metric of the tables is a dataclass
    parameters = ", ".join(_parameter(one) for one in several if one.init)
    return f"`{name}({parameters})`" if parameters else f"`{name}`"


def _name(metric: Metric) -> str:
    return metric.name.partition("(")[0].partition("@")[0]


def _parameter(field: Field[Any]) -> str:  # Any: of any type
    known = field.default is not MISSING and field.default is not None
    return f"{field.name.rstrip('_')}={field.default if known else '...'}"


def _better(metric: Metric) -> str:
    direction = metric.direction
    return direction if isinstance(direction, str) else "" if direction is None else f"near {direction:g}"


def _needs(metric: Metric) -> str:
    needs = {
        "probability": metric.needs_probability,
        "scores": metric.needs_outputs and not metric.needs_probability,
        "interval": metric.needs_interval,
        "baseline": metric.needs_baseline,
    }
    return ", ".join(name for name, needed in needs.items() if needed)


# ---- what a metric gives ---------------------------------------------------------------------------------------------


def _found(metric: Metric, family: Family) -> tuple[str, list[str]]:
    """Whether it has an interval, and the names of its curves."""
    choice = CHOICE if family == "single" else replace(CHOICE, classes=NAMES)
    block, sizes = _rows(metric, family), Sizes(num_slices=1, num_buckets=64)
    states = {one.identity: one.update(one.zero(sizes), block) for one in metric.accumulators(choice)}
    found = metric.evaluate(states, choice, 1.0)
    known = found.interval_reason[0] is None and np.isfinite(found.without[0]).all()
    curves = dict.fromkeys(one.curve for one in metric.curves(states, choice, 1.0))
    return "yes" if known else "none", [f"`{one}`" for one in curves]


def _rows(metric: Metric, family: Family) -> Block:
    """Rows on which it has a value; scores and labels alike are numbers above 0."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.05, 0.95, (len(NAMES), NUM_ROWS))
    if family == "classes":
        chance /= chance.sum(axis=0)
        classes = rng.integers(0, len(NAMES), NUM_ROWS)
        return make_block(chance, classes, label_kind="class", reference=np.flip(classes))
    if family == "labels":
        return make_block(chance, rng.random(chance.shape) < chance, label_kind="labels")
    score, other, drawn = chance[:3]
    if metric.needs_interval:
        return make_block(np.stack([score, score + 0.5]), other, label_kind="real")
    if metric.label_kind == "real":
        return make_block(score, other, label_kind="real", probability=False)
    return make_block(score, drawn < score, reference=other)


if __name__ == "__main__":
    print(page(), end="")
