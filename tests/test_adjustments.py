"""Each adjustment against its formula; the user's own, how its inverses are found."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import localconformal as lc
from inner import fit_adjustment, local_laws

LEVELS = np.array([[0.9, 0.6], [0.8, 0.95]])
N = 20


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(120, 2)), rng.normal(size=120)
    V = np.column_stack([-v, v])
    F = local_laws(lc.KernelLaw(bandwidth=0.5), X, V, rng.normal(size=(N, 2)))
    return V, F, rng.normal(size=(N, 2))


def medians(V):
    return np.median(np.abs(V), axis=0)


#: p = (v - a) / b: name -> (adjustment, (Q, Q below, E v, E |v|, eps) -> a, b).
FORMULAS = {
    "additive": (lc.AdditiveQuantile(), lambda Q, *known: (Q, 1.0)),
    "scaled": (lc.ScaledQuantile(), lambda Q, below, m, s, eps: (Q, eps + Q - below)),
    "multiplicative": (
        lc.MultiplicativeQuantile(),
        lambda Q, below, mean, size, eps: (0.0, eps + np.abs(Q)),
    ),
    "additive-expectation": (lc.AdditiveExpectation(), lambda Q, below, mean, *known: (mean, 1.0)),
    "multiplicative-expectation": (
        lc.MultiplicativeExpectation(),
        lambda Q, below, mean, size, eps: (0.0, eps + size),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_scores_thresholds_and_the_user_s_own_are_the_formula(name, problem):
    V, F, v = problem
    adjustment, formula = FORMULAS[name]
    adjustment, floor = fit_adjustment(adjustment, V), 0.01 if name == "scaled" else 0.001
    eps = floor * medians(V)

    def own(v, F, theta):
        # One side; the scores are symmetric, so that eps is the same for both.
        quantiles = F.quantile(F.level), F.quantile(1 - F.level)
        a, b = formula(*quantiles, F.mean(), F.mean(absolute=True), eps[0])
        return a + b * theta - v

    means = (F.mean(absolute)[:, :, None] for absolute in (False, True))
    a, b = formula(F.quantile(LEVELS), F.quantile(1 - LEVELS), *means, eps[:, None])
    p = np.broadcast_to((v[:, :, None] - a) / b, (N, 2, 2))
    for one in (adjustment, fit_adjustment(lc.MonotoneAdjustment(own), V)):
        np.testing.assert_allclose(one.score(v, F, LEVELS), p, rtol=1e-9, atol=1e-9)
        for theta in (p, p - 0.3, p + 2.0):
            T = one.threshold(theta, F, LEVELS)
            np.testing.assert_allclose(T, a + b * theta, rtol=1e-9, atol=1e-9)


def test_the_theta_quantile_is_the_rank_below_and_finite_beyond_the_support(problem):
    V, F, v = problem
    adjustment = fit_adjustment(lc.ThetaQuantile(), V)
    within = np.clip(v, V.min(axis=0), V.max(axis=0))
    ranks = adjustment.score(within, F, LEVELS)[:, :, 0]
    np.testing.assert_array_equal(ranks, F.cdf(within, side="left"))
    far = V.max(axis=0) + np.abs(v) + 0.1
    p = adjustment.score(far, F, LEVELS)
    np.testing.assert_allclose(p[:, :, 0], 1 + (far - V.max(axis=0)) / medians(V), rtol=1e-9)
    np.testing.assert_allclose(adjustment.threshold(p, F, LEVELS)[:, :, 0], far, rtol=1e-9)
    for theta in (0.0, 0.5, 1 - 1e-9, 1.0, 1.5, 100.0):
        assert np.all(np.isfinite(adjustment.threshold(np.full((2, 2), theta), F, LEVELS)))
    theta = np.array([[0.3, 0.7], [0.05, 0.99]])
    T = adjustment.threshold(theta, F, LEVELS)
    np.testing.assert_array_equal(T, F.upper_quantile(theta))


def test_floors_are_relative_to_the_scores(problem):
    V = problem[0]
    for kind in (lc.MultiplicativeQuantile, lc.MultiplicativeExpectation, lc.ScaledQuantile):
        np.testing.assert_allclose(fit_adjustment(kind(), 8 * V).eps_, 8 * kind.floor * medians(V))
        assert np.all(fit_adjustment(kind(), np.zeros((5, 2))).eps_ > 0)


LAWS = {
    "uniform": lc.UniformLaw(),
    "neighbors": lc.NeighborsLaw(n_neighbors=3),
    "kernel": lc.KernelLaw(bandwidth=0.5, random_state=0),
    "knots": lc.StackedLaw(["uniform", lc.NeighborsLaw(n_neighbors=3)], weights=[1, 2]),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", [1.0, 1.0 - 1e-14, 1.0 - 1e-9, 1e-3])
def test_extreme_levels_stay_finite(law, level):
    V = np.random.default_rng(0).normal(size=(40, 1))
    F = local_laws(LAWS[law], V, V, V[:5])
    adjustment, levels = fit_adjustment(lc.ScaledQuantile(), V), np.array([[level]])
    p = adjustment.score(V[:5], F, levels)
    assert np.all(np.isfinite(p))
    assert np.all(V[:5, :, None] <= adjustment.threshold(p, F, levels))


def test_where_there_is_no_width_the_unit_is_the_floor():
    V = np.random.default_rng(0).normal(size=(40, 1))
    F, low = local_laws(lc.UniformLaw(), V, V, V[:5]), np.array([[0.3]])
    adjustment = fit_adjustment(lc.ScaledQuantile(), V)
    # Below one half the width is never negative.
    expected = (V[:5, :, None] - F.quantile(low)) / adjustment.eps_[0]
    np.testing.assert_allclose(adjustment.score(V[:5], F, low), expected, rtol=1e-12)
    V = np.full((20, 1), 3.0)
    F = local_laws(lc.UniformLaw(), V, V, V[:1])
    p = fit_adjustment(lc.ScaledQuantile(), V).score(np.array([[3.03]]), F, np.array([[0.9]]))
    assert p.item() == pytest.approx(1.0, abs=1e-9)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


@pytest.mark.parametrize("sides", ["joint", "union", "absolute"])
def test_scaled_intervals_adapt_and_scale_with_y(sides):
    (X, y), (Q, _) = rows(300, 0), rows(200, 1)
    settings = {"adjustment": "scaled", "sides": sides, "law": lc.KernelLaw(bandwidth=0.4)}
    model = lc.LocalizedConformalRegressor(LinearRegression(), random_state=0, **settings)
    intervals = model.fit(X, y).predict_interval(Q)
    width, wide = np.ptp(intervals, axis=1), np.abs(Q[:, 1]) > 1.5
    assert width[wide].mean() > 2 * width[np.abs(Q[:, 1]) < 0.4].mean()
    for c in (2.0**-20, 2.0**20):
        scaled = model.fit(X, c * y).predict_interval(Q)
        np.testing.assert_allclose(scaled, c * intervals, rtol=1e-9)
    # Data without noise have intervals without width.
    found = model.fit(X, 2.0 * X[:, 0]).predict_interval(X)
    np.testing.assert_allclose(found, 2.0 * X[:, [0, 0]], atol=1e-9)


def test_infinite_corrections_and_unreachable_scores(problem):
    _, F, v = problem
    plain = lc.MonotoneAdjustment(lambda v, F, theta: theta - v)
    theta = np.array([[np.inf, 1.0], [0.5, np.inf]])
    T = plain.threshold(theta, F, LEVELS)
    assert np.all(T[:, [0, 1], [0, 1]] == np.inf)
    np.testing.assert_allclose(T[:, [0, 1], [1, 0]], [[1.0, 0.5]] * N, rtol=1e-9)
    never = lc.MonotoneAdjustment(lambda v, F, theta: np.full_like(v, -1.0))
    assert np.all(never.score(v, F, LEVELS) == np.inf)
    always = lc.MonotoneAdjustment(lambda v, F, theta: np.full_like(v, 1.0))
    assert np.all(always.threshold(np.zeros((2, 2)), F, LEVELS) == np.inf)


def test_all_of_a_stretch_on_which_m_is_zero_is_accepted(problem):
    _, F, _ = problem
    own = lc.MonotoneAdjustment(lambda v, F, theta: np.floor(theta) - np.ceil(v))
    T = own.threshold(np.full((2, 2), 2.5), F, LEVELS)
    assert np.all(T >= 2.0)
    np.testing.assert_allclose(T, 2.0, rtol=1e-9)
    np.testing.assert_allclose(own.score(np.full((N, 2), 1.5), F, LEVELS), 2.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("m", "message"),
    [
        (3, r"m=3; expected a function m\(v, F, theta\)"),
        (lambda v, F, t: 1.0, r"m\(v, F, theta\) returned .*one number per row"),
        (lambda v, F, t: np.ones((len(v), 1)), r"m\(v, F, theta\) returned .*one number per row"),
        (lambda v, F, t: t + v, r"increases in v or decreases in theta"),
        (lambda v, F, t: np.cos(9 * v) + t - v, r"increases in v or decreases in theta"),
    ],
)
def test_what_is_no_monotone_function_is_refused(m, message, problem):
    V, F, v = problem
    with pytest.raises(ValueError, match=message):
        fit_adjustment(lc.MonotoneAdjustment(m), V).score(v, F, LEVELS)


def test_a_user_s_function_sees_one_side_and_its_level(problem):
    _, local, _ = problem
    seen = set()

    def m(v, F, theta):
        seen.add(F.level)
        np.testing.assert_array_equal(F.mean(), local.mean()[:, int(F.level in LEVELS[1])])
        return theta - v

    lc.MonotoneAdjustment(m).threshold(np.zeros((2, 2)), local, LEVELS)
    assert seen == set(LEVELS.ravel())
