"""Laws of a transformed score: V = location(x) + scale(x) W, with a law for W.

A score is a change of variable, so that a law of another score is a law of this one: of the
response (location -mu), of the normalised residual (scale sigma). Location and scale are learned
once, at reference rows by models that have not seen them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_random_state

from localconformal.columns import View
from localconformal.laws.base import Knots, Law, UniformLaw, make_law, reference_rows, seeded
from localconformal.laws.forest import default_forest
from localconformal.parallel import kept_filters
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Curve, Rows

#: Trees, rows of a leaf and share of the columns at a split: fine trees, and coarse ones.
_SPREAD_FORESTS = ((100, 5, 0.5), (50, 30, 1.0))
#: Rows below which some are in every tree, so that nothing is out of bag.
_FEW = 10
#: sigma stays above this share of the typical score, so that nothing is divided by zero.
_FLOOR = 0.01


class _Spread(Curve):
    """sigma(x) = unit max(s(x), floor), s a forest's model of |v| / unit on (x, mu(x)).

    In these units a forest works alike for responses of any size. At its reference rows sigma is
    that of the trees that have not seen them.
    """

    def fit(self, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> _Spread:
        # The reference rows know its answer from now on.
        self.unit_, self.view_ = typical_size(v), View().fit(rows.of(rows.model))
        self.model_, sigma = _grow(self.view_(rows), np.abs(v) / self.unit_, seed, n_jobs)
        rows.known[self] = self.unit_ * sigma
        return self

    def compute(self, rows: Rows) -> Array:
        return np.asarray(self.unit_ * np.maximum(self.model_.predict(self.view_(rows)), _FLOOR))


def with_spread(rows: Rows, v: Array, seed: int, n_jobs: int | None) -> Rows:
    """The same rows with sigma(x) known; as they are when it is."""
    if rows.spread is not None:
        return rows
    return rows.of(rows.model, _Spread().fit(rows, v, seed, n_jobs))


@kept_filters
def _grow(
    points: Array, sizes: Array, seed: int, n_jobs: int | None
) -> tuple[RandomForestRegressor, Array]:
    """A forest of the sizes, and what it says at its own rows, out of bag.

    Noise may change from row to row or smoothly with a few columns: of two forests the one is
    taken under whose sigma the sizes are likelier, as exponential variables out of bag.
    """
    n, best = len(sizes), np.inf
    for trees, leaf_rows, share in _SPREAD_FORESTS if n >= _FEW else _SPREAD_FORESTS[:1]:
        model = default_forest(n, seed, n_jobs, trees, leaf_rows, share)
        model.set_params(oob_score=n >= _FEW).fit(points, sizes)
        # Threads add up the trees' predictions in any order, which changes their last bits.
        model.set_params(n_jobs=1)
        sigma = model.oob_prediction_ if n >= _FEW else model.predict(points)
        sigma = np.maximum(sigma, _FLOOR)
        loss = float(np.mean(np.log(sigma) + sizes / sigma))
        if loss < best:
            best, chosen, known = loss, model, sigma
    return chosen, known


@dataclass(eq=False, repr=False)
class TransformedLaw(Law):
    """The law of V = location(x) + scale(x) W; a subclass says what the change is."""

    law: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Learn location and scale; the rows as laws of W should see them."""
        raise NotImplementedError

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location and scale at rows: (n,) each."""
        raise NotImplementedError

    def fit(self, X: Any, v: ArrayLike) -> TransformedLaw:
        """Learn the change, then the law of W."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        changed = self.change(rows, scores, seed)
        location, scale = self.terms(changed)
        self.law_ = self._inner_law().fit(changed, (scores - location) / scale)
        return self

    def _inner_law(self) -> Law:
        """The unfitted law of W, with this law's seed and threads where it has none."""
        made = UniformLaw() if self.law is None else make_law(self.law)
        return seeded(made, self.random_state, self.n_jobs)

    def at_levels(self, levels: Array) -> Law:
        """The same with a cheaper law of W, where there is one."""
        law: Law = clone(self)
        return law.set_params(law=self._inner_law().at_levels(levels))

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        return Knots.of(self.law_.at(rows)).changed(*self.terms(rows))


class ScaledLaw(TransformedLaw):
    """V = sigma(x) W: the law of the score in units of a learned spread.

    sigma is a forest's model of |V|; at reference rows by the trees that have not seen them.

    Parameters
    ----------
    law : str or law, default=None
        Law of W; None is the uniform law, which makes this the normalised residual (MADSplit).
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> law = ScaledLaw(random_state=0).fit(X, X[:, 0] * rng.normal(size=500))
    >>> low, high = law.quantile([[0.1], [0.9]], [0.95])[:, 0]
    >>> bool(low < high)
    True
    """

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Scale sigma."""
        known = with_spread(rows, v, seed, self.n_jobs)
        self.spread_ = known.spread
        return known

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location 0, scale sigma."""
        return np.zeros(len(rows)), self.spread_(rows)  # type: ignore[misc]


class ResponseLaw(TransformedLaw):
    """V = Y - mu(x): the law of the response itself, whatever the point model says.

    Parameters
    ----------
    law : str or law, default=None
        Law of Y given x, such as ``LearnedLaw()`` (CQR) or ``ForestLaw(target="response")`` (a
        quantile forest); None is the uniform law.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.zeros((3, 1)), [1.0, 2.0, 3.0]
    >>> ResponseLaw().fit(X, v).quantile(X[:1], [0.5]).round(6)
    array([[2.]])
    """

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Location -mu."""
        check_residual(rows, v, type(self).__name__)
        self.model_ = rows.model
        # The spread is the residual's, not the response's.
        return rows.of(rows.model)

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location -mu, scale 1."""
        return -rows.of(self.model_).point, np.ones(len(rows))


def check_residual(rows: Rows, v: Array, name: str) -> None:
    """The score is y - mu(x), or refused."""
    if not rows.are_residuals(v):
        raise ValueError(
            f"got {name} with a score other than the residual y - mu(x), from which the response "
            "cannot be told; choose conformity_score='residual', or another law."
        )
