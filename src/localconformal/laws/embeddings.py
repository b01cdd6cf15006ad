"""Where distances are measured: rows of any kind -> points in Euclidean space; see `KernelLaw`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from localconformal.columns import Features, in_box
from localconformal.laws.base import check_lengths
from localconformal.laws.blend import activations
from localconformal.laws.transformed import with_spread
from localconformal.models import unwrap
from localconformal.parallel import one_blas_thread
from localconformal.quantiles import Array
from localconformal.rows import Curve, Rows, canonical_order, shown

_NAMES = ("outputs", "outputs-spread", "hidden", "metric", "hidden-metric")
#: Initial scales of a learned map that are tried: wide kernels first.
_SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: One row in this many is held out, to choose the best map.
_HELD_OUT = 4


def fit_embedding(embedding: Any, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> Curve:
    """The points of the user's embedding; seed and threads are for named ones."""
    if isinstance(embedding, str):
        if embedding not in _NAMES or rows.model is None:
            raise ValueError(
                f"got embedding={shown(embedding)}; expected a transformer, a fitted model or a "
                "callable, or, inside a regressor of this library, one of "
                f"{', '.join(map(repr, _NAMES))}."
            )
        return _named(embedding, rows, v, seed, n_jobs)
    if isinstance(embedding, LearnedMetric):
        # It learns from the responses, and learns its own scale.
        return _Points(clone(embedding).fit(rows.X, rows.response(v)))
    known = [m for m in ("transform", "predict", "__call__") if hasattr(embedding, m)]
    given = isinstance(embedding, FrozenEstimator) or not hasattr(embedding, "fit")
    if not known or (not given and known[0] != "transform"):
        raise ValueError(
            f"got embedding={shown(embedding)}; expected a transformer, a fitted model (as "
            "FrozenEstimator), a callable or a known name."
        )
    if given:
        return _scaled(_Points(embedding, known[0]), rows)
    fitted = clone(embedding)
    if hasattr(fitted, "fit_transform"):
        # Its answer for training rows may differ from that of ``transform``.
        seen = fitted.fit_transform(rows.X, v)
    else:
        seen = fitted.fit(rows.X, v).transform(rows.X)
    points = _Points(fitted)
    rows.known[points] = points.finish(points.table(seen))
    check_lengths(len(rows.known[points]), len(v))
    return points


def _scaled(points: _Points, rows: Rows) -> _Points:
    """The points, standardised by their reference rows."""
    points.scaler_ = Features().fit(points.raw(rows))
    return points


def _named(name: str, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> _Points:
    """Points from the point model, or from a metric learned from the responses."""
    layer = HiddenLayer(getattr(rows.model, "model_", None)) if "hidden" in name else None
    if "metric" in name:
        metric = LearnedMetric(random_state=seed, layer=layer)
        return _Points(metric.fit(rows.X, rows.response(v)))
    if layer is not None:
        return _scaled(_Points(layer), rows)
    spread = with_spread(rows, v, seed, n_jobs).spread if name == "outputs-spread" else None
    return _scaled(_OutputPoints(rows.model, spread), rows)


class _Points(Curve):
    """Points from a method of an object, such as a transformer's ``transform``."""

    scaler_: Features | None = None

    def __init__(self, source: Any, method: str = "transform") -> None:
        # Not the bound method, which model files cannot hold.
        self.source, self.method = source, method

    def raw(self, rows: Rows) -> Array:
        return self.table(getattr(self.source, self.method)(rows.X))

    def compute(self, rows: Rows) -> Array:
        return self.finish(self.raw(rows))

    def table(self, values: Any) -> Array:
        """Values of any shape as a table of finite numbers."""
        values = values.toarray() if hasattr(values, "toarray") else values
        points = np.asarray(values, dtype=np.float64)
        points = points.reshape(len(points), prod(points.shape[1:]))
        return in_box(points, type(self.source).__name__)

    def finish(self, points: Array) -> Array:
        if self.scaler_ is not None:
            points = self.scaler_.transform(points)
        return in_box(points, "the scale of the embedding")


class _OutputPoints(_Points):
    """mu(x), or (mu(x), sigma(x)); at reference rows from models that have not seen them."""

    def __init__(self, model: Any, spread: Curve | None) -> None:
        super().__init__(model)
        self.spread = spread

    def raw(self, rows: Rows) -> Array:
        columns = [self.source(rows).point]
        return np.column_stack(columns if self.spread is None else [*columns, self.spread(rows)])


@dataclass(eq=False, repr=False)
class HiddenLayer(BaseEstimator):
    """Activations of a hidden layer of a fitted MLPRegressor.

    Pass it to a law as ``embedding=HiddenLayer(model)``; ``embedding="hidden"`` is the last hidden
    layer of the regressor's own network.

    Parameters
    ----------
    model : fitted MLPRegressor
        Or a Pipeline, FrozenEstimator or TransformedTargetRegressor around one.
    layer : int, default=-1
        Which hidden layer: 0 is the first, -1 the last.

    Examples
    --------
    >>> from sklearn.neural_network import MLPRegressor
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> model = MLPRegressor(hidden_layer_sizes=(8, 3), max_iter=2000, random_state=0)
    >>> HiddenLayer(model.fit(X, X[:, 0])).transform(X).shape
    (50, 3)
    """

    model: Any
    layer: int = -1

    def __sklearn_clone__(self) -> HiddenLayer:
        # The network stays fitted: cloning a law must not undo it.
        return HiddenLayer(self.model, self.layer)

    def transform(self, X: Any) -> Array:
        """Activations of the layer: (n, units)."""
        before, network = unwrap(self.model)
        if not hasattr(network, "coefs_"):
            raise ValueError(f"got {type(network).__name__}; expected a fitted MLPRegressor.")
        depth = len(network.coefs_) - 1
        if not -depth <= self.layer < depth:
            raise ValueError(
                f"got layer={self.layer!r} for a network with {depth} hidden layers; expected a "
                f"number from {-depth} to {depth - 1}."
            )
        for step in before:
            X = step.transform(X)
        return activations(network, X, self.layer % depth + 1)


@dataclass(eq=False, repr=False)
class LearnedMetric(BaseEstimator):
    """u(x) = sqrt(2 / r) A f(x), with A (r, p) learned and f the standardised features.

    A Gaussian kernel of bandwidth 1 is then

        K(x, x') = exp(-|u(x) - u(x')|^2 / 2) = exp(-mean_k [A (f(x) - f(x'))]_k^2).

    A (``map_``) minimises the squared error of leave-one-out kernel regression,

        y^_i = (sum_{j != i} K(X_i, X_j) y_j + mean(y)) / (sum_{j != i} K(X_i, X_j) + 1):

    a pseudo-observation of weight 1 at the mean response makes the scale of K matter, not only
    its ratios. L-BFGS runs on three quarters of a sample of the rows; of its iterates, the best
    on the last quarter is kept.

    As ``embedding`` of a law inside a regressor it learns from the responses, not from the scores
    of the law; ``embedding="metric"`` is short for it, with the law's seed.

    Parameters
    ----------
    n_components : int, default=10
        r; at most the number of features.
    max_rows : int, default=1000
        Most rows to learn from.
    n_iter : int, default=50
        Most iterations of L-BFGS.
    random_state : int, default=0
        Seed of the sample of rows and of the first map.
    layer : object with ``transform``, default=None
        f, before it is standardised; None is the features themselves. Lin et al. use a network's
        last hidden layer: ``HiddenLayer(network)``.

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

    n_components: int = 10
    max_rows: int = 1000
    n_iter: int = 50
    random_state: int = 0
    layer: Any = None

    def fit(self, X: Any, y: ArrayLike) -> LearnedMetric:
        """Learn A from rows X (n, d) and the values y (n,) that should be similar nearby."""
        self._validate_params()
        y = check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
        response, values = np.asarray(y), self._values(X)
        self.features_ = Features().fit(values)
        points = self.features_.transform(values)
        check_lengths(len(points), len(response))
        rng = np.random.default_rng(self.random_state)
        order = canonical_order(Rows(points), response)
        rows = order[rng.permutation(len(response))[: self.max_rows]]
        points, y, p = points[rows], _standardised(response[rows]), points.shape[1]
        # One row in four is held out.
        held = np.arange(len(y)) % _HELD_OUT == _HELD_OUT - 1
        seen, judges = _Sample(points[~held], y[~held]), _Sample(points[held], y[held])
        r = min(self.n_components, p)
        # The features themselves, or r random orthogonal directions.
        first = np.eye(p) if r == p else np.linalg.qr(rng.normal(size=(p, r)))[0].T
        self.map_ = _learn_map(first, seen, judges, self.n_iter)
        return self

    def _values(self, X: Any) -> Any:
        return X if self.layer is None else self.layer.transform(X)

    def transform(self, X: Any) -> Array:
        """(n, r) points, row by row: the last bits of a matrix product depend on the batch."""
        check_is_fitted(self)
        points = np.ascontiguousarray(self.features_.transform(self._values(X)))
        return np.einsum("ij,kj->ik", points, np.sqrt(2.0 / len(self.map_)) * self.map_)


class _Sample(NamedTuple):
    """Points (n, p) and their responses (n,), of mean 0 over all rows."""

    points: Array
    y: Array


def _standardised(y: Array) -> Array:
    """Mean 0 and spread 1, or all 0: the unit of y must not matter."""
    centred = y - y.mean()
    spread = np.sqrt(np.mean(centred**2))
    return centred / spread if spread > 1e-12 * np.abs(y).max() else np.zeros_like(y)


@one_blas_thread
def _learn_map(first: Array, seen: _Sample, held: _Sample, n_iter: int) -> Array:
    """The iterate of L-BFGS with the smallest error on the held-out rows."""

    def loss(flat: Array) -> tuple[float, Array]:
        value, gradient = _leave_one_out(flat.reshape(first.shape), seen)
        return value, gradient.ravel()

    def keep(flat: Array) -> None:
        # A copy: the optimiser reuses its array.
        passed.append(flat.copy())

    passed = [_well_sized(first, seen).ravel()]
    most = {"maxiter": n_iter}
    minimize(loss, passed[0], jac=True, method="L-BFGS-B", callback=keep, options=most)
    maps = [flat.reshape(first.shape) for flat in passed]
    return min(maps, key=lambda A: _held_out_error(A, seen, held))


def _well_sized(first: Array, seen: _Sample) -> Array:
    """The first map at the scale with the smallest loss, among those in which rows have weight.

    If rows weigh less than the pseudo-observation, the descent makes no progress.
    """
    maps = [scale * first for scale in _SCALES]
    heavy = [A for A in maps if _kernel_matrix(A, seen).sum(axis=1).mean() >= 1.0]
    return min(heavy or maps[:1], key=lambda A: _leave_one_out(A, seen)[0])


def _kernel_matrix(A: Array, rows: _Sample) -> Array:
    """K between all pairs of rows, with a zero diagonal: (n, n)."""
    U = rows.points @ A.T
    K = np.exp(-cdist(U, U, "sqeuclidean") / len(A))
    np.fill_diagonal(K, 0.0)
    return K


def _leave_one_out(A: Array, rows: _Sample) -> tuple[float, Array]:
    """Mean squared error of predicting each row from the others, and its gradient in A (r, p).

    With U = Z A^T, S_i = 1 + sum_j K_ij, e_i = -2 (y_i - y^_i) / n and
    B_ij = -e_i (y_j - y^_i) K_ij / S_i, plus its transpose, the gradient in U is
    (2 / r) (diag(B 1) U - B U).
    """
    U, K, n = rows.points @ A.T, _kernel_matrix(A, rows), len(rows.y)
    total = 1.0 + K.sum(axis=1)
    predicted = K @ rows.y / total
    error = rows.y - predicted
    B = (2.0 / n * error / total)[:, None] * (rows.y[None, :] - predicted[:, None]) * K
    B += B.T
    in_U = 2.0 / len(A) * (B.sum(axis=1)[:, None] * U - B @ U)
    return float(error @ error) / n, in_U.T @ rows.points


def _held_out_error(A: Array, seen: _Sample, held: _Sample) -> float:
    """Squared error of predicting the held-out rows from those seen."""
    squared = cdist(held.points @ A.T, seen.points @ A.T, "sqeuclidean")
    K = np.exp(-squared / len(A))
    return float(np.sum((held.y - K @ seen.y / (1.0 + K.sum(axis=1))) ** 2))
