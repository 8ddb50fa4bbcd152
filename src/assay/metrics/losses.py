"""Losses of a real prediction that have a shape of their own: deviances, pinball, Huber, log-cosh."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from assay.kernels.deviances import deviances, log_coshes
from assay.metrics import parameters
from assay.metrics.parse import canonical
from assay.metrics.pooled import Counts, PooledMetric, Reasons, double_mean
from assay.metrics.regression import errors, mean_of_every_row
from assay.metrics.sums import SUPPORT, DoubleSum
from assay.metrics.terms import Terms, TermSum
from assay.protocols import Accumulator, Direction
from assay.records import Block, Floats, LabelKind, State, StateChoice

DEFAULT_POWER, DEFAULT_QUANTILE, DEFAULT_DELTA = 1.5, 0.9, 1.0

# ---- of each row -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DevianceTerms:
    """Tweedie's unit deviance of each row; NaN outside its domain."""

    power: float

    def __call__(self, block: Block) -> Terms:
        return (np.asarray(deviances(block.label, block.raw, self.power)),)


@dataclass(frozen=True, slots=True)
class PinballValues:
    """quantile * (label - prediction) where the label is above the prediction, else (1 - quantile) * the excess."""

    quantile: float

    def __call__(self, block: Block) -> NDArray[np.float64]:
        error = errors(block)
        return np.where(error > 0.0, (1.0 - self.quantile) * error, -self.quantile * error)


@dataclass(frozen=True, slots=True)
class HuberValues:
    """error^2 / 2 up to delta, then the line that goes on from there: delta * (|error| - delta / 2)."""

    delta: float

    def __call__(self, block: Block) -> NDArray[np.float64]:
        size = np.abs(errors(block))
        near = np.minimum(size, self.delta)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is counted as overflow
            return near * (size - 0.5 * near)


def log_cosh_values(block: Block) -> NDArray[np.float64]:
    return np.asarray(log_coshes(errors(block)))


LOG_COSH_SUM = DoubleSum("log_cosh.v1", log_cosh_values)


def deviance_sum(power: float) -> TermSum:
    """The sum behind the deviance of that power."""
    return TermSum(f"deviance(power={power!r}).v1", DevianceTerms(power))


def pinball_sum(quantile: float) -> DoubleSum:
    """The sum of the pinball losses at that quantile."""
    return DoubleSum(f"pinball(quantile={quantile!r}).v1", PinballValues(quantile))


def huber_sum(delta: float) -> DoubleSum:
    """The sum of the Huber losses with that delta."""
    return DoubleSum(f"huber(delta={delta!r}).v1", HuberValues(delta))


# ---- metrics ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deviance(PooledMetric):
    """What the three deviances share. McCullagh, Nelder, "Generalized Linear Models", 1989.

    By a series near label = prediction, so that values of 1e9 which differ by 1 lose no digits.
    """

    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    @abstractmethod
    def accumulator(self) -> TermSum:
        """The sum behind it; metrics of equal power share it."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.accumulator())

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return mean_of_every_row(states, self.accumulator(), counts)


@dataclass(frozen=True)
class PoissonDeviance(Deviance):
    """Mean of 2 (label ln(label / prediction) - label + prediction): for counts and rates.

    At least 0, and 0 where all predictions equal their labels. A label of 0 gives 2 * prediction. Undefined where a
    prediction is 0 or less, or a label negative.
    """

    name: ClassVar[str] = "poisson_deviance"
    description: ClassVar[str] = "mean Poisson deviance of counts; undefined where a prediction is not above 0"

    def accumulator(self) -> TermSum:
        return deviance_sum(1.0)


@dataclass(frozen=True)
class GammaDeviance(Deviance):
    """Mean of 2 (ln(prediction / label) + label / prediction - 1): for amounts, whatever their scale.

    At least 0, and 0 where all predictions equal their labels. Undefined where a prediction or a label is 0 or less.
    """

    name: ClassVar[str] = "gamma_deviance"
    description: ClassVar[str] = "mean gamma deviance of amounts; undefined where a label or prediction is not above 0"

    def accumulator(self) -> TermSum:
        return deviance_sum(2.0)


@dataclass(frozen=True)
class TweedieDeviance(Deviance):
    """Mean deviance of Tweedie's family at a power from 1 (Poisson) over 2 (gamma) to 3 (inverse Gaussian).

    Between 1 and 2 it is for amounts many of which are 0, such as insurance claims: twice the mean of
    label^(2-p) / ((1-p)(2-p)) - label prediction^(1-p) / (1-p) + prediction^(2-p) / (2-p). Undefined where a prediction
    is 0 or less, or a label negative (from a power of 2 on also 0). Jorgensen, "The Theory of Dispersion Models", 1997.
    """

    power: float = DEFAULT_POWER
    description: ClassVar[str] = "mean Tweedie deviance; power 1 is Poisson, 2 gamma, between them amounts with zeros"

    def __post_init__(self) -> None:
        if not 1.0 <= self.power <= 3.0:
            raise ValueError(
                f"The 'power' of the metric 'tweedie_deviance' is {self.power!r}; expected a number from 1 to 3 "
                "(for 0 use 'mse')."
            )
        object.__setattr__(self, "power", float(self.power))  # 2 and 2.0 are one metric

    @property
    def name(self) -> str:
        return canonical("tweedie_deviance", {"power": self.power}, {"power": DEFAULT_POWER})

    def accumulator(self) -> TermSum:
        return deviance_sum(self.power)


@dataclass(frozen=True)
class MeanLoss(PooledMetric):
    """What means of a loss share that every row has."""

    label_kind: ClassVar[LabelKind | None] = "real"
    direction: ClassVar[Direction] = "lower"

    @abstractmethod
    def accumulator(self) -> DoubleSum:
        """The sum behind it."""

    def accumulators(self, choice: StateChoice) -> tuple[Accumulator, ...]:
        return (SUPPORT, self.accumulator())

    def formula(self, states: Mapping[str, State], counts: Counts, choice: StateChoice) -> tuple[Floats, Reasons]:
        return double_mean(states, self.accumulator(), counts)


@dataclass(frozen=True)
class Pinball(MeanLoss):
    """Mean pinball loss of a prediction of the label's quantile: least, in expectation, at that quantile.

    quantile * (label - prediction) for a label above the prediction, (1 - quantile) * (prediction - label) below; half
    the absolute error at 0.5. Koenker, Bassett, "Regression Quantiles", 1978.
    """

    quantile: float = DEFAULT_QUANTILE
    description: ClassVar[str] = "mean pinball loss of a predicted quantile, in the label's unit"

    def __post_init__(self) -> None:
        parameters.share("pinball", "quantile", self.quantile)

    @property
    def name(self) -> str:
        return canonical("pinball", {"quantile": self.quantile}, {"quantile": DEFAULT_QUANTILE})

    def accumulator(self) -> DoubleSum:
        return pinball_sum(self.quantile)


@dataclass(frozen=True)
class Huber(MeanLoss):
    """Mean Huber loss: error^2 / 2 for errors up to delta (in the label's unit), a line beyond.

    Huber, "Robust Estimation of a Location Parameter", 1964.
    """

    delta: float = DEFAULT_DELTA
    description: ClassVar[str] = "mean Huber loss: squared up to delta, a line beyond"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", parameters.positive("huber", "delta", self.delta))

    @property
    def name(self) -> str:
        return canonical("huber", {"delta": self.delta}, {"delta": DEFAULT_DELTA})

    def accumulator(self) -> DoubleSum:
        return huber_sum(self.delta)


@dataclass(frozen=True)
class LogCosh(MeanLoss):
    """Mean of ln cosh(prediction - label): about error^2 / 2 for small errors, |error| - ln 2 for large ones."""

    name: ClassVar[str] = "log_cosh"
    description: ClassVar[str] = "mean of ln cosh of the error: squared when small, absolute when large"

    def accumulator(self) -> DoubleSum:
        return LOG_COSH_SUM
