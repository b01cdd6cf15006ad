"""CHR: nested runs of bins against a plain search, and intervals that follow skewness."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import KernelLaw, SplitConformalRegressor
from localconformal.regressors.chr import CHRRegressor, run_mass


def runs_by_search(mass, widths, level):
    """The family of one row as a list of (first, last), from the smallest to all bins."""
    M, density = len(mass), mass / widths
    candidates = [
        (widths[a : b + 1].sum(), a, b)
        for a in range(M)
        for b in range(a, M)
        if mass[a : b + 1].sum() >= level - 1e-12
    ]
    _, a, b = min(candidates)
    family, low, high = [(a, b)], a, b
    while low < high:
        low, high = (low + 1, high) if density[low] <= density[high] else (low, high - 1)
        family.insert(0, (low, high))
    low, high = a, b
    while (low, high) != (0, M - 1):
        below = density[low - 1] if low > 0 else -1.0
        above = density[high + 1] if high < M - 1 else -1.0
        low, high = (low - 1, high) if below > above else (low, high + 1)
        family.append((low, high))
    return family


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.99])
def test_ranks_against_a_search(level):
    rng = np.random.default_rng(0)
    mass, widths = rng.dirichlet(np.full(15, 0.7), size=40) + 1e-4, rng.uniform(0.5, 2.0, 15)
    mass /= mass.sum(axis=1, keepdims=True)
    ranks = run_mass(mass, widths, level)
    for row, m in zip(ranks, mass, strict=True):
        family = runs_by_search(m, widths, level)
        for k in range(15):
            a, b = next(run for run in family if run[0] <= k <= run[1])
            expected = 0.0 if a == b else m[a : b + 1].sum()
            assert np.isclose(row[k], expected)


def test_every_threshold_gives_one_run():
    rng = np.random.default_rng(1)
    mass = rng.dirichlet(np.ones(60), size=20)
    ranks = run_mass(mass, np.ones(60), 0.9)
    for theta in (0.0, 0.3, 0.9, 0.95, 1.1):
        kept = np.pad(ranks <= theta, ((0, 0), (1, 1))).astype(int)
        assert (np.count_nonzero(np.diff(kept, axis=1) == 1, axis=1) == 1).all()


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 1))
    return X, X[:, 0] + (0.2 + X[:, 0]) * rng.exponential(size=n)


def test_intervals_follow_skewness():
    X, y = skewed(1000, seed=1)
    model = CHRRegressor(LinearRegression(), law=KernelLaw(bandwidth=0.3), random_state=0)
    region = model.fit(*skewed(2000, seed=0)).predict_region(X)
    assert (region.n_pieces == 1).all()
    assert abs(region.contains(y).mean() - 0.9) < 0.04
    plain = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*skewed(2000, seed=0))
    assert region.length.mean() < 0.9 * np.diff(plain.predict_interval(X), axis=1).mean()


def test_the_family_belongs_to_the_fitted_level():
    X, y = skewed(300, seed=0)
    model = CHRRegressor(LinearRegression(), law=KernelLaw(bandwidth=0.3), random_state=0)
    before = model.fit(X, y).predict_interval(X, 0.8)
    model.set_params(confidence_level=0.5)
    np.testing.assert_array_equal(before, model.predict_interval(X, 0.8))
