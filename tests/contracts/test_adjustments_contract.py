"""What every adjustment keeps: p and T are inverses, and rounding only enlarges."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

import inner
import localconformal as lc
from inner import LAWS as LAWS_BY_NAME
from registry import ci_but

#: The closed forms, and the user's own functions m(v, F, theta).
OWN = {
    "own-additive": lambda v, F, theta: F.quantile(F.level) + theta - v,
    "own-multiplicative": lambda v, F, theta: theta * (0.1 + np.abs(F.quantile(F.level))) - v,
    "own-theta": lambda v, F, theta: F.upper_quantile(theta) - v,
}
ALL = {
    **{name: kind() for name, kind in inner.ADJUSTMENTS.items() if kind is not None},
    **{name: lc.MonotoneAdjustment(m) for name, m in OWN.items()},
}
BOOSTING = HistGradientBoostingRegressor(max_iter=4, random_state=0)
#: Laws whose support reaches beyond the reference scores, at some rows.
WIDER = {
    "scaled": lc.ScaledLaw(random_state=0, n_jobs=1),
    "response": lc.ResponseLaw(n_jobs=1),
    "learned": lc.LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9), random_state=0, n_jobs=1),
    "auto": lc.AutoLaw(effort="low", random_state=0, n_jobs=1),
    "stacked": lc.StackedLaw([lc.ResponseLaw(), "uniform"], weights=[3, 1], n_jobs=1),
}
LAWS = {
    "kernel": lc.KernelLaw(bandwidth=0.5, random_state=0),
    "narrow": lc.KernelLaw("boxcar", bandwidth=0.1, min_effective_samples=3, random_state=0),
    "neighbors": lc.NeighborsLaw(n_neighbors=7),
    "uniform": lc.UniformLaw(),
    "knots": lc.StackedLaw(["uniform", lc.NeighborsLaw(n_neighbors=7)], weights=[1, 2]),
    **WIDER,
}
LEVELS = np.array([[0.95, 0.75], [0.9, 0.6]])
N = 10


def point(X):
    return 3.0 * X[:, 0]


def local_problem(law, seed=0, scale=1.0):
    """Reference scores V (n, 2), with ties, and their law at N rows."""
    rng = np.random.default_rng(seed)
    X, v = rng.normal(size=(80, 2)), scale * rng.integers(-8, 9, 80) / 3.0
    V, asked = np.column_stack([-v, v]), 2.0 * rng.normal(size=(N, 2))
    return V, inner.local_laws(law, X, V, asked, point)


@pytest.fixture(scope="module", params=ci_but(["neighbors", "stacked"], LAWS))
def problem(request):
    V, F = local_problem(LAWS[request.param])
    if request.param in WIDER:
        assert np.any(end_of(F) > V.max(axis=0) + 0.1)
    return V, F, {name: inner.fit_adjustment(clone(one), V) for name, one in ALL.items()}


def end_of(F):
    """The largest value of the law at each row: (N, 2)."""
    return F.quantile(np.ones((2, 1)))[:, :, 0]


def some_scores(V, seed, scale=1.0):
    """Scores at atoms of the law, between them and beyond them: (N, 2)."""
    rng = np.random.default_rng(seed)
    at_atoms, elsewhere = rng.choice(V[:, 1], (N, 2)), 3.0 * scale * rng.normal(size=(N, 2))
    return np.where(rng.random((N, 2)) < 0.6, at_atoms, elsewhere)


def test_p_at_most_theta_exactly_when_v_at_most_the_threshold(problem):
    V, F, adjustments = problem
    for name, adjustment in adjustments.items():
        v = some_scores(V, seed=0)
        p = adjustment.score(v, F, LEVELS)
        assert p.shape == (N, 2, 2)
        # Ties: theta is the p of one of the rows, as theta* always is; or of each row.
        for theta in (*p[:4], p):
            T = adjustment.threshold(theta, F, LEVELS)
            assert np.all((v[:, :, None] <= T)[p <= theta]), name
            assert np.all((p <= theta + 1e-6)[v[:, :, None] <= T - 1e-6]), name


def test_no_score_is_lost_between_the_ends_at_them_or_far_beyond(problem):
    V, F, adjustments = problem
    largest, end = V.max(axis=0), end_of(F)
    larger, between = np.maximum(largest, end), (largest + end) / 2.0
    narrow = between.astype(np.float32).astype(float)
    far = np.where(np.arange(N)[:, None] % 2, 1e9 * larger, end)
    for name, adjustment in adjustments.items():
        # Rows of all kinds together, so that the p of one is the theta of another.
        for v in (between, narrow, larger, far):
            p = adjustment.score(v, F, LEVELS)
            for theta in (p[1], p, np.maximum(p, 1.0)):
                T = adjustment.threshold(theta, F, LEVELS)
                assert np.all((v[:, :, None] <= T)[p <= theta]), name


def test_thresholds_do_not_decrease_in_theta_nor_p_in_v(problem):
    V, F, adjustments = problem
    thetas = [-2.0, 0.0, 0.5, 0.99, 1 - 1e-6, np.nextafter(1 - 1e-12, 0), 1 - 1e-12, 1.0, 3.0]
    scores = np.sort(np.append(np.unique(V[:, 1])[::5], [-5.0, 0.1, 5.0]))
    for name, adjustment in adjustments.items():
        T = np.array([adjustment.threshold(np.full((2, 2), t), F, LEVELS) for t in thetas])
        assert np.all(T[1:] >= T[:-1]), name
        p = np.array([adjustment.score(np.full((N, 2), v), F, LEVELS) for v in scores])
        assert np.all(np.diff(p, axis=0) >= 0), name


def test_levels_are_answered_as_if_alone(problem):
    V, F, adjustments = problem
    v = some_scores(V, seed=7)
    for name, adjustment in adjustments.items():
        both = adjustment.score(v, F, LEVELS)
        thresholds = adjustment.threshold(both, F, LEVELS)
        for level in range(2):
            one, here = LEVELS[:, [level]], both[:, :, [level]]
            np.testing.assert_array_equal(adjustment.score(v, F, one), here, err_msg=name)
            alone = adjustment.threshold(here, F, one)
            np.testing.assert_array_equal(alone, thresholds[:, :, [level]], err_msg=name)


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_rounding_enlarges_at_any_scale(scale):
    V, F = local_problem(LAWS["kernel"], seed=1, scale=scale)
    for name, adjustment in ALL.items():
        fitted, v = inner.fit_adjustment(clone(adjustment), V), some_scores(V, 0, scale)
        T = fitted.threshold(fitted.score(v, F, LEVELS), F, LEVELS)
        assert np.all(v[:, :, None] <= T), name


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (inner.make_adjustment, inner.ADJUSTMENTS),
        (inner.make_law, LAWS_BY_NAME),
        (inner.make_score, inner.SCORES),
    ],
)
def test_names_make_fresh_objects_and_objects_are_cloned(make, kinds):
    for name, kind in kinds.items():
        if kind is None:
            assert make(name) is None
            continue
        assert type(make(name)) is kind
        given = kind()
        assert make(given) is not given
