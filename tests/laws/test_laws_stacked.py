"""Several laws averaged: weights that are earned, quantiles that are averages."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    LocalizedConformalRegressor,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    StackedLaw,
    UniformLaw,
)
from localconformal.laws.knots import GRID
from localconformal.laws.outputs import Outputs, blank_outputs
from registry import smooth_data

LEVELS = np.array([0.05, 0.2, 0.5, 0.8, 0.95])
#: Levels of the grid, where an average of quantiles is kept as it is.
KNOTS = GRID[1:-1]


def rows(n, seed, d=1):
    """The spread depends on the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    return X, np.where(X[:, 0] > 0.5, 5.0, 0.2) * rng.normal(size=n)


def test_weights_are_on_the_simplex_and_the_right_law_gets_most():
    X, v = rows(400, 0)
    laws = [UniformLaw(), NeighborsLaw(n_neighbors=60), NeighborsLaw(n_neighbors=1)]
    law = StackedLaw(laws, random_state=0).fit(X, v)
    assert np.all(law.weights_ >= 0)
    assert law.weights_.sum() == pytest.approx(1.0)
    assert law.weights_[1] > 0.7
    assert np.argmin(law.losses_) == 1
    assert len(law.laws_) == np.count_nonzero(law.weights_)


def test_a_uniform_truth_is_left_to_the_uniform_law():
    rng = np.random.default_rng(0)
    X, v = rng.uniform(size=(400, 3)), rng.normal(size=400)
    law = StackedLaw([NeighborsLaw(n_neighbors=5), "uniform"], random_state=0).fit(X, v)
    assert law.weights_[1] > 0.6


def test_quantiles_are_the_weighted_average():
    (X, v), (Q, _) = rows(200, 0), rows(20, 1)
    laws = [UniformLaw(), KernelLaw(bandwidth=0.3, random_state=0), NeighborsLaw(n_neighbors=40)]
    law = StackedLaw(laws, weights=[2, 1, 1]).fit(X, v)
    np.testing.assert_allclose(law.weights_, [0.5, 0.25, 0.25])
    assert not hasattr(law, "losses_")
    parts = [one.fit(X, v) for one in laws]
    averages = [
        sum(w * ask(part) for w, part in zip([0.5, 0.25, 0.25], parts, strict=True))
        for ask in (lambda part: part.quantile(Q, KNOTS), lambda p: p.effective_sample_size(Q))
    ]
    np.testing.assert_allclose(law.quantile(Q, KNOTS), averages[0], atol=1e-8)
    np.testing.assert_allclose(law.effective_sample_size(Q), averages[1], rtol=1e-12)


@pytest.mark.parametrize("member", ["uniform", "kernel", ResponseLaw(), ScaledLaw()], ids=str)
def test_one_law_alone_is_that_law(member):
    (X, v), (Q, _) = rows(150, 0), rows(20, 1)
    law = StackedLaw([member], random_state=0).fit(X, v)
    np.testing.assert_array_equal(law.weights_, [1.0])
    (inner,) = law.laws_
    np.testing.assert_allclose(law.quantile(Q, KNOTS), inner.quantile(Q, KNOTS), atol=1e-8)
    np.testing.assert_allclose(law.mean(Q), inner.mean(Q), atol=0.15)


def test_a_law_without_weight_is_not_kept():
    X, v = rows(60, 0)
    law = StackedLaw(["uniform", "neighbors", "kernel"], weights=[0, 3, 0]).fit(X, v)
    (inner,) = law.laws_
    assert isinstance(inner, NeighborsLaw)


@pytest.mark.ci
def test_a_seed_fixes_everything():
    (X, v), (Q, _) = rows(120, 0), rows(10, 1)
    laws = [ForestLaw(RandomForestRegressor(5, min_samples_leaf=4)), "neighbors", ScaledLaw()]
    first, again, other = (StackedLaw(laws, random_state=s).fit(X, v) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.weights_, again.weights_)
    np.testing.assert_array_equal(first.quantile(Q, LEVELS), again.quantile(Q, LEVELS))
    assert np.any(first.quantile(Q, LEVELS) != other.quantile(Q, LEVELS))


def test_weights_do_not_depend_on_the_unit_of_the_scores():
    X, v = rows(120, 0)
    law = StackedLaw(["uniform", "kernel"], random_state=0)
    one = law.fit(X, v).weights_
    for c in (2.0**-30, 2.0**30):
        np.testing.assert_allclose(law.fit(X, c * v).weights_, one, atol=1e-9)


def test_a_member_that_memorises_earns_nothing():
    """The neighbour of a row, when it is the row itself, knows its score."""
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(200, 2)), rng.normal(size=200)
    law = StackedLaw([NeighborsLaw(n_neighbors=1), "uniform"], random_state=0).fit(X, v)
    assert law.losses_[0] > 1.5 * law.losses_[1]
    assert law.weights_[1] > 0.8


def test_leaves_of_a_fitted_forest_can_be_a_member():
    X, v = rows(150, 0)
    forest = FrozenEstimator(RandomForestRegressor(5, min_samples_leaf=10).fit(X, np.abs(v)))
    law = StackedLaw([ForestLaw(forest), "uniform"], random_state=0).fit(X, v)
    assert law.weights_.sum() == pytest.approx(1.0)


class Foreign:
    """A law from elsewhere, with the public methods only."""

    def fit(self, X, v):
        self.law = UniformLaw().fit(X, v)
        return self

    def __getattr__(self, name):
        if name == "law":
            raise AttributeError(name)
        return getattr(self.law, name)

    def quantile(self, X, levels):
        return self.law.quantile(X, levels)


def test_a_law_from_elsewhere_can_be_a_member():
    X, v = rows(60, 0)
    law = StackedLaw([Foreign(), "uniform"], random_state=0).fit(X, v)
    np.testing.assert_allclose(law.weights_, 0.5, atol=1e-9)


def test_what_the_point_model_says_reaches_the_members():
    """Only mu tells where scores are large."""
    rng = np.random.default_rng(0)
    X, mu = rng.normal(size=(300, 1)), rng.uniform(size=300)
    v = np.where(mu > 0.5, 5.0, 0.2) * rng.normal(size=300)
    outputs = Outputs(lambda Q: np.array([0.1, 0.9]), mu, mu + v)
    laws = [KernelLaw(bandwidth=0.2, embedding="outputs"), "kernel"]
    law = StackedLaw(laws, random_state=0).fit(X, v, outputs=outputs)
    assert law.weights_[0] > 0.8
    narrow, wide = np.ptp(law.quantile(np.zeros((2, 1)), [0.05, 0.95]), axis=1)
    assert wide > 5 * narrow


@pytest.mark.ci
def test_stacks_within_changes_within_stacks_work():
    (X, v), (Q, _) = rows(120, 0, d=2), rows(10, 1, d=2)
    inner = StackedLaw([ScaledLaw(), LearnedLaw(QuantileRegressor(alpha=0))])
    shifted = ShiftedLaw(inner, {"line": LinearRegression()})
    law = StackedLaw([shifted, "uniform", ResponseLaw("neighbors")], random_state=0).fit(X, v)
    assert np.all(np.diff(law.quantile(Q, LEVELS), axis=1) >= 0)


def test_too_few_rows_to_compare_share_the_weight():
    X, v = rows(5, 0)
    law = StackedLaw(["uniform", "kernel"], random_state=0).fit(*rows(60, 0)).fit(X, v)
    np.testing.assert_array_equal(law.weights_, 0.5)
    assert not hasattr(law, "losses_")


@pytest.mark.parametrize("laws", [[], "kernel", ()])
def test_no_laws_are_refused(laws):
    with pytest.raises(ValueError, match="a list of at least one law was expected"):
        StackedLaw(laws).fit(*rows(20, 0))


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1, 1, 1]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"weights are .* for 2 laws; one finite number for each"):
        StackedLaw(["uniform", "kernel"], weights=weights).fit(*rows(20, 0))


def test_it_works_inside_a_regressor_and_levels_are_nested():
    X, v = rows(200, 0, d=2)
    law = StackedLaw(["uniform", NeighborsLaw(n_neighbors=30)])
    model = LocalizedConformalRegressor(LinearRegression(), law=law, random_state=0)
    intervals = model.fit(X, X[:, 0] + v).predict_interval(X, confidence_level=[0.5, 0.8, 0.9])
    assert np.all(np.diff(intervals[:, 0], axis=1) <= 0)
    assert np.all(np.diff(intervals[:, 1], axis=1) >= 0)
    wide = X[:, 0] > 0.5
    length = intervals[:, 1, 1] - intervals[:, 0, 1]
    assert np.median(length[wide]) > 2 * np.median(length[~wide])


def test_the_number_of_threads_reaches_every_forest(monkeypatch):
    """Also the forests of the spread, grown anew without each fold."""
    jobs, grow = [], RandomForestRegressor.fit

    def fit(self, X, y):
        jobs.append(self.n_jobs)
        return grow(self, X, y)

    monkeypatch.setattr(RandomForestRegressor, "fit", fit)
    X, v = smooth_data(60, seed=0)
    StackedLaw([ScaledLaw(), "forest"], n_folds=2, random_state=0, n_jobs=1).fit(X, v)
    KernelLaw(embedding="outputs-spread", random_state=0, n_jobs=1).fit(
        X, v, outputs=blank_outputs(v)
    )
    assert jobs
    assert set(jobs) == {1}
