"""LCP, RLCP and LVD, which weigh calibration rows: definitions, limits, promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import localconformal as lc
from inner import DRAWS, drawn_centres, embedded
from localconformal.metrics import coverage
from localconformal.quantiles import conformal_rank, weighted_conformal_quantile
from registry import awkward_data, ci_but, smooth_data

# Infinite intervals are part of these methods.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
X_NEW = awkward_data(40, seed=9)[0]
#: K of a squared distance in units of the bandwidth.
PROFILES = {
    "gaussian": lambda u2: np.exp(-0.5 * u2),
    "boxcar": lambda u2: (u2 <= 1.0) * 1.0,
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}
KERNELS = pytest.mark.parametrize("kernel", PROFILES)
LAWS = [
    lc.KernelLaw(bandwidth=0.7),
    lc.KernelLaw("boxcar", bandwidth=1.0),
    lc.KernelLaw("epanechnikov", bandwidth=1.5),
    lc.ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1),
    lc.UniformLaw(),
]


def local(cls, law=None, **params):
    return cls(LinearRegression(), law=law, **{"random_state": 0, **params})


@pytest.mark.parametrize("data", [awkward_data, smooth_data])
@pytest.mark.parametrize(
    ("cls", "law"),
    [
        *((lc.RLCPRegressor, lc.KernelLaw(kernel, bandwidth=np.inf)) for kernel in PROFILES),
        *((lc.LVDRegressor, lc.KernelLaw(kernel, bandwidth=np.inf)) for kernel in PROFILES),
        (lc.LCPRegressor, lc.KernelLaw(bandwidth=np.inf)),
        (lc.LCPRegressor, lc.UniformLaw()),
        (lc.LVDRegressor, lc.UniformLaw()),
    ],
)
def test_no_localization_is_split_conformal(cls, law, data):
    X, y = data(300, seed=0)
    levels = [0.05, 0.5, 0.9, 0.95]
    split = lc.SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    found = local(cls, law).fit(X, y).predict_interval(X_NEW, levels)
    np.testing.assert_array_equal(found, split.predict_interval(X_NEW, levels))


@pytest.mark.parametrize(
    ("cls", "law", "told"),
    [
        (lc.LCPRegressor, "learned", "no kernel between two rows"),
        (lc.LVDRegressor, "neighbors", "no kernel between two rows"),
        (lc.RLCPRegressor, "forest", "expected a KernelLaw with a kernel that can be"),
        (lc.RLCPRegressor, lc.UniformLaw(), "expected a KernelLaw with a kernel that can be"),
    ],
)
def test_laws_without_the_kernel_that_is_needed_are_refused(cls, law, told):
    with pytest.raises(ValueError, match=told):
        local(cls, law).fit(*smooth_data(60, seed=0))


@pytest.mark.parametrize("cls", [lc.LCPRegressor, lc.LVDRegressor])
def test_far_away_is_infinite_and_told(cls):
    model = local(cls, lc.KernelLaw(bandwidth=0.5)).fit(*smooth_data(400, seed=0))
    far = np.array([[0.0, 0.0], [1e4, 0.0]])
    with pytest.warns(UserWarning, match=r"1 of 2 intervals are infinite.*0\.9"):
        intervals = model.predict_interval(far)
    assert np.isfinite(intervals[0]).all()
    np.testing.assert_array_equal(intervals[1], [-np.inf, np.inf])
    frame = model.diagnose(far)
    assert frame["infinite"].tolist() == [False, True]
    assert frame["effective_sample_size"][0] > 5.0
    assert frame["effective_sample_size"][1] < 1e-9


def kernel_by_hand(law, X, rows):
    """H (m, m) between rows, for a law of reference rows X."""
    squared = cdist(rows / X.std(axis=0), rows / X.std(axis=0), "sqeuclidean")
    return PROFILES[law.kernel](squared / law.bandwidth**2)


@pytest.mark.parametrize("law", LAWS[:3], ids=str)
def test_lcp_follows_its_definition(law):
    """Ranks of all rows with the new one among them, tried at scores between neighbours."""
    (X, y), (X_cal, y_cal) = smooth_data(120, seed=0), awkward_data(30, seed=1)
    model = local(lc.LCPRegressor, law, calibration_size=None).fit(X, y).conformalize(X_cal, y_cal)
    scores = np.abs(y_cal - model.predict(X_cal))
    level, allowed = 0.8, conformal_rank(30, 0.8) - 1
    threshold = model.diagnose(X_NEW[:8], confidence_level=level)["correction"]
    ends = np.append(np.unique(scores), np.inf)
    starts = np.append(ends[0] - 1.0, ends[:-1])
    for x, answer in zip(X_NEW[:8], threshold, strict=True):
        H, accepted = kernel_by_hand(law, X, np.vstack([X_cal, x])), []
        for start, end in zip(starts, ends, strict=True):
            V = np.append(scores, start + 1.0 if np.isinf(end) else (start + end) / 2.0)
            rank = (H * (V[None, :] < V[:, None])).sum(axis=1) / H.sum(axis=1)
            if np.sum(rank[:-1] < rank[-1] * (1.0 - 1e-12)) <= allowed:
                accepted.append(end)
        np.testing.assert_allclose(answer, max(accepted), rtol=1e-12)


@pytest.mark.parametrize("law", ci_but(LAWS[:1], LAWS), ids=str)
def test_permuting_a_calibration_row_with_the_new_one_keeps_the_promise(law):
    """Leave one out of n + 1 rows: at least k of them lie in their own interval, always."""
    X, y = awkward_data(31, seed=6)
    model = local(lc.LCPRegressor, law, calibration_size=None).fit(*awkward_data(150, seed=7))
    covered = 0
    for i in range(31):
        rest = np.arange(31) != i
        model.conformalize(X[rest], y[rest])
        covered += coverage(y[i : i + 1], model.predict_interval(X[i : i + 1]))
    assert covered >= conformal_rank(30, 0.9)


@KERNELS
def test_rlcp_follows_its_formula(kernel):
    (X, y), (X_cal, y_cal) = smooth_data(250, seed=1), smooth_data(80, seed=2)
    new, law = smooth_data(60, seed=3)[0], lc.KernelLaw(kernel, bandwidth=0.8)
    model = local(lc.RLCPRegressor, law, calibration_size=None).fit(X, y).conformalize(X_cal, y_cal)
    scores, half = np.abs(y_cal - model.predict(X_cal)), []
    points, scale = embedded(model, new), X.std(axis=0)
    for x, point, centre in zip(new, points, drawn_centres(model, new), strict=True):
        # The centre in units of the columns, and the rows around it.
        away = (X_cal - x) / scale - (centre - point)
        weights = PROFILES[kernel]((away**2).sum(axis=1) / 0.8**2)
        own = PROFILES[kernel](((point - centre) ** 2).sum() / 0.8**2)
        half.append(weighted_conformal_quantile(scores, weights, own, 0.9))
    mu = model.predict(new)
    np.testing.assert_allclose(
        model.predict_interval(new), np.stack([mu - half, mu + half], axis=1)
    )


@KERNELS
def test_draws_belong_to_the_row_and_the_seed_not_to_batch_or_level(kernel):
    (X, y), law = awkward_data(300, seed=0), lc.KernelLaw(kernel, bandwidth=0.5)
    model = local(lc.RLCPRegressor, law).fit(X, y)
    several = model.predict_interval(X_NEW, [0.5, 0.8])
    np.testing.assert_array_equal(several, model.predict_interval(X_NEW, [0.5, 0.8]))
    np.testing.assert_array_equal(several[:, :, 0], model.predict_interval(X_NEW, 0.5))
    alone = [drawn_centres(model, row[None]) for row in X_NEW]
    np.testing.assert_array_equal(drawn_centres(model, X_NEW), np.concatenate(alone))
    other = local(lc.RLCPRegressor, law, random_state=1).fit(X, y)
    assert not np.isclose(drawn_centres(model, X_NEW), drawn_centres(other, X_NEW)).any()
    extreme = np.array([[0.0, -0.0, 1e50], [-1e50, 1e-300, 5e-324]])
    assert np.isfinite(DRAWS[kernel](0, extreme)).all()


def test_a_model_s_last_bits_do_not_change_the_draw():
    """Predictions of a linear model differ in them from batch to batch."""
    X, y = smooth_data(300, seed=0, d=9)
    law = lc.KernelLaw(bandwidth=0.5, embedding="outputs")
    model = local(lc.RLCPRegressor, law).fit(X, y)
    alone = np.concatenate([model.predict_interval(row[None]) for row in X[:50]])
    np.testing.assert_allclose(model.predict_interval(X)[:50], alone, rtol=1e-12, atol=1e-12)


def test_many_dimensions_do_not_underflow():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2000))
    model = lc.RLCPRegressor(DummyRegressor(), law=lc.KernelLaw(bandwidth=200.0), random_state=0)
    # |x~ - x|^2 / h^2 is about 2000: exp(-1000) is 0 for the new row and all others.
    assert np.isfinite(model.fit(X, rng.normal(size=100)).predict_interval(X)).all()


GRID = np.arange(20_000.0)[:, None]
ROWS = [np.random.default_rng(0).normal(size=(20_000, 3)), GRID, GRID / 1024.0]


@pytest.mark.parametrize("rows", [*ROWS, np.hstack([GRID % 141, GRID // 141])])
def test_draws_are_normal_unrelated_and_irregular_for_regular_rows(rows):
    made = DRAWS["gaussian"](3, rows)
    np.testing.assert_array_equal(DRAWS["gaussian"](3, np.asfortranarray(rows)), made)
    for column in made.T:
        assert kstest(column, "norm").pvalue > 1e-4
        assert len(np.unique(column)) == len(rows)
    # Draws of other seeds, of the row before and the rows themselves say nothing of each other.
    others = np.column_stack([made[1:], made[:-1], DRAWS["gaussian"](4, rows)[1:]])
    apart = np.eye(others.shape[1])
    assert np.abs(np.corrcoef(others, rowvar=False) - apart).max() < 5.0 / np.sqrt(len(rows))
    k = made.shape[1]
    with_rows = np.corrcoef(made, rows, rowvar=False)[:k, k:]
    assert np.abs(with_rows).max() < 5.0 / np.sqrt(len(rows))


@pytest.mark.parametrize("k", [1, 3])
def test_draws_have_the_density_of_the_kernel(k):
    points = np.random.default_rng(0).normal(size=(4_000, k))
    radius = {name: np.linalg.norm(DRAWS[name](1, points), axis=1) for name in PROFILES}
    assert kstest(radius["boxcar"] ** k, "uniform").pvalue > 1e-3
    assert kstest(radius["epanechnikov"] ** 2, "beta", (k / 2, 2)).pvalue > 1e-3
    for name in PROFILES:
        made = DRAWS[name](1, points)
        assert np.all(np.abs(np.mean(np.sign(made), axis=0)) < 0.06)
        # The last bits of a row do not change its draw, the others do.
        np.testing.assert_array_equal(made, DRAWS[name](1, points * (1.0 + 1e-14)))
        assert not np.isclose(made, DRAWS[name](1, points * (1.0 + 1e-7))).all()


class Spread:
    def predict(self, X):
        return 0.2 + np.abs(np.asarray(X)[:, 0])


@pytest.mark.parametrize("score", ["residual", "absolute", lc.NormalisedScore(Spread(), beta=0.0)])
def test_lvd_follows_its_formula(score):
    (X, y), (X_cal, y_cal) = smooth_data(500, seed=1), smooth_data(200, seed=2)
    new = smooth_data(50, seed=3)[0]
    model = local(lc.LVDRegressor, conformity_score=score, calibration_size=None).fit(X, y)
    model.conformalize(X_cal, y_cal)
    unit = Spread().predict if isinstance(score, lc.NormalisedScore) else lambda X: np.ones(len(X))
    points = lc.LearnedMetric().fit(X, y).transform
    K = np.exp(-cdist(points(new), points(X_cal), "sqeuclidean") / 2)
    scores = np.abs(y_cal - model.predict(X_cal)) / unit(X_cal)
    half = weighted_conformal_quantile(scores, K, np.ones(50), 0.9)
    bounds = model.predict(new)[:, None] + np.array([-1.0, 1.0]) * (half * unit(new))[:, None]
    np.testing.assert_allclose(model.predict_interval(new), bounds, rtol=1e-6)
    np.testing.assert_array_equal(np.isinf(half), 1.0 / (1.0 + K.sum(axis=1)) > 0.1)
