"""Parts of a law belong together: sides with their rows, trees with their leaves."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from localconformal import ForestLaw, KernelLaw, NeighborsLaw
from localconformal.engine.dispatch import FEW
from localconformal.laws import SidedLaw
from localconformal.laws.blend_models import ALPHAS, ridge
from localconformal.laws.embedding import OutputEmbedding
from localconformal.laws.features import typical_values
from localconformal.laws.localizer import NeighborsLocalizer
from localconformal.laws.outputs import Outputs
from localconformal.laws.sides import LocalLaw
from localconformal.laws.view import fit_view


@pytest.fixture(scope="module")
def two_sides():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(40, 1)), rng.normal(size=(40, 2))
    return SidedLaw.fit(KernelLaw(bandwidth=0.5), X, V, None), X


LEVELS = np.array([[0.9], [0.8]])
QUESTIONS = {
    "quantile": lambda local: local.quantile(LEVELS),
    "upper quantile": lambda local: local.upper_quantile(LEVELS),
    "cdf": lambda local: local.cdf(np.zeros((local.n, 2))),
    "mean": lambda local: local.mean(),
    "effective sample size": lambda local: local.effective_sample_size(),
    "fallback": lambda local: local.fallback(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_side_without_its_rows_is_not_passed_over(two_sides, question):
    sided, X = two_sides
    whole = sided.at(X[:3])
    QUESTIONS[question](whole)
    with pytest.raises(ValueError, match="argument"):
        QUESTIONS[question](LocalLaw(sided, whole.rows[:1], 3))


class Grows:
    """A law that remembers what it was given."""

    def __init__(self):
        self.seen = []

    def update(self, X, v):
        self.seen.append(v)


def test_new_rows_reach_every_side_or_none_is_passed_over():
    V = np.arange(6.0).reshape(3, 2)
    both, last = (Grows(), Grows()), (Grows(),)
    SidedLaw(both, False).update(V, V)
    assert [law.seen[0].tolist() for law in both] == [V[:, 0].tolist(), V[:, 1].tolist()]
    SidedLaw(last, True).update(V, V)
    assert last[0].seen[0].tolist() == V[:, 1].tolist()
    with pytest.raises(ValueError, match="argument"):
        SidedLaw(both, False).update(V, V[:, :1])


@pytest.mark.parametrize(("n", "walked"), [(FEW, False), (FEW + 1, True)])
def test_trees_over_many_rows_are_walked_by_the_engine(n, walked):
    X = np.random.default_rng(0).normal(size=(n, 1))
    forest = RandomForestRegressor(3, max_depth=3)
    law = ForestLaw(forest, n_jobs=1, random_state=0).fit(X, X[:, 0])
    # Points to be walked from, or one code a tree.
    assert law.rows(X[:5]).shape == ((5, 1) if walked else (5, 3))


def test_a_typical_value_is_the_median_of_all_rows_in_any_order():
    column = np.repeat([0.0, 1.0], [100_000, 110_000])[:, None]
    for rows in (column, column[::-1]):
        np.testing.assert_array_equal(typical_values(rows), [1.0])
    np.testing.assert_array_equal(typical_values(np.full((3, 1), np.nan)), [0.0])
    np.testing.assert_array_equal(typical_values(np.array([[1.0, 5.0], [2.0, np.nan]])), [1.5, 5.0])


class Same:
    """The rows are the points."""

    def transform(self, X):
        return X


def test_the_radius_is_the_distance_of_the_kth_nearest_among_many():
    rng = np.random.default_rng(0)
    references, point = rng.normal(size=(2_000, 2)), np.zeros((1, 2))
    squared = np.sort(np.sum(references**2, axis=1))
    for k in range(1, 2_000, 9):
        view = NeighborsLocalizer(Same(), references, k).view(point)
        assert view[0, -1] == pytest.approx(squared[k - 1], rel=1e-12)


@pytest.mark.parametrize("n", [400, FEW + 1])
def test_neighbours_among_many_are_the_k_nearest(n):
    X = np.random.default_rng(0).permutation(n).astype(float)[:, None]
    for k in (1, 2, 150):
        law = NeighborsLaw(k).fit(X, X[:, 0])
        assert law.quantile([[0.0]], [1.0])[0, 0] == k - 1


def outputs_of(X, shift=0.0):
    return Outputs(lambda rows: np.asarray(rows)[:, 0] + shift, X[:, 0] + shift, X[:, 0] + shift)


@pytest.mark.parametrize(("spread", "columns"), [(False, 1), (True, 2)])
def test_a_spread_is_learned_where_it_is_asked_for(spread, columns):
    X = np.random.default_rng(0).normal(size=(60, 2))
    embedding = OutputEmbedding(outputs_of(X), spread=spread)
    assert embedding.fit_transform(X, X[:, 1]).shape == (60, columns)
    assert embedding.transform(X[:5]).shape == (5, columns)


def test_where_zero_lies_in_the_response_does_not_matter_to_a_view():
    X = np.random.default_rng(0).normal(size=(60, 2))
    _, here = fit_view(None, X, X[:, 1], outputs_of(X))
    view, there = fit_view(None, X, X[:, 1], outputs_of(X, shift=50.0))
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(view(X), there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_ridge_has_the_least_error_of_rows_left_out(unit):
    rng = np.random.default_rng(0)
    Z = unit * rng.normal(size=(25, 4))
    y = Z @ np.arange(4.0) / unit + rng.normal(size=25)

    def left_out(alpha):
        for i in range(25):
            rest = np.arange(25) != i
            model = Ridge(alpha=alpha).fit(Z[rest], y[rest])
            yield float(y[i] - model.predict(Z[[i]])[0]) ** 2

    slopes, error = ridge(Z, y)
    errors = [np.mean(list(left_out(alpha))) for alpha in ALPHAS]
    assert error == pytest.approx(min(errors), rel=1e-6)
    best = Ridge(alpha=ALPHAS[int(np.argmin(errors))]).fit(Z, y)
    np.testing.assert_allclose(slopes, best.coef_, rtol=1e-6, atol=1e-9)
