"""The equation of this library, as types.

    point model -> score V -> local law F(v | x) -> adjustment p(V, F) -> theta*(x) -> interval

`Method` holds the unfitted terms; `fit` turns training rows into `Parts`. `Parts.at(rows)` is
`Placed`, the fitted terms at these rows: y to scores one way, theta to bounds the other.
`Calibration` holds the calibration rows, and the correction decides which of them count for x.
Nothing here is specific to one method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone

from localconformal.adjustments import Adjustment, ScaledQuantile
from localconformal.laws.base import LocalLaws, SidedLaw, make_law
from localconformal.models import fit_all
from localconformal.quantiles import (
    MASS_GUARD,
    Array,
    conformal_quantile,
    required_calibration_size,
)
from localconformal.rows import (
    RESPONSE,
    ROWS_AT_A_TIME,
    Index,
    Reference,
    Rows,
    fold_rows,
    is_frozen,
    split_rows,
    take_params,
)
from localconformal.scores import N_FOLDS, Band, Score

SIDES = ("joint", "union", "absolute", "upper", "lower")
#: The calibrated end, for one-sided intervals.
ONE_SIDE = {"lower": slice(0, 1), "upper": slice(1, 2)}
#: Most recent answers that a calibration remembers: at most 128, or as few as 32 if they would fill
#: more than 256 MB. Queries at ever new levels do not fill the memory.
_MOST_KNOWN, _FEW_KNOWN, _NUMBERS_KNOWN = 128, 32, 2**25
_WITHOUT_LAW = SidedLaw((), mirrored=False)


# ---- how the sides of a score share alpha -------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """How the two sides of a score share the miscoverage alpha.

    * "joint": each side uses its law at level 1 - alpha / 2; the larger of the two adjusted
      scores is calibrated at 1 - alpha, and both sides get the same correction. Tighter.
    * "union": side s uses its law at level 1 - alpha_s and is calibrated separately, at
      1 - alpha_s, with alpha_upper = upper_share x alpha and alpha_lower the rest. Algorithm 1 of
      the paper.
    * "absolute": only the larger of the two raw scores is used; one law, level 1 - alpha.
    * "upper" or "lower": that side alone, with all of alpha: its law is used at level 1 - alpha,
      and its adjusted score calibrated at that level; the other end is infinite.
    * "signed": the upper score alone, with the lower one its negative; for an adjustment that
      returns both ends of its accepted set.
    """

    name: str = "joint"
    upper_share: float = 0.5

    @property
    def shares(self) -> Array:
        """Share of alpha that each side's law gets: (S,)."""
        known = {"joint": [0.5, 0.5], "union": [1.0 - self.upper_share, self.upper_share]}
        return np.array([1.0, 1.0] if self.name in ONE_SIDE else known.get(self.name, [1.0]))

    @property
    def n_sides(self) -> int:
        """S, the number of columns of the calibrated scores."""
        return len(self.shares)

    @property
    def separate(self) -> bool:
        """Whether each side is calibrated separately."""
        return self.name == "union"

    @property
    def closed(self) -> slice:
        """The ends of an interval that are not infinite by design."""
        return ONE_SIDE.get(self.name, slice(0, 2))

    def model_level(self, level: float) -> float:
        """The level of the two-sided interval whose ends quantile models are trained for.

        One side has all of alpha: its quantile is an end of the interval that leaves out as much at
        the other end. Below 1/2 the ends would cross, so the models stop short of the median.
        """
        return max(2.0 * level - 1.0, 0.1) if self.name in ONE_SIDE else level

    def together(self, p: Array) -> Array:
        """The adjusted score that is calibrated if sides are not separate: -> (n, 1, L)."""
        return p[:, self.closed].max(axis=1, keepdims=True)

    def thresholds(self, T: Array) -> Array:
        """T (n, S or 2, M) of both ends, (n, 2, M); infinite for an open end."""
        both = np.full((len(T), 2, T.shape[2]), np.inf)
        both[:, self.closed] = np.broadcast_to(T, both.shape)[:, self.closed]
        return both

    def fold(self, V: Array) -> Array:
        """Scores (n, 2) -> (n, S)."""
        if self.name == "absolute":
            return V.max(axis=1, keepdims=True)
        if self.name == "signed" and not np.array_equal(V[:, 0], -V[:, 1]):
            raise ValueError(
                "got a score without a sign, which cannot tell on which side y lies; expected "
                "'residual', 'normalised' or 'response'."
            )
        return V[:, 1:] if self.name == "signed" else V

    def levels(self, levels: Array) -> Array:
        """Confidence levels (L,) -> levels of each side's law (S, L)."""
        # A level within the guard has the quantile -inf, to which nothing can be added.
        return np.maximum(1.0 - self.shares[:, None] * (1.0 - levels), 2.0 * MASS_GUARD)

    def required_size(self, level: float) -> int:
        """Number of calibration rows below which intervals are infinite."""
        share = float(self.shares.min()) if self.separate else 1.0
        return required_calibration_size(1.0 - share * (1.0 - level))

    def shortage(self, n: int, where: str, theta: Array, levels: Array) -> str:
        """The sentence about n calibration rows that are too few."""
        level = float(levels[np.isposinf(theta).any(axis=(0, 1))].max())
        needed = self.required_size(level)
        if n >= needed:
            return (
                "Some intervals are infinite: too few calibration rows count for these rows, or "
                "their adjusted scores are infinite; calibrate on more rows like them."
            )
        return (
            f"Some intervals are infinite: got {n} calibration rows{where}, and confidence level "
            f"{level!r} needs at least {needed}; calibrate on more rows, or lower the level."
        )

    def calibrated(self, p: Array, levels: Array) -> tuple[Array, Array]:
        """The scores to calibrate, from p (n, S, L), and their levels, by side or for both.

        (n, S or 1, L) scores, and (S or 1, L) levels.
        """
        if self.separate:
            return p, self.levels(levels)
        return self.together(p), levels[None]

    def theta(
        self, p: Array, levels: Array, quantile: Callable[..., Array] = conformal_quantile
    ) -> Array:
        """theta* (S, L) from adjusted calibration scores (n, S, L).

        ``quantile`` may answer for m rows at once, each with its own weights: (S, L, m).
        """
        scores, local = self.calibrated(p, levels)
        theta = [
            [quantile(scores[:, s, l], level=level) for l, level in enumerate(side)]
            for s, side in enumerate(local)
        ]
        return np.array(theta if self.separate else theta * self.n_sides)


# ---- the fitted terms ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Everything learned from training rows."""

    score: Score
    sides: Sides
    correction: Correction
    law: SidedLaw = _WITHOUT_LAW
    adjustment: Adjustment | None = None
    #: Reference rows behind the law; 0 without.
    n_reference: int = 0

    def at(self, rows: Rows) -> Placed:
        """The fitted terms at these rows."""
        F = LocalLaws((), False, len(rows)) if self.adjustment is None else self.law.at(rows)
        return Placed(self, self.band(rows), F)

    def band(self, rows: Rows) -> Band:
        """The model's band at these rows; an error if it is not finite."""
        band: Band = self.score(rows)
        if not all(np.all(np.isfinite(column)) for column in band):
            raise ValueError(
                "the base model predicts NaN or infinite values for some rows; expected finite "
                "numbers: check those rows or the model."
            )
        return band

    def adjusted(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """p(V_i, F_i) at confidence levels (L,): (n, S, L), for scores of any size.

        Scores above the range of float64 are infinite, as are the bounds that follow from them;
        scores below it become the lowest float, since minus infinity would leave no bounds.
        """
        limits, local = np.finfo(np.float64), self.sides.levels(levels)
        if self.adjustment is None:
            p = np.broadcast_to(V[:, :, None], (*V.shape, len(levels)))
        else:
            with np.errstate(over="ignore"):
                p = self.adjustment.score(np.clip(V, limits.min, limits.max), F, local)
        return _known(np.where(np.isposinf(V)[:, :, None], np.inf, np.maximum(p, limits.min)))

    @property
    def rows_at_a_time(self) -> int:
        """Rows held at once; longer queries are split into parts."""
        most = None if self.adjustment is None else self.adjustment.rows_at_a_time
        return most or ROWS_AT_A_TIME


def _known(values: Array) -> Array:
    """Adjusted scores or thresholds (n, S, L); an error if any is NaN, as no interval follows."""
    bad = np.count_nonzero(np.isnan(values).any(axis=(1, 2)))
    if bad:
        raise ValueError(
            f"the local law is NaN for {bad} of {len(values)} rows; expected numbers: check what "
            "the law, or the adjustment, gives there."
        )
    return values


@dataclass(frozen=True)
class Placed:
    """The fitted terms at n rows: the model's band and the local laws."""

    parts: Parts
    band: Band
    F: LocalLaws

    def folded(self, y: Array) -> Array:
        """Scores of (x, y): (n, S); infinite beyond the range of float64."""
        V = self.parts.score.values(self.band, y)
        if np.isnan(V).any():
            raise ValueError(
                f"{np.count_nonzero(np.isnan(V).any(axis=1))} of {len(V)} scores are NaN; expected "
                "numbers: check the base model's predictions."
            )
        return self.parts.sides.fold(V)

    def bounds(self, theta: Array, levels: Array) -> Array:
        """Raw bounds (n, 2, M) from theta* (n or 1, S, M)."""
        T = theta
        if self.parts.adjustment is not None:
            T = self.parts.adjustment.threshold(theta, self.F, self.parts.sides.levels(levels))
        T = _known(np.where(np.isposinf(theta), np.inf, T))
        T = np.broadcast_to(T, (self.F.n, *T.shape[1:]))
        return self.parts.score.bounds(self.band, self.parts.sides.thresholds(T))


@dataclass(frozen=True)
class Calibration:
    """Calibration rows, usable at any level: folded scores V (n, S) and their local laws F.

    ``kept`` is what the correction keeps of the rows: their cells, weights, or points.
    """

    parts: Parts
    V: Array
    F: LocalLaws
    kept: Any = None
    _known: dict[Any, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, parts: Parts, rows: Rows, y: Array) -> Calibration:
        """From rows that no part has seen."""
        placed = parts.at(rows)
        V = placed.folded(y)
        return cls(parts, V, placed.F, parts.correction.keep(rows, V))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed once per level: it is recomputed when needed."""
        return {**vars(self), "_known": {}}

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.V)

    @property
    def folds(self) -> tuple[Calibration, ...]:
        """Sets of rows with parts of their own: one here, K across folds."""
        return (self,)

    def scores(self, levels: Array) -> Array:
        """Adjusted scores p(V_i, F_i) at levels (L,): (n, S, L); computed once per level."""
        return self._each("p", lambda one: self.parts.adjusted(self.V, self.F, one), levels)

    def theta(self, levels: Array) -> Array:
        """theta* (S, L) if all rows count."""
        sides = self.parts.sides
        return self._each("theta", lambda one: sides.theta(self.scores(one), one), levels)

    def _each(self, name: str, compute: Callable[[Array], Array], levels: Array) -> Array:
        """A function of one level (1,) at a time, (..., 1), at all of them: (..., L)."""
        found = [self.once((name, float(t)), compute, np.array([t])) for t in levels]
        return np.concatenate(found, axis=-1)

    def fixed(self, level: float) -> FixedScores:
        """The same rows, with their adjusted scores at one level."""
        return FixedScores(self.parts, self.scores(np.array([level]))[:, :, 0], self.F, self.kept)

    def once(self, key: Any, compute: Callable[..., Any], *arguments: Any) -> Any:
        """A computed value, remembered by its key; safe to call from several threads."""
        found = self._known.get(key)
        if found is None:
            most = int(np.clip(_NUMBERS_KNOWN // self.V.size, _FEW_KNOWN, _MOST_KNOWN))
            # A list: another thread may change the dict while this one iterates.
            for oldest in list(self._known)[: max(0, len(self._known) - most + 1)]:
                self._known.pop(oldest, None)
            found = self._known[key] = compute(*arguments)
        return found


@dataclass(frozen=True)
class FixedScores(Calibration):
    """Adjusted scores V (n, S) of one level, of which any order statistic can be taken.

    The local law stays at that level, so theta*, and the set with it, grows with the requested
    level. Scores may also be resampled, or come from other rows than the calibration rows.
    """

    def scores(self, levels: Array) -> Array:
        """The same at all levels (L,): (n, S, L)."""
        return np.broadcast_to(self.V[:, :, None], (*self.V.shape, len(levels)))


# ---- which calibration rows count for x ---------------------------------------------------------


class Correction(BaseEstimator):
    """theta*(x): which calibration rows count for x. Here: all of them, for every x."""

    #: Whether `fit` learns from reference rows.
    needs_reference = False

    def fit(self, reference: Reference, parts: Parts) -> Correction:
        """Learn from reference rows how rows differ; return self."""
        return self

    def keep(self, rows: Rows, V: Array) -> Any:
        """What is kept of calibration rows with scores V (n, S)."""
        return None

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* at each row: (n, S, L), or (1, S, L) if it is the same for all."""
        return calibration.theta(levels)[None]

    def cells(self, calibration: Calibration) -> NDArray[Any]:
        """Cell of each calibration row, if cells are calibrated separately; one cell here."""
        return np.zeros(calibration.n, dtype=np.intp)

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """Effective number of calibration rows that count for each row: (n,)."""
        return np.full(len(rows), float(calibration.n))

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """Why theta* (n, S, L) is infinite somewhere, in a sentence."""
        return calibration.parts.sides.shortage(calibration.n, "", theta, levels)


# ---- fitting ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Training rows, and how the models behind a score are fitted to them."""

    estimator: Any
    rows: Rows
    y: Array
    confidence_level: float
    seed: int
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    n_jobs: int | None = None
    # scikit-learn's settings are per thread; folds may be fitted in other threads or processes.
    config: dict[str, Any] = field(default_factory=get_config)

    def fit(self, score: Score, index: Index | None = None) -> Score:
        """The score fitted on these rows; all of them by default."""
        index = np.arange(len(self.y)) if index is None else index
        fresh = clone(score)
        fresh.n_jobs_ = self.n_jobs
        with config_context(**self.config):
            return fresh.fit(
                self.estimator,
                self.rows.take(index),
                self.y[index],
                confidence_level=self.confidence_level,
                random_state=self.seed,
                fit_params=take_params(self.fit_params, index, len(self.y)),
            )


def _cross_fit(score: Score, task: Task) -> tuple[Score, Rows, Array]:
    """Each row is predicted by a fit without its fold; the final model sees all rows."""
    folds = fold_rows(len(task.y), N_FOLDS, task.seed)

    def one_fold(rest: Index, fold: Index) -> Band:
        band: Band = task.fit(score, rest)(task.rows.take(fold))
        return band

    if task.n_jobs is None and get_active_backend()[1] == 1:
        fits = [partial(one_fold, *fold) for fold in folds]
        bands = fit_all(fits, task.estimator, task.rows.X)
    else:
        # Processes, or the backend set in the user's joblib.
        bands = Parallel(n_jobs=task.n_jobs)(delayed(one_fold)(*fold) for fold in folds)
    order = np.argsort(np.concatenate([fold for _, fold in folds]))
    final, rows, y = _in_sample(score, task)
    rows.known[final] = Band(*(np.concatenate(one)[order] for one in zip(*bands, strict=True)))
    return final, rows, y


def _out_of_bag(score: Score, task: Task) -> tuple[Score, Rows, Array]:
    """Each row is predicted by the trees that were not grown on it."""
    if hasattr(task.estimator, "get_params") and "oob_score" in task.estimator.get_params():
        task = replace(task, estimator=clone(task.estimator).set_params(oob_score=True))
    final, rows, y = _in_sample(score, task)
    rows.known[final] = final.out_of_bag()
    return final, rows, y


def _holdout(score: Score, task: Task) -> tuple[Score, Rows, Array]:
    """One half trains the model, which predicts the other half."""
    first, second = split_rows(len(task.y), 0.5, task.seed)
    final = task.fit(score, first)
    return final, task.rows.take(second).of(final), task.y[second]


def _in_sample(score: Score, task: Task) -> tuple[Score, Rows, Array]:
    """Every row trains the model and is predicted by it, as in the paper."""
    final = task.fit(score)
    return final, Rows(task.rows.X, task.rows.beside, final), task.y


#: How reference rows are made. Predictions for rows that a model was fitted on are too good, which
#: makes the law too narrow, so each row is predicted by a model that has not seen it. Every way is
#: a function of training rows alone: none affects validity.
REFERENCES: dict[str, Callable[[Score, Task], tuple[Score, Rows, Array]]] = {
    "cross-fit": _cross_fit,
    "oob": _out_of_bag,
    "holdout": _holdout,
    "train": _in_sample,
}


@dataclass(frozen=True)
class Method:
    """The unfitted terms of the equation."""

    score: Score
    adjustment: Adjustment | None = None
    sides: Sides = Sides("absolute")
    law: Any = None
    correction: Correction = field(default_factory=Correction)
    reference: str = "cross-fit"
    #: Whether the law may choose the unit of the correction.
    adjustment_is_free: bool = False

    @property
    def needs_reference(self) -> bool:
        """Whether anything is learned from reference rows."""
        return self.adjustment is not None or self.correction.needs_reference

    def fit(
        self, task: Task, stage: Callable[[str], AbstractContextManager[Any]] = nullcontext
    ) -> Parts:
        """Fit every term, each from the answers of those before it at training rows."""
        task = replace(task, confidence_level=self.sides.model_level(task.confidence_level))
        if not self.needs_reference:
            with stage("train"):
                final = task.fit(self.score)
            return Parts(final, self.sides, self.correction)
        with stage("train"):
            final, rows, y = REFERENCES[self._way(task)](self.score, task)
        with stage("law"):
            rows.known[RESPONSE] = y
            made = Reference(rows, y, final, self.sides, task.seed, task.n_jobs)
            return self.learn(made)

    def learn(self, reference: Reference) -> Parts:
        """The terms beyond the score, from reference rows."""
        parts = Parts(reference.score, self.sides, self.correction)
        if self.adjustment is not None:
            parts = self._with_law(parts, reference)
        correction = clone(self.correction).fit(reference, parts)
        return replace(parts, correction=correction, n_reference=len(reference.rows))

    def _with_law(self, parts: Parts, reference: Reference) -> Parts:
        adjustment, law = (
            clone(self.adjustment),
            make_law(self.law, reference.seed, reference.n_jobs),
        )
        fitted = SidedLaw.fit(law, reference.rows, reference.V)
        # If each side has its own law, the two must agree on the unit of their corrections.
        if self.adjustment_is_free and len(fitted.laws) == 1 and fitted.laws[0].scaled_:
            adjustment = ScaledQuantile()
        adjustment.fit(replace(reference, law=law))
        return replace(parts, law=fitted, adjustment=adjustment)

    def _way(self, task: Task) -> str:
        """How reference rows are made; a frozen model has seen none of the rows."""
        if self.reference != "oob" and self.score.is_frozen(task.estimator):
            return "train"
        if self.reference == "oob" and is_frozen(task.estimator):
            raise ValueError(
                "got reference='oob' with a model that is already fitted; the rows given to fit "
                "must be new to it, so use reference='holdout'."
            )
        return self.reference
