"""LCP: localized conformal prediction, with a law of the calibration scores around every row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from localconformal.calibration import Calibration
from localconformal.engine.local_ranks import LocalRanks, rank_locally
from localconformal.laws import KernelLaw
from localconformal.laws.finite_bandwidth import FiniteThresholds
from localconformal.laws.order import canonical_order
from localconformal.quantiles import Array
from localconformal.regressors.localizing import LocalizingRegressor


class LCPRegressor(LocalizingRegressor):
    """Localized conformal prediction: C(x) = mu(x) +- T(x), T(x) the largest score accepted at x.

    Every row has a law of its own, the scores of calibration rows and the new one weighted by
    H(row, .), and a local rank, the mass of that law strictly below its own score. A score v at x
    is accepted while fewer than (1 - alpha)(n + 1) calibration rows have a smaller local rank
    than v has at x. `localconformal.engine.local_ranks` finds T(x) exactly, in O(n log n).

    Where few calibration rows have weight the interval is infinite, and a warning says how often.
    One that never is comes from `SLCPRegressor`, which localizes by training rows.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : str or object, default="residual"
        Its absolute value (the larger of its two sides) is what is ranked.
    law : str or object, default=None
        Law whose kernel between two rows is H: "kernel", "neighbors", "forest", "uniform" or an
        object. None is a Gaussian `KernelLaw` whose bandwidth makes thresholds of training rows
        small and seldom infinite (`FiniteThresholds`, at ``confidence_level``).
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        How the training rows that H is learned from are scored.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting; None is one.

    Attributes
    ----------
    localizer_ : Localizer
        H; its ``bandwidth`` is the one chosen, where H is a kernel.

    References
    ----------
    Guan, "Localized conformal prediction: a generalized inference framework for conformal
    prediction", Biometrika 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 1))
    >>> y = X[:, 0] * rng.normal(size=600)
    >>> model = LCPRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.1], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    def _default_law(self) -> KernelLaw:
        return KernelLaw(bandwidth=FiniteThresholds(self.confidence_level), engine="reference")

    def _calibrate(self, X: Any, y: Array, extra: Any) -> Calibration:
        calibration = super()._calibrate(X, y, extra)
        rows, V = calibration.view, calibration.V[:, 0]
        # Sums are rounded: the order of rows with the same score must be one of their own.
        order = canonical_order(np.reshape(rows, (len(rows), -1)), V)
        ranks = rank_locally(
            self.localizer_,
            rows[order],
            V[order],
            symmetric=self.localizer_.symmetric,
        )
        return replace(calibration, view=ranks)

    def _correction(self, X: Any, levels: Array, extra: Any) -> Array:
        return self.calibration_.view.thresholds(self._view(X, extra), levels)[:, None, :]

    def _weigh(self, rows: Any, held: LocalRanks) -> tuple[Array, Array]:
        return self.localizer_(rows, held.rows), np.ones(len(rows))

    def _caveats(self) -> tuple[str, ...]:
        return (
            *super()._caveats(),
            "intervals are infinite where few calibration rows have weight",
        )
