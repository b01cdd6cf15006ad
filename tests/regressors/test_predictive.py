"""The predictive distribution: inverses, symmetry, calibration over redraws, what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from predictive_models import (
    LAW,
    LEVELS,
    VARIANTS,
    X_NEW,
    calibrated,
    discrete_data,
    make,
)
from scipy.stats import norm

from localconformal import KernelLaw, NeighborsLaw, UniformLaw
from localconformal.metrics.crps import crps
from localconformal.regressors.distribution import outward_ranks
from registry import awkward_data, ci_but, smooth_data


@pytest.fixture(params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture(params=ci_but([awkward_data], [smooth_data, awkward_data, discrete_data]))
def model(variant, request):
    return calibrated(variant, request.param)


# ---- laws of one distribution --------------------------------------------------------------


def test_shapes_order_and_range(model):
    quantiles = model.predict_quantiles(X_NEW, LEVELS)
    assert quantiles.shape == (25, len(LEVELS))
    assert np.all(np.isfinite(quantiles))
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    np.testing.assert_array_equal(model.predict_quantiles(X_NEW, 0.2), quantiles[:, 2])
    np.testing.assert_array_equal(model.predict_quantiles(X_NEW, LEVELS[::-1]), quantiles[:, ::-1])
    grid = np.tile(np.linspace(-200.0, 200.0, 401), (25, 1))
    cdf = model.predict_cdf(X_NEW, grid)
    assert cdf.shape == (25, 401)
    assert np.all(np.diff(cdf, axis=1) >= 0)
    np.testing.assert_array_equal(cdf[:, [0, -1]], np.tile([0.01, 0.99], (25, 1)))
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, grid[:, 3]), cdf[:, 3])
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, float(grid[0, 3])), cdf[:, 3])


def test_quantiles_and_cdf_are_inverses(model):
    """y >= q_t exactly when the CDF exceeds t (t < 1/2), or reaches it (t > 1/2)."""
    near = 1e-9
    for t in [0.013, 0.02, 0.05, 0.25, 0.495, 0.505, 0.75, 0.95, 0.98, 0.987]:
        q = model.predict_quantiles(X_NEW, t)
        y = np.concatenate([q[:, None] + near, q[:, None] + np.linspace(0.01, 9, 20)], axis=1)
        above, below = model.predict_cdf(X_NEW, y), model.predict_cdf(X_NEW, 2 * q[:, None] - y)
        if t < 0.5:
            assert np.all(above > t - 1e-12)
            assert np.all(below <= t + 1e-12)
            # Rounded down: what is below is below without doubt.
            assert np.all(model.predict_cdf(X_NEW, np.nextafter(q, -np.inf)) <= t + 1e-12)
        else:
            assert np.all(above >= t - 1e-12)
            assert np.all(below < t + 1e-12)
            assert np.all(model.predict_cdf(X_NEW, q) >= t - 1e-12)


def test_one_by_one_equals_batch(model):
    y = np.linspace(-3.0, 3.0, 25)
    quantiles, cdf = model.predict_quantiles(X_NEW, LEVELS), model.predict_cdf(X_NEW, y)
    alone = [model.predict_quantiles(row[None], LEVELS) for row in X_NEW]
    # The last bits of a linear model's matrix product depend on the batch.
    np.testing.assert_allclose(np.concatenate(alone), quantiles, rtol=1e-12, atol=1e-12)
    alone = [model.predict_cdf(row[None], y[i : i + 1]) for i, row in enumerate(X_NEW)]
    np.testing.assert_array_equal(np.concatenate(alone), cdf)


def test_calibration_order_does_not_matter(variant):
    model, (X, y) = calibrated(variant), smooth_data(99, seed=1)
    before = model.predict_quantiles(X_NEW, LEVELS)
    after = model.conformalize(X[::-1], y[::-1]).predict_quantiles(X_NEW, LEVELS)
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("scale", "shift"), [(4.0, 0.0), (0.25, 8.0), (1e3, 0.0)])
@pytest.mark.parametrize("moved", ["law-kernel", "neighbors-3", "normalised", "no-law", "quantile"])
def test_equivariance_in_y(moved, scale, shift):
    plain = calibrated(moved)
    other = calibrated(
        moved, lambda n, seed: (lambda X, y: (X, scale * y + shift))(*smooth_data(n, seed))
    )
    np.testing.assert_allclose(
        other.predict_quantiles(X_NEW, LEVELS),
        scale * plain.predict_quantiles(X_NEW, LEVELS) + shift,
        rtol=1e-5,
        atol=1e-6 * scale,
    )


@pytest.mark.parametrize("law", [LAW, NeighborsLaw(5), UniformLaw()], ids=lambda law: str(law))
def test_turning_the_sign_of_y_turns_the_distribution(law):
    X, y = smooth_data(120, seed=0)
    X_cal, y_cal = smooth_data(99, seed=1)
    plain = make(law=law).fit(X, y).conformalize(X_cal, y_cal)
    turned = make(law=law).fit(X, -y).conformalize(X_cal, -y_cal)
    levels = LEVELS[LEVELS != 0.5]
    np.testing.assert_allclose(
        turned.predict_quantiles(X_NEW, 1.0 - levels),
        -plain.predict_quantiles(X_NEW, levels),
        rtol=1e-9,
        atol=1e-9,
    )


def test_a_law_that_is_the_same_everywhere_changes_nothing():
    X, y = smooth_data(120, seed=0)
    X_cal, y_cal = smooth_data(99, seed=1)
    uniform = make(law=UniformLaw()).fit(X, y).conformalize(X_cal, y_cal)
    none = make(adjustment="plain").fit(X, y).conformalize(X_cal, y_cal)
    np.testing.assert_allclose(
        uniform.predict_quantiles(X_NEW, LEVELS), none.predict_quantiles(X_NEW, LEVELS), rtol=1e-12
    )
    # The conformal predictive system by hand: the residuals in order, around the prediction.
    residuals = np.sort(y_cal - none.predict(X_cal))
    by_hand = none.predict(X_NEW)[:, None] + residuals[outward_ranks(99, LEVELS) - 1]
    np.testing.assert_allclose(none.predict_quantiles(X_NEW, LEVELS), by_hand, rtol=1e-12)


def test_discrete_responses_are_not_lost_by_rounding():
    X, y = discrete_data(99, seed=3)
    y = y / 10.0
    model = make("response", adjustment="plain").fit(*discrete_data(60, seed=0)).conformalize(X, y)
    q = model.predict_quantiles(X, [0.05, 0.95])
    assert np.sum(y < q[:, 0]) <= 5
    assert np.sum(y > q[:, 1]) <= 5
    assert np.isin(np.round(q / 0.05), np.round(y / 0.05)).all()


def test_the_distribution_adapts_to_x():
    model = make(law=KernelLaw(bandwidth=0.2)).fit(*smooth_data(2_000, seed=0))
    model.conformalize(*smooth_data(999, seed=1))
    q = model.predict_quantiles([[0.0, 0.0], [1.5, 0.0]], [0.05, 0.95, 0.995])
    # The kernel smooths the scale over its bandwidth: somewhat more than 0.2, less than 1.7.
    ratio = (q - [[0.0], [1.5]]) / (np.array([[0.2], [1.7]]) * norm.ppf([0.05, 0.95, 0.995]))
    assert np.all(ratio[0] > 1.0)
    assert np.all(ratio[0, :2] < 2.5)
    assert np.all((ratio[1] > 0.6) & (ratio[1] < 1.4))


# ---- calibration ---------------------------------------------------------------------------

N_CAL, N_TEST, REDRAWS = 60, 240, 62
CHECKED = np.array([0.05, 0.3, 0.5, 0.7, 0.95])


def shares(variant, data):
    """Mean shares of new rows below, at most at, and with a CDF at most, each level."""
    params = VARIANTS[variant]
    below, at_most, cdf = [], [], []
    for training_set in range(2):
        model = make(**params).fit(*data(100, seed=training_set))
        for redraw in range(REDRAWS):
            X, y = data(N_CAL + N_TEST, seed=10_000 + 1_000 * training_set + redraw)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model.conformalize(X[:N_CAL], y[:N_CAL])
            new, q = y[N_CAL:, None], model.predict_quantiles(X[N_CAL:], CHECKED)
            below.append((new < q).mean(axis=0))
            at_most.append((new <= q).mean(axis=0))
            cdf.append((model.predict_cdf(X[N_CAL:], new) <= CHECKED).mean(axis=0))
    return np.mean(below, axis=0), np.mean(at_most, axis=0), np.mean(cdf, axis=0)


def spread():
    """Five standard errors: calibration and test rows of each redraw are fresh."""
    beta = CHECKED * (1.0 - CHECKED)
    return 5.0 * np.sqrt((beta / (N_CAL + 2) + beta / N_TEST) / (2 * REDRAWS))


@pytest.mark.ci
@pytest.mark.parametrize("variant", VARIANTS)
def test_calibrated_on_average_for_continuous_responses(variant):
    """Without ties P(Y <= q_t) = k / (n + 1), and the CDF of new rows is uniform up to a step."""
    below, at_most, cdf = shares(variant, smooth_data)
    exact = outward_ranks(N_CAL, CHECKED) / (N_CAL + 1)
    assert np.all(np.abs(below - exact) <= spread())
    assert np.all(np.abs(at_most - exact) <= spread())
    assert np.all(np.abs(cdf - CHECKED) <= 1.0 / (N_CAL + 1) + spread())


@pytest.mark.ci
@pytest.mark.parametrize("data", [awkward_data, discrete_data], ids=["ties", "halves"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_tail_is_understated_with_ties(variant, data):
    below, at_most, _ = shares(variant, data)
    exact = outward_ranks(N_CAL, CHECKED) / (N_CAL + 1)
    # Quantiles are rounded outward, away from the responses that are tied with them.
    low = CHECKED < 0.5
    assert np.all((below <= exact + spread())[low])
    assert np.all((at_most >= exact - spread())[~low])


# ---- samples and CRPS ----------------------------------------------------------------------


def test_samples_follow_the_cdf(variant):
    model = calibrated(variant)
    draws = model.sample(X_NEW[:3], 3_000, random_state=0)
    assert draws.shape == (3, 3_000)
    assert np.all(np.isfinite(draws))
    grid = np.linspace(-4.0, 4.0, 81)
    drawn = (draws[:, :, None] <= grid).mean(axis=1)
    cdf = model.predict_cdf(X_NEW[:3], np.tile(grid, (3, 1)))
    # One step at either end is put at the outermost quantile.
    assert np.abs(drawn - cdf).max() <= 1 / 100 + 2.2 / np.sqrt(3_000)


def test_samples_are_seeded_and_independent_between_rows():
    model = calibrated("law-kernel")
    first = model.sample(X_NEW, 50, random_state=3)
    np.testing.assert_array_equal(first, model.sample(X_NEW, 50, random_state=3))
    assert not np.array_equal(first, model.sample(X_NEW, 50, random_state=4))
    twins = model.sample(np.zeros((2, 2)), 50, random_state=3)
    assert not np.array_equal(twins[0], twins[1])
    assert model.sample(X_NEW).shape == (25, 1)


def test_crps_is_that_of_the_quantiles_and_of_samples(variant, monkeypatch):
    model, (X, y) = calibrated(variant), smooth_data(80, seed=5)
    score = model.crps(X, y)
    assert isinstance(score, float)
    draws = model.sample(X, 1_000, random_state=0)
    assert score == pytest.approx(crps(y, draws), rel=0.03)
    monkeypatch.setattr("localconformal.regressors.predictive.CRPS_ROWS", 7)
    assert model.crps(X, y) == pytest.approx(score, rel=1e-12)


def test_crps_prefers_the_law_that_localizes():
    X, y = smooth_data(2_000, seed=0)
    X_new, y_new = smooth_data(2_000, seed=5)
    local, none = (
        make(law=KernelLaw(bandwidth=0.2), calibration_size=0.25, adjustment=adjustment)
        .fit(X, y)
        .crps(X_new, y_new)
        for adjustment in ("additive", "plain")
    )
    oracle = np.mean(0.2 + np.abs(X_new[:, 0])) / np.sqrt(np.pi)
    assert 0.97 * oracle < local < 0.97 * none
