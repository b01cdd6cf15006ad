"""Conformal histogram regression: the shortest intervals of a conditional histogram."""

from __future__ import annotations

import numpy as np

from localconformal.engine import compiling
from localconformal.quantiles import MASS_GUARD, Array
from localconformal.regressors.density_split import DensitySplitRegressor


class CHRRegressor(DensitySplitRegressor):
    """CHR: C(x) = the largest run of bins of mass <= theta* in a nested family of short runs.

    The family at x starts from the shortest run of bins that holds ``confidence_level`` of the
    conditional density. It grows by whichever neighbour is denser, and shrinks by whichever end is
    sparser, one bin at a time: the method of Sesia and Romano with the finest steps there are. The
    rank of y is the mass of the first run that holds it, and theta* = cq(1 - alpha; ranks).

    Regions are intervals, not centred: they follow skewness. The family belongs to the level that
    the estimator was fitted with; other levels are valid too, and short where they are near it.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : {"residual", "normalised", "response"} or object, default="residual"
        What the density is of, as in `HPDSplitRegressor`.
    density : {"law", "basis"}, default="law"
        As in `HPDSplitRegressor`.
    law : str or object, default=None
        The law of ``density="law"``; None is a forest, as in `HPDSplitRegressor`.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    References
    ----------
    Sesia and Romano, "Conformal prediction using conditional histograms", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 1))
    >>> y = X[:, 0] + rng.exponential(size=600)
    >>> model = CHRRegressor(LinearRegression(), law="kernel", random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.5]])[0] - 0.5
    >>> bool(lower < 0.5), bool(1.5 < upper < 3.5)
    (True, True)
    """

    def _ranks(self, mass: Array) -> Array:
        # The last run holds all mass, but for rounding.
        return np.minimum(run_mass(mass, self.density_.grid.widths, self._level_at_fit), 1.0)


def run_mass(mass: Array, widths: Array, level: float) -> Array:
    """Mass of the first run of the family that holds each bin: (n, M), 0 at the innermost.

    Examples
    --------
    >>> run_mass(np.array([[0.125, 0.5, 0.25, 0.125]]), np.ones(4), 0.7)
    array([[1.   , 0.   , 0.75 , 0.875]])
    """
    from localconformal.densities.compiled_runs import nested_runs

    ranks = np.empty_like(mass)
    with compiling():
        nested_runs(mass, widths, level - MASS_GUARD, ranks)
    return ranks
