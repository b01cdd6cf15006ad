"""Each adjustment against its formula, and the user's own against the closed forms."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import (
    AdditiveExpectation,
    AdditiveQuantile,
    KernelLaw,
    LocalizedConformalRegressor,
    MonotoneAdjustment,
    MultiplicativeExpectation,
    MultiplicativeQuantile,
    Plain,
    ScaledQuantile,
    ThetaQuantile,
)
from localconformal.laws import SidedLaw

LEVELS = np.array([[0.9, 0.6], [0.8, 0.95]])
N = 20


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(120, 2)), rng.normal(size=120)
    V = np.column_stack([-v, v])
    F = SidedLaw.fit(KernelLaw(bandwidth=0.5), X, V, None).at(rng.normal(size=(N, 2)))
    return V, F, rng.normal(size=(N, 2))


def medians(V):
    return np.median(np.abs(V), axis=0)


FORMULAS = {
    "plain": (Plain(), lambda v, F, V, Q: v + 0 * Q),
    "additive": (AdditiveQuantile(), lambda v, F, V, Q: v - Q),
    "scaled": (
        ScaledQuantile(floor=0.1),
        lambda v, F, V, Q: (v - Q) / (0.1 * medians(V)[:, None] + Q - F.quantile(1 - LEVELS)),
    ),
    "multiplicative": (
        MultiplicativeQuantile(floor=0.1),
        lambda v, F, V, Q: v / (0.1 * medians(V)[:, None] + np.abs(Q)),
    ),
    "additive-expectation": (
        AdditiveExpectation(),
        lambda v, F, V, Q: v - F.mean()[:, :, None] + 0 * Q,
    ),
    "multiplicative-expectation": (
        MultiplicativeExpectation(floor=0.1),
        lambda v, F, V, Q: v / (0.1 * medians(V) + F.mean(absolute=True))[:, :, None] + 0 * Q,
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_scores_are_their_formulas_and_thresholds_their_inverses(name, problem):
    V, F, v = problem
    adjustment, formula = FORMULAS[name]
    expected = formula(v[:, :, None], F, V, F.quantile(LEVELS))
    got = adjustment.fit(V).score(v, F, LEVELS)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    T = adjustment.threshold(expected, F, LEVELS)
    np.testing.assert_allclose(T, np.repeat(v[:, :, None], 2, axis=2), rtol=1e-9, atol=1e-9)


def test_the_theta_quantile_is_the_rank_below_and_finite_beyond_the_support(problem):
    V, F, v = problem
    adjustment = ThetaQuantile().fit(V)
    within = np.clip(v, V.min(axis=0), V.max(axis=0))
    np.testing.assert_array_equal(
        adjustment.score(within, F, LEVELS)[:, :, 0], F.cdf(within, side="left")
    )
    far = V.max(axis=0) + np.abs(v) + 0.1
    p = adjustment.score(far, F, LEVELS)
    np.testing.assert_allclose(p[:, :, 0], 1 + (far - V.max(axis=0)) / medians(V), rtol=1e-9)
    np.testing.assert_allclose(adjustment.threshold(p, F, LEVELS)[:, :, 0], far, rtol=1e-9)
    for theta in (0.0, 0.5, 1 - 1e-9, 1.0, 1.5, 100.0):
        assert np.all(np.isfinite(adjustment.threshold(np.full((2, 2), theta), F, LEVELS)))


def test_theta_below_one_is_the_upper_quantile(problem):
    V, F, _ = problem
    theta = np.array([[0.3, 0.7], [0.05, 0.99]])
    got = ThetaQuantile().fit(V).threshold(theta, F, LEVELS)
    np.testing.assert_array_equal(got, F.upper_quantile(theta))


def test_floors_are_relative_to_the_scores_and_must_be_positive(problem):
    V = problem[0]
    for kind in (MultiplicativeQuantile, MultiplicativeExpectation, ScaledQuantile):
        np.testing.assert_allclose(kind(floor=0.2).fit(8 * V).eps_, 8 * 0.2 * medians(V))
        assert np.all(kind().fit(np.zeros((5, 2))).eps_ > 0)
        for floor in (0.0, -1.0, float("nan")):
            with pytest.raises(ValueError, match=r"floor is .*positive"):
                kind(floor=floor).fit(V)


def multiplicative_by_hand(eps):
    return lambda v, F, theta: theta * (eps + np.abs(F.quantile(F.level))) - v


def scaled_by_hand(eps):
    def m(v, F, theta):
        quantile, below = F.quantile(F.level), F.quantile(1 - F.level)
        return quantile + theta * (eps + quantile - below) - v

    return m


def by_hand(V):
    """(closed form, the same as a user's m), for symmetric scores V."""
    eps = 0.001 * medians(V)[0]
    return {
        "plain": (Plain(), lambda v, F, theta: theta - v),
        "additive": (AdditiveQuantile(), lambda v, F, theta: F.quantile(F.level) + theta - v),
        "scaled": (ScaledQuantile(floor=0.001), scaled_by_hand(eps)),
        "multiplicative": (MultiplicativeQuantile(), multiplicative_by_hand(eps)),
        "additive-expectation": (AdditiveExpectation(), lambda v, F, t: F.mean() + t - v),
        "multiplicative-expectation": (
            MultiplicativeExpectation(),
            lambda v, F, theta: theta * (eps + F.mean(absolute=True)) - v,
        ),
    }


@pytest.mark.parametrize("name", FORMULAS)
def test_the_user_s_own_adjustment_agrees_with_the_closed_form(name, problem):
    V, F, v = problem
    closed, m = by_hand(V)[name]
    closed, own = closed.fit(V), MonotoneAdjustment(m).fit(V)
    p = closed.score(v, F, LEVELS)
    np.testing.assert_allclose(own.score(v, F, LEVELS), p, rtol=1e-9, atol=1e-9)
    for theta in (p, p - 0.3, p + 2.0):
        expected = closed.threshold(theta, F, LEVELS)
        np.testing.assert_allclose(own.threshold(theta, F, LEVELS), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "m",
    [
        lambda v, F, theta: F.upper_quantile(theta) - v,
        lambda v, F, theta: theta - F.cdf(v, side="left"),
    ],
    ids=["by-quantile", "by-cdf"],
)
def test_two_ways_to_write_the_theta_quantile_agree_with_it_inside_the_support(m, problem):
    V, F, _ = problem
    v = np.random.default_rng(3).choice(V[:, 1], (N, 2))
    closed, own = ThetaQuantile().fit(V), MonotoneAdjustment(m).fit(V)
    p = closed.score(v, F, LEVELS)
    inside = (p > 1e-6) & (p < 1 - 1e-6)
    np.testing.assert_allclose(own.score(v, F, LEVELS)[inside], p[inside], rtol=0, atol=1e-9)
    theta = np.clip(p, 0.01, 0.99) + 1e-7
    np.testing.assert_allclose(
        own.threshold(theta, F, LEVELS), closed.threshold(theta, F, LEVELS), atol=1e-8
    )


def test_infinite_corrections_and_unreachable_scores():
    F = SidedLaw.fit(KernelLaw(), np.zeros((5, 1)), np.zeros((5, 1)), None).at(np.zeros((3, 1)))
    one = np.array([[0.9]])
    plain = MonotoneAdjustment(lambda v, F, theta: theta - v)
    assert np.all(plain.threshold(np.full((1, 1), np.inf), F, one) == np.inf)
    never = MonotoneAdjustment(lambda v, F, theta: np.full_like(v, -1.0))
    assert np.all(never.score(np.zeros((3, 1)), F, one) == np.inf)
    always = MonotoneAdjustment(lambda v, F, theta: np.full_like(v, 1.0))
    assert np.all(always.threshold(np.zeros((1, 1)), F, one) == np.inf)


@pytest.mark.parametrize("sides", ["joint", "union"])
def test_signed_additive_expectation_has_constant_width(sides):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 1))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 0]) * rng.normal(size=300)
    model = LocalizedConformalRegressor(
        LinearRegression(),
        law=KernelLaw(bandwidth=0.2),
        adjustment="additive-expectation",
        reference="train",
        sides=sides,
        random_state=0,
    ).fit(X, y)
    lower, upper = model.predict_interval(X).T
    np.testing.assert_allclose(upper - lower, (upper - lower)[0], rtol=1e-9)
    # The centre moves: it corrects the bias of the straight line.
    assert np.std((lower + upper) / 2 - model.predict(X)) > 0.1


def test_a_negative_mean_size_leaves_p_rising_in_v(problem, monkeypatch):
    """A sketch may answer so, where its landmarks are few."""
    V, F, _ = problem
    monkeypatch.setattr(type(F), "mean", lambda self, absolute=False: np.full((N, 2), -5.0))
    adjustment = MultiplicativeExpectation().fit(V)
    low, high = (adjustment.score(np.full((N, 2), v), F, LEVELS) for v in (1.0, 2.0))
    assert np.all(low < high)
