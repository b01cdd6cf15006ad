"""HPD-Split: regions of highest predictive density."""

from __future__ import annotations

import numpy as np

from localconformal.quantiles import Array
from localconformal.regressors.density_split import DensitySplitRegressor


class HPDSplitRegressor(DensitySplitRegressor):
    """HPD-Split: C(x) = {y : H(x, y) <= theta*}, H = mass of {z : f(z | x) > f(V(x, y) | x)}.

    The densest parts of the conditional density f(v | x), as much of it as calibration rows ask
    for: theta* = cq(1 - alpha; H(x_i, y_i)). In the words of the paper, the mass of what is no
    denser than y, 1 - H, is at least its lower conformal quantile. Where f has two modes the
    region has two pieces, and can be much shorter than any interval.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : {"residual", "normalised", "response"} or object, default="residual"
        What the density is of: the residual of the point model, the same in units of a learned
        spread, or the response itself, as in the papers.
    density : {"law", "basis"}, default="law"
        "law": masses of a local law on a grid of 400 bins, smoothed over neighbours as suits
        training rows that the law has not seen. "basis": a cosine series whose coefficients are
        regressed on x by a forest (FlexCode). Both are frozen by `fit`, and zero outside the range
        of the training scores, a little extended: where more than a share alpha of calibration
        rows lies there, the region is that range with as much more on both sides as they need.
    law : str or object, default=None
        The law of ``density="law"``; None is a forest with coarser leaves than that of "forest".
        There is no "auto": its search compares quantiles, which is not what makes a good density.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    References
    ----------
    Izbicki, Shimizu and Stern, "CD-split and HPD-split: efficient conformal regions in high
    dimensions", JMLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 1))
    >>> y = rng.choice([-3.0, 3.0], size=600) + rng.normal(size=600)
    >>> model = HPDSplitRegressor(LinearRegression(), law="kernel", random_state=0).fit(X, y)
    >>> region = model.predict_region([[0.5]])
    >>> region.n_pieces, region.contains([0.0]), region.contains([3.0])
    (array([2]), array([False]), array([ True]))
    >>> lower, upper = model.predict_interval([[0.5]])[0]
    >>> bool(region.length[0] < upper - lower - 1.0)
    True
    """

    def _ranks(self, mass: Array) -> Array:
        return denser_mass(mass, self.density_.grid.widths)


def denser_mass(mass: Array, widths: Array) -> Array:
    """Mass of the bins that are strictly denser than each: (n, M), 0 at the densest.

    Examples
    --------
    >>> denser_mass(np.array([[0.25, 0.5, 0.25]]), np.ones(3))
    array([[0.5, 0. , 0.5]])
    """
    density = mass / widths
    order = np.argsort(-density, axis=1, kind="stable")
    falling, held = (np.take_along_axis(values, order, axis=1) for values in (density, mass))
    before = np.cumsum(held, axis=1)[:, :-1]
    # Equally dense bins share the rank of the first of them.
    new = falling[:, 1:] < falling[:, :-1]
    ranks = np.zeros_like(mass)
    shared = np.maximum.accumulate(np.where(new, before, 0.0), axis=1)
    np.put_along_axis(ranks, order[:, 1:], shared, axis=1)
    return ranks
