"""A linear map of the features under which near rows have alike responses."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order, check_lengths
from localconformal.parallel import one_blas_thread
from localconformal.quantiles import Array

#: Sizes of the map that are tried at the start: wide kernels first.
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: One row in so many is held out, and says which map is the best.
HELD_OUT = 4


class LearnedMetric(BaseEstimator):
    """u(x) = sqrt(2 / r) A f(x), with A (r, p) learned and f the standardised features.

    A gaussian kernel of bandwidth 1 is then

        K(x, x') = exp(-|u(x) - u(x')|^2 / 2) = exp(-mean_k [A (f(x) - f(x'))]_k^2).

    A has the least squared error of leave-one-out kernel regression,

        y^_i = (sum_{j != i} K(X_i, X_j) y_j + mean(y)) / (sum_{j != i} K(X_i, X_j) + 1):

    a pseudo-observation of weight 1 stands at the mean response, so that K has a size and not
    only ratios. L-BFGS descends on three quarters of a sample of the rows, and of the maps on its
    way the one is kept that predicts the last quarter best.

    As ``embedding`` of a law inside a regressor it learns from the responses, not from the scores
    that the law is of; ``embedding="metric"`` is short for it, with the law's seed.

    Parameters
    ----------
    n_components : int, default=10
        r; as many as there are features where these are fewer.
    max_rows : int, default=1000
        Rows that are looked at.
    n_iter : int, default=50
        Steps of the descent, at most.
    random_state : int, default=0
        Seed of the sample of rows and of the first map.
    layer : object with ``transform``, default=None
        f, before it is standardised; None is the features themselves. Lin et al. take a network's
        last hidden layer: ``HiddenLayer(network)``.

    Attributes
    ----------
    map_ : array of shape (r, p)
        A.

    References
    ----------
    Lin, Trivedi and Sun, "Locally valid and discriminative prediction intervals for deep learning
    models", NeurIPS 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> metric = LearnedMetric().fit(X, np.sin(6 * X[:, 0]))
    >>> signal, noise = np.abs(metric.map_).max(axis=0)
    >>> bool(signal > 5 * noise)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_rows": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "layer": [None, HasMethods("transform")],
    }

    def __init__(
        self,
        n_components: int = 10,
        max_rows: int = 1000,
        n_iter: int = 50,
        random_state: int = 0,
        layer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_rows = max_rows
        self.n_iter = n_iter
        self.random_state = random_state
        self.layer = layer

    def fit(self, X: Any, y: ArrayLike) -> LearnedMetric:
        """Learn A from rows X (n, d) and what is to be alike nearby, y (n,)."""
        self._validate_params()
        response = np.asarray(
            check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
        )
        values = self._values(X)
        self.features_ = FeatureEmbedding().fit(values)
        points = self.features_.transform(values)
        check_lengths(len(points), len(response))
        rng = np.random.default_rng(self.random_state)
        rows = rng.permutation(len(response))[: self.max_rows]
        if len(response) <= CANONICAL_UP_TO:
            rows = canonical_order(points, response)[rows]
        seen, held = split(points[rows], standardised(response[rows]))
        first = first_map(min(self.n_components, points.shape[1]), points.shape[1], rng)
        self.map_ = learn_map(first, seen, held, self.n_iter)
        return self

    def _values(self, X: Any) -> Any:
        return X if self.layer is None else self.layer.transform(X)

    def transform(self, X: Any) -> Array:
        """(n, r) points, each row by itself: a matrix product's last bits depend on the batch."""
        check_is_fitted(self)
        points = np.ascontiguousarray(self.features_.transform(self._values(X)))
        return np.einsum("ij,kj->ik", points, np.sqrt(2.0 / len(self.map_)) * self.map_)


@dataclass(frozen=True)
class Sample:
    """Points (n, p) and their responses (n,), of mean 0 over all rows."""

    points: Array
    y: Array


def split(points: Array, y: Array) -> tuple[Sample, Sample]:
    """Rows to learn from, and one in four to judge by."""
    held = np.arange(len(y)) % HELD_OUT == HELD_OUT - 1
    return Sample(points[~held], y[~held]), Sample(points[held], y[held])


def standardised(y: Array) -> Array:
    """Mean 0 and spread 1, or all 0: the unit of y must not matter."""
    centred = y - y.mean()
    spread = np.sqrt(np.mean(centred**2))
    return centred / spread if spread > 1e-12 * np.abs(y).max() else np.zeros_like(y)


def first_map(r: int, p: int, rng: np.random.Generator) -> Array:
    """The features themselves, or r random directions at right angles: (r, p)."""
    if r == p:
        return np.eye(p)
    return np.linalg.qr(rng.normal(size=(p, r)))[0].T


@one_blas_thread
def learn_map(first: Array, seen: Sample, held: Sample, n_iter: int) -> Array:
    """The map of least error on the held rows among those that the descent passes."""

    def loss(flat: Array) -> tuple[float, Array]:
        value, gradient = leave_one_out(flat.reshape(first.shape), seen)
        return value, gradient.ravel()

    # Copies: the optimiser writes on in its own array.
    passed = [well_sized(first, seen).ravel()]
    minimize(
        loss,
        passed[0],
        jac=True,
        method="L-BFGS-B",
        callback=lambda flat: passed.append(flat.copy()),
        options={"maxiter": n_iter},
    )
    maps = [flat.reshape(first.shape) for flat in passed]
    return min(maps, key=lambda A: held_out_error(A, seen, held))


def well_sized(first: Array, seen: Sample) -> Array:
    """The first map in the size of least loss.

    Among those under which rows weigh as much as the pseudo-observation, or the widest: where
    nothing has weight, there is no way down.
    """
    maps = [scale * first for scale in SCALES]
    heavy = [A for A in maps if kernel_matrix(A, seen).sum(axis=1).mean() >= 1.0]
    return min(heavy or maps[:1], key=lambda A: leave_one_out(A, seen)[0])


def kernel_matrix(A: Array, rows: Sample) -> Array:
    """K between all pairs of rows, 0 of each with itself: (n, n)."""
    U = rows.points @ A.T
    K = np.exp(-cdist(U, U, "sqeuclidean") / len(A))
    np.fill_diagonal(K, 0.0)
    return K


def leave_one_out(A: Array, rows: Sample) -> tuple[float, Array]:
    """Mean squared error of predicting each row from the others, and its gradient in A (r, p).

    With U = Z A^T, S_i = 1 + sum_j K_ij, e_i = -2 (y_i - y^_i) / n and
    B_ij = -e_i (y_j - y^_i) K_ij / S_i, plus its transpose, the gradient in U is
    (2 / r) (diag(B 1) U - B U).
    """
    U, K, n = rows.points @ A.T, kernel_matrix(A, rows), len(rows.y)
    total = 1.0 + K.sum(axis=1)
    predicted = K @ rows.y / total
    error = rows.y - predicted
    B = (2.0 / n * error / total)[:, None] * (rows.y[None, :] - predicted[:, None]) * K
    B += B.T
    in_U = 2.0 / len(A) * (B.sum(axis=1)[:, None] * U - B @ U)
    return float(error @ error) / n, in_U.T @ rows.points


def held_out_error(A: Array, seen: Sample, held: Sample) -> float:
    """Squared error of predicting the held rows from those seen."""
    squared = cdist(held.points @ A.T, seen.points @ A.T, "sqeuclidean")
    K = np.exp(-squared / len(A))
    return float(np.sum((held.y - K @ seen.y / (1.0 + K.sum(axis=1))) ** 2))
