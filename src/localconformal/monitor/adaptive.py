"""Intervals that follow a stream: past misses move the threshold for future rows.

    s_t = p(V_t, F_t)          adjusted score of a row, at the level of the intervals
    C_t = {y : s <= theta_t}   err_t = 1 if s_t > theta_t, which is known once y_t is

A rule computes theta_t from the errors so far (`_RULES`); the model, its local law and its
calibration rows stay as they are. The law is used at one level throughout, so sets grow with theta
and an error means the same at every step.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from localconformal.adjustments import AdditiveQuantile
from localconformal.columns import as_table
from localconformal.composition import Correction, FixedScores, Placed, Sides
from localconformal.corrections import Cells
from localconformal.laws import LocalLaws
from localconformal.monitor.martingale import grid_codes
from localconformal.monitor.monitor import CoverageMonitor, digest_of, level_of
from localconformal.quantiles import (
    Array,
    as_levels,
    crossed,
    finish,
    typical_size,
    weighted_conformal_quantile,
)
from localconformal.regressors.base import (
    BaseConformalRegressor,
    calibration_of,
    check_target,
    intervals_frame,
    rows_of,
    training_digest,
)
from localconformal.rows import Rows, row_hashes

#: Format of the state; raised when its content changes.
_FORMAT = 1
#: Most rows that wait for labels; beyond that the oldest are forgotten.
_MOST_AWAITED = 2**17
#: Grid for the rank of a score if calibration rows have weights; finest near 0.
_GRID = (np.arange(1, 128) / 128.0) ** 2
_LEAST = 1e-12
#: Smallest unit of a step, in typical widths, for local laws that are nearly a point.
_NARROW = 0.05


# ---- the scores that a threshold is taken from ---------------------------------------------------


class _Fading(Correction):
    """All rows count, older ones less: weight decay^age, and 1 for the new row."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def theta(self, calibration: Any, rows: Rows, levels: Array) -> Array:
        """theta* (1, S, L)."""
        weights = self.decay ** np.arange(calibration.n, 0.0, -1.0)
        ask = partial(weighted_conformal_quantile, weights=weights, weight_inf=1.0)
        sides = calibration.parts.sides
        return sides.theta(calibration.scores(levels), levels, ask)[None]


@dataclass(frozen=True)
class _Reference:
    """Calibration scores, or the newest ``window`` of these and the stream's."""

    held: FixedScores
    level: float
    window: int | None = None
    #: Typical width of the local law if corrections are in units of y; else 0.
    width: float = 0.0

    @property
    def shares(self) -> Array:
        """Share of alpha of each calibrated column: (C,)."""
        sides = self.held.parts.sides
        return sides.shares if sides.separate else np.ones(1)

    @property
    def is_for_all(self) -> bool:
        """Whether thresholds are the same for all rows."""
        return type(self.held.parts.correction) in (Correction, _Fading)

    def columns(self, p: Array) -> Array:
        """Adjusted scores (n, S) as they are calibrated: (n, C)."""
        sides = self.held.parts.sides
        return p if sides.separate else sides.together(p[:, :, None])[:, :, 0]

    def scores(self, placed: Placed, y: Array) -> Array:
        """Adjusted scores of rows with labels y (n,): (n, S)."""
        at, parts = np.array([self.level]), placed.parts
        return parts.adjusted(placed.folded(y), placed.F, at)[:, :, 0]

    def units(self, placed: Placed) -> Array:
        """Unit of a step at each row, around 1: (n, 1); wide intervals move by more."""
        if not self.width:
            return np.ones((placed.F.n, 1))
        return np.maximum(_widths(placed.parts.sides, placed.F, self.level) / self.width, _NARROW)

    def theta(self, rows: Rows, alphas: Array) -> Array:
        """Thresholds (n or 1, C) at miscoverage alphas (C,): +inf from 0 down, -inf from 1 up."""
        parts, c = self.held.parts, np.arange(len(alphas))
        levels = 1.0 - np.clip(alphas, _LEAST, 1.0 - _LEAST) / self.shares
        theta = parts.correction.theta(self.held, rows, levels)[:, c, c]
        return np.where(alphas <= 0.0, np.inf, np.where(alphas >= 1.0, -np.inf, theta))

    def finite_theta(self, rows: Rows, alphas: Array) -> Array:
        """The same, with the largest finite score in place of infinity."""
        return np.minimum(self.theta(rows, alphas), self.held.once("top", self._ends)[1])

    def _ends(self) -> Array:
        """Smallest and largest finite score of each column: (2, C)."""
        found = np.zeros((2, len(self.shares)))
        for c, scores in enumerate(self.columns(self.held.V).T):
            finite = scores[np.isfinite(scores)]
            found[:, c] = (finite.min(), finite.max()) if len(finite) else 0.0
        return found

    def lowest(self) -> Array:
        """A threshold that accepts nothing: (C,)."""
        return np.asarray(self.held.once("top", self._ends)[0])

    def ranks(self, row: Rows, s: Array) -> Array:
        """beta = sup{a : s <= theta(a)} of the scores (C,) of one row: (C,)."""
        correction, scores = self.held.parts.correction, self.columns(self.held.V)
        if type(correction) is Correction or isinstance(correction, Cells):
            if isinstance(correction, Cells):
                scores = scores[self.held.kept == correction.cell(row)[0]]
            return 1.0 - np.count_nonzero(scores < s, axis=0) / (len(scores) + 1.0)
        found = [
            correction.theta(self.held, row, 1.0 - _GRID / share)[0, c]
            for c, share in enumerate(self.shares)
        ]
        return np.append(0.0, _GRID)[np.sum(s[:, None] <= np.array(found), axis=1)]

    def typical_steps(self, alphas: Array) -> Array:
        """Distance from the median of the scores to the quantile in use, by column: (C,)."""
        found = []
        for alpha, scores in zip(alphas, self.columns(self.held.V).T, strict=True):
            finite = scores[np.isfinite(scores)] if np.isfinite(scores).any() else np.zeros(1)
            middle, high = np.quantile(finite, [0.5, max(0.5, 1.0 - alpha)], method="higher")
            found.append(high - middle if high > middle else typical_size(finite))
        return np.array(found)

    def after(self, rows: Rows, p: Array) -> _Reference:
        """With one more row of scores (1, S), if there is a window."""
        if self.window is None:
            return self
        held, correction = self.held, self.held.parts.correction
        kept = held.kept
        if isinstance(correction, Cells):
            kept = np.append(kept, correction.cell(rows))[-self.window :]
        V = np.concatenate([held.V, p])[-self.window :]
        return replace(self, held=FixedScores(held.parts, V, held.F, kept))


def _widths(sides: Sides, F: LocalLaws, level: float) -> Array:
    """Length of the intervals of the local law alone: (n, 1)."""
    return F.quantile(sides.levels(np.array([level])))[:, sides.closed].sum(axis=1)


# ---- the rules: thresholds from the errors so far ------------------------------------------------
# Each is an immutable value: `after` returns the rule for the next rows; ``issued`` is what `now`
# was when an interval was made, which is some steps ago if labels come late.


@dataclass(frozen=True)
class _Tracking:
    """theta_t = theta* + u(x) delta_t,  delta_{t+1} = delta_t + eta (err_t - alpha).

    Summed up, mean(err) - alpha = (delta_{T+1} - delta_1) / (eta T). With all (s_t - theta*) / u
    between ``low`` and ``high``, delta rises only from below ``high`` and falls only from above
    ``low``, so it stays between low - eta alpha and high + eta (1 - alpha); with labels that are
    ``lag`` steps late, each limit moves outwards by as many steps.
    """

    alphas: Array
    eta: Array
    now: Array
    low: Array
    high: Array

    def theta(self, reference: _Reference, rows: Rows, u: Array) -> Array:
        """(n or 1, C), finite."""
        return reference.finite_theta(rows, self.alphas) + u * self.now

    def after(self, err: Array, off: Array, issued: Array, ranks: _Ranks) -> _Tracking:
        """After the error (C,) of a row whose score was ``off`` units above its threshold (C,)."""
        off, delta = off + issued, self.now + self.eta * (err - self.alphas)
        low, high = np.minimum(self.low, off), np.maximum(self.high, off)
        return replace(self, now=delta, low=low, high=high)

    def bound(self, n: int, lag: int) -> float:
        """Bound on the share missed, after n labels."""
        reach = np.maximum(-self.low, self.high) + (lag + 1) * self.eta
        return float(np.sum(reach / (self.eta * n)))


@dataclass(frozen=True)
class _Levels:
    """theta_t = theta*(1 - alpha_t), alpha_t the mean of k experts by their weights.

    An expert with step gamma has alpha_{t+1} = alpha_t + gamma (alpha - err_t), which stays between
    -gamma and 1 + gamma. One expert is ACI, and with gamma = 0 nothing moves. Several are DtACI:
    each is judged by its own intervals, with beta_t = sup{a : y_t in C(a)}; weights are multiplied
    by exp(-eta loss), the pinball loss of alpha_t at beta_t, and mixed by a share sigma.
    """

    alphas: Array
    gammas: Array
    now: Array
    weights: Array

    def theta(self, reference: _Reference, rows: Rows, u: Array) -> Array:
        """(n or 1, C)."""
        return reference.theta(rows, np.sum(self.weights * self.now, axis=1))

    def after(self, err: Array, off: Array, issued: Array, ranks: _Ranks) -> _Levels:
        """After the error (C,) of a row with the ranks (C, 1); ``issued`` (C, k)."""
        a, k = self.alphas[:, None], len(self.gammas)
        if k == 1:
            return replace(self, now=self.now + self.gammas * (a - err[:, None]))
        off = ranks() - issued
        loss = a * off - np.minimum(0.0, off)
        spread = (1.0 - a) ** 2 * a**3 + a**2 * (1.0 - a) ** 3
        eta = np.sqrt(3.0 / _HORIZON * (math.log(k * _HORIZON) + 2.0) / spread)
        # Subtracting the smallest loss changes no share.
        weights = self.weights * np.exp(-eta * (loss - loss.min(axis=1, keepdims=True)))
        weights = weights / weights.sum(axis=1, keepdims=True)
        mixed = weights + (1.0 / k - weights) * 0.5 / _HORIZON
        # y is in C(a) exactly where a < beta.
        return replace(self, now=self.now + self.gammas * (a - (off <= 0.0)), weights=mixed)

    def bound(self, n: int, lag: int) -> float:
        """Bound on the share missed, after n labels; infinite if there is none."""
        if len(self.gammas) > 1 or not self.gammas[0]:
            return math.inf
        reach = np.maximum(self.alphas, 1.0 - self.alphas) + (lag + 1) * self.gammas
        return float(np.sum(reach / (self.gammas * n)))


_Rule = _Tracking | _Levels
_Ranks = Callable[[], Array]
#: Default step of each method; None if it takes none.
_STEPS = {"tracking": 0.1, "aci": 0.005, "dtaci": None, "rolling": None}
#: Steps of DtACI's experts, and the rows over which their weights should adapt.
_GAMMAS, _HORIZON = np.array([0.001 * 2**i for i in range(8)]), 500


def _first_rule(method: str, step: float | None, alphas: Array, reference: _Reference) -> _Rule:
    """The rule at the start of a stream, with miscoverage alphas (C,)."""
    if method == "tracking":
        none = np.zeros(len(alphas))
        return _Tracking(alphas, (step or 0.0) * reference.typical_steps(alphas), none, none, none)
    gammas: Array = _GAMMAS if method == "dtaci" else np.array([step or 0.0])
    shape = len(alphas), len(gammas)
    now, weights = np.broadcast_to(alphas[:, None], shape), np.full(shape, 1.0 / len(gammas))
    return _Levels(alphas, gammas, now, weights)


_INFINITE = "an interval is the whole line if alpha_t <= 0 or there are too few scores"
_EMPTY = "an empty set, which counts as a miss, is shown as a point"
#: Caveats of each method.
_CAVEATS = {
    "tracking": ("every correction is finite, and with it the bounds of all built-in methods",),
    "aci": (_INFINITE,),
    "dtaci": (
        "the mixture of steps has no bound at a finite number of rows: each step keeps the bound "
        "of ACI for the intervals that it would have made alone",
        _INFINITE,
    ),
    "rolling": (
        "a window has no bound: coverage is at least the level if rows are exchangeable, and falls "
        "short by as much as their distribution changes within the window",
        _INFINITE,
    ),
}


@dataclass(frozen=True)
class LongRunGuarantee:
    """What holds for a stream after ``n`` labels, ``n_missed`` of them outside their intervals.

    Without any assumption |n_missed / n - (1 - confidence_level)| <= ``bound``; if sides are
    calibrated separately, only for n_missed / n above 1 - confidence_level. Infinite if a method
    has no bound.
    """

    confidence_level: float
    method: str
    n: int
    n_missed: int
    bound: float
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        share = f"{1.0 - self.n_missed / self.n:.4g}" if self.n else "none"
        lines = [f"Of {self.n:,} labels since adapting began, a share of {share} was covered."]
        if self.n and math.isfinite(self.bound):
            lines.append(
                f"Whatever the stream, the share is within {self.bound:.3g} of "
                f"{self.confidence_level:g}."
            )
        return "\n".join([*lines, *(f"Note: {text}." for text in self.caveats)])


# ---- the intervals -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Course:
    """Everything that labels change, as one immutable value that is always consistent."""

    rule: _Rule
    reference: _Reference
    is_on: bool = True
    n: int = 0
    n_missed: int = 0
    #: Most labels that arrived between the interval of a row and its own label.
    lag: int = 0


class AdaptiveIntervals:
    """Intervals of a fitted model that adapt to a stream, with the right coverage in the long run.

    Rows arrive one by one or in batches: `predict_interval` first, `update` when labels are known.
    With s the adjusted score of a row and alpha the target miscoverage:

        tracking  theta_t = theta*(x) + u(x) delta_t,  delta_{t+1} = delta_t + eta (err_t - alpha)
        aci       theta_t = theta*(x; alpha_t),        alpha_{t+1} = alpha_t + gamma (alpha - err_t)
        dtaci     alpha_t a mean over eight steps gamma, weighted by how well each did recently
        rolling   theta_t = theta* of the newest scores, weighted by decay^age

    C_t(x) = {y : s(x, y) <= theta_t} has the shape of the model's local law at x. With the additive
    quantile, u(x) is the width of that law in typical widths, so that wide intervals move by more
    than narrow ones; otherwise it is 1. Of T labels, the share missed by tracking and ACI is within
    (B + eta) / (eta T) and (max(alpha, 1 - alpha) + gamma) / (gamma T) of alpha on every stream,
    dependent or adversarial; B is the largest |s - theta*| / u. See ``guarantee_``.

    Parameters
    ----------
    model : fitted and calibrated estimator
        Used without a copy, and must not change; after a refit see `follow`.
    method : {"tracking", "aci", "dtaci", "rolling"}, default="tracking"
    confidence_level : float, default=None
        1 - alpha; None is the model's.
    step : float, default=None
        gamma of ACI (None is 0.005); for tracking eta in units of the distance from the median of
        the calibration scores to their 1 - alpha quantile (None is 0.1). Larger steps adapt faster.
    window : int, default=None
        theta* is computed from this many of the newest scores, first of calibration rows, then of
        the stream. None is the calibration rows only; for "rolling", as many as there are of these.
    decay : float, default=1.0
        Factor on the weight of a score in the window for each newer one.
    monitor : CoverageMonitor, default=None
        One of the same model: it receives every label; until its alarm, intervals are the model's.

    References
    ----------
    Gibbs and Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021, and
    "Conformal inference for online prediction with arbitrary distribution shifts", JMLR 2024.
    Angelopoulos, Candes and Tibshirani, "Conformal PID control for time series prediction",
    NeurIPS 2023. Barber, Candes, Ramdas and Tibshirani, "Conformal prediction beyond
    exchangeability", Annals of Statistics 2023 (weights that decay).

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import AdaptiveIntervals, SplitConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.uniform(size=(2_000, 1)), rng.normal(size=2_000)
    >>> y = X[:, 0] + noise * np.linspace(1, 3, 2_000)
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X[:500], y[:500])
    >>> adaptive = AdaptiveIntervals(model)
    >>> for t in range(500, 2_000, 50):
    ...     intervals = adaptive.predict_interval(X[t : t + 50])
    ...     adaptive = adaptive.update(X[t : t + 50], y[t : t + 50])
    >>> found = adaptive.guarantee_
    >>> found.n, abs(found.n_missed / found.n - 0.1) <= found.bound
    (1500, True)
    """

    def __init__(
        self,
        model: Any,
        method: str = "tracking",
        *,
        confidence_level: float | None = None,
        step: float | None = None,
        window: int | None = None,
        decay: float = 1.0,
        monitor: CoverageMonitor | None = None,
    ) -> None:
        if method not in _STEPS:
            raise ValueError(f"got method={method!r}; expected one of {', '.join(_STEPS)}.")
        takes_window, usual = window is not None or method == "rolling", _STEPS[method]
        _check_number("step", step, step is None or usual is not None, math.inf)
        _check_number("decay", decay, takes_window or decay == 1.0, 1.0)
        if window is not None and not (isinstance(window, Integral) and window > 0):
            raise ValueError(
                f"got window={window!r}; expected a number of rows, at least 1, or None."
            )
        if monitor is not None and monitor.model is not model:
            raise ValueError("got a monitor of another model; expected CoverageMonitor(model).")
        self.method, self.window, self.decay, self.monitor = method, window, float(decay), monitor
        self.step = usual if step is None else float(step)
        # Held while the course or the waiting rows change, but not while rows are scored.
        self._lock = threading.RLock()
        self._level = None if confidence_level is None else _one_level(confidence_level)
        self._awaited: dict[int, list[tuple[Array, Array, int]]] = {}
        self._n_awaited = 0
        reference = self._read(model)
        alphas = (1.0 - self.confidence_level) * reference.shares
        start = _first_rule(method, self.step, alphas, reference)
        self._course = _Course(start, reference, is_on=monitor is None or bool(monitor.alarm_))

    def _read(self, model: Any) -> _Reference:
        """Use this model: its scores, and a digest that identifies it."""
        if not isinstance(model, BaseConformalRegressor):
            raise ValueError(
                f"got model={model!r}; expected a fitted estimator of localconformal, which is the "
                "regressor of a table model."
            )
        calibration, level = calibration_of(model), self._level or level_of(model)
        held, window = calibration.fixed(level), self.window
        if self.method == "rolling" and window is None:
            window = held.n
        correction, fading = held.parts.correction, self.decay < 1.0
        can_roll = type(correction) is Correction or (isinstance(correction, Cells) and not fading)
        if window is not None and not can_roll:
            raise ValueError(
                f"got {'decay' if fading else 'a window'} with a {type(model).__name__}, which "
                "weights calibration rows itself; leave it out, and call conformalize with recent "
                "rows from time to time."
            )
        if window is not None:
            parts = replace(held.parts, correction=_Fading(self.decay)) if fading else held.parts
            kept = None if held.kept is None else held.kept[-window:]
            held = FixedScores(parts, held.V[-window:], held.F, kept)
        width = 0.0
        if isinstance(held.parts.adjustment, AdditiveQuantile):
            width = max(0.0, float(np.median(_widths(held.parts.sides, calibration.F, level))))
        codes = sha256(grid_codes(calibration.fixed(level).V).tobytes()).hexdigest()
        self._digest = digest_of([level, training_digest(model), codes])
        self.model, self.confidence_level, self._calibration = model, level, calibration
        return _Reference(held, level, window, width)

    def __getstate__(self) -> dict[str, Any]:
        """With its own waiting rows, because a copy has its own lock."""
        with self._lock:
            return {**vars(self), "_lock": None, "_awaited": deepcopy(self._awaited)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def predict_interval(
        self, X: Any, *, output: str = "array", remember: bool = True, **beside: Any
    ) -> Any:
        """Intervals of rows whose labels are not yet known, based on all labels so far: (n, 2).

        Parameters
        ----------
        X : array or frame of shape (n, d)
        output : {"array", "frame"}, default="array"
            As in the model's `predict_interval`.
        remember : bool, default=True
            Keep the thresholds of these rows for `update`. False leaves no trace.
        **beside
            ``groups`` or ``weights`` of the rows, if the model's `fit` was given them.
        """
        if output not in ("array", "frame"):
            raise ValueError(f"got output={output!r}; expected 'array' or 'frame'.")
        with self._lock:
            self._check_unchanged()
            course, model, calibration = self._course, self.model, self._calibration
        rows, level = rows_of(model, X, beside), np.array([self.confidence_level])
        raw, theta = np.empty((len(rows), 2, 1)), np.empty((len(rows), len(course.rule.alphas)))
        for part, some in rows.parts(model.parts_.rows_at_a_time):
            placed = model.parts_.at(some)
            theta[part] = _theta(course, some, course.reference.units(placed))
            raw[part] = _bounds(course.reference, placed, theta[part])
        intervals = finish(raw, level, model._support)
        if remember and course.is_on:
            keys = _keys(rows)
            with self._lock:
                # Thresholds of a model that was replaced meanwhile mean nothing to the next.
                fresh = zip(keys, theta, strict=True) if self._calibration is calibration else ()
                for key, used in fresh:
                    entry = used, course.rule.now, course.n
                    self._awaited.setdefault(key, []).append(entry)
                    self._n_awaited += 1
                while self._n_awaited > _MOST_AWAITED:
                    self._pop(next(iter(self._awaited)))
        if output == "frame":
            return intervals_frame(intervals, level[0], X)
        return intervals[:, :, 0]

    def update(self, X: Any, y: ArrayLike, **beside: Any) -> AdaptiveIntervals:
        """Learn from labels y (n,) of rows X (n, d), in the order of their arrival.

        Each row is judged by the interval that was made for it, however long ago (equal rows in
        order). NaN is a label that will never arrive: its row is dropped without effect. Rows for
        which no interval was made count as predicted and labelled one by one.
        """
        with self._lock:
            self._check_unchanged()
            calibration = self._calibration
        rows, target = rows_of(self.model, X, beside), np.asarray(column_or_1d(y), dtype=np.float64)
        check_consistent_length(rows.X, target)
        known = np.flatnonzero(~np.isnan(target))
        some, keys, reference = rows.take(known), _keys(rows), self._course.reference
        scored: dict[int, Any] = {}
        for part, few in some.parts(self.model.parts_.rows_at_a_time) if len(known) else ():
            placed, labels = self.model.parts_.at(few), target[known[part]]
            p = reference.scores(placed, check_target(labels, self.model._support))
            each = zip(p[:, None], reference.units(placed), strict=True)
            scored.update(zip(known[part].tolist(), each, strict=True))
        with self._lock:
            if self._calibration is not calibration:
                # The model was replaced after these rows were scored.
                return self.update(X, y, **beside)
            plain = self._course.reference.is_for_all
            for i, key in enumerate(keys):
                entry = self._pop(key)
                if i in scored:
                    p, u = scored[i]
                    one = rows if plain else rows.take(np.array([i]))
                    self._course = _learn(self._course, one, p, u, entry)
        if self.monitor is not None and len(known):
            self.monitor.update(some.X, target[known], **dict.fromkeys(beside, some.beside))
            if self.monitor.alarm_ is not None:
                with self._lock:
                    self._course = replace(self._course, is_on=True)
        return self

    def _pop(self, key: int) -> tuple[Array, Array, int] | None:
        """What the interval of this row was made from, the first of equal rows; then forgotten."""
        entries = self._awaited.get(key)
        if entries is None:
            return None
        self._n_awaited -= 1
        if len(entries) == 1:
            del self._awaited[key]
        return entries.pop(0)

    def follow(self, model: Any) -> AdaptiveIntervals:
        """Continue with a refitted or recalibrated model; thresholds keep their offsets.

        The guarantee continues too. A window starts over with the new calibration rows. Rows that
        still wait for labels had intervals of the old model, and are forgotten.
        """
        with self._lock:
            if self.monitor is not None:
                raise ValueError(
                    "cannot follow another model with a monitor, which watches one calibration; "
                    "make new AdaptiveIntervals."
                )
            columns, before = len(self._course.rule.alphas), dict(vars(self))
            self._level = self.confidence_level
            reference = self._read(model)
            if len(reference.shares) != columns:
                vars(self).update(before)
                raise ValueError(
                    "the new model divides alpha differently between the sides; make new "
                    "AdaptiveIntervals."
                )
            self._course = replace(self._course, reference=reference)
            self._awaited, self._n_awaited = {}, 0
        return self

    def _check_unchanged(self) -> None:
        if self.model.calibration_ is not self._calibration:
            raise ValueError("the model was recalibrated; call follow(model) to continue with it.")

    @property
    def guarantee_(self) -> LongRunGuarantee:
        """What holds for the rows so far, whatever the stream."""
        course, method = self._course, self.method
        bound = course.rule.bound(course.n, course.lag) if course.n else math.inf
        caveats = [*_CAVEATS[method], _EMPTY]
        if not course.is_on:
            caveats.append("the monitor has raised no alarm: intervals are still the model's own")
        counts = course.n, course.n_missed
        return LongRunGuarantee(self.confidence_level, method, *counts, bound, tuple(caveats))

    def __repr__(self) -> str:
        found = self.guarantee_
        return f"<AdaptiveIntervals: {self.method}, {found.n_missed:,} of {found.n:,} rows missed>"

    def state(self) -> dict[str, Any]:
        """Everything but the model, as numbers and text that JSON can hold."""
        with self._lock:
            course, reference = self._course, self._course.reference
            awaited = [
                [key, _plain(used), _plain(issued), n]
                for key, entries in self._awaited.items()
                for used, issued, n in entries
            ]
            monitor = None if self.monitor is None else self.monitor.state()
            digest, level = self._digest, self.confidence_level
        rolling = None
        if reference.window is not None:
            kept = reference.held.kept
            rolling = [_plain(reference.held.V), None if kept is None else kept.tolist()]
        rule = {name: _plain(value) for name, value in asdict(course.rule).items()}
        options = {"method": self.method, "confidence_level": level, "step": self.step}
        options |= {"window": self.window, "decay": self.decay}
        counts = {name: getattr(course, name) for name in ("is_on", "n", "n_missed", "lag")}
        told = {"format": _FORMAT, "model": digest, "options": options, "counts": counts}
        return told | {"rule": rule, "rolling": rolling, "awaited": awaited, "monitor": monitor}

    @classmethod
    def restore(cls, model: Any, state: dict[str, Any]) -> AdaptiveIntervals:
        """Continue from `state`, which must belong to this model."""
        found = state.get("format") if isinstance(state, dict) else None
        if found != _FORMAT:
            raise ValueError(
                f"got a state of format {found!r}; expected {_FORMAT}: make new AdaptiveIntervals."
            )
        watching, options = state["monitor"], dict(state["options"])
        options["monitor"] = watching and CoverageMonitor.restore(model, watching)
        # Methods without a step do not take one.
        options = {name: value for name, value in options.items() if value is not None}
        fresh = cls(model, **options)
        if state["model"] != fresh._digest:
            raise ValueError(
                "the state belongs to another model, or to another calibration of it; pass the "
                "model that it belongs to, or make new AdaptiveIntervals."
            )
        reference, rule = fresh._course.reference, fresh._course.rule
        if state["rolling"] is not None:
            V, kept = state["rolling"]
            held = reference.held
            kept = None if kept is None else np.array(kept, dtype=held.kept.dtype)
            held = FixedScores(held.parts, _array(V), held.F, kept)
            reference = replace(reference, held=held)
        values = {name: _array(value) for name, value in state["rule"].items()}
        course = _Course(type(rule)(**values), reference, **state["counts"])
        for key, used, issued, n in state["awaited"]:
            entry = _array(used), _array(issued), n
            fresh._awaited.setdefault(key, []).append(entry)
        fresh._course, fresh._n_awaited = course, len(state["awaited"])
        return fresh


def _keys(rows: Rows) -> list[int]:
    """Keys that identify rows, including their groups or weights."""
    beside = () if rows.beside is None else (row_hashes(as_table(rows.beside)),)
    return [int(key) for key in row_hashes(rows.X, *beside)]


def _plain(values: Any) -> Any:
    """Numbers as JSON has them; infinite ones as text."""
    array = np.asarray(values)
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    return np.where(np.isfinite(array), array.astype(object), array.astype(str)).tolist()


def _array(values: Any) -> NDArray[Any]:
    found = np.array(values)
    return found.astype(np.float64) if found.dtype.kind in "OU" else found


def _theta(course: _Course, rows: Rows, u: Array) -> Array:
    """Thresholds of these rows with units u (n, 1): (n or 1, C)."""
    rule, reference = course.rule, course.reference
    return rule.theta(reference, rows, u) if course.is_on else reference.theta(rows, rule.alphas)


def _learn(course: _Course, row: Rows, p: Array, u: Array, entry: Any) -> _Course:
    """The course after the label of one row with adjusted scores p (1, S) and unit u (1,)."""
    rule, reference = course.rule, course.reference
    if not course.is_on:
        return course
    used, issued, at = entry or (_theta(course, row, u[None])[0], rule.now, course.n)
    s = reference.columns(p)[0]
    err, ranks = s > used, lambda: reference.ranks(row, s)[:, None]
    return replace(
        course,
        rule=rule.after(err, (s - used) / u, issued, ranks),
        reference=reference.after(row, p),
        n=course.n + 1,
        n_missed=course.n_missed + int(err.any()),
        lag=max(course.lag, course.n - at),
    )


def _bounds(reference: _Reference, placed: Placed, theta: Array) -> Array:
    """Raw bounds (n, 2, 1) at thresholds (n, C); those of an empty set are crossed or a point."""
    sides, empty = placed.parts.sides, np.isneginf(theta).any(axis=1)
    theta = np.where(np.isneginf(theta), reference.lowest(), theta)
    each = np.broadcast_to(theta[:, :, None], (len(theta), sides.n_sides, 1))
    raw = placed.bounds(each, np.array([reference.level]))
    closed = np.isfinite(raw).all(axis=(1, 2)) & empty & ~crossed(raw)[:, 0]
    raw[closed] = raw[closed].mean(axis=1, keepdims=True)
    return raw


def _one_level(confidence_level: float) -> float:
    level = as_levels(confidence_level, "confidence_level")
    if level.ndim:
        raise ValueError(f"got {len(level)} levels; expected one number.")
    return float(level)


def _check_number(name: str, value: Any, is_used: bool, most: float) -> None:
    """Require a positive number of at most ``most``, and only if it is used."""
    if not is_used:
        needs = {"step": "method 'tracking' or 'aci'", "decay": "a window, or method 'rolling'"}
        raise ValueError(f"got {name}={value!r}, which needs {needs[name]}; leave it out.")
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is not None and not (is_number and 0.0 < value <= most and math.isfinite(value)):
        limit = "" if math.isinf(most) else f" of at most {most:g}"
        raise ValueError(f"got {name}={value!r}; expected a positive number{limit}.")
