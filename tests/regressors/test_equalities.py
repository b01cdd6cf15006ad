"""Methods that must coincide: limits of the law, the paper's forms, and peers' packages."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from localconformal.quantiles import conformal_quantile
from registry import ci_but, optional, smooth_data

TRAIN, CAL, NEW = (smooth_data(n, seed) for seed, n in enumerate([300, 150, 80]))
WIDE = lc.KernelLaw(bandwidth=np.inf)


def intervals(model, scale=1.0):
    model.set_params(calibration_size=None).fit(TRAIN[0], scale * TRAIN[1])
    return model.conformalize(CAL[0], scale * CAL[1]).predict_interval(NEW[0])


def composed(**params):
    params = {"estimator": LinearRegression(), "law": "kernel", "random_state": 0, **params}
    return lc.LocalizedConformalRegressor(**params)


@pytest.mark.parametrize("kernel", ci_but(["gaussian"], ["gaussian", "boxcar", "epanechnikov"]))
def test_infinite_bandwidth_is_split_conformal(kernel):
    split, expectation = intervals(lc.SplitConformalRegressor(LinearRegression())), "-expectation"
    for name in ("additive", "multiplicative"):
        for adjustment in (name, name + expectation):
            for bandwidth in (np.inf, 1e9):
                law = lc.KernelLaw(kernel, bandwidth=bandwidth)
                model = composed(conformity_score="absolute", law=law, adjustment=adjustment)
                np.testing.assert_allclose(intervals(model), split, atol=1e-9)


def test_infinite_bandwidth_with_union_is_signed_split():
    wide = intervals(composed(law=WIDE, sides="union"))
    np.testing.assert_allclose(wide, intervals(composed(adjustment="plain", sides="union")))
    np.testing.assert_allclose(wide, intervals(composed(law="uniform", sides="union")))
    model = LinearRegression().fit(*TRAIN)
    residual, point = CAL[1] - model.predict(CAL[0]), model.predict(NEW[0])
    lower = point - conformal_quantile(-residual, 0.95)
    upper = point + conformal_quantile(residual, 0.95)
    np.testing.assert_allclose(wide, np.stack([lower, upper], axis=1))


def test_joint_by_hand():
    """The definition in docs/guide/equation.md, written out with loops."""
    law = lc.KernelLaw(bandwidth=0.7, min_effective_samples=1)
    ours = intervals(composed(law=law, reference="train"))
    base, scale = LinearRegression().fit(*TRAIN), TRAIN[0].std(axis=0)
    Z, V = TRAIN[0] / scale, TRAIN[1] - base.predict(TRAIN[0])

    def local(x, scores):
        weight, order = np.exp(-((Z - x) ** 2).sum(axis=1) / (2 * 0.7**2)), np.argsort(scores)
        mass = np.cumsum(weight[order]) / weight.sum()
        return scores[order][np.argmax(mass >= 0.95)]

    s = [
        max(r - local(x, V), -r - local(x, -V))
        for x, r in zip(CAL[0] / scale, CAL[1] - base.predict(CAL[0]), strict=True)
    ]
    d = float(conformal_quantile(s, 0.9))
    expected = [
        [m - local(x, -V) - d, m + local(x, V) + d]
        for x, m in zip(NEW[0] / scale, base.predict(NEW[0]), strict=True)
    ]
    np.testing.assert_allclose(ours, expected)


def test_methods_are_compositions():
    dist = lc.DistSplitRegressor(LinearRegression(), law="kernel", random_state=0)
    same = composed(adjustment="theta", sides="union")
    np.testing.assert_array_equal(intervals(dist), intervals(same))
    slcp = lc.SLCPRegressor(LinearRegression(), law="kernel", random_state=0)
    np.testing.assert_array_equal(intervals(slcp), intervals(composed()))
    assert lc.SLCPRegressor().get_params() == lc.LocalizedConformalRegressor().get_params()


class Known:
    """A model that is fitted and knows these quantiles of y: x - 1, x and x + 1 + |x|."""

    quantiles = (0.05, 0.5, 0.95)

    def predict(self, X):
        x = np.asarray(X)[:, 0]
        return np.column_stack([x - 1.0, x, x + 1.0 + np.abs(x)])


def test_a_model_of_several_quantiles_gives_the_bounds_of_cqr_by_itself_and_as_a_law():
    (low, _, high), (lower, middle, upper) = Known().predict(CAL[0]).T, Known().predict(NEW[0]).T
    theta = conformal_quantile(np.maximum(low - CAL[1], CAL[1] - high), 0.9)
    expected = np.column_stack([lower - theta, upper + theta])
    for frozen in (Known(), FrozenEstimator(Known())):
        model = lc.ConformalizedQuantileRegressor(frozen, random_state=0)
        np.testing.assert_allclose(intervals(model), expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(model.predict(NEW[0]), middle)
    # Whatever the point, y - mu - (q - mu) is y - q.
    np.testing.assert_allclose(intervals(composed(law=lc.LearnedLaw(Known()))), expected, atol=1e-9)


@pytest.mark.ci
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_split_equals_mapie_and_crepes(level):
    mapie, crepes = optional("mapie.regression"), optional("crepes")
    fitted = HistGradientBoostingRegressor(max_iter=20).fit(*TRAIN)
    ours = intervals(lc.SplitConformalRegressor(FrozenEstimator(fitted), confidence_level=level))
    mapie = mapie.SplitConformalRegressor(fitted, confidence_level=level, prefit=True)
    mapie.conformalize(*CAL)
    np.testing.assert_allclose(ours, mapie.predict_interval(NEW[0])[1][:, :, 0], atol=1e-9)
    crepes = crepes.WrapRegressor(fitted)
    crepes.calibrate(*CAL)
    np.testing.assert_allclose(ours, crepes.predict_int(NEW[0], confidence=level), atol=1e-9)


@pytest.mark.ci
def test_cqr_equals_mapie():
    models = [QuantileRegressor(quantile=q, alpha=0).fit(*TRAIN) for q in (0.05, 0.95, 0.5)]
    mapie = optional("mapie.regression").ConformalizedQuantileRegressor(
        models, confidence_level=0.9, prefit=True
    )
    mapie.conformalize(*CAL)
    low, high, middle = models
    frozen = [FrozenEstimator(model) for model in (low, middle, high)]
    for method, symmetric in (("symmetric", True), ("asymmetric", False)):
        ours = intervals(lc.ConformalizedQuantileRegressor(frozen, method=method))
        theirs = mapie.predict_interval(NEW[0], symmetric_correction=symmetric)[1][:, :, 0]
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


class Spread:
    def predict(self, X):
        return 0.2 + np.abs(np.asarray(X)[:, 0])


@pytest.mark.ci
def test_normalised_equals_crepes():
    crepes, extras = optional("crepes"), optional("crepes.extras")
    fitted = LinearRegression().fit(*TRAIN)
    ours = lc.MADSplitRegressor(FrozenEstimator(fitted), spread_estimator=Spread(), beta=0.0)
    crepes, difficulty = crepes.WrapRegressor(fitted), extras.DifficultyEstimator()
    difficulty.fit(X=TRAIN[0], f=lambda X: Spread().predict(X), beta=0.0)
    crepes.calibrate(*CAL, de=difficulty)
    theirs = crepes.predict_int(NEW[0], confidence=0.9)
    np.testing.assert_allclose(intervals(ours), theirs, atol=1e-9)
