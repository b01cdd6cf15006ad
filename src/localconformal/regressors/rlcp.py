"""Randomly-localized conformal prediction: calibration rows weighed around a drawn centre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from localconformal.engine.kernels import KERNELS
from localconformal.laws import BaseLaw, KernelLaw
from localconformal.laws.effective_bandwidth import EffectiveSize
from localconformal.laws.localizer import KernelLocalizer
from localconformal.laws.noise import DRAWS, draw
from localconformal.models import shown
from localconformal.quantiles import Array
from localconformal.regressors.localizing import LocalizingRegressor

#: Training rows that the default kernel reaches: a third as many calibration rows, by default.
REACHED = 150.0


class RLCPRegressor(LocalizingRegressor):
    """Randomly-localized conformal prediction: local weights that keep the guarantee.

    Around the embedded row f(x) a centre is drawn from the kernel's own density, such as
    N(f(x), h^2 I), and the calibration rows are weighed by how near they are to it:

        x~ = f(x) + h e,  w_i = K(|f(X_i) - x~| / h),  w_inf = K(|f(x) - x~| / h),
        C(x) = {y : V(x, y) <= wcq(1 - alpha; V_i, w_i, w_inf)},  V the larger side of the score.

    The noise e is a function of the row and of a seed drawn once, at fit: repeated predictions
    agree, alone or in a batch, at all levels. An infinite h gives split conformal prediction.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : str or object, default="residual"
        As in `SLCPRegressor`.
    law : KernelLaw or "kernel", default=None
        Its kernel, embedding and bandwidth are used. None: ``KernelLaw(bandwidth=
        EffectiveSize(150))``, a gaussian that reaches about 150 of up to 2,000 training rows, and
        so, with the default ``calibration_size``, 50 calibration rows. With fewer training rows h
        is infinite, and `guarantee_` says so.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        Reference scores, for a bandwidth that depends on them, such as "cv"; the default needs
        none, and "cross-fit" then trains one model only.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting; None is one.

    References
    ----------
    Hore and Barber, "Conformal prediction with local weights: randomization enables robust
    guarantees", arXiv:2310.07850.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1200, 1))
    >>> y = X[:, 0] * rng.normal(size=1200)
    >>> model = RLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.2], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    localizer_: KernelLocalizer

    default_needs_scores = False

    def _default_law(self) -> KernelLaw:
        return KernelLaw(bandwidth=EffectiveSize(REACHED), engine="reference")

    def _check_law(self, law: BaseLaw) -> None:
        if not isinstance(law, KernelLaw) or law.kernel not in DRAWS:
            raise ValueError(
                f"law is {shown(law)}; a KernelLaw was expected, with a kernel from which one can "
                f"draw: {', '.join(map(repr, DRAWS))}."
            )

    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        super()._fit_parts(X, y, fit_params, seed)
        self.noise_seed_ = seed

    def _weigh(self, rows: Array, held: Array) -> tuple[Array, Array]:
        """Weights (m, n) and mass at +inf (m,), around a centre drawn for each embedded row."""
        kernel, h = self.localizer_.kernel, self.localizer_.bandwidth
        if np.isinf(h):
            return np.ones((len(rows), len(held))), np.ones(len(rows))
        noise = draw(kernel, self.noise_seed_, rows)
        u2 = np.empty((len(rows), len(held) + 1))
        u2[:, :-1] = cdist(rows + h * noise, held, "sqeuclidean") / h**2
        u2[:, -1] = np.einsum("ij,ij->i", noise, noise)
        # A gaussian's weights are relative to the row's largest: in many dimensions all underflow.
        weights = KERNELS[kernel](u2)
        return weights[:, :-1], weights[:, -1]

    def _caveats(self) -> tuple[str, ...]:
        if np.isinf(self.localizer_.bandwidth):
            flat = "the bandwidth is infinite, for want of training rows: this is split conformal"
            return (*super()._caveats(), flat)
        return (
            *super()._caveats(),
            "intervals are randomised, once for each row, by a seed stored at fit; the promise is "
            "an average over such seeds too",
            "coverage also holds given the drawn centre, that is, on average over new rows that "
            "are weighed by the kernel around it",
        )
