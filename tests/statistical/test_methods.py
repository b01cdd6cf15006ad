"""What methods promise beyond coverage on average: regions, cells, shifts, distributions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import beta, norm
from simulations import TAU, band, is_inside, lower_end, mean_coverage, redraws
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

import localconformal as lc
from inner import drawn_centres
from predictive_models import VARIANTS, bimodal, discrete_data, make, outward_ranks
from registry import awkward_data, heavy_tails, smooth_data

pytestmark = pytest.mark.ci
#: Four standard errors and a little more, one-sided.
Z = norm.isf(1e-5)


@pytest.fixture(autouse=True)
def _quiet():
    """Infinite intervals are part of some methods, and rounded rows repeat by chance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


LCP_LAWS = [
    None,
    lc.KernelLaw(bandwidth=0.7),
    lc.KernelLaw("boxcar", bandwidth=1.0),
    lc.KernelLaw("epanechnikov", bandwidth=1.5),
    lc.ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1),
    lc.UniformLaw(),
]


@pytest.mark.parametrize("law", LCP_LAWS, ids=str)
@pytest.mark.parametrize("data", [awkward_data, smooth_data], ids=["ties", "continuous"])
def test_lcp_with_every_law(law, data):
    model = lc.LCPRegressor(LinearRegression(), law=law, calibration_size=None, random_state=0)
    low, high = band(Z, n_test=100)
    share = mean_coverage(model, data, n_test=100)
    assert share >= low
    # Gaussian weights of continuous rows leave no ties among the ranks.
    assert share <= high or data is awkward_data or law is not None


def line(n, seed):
    return smooth_data(n, seed, d=1)


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov"])
def test_rlcp_covers_on_average_and_given_the_drawn_centre(kernel):
    """Rows whose centre fell into a region follow the kernel-tilted law there, and are covered."""
    law, edges = lc.KernelLaw(kernel, bandwidth=0.4), np.array([-1.0, 0.0, 1.0])
    model = lc.RLCPRegressor(LinearRegression(), law=law, calibration_size=None, random_state=0)
    shares, inside = [], [[] for _ in range(4)]
    for X, y in redraws(model, line, n_test=200, training_sets=12, redraws=25):
        covered = is_inside(y, model.predict_interval(X))
        region = np.searchsorted(edges, drawn_centres(model, X)[:, 0])
        shares.append(covered.mean())
        for r in range(4):
            inside[r].append(covered[region == r].mean())
    for found in (shares, *inside):
        assert np.mean(found) >= lower_end(found)
    # Few rows are near: levels are reached in large steps, and rounded up.
    assert np.mean(shares) <= 0.96


def flat(n, seed):
    X, y = np.random.default_rng(seed).normal(size=(2, n))
    return X[:, None], y


@pytest.mark.parametrize(("cls", "share"), [(lc.RLCPRegressor, 0.44), (lc.LVDRegressor, 0.70)])
def test_the_share_of_infinite_intervals_is_that_of_the_definition(cls, share):
    """n = 100, h = 0.1, X ~ N(0, 1): these shares where the definition itself is simulated."""
    # The rows themselves, neither centred nor scaled.
    law = lc.KernelLaw(bandwidth=0.1, embedding=FunctionTransformer())
    model = cls(DummyRegressor(strategy="constant", constant=0.0), law=law, calibration_size=None)
    infinite, covered = [], []
    for X, y in redraws(model, flat, n_test=200, training_sets=1, redraws=80):
        intervals = model.predict_interval(X)
        infinite.append(np.isinf(intervals).any(axis=1).mean())
        covered.append(is_inside(y, intervals).mean())
    assert np.mean(infinite) == pytest.approx(share, abs=0.03)
    # The infinite ones make up for the others.
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("cls", [lc.HPDSplitRegressor, lc.CDSplitRegressor, lc.CHRRegressor])
@pytest.mark.parametrize(
    "data",
    [
        smooth_data,
        *(
            pytest.param(data, marks=pytest.mark.nightly)
            for data in (awkward_data, bimodal, heavy_tails)
        ),
    ],
)
def test_regions_cover_on_average_and_in_cells(cls, data):
    cells = {"n_cells": 3} if cls is lc.CDSplitRegressor else {}
    model = cls(LinearRegression(), law=lc.KernelLaw(bandwidth=0.4), random_state=0, **cells)
    shares, by_cell = [], []
    for X, y in redraws(model.set_params(calibration_size=None), data, n_test=300, redraws=30):
        inside = model.predict_region(X).contains(y)
        shares.append(inside.mean())
        # Rows of one cell have one correction.
        theta = model.diagnose(X)["correction"].to_numpy()
        by_cell += [inside[theta == cell].mean() for cell in np.unique(theta)]
    low, high = band(4.0, n_test=300, n_draws=60)
    assert np.mean(shares) >= TAU - (high - low) / 2
    assert np.mean(by_cell) >= lower_end(by_cell)
    # One cell and no ties: as much as promised, and little more.
    assert np.mean(shares) <= high or cells or data in (awkward_data, bimodal)


SCALES = np.array([0.5, 1.0, 3.0])


@pytest.mark.parametrize("partition", ["tree", "forest"])
def test_locart_covers_within_each_step_of_the_noise_or_on_average(partition):
    rng = np.random.default_rng(0)
    X_new = rng.uniform(size=(2_000, 3))
    scale, found = SCALES[(3 * X_new[:, 0]).astype(int)], []
    for seed in range(30):
        X = rng.uniform(size=(900, 3))
        y = SCALES[(3 * X[:, 0]).astype(int)] * rng.normal(size=900)
        model = lc.LocartRegressor(LinearRegression(), partition=partition, min_samples_leaf=60)
        model.set_params(n_estimators=15, n_jobs=1, random_state=seed).fit(X, y)
        lower, upper = model.predict_interval(X_new).T
        cover = norm.cdf(upper / scale) - norm.cdf(lower / scale)
        found.append([cover.mean(), *(cover[scale == one].mean() for one in SCALES)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert mean[0] > TAU - 3.0 * error[0]
    if partition == "tree":
        # A leaf may straddle a step by a few rows: exact within leaves, nearly so within steps.
        assert np.all(mean > TAU - 3.0 * error - 0.02)
        assert np.all(mean < 0.96)
    width = np.diff(model.predict_interval(X_new), axis=1)[:, 0]
    assert width[scale == 3.0].mean() > 2.0 * width[scale == 0.5].mean()


SHAPE = 0.3


def shifted_rows(n, seed, shape=1.0):
    """X = -1 + 2 Beta(shape, shape), uniform for 1; noise grows with |x|."""
    rng = np.random.default_rng(seed)
    x = np.clip(-1.0 + 2.0 * rng.beta(shape, shape, size=n), -1.0 + 1e-9, 1.0 - 1e-9)
    return x[:, None], x + rng.normal(size=n) * np.abs(x) / (1.0 + np.abs(x))


def ratio(X):
    return beta.pdf((np.asarray(X)[:, 0] + 1.0) / 2.0, SHAPE, SHAPE)


def shifted_coverages(model, n_seeds, n=600, learned=False):
    """P(lower <= Y <= upper | x), averaged over shifted rows, for each seed."""
    found = []
    for seed in range(n_seeds):
        X_new, _ = shifted_rows(2_000, seed + 10_000, SHAPE)
        fit = {"target": shifted_rows(n, seed + 5_000, SHAPE)[0]} if learned else {}
        model.set_params(random_state=seed).fit(*shifted_rows(n, seed), **fit)
        x, (lower, upper) = X_new[:, 0], model.predict_interval(X_new).T
        scale = np.abs(x) / (1.0 + np.abs(x))
        found.append(np.mean(norm.cdf((upper - x) / scale) - norm.cdf((lower - x) / scale)))
    return np.array(found)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sides": "union"},
        {"conformity_score": "absolute"},
        {"adjustment": "additive", "law": lc.KernelLaw(bandwidth=0.3)},
        {"adjustment": "scaled", "law": "forest"},
        {"adjustment": "theta", "law": lc.KernelLaw(bandwidth=0.3)},
    ],
    ids=str,
)
def test_weights_cover_under_a_known_shift(params):
    model = lc.WeightedConformalRegressor(LinearRegression(), weights=ratio, **params)
    found = shifted_coverages(model, 60)
    assert found.mean() >= lower_end(found, 3.0)
    if not params:
        assert shifted_coverages(lc.SplitConformalRegressor(LinearRegression()), 60).mean() < 0.86


# The true log-ratio has poles at the ends, which a polynomial follows from afar.
POLYNOMIAL = make_pipeline(PolynomialFeatures(8), LogisticRegression(C=100.0, max_iter=1_000))


@pytest.mark.parametrize("weights", [POLYNOMIAL, None], ids=["classifier", "default"])
def test_learned_weights_come_close(weights):
    model = lc.WeightedConformalRegressor(LinearRegression(), weights=weights)
    assert shifted_coverages(model, 8, n=1_200, learned=True).mean() > 0.87
    assert not model.guarantee_.finite_sample
    assert "estimated" in str(model.guarantee_)


LEVELS = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
#: Calibration rows and new rows: the rank of a level is coarse among few.
FEW = {"n_cal": 60, "n_test": 240}


def quantile_shares(variant, data):
    """Mean shares of new rows below, at most at, and with a CDF at most, each level; their room."""
    model, found = make(**VARIANTS[variant]), []
    for X, y in redraws(model, data, **FEW):
        new, q = y[:, None], model.predict_quantiles(X, LEVELS)
        cdf = model.predict_cdf(X, new) <= LEVELS
        found.append([(new < q).mean(axis=0), (new <= q).mean(axis=0), cdf.mean(axis=0)])
    # Five standard errors: calibration and test rows of each redraw are fresh.
    variance = LEVELS * (1.0 - LEVELS)
    errors = np.sqrt((variance / 62 + variance / 240) / len(found))
    return *np.mean(found, axis=0), 5.0 * errors


EXACT = outward_ranks(60, LEVELS) / 61


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "data",
    [smooth_data, awkward_data, pytest.param(discrete_data, marks=pytest.mark.nightly)],
    ids=["continuous", "ties", "halves"],
)
def test_distributions_are_calibrated_and_no_tail_is_understated_with_ties(variant, data):
    """Without ties P(Y <= q_t) = k / (n + 1), and the CDF of new rows is uniform up to a step."""
    below, at_most, cdf, room = quantile_shares(variant, data)
    # Quantiles are rounded outward, away from the responses that are tied with them.
    low = LEVELS < 0.5
    assert np.all((below <= EXACT + room)[low])
    assert np.all((at_most >= EXACT - room)[~low])
    if data is smooth_data:
        assert np.all(np.abs([below, at_most] - EXACT) <= room)
        assert np.all(np.abs(cdf - LEVELS) <= 1.0 / 61 + room)


def test_levels_beyond_the_learned_curves_cover_about_as_often_as_they_say():
    (X, y), (X_new, y_new) = smooth_data(600, seed=0), smooth_data(2_000, seed=1)
    law = lc.LearnedLaw(QuantileRegressor(alpha=0), levels=(0.25, 0.75), n_jobs=1).fit(X, y)
    for level in (0.05, 0.1, 0.9, 0.95):
        assert abs(np.mean(y_new <= law.quantile(X_new, [level])[:, 0]) - level) < 0.04
