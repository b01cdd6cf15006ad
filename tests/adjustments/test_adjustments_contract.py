"""What every adjustment keeps: p and T are inverses, and rounding only enlarges."""

import numpy as np
import pytest
from sklearn.base import clone

from localconformal import KernelLaw, MonotoneAdjustment, NeighborsLaw, StackedLaw, UniformLaw
from localconformal.adjustments import ADJUSTMENTS, make_adjustment
from localconformal.laws import SidedLaw


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
LAWS = {
    "kernel": KernelLaw(bandwidth=0.5, random_state=0),
    "narrow": KernelLaw("boxcar", bandwidth=0.1, min_effective_samples=3, random_state=0),
    "neighbors": NeighborsLaw(n_neighbors=7),
    "uniform": UniformLaw(),
    "knots": StackedLaw(["uniform", NeighborsLaw(n_neighbors=7)], weights=[1, 2]),
}
LEVELS = np.array([[0.95, 0.75], [0.9, 0.6]])
N = 10


def local_problem(law, seed, scale=1.0):
    """Reference scores V (n, 2), with ties, and their law at N rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 2))
    v = scale * rng.integers(-8, 9, 80) / 3.0
    V = np.column_stack([-v, v])
    return V, SidedLaw.fit(law, X, V, None).at(rng.normal(size=(N, 2)))


@pytest.fixture(scope="module", params=LAWS)
def problem(request):
    return local_problem(LAWS[request.param], seed=0)


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
