"""Made-up rows whose law is known: users of uneven size, with effects of their own in labels and in models' errors.

Rows of one user depend on one another, through the label and through the models; `Crowd` says who the users are. The
law of a single row is the same for every crowd, so that the truth about it can be had from independent rows.
Axes: n rows, V models, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.records import LabelKind

Floats = NDArray[np.float64]

NOISE = (0.5, 0.6)
"""Of the two models that are compared: the standard deviation of what they get wrong row by row."""
CLASS_SHIFTS = np.array([0.0, 0.3, -0.4, -1.0, -1.6])
"""Of the C classes: how frequent each is, as a logit."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Whose rows they are."""

    mean_rows: float = 10.0  # of a user; sizes are lognormal with sigma 1
    num_users: int | None = None  # exactly so many, however many rows; None: as many as the rows need
    independent: bool = False  # every row is a user of its own, on a day of its own
    num_days: int = 60
    day_effect: float = 0.0  # standard deviation of a day's effect on labels and on each model's error


@dataclass(frozen=True, slots=True)
class World:
    """The rows of one repetition."""

    label: Floats  # [n] 0 or 1, a number, or the number of a class
    scores: Floats  # [V, n] probabilities or predictions; [V, C, n] probabilities with classes
    user: NDArray[np.int64]  # [n]
    day: NDArray[np.int64]  # [n]


@dataclass(frozen=True, slots=True)
class Law:
    """How rows come about."""

    label_kind: LabelKind
    draw: Callable[[np.random.Generator, int, Crowd, tuple[float, ...]], World]
    classes: tuple[str, ...] = ()


def binary(
    rng: np.random.Generator, num_rows: int, crowd: Crowd, noise: tuple[float, ...] = NOISE, intercept: float = -2.6
) -> World:
    """0/1 labels, one in nine of them 1 by default. Scores are probabilities, a little too high."""
    group = _Groups(rng, num_rows, crowd)
    seen = rng.normal(0.0, 1.0, num_rows)
    label = rng.random(num_rows) < _sigmoid(intercept + seen + group.effect(0.8, crowd.day_effect))
    scores = [
        _sigmoid(intercept + 0.3 + 0.8 * seen + rng.normal(0.0, one, num_rows) + group.effect(0.5, crowd.day_effect))
        for one in noise
    ]
    return World(label.astype(np.float64), np.stack(scores), group.user, group.day)


def rare(rng: np.random.Generator, num_rows: int, crowd: Crowd, noise: tuple[float, ...] = NOISE) -> World:
    """The same with one positive in a hundred."""
    return binary(rng, num_rows, crowd, noise, intercept=-5.35)


def real(rng: np.random.Generator, num_rows: int, crowd: Crowd, noise: tuple[float, ...] = NOISE) -> World:
    """Labels around 50 with tails of a t distribution with 5 degrees of freedom, predicted with a user's bias."""
    group = _Groups(rng, num_rows, crowd)
    seen = rng.normal(0.0, 1.0, num_rows)
    label = 50.0 + 10.0 * seen + group.effect(8.0, crowd.day_effect) + 5.0 * rng.standard_t(5, num_rows)
    scores = [
        50.0 + 9.0 * seen + 8.0 * rng.normal(0.0, one, num_rows) + group.effect(4.0, crowd.day_effect) for one in noise
    ]
    return World(label, np.stack(scores), group.user, group.day)


def classes(rng: np.random.Generator, num_rows: int, crowd: Crowd, noise: tuple[float, ...] = NOISE) -> World:
    """Five classes of uneven frequency."""
    group = _Groups(rng, num_rows, crowd)
    seen = CLASS_SHIFTS[:, None] + 1.5 * rng.normal(0.0, 1.0, (len(CLASS_SHIFTS), num_rows))
    drawn = seen + group.effects(len(seen), 0.8, crowd.day_effect) + rng.gumbel(0.0, 1.0, seen.shape)
    logits = np.stack(
        [seen + rng.normal(0.0, one, seen.shape) + group.effects(len(seen), 0.5, crowd.day_effect) for one in noise]
    )
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = odds / odds.sum(axis=1, keepdims=True)
    return World(drawn.argmax(axis=0).astype(np.float64), scores, group.user, group.day)


LAWS = {
    "binary": Law("binary", binary),
    "rare": Law("binary", rare),
    "real": Law("real", real),
    "classes": Law("class", classes, tuple("abcde")),
}


class _Groups:
    """Who each row belongs to, and draws of one effect for all rows of a user, or of a day."""

    def __init__(self, rng: np.random.Generator, num_rows: int, crowd: Crowd) -> None:
        self._rng = rng
        self.user = _users(rng, num_rows, crowd)
        alone = np.arange(num_rows)
        self.day = alone if crowd.independent else rng.integers(0, crowd.num_days, num_rows)

    def effect(self, of_user: float, of_day: float) -> Floats:
        """[n]: normal, with these standard deviations."""
        whole = self._rng.normal(0.0, of_user, int(self.user.max(initial=0)) + 1)[self.user]
        if of_day:
            whole = whole + self._rng.normal(0.0, of_day, int(self.day.max(initial=0)) + 1)[self.day]
        return whole

    def effects(self, num: int, of_user: float, of_day: float) -> Floats:
        """[num, n]: independent ones."""
        return np.stack([self.effect(of_user, of_day) for _ in range(num)])


def _users(rng: np.random.Generator, num_rows: int, crowd: Crowd) -> NDArray[np.int64]:
    if crowd.independent:
        return np.arange(num_rows)
    if crowd.num_users is not None:
        share = rng.lognormal(0.0, 1.0, crowd.num_users)
        return np.repeat(np.arange(crowd.num_users), rng.multinomial(num_rows, share / share.sum()))
    drawn = rng.lognormal(np.log(crowd.mean_rows) - 0.5, 1.0, int(2 * num_rows / crowd.mean_rows) + 100)
    sizes = np.maximum(1, np.rint(drawn)).astype(np.int64)
    return np.repeat(np.arange(len(sizes)), sizes)[:num_rows]


def _sigmoid(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))
