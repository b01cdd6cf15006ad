"""Ridge regression, its penalty by cross-validation, and linear quantile regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import RidgeCV

from localconformal.experiments.models.family import Family, Unfitted
from localconformal.experiments.presets import Preset
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array

PENALTIES = tuple(np.logspace(-2, 4, 13))
LEVELS = (0.05, 0.5, 0.95)


class LinearQuantiles(RegressorMixin, BaseEstimator):
    """q_t(x) = a_t + b_t'x for each level t, by a pinball loss that is rounded at 0.

    With residual r and width h, t r + h log(1 + exp(-r / h)) tends to the pinball loss as h
    falls; it is smooth, so that thousands of rows and a hundred features take a fraction of a
    second, where the linear program takes minutes.

    Parameters
    ----------
    levels : sequence of floats, default=(0.05, 0.5, 0.95)
        The only levels that `predict` can be asked for.
    width : float, default=0.02
        h in units of the standard deviation of y.
    penalty : float, default=0.0001
        Half of it times the squared norm of b is added to the mean loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * (1 + rng.uniform(size=2000))
    >>> LinearQuantiles().fit(X, y).predict([[1.0]], quantiles=[0.5]).round(1)
    array([[1.5]])
    """

    def __init__(
        self, levels: Sequence[float] = LEVELS, width: float = 0.02, penalty: float = 1e-4
    ) -> None:
        self.levels = levels
        self.width = width
        self.penalty = penalty

    def fit(self, X: Any, y: Any) -> LinearQuantiles:
        """A minimisation a level, each from the last one's solution."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.scale_ = float(np.std(y)) or 1.0
        design, target = np.column_stack([np.ones(len(y)), X]), y / self.scale_
        start, found = np.zeros(design.shape[1]), []
        for level in self.levels:
            start = minimize(
                self._loss, start, (design, target, level), jac=True, method="L-BFGS-B"
            ).x
            found.append(start)
        self.coefficients_ = np.column_stack(found)
        return self

    def _loss(self, beta: Array, design: Array, y: Array, level: float) -> tuple[float, Array]:
        """Mean loss and its gradient."""
        residual = y - design @ beta
        rounded = self.width * np.logaddexp(0.0, -residual / self.width)
        slope = level - expit(-residual / self.width)
        weights = np.concatenate([[0.0], beta[1:]])
        value = np.mean(level * residual + rounded) + self.penalty / 2 * weights @ weights
        return float(value), -design.T @ slope / len(y) + self.penalty * weights

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """(n, L); None is all levels."""
        wanted = list(self.levels if quantiles is None else quantiles)
        columns = [nearest(self.levels, level) for level in wanted]
        design = np.column_stack([np.ones(len(X)), np.asarray(X, dtype=np.float64)])
        return np.asarray(self.scale_ * (design @ self.coefficients_[:, columns]))


def nearest(levels: Sequence[float], level: float) -> int:
    """Position of the level; 1 - 0.95 is 0.05 in other last digits."""
    position = int(np.argmin(np.abs(np.asarray(levels) - level)))
    if abs(levels[position] - level) > 1e-9:
        raise ValueError(f"level {level} was not fitted; one of {list(levels)} was expected.")
    return position


def choose(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
    """Ridge regression finds its penalty whenever it is fitted, by leave-one-out.

    A forest as the conditional law would be the better model of the two, and its methods not
    those on a linear model: the law is SLCP's kernel.
    """
    ridge = RidgeCV(PENALTIES)
    return Unfitted(ridge, LinearQuantiles(), ridge, KernelLaw(n_jobs=1))


FAMILY = Family("ridge", choose)
