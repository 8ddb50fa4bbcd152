"""CPU time of each metric per row and variant, beside the usual library's function on the same rows.

What is timed is what a run does for each row: updating the metric's states with chunks of 65,536 rows, in one thread,
over all rows in 64 buckets of the cluster, and in 100 slices as well (all rows and five dimensions). Counting rows and
weights (the support) is no part of a metric's time: all metrics share it, and it stands by itself. Other states are
shared too (precision and recall cost one together); the last lines of a family have all its metrics, each state once.

The library's function gets all rows at once, without weights and as it likes them best, and gives no interval. Where
both give the same number, it is checked that they do. States are those of the rows at hand; a plan counts the most they
can be.

    .venv/bin/python -m benchmarks.kernels [--quick] [--metric auc]
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.table import Table
from scipy import special, stats
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

from assay import catalogue
from assay.metrics.sums import SUPPORT
from assay.metrics.table import TABLES, Family
from assay.protocols import Accumulator, Metric
from assay.records import Block, LabelKind, Sizes, State, StateChoice
from assay.states import num_bytes
from assay.testing import make_block

SEED = 7
CHUNK_ROWS = 65_536
ROUNDS = 3
LONG_SECONDS = 3.0
NUM_BUCKETS = 64
SLICES_OF = (20, 20, 20, 20, 19)  # of each dimension, beside the one of all rows
ONE = Sizes(num_slices=1, num_buckets=NUM_BUCKETS)
MANY = Sizes(num_slices=100, num_buckets=NUM_BUCKETS, num_dimensions=1 + len(SLICES_OF))
CLASSES = ("ant", "bee", "cat", "dog", "eel")
BINNED = StateChoice(exact_ranking=False, bucketed="all", ranking_bits=11)
FORMS = {
    "": BINNED,
    "slices without buckets": replace(BINNED, bucketed="overall"),
    "all kept": StateChoice(exact_ranking=True, bucketed="all"),
}
"""Of states: the first for all metrics, the others for those below. With the last every score or error is kept."""
OF_FORMS = {"auc", "error_quantile"}
KINDS = {"single": "binary", "classes": "class", "labels": "labels"}
"""The kind of rows for metrics that take any."""
PARAMETERS = {
    ("classes", "top_accuracy"): "top_accuracy@2",
    **{("classes", name): f"{name}(class=cat)" for name in ("precision", "recall", "f1", "positive_rate")},
    **{("labels", name): f"{name}(label=cat)" for name in ("precision", "recall", "f1", "positive_rate")},
}
AGREEMENT = 2e-3  # relative: bins cost less than that, and a wrong formula more


class Columns(NamedTuple):
    """The same rows as a library wants them."""

    label: Any  # [n]; Any: arrays, of which a kind of rows may have none
    score: Any  # [n]
    reference: Any  # [n] the baseline's score
    outputs: Any  # [n, C] scores of classes or labels; [n, 2] lower and upper
    targets: Any  # [n, C]
    decided: Any  # [n] score at or above 0.5
    members: Any  # [n, C] outputs at or above 0.5


class Usual(NamedTuple):
    """What is used elsewhere. `value`: what it gives is the metric's own number."""

    name: str
    call: Callable[[Columns], object]
    value: bool = True


class Rows(NamedTuple):
    """Rows of one kind, for the metrics that take them."""

    chunks: Sequence[Block]
    columns: Columns


class Cost(NamedTuple):
    """Of states: ns a row over all rows alone and in 100 slices, and their bytes."""

    one: float
    many: float
    one_bytes: int
    many_bytes: int


class Line(NamedTuple):
    """One line of a table."""

    name: str
    cost: Cost
    usual: str
    usual_ns: float


Costs = dict[str, Cost]
"""By the identity of a state."""
Made = tuple[ArrayLike, ArrayLike, LabelKind, ArrayLike | None]
"""Scores, labels, their kind, and the baseline's scores, as `make_block` takes them."""

# ---- the usual functions ---------------------------------------------------------------------------------------------


def of_scores(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.label, c.score, **settings))


def of_decisions(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.label, c.decided, **settings))


def of_classes(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.label, c.score, **settings))


def of_members(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.targets, c.members, **settings))


def of_outputs(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.label, c.outputs, **settings))


def of_rankings(function: Callable[..., object], **settings: object) -> Usual:
    return Usual(function.__name__, lambda c: function(c.targets, c.outputs, **settings))


def numpy(call: Callable[[Columns], object]) -> Usual:
    return Usual("numpy", call)


def similar(usual: Usual) -> Usual:
    """It does the same work, and its number is another one."""
    return usual._replace(value=False)


def top(c: Columns, share: float) -> Any:  # Any: an array of the columns' own type
    """The labels of the top of the ranking."""
    return c.label[np.argpartition(-c.score, int(share * len(c.score)))[: int(share * len(c.score))]]


def slope(c: Columns) -> float:
    return float(LogisticRegression(C=np.inf).fit(special.logit(c.score)[:, None], c.label).coef_[0, 0])


def misses(c: Columns) -> Any:  # Any: as in `top`
    """How far the label is outside its interval."""
    return np.maximum(c.outputs[:, 0] - c.label, 0) + np.maximum(c.label - c.outputs[:, 1], 0)


RELIABILITY = similar(of_scores(calibration_curve, n_bins=32))
CONFUSION = similar(of_decisions(sk.confusion_matrix))
FIT = Usual("LogisticRegression", slope, value=False)
USUAL: Mapping[tuple[Family, str], Usual] = {
    ("single", "positive_rate"): numpy(lambda c: np.mean(c.label)),
    ("single", "mean_score"): numpy(lambda c: np.mean(c.score)),
    ("single", "log_loss"): of_scores(sk.log_loss),
    ("single", "normalised_entropy"): similar(of_scores(sk.log_loss)),
    ("single", "brier"): of_scores(sk.brier_score_loss),
    ("single", "auc"): of_scores(sk.roc_auc_score),
    ("single", "average_precision"): of_scores(sk.average_precision_score),
    ("single", "gini"): similar(of_scores(sk.roc_auc_score)),
    ("single", "partial_auc"): of_scores(sk.roc_auc_score, max_fpr=0.1),
    ("single", "ks"): Usual("ks_2samp", lambda c: stats.ks_2samp(c.score[c.label == 1], c.score[c.label == 0])[0]),
    ("single", "precision_at"): numpy(lambda c: np.mean(top(c, 0.01))),
    ("single", "recall_at"): numpy(lambda c: np.sum(top(c, 0.01)) / np.sum(c.label)),
    ("single", "f_beta_at"): similar(numpy(lambda c: np.sum(top(c, 0.01)))),
    ("single", "lift"): numpy(lambda c: np.mean(top(c, 0.1)) / np.mean(c.label)),
    ("single", "threshold_at"): similar(of_scores(sk.precision_recall_curve)),
    ("single", "ece"): RELIABILITY,
    ("single", "ece_debiased"): RELIABILITY,
    ("single", "ece_mass"): similar(of_scores(calibration_curve, n_bins=15, strategy="quantile")),
    ("single", "max_calibration_error"): RELIABILITY,
    ("single", "brier_reliability"): RELIABILITY,
    ("single", "brier_resolution"): RELIABILITY,
    ("single", "brier_uncertainty"): numpy(lambda c: np.mean(c.label) * (1 - np.mean(c.label))),
    ("single", "recalibrated_log_loss"): FIT,
    ("single", "recalibrated_brier"): FIT,
    ("single", "recalibrated_ece"): FIT,
    ("single", "calibration_slope"): FIT._replace(value=True),
    ("single", "calibration_intercept"): FIT,
    ("single", "calibration_ratio"): numpy(lambda c: np.sum(c.score) / np.sum(c.label)),
    ("single", "accuracy"): of_decisions(sk.accuracy_score),
    ("single", "precision"): of_decisions(sk.precision_score),
    ("single", "recall"): of_decisions(sk.recall_score),
    ("single", "f1"): of_decisions(sk.f1_score),
    ("single", "f_beta"): of_decisions(sk.fbeta_score, beta=2),
    ("single", "matthews"): of_decisions(sk.matthews_corrcoef),
    ("single", "balanced_accuracy"): of_decisions(sk.balanced_accuracy_score),
    ("single", "specificity"): of_decisions(sk.recall_score, pos_label=0),
    ("single", "false_positive_rate"): CONFUSION,
    ("single", "expected_cost"): CONFUSION,
    ("single", "rmse"): of_scores(sk.root_mean_squared_error),
    ("single", "mae"): of_scores(sk.mean_absolute_error),
    ("single", "mse"): of_scores(sk.mean_squared_error),
    ("single", "bias"): numpy(lambda c: np.mean(c.score - c.label)),
    ("single", "mape"): of_scores(sk.mean_absolute_percentage_error),
    ("single", "smape"): numpy(lambda c: np.mean(2 * np.abs(c.score - c.label) / (np.abs(c.score) + np.abs(c.label)))),
    ("single", "r2"): of_scores(sk.r2_score),
    ("single", "explained_variance"): of_scores(sk.explained_variance_score),
    ("single", "error_quantile"): similar(numpy(lambda c: np.quantile(np.abs(c.score - c.label), 0.9))),
    ("single", "pinball"): of_scores(sk.mean_pinball_loss, alpha=0.9),
    ("single", "huber"): Usual("scipy huber", lambda c: np.mean(special.huber(1.0, c.score - c.label))),
    ("single", "log_cosh"): numpy(lambda c: np.mean(np.log(np.cosh(c.score - c.label)))),
    ("single", "poisson_deviance"): of_scores(sk.mean_poisson_deviance),
    ("single", "gamma_deviance"): of_scores(sk.mean_gamma_deviance),
    ("single", "tweedie_deviance"): of_scores(sk.mean_tweedie_deviance, power=1.5),
    ("single", "interval_coverage"): numpy(lambda c: np.mean(misses(c) == 0)),
    ("single", "interval_width"): numpy(lambda c: np.mean(c.outputs[:, 1] - c.outputs[:, 0])),
    ("single", "interval_score"): numpy(lambda c: np.mean(c.outputs[:, 1] - c.outputs[:, 0] + 2 / 0.05 * misses(c))),
    ("single", "flip_rate"): numpy(lambda c: np.mean(c.decided != (c.reference >= 0.5))),
    ("single", "prediction_correlation"): numpy(lambda c: np.corrcoef(c.score, c.reference)[0, 1]),
    ("single", "prediction_mean_difference"): numpy(lambda c: np.mean(c.score - c.reference)),
    ("single", "prediction_absolute_difference"): numpy(lambda c: np.mean(np.abs(c.score - c.reference))),
    ("classes", "accuracy"): of_classes(sk.accuracy_score),
    ("classes", "top_accuracy"): of_outputs(sk.top_k_accuracy_score, k=2),
    ("classes", "log_loss"): of_outputs(sk.log_loss),
    ("classes", "brier"): of_outputs(sk.brier_score_loss, scale_by_half=False),
    **{
        ("classes", f"{average}_{name}"): of_classes(function, average=average)
        for average in ("macro", "micro", "weighted")
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score))
    },
    ("classes", "precision"): of_classes(sk.precision_score, labels=[2], average="macro"),
    ("classes", "recall"): of_classes(sk.recall_score, labels=[2], average="macro"),
    ("classes", "f1"): of_classes(sk.f1_score, labels=[2], average="macro"),
    ("classes", "positive_rate"): numpy(lambda c: np.mean(c.label == 2)),
    ("classes", "balanced_accuracy"): of_classes(sk.balanced_accuracy_score),
    ("classes", "cohens_kappa"): of_classes(sk.cohen_kappa_score),
    ("classes", "matthews"): of_classes(sk.matthews_corrcoef),
    ("classes", "macro_auc"): of_outputs(sk.roc_auc_score, multi_class="ovr", average="macro"),
    ("classes", "weighted_auc"): of_outputs(sk.roc_auc_score, multi_class="ovr", average="weighted"),
    ("classes", "error_rate"): similar(of_classes(sk.confusion_matrix)),
    ("classes", "flip_rate"): numpy(lambda c: np.mean(c.score != c.reference)),
    **{
        ("labels", f"{average}_{name}"): of_members(function, average=average)
        for average in ("macro", "micro", "weighted")
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score))
    },
    ("labels", "precision"): of_members(sk.precision_score, labels=[2], average="macro"),
    ("labels", "recall"): of_members(sk.recall_score, labels=[2], average="macro"),
    ("labels", "f1"): of_members(sk.f1_score, labels=[2], average="macro"),
    ("labels", "positive_rate"): numpy(lambda c: np.mean(c.targets[:, 2])),
    ("labels", "macro_auc"): of_rankings(sk.roc_auc_score, average="macro"),
    ("labels", "micro_auc"): of_rankings(sk.roc_auc_score, average="micro"),
    ("labels", "weighted_auc"): of_rankings(sk.roc_auc_score, average="weighted"),
    ("labels", "subset_accuracy"): of_members(sk.accuracy_score),
    ("labels", "hamming_loss"): of_members(sk.hamming_loss),
    ("labels", "label_ranking_average_precision"): of_rankings(sk.label_ranking_average_precision_score),
}

# ---- the rows --------------------------------------------------------------------------------------------------------


def rows_of(kind: str, num_rows: int) -> Rows:
    """Rows of one kind of label, in 100 slices and 64 buckets."""
    rng = np.random.default_rng(SEED)
    firsts = np.cumsum([1, *SLICES_OF[:-1]])
    slices = [first + rng.integers(0, number, num_rows) for first, number in zip(firsts, SLICES_OF, strict=True)]
    score, label, label_kind, reference = SCORES[kind](rng, num_rows)
    whole = make_block(
        score,
        label,
        label_kind=label_kind,
        probability=label_kind != "real",
        slices=np.stack([np.zeros(num_rows, np.int64), *slices]),
        bucket=rng.integers(0, NUM_BUCKETS, num_rows),
        reference=reference,
    )
    chunks = [whole.take(np.arange(first, first + CHUNK_ROWS)) for first in range(0, num_rows, CHUNK_ROWS)]
    return Rows(chunks, columns_of(whole))


def chances(rng: np.random.Generator, num_rows: int) -> Made:
    """Probabilities as of clicks, the label drawn by them, and a baseline that knows less."""
    logit = rng.normal(-2, 1.5, num_rows)
    label = rng.random(num_rows) < special.expit(logit)
    return special.expit(logit), label, "binary", special.expit(logit + rng.normal(0, 0.5, num_rows))


def amounts(rng: np.random.Generator, num_rows: int) -> Made:
    score = rng.lognormal(1, 0.5, num_rows)
    return score, score * rng.lognormal(0, 0.3, num_rows), "real", score * rng.lognormal(0, 0.1, num_rows)


def ranges(rng: np.random.Generator, num_rows: int) -> Made:
    made, label, kind, _ = amounts(rng, num_rows)
    score = np.asarray(made, np.float64)
    return np.stack([0.6 * score, 1.7 * score]), label, kind, None


def classes(rng: np.random.Generator, num_rows: int) -> Made:
    logits = rng.normal(0, 1.5, (len(CLASSES), num_rows))
    chance = special.softmax(logits, axis=0)
    label = np.argmax(logits + rng.gumbel(size=logits.shape), axis=0)
    return chance, label, "class", np.argmax(logits + rng.normal(0, 0.5, logits.shape), axis=0)


def label_sets(rng: np.random.Generator, num_rows: int) -> Made:
    chance = special.expit(rng.normal(-1, 1.5, (len(CLASSES), num_rows)))
    return chance, rng.random(chance.shape) < chance, "labels", None


SCORES: Mapping[str, Callable[[np.random.Generator, int], Made]] = {
    "binary": chances,
    "real": amounts,
    "interval": ranges,
    "class": classes,
    "labels": label_sets,
}


def columns_of(block: Block) -> Columns:
    """Scores as they are ranked: in float32, though in double width, so that thresholds fall alike."""
    outputs = None if block.outputs is None else block.outputs.T.astype(np.float64)
    score = block.raw if block.probability is None or outputs is not None else block.ranking.astype(np.float64)
    targets = None if block.targets is None else np.ascontiguousarray(block.targets.T).astype(np.int64)
    members = None if outputs is None else outputs >= 0.5
    return Columns(block.label, score, block.reference, outputs, targets, score >= 0.5, members)


def alone(rows: Rows) -> list[Block]:
    """The chunks without slices."""
    return [replace(chunk, slices=chunk.slices[:1]) for chunk in rows.chunks]


# ---- timing ----------------------------------------------------------------------------------------------------------


def update_all(accumulator: Accumulator, state: State, chunks: Iterable[Block]) -> State:
    for chunk in chunks:
        state = accumulator.update(state, chunk)
    return state


def cost_of(accumulator: Accumulator, rows: Rows) -> Cost:
    """Of a state that has seen all the rows before: what is timed allocates and compiles nothing."""
    one, one_bytes = timed_state(accumulator, ONE, alone(rows))
    many, many_bytes = timed_state(accumulator, MANY, rows.chunks)
    return Cost(one, many, one_bytes, many_bytes)


def timed_state(accumulator: Accumulator, sizes: Sizes, chunks: Sequence[Block]) -> tuple[float, int]:
    """ns a row, and the bytes of the state."""
    state = update_all(accumulator, accumulator.zero(sizes), chunks)
    seconds = least_seconds(lambda: update_all(accumulator, state, chunks))
    return seconds * 1e9 / (CHUNK_ROWS * len(chunks)), num_bytes(state)


def least_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process, the least of a few; of one where that takes long."""
    found: list[float] = []
    while len(found) < ROUNDS and sum(found) < LONG_SECONDS:
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def costs_of(metric: Metric, choice: StateChoice, rows: Rows, known: Costs) -> list[Cost]:
    """Of each of its states but the support. known: of states by identity, completed here."""
    for one in metric.accumulators(choice):
        if one.identity not in known:
            known[one.identity] = cost_of(one, rows)
    return [known[one.identity] for one in metric.accumulators(choice) if one.identity != SUPPORT.identity]


def in_all(name: str, costs: Iterable[Cost], usual: str = "", seconds: float = math.nan, num_rows: int = 1) -> Line:
    """The sum of several costs."""
    total = Cost(*(sum(column) for column in zip(*costs, strict=True))) if costs else Cost(0.0, 0.0, 0, 0)
    return Line(name, total, usual, seconds * 1e9 / num_rows)


def measured(metric: Metric, family: Family, form: str, rows: Rows, known: Costs) -> Line:
    """A metric's line. SystemExit where it does not give the usual library's number."""
    choice = choice_of(family, form)
    costs = costs_of(metric, choice, rows, known)
    name = f"{metric.name}, {form}" if form else metric.name
    usual = USUAL.get((family, metric.name.partition("@")[0].partition("(")[0]))
    if usual is None or form:
        return in_all(name, costs)
    if usual.value:
        check_agreement(metric, usual, choice, rows)
    seconds = least_seconds(lambda: usual.call(rows.columns))
    return in_all(name, costs, usual.name, seconds, CHUNK_ROWS * len(rows.chunks))


def choice_of(family: Family, form: str) -> StateChoice:
    return replace(FORMS[form], classes=() if family == "single" else CLASSES)


def check_agreement(metric: Metric, usual: Usual, choice: StateChoice, rows: Rows) -> None:
    """A faster way that computes something else is no faster way."""
    states = {one.identity: update_all(one, one.zero(ONE), alone(rows)) for one in metric.accumulators(choice)}
    found, expected = metric.evaluate(states, choice, 1.0).value[0], usual.call(rows.columns)
    if not isinstance(expected, float) or not math.isclose(found, expected, rel_tol=AGREEMENT):
        raise SystemExit(f"{metric.name} gives {found}, {usual.name} {expected}.")


# ---- the tables ------------------------------------------------------------------------------------------------------


def main() -> None:
    arguments = parse_arguments()
    warnings.simplefilter("ignore")  # libraries' advice about settings
    console = Console()
    num_rows = CHUNK_ROWS * (1 if arguments.quick else 4)
    rows = {kind: rows_of(kind, num_rows) for kind in SCORES}
    for family in TABLES:
        lines = family_lines(family, rows, arguments.metric)
        if lines:
            console.print(as_table(f"Of {catalogue.FAMILIES[family]}", lines))
    console.print(f"{num_rows:,} rows, chunks of {CHUNK_ROWS:,}; {len(CLASSES)} classes or labels; best of {ROUNDS}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows")
    parser.add_argument("--metric", help="only metrics of this name")
    return parser.parse_args()


def family_lines(family: Family, rows: Mapping[str, Rows], only: str | None) -> list[Line]:
    """The support, each metric in its forms, and all of each kind of rows together."""
    known: dict[str, Costs] = {}
    lines = []
    for name in catalogue.metric_places(family):
        if only in (None, name):
            metric = catalogue.metric(PARAMETERS.get((family, name), name), family)
            kind = "interval" if metric.needs_interval else metric.label_kind or KINDS[family]
            of_kind = known.setdefault(kind, {})
            forms = FORMS if family == "single" and name in OF_FORMS else ("",)
            lines += [measured(metric, family, form, rows[kind], of_kind) for form in forms]
    if not lines:
        return []
    support = next(iter(known.values()))[SUPPORT.identity]
    together = [in_all(f"all of {kind}", once(family, costs)) for kind, costs in known.items() if only is None]
    return [in_all("support", [support]), *lines, *together]


def once(family: Family, costs: Costs) -> list[Cost]:
    """Of each state of the first form."""
    choice = choice_of(family, "")
    metrics = (
        catalogue.metric(PARAMETERS.get((family, name), name), family) for name in catalogue.metric_places(family)
    )
    first = {one.identity for metric in metrics for one in metric.accumulators(choice)}
    return [cost for identity, cost in costs.items() if identity in first]


def as_table(title: str, lines: Sequence[Line]) -> Table:
    table = Table("metric", title=title)
    for heading in ("ns a row", "in 100 slices", "state", "in 100 slices", "usual function", "ns a row", "ratio"):
        table.add_column(heading, justify="left" if heading == "usual function" else "right")
    for name, cost, usual, usual_ns in lines:
        times = (f"{cost.one:,.1f}", f"{cost.many:,.1f}", kibibytes(cost.one_bytes), kibibytes(cost.many_bytes))
        ratio = f"{usual_ns / cost.one:,.1f}" if usual and cost.one else ""
        of_usual = (usual, f"{usual_ns:,.1f}", ratio) if usual else ()
        table.add_row(name, *(times if cost.one else ("support alone", "", "", "")), *of_usual)
    return table


def kibibytes(size: float) -> str:
    return f"{size / 2**10:,.1f} KiB" if size < 2**20 else f"{size / 2**20:,.1f} MiB"


if __name__ == "__main__":
    main()
