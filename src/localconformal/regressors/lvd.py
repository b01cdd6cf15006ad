"""Locally valid and discriminative intervals: calibration rows weighed by a learned kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from localconformal.laws import KernelLaw
from localconformal.laws.metric import LearnedMetric
from localconformal.quantiles import Array
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.localizing import LocalizingRegressor


class LVDRegressor(LocalizingRegressor):
    """Locally valid and discriminative intervals: a kernel around the new row itself.

        C(x) = {y : V(x, y) <= wcq(1 - alpha; V_i, K(X_i, x), 1)},  V the larger side of the score,

    with mass K(x, x) = 1 at +inf. The kernel is learned: see `LearnedMetric`. No coverage is
    guaranteed at a new row, since the weights are centred at the very row that they are to cover;
    it usually is too high. Intervals are infinite wherever 1 / (1 + sum_i K(X_i, x)) > alpha.
    `RLCPRegressor` is the same with a random centre, which makes it exact.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : str or object, default="residual"
        As in `SLCPRegressor`; "normalised" is the second version in the paper of Lin et al.
    law : str or object, default=None
        A law whose kernel weighs calibration rows: kernel, neighbors, forest or uniform. None:
        ``KernelLaw(bandwidth=1.0, embedding=LearnedMetric())``.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        Reference scores, for laws that depend on them; the default needs none, and "cross-fit"
        then trains one model only.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting; None is one.

    References
    ----------
    Lin, Trivedi and Sun, "Locally valid and discriminative prediction intervals for deep learning
    models", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(800, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.3 * X[:, 0] * rng.normal(size=800)
    >>> model = LVDRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.4], [0.6]]).T
    >>> bool(np.isfinite(upper - lower).all()), model.guarantee_.marginal
    (True, False)
    """

    default_needs_scores = False

    def _default_law(self) -> KernelLaw:
        return KernelLaw(bandwidth=1.0, embedding=LearnedMetric(), engine="reference")

    def _weigh(self, rows: Any, held: Any) -> tuple[Array, Array]:
        """Weights K(x, X_i) (m, n), and K(x, x) = 1 at +inf (m,)."""
        return self.localizer_(rows, held), np.ones(len(rows))

    def _guarantee(self) -> Guarantee:
        return replace(super()._guarantee(), marginal=False, finite_sample=False)

    def _caveats(self) -> tuple[str, ...]:
        # The first of them speaks of an average that is promised.
        return (
            "the level would be exact for new rows drawn from the kernel around a centre fixed in "
            "advance; with the centre at the new row it is not, and coverage usually is too high",
            "intervals are infinite where 1 / (1 + the sum of the kernel over calibration rows) "
            "exceeds 1 - confidence_level",
            *super()._caveats()[1:],
        )
