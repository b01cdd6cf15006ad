"""Several laws averaged: weights on the simplex that are earned, quantiles that are averages."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from localconformal import (
    ForestLaw,
    KernelLaw,
    LocalizedConformalRegressor,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    StackedLaw,
    UniformLaw,
)
from localconformal.laws.crossfit import held_out_quantiles, make_folds
from localconformal.laws.knots import GRID, knots_of
from localconformal.laws.outputs import Outputs, blank_outputs
from localconformal.laws.simplex import ENTROPY, pinball, prune, simplex_weights
from localconformal.laws.stacked import check_weights
from registry import smooth_data

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


def test_a_uniform_truth_is_left_to_the_uniform_law_and_memory_earns_nothing():
    """The neighbour of a row, when it is the row itself, knows its score."""
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(200, 2)), rng.normal(size=200)
    law = StackedLaw([NeighborsLaw(n_neighbors=1), "uniform"], random_state=0).fit(X, v)
    assert law.losses_[0] > 1.5 * law.losses_[1]
    assert law.weights_[1] > 0.8


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


def test_a_law_without_weight_is_not_kept_and_too_few_rows_share_the_weight():
    law = StackedLaw(["uniform", "neighbors", "kernel"], weights=[0, 3, 0]).fit(*rows(60, 0))
    (inner,) = law.laws_
    assert isinstance(inner, NeighborsLaw)
    law = StackedLaw(["uniform", "kernel"], random_state=0).fit(*rows(60, 0)).fit(*rows(5, 0))
    np.testing.assert_array_equal(law.weights_, 0.5)
    assert not hasattr(law, "losses_")


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


def test_a_law_from_elsewhere_and_leaves_of_a_fitted_forest_can_be_members():
    X, v = rows(100, 0)
    law = StackedLaw([Foreign(), "uniform"], random_state=0).fit(X, v)
    np.testing.assert_allclose(law.weights_, 0.5, atol=1e-9)
    forest = FrozenEstimator(RandomForestRegressor(5, min_samples_leaf=10).fit(X, np.abs(v)))
    law = StackedLaw([ForestLaw(forest), "uniform"], random_state=0).fit(X, v)
    assert law.weights_.sum() == pytest.approx(1.0)


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


def test_it_adapts_inside_a_regressor():
    X, v = rows(200, 0, d=2)
    law = StackedLaw(["uniform", NeighborsLaw(n_neighbors=30)])
    model = LocalizedConformalRegressor(LinearRegression(), law=law, random_state=0)
    length = np.ptp(model.fit(X, X[:, 0] + v).predict_interval(X, 0.8), axis=1)
    assert np.median(length[X[:, 0] > 0.5]) > 2 * np.median(length[X[:, 0] <= 0.5])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(({"laws": laws}, r"was expected\.$") for laws in ([], "kernel", (), 3)),
        *(({"n_folds": n_folds}, r"was expected\.$") for n_folds in (1, 2.5)),
        *(
            ({"laws": ["uniform", "kernel"], "weights": weights}, "for 2 laws; one finite number")
            for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1, 1, 1])
        ),
    ],
)
def test_stacks_of_nothing_and_bad_weights_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        StackedLaw(**params).fit(*rows(20, 0))


def test_the_number_of_threads_reaches_every_forest(monkeypatch):
    """Also the forests of the spread, grown anew without each fold."""
    jobs, grow = [], RandomForestRegressor.fit

    def fit(self, X, y):
        jobs.append(self.n_jobs)
        return grow(self.set_params(n_estimators=5), X, y)

    monkeypatch.setattr(RandomForestRegressor, "fit", fit)
    X, v = smooth_data(60, seed=0)
    for law in (
        StackedLaw([ScaledLaw(), "forest"], n_folds=2),
        ScaledLaw(ForestLaw()),
        KernelLaw(embedding="outputs-spread"),
    ):
        law.set_params(random_state=0, n_jobs=1).fit(X, v, outputs=blank_outputs(v))
        assert set(jobs) == {1}
        jobs.clear()


def test_knots_of_a_law_are_finite_and_its_quantiles():
    X = np.zeros((9, 1))
    law = UniformLaw().fit(X, np.arange(9.0))
    knots = knots_of(law, X[:2])
    assert knots.values[0, 0] == 0.0
    np.testing.assert_array_equal(knots.values[:, 1:], law.quantile(X[:2], GRID[1:]))
    assert [(one.weight, one.engine) for one in knots.behind] == [(1.0, law.engine_)]


def test_held_out_quantiles_are_those_of_the_other_rows():
    X, v = np.zeros((11, 1)), np.arange(11.0)
    folds = make_folds(X, v, blank_outputs(v), 3, seed=0, n_jobs=1)
    assert sorted(np.concatenate([fold.rows for fold in folds])) == list(range(11))
    announced = []
    levels = np.array([0.2, 0.9])
    laws = {"all": UniformLaw(), "again": UniformLaw()}
    found = held_out_quantiles(laws, folds, levels, 1, announced.append)
    assert announced == ["all", "again"]
    for fold in folds:
        rest = np.setdiff1d(np.arange(11), fold.rows)
        expected = UniformLaw().fit(X[rest], v[rest]).quantile(X[:1], levels)[0]
        assert np.all(found["all"][fold.rows] == expected)
        np.testing.assert_array_equal(fold.v_rest, v[rest])


# ---- weights on the simplex -------------------------------------------------------------------

LEVELS = np.array([0.1, 0.9])


def problem(seed, n=150, candidates=4):
    """Candidates of various quality: (K, n, L) and the target (n,)."""
    rng = np.random.default_rng(seed)
    centre, target = rng.normal(size=n), rng.normal(size=n)
    target = target + centre
    noise = rng.normal(size=(candidates, n, 2)) * np.linspace(0.1, 3.0, candidates)[:, None, None]
    return centre[:, None] + np.array([-1.3, 1.3]) + noise, target


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_on_the_simplex_and_as_good_as_the_best(seed):
    table, target = problem(seed)
    weights = simplex_weights(table, target, LEVELS)
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1.0)
    loss = pinball(np.tensordot(weights, table, axes=1), target, LEVELS)
    best = pinball(table, target, LEVELS).min()
    # A vertex costs nothing in entropy, and spreading can earn log K at most.
    allowed = min(ENTROPY / len(target), 0.3) * np.log(len(table))
    assert loss <= best * (1.0 + allowed) + 1e-9


def test_neither_order_nor_unit_nor_a_wild_candidate_matters():
    table, target = problem(0)
    weights, order = simplex_weights(table, target, LEVELS), np.array([2, 0, 3, 1])
    permuted = simplex_weights(table[order], target, LEVELS)
    np.testing.assert_allclose(permuted, weights[order], atol=1e-6)
    wild = np.concatenate([table, np.full_like(table[:1], 1e12)])
    np.testing.assert_array_equal(simplex_weights(wild, target, LEVELS), [*weights, 0.0])
    # Also when one is perfect.
    perfect = table.copy()
    perfect[1] = target[:, None]
    assert simplex_weights(perfect, target, LEVELS)[1] > 0.95
    for scale in (2.0**-40, 2.0**40):
        for one in (table, perfect):
            scaled = simplex_weights(scale * one, scale * target, LEVELS)
            np.testing.assert_array_equal(scaled, simplex_weights(one, target, LEVELS))


def test_the_pinball_loss_and_pruned_weights_by_hand():
    found = pinball(np.array([[1.0, 1.0], [0.0, 4.0]]), np.array([2.0, 2.0]), LEVELS)
    assert found == pytest.approx((0.1 * 1 + 0.1 * 2) / 2 + (0.9 * 1 + 0.1 * 2) / 2)
    np.testing.assert_allclose(check_weights([1, 0, 3], 3), [0.25, 0.0, 0.75])
    # Small ones are left out, but never all.
    for given, left in (
        ([0.5, 0.04, 0.46], [0.5 / 0.96, 0, 0.46 / 0.96]),
        ([0.05, 0.95], [0.05, 0.95]),
        ([0.01] * 4, [0.25] * 4),
    ):
        np.testing.assert_allclose(prune(np.array(given), 0.05), left)


def test_equal_candidates_share_and_errors_average_out():
    table, target = problem(0)
    same = np.repeat(table[:1], 5, axis=0)
    np.testing.assert_allclose(simplex_weights(same, target, LEVELS), 0.2)
    exact = np.zeros((3, 10, 2))
    np.testing.assert_allclose(simplex_weights(exact, np.zeros(10), LEVELS), 1 / 3)
    np.testing.assert_array_equal(simplex_weights(table[:1], target, LEVELS), [1.0])
    # Two errors that cancel are better than either candidate.
    sign = np.resize([1.0, -1.0], len(target))[:, None]
    pair = np.stack([target[:, None] + sign, target[:, None] - sign])
    np.testing.assert_allclose(simplex_weights(pair, target, np.array([0.5])), 0.5, atol=0.05)


@pytest.mark.parametrize("offsets", [(1.0, 1.05, -1.0), (-1.0, -1.02, 1.05)])
def test_the_loss_is_hardly_above_that_of_the_best_weights_on_a_grid(offsets):
    rng, median = np.random.default_rng(0), np.array([0.5])
    target = rng.normal(size=2_000)
    errors = np.stack([offset + rng.normal(size=2_000) for offset in offsets])
    predictions = (target + errors)[:, :, None]

    def loss(weights):
        return pinball(np.tensordot(weights, predictions, axes=1), target, median)

    shares = np.linspace(0.0, 1.0, 11)
    best = min(loss([a, b, 1.0 - a - b]) for a in shares for b in shares if a + b <= 1.0)
    # Equal weights, where the descent starts, are worse by a tenth.
    assert loss(np.full(3, 1 / 3)) > 1.08 * best
    assert loss(simplex_weights(predictions, target, median)) < 1.03 * best
