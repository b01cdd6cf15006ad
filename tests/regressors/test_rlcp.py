"""RLCP: split conformal in the limit, exact coverage, and noise that belongs to the row."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import beta, kstest, norm
from sklearn.linear_model import LinearRegression

from localconformal import ForestLaw, KernelLaw, NeighborsLaw, SplitConformalRegressor, UniformLaw
from localconformal.laws.bandwidth import BandwidthProblem
from localconformal.laws.effective_bandwidth import EffectiveSize, effective_size
from localconformal.laws.noise import DRAWS, draw, uniforms
from localconformal.quantiles import weighted_conformal_quantile
from localconformal.regressors.rlcp import REACHED, RLCPRegressor
from registry import awkward_data, smooth_data

KERNELS = pytest.mark.parametrize("kernel", DRAWS)
N_CAL, N_TEST, TAU = 100, 50, 0.9


def rlcp(kernel="gaussian", bandwidth=0.5, **params):
    law = KernelLaw(kernel, bandwidth=bandwidth, engine="reference")
    params.setdefault("random_state", 0)
    return RLCPRegressor(LinearRegression(), law=law, **params)


def quietly(model, X, **params):
    """Intervals, of which some are infinite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.predict_interval(X, **params)


def centres(model, X):
    """The points that are drawn around rows, embedded."""
    points, h = model.localizer_.view(X), model.localizer_.bandwidth
    return points + h * draw(model.localizer_.kernel, model.noise_seed_, points)


# ---- the method ------------------------------------------------------------------------------


@KERNELS
@pytest.mark.parametrize("data", [awkward_data, smooth_data])
def test_an_infinite_bandwidth_is_split_conformal(kernel, data):
    X, y = data(300, seed=0)
    levels = [0.5, 0.9, 0.95]
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    local = rlcp(kernel, np.inf).fit(X, y)
    np.testing.assert_array_equal(
        local.predict_interval(X, levels), split.predict_interval(X, levels)
    )


@KERNELS
def test_intervals_equal_those_of_the_formula(kernel):
    X, y = smooth_data(250, seed=1)
    model = rlcp(kernel, 0.8, calibration_size=None).fit(X, y)
    X_cal, y_cal = smooth_data(80, seed=2)
    new = smooth_data(60, seed=3)[0]
    model.conformalize(X_cal, y_cal)
    scores = np.abs(y_cal - model.predict(X_cal))
    X_cal, points = (model.localizer_.view(rows) for rows in (X_cal, new))
    profile = {
        "gaussian": lambda u: np.exp(-0.5 * u**2),
        "boxcar": lambda u: (u <= 1.0) * 1.0,
        "epanechnikov": lambda u: max(1.0 - u**2, 0.0),
    }[kernel]
    half = []
    for x, centre in zip(points, centres(model, new), strict=True):
        weights = [profile(np.linalg.norm(row - centre) / 0.8) for row in X_cal]
        own = profile(np.linalg.norm(x - centre) / 0.8)
        half.append(weighted_conformal_quantile(scores, weights, own, 0.9))
    mu = model.predict(new)
    np.testing.assert_allclose(quietly(model, new), np.stack([mu - half, mu + half], axis=1))


@KERNELS
def test_predictions_agree_when_repeated_and_one_by_one(kernel):
    X, y = awkward_data(300, seed=0)
    model, new = rlcp(kernel).fit(X, y), awkward_data(60, seed=9)[0]
    batch = quietly(model, new, confidence_level=[0.6, 0.9])
    np.testing.assert_array_equal(batch, quietly(model, new, confidence_level=[0.6, 0.9]))
    # mu itself may differ in its last bits; the draws may not.
    single = [quietly(model, row[None], confidence_level=[0.6, 0.9]) for row in new]
    np.testing.assert_allclose(batch, np.concatenate(single), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        centres(model, new), np.concatenate([centres(model, row[None]) for row in new])
    )


def test_levels_share_the_draw_and_seeds_do_not():
    X, y = smooth_data(400, seed=0)
    model = rlcp().fit(X, y)
    alone = quietly(model, X, confidence_level=0.5)
    several = quietly(model, X, confidence_level=[0.5, 0.8])
    np.testing.assert_array_equal(alone, several[:, :, 0])
    other = rlcp(random_state=1).fit(X, y)
    assert not np.isclose(centres(model, X), centres(other, X)).any()


def test_a_model_s_last_bits_do_not_change_the_draw():
    """Predictions of a linear model differ in them from batch to batch."""
    X, y = smooth_data(300, seed=0, d=9)
    law = KernelLaw(bandwidth=0.5, embedding="outputs", engine="reference")
    model = RLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    alone = np.concatenate([quietly(model, row[None]) for row in X])
    np.testing.assert_allclose(quietly(model, X), alone, rtol=1e-12, atol=1e-12)


def test_the_default_trains_one_model():
    X, y = smooth_data(300, seed=0)
    fits = []

    class Counted(LinearRegression):
        def fit(self, X, y):
            fits.append(len(y))
            return super().fit(X, y)

    plain = RLCPRegressor(Counted(), random_state=0).fit(X, y)
    assert fits == [225]
    law = KernelLaw(bandwidth=EffectiveSize(REACHED), engine="reference")
    same = RLCPRegressor(Counted(), law=law, random_state=0).fit(X, y)
    assert fits[1:] == [180] * 5 + [225]
    np.testing.assert_array_equal(quietly(plain, X), quietly(same, X))


def test_many_dimensions_do_not_underflow():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2000))
    model = RLCPRegressor(_Zero(), law=KernelLaw(bandwidth=200.0, engine="reference"))
    interval = model.set_params(random_state=0).fit(X, rng.normal(size=300)).predict_interval(X)
    # |x~ - x|^2 / h^2 is about 2000: exp(-1000) is 0 for the new row and all others.
    assert np.isfinite(interval).all()


class _Zero:
    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("law", ["forest", UniformLaw(), NeighborsLaw(), ForestLaw()])
def test_laws_without_a_kernel_to_draw_from_are_refused(law):
    X, y = smooth_data(60, seed=0)
    with pytest.raises(ValueError, match=r"a KernelLaw was expected, with a kernel from which"):
        RLCPRegressor(LinearRegression(), law=law).fit(X, y)


def test_the_promise_tells_what_is_random():
    promise = rlcp().fit(*smooth_data(100, seed=0)).guarantee_
    assert promise.marginal
    assert promise.finite_sample
    assert "randomised" in str(promise)
    assert "given the drawn centre" in str(promise)


# ---- coverage --------------------------------------------------------------------------------


def redraws(model, seeds, n_test=N_TEST):
    """(new rows, covered) with calibration rows for each seed, and a new model now and then."""
    for seed in seeds:
        if seed % 25 == 0:
            model.set_params(random_state=seed).fit(*smooth_data(60, seed=100_000 + seed, d=1))
        X, y = smooth_data(N_CAL + n_test, seed=seed, d=1)
        model.conformalize(X[:N_CAL], y[:N_CAL])
        lower, upper = quietly(model, X[N_CAL:]).T
        yield X[N_CAL:], (lower <= y[N_CAL:]) & (y[N_CAL:] <= upper)


def lower_end(shares):
    """Four standard errors of a mean over seeds below the level."""
    return TAU - 4.0 * np.std(shares) / np.sqrt(len(shares))


@KERNELS
@pytest.mark.ci
def test_coverage_over_seeds(kernel):
    model = rlcp(kernel, 0.5, calibration_size=None)
    shares = [covered.mean() for _, covered in redraws(model, range(200))]
    assert np.mean(shares) >= lower_end(shares)
    # Few rows are near: levels are reached in large steps, and rounded up.
    assert np.mean(shares) <= 0.96


@KERNELS
@pytest.mark.ci
def test_coverage_given_the_drawn_centre(kernel):
    """Rows whose centre fell into a region follow the kernel-tilted law there, and are covered."""
    model = rlcp(kernel, 0.4, calibration_size=None)
    edges = np.array([-1.0, 0.0, 1.0])
    inside = [[] for _ in range(4)]
    for new, covered in redraws(model, range(600), n_test=200):
        region = np.searchsorted(edges, centres(model, new)[:, 0])
        for r in range(4):
            inside[r].append(covered[region == r].mean())
    for shares in inside:
        assert np.mean(shares) >= lower_end(shares)


@pytest.mark.ci
def test_the_share_of_infinite_intervals_is_that_of_the_definition():
    """n = 100, h = 0.1, X ~ N(0, 1): 44 % where the definition itself is simulated."""
    model = RLCPRegressor(_Zero(), law=KernelLaw(bandwidth=0.1, embedding=_Same()))
    shares = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        model.set_params(random_state=seed, calibration_size=100)
        X, y = rng.normal(size=(110, 1)), rng.normal(size=110)
        new = rng.normal(size=(200, 1))
        shares.append(np.isinf(quietly(model.fit(X, y), new)).any(axis=1).mean())
    assert np.mean(shares) == pytest.approx(0.44, abs=0.03)


class _Same:
    """The rows themselves, neither centred nor scaled."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, v=None):
        return self

    def transform(self, X):
        return np.asarray(X)


# ---- noise -----------------------------------------------------------------------------------

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


# ---- bandwidth -------------------------------------------------------------------------------


def problem(points, kernel="gaussian"):
    return BandwidthProblem(points, np.zeros(len(points)), kernel, 1.0, seed=0)


@KERNELS
@pytest.mark.parametrize(("n", "d"), [(60, 1), (300, 3), (300, 40)])
def test_the_effective_size_is_reached(kernel, n, d):
    points = np.random.default_rng(0).normal(size=(n, d))
    h = EffectiveSize(40).choose(problem(points, kernel))
    W = {
        "gaussian": lambda u2: np.exp(-0.5 * u2),
        "boxcar": lambda u2: (u2 <= 1.0) * 1.0,
        "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
    }[kernel](cdist(points, points, "sqeuclidean") / h**2)
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


def test_few_training_rows_make_the_default_split_conformal():
    X, y = smooth_data(60, seed=0)
    local, split = (
        cls(LinearRegression(), random_state=0).fit(X, y).predict_interval(X)
        for cls in (RLCPRegressor, SplitConformalRegressor)
    )
    np.testing.assert_array_equal(local, split)
