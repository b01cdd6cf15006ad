"""Quantiles, CDF, samples and CRPS of a calibrated estimator."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from localconformal.calibration import SideRule
from localconformal.frames import check_unmasked
from localconformal.laws import SidedLaw
from localconformal.laws.once import one_query
from localconformal.laws.sides import LocalLaw
from localconformal.metrics.intervals import crps
from localconformal.models import take_rows
from localconformal.quantiles import Array, required_calibration_size
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.regressors.distribution import PredictiveDistribution, outward_ranks
from localconformal.regressors.predictive_guarantee import PredictiveGuarantee
from localconformal.regressors.response import check_target
from localconformal.regressors.row_parts import row_parts
from localconformal.scores import Band, BaseScore

# CRPS sees each law through this many of its values.
CRPS_VALUES = 200
# Rows whose laws CRPS holds in memory at a time.
CRPS_ROWS = 10_000


class WithPredictiveDistribution(BaseConformalRegressor):
    """The predictive distribution of a composition with a signed score.

    Mathematics and guarantee: `localconformal.regressors.distribution`. All that is calibrated
    for `predict_interval` serves here too: nothing is fitted again.
    """

    score_: BaseScore
    law_: SidedLaw
    side_rule_: SideRule

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> Array:
        """Calibrated quantiles of y at each x; they never cross.

        On average over new rows, P(Y < q_t) <= t for t < 1/2 and P(Y > q_t) <= 1 - t for
        t >= 1/2, and both are within 1 / (n + 1) of that for n calibration rows and y without
        ties: [q_0.05, q_0.95] covers at least 90 %. Given x nothing is promised.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        levels : float or list of L floats
            Inside (0, 1).

        Returns
        -------
        array of shape (m, L), or (m,) for one number
            -inf for levels below 1 / (n + 1) and +inf above n / (n + 1): the calibration set
            is too small for them. Inverse of `predict_cdf`, up to rounding: y >= q_t exactly
            when predict_cdf(y) > t for t < 1/2, >= t for t > 1/2.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from localconformal import SLCPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(160, 1))
        >>> y = X[:, 0] * rng.normal(size=160)
        >>> model = SLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
        >>> model.predict_quantiles([[0.1], [0.9]], [0.25, 0.5, 0.75]).shape
        (2, 3)
        """
        distribution = self._distribution()
        t = check_levels(levels)
        rows, asked = self._check_rows(X), np.atleast_1d(t)
        found = [distribution.quantile(*self._at(some), asked) for _, some, _ in row_parts(rows)]
        values = in_order(np.concatenate(found), asked)
        n = len(distribution.places)
        if np.any((ranks := outward_ranks(n, t)) < 1) or np.any(ranks > n):
            warnings.warn(shortage(n, t), UserWarning, stacklevel=2)
        return values if t.ndim else values[:, 0]

    def predict_cdf(self, X: Any, y: ArrayLike) -> Array:
        """Calibrated probability that the response at x is at most y.

        The conformal CDF is known up to one step of 1 / (n + 1), for n calibration rows; this
        is its value nearest 1/2, which never understates a tail. For new rows (x, y) without
        ties it is uniform on [0, 1] to within 1 / (n + 1), on average and not given x.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        y : float, or array of shape (m,) or (m, k)
            One number for all rows, or one or k numbers for each.

        Returns
        -------
        array of shape (m,) or (m, k)
            From 1 / (n + 1) to n / (n + 1), non-decreasing in y.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from localconformal import SLCPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(160, 1))
        >>> y = X[:, 0] * rng.normal(size=160)
        >>> model = SLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
        >>> low, high = model.predict_cdf([[0.1], [0.9]], 0.5)
        >>> bool(low > high)
        True
        """
        distribution = self._distribution()
        rows = self._check_rows(X)
        table = check_responses(y, len(rows))
        found = [
            distribution.cdf(*self._at(some), responses)
            for _, some, responses in row_parts(rows, table.reshape(len(rows), -1))
        ]
        return np.concatenate(found).reshape(table.shape)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Independent draws from the predictive distribution at each x, always finite.

        Each of the n calibration ranks is as likely as any other; the mass of 1 / (n + 1) that
        the distribution has beyond its ends is shared among them.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        n_samples : int, default=1
            Draws at each row.
        random_state : int, RandomState instance or None, default=None
            An int gives the same draws at every call.

        Returns
        -------
        array of shape (m, n_samples)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from localconformal import SLCPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(160, 1))
        >>> y = X[:, 0] * rng.normal(size=160)
        >>> model = SLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
        >>> model.sample([[0.1], [0.9]], 5, random_state=0).shape
        (2, 5)
        """
        distribution = self._distribution()
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples is {n_samples!r}; a whole number from 1 was expected.")
        random = check_random_state(random_state)
        draws = [
            distribution.sample(*self._at(some), int(n_samples), random)
            for _, some, _ in row_parts(self._check_rows(X))
        ]
        return np.concatenate(draws)

    def crps(self, X: Any, y: ArrayLike) -> float:
        """Mean continuous ranked probability score of rows (x, y); lower is better.

        `localconformal.metrics.crps` of 200 equally likely values, as `sample` would draw them.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        y : array of shape (m,)

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from localconformal import SLCPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(160, 1))
        >>> y = X[:, 0] * rng.normal(size=160)
        >>> model = SLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
        >>> bool(model.crps(X, y) < np.mean(np.abs(y - model.predict(X))))
        True
        """
        distribution = self._distribution()
        X, y = self._check_rows(X), check_target(y)
        check_consistent_length(X, y)
        total = 0.0
        for start in range(0, len(y), CRPS_ROWS):
            block = np.arange(start, min(start + CRPS_ROWS, len(y)))
            band, F = self._at(take_rows(X, block))
            values = distribution.atoms(band, F, CRPS_VALUES)
            total += len(block) * crps(y[block], values)
        return total / len(y)

    # ---- parts -----------------------------------------------------------------------------

    @one_query()
    def _at(self, X: Any) -> tuple[Band, LocalLaw]:
        """What the model and the local laws say at the rows of X."""
        rows = self._check_rows(X)
        return self.score_.band(rows), self.law_.at(rows)

    def _distribution(self) -> PredictiveDistribution:
        """Of the calibration set in force; made when first asked for."""
        self._check_calibrated()
        if (reason := self._why_no_distribution()) is not None:
            raise ValueError(reason)
        calibration = self.calibration_
        known = vars(self).get("_known_distribution")
        if known is None or known[0] is not calibration:
            made = PredictiveDistribution.of(self.score_, calibration.V[:, -1], calibration.F)
            known = self._known_distribution = (calibration, made)
        return known[1]

    def _why_no_distribution(self) -> str | None:
        """A sentence where there are intervals only, else None."""
        if self.side_rule_.n_sides == 2:
            return None
        return (
            f"{type(self).__name__} calibrates the larger of two sides, without the sign, which "
            "gives intervals and no distribution; use LocalizedConformalRegressor with a score "
            "other than 'absolute' and sides='joint' (adjustment='plain' for no law)."
        )

    def _predictive_guarantee(self) -> PredictiveGuarantee | None:
        """The promise of the methods above; None where there is no distribution."""
        if self._why_no_distribution() is not None:
            return None
        return PredictiveGuarantee(None if self.calibration_ is None else self.calibration_.n)


def check_levels(levels: ArrayLike) -> Array:
    """Levels of quantiles as a float, or as an array of shape (L,)."""
    t = np.asarray(levels)
    numeric = t.dtype.kind in "fiu" and t.ndim <= 1 and t.size > 0
    if not numeric or not np.all((t > 0) & (t < 1)):
        raise ValueError(
            f"levels are {levels!r}; a number inside (0, 1), or a list of them, was expected."
        )
    return t.astype(np.float64)


def check_responses(y: ArrayLike, n: int) -> Array:
    """y as finite numbers, (n,) or (n, k)."""
    check_unmasked(y, "y")
    given = np.asarray(y)
    numeric = given.dtype.kind in "biufO"
    values = given.astype(np.float64) if numeric else np.full(1, np.nan)
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"y has the type {given.dtype}, or NaN or infinity among its values; finite numbers "
            "were expected."
        )
    if values.ndim == 0:
        values = np.full(n, values)
    if values.ndim > 2 or len(values) != n:
        raise ValueError(
            f"y has shape {values.shape} and X has {n} rows; ({n},) or ({n}, k) was expected, or "
            "one number for all rows."
        )
    return values


def in_order(values: Array, levels: Array) -> Array:
    """Quantiles (m, L) that rise with their levels, whatever rounding did to the last bit."""
    order = np.argsort(levels, kind="stable")
    sorted_values = np.empty_like(values)
    sorted_values[:, order] = np.maximum.accumulate(values[:, order], axis=1)
    return sorted_values


def shortage(n: int, levels: Array) -> str:
    """Which level has no finite quantile, and how many rows it needs."""
    extreme = np.maximum(levels, 1.0 - levels)
    level = float(np.ravel(levels)[np.argmax(extreme)])
    needed = required_calibration_size(float(extreme.max()))
    return (
        f"Some quantiles are infinite: {n} calibration rows came and level {level!r} needs at "
        f"least {needed}; calibrate on more rows, or ask for levels inside "
        f"[{1 / (n + 1):.3g}, {n / (n + 1):.3g}]."
    )
