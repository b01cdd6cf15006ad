"""LCP, RLCP and LVD, which weigh calibration rows: definitions, limits, promises, bandwidths."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import beta, kstest, norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neural_network import MLPRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    LCPRegressor,
    LearnedLaw,
    LVDRegressor,
    NeighborsLaw,
    NormalisedScore,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.laws.bandwidth import BandwidthProblem
from localconformal.laws.effective_bandwidth import EffectiveSize, effective_size
from localconformal.laws.finite_bandwidth import FiniteThresholds, make_trial
from localconformal.laws.layers import HiddenLayer
from localconformal.laws.metric import LearnedMetric
from localconformal.laws.noise import DRAWS, draw, uniforms
from localconformal.metrics import coverage, coverage_band
from localconformal.quantiles import conformal_rank, weighted_conformal_quantile
from localconformal.regressors.rlcp import REACHED, RLCPRegressor
from registry import awkward_data, ci_but, smooth_data

X_NEW = awkward_data(40, seed=9)[0]
KERNELS = pytest.mark.parametrize("kernel", DRAWS)
PROFILES = {
    "gaussian": lambda u2: np.exp(-0.5 * u2),
    "boxcar": lambda u2: (u2 <= 1.0) * 1.0,
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}
LAWS = [
    KernelLaw(bandwidth=0.7),
    KernelLaw("boxcar", bandwidth=1.0),
    KernelLaw("epanechnikov", bandwidth=1.5),
    NeighborsLaw(n_neighbors=40),
    ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1),
    UniformLaw(),
]


def local(cls, law=None, **params):
    return cls(LinearRegression(), law=law, **{"random_state": 0, **params})


def kernel_law(kernel="gaussian", bandwidth=0.5, **params):
    return KernelLaw(kernel, bandwidth=bandwidth, engine="reference", **params)


def quietly(model, X, level=None):
    """Intervals, of which some are infinite: part of these methods."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.predict_interval(X, level)


# ---- what they share -------------------------------------------------------------------------


@pytest.mark.parametrize("data", [awkward_data, smooth_data])
@pytest.mark.parametrize(
    ("cls", "law"),
    [
        *((cls, kernel_law(k, np.inf)) for cls in (RLCPRegressor, LVDRegressor) for k in DRAWS),
        (LCPRegressor, KernelLaw(bandwidth=np.inf)),
        (LCPRegressor, UniformLaw()),
        (LVDRegressor, UniformLaw()),
    ],
)
def test_no_localization_is_split_conformal(cls, law, data):
    X, y = data(300, seed=0)
    levels = [0.05, 0.5, 0.9, 0.95]
    split = local_split().fit(X, y)
    np.testing.assert_array_equal(
        local(cls, law).fit(X, y).predict_interval(X_NEW, levels),
        split.predict_interval(X_NEW, levels),
    )


def local_split():
    return SplitConformalRegressor(LinearRegression(), random_state=0)


@pytest.mark.parametrize(
    ("cls", "law", "told"),
    [
        (LCPRegressor, "learned", "no kernel between two rows"),
        (LCPRegressor, LearnedLaw(), "no kernel between two rows"),
        *(
            (RLCPRegressor, law, "a KernelLaw was expected, with a kernel from which")
            for law in ("forest", UniformLaw(), NeighborsLaw(), ForestLaw())
        ),
    ],
)
def test_laws_without_the_kernel_that_is_needed_are_refused(cls, law, told):
    with pytest.raises(ValueError, match=told):
        local(cls, law).fit(*smooth_data(60, seed=0))


@pytest.mark.parametrize(
    ("cls", "valid", "words"),
    [
        (LCPRegressor, True, ["infinite where few"]),
        (RLCPRegressor, True, ["randomised", "given the drawn centre"]),
        (
            LVDRegressor,
            False,
            ["No coverage level is guaranteed.", "fixed in advance", "too high", "infinite"],
        ),
    ],
)
def test_promises(cls, valid, words):
    promise = local(cls).fit(*smooth_data(300, seed=0)).guarantee_
    assert (promise.marginal, promise.finite_sample) == (valid, valid)
    for word in words:
        assert word in str(promise)


@pytest.mark.parametrize("cls", [LCPRegressor, LVDRegressor])
def test_far_away_is_infinite_and_told(cls):
    model = local(cls, kernel_law()).fit(*smooth_data(400, seed=0))
    far = np.array([[0.0, 0.0], [1e4, 0.0]])
    with pytest.warns(UserWarning, match=r"1 of 2 intervals are infinite.*0\.9"):
        intervals = model.predict_interval(far)
    assert np.isfinite(intervals[0]).all()
    np.testing.assert_array_equal(intervals[1], [-np.inf, np.inf])
    frame = model.diagnose(far)
    assert frame["infinite"].tolist() == [False, True]
    assert frame["effective_sample_size"][0] > 5.0
    assert frame["effective_sample_size"][1] < 1e-9


# ---- LCP -------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_lcp_follows_its_definition(law):
    """Ranks of all rows with the new one among them, tried at scores between neighbours."""
    X_cal, y_cal = awkward_data(30, seed=1)
    model = local(LCPRegressor, law, calibration_size=None).fit(*smooth_data(120, seed=0))
    model.conformalize(X_cal, y_cal)
    scores = np.abs(y_cal - model.predict(X_cal))
    level, allowed = 0.8, conformal_rank(30, 0.8) - 1
    threshold = model.diagnose(X_NEW[:8], confidence_level=level)["correction"]
    ends = np.append(np.unique(scores), np.inf)
    starts = np.append(ends[0] - 1.0, ends[:-1])
    for x, answer in zip(X_NEW[:8], threshold, strict=True):
        everyone = model.localizer_.view(np.vstack([X_cal, x]))
        H = model.localizer_(everyone, everyone)
        accepted = []
        for start, end in zip(starts, ends, strict=True):
            V = np.append(scores, start + 1.0 if np.isinf(end) else (start + end) / 2.0)
            rank = (H * (V[None, :] < V[:, None])).sum(axis=1) / H.sum(axis=1)
            if np.sum(rank[:-1] < rank[-1] * (1.0 - 1e-12)) <= allowed:
                accepted.append(end)
        np.testing.assert_allclose(answer, max(accepted), rtol=1e-12)


@pytest.mark.parametrize("law", ci_but(LAWS[:1], LAWS), ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_permuting_a_calibration_row_with_the_new_one_keeps_the_promise(law):
    """Leave one out of n + 1 rows: at least k of them lie in their own interval, always."""
    X, y = awkward_data(31, seed=6)
    model = local(LCPRegressor, law, calibration_size=None).fit(*awkward_data(150, seed=7))
    covered = 0
    for i in range(31):
        rest = np.arange(31) != i
        model.conformalize(X[rest], y[rest])
        covered += coverage(y[i : i + 1], model.predict_interval(X[i : i + 1]))
    assert covered >= conformal_rank(30, 0.9)


@pytest.mark.ci
def test_intervals_of_lcp_adapt_and_are_seldom_infinite_by_default():
    X_new, _ = smooth_data(500, seed=1)
    model = local(LCPRegressor).fit(*smooth_data(2_000, seed=0))
    length = np.diff(quietly(model, X_new), axis=1)[:, 0]
    assert np.mean(np.isinf(length)) <= 0.08
    quiet, loud = np.abs(X_new[:, 0]) < 0.3, np.abs(X_new[:, 0]) > 1.0
    assert 1.5 * np.median(length[quiet]) < np.median(length[loud])


@pytest.mark.parametrize(
    ("score", "estimator"),
    [
        ("absolute", LinearRegression()),
        (NormalisedScore(LinearRegression()), LinearRegression()),
        ("quantile", QuantileRegressor(alpha=0)),
    ],
)
def test_other_scores_of_lcp(score, estimator):
    X_new, y_new = smooth_data(600, seed=1)
    model = LCPRegressor(estimator, score=score, law=KernelLaw(bandwidth=1.0), random_state=0)
    low, _ = coverage_band(150, 600, 0.9, probability=0.9999)
    assert coverage(y_new, quietly(model.fit(*smooth_data(600, seed=0)), X_new)) >= low


# ---- RLCP ------------------------------------------------------------------------------------


def centres(model, X):
    """The points that are drawn around rows, embedded."""
    points, h = model.localizer_.view(X), model.localizer_.bandwidth
    return points + h * draw(model.localizer_.kernel, model.noise_seed_, points)


@KERNELS
def test_rlcp_follows_its_formula(kernel):
    model = local(RLCPRegressor, kernel_law(kernel, 0.8), calibration_size=None)
    X_cal, y_cal = smooth_data(80, seed=2)
    new = smooth_data(60, seed=3)[0]
    model.fit(*smooth_data(250, seed=1)).conformalize(X_cal, y_cal)
    scores = np.abs(y_cal - model.predict(X_cal))
    X_cal, points = (model.localizer_.view(rows) for rows in (X_cal, new))
    half = []
    for x, centre in zip(points, centres(model, new), strict=True):
        weights = PROFILES[kernel](((X_cal - centre) ** 2).sum(axis=1) / 0.8**2)
        own = PROFILES[kernel](((x - centre) ** 2).sum() / 0.8**2)
        half.append(weighted_conformal_quantile(scores, weights, own, 0.9))
    mu = model.predict(new)
    np.testing.assert_allclose(quietly(model, new), np.stack([mu - half, mu + half], axis=1))


@KERNELS
def test_draws_belong_to_the_row_and_the_seed_not_to_batch_or_level(kernel):
    X, y = awkward_data(300, seed=0)
    model = local(RLCPRegressor, kernel_law(kernel)).fit(X, y)
    several = quietly(model, X_NEW, [0.5, 0.8])
    np.testing.assert_array_equal(several, quietly(model, X_NEW, [0.5, 0.8]))
    np.testing.assert_array_equal(several[:, :, 0], quietly(model, X_NEW, 0.5))
    alone = [centres(model, row[None]) for row in X_NEW]
    np.testing.assert_array_equal(centres(model, X_NEW), np.concatenate(alone))
    other = local(RLCPRegressor, kernel_law(kernel), random_state=1).fit(X, y)
    assert not np.isclose(centres(model, X_NEW), centres(other, X_NEW)).any()


def test_a_model_s_last_bits_do_not_change_the_draw():
    """Predictions of a linear model differ in them from batch to batch."""
    X, y = smooth_data(300, seed=0, d=9)
    model = local(RLCPRegressor, kernel_law(embedding="outputs")).fit(X, y)
    alone = np.concatenate([quietly(model, row[None]) for row in X])
    np.testing.assert_allclose(quietly(model, X), alone, rtol=1e-12, atol=1e-12)


def test_the_default_of_rlcp_trains_one_model():
    X, y = smooth_data(300, seed=0)
    fits = []

    class Counted(LinearRegression):
        def fit(self, X, y):
            fits.append(len(y))
            return super().fit(X, y)

    plain = RLCPRegressor(Counted(), random_state=0).fit(X, y)
    assert fits == [225]
    law = kernel_law(bandwidth=EffectiveSize(REACHED))
    same = RLCPRegressor(Counted(), law=law, random_state=0).fit(X, y)
    assert fits[1:] == [180] * 5 + [225]
    np.testing.assert_array_equal(quietly(plain, X), quietly(same, X))


class Zero:
    def predict(self, X):
        return np.zeros(len(X))


def test_many_dimensions_do_not_underflow():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2000))
    model = RLCPRegressor(Zero(), law=kernel_law(bandwidth=200.0), random_state=0)
    # |x~ - x|^2 / h^2 is about 2000: exp(-1000) is 0 for the new row and all others.
    assert np.isfinite(model.fit(X, rng.normal(size=300)).predict_interval(X)).all()


# ---- noise of RLCP ---------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(20_000, 3))


def test_uniforms_are_uniform_and_unrelated():
    table = uniforms(3, ROWS, 4)
    assert ((table > 0) & (table < 1)).all()
    for column in table.T:
        assert kstest(column, "uniform").pvalue > 1e-4
    others = np.column_stack([table, uniforms(4, ROWS, 4), ROWS])
    correlation = np.corrcoef(others, rowvar=False) - np.eye(11)
    # The rows are correlated with themselves only by chance; so is everything else.
    assert np.abs(correlation).max() < 5.0 / np.sqrt(len(ROWS))


def test_regular_rows_get_irregular_draws():
    grid = np.arange(20_000.0)[:, None]
    for rows in (grid, grid / 1024.0, np.hstack([grid % 141, grid // 141])):
        column = uniforms(0, rows, 1)[:, 0]
        assert kstest(column, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 4.0 / np.sqrt(len(rows))
        assert len(np.unique(column)) == len(rows)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_draws_follow_their_kernel(k):
    rows = ROWS[:, :k]
    for column in draw("gaussian", 0, rows).T:
        assert kstest(column, norm.cdf).pvalue > 1e-4
    for kernel, law in {"boxcar": beta(k / 2, 1), "epanechnikov": beta(k / 2, 2)}.items():
        noise = draw(kernel, 0, rows)
        assert kstest(np.sum(noise**2, axis=1), law.cdf).pvalue > 1e-4
        # Directions are uniform: no mean, and the covariance is a multiple of the identity.
        second = noise.T @ noise / len(noise)
        np.testing.assert_allclose(second, law.mean() / k * np.eye(k), atol=0.02)
        np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.02)


@KERNELS
def test_last_bits_of_a_row_do_not_matter_and_other_bits_do(kernel):
    noise = draw(kernel, 0, ROWS)
    np.testing.assert_array_equal(noise, draw(kernel, 0, np.nextafter(ROWS, np.inf)))
    np.testing.assert_array_equal(noise, draw(kernel, 0, np.asfortranarray(ROWS)))
    assert (noise != draw(kernel, 0, ROWS * (1.0 + 1e-6))).all()
    extreme = np.array([[0.0, -0.0, 1e50], [-1e50, 1e-300, 5e-324]])
    assert np.isfinite(draw(kernel, 0, extreme)).all()


# ---- LVD -------------------------------------------------------------------------------------


def metric_of(model):
    return model.localizer_.embedding.embedding.embedding


@pytest.mark.parametrize("score", ["residual", "absolute", "normalised"])
def test_lvd_follows_its_formula(score):
    X, y = smooth_data(500, seed=1)
    model = local(LVDRegressor, score=score, calibration_size=None).fit(X, y)
    X_cal, y_cal = smooth_data(200, seed=2)
    new = smooth_data(50, seed=3)[0]
    model.conformalize(X_cal, y_cal)
    A = metric_of(model).map_

    def units(rows):
        return (rows - X.mean(axis=0)) / X.std(axis=0) @ A.T

    K = np.exp(-cdist(units(new), units(X_cal), "sqeuclidean") / len(A))
    scores = model.score_.values(model.score_.band(X_cal), y_cal).max(axis=1)
    half = weighted_conformal_quantile(scores, K, np.ones(50), 0.9)
    spread = model.score_.values(model.score_.band(new), model.predict(new) + 1.0)[:, 1]
    bounds = model.predict(new)[:, None] + np.array([-1.0, 1.0]) * (half / spread)[:, None]
    np.testing.assert_allclose(quietly(model, new), bounds, rtol=1e-6)
    np.testing.assert_array_equal(np.isinf(half), 1.0 / (1.0 + K.sum(axis=1)) > 0.1)


def test_the_metric_learns_from_the_response_by_object_and_by_name():
    X, y = smooth_data(300, seed=0)
    network = MLPRegressor(hidden_layer_sizes=(6, 4), max_iter=300, random_state=0).fit(X, y)
    layer = HiddenLayer(network)
    for embedding, rows in (
        ("metric", X),
        (LearnedMetric(), X),
        ("hidden-metric", layer.transform(X)),
        (LearnedMetric(layer=layer), layer.transform(X)),
    ):
        law = kernel_law(bandwidth=1.0, embedding=embedding)
        model = LVDRegressor(FrozenEstimator(network), law=law, calibration_size=None)
        model.set_params(random_state=0).fit(X, y).conformalize(*smooth_data(99, seed=1))
        learned = metric_of(model)
        # By name it has the seed of the law.
        expected = LearnedMetric(random_state=learned.random_state).fit(rows, y)
        np.testing.assert_array_equal(learned.map_, expected.map_)
        one_by_one = np.concatenate([quietly(model, X[i : i + 1]) for i in range(5)])
        # Not to the last bit: the network's own predictions depend on the batch there.
        np.testing.assert_allclose(quietly(model, X)[:5], one_by_one, rtol=1e-12)


@pytest.mark.parametrize("law", [NeighborsLaw(60), ForestLaw(n_jobs=1)])
def test_the_kernel_of_any_law_will_do(law):
    X, y = smooth_data(300, seed=0)
    assert quietly(local(LVDRegressor, law).fit(X, y), X).shape == (300, 2)


def test_places_do_not_depend_on_batch_or_layout():
    model, new = local(LVDRegressor).fit(*awkward_data(400, seed=0, d=4)), awkward_data(40, 9, 4)[0]
    points = model.localizer_.view(new)
    for rows in (new, np.asfortranarray(new)):
        alone = np.concatenate([model.localizer_.view(rows[i : i + 1]) for i in range(40)])
        np.testing.assert_array_equal(points, alone)


# ---- bandwidths ------------------------------------------------------------------------------


def problem(points, v=None, kernel="gaussian", most=20.0):
    v = np.zeros(len(points)) if v is None else v
    return BandwidthProblem(points, v, kernel, most, 0)


def smooth_problem(n=600):
    X, y = smooth_data(n, seed=0)
    return problem(X, np.abs(y - X[:, 0]))


def test_the_chosen_bandwidth_is_seldom_infinite_and_better_than_a_wide_one():
    rule, task = FiniteThresholds(0.9), smooth_problem()
    h, trial = rule.choose(task), make_trial(task, 0.9, 0)
    share, objective = rule._judge(trial, h)
    assert share <= 0.05
    assert objective < rule._judge(trial, 2.0 * task.distance_quantile(1.0))[1]
    punished = FiniteThresholds(0.9, penalty=2.0)._judge(trial, h)
    assert punished[0] == share
    assert punished[1] > objective


def test_fewer_infinite_thresholds_need_a_wider_kernel():
    task = smooth_problem(300)
    chosen = [FiniteThresholds(0.9, most_infinite=m).choose(task) for m in (0.0, 0.2, 1.0)]
    assert chosen == sorted(chosen, reverse=True)


def test_a_level_out_of_reach_takes_the_widest():
    task = smooth_problem(30)
    widest = 2.0 * task.distance_quantile(1.0)
    assert FiniteThresholds(0.99).choose(task) == pytest.approx(widest)
    assert FiniteThresholds(0.9, n_candidates=1, penalty=2.0).choose(smooth_problem(200)) > 0.0


@pytest.mark.parametrize(
    "wrong", [{"level": 1.0}, {"n_candidates": 0}, {"penalty": -1.0}, {"most_infinite": 2.0}]
)
def test_bad_parameters_of_the_rule(wrong):
    with pytest.raises(ValueError, match="expected"):
        FiniteThresholds(**wrong).choose(smooth_problem(30))


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_few_reference_rows(n):
    assert FiniteThresholds().choose(problem(np.zeros((n, 1)), np.ones(n))) > 0.0


@KERNELS
@pytest.mark.parametrize(("n", "d"), [(60, 1), (300, 3), (300, 40)])
def test_the_effective_size_is_reached(kernel, n, d):
    points = np.random.default_rng(0).normal(size=(n, d))
    h = EffectiveSize(40).choose(problem(points, kernel=kernel))
    W = PROFILES[kernel](cdist(points, points, "sqeuclidean") / h**2)
    W /= W.sum(axis=1, keepdims=True)
    assert n / np.linalg.norm(W, "fro") ** 2 - 1 == pytest.approx(40, rel=0.01)


def test_too_few_rows_and_coinciding_rows():
    points = np.random.default_rng(0).normal(size=(40, 2))
    assert EffectiveSize(50).choose(problem(points)) == np.inf
    assert EffectiveSize(50).choose(problem(np.ones((20, 2)))) == np.inf
    assert EffectiveSize(50).choose(problem(np.ones((80, 2)))) > 0
    # 60 rows in each of two places reach 59 others at any bandwidth.
    twice = np.repeat([[0.0], [1.0]], 60, axis=0)
    assert effective_size("gaussian", cdist(twice, twice) ** 2, 1e-9) == pytest.approx(59)
    assert 0 < EffectiveSize(50).choose(problem(twice)) < 1


@pytest.mark.parametrize("target", [0, -3.0, np.nan, "many"])
def test_bad_targets_are_refused(target):
    with pytest.raises(ValueError, match=r"target is .*; a positive number was expected"):
        EffectiveSize(target).choose(problem(np.zeros((3, 1))))


def test_few_training_rows_make_the_default_of_rlcp_split_conformal():
    X, y = smooth_data(60, seed=0)
    split = local_split().fit(X, y).predict_interval(X)
    np.testing.assert_array_equal(local(RLCPRegressor).fit(X, y).predict_interval(X), split)
