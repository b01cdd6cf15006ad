"""Continuous ranked probability score of predictive distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.frames import check_unmasked
from localconformal.quantiles import Array


def crps(y_true: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean CRPS of discrete predictive laws: lower is better, the true law is best.

    With the law of row i putting mass w_j on x_j, in O(k log k) by sorting,

        CRPS = sum_j w_j |x_j - y| - 1/2 sum_jk w_j w_k |x_j - x_k|
             = 2 sum_j w_j (x_j - y) (1{y < x_j} - W_j + w_j / 2),

    W_j being the running sum of the weights in the order of x. It is in the unit of y; a law
    at one point has its absolute error as CRPS.

    Parameters
    ----------
    y_true : array of shape (n,)
    values : array of shape (n, k)
        Draws from each row's law, or its quantiles at the midpoints of k equal steps of level.
    weights : array of shape (n, k) or (k,), default=None
        Mass of each value, divided by its sum in a row; None is equal weights.

    Returns
    -------
    float
        +inf as soon as one law has mass at infinity.

    Examples
    --------
    >>> crps([0.0], [[3.0]])
    3.0
    >>> crps([0.0, 0.0], [[-1.0, 1.0], [1.0, 1.0]])
    0.75
    """
    y, x, w = _check_laws(y_true, values, weights)
    order = np.argsort(x, axis=1, kind="stable")
    x, w = np.take_along_axis(x, order, axis=1), np.take_along_axis(w, order, axis=1)
    lost = np.any(np.isinf(x) & (w > 0.0), axis=1)
    # Infinite values without mass add nothing, and neither do those at y.
    distance = np.where(np.isinf(x), 0.0, x - y[:, None])
    share = (distance > 0.0) - np.cumsum(w, axis=1) + w / 2.0
    scores = 2.0 * np.sum(w * distance * share, axis=1)
    return float(np.mean(np.where(lost, np.inf, scores)))


def _check_laws(
    y_true: ArrayLike, values: ArrayLike, weights: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """y (n,), values and weights (n, k) of sum one, or refused."""
    check_unmasked(y_true, "y_true")
    y, x = np.asarray(y_true, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or x.ndim != 2 or len(x) != len(y) or x.size == 0:
        raise ValueError(
            f"y_true has shape {y.shape} and values {x.shape}; (n,) and (n, k) were expected, "
            "with at least one value per row."
        )
    if not np.all(np.isfinite(y)) or np.isnan(x).any():
        raise ValueError(
            "y_true has NaN or infinity, or values have NaN; numbers were expected: leave such "
            "rows out."
        )
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape not in (x.shape, x.shape[1:]):
        raise ValueError(
            f"weights have shape {w.shape}; {x.shape} or {x.shape[1:]} was expected, as values "
            "have."
        )
    w = np.broadcast_to(w, x.shape)
    total = w.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(w) & (w >= 0.0)) or not np.all(total > 0.0):
        raise ValueError(
            "weights are negative, not finite, or all zero in some row; masses were expected."
        )
    return y, x, w / total
