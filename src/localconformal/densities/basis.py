"""A cosine series whose coefficients are regressed on x (FlexCode)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localconformal.densities.base import BaseDensity, Sample, default_forest
from localconformal.densities.grid import BINS, Grid
from localconformal.laws import SidedLaw
from localconformal.laws.forest import as_points
from localconformal.laws.once import one_query
from localconformal.laws.outputs import Outputs
from localconformal.laws.view import View, fit_view
from localconformal.models import shown
from localconformal.quantiles import Array

#: Terms beside the constant, at most.
MOST_TERMS = 30
FOR_FEW_ROWS = 3


@dataclass(frozen=True)
class Coefficients:
    """beta_j(x) = E[phi_j(u) | x], by one forest for all j."""

    view: View
    model: Any

    @classmethod
    def fit(
        cls, X: Any, v: Array, outputs: Outputs, terms: Array, seed: int, n_jobs: int | None
    ) -> Coefficients:
        """Regress terms (n, J) on the rows of scores v."""
        view, seen = fit_view(None, X, v, outputs)
        model = default_forest(len(v), seed, n_jobs).fit(as_points(seen), terms)
        # Threads add up trees in the order in which they come: answers must not depend on it.
        return cls(view, model.set_params(n_jobs=1))

    def __call__(self, X: Any) -> Array:
        """(n, J)."""
        with one_query():
            points = as_points(self.view(X))
        return np.asarray(self.model.predict(points)).reshape(len(points), -1)


@dataclass(frozen=True)
class BasisDensity(BaseDensity):
    """f(u | x) = max(0, 1 + sum_j beta_j(x) phi_j(u)) / constant, phi_j(u) = sqrt(2) cos(pi j u).

    u in [0, 1] is the position on the grid. The number of terms, 30 at most, is the one with the
    least loss at reference rows that the forest has not seen.

    References
    ----------
    Izbicki and Lee, "Converting high-dimensional regression to high-dimensional conditional
    density estimation", Electronic Journal of Statistics 2017.
    """

    coefficients: Coefficients
    n_terms: int

    @classmethod
    def fit(cls, sample: Sample, law: Any) -> BasisDensity:
        """From reference rows; there is no law in it."""
        if law is not None:
            raise ValueError(
                f"law is {shown(law)} and density is 'basis', which has no law; leave the law out, "
                "or choose density='law'."
            )
        grid = Grid.around(sample.v, sample.outputs.response)
        n_terms = choose_terms(grid, sample)
        terms = cosines(grid.position(sample.v), n_terms)
        fitted = Coefficients.fit(
            sample.X, sample.v, sample.outputs, terms, sample.seed, sample.n_jobs
        )
        return cls(grid, SidedLaw((), mirrored=False), fitted, n_terms)

    def estimate(self, X: Any) -> Array:
        """Mass of each bin at each row: (n, M)."""
        beta = self.coefficients(X)
        mass = np.full((len(beta), BINS), 1.0 / BINS)
        # Term by term, since a matrix product would round by the number of rows.
        for j, integrals in enumerate(cosine_integrals(self.n_terms)):
            mass += beta[:, j, None] * integrals
        np.maximum(mass, 0.0, out=mass)
        return mass / mass.sum(axis=1, keepdims=True)


def cosines(u: Array, n_terms: int) -> Array:
    """phi_1..phi_J at u (n,): (n, J)."""
    return np.sqrt(2.0) * np.cos(np.pi * np.arange(1, n_terms + 1) * u[:, None])


def cosine_integrals(n_terms: int) -> Array:
    """Integral of each phi_j over each bin: (J, M)."""
    j = np.arange(1, n_terms + 1)[:, None]
    return np.diff(np.sqrt(2.0) * np.sin(np.pi * j * np.linspace(0.0, 1.0, BINS + 1)), axis=1) / (
        np.pi * j
    )


def choose_terms(grid: Grid, sample: Sample) -> int:
    """The number of terms with the least loss at held-out reference rows.

    The basis is orthonormal, so that the loss of J terms is a running sum: that of
    beta_j^2 - 2 beta_j phi_j(u_i).
    """
    held = sample.held_out()
    if held is None:
        return FOR_FEW_ROWS
    fold, v = held
    terms = cosines(grid.position(fold.v_rest), MOST_TERMS)
    fitted = Coefficients.fit(
        fold.X_rest, fold.v_rest, fold.outputs, terms, sample.seed, sample.n_jobs
    )
    beta = fitted(fold.X)
    gains = beta**2 - 2.0 * beta * cosines(grid.position(v), MOST_TERMS)
    return int(np.argmin(np.cumsum(gains.mean(axis=0)))) + 1
