"""Mondrian conformal prediction: a separate calibration in each cell of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions

from localconformal.adjustments import Plain
from localconformal.calibration import SideRule
from localconformal.columns import check_cells, column_of
from localconformal.quantiles import Array
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.regressors.guarantee import Guarantee
from localconformal.scores import AbsoluteScore

N_BINS = 5


class MondrianConformalRegressor(ComposedRegressor):
    """Split conformal prediction within each cell: C(x) = mu(x) +- cq(1 - alpha; cell of x).

    Coverage of at least 1 - alpha holds within every cell, not only on average.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    groups : str or int or callable, default=None
        Cell of a row: the name of a column (its position, for arrays), or a callable of X that
        returns one label a row. None: five bins of the prediction, with edges at quantiles of
        the training rows' predictions; or pass labels as ``groups=`` of `fit`, `conformalize`,
        `predict_interval` and `diagnose`.
    small_cells : {"infinite", "pool"}, default="infinite"
        A cell with too few calibration rows for the level gets infinite bounds, or the
        correction of all rows together; the latter loses the guarantee, even on average.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Nothing here runs in several processes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(400, 1)).astype(float)
    >>> y = (0.1 + X[:, 0]) * rng.normal(size=400)
    >>> model = MondrianConformalRegressor(LinearRegression(), groups=0, random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.0], [1.0]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "groups": [None, str, Integral, callable],
        "small_cells": [StrOptions({"infinite", "pool"})],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        groups: Any = None,
        small_cells: str = "infinite",
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.groups = groups
        self.small_cells = small_cells
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _composition(self) -> Composition:
        return Composition(AbsoluteScore(), Plain(), SideRule("absolute"))

    def fit(
        self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None, **fit_params: Any
    ) -> MondrianConformalRegressor:
        """Split the rows, train on one part, calibrate each cell on the other.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        y : array of shape (n,)
        groups : array of shape (n,), default=None
            Cell of each row; then every later call needs it too.
        **fit_params
            Passed to the base estimator's ``fit``.

        Returns
        -------
        self
        """
        if groups is not None and self.groups is not None:
            raise ValueError(
                f"groups came both in the constructor ({self.groups!r}) and in fit; pass one."
            )
        return self._fit(X, y, groups, fit_params)

    def conformalize(
        self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> MondrianConformalRegressor:
        """Replace the calibration set; nothing is refitted.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        y : array of shape (n,)
        groups : array of shape (n,), default=None
            Cell of each row, when `fit` was given them.

        Returns
        -------
        self
        """
        return self._conformalize(X, y, groups)

    def predict_interval(
        self,
        X: Any,
        confidence_level: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        output: str = "array",
        groups: ArrayLike | None = None,
    ) -> Any:
        """Prediction intervals; parameters as in `SLCPRegressor`, and ``groups``.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float or list of L floats, default=None
        alpha : float or list of L floats, default=None
        output : {"array", "frame"}, default="array"
        groups : array of shape (n,), default=None
            Cell of each row, when `fit` was given them.

        Returns
        -------
        array of shape (n, 2), or (n, 2, L) for a list of levels; or a frame
        """
        return self._predict_interval(X, confidence_level, alpha, output, groups)

    def diagnose(
        self, X: Any, confidence_level: float | None = None, *, groups: ArrayLike | None = None
    ) -> Any:
        """How each row's interval came about; columns as in `SLCPRegressor`."""
        return self._diagnose(X, confidence_level, groups)

    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        super()._fit_parts(X, y, fit_params, seed)
        self.groups_ = self.groups
        inner = np.arange(1, N_BINS) / N_BINS
        self.edges_ = np.quantile(self._point(X), inner)

    def _cells(self, X: Any, extra: Any) -> NDArray[Any]:
        if self._extra_given != (extra is not None):
            raise ValueError(
                "groups came to fit but not here; pass groups=, one label a row."
                if self._extra_given
                else "groups came here but not to fit; pass groups= to fit too, or leave it out."
            )
        if extra is None and self.groups_ is None:
            return np.searchsorted(self.edges_, self.score_.point(X), side="right")
        if extra is None:
            named = isinstance(self.groups_, (str, Integral))
            extra = column_of(X, self.groups_) if named else self.groups_(X)
        return check_cells(extra, len(X))

    def _name_cells(self, cells: NDArray[Any]) -> str:
        names = [str(cell) for cell in cells[:3]] + ["..."] * (len(cells) > 3)
        return f" (the fewest of the cells {', '.join(names)})"

    def _correction(self, X: Any, levels: Array, extra: Any) -> Array:
        pool = self.small_cells == "pool"
        return self.calibration_.correction(levels, self._cells(X, extra), pool)

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        if self.small_cells == "pool":
            return replace(promise, marginal=False)
        return replace(promise, conditional_on="cell")

    def _caveats(self) -> tuple[str, ...]:
        lost = "small cells borrow the correction of all rows, which voids the promise there"
        average, *others = super()._caveats()
        return (lost if self.small_cells == "pool" else f"within a cell, {average}", *others)
