"""What the user asks for: one frozen pydantic tree for the spec file, the command line and Python arguments.

Lives here: the tree and the checks that need nothing but the tree. Not here: reading YAML, `${ENV}` and `--set`
(`load.py`), and any check that needs the data or a model (they are made at plan time).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

MAIN_TASK = "main"
"""The name of the only task of a spec without `tasks`."""
OVERALL = "overall"
"""The name of the slice of all rows."""

OutputKind = Literal["probability", "logit", "score", "label", "interval", "none"]
NO_SCORE = "none"
"""What the output is of a variant that gives other outputs and no score."""
ScoreType = Literal["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
Name = Annotated[str, Field(min_length=1)]
ALL = "all"
"""In the place of a list of columns: all of them."""


def _no_truth(value: object) -> object:
    """pydantic takes true for 1; a gate with such a limit would pass what it should not."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _as_list(value: object) -> object:
    """A text alone is a list of one."""
    return (value,) if isinstance(value, str) else value


def _all_or_list(value: object) -> object:
    return value if value == ALL else _as_list(value)


class Strict(BaseModel):
    """The base of the tree: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class OutputSpec(Strict):
    """Which output of a model is the score, and what it means."""

    kind: OutputKind | None = Field(
        None,
        alias="is",
        description="probability (in [0, 1]), logit (a sigmoid, or with several classes a softmax, makes it a "
        "probability), score (any real number), label (the predicted class, or the set of labels), interval (two "
        "numbers, lower and upper) or none (the variant gives other outputs alone; where nothing is measured). "
        "Required by metrics that need a probability.",
    )
    select: str | int | None = Field(
        None, description="The key of a dict output, or the position in a tuple or the column of a matrix output."
    )


class CutSpec(Strict):
    """A slicing dimension that is more than a column: an expression, cut edges, quantiles or declared values."""

    of: str | None = Field(None, description="A column or SQL expression; the dimension's own name by default.")
    edges: tuple[float, ...] | None = Field(None, description="Increasing cut points: x < e1, e1 <= x < e2, ...")
    quantiles: int | None = Field(
        None, ge=2, le=100, description="Number of cells of about equal mass, fixed in the plan."
    )
    values: tuple[str | int | bool, ...] | None = Field(None, description="The values to keep; others go to `other`.")


SliceSpec = str | tuple[str, ...] | dict[str, str | CutSpec]
"""A column or expression, a cross of dimensions, or {name: expression or cut}."""


Classes = Literal["auto"] | tuple[str | int | bool, ...]
"""The classes of a label in the order of the outputs; auto: the values that the column has, sorted."""
Labels = Literal["auto"] | tuple[str, ...] | dict[str, str]
"""The labels that a row may have several of: values of a list column, or {label: 0/1 column or expression}."""


class DataSpec(Strict):
    """The logged rows and the part that each column plays."""

    path: str | tuple[str, ...] | None = Field(None, description="File, folder or glob, or a list of them.")
    label: str | None = Field(None, description="Column or SQL expression with the label of the only task.")
    classes: Classes | None = Field(None, description="Of the only task; see tasks.*.classes.")
    labels: Labels | None = Field(None, description="Of the only task; see tasks.*.labels.")
    weight: str | None = Field(None, description="Column or SQL expression with a weight per row, 0 or more.")
    weight_max: Annotated[float, Field(gt=0), BeforeValidator(_no_truth)] | None = Field(
        None, description="The largest weight, where files do not record it."
    )
    cluster: str | tuple[str, str] | None = Field(
        None,
        description="Column or SQL expression naming the independent entity (a user); two of them, [user, day], where "
        "rows depend on one another through either.",
    )
    time: str | None = Field(None, description="Column with the event time; orders the units' strata.")
    slices: tuple[SliceSpec, ...] = Field((), description="Slicing dimensions and crosses.")
    slice_cap: int = Field(100, ge=1, le=10_000, description="Most values kept per dimension; the rest is `other`.")
    where: str | None = Field(None, description="SQL condition; rows where it is not true are not read into anything.")
    format: Literal["parquet", "csv"] | None = Field(None, description="By the files' ending where not given.")
    reader: Name | None = Field(
        None,
        description="What reads rows that are not in Parquet or CSV files: images, webdataset, tfrecords, lance, "
        'iceberg, delta, sql, huggingface, or "module:function" that returns a Ray dataset; docs/sources.md.',
    )
    settings: dict[str, JsonValue] = Field({}, description="Keyword arguments of the reader.")


class TaskSpec(Strict):
    """One label and the output that predicts it."""

    label: str | None = Field(None, description="Column or SQL expression; none where `labels` names a column each.")
    classes: Classes | None = Field(
        None,
        description="The label is one of several classes: these, in the order of the outputs, or auto, the sorted "
        "values of the column (one pass over it).",
    )
    labels: Labels | None = Field(
        None,
        description="The label is a set: a list column with these values (or auto, all that it has, sorted), or "
        "{name: 0/1 column or expression}; in the order of the outputs.",
    )
    output: OutputSpec = Field(OutputSpec(), description="What every variant's score for this task is.")
    where: str | None = Field(None, description="SQL condition; other rows do not take part in this task.")


class OtherOutput(Strict):
    """What another variant gives for the same rows."""

    variant: Name = Field(description="The other variant.")
    task: Name | None = Field(None, description="Its score for this task; the only task by default.")
    output: Name | None = Field(None, description="One of its `outputs`, in the place of a score.")


Inputs = dict[str, str | OtherOutput | tuple[str | OtherOutput, ...]] | tuple[str, ...]
"""{argument: column or columns}, or the columns in order. In a mapping another's output may stand for a column."""
ColumnInputs = dict[str, str | tuple[str, ...]] | tuple[str, ...]
"""The same, once columns stand for others' outputs too."""
Receive = Literal["arguments", "dict", "matrix", "arrow", "pandas"]


class CallableModel(Strict):
    """A Python function that scores."""

    function: str = Field(description='"module:function"')
    settings: dict[str, str | int | float | bool | None] = Field({}, description="Keyword arguments passed to it.")
    files: tuple[str, ...] = Field((), description="Files and folders that the code reads; part of the fingerprint.")


class SklearnModel(Strict):
    """A scikit-learn estimator or pipeline."""

    path: str = Field(description="A joblib or pickle file.")
    method: Literal["predict_proba", "decision_function", "predict"] | None = Field(
        None, description="predict_proba for a probability, decision_function for a logit, predict for a score."
    )


class LightGBMModel(Strict):
    """A LightGBM booster."""

    path: str = Field(description="A model text file.")


class TorchModel(Strict):
    """A PyTorch module, by exactly one of load and factory (or neither, for a trusted whole-module file)."""

    load: str | None = Field(None, description='"module:function" from a path to an nn.Module.')
    factory: str | None = Field(
        None, description='"module:function" that builds the nn.Module; weights come from path.'
    )
    path: str = Field(description="What `load` gets, or a safetensors or weights_only state dict for `factory`.")
    settings: dict[str, str | int | float | bool | None] = Field(
        {}, description="Keyword arguments of load or factory."
    )
    files: tuple[str, ...] = Field((), description="Files and folders that the code reads; part of the fingerprint.")
    device: Literal["cpu", "cuda"] = Field("cpu", description="Where it computes; cuda is the worker's first GPU.")


Resources = dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_no_truth)]]
"""Amounts of Ray's custom resources."""


class PrepareSpec(Strict):
    """A function that makes what models receive, once for all variants that name it."""

    function: str = Field(
        description='"module:function" from an Arrow table of its inputs to any object; or a class, made once in each '
        "worker with the settings and then called with tables."
    )
    inputs: tuple[str, ...] | dict[str, str] = Field(description="The columns that it reads, or {name: column}.")
    settings: dict[str, str | int | float | bool | None] = Field({}, description="Keyword arguments passed to it.")
    files: tuple[str, ...] = Field((), description="Files and folders that the code reads; part of the fingerprint.")
    batch_rows: int | None = Field(
        None, ge=1, le=1_048_576, description="Rows per call; execution.micro_batch, or 1,024, if absent."
    )
    tasks: int | None = Field(
        None,
        ge=1,
        description="So many Ray tasks at once do it, apart from the workers that score; these do it themselves, if "
        "absent.",
    )
    num_cpus: float = Field(1.0, ge=0, allow_inf_nan=False, description="CPUs of each task.")
    resources: Resources = Field({}, description="Custom Ray resources of each task.")
    labels: dict[str, str] = Field({}, description="Labels of the nodes where the tasks may run.")


class MoreOutput(Strict):
    """What else of a model's output is written, or taken by another variant."""

    type: Name = Field(
        description="bool, int8 to int64, uint8 to uint64, float32, float64, string, or a list of as many numbers in "
        "each row: list<float32>, or with their number list<float32>[384]."
    )
    select: str | int | None = Field(
        None, description="The key of a dict output, or the position in a tuple; for a dict its own name, if absent."
    )


class VariantSpec(Strict):
    """One model under test. Exactly one of column, callable, sklearn, lightgbm, torch."""

    name: Name = Field(description="Or a template such as sweep-{trial}, for a path with the same placeholder.")
    column: str | tuple[str, ...] | dict[str, str | tuple[str, ...]] | None = Field(
        None,
        description="A score already in the data; {task: column}. With several classes a list column, a column of "
        "predicted labels, or a column for each class, in their order.",
    )
    callable: str | CallableModel | None = Field(None, description='"module:function"')
    sklearn: str | SklearnModel | None = Field(None, description="A joblib or pickle file; needs `trusted`.")
    lightgbm: str | LightGBMModel | None = Field(None, description="A model text file.")
    torch: TorchModel | None = Field(None, description="A PyTorch module.")
    inputs: Inputs | None = Field(
        None,
        description="What the model reads: columns, or {argument: column}, where {variant: first, task: main} stands "
        "for what another variant gives; for torch, if absent, as of the first variant of the same loader.",
    )
    prepare: Name | None = Field(
        None, description="One of `prepare`: the model receives what that makes, in the place of inputs."
    )
    receive: Receive | None = Field(None, description="How it receives its inputs; see docs/variants.md.")
    output: OutputSpec | dict[str, OutputSpec] | None = Field(None, description="Overrides the tasks' output.")
    outputs: dict[Name, MoreOutput] = Field(
        {}, description="What else the model gives, by name: written with predictions, or taken by other variants."
    )
    family: Name | None = Field(None, description="The recipe that it is one of several seeds of.")
    memory_bytes: int | None = Field(
        None, ge=0, description="What it takes in memory once loaded; the size of its files, if absent."
    )
    trusted: bool = Field(False, description="Allow formats that run code when loaded (pickle, joblib).")


class MetricSpec(Strict):
    """A metric for one task only, or one of your own: a name and a function."""

    metric: str = Field(
        description="Its name, as in `assay metrics`, with parameters: precision(threshold=0.3); for a function the "
        "name that it is shown under."
    )
    task: str | None = Field(None, description="The task that it is for.")
    function: str | None = Field(
        None, description='"module:function" from a batch to a value per row; the metric is their weighted mean.'
    )
    direction: Literal["higher", "lower"] | None = Field(None, description="Which way a function's mean is better.")
    columns: tuple[str, ...] = Field((), description="Columns of numbers that a function reads, in `batch.columns`.")
    settings: dict[str, str | int | float | bool | None] = Field({}, description="Keyword arguments of a function.")


Limit = Annotated[float, BeforeValidator(_no_truth)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_no_truth)]
Part = Annotated[float, Field(gt=0, lt=1), BeforeValidator(_no_truth)]


class GateSpec(Strict):
    """A rule over comparisons. Exactly one of margin, improve, harm, min, max, coverage, same_rows."""

    metric: str | None = Field(None, description="One of the task's metrics; none for coverage and same_rows.")
    task: str | None = Field(None, description="Every task that has the metric, if absent.")
    slices: str | tuple[str, ...] | None = Field(None, description="Dimension(s) to judge, each slice on its own.")
    margin: Limit | str | None = Field(None, description='"Not worse by more than": 0.001, or "0.1%" of the baseline.')
    improve: Limit | str | None = Field(None, description='"Better by more than": 0.001 or "0.1%".')
    harm: Literal[True] | None = Field(None, description="Fails only where significantly worse.")
    min: Limit | None = Field(None, description="Least value of the metric itself.")
    max: Limit | None = Field(None, description="Greatest value of the metric itself.")
    coverage: Share | None = Field(None, description="Least share of usable rows the variant must score.")
    same_rows: Literal[True] | None = Field(None, description="The variant must score the baseline's rows exactly.")


class ExecutionSpec(Strict):
    """How models are run: part of the run's identity, since a model's last bits depend on it."""

    micro_batch: int | None = Field(
        None,
        ge=1,
        le=1_048_576,
        description="Rows per call of every model, but where a preparation has batch_rows; by default what suits its "
        "kind.",
    )
    unit_rows: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="Rows per unit; chosen by the plan if absent, fewer where the columns that are read are large.",
    )
    unit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_no_truth)] | None = Field(
        None,
        description="A worker that scores a unit for longer counts as hung and is ended; ten times what is expected "
        "and at least 5 minutes, if absent. No part of what a run is: it may change when a run goes on.",
    )


class BudgetSpec(Strict):
    state_bytes: int = Field(1 << 30, ge=1 << 20, description="Most bytes of one set of states; a worker holds two.")
    exact_rows: int = Field(1_000_000, ge=0, description="Up to so many rows, AUC and AP keep every distinct score.")
    auc_bits: int | None = Field(
        None,
        ge=7,
        le=23,
        description="Mantissa bits of the bins behind AUC and AP where scores are binned; the most up to 11 that the "
        "budget allows, if absent.",
    )
    model_bytes: int | None = Field(
        None,
        ge=1,
        description="Most bytes of the models of one worker; more variants than that are packed into bundles.",
    )


class WorkersSpec(Strict):
    """What Ray gives each worker, and on which nodes. No part of what a run is: it may change when a run goes on."""

    num_cpus: float = Field(1.0, ge=0, allow_inf_nan=False, description="CPUs of each worker.")
    num_gpus: float = Field(0.0, ge=0, allow_inf_nan=False, description="GPUs of each worker; 0.25 puts four on one.")
    resources: Resources = Field({}, description="Custom Ray resources of each worker.")
    labels: dict[str, str] = Field({}, description="Labels of the nodes where workers may run.")
    reduce_labels: dict[str, str] = Field({}, description="Labels of the nodes where states are merged.")


class Tolerance(Strict):
    """How many failures a run goes on with."""

    units: Share = Field(
        description="Largest share of the units on which a variant may fail, or that may be given up; beyond it the "
        "run stops, with what is committed. It may change when a run goes on. 1 is as continue."
    )


class TopK(Strict):
    """Only the best rows of each group are written, for each variant."""

    k: Annotated[int, Field(ge=1), BeforeValidator(_no_truth)] = Field(description="How many rows of each group.")
    group: Name = Field(description="The column that says which group a row is of.")
    task: Name | None = Field(None, description="The task by whose score they are the best; the only one by default.")


class PredictionsSpec(Strict):
    """What is written of the variants' outputs: a row for each row that passes `data.where`, in the data's order."""

    format: Literal["parquet", "arrow", "csv", "jsonl", "delta", "iceberg"] = Field(
        "parquet", description="Of the files, or the kind of table."
    )
    to: Name | None = Field(
        None,
        description="Folder, s3://BUCKET/PATH (gs://, az://) or table; predictions/ in the run directory, if absent.",
    )
    partition_by: Annotated[
        tuple[Name, ...], BeforeValidator(_as_list, json_schema_input_type=Name | tuple[Name, ...])
    ] = Field((), description="Columns of the output by whose values files are parted.")
    row_group_rows: Annotated[int, Field(ge=1), BeforeValidator(_no_truth)] | None = Field(
        None, description="Most rows of a row group or batch; what is usual, or those of the data, if absent."
    )
    file_rows: Annotated[int, Field(ge=1), BeforeValidator(_no_truth)] | None = Field(
        None, description="Most rows of a file; those of a unit or a row group of the data, if absent."
    )
    compression: Name | None = Field(
        None, description="Of the files; what is usual for the format, or what copied columns have, if absent."
    )
    provenance: bool = Field(
        False, description="Add `_file`, the path of the row's file, and `_row`, its position in it."
    )
    names: Name | dict[Name, Name] | None = Field(
        None,
        description='Names of the output columns, from {variant} and {task}; "{variant}", or with several tasks '
        '"{variant}.{task}", if absent. Or a mapping from such names to others.',
    )
    types: ScoreType | dict[Name, ScoreType] | None = Field(
        None,
        description="Type of all scores, or {column: type}; that of what the model gives, if absent. Other outputs "
        "have the type that `outputs` says.",
    )
    top_k: TopK | None = Field(None, description="Only the best rows of each group are written.")


Price = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_no_truth)]


class NodePrices(Strict):
    """What an hour of one type of machine costs."""

    on_demand: Price = Field(description="An hour of a machine that is kept until it is given back.")
    spot: Price | None = Field(
        None, description="An hour of a preemptible one; as on demand, where there is none to be had."
    )


class PricesSpec(Strict):
    """What an hour of a machine costs: `default`, and any other key is a type of node with its price, or its two prices
    `{on_demand: 3.06, spot: 1.10}`. No part of what a run is: they may change at any time. See docs/cost.md."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Price | NodePrices]

    default: Price | NodePrices | None = Field(None, description="Of every type of node that is not named.")
    currency: Name | None = Field(None, description="What the prices are in, for the reports: USD.")

    @property
    def node_types(self) -> tuple[str, ...]:
        """Those that are named."""
        return tuple(self.__pydantic_extra__ or ())

    def of(self, node_type: str) -> float | NodePrices | None:
        """None where it has no price."""
        return (self.__pydantic_extra__ or {}).get(node_type, self.default)


class ConfirmSpec(Strict):
    """Choosing on one part of the clusters, judging on the other: the best of many is not the best by luck."""

    fraction: Part = Field(0.5, description="Share of the clusters on which the chosen are judged.")
    metric: str | None = Field(None, description="What is chosen by; the first of the task's metrics by default.")
    task: str | None = Field(None, description="Its task; the first by default.")
    keep: Annotated[int, Field(ge=1), BeforeValidator(_no_truth)] = Field(
        1, description="How many variants are chosen."
    )


class Spec(Strict):
    """One evaluation."""

    data: DataSpec = Field(description="The logged rows.")
    tasks: dict[str, TaskSpec] = Field({}, description="Only when there are several labels.")
    output: OutputSpec = Field(OutputSpec(), description="What the score is, for a spec without tasks.")
    variants: tuple[VariantSpec, ...] = Field(min_length=1, description="The models under test, the baseline too.")
    prepare: dict[str, PrepareSpec] = Field({}, description="What several variants receive, made once for all of them.")
    baseline: str | None = Field(None, description="The variant that the others are compared with.")
    metrics: tuple[str | MetricSpec, ...] = Field((), description="For every task, or for one; see `assay metrics`.")
    gates: tuple[GateSpec, ...] = Field((), description="A variant passes only if it passes them all.")
    confirm: Part | ConfirmSpec | None = Field(
        None, description="Choose the best variants on one part of the clusters and judge them on the other."
    )
    recalibrate: Literal["platt", "isotonic"] | None = Field(
        None,
        description="Show metrics of probabilities also after recalibration, cross-fitted by halves of the clusters.",
    )
    decide: Literal["all", "any"] = Field("all", description="Which variants must pass for the run to pass.")
    on_error: Literal["stop", "continue"] | Tolerance = Field(
        "stop",
        description="continue: a variant that fails on a unit is reported and left out there, the others go on; "
        "{units: 0.05}: the same, up to that share of the units.",
    )
    predictions: PredictionsSpec | None = Field(
        None, description="What the variants give is written out, row by row; see docs/predictions.md."
    )
    carry_over: Annotated[
        Literal["all"] | tuple[Name, ...],
        BeforeValidator(_all_or_list, json_schema_input_type=Literal["all"] | Name | tuple[Name, ...]),
    ] = Field(
        (),
        description="Columns that are written beside predictions, whether a model reads them or not: a name or glob, a "
        "list of them, or all.",
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="Of samples, of the order of units, of cluster hashes.")
    execution: ExecutionSpec = Field(ExecutionSpec(), description="How models are called.")
    budget: BudgetSpec = Field(BudgetSpec(), description="What the states may take.")
    workers: WorkersSpec = Field(WorkersSpec(), description="What Ray gives each worker.")
    prices: PricesSpec | None = Field(None, description="What machines cost an hour, for the run's own cost.")

    @property
    def predicts(self) -> bool:
        """Is what the variants give written out?"""
        return self.predictions is not None

    @property
    def tolerant(self) -> bool:
        """Does it go on where a variant fails?"""
        return self.on_error != "stop"

    @property
    def most_failed(self) -> float | None:
        """Share of the units on which a variant may fail, or that may be given up; None: any."""
        if isinstance(self.on_error, Tolerance):
            return self.on_error.units
        return None if self.tolerant else 0.0

    @property
    def lasting(self) -> Spec:
        """What a run is: the spec without what may change when a run goes on."""
        execution = self.execution.model_copy(update={"unit_seconds": None})
        placed: dict[str, object] = {"tasks": None, "num_cpus": 1.0, "resources": {}, "labels": {}}
        prepare = {name: one.model_copy(update=placed) for name, one in self.prepare.items()}
        changed: dict[str, object] = {"prices": None, "workers": WorkersSpec(), "on_error": "stop"}
        changed |= {"execution": execution, "prepare": prepare}
        return self.model_copy(update=changed)
