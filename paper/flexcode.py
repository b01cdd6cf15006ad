"""The conditional density behind Dist-Split and CD-Split as published: a series of cosines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from localconformal.laws.base import Knots, Law, reference_rows
from localconformal.quantiles import Array
from localconformal.rows import Rows

#: Terms of the series at most, and the share of the rows that learns them; the rest says how many.
TERMS, SHARE = 30, 0.7
#: Edges of the bins of the density, and levels of its quantiles.
EDGES, LEVELS = np.linspace(0.0, 1.0, 401), np.linspace(0.0, 1.0, 401)


def cosines(u: Array) -> Array:
    """An orthonormal basis on [0, 1] without its constant: (n,) -> (n, TERMS)."""
    return np.sqrt(2.0) * np.cos(np.pi * u[:, None] * np.arange(1, TERMS + 1))


@dataclass(eq=False, repr=False)
class FlexCode(Law):
    """f(v | x) = 1 + sum_j b_j(x) phi_j(v) on the range of v, b_j(x) a regression of phi_j(V).

    After Izbicki and Lee (2017). ``model`` is a regressor of several responses at once. The number
    of terms has the least loss, mean of int f^2 - 2 f(V_i | X_i), on rows that the model has not
    seen. Negative densities become 0; bumps are neither removed nor sharpened.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, sign = rng.uniform(size=(500, 1)), rng.choice([-1.0, 1.0], 500)
    >>> law = FlexCode(RandomForestRegressor(50, min_samples_leaf=20, random_state=0))
    >>> law.fit(X, sign + 0.1 * rng.normal(size=500)).quantile([[0.5]], [0.25, 0.75]).round()
    array([[-1.,  1.]])
    """

    model: Any

    def fit(self, X: Any, v: ArrayLike) -> FlexCode:
        """Learn the coefficients on some rows, and choose the number of terms on the others."""
        rows, scores = reference_rows(X, v)
        self.low_, self.span_ = float(scores.min()), float(np.ptp(scores)) or 1.0
        basis = cosines((scores - self.low_) / self.span_)
        order = np.random.default_rng(0).permutation(len(scores))
        learns, chooses = np.split(order, [round(SHARE * len(order))])
        self.model_ = clone(self.model).fit(rows.X[learns], basis[learns])
        found = self.model_.predict(rows.X[chooses])
        losses = np.cumsum(np.mean(found**2 - 2.0 * found * basis[chooses], axis=0))
        self.terms_ = int(np.argmin([0.0, *losses]))
        self.n_reference_ = len(scores)
        return self

    def at(self, rows: Rows) -> Knots:
        """Quantiles of the density at each row."""
        middles = (EDGES[1:] + EDGES[:-1]) / 2.0
        # Row by row, so that no answer depends on the rows beside it.
        series = np.einsum(
            "nj,bj->nb",
            self.model_.predict(rows.X)[:, : self.terms_],
            cosines(middles)[:, : self.terms_],
        )
        mass = np.maximum(1.0 + series, 0.0)
        below = np.cumsum(mass, axis=1)
        below = np.hstack([np.zeros((len(mass), 1)), below / below[:, -1:]])
        places = np.array([np.interp(LEVELS, one, EDGES) for one in below])
        return Knots(LEVELS, self.low_ + self.span_ * places, total=float(self.n_reference_))
