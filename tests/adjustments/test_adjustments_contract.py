"""What every adjustment keeps: p and T are inverses, and rounding only enlarges."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from localconformal import (
    KernelLaw,
    LearnedLaw,
    MonotoneAdjustment,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    StackedLaw,
    UniformLaw,
)
from localconformal.adjustments import ADJUSTMENTS, make_adjustment
from localconformal.laws import SidedLaw
from localconformal.laws.outputs import Outputs


def additive(v, F, theta):
    return F.quantile(F.level) + theta - v


def multiplicative(v, F, theta):
    return theta * (0.1 + np.abs(F.quantile(F.level))) - v


def theta_quantile(v, F, theta):
    return F.upper_quantile(theta) - v


ALL = {
    **{name: kind() for name, kind in ADJUSTMENTS.items()},
    "own-additive": MonotoneAdjustment(additive),
    "own-multiplicative": MonotoneAdjustment(multiplicative),
    "own-theta": MonotoneAdjustment(theta_quantile),
}
LINE = {"line": LinearRegression()}
BOOSTING = HistGradientBoostingRegressor(max_iter=4, random_state=0)
#: Laws whose support reaches beyond the reference scores, at some rows.
WIDER = {
    "scaled": ScaledLaw(random_state=0, n_jobs=1),
    "response": ResponseLaw(n_jobs=1),
    "learned": LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9), random_state=0, n_jobs=1),
    "shifted": ShiftedLaw(models=LINE, random_state=0, n_jobs=1),
    "stacked": StackedLaw([ResponseLaw(), "uniform"], weights=[3, 1], n_jobs=1),
    "updated": KernelLaw(bandwidth=2.0, engine="sketch", random_state=0),
}
LAWS = {
    "kernel": KernelLaw(bandwidth=0.5, random_state=0),
    "narrow": KernelLaw("boxcar", bandwidth=0.1, min_effective_samples=3, random_state=0),
    "neighbors": NeighborsLaw(n_neighbors=7),
    "uniform": UniformLaw(),
    "knots": StackedLaw(["uniform", NeighborsLaw(n_neighbors=7)], weights=[1, 2]),
    **WIDER,
}
LEVELS = np.array([[0.95, 0.75], [0.9, 0.6]])
N = 10


def local_problem(law, seed, scale=1.0):
    """Reference scores V (n, 2), with ties, and their law at N rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 2))
    v = scale * rng.integers(-8, 9, 80) / 3.0
    V = np.column_stack([-v, v])
    mu = point(X)
    sided = SidedLaw.fit(law, X, V, Outputs(point, mu, mu + v))
    if law is WIDER["updated"]:
        with pytest.warns(UserWarning, match="lie above all those that the sketch was made for"):
            sided.update(X, 3.0 * V)
    return V, sided.at(2.0 * rng.normal(size=(N, 2)))


def point(X):
    """mu(x) of a point model that knows nothing of y."""
    return 3.0 * X[:, 0]


@pytest.fixture(scope="module", params=LAWS)
def problem(request):
    return local_problem(LAWS[request.param], seed=0)


def end_of(F):
    """The largest value of the law at each row: (N, 2)."""
    return F.quantile(np.ones((2, 1)))[:, :, 0]


@pytest.mark.parametrize("name", WIDER)
def test_wider_laws_reach_beyond_the_reference_scores(name):
    V, F = local_problem(WIDER[name], seed=0)
    assert np.any(end_of(F) > V.max(axis=0) + 0.1)


@pytest.fixture(params=ALL)
def adjustment(request, problem):
    return clone(ALL[request.param]).fit(problem[0])


def some_scores(V, seed, scale=1.0):
    """Scores at atoms of the law, between them and beyond them: (N, 2)."""
    rng = np.random.default_rng(seed)
    at_atoms = rng.choice(V[:, 1], (N, 2))
    elsewhere = 3.0 * scale * rng.normal(size=(N, 2))
    return np.where(rng.random((N, 2)) < 0.6, at_atoms, elsewhere)


def test_p_at_most_theta_implies_v_at_most_the_threshold(adjustment, problem):
    V, F = problem
    for seed in range(2):
        v = some_scores(V, seed)
        p = adjustment.score(v, F, LEVELS)
        assert p.shape == (N, 2, 2)
        # Ties: theta is the p of one of the rows, as theta* always is.
        for theta in p[:4]:
            T = adjustment.threshold(theta, F, LEVELS)
            assert T.shape == (N, 2, 2)
            assert np.all((v[:, :, None] <= T)[p <= theta])


def test_no_score_is_lost_between_the_ends_at_them_or_far_beyond(adjustment, problem):
    V, F = problem
    largest, end = V.max(axis=0), end_of(F)
    larger = np.maximum(largest, end)
    between = (largest + end) / 2.0
    narrow = between.astype(np.float32).astype(float)
    # Rows of all kinds together, so that the p of one is the theta of another.
    for v in (between, narrow, larger, np.where(np.arange(N)[:, None] % 2, 1e9 * larger, end)):
        p = adjustment.score(v, F, LEVELS)
        for theta in (p[1], p, np.maximum(p, 1.0)):
            T = adjustment.threshold(theta, F, LEVELS)
            assert np.all((v[:, :, None] <= T)[p <= theta])


def test_v_at_most_the_threshold_implies_p_at_most_theta_up_to_rounding(adjustment, problem):
    V, F = problem
    v = some_scores(V, seed=5)
    p = adjustment.score(v, F, LEVELS)
    for theta in p[:4]:
        T = adjustment.threshold(theta, F, LEVELS)
        assert np.all((p <= theta + 1e-6)[v[:, :, None] <= T - 1e-6])


def test_the_threshold_at_its_own_p_encloses_v(adjustment, problem):
    V, F = problem
    v = some_scores(V, seed=6)
    T = adjustment.threshold(adjustment.score(v, F, LEVELS), F, LEVELS)
    assert np.all(v[:, :, None] <= T)


def test_the_threshold_does_not_decrease_in_theta(adjustment, problem):
    _, F = problem
    grid = np.concatenate([np.linspace(-2, 3, 11), 1 - np.geomspace(1e-2, 1e-14, 5)])
    thetas = np.sort(np.append(grid, np.nextafter(1 - 1e-12, 0)))
    T = [adjustment.threshold(np.full((2, 2), theta), F, LEVELS) for theta in thetas]
    assert np.all(np.array(T[1:]) >= np.array(T[:-1]))


def test_p_does_not_decrease_in_v(adjustment, problem):
    V, F = problem
    grid = np.sort(np.append(np.unique(V[:, 1])[::3], np.linspace(-5, 5, 5)))
    p = np.array([adjustment.score(np.full((N, 2), v), F, LEVELS) for v in grid])
    assert np.all(np.diff(p, axis=0) >= 0)


def test_levels_and_rows_are_answered_as_if_alone(adjustment, problem):
    V, F = problem
    v = some_scores(V, seed=7)
    both = adjustment.score(v, F, LEVELS)
    thresholds = adjustment.threshold(both, F, LEVELS)
    for level in range(2):
        one = LEVELS[:, [level]]
        np.testing.assert_array_equal(adjustment.score(v, F, one), both[:, :, [level]])
        alone = adjustment.threshold(both[:, :, [level]], F, one)
        np.testing.assert_array_equal(alone, thresholds[:, :, [level]])


@pytest.mark.parametrize("scale", [1e8, 1e-8])
@pytest.mark.parametrize("name", ALL)
def test_rounding_enlarges_at_any_scale(name, scale):
    V, F = local_problem(LAWS["kernel"], seed=1, scale=scale)
    fitted = clone(ALL[name]).fit(V)
    for seed in range(3):
        v = some_scores(V, seed, scale)
        T = fitted.threshold(fitted.score(v, F, LEVELS), F, LEVELS)
        assert np.all(v[:, :, None] <= T)


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_names_make_fresh_adjustments_and_objects_are_cloned(name):
    assert type(make_adjustment(name)) is ADJUSTMENTS[name]
    given = ADJUSTMENTS[name]()
    assert make_adjustment(given) is not given
