"""Known values of y, on every estimator: none that y can have is lost, and nothing is longer."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.base import clone

from localconformal import SLCPRegressor
from localconformal.quantiles import Support
from registry import ESTIMATORS, KINDS, ci_but, light, optional

LEVELS = [0.6, 0.3, 0.9]
#: Constructor arguments, and the values of y that they leave.
SUPPORTS = {
    "from zero": ({"support": (0, None)}, Support(0.0)),
    "both ends": ({"support": [-0.5, 9.0]}, Support(-0.5, 9.0)),
    "whole": ({"integer": True}, Support(whole=True)),
    "counts": ({"support": (0, None), "integer": True}, Support(0.0, whole=True)),
}
COUNTS = SUPPORTS["counts"][0]
pytestmark = pytest.mark.filterwarnings("ignore:.*intervals are:UserWarning")


def counts(n, seed):
    """Small whole numbers, of which many are zero, at two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.minimum(rng.poisson(np.exp(0.8 * X[:, 0])), 9.0)


X_NEW, Y_NEW = counts(200, seed=9)


@functools.cache
def fitted(estimator_class, name=None):
    params = SUPPORTS[name][0] if name else {}
    return light(estimator_class, **params).fit(*counts(300, seed=0))


def covered(intervals):
    return (intervals[:, 0] <= Y_NEW[:, None]) & (Y_NEW[:, None] <= intervals[:, 1])


@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
@pytest.mark.parametrize("name", SUPPORTS)
def test_no_y_is_lost_nothing_is_longer_and_levels_are_nested(estimator_class, name):
    support = SUPPORTS[name][1]
    models = fitted(estimator_class), fitted(estimator_class, name)
    plain, cut = (model.predict_interval(X_NEW, LEVELS) for model in models)
    assert (covered(cut) >= covered(plain)).all()
    lengths = (np.nan_to_num(each[:, 1] - each[:, 0]) for each in (cut, plain))
    assert (next(lengths) <= next(lengths) + 3e-6).all()
    lower, upper = cut[:, :, np.argsort(LEVELS)].swapaxes(0, 1)
    assert (lower <= upper).all()
    assert (lower[:, 1:] <= lower[:, :-1]).all()
    assert (upper[:, 1:] >= upper[:, :-1]).all()
    np.testing.assert_array_equal(support.nearest(cut), cut)


@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
def test_counts_are_the_whole_numbers_that_the_plain_interval_holds(estimator_class):
    plain, cut = (fitted(estimator_class, n).predict_interval(X_NEW, 0.9) for n in (None, "counts"))
    for (lower, upper), found in zip(plain, cut, strict=True):
        held = [y for y in range(2_000) if lower - 1e-6 <= y <= upper + 1e-6]
        if np.isinf(upper):
            assert found.tolist() == [0, np.inf]
        elif held:
            assert found.tolist() == [held[0], held[-1]]
        else:
            # The nearest of them, where there is none.
            assert found[0] == found[1]
            assert abs(found[0] - (lower + upper) / 2) <= 0.5 or (found[0], upper < 0) == (0, True)


@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
def test_one_by_one_frames_and_clones(estimator_class):
    model = fitted(estimator_class, "counts")
    batch = model.predict_interval(X_NEW[:20], LEVELS)
    alone = [model.predict_interval(row[None], LEVELS) for row in X_NEW[:20]]
    np.testing.assert_array_equal(batch, np.concatenate(alone))
    frame = model.predict_interval(X_NEW[:20], LEVELS, output="frame")
    np.testing.assert_array_equal(frame["lower_0.3"], batch[:, 0, 1])
    again = clone(model)
    assert {name: again.get_params()[name] for name in COUNTS} == COUNTS
    assert "support= and integer=" in str(model.guarantee_)
    # As fitted, whatever parameters say now.
    again = again.fit(*counts(300, seed=0)).set_params(support=(2, None), integer=False)
    np.testing.assert_array_equal(again.predict_interval(X_NEW[:20], LEVELS), batch)


@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
def test_model_files(estimator_class, tmp_path):
    optional("skops")
    from localconformal.io.models import load_model, save_model

    model = fitted(estimator_class, "counts")
    again = load_model(save_model(model, tmp_path / "model.skops"))
    expected = model.predict_interval(X_NEW, LEVELS)
    np.testing.assert_array_equal(again.predict_interval(X_NEW, LEVELS), expected)
    with pytest.raises(ValueError, match="not whole"):
        again.conformalize(X_NEW, Y_NEW + 0.5)


def test_a_y_that_cannot_be_is_refused(estimator_class):
    X, y = counts(60, seed=1)
    model = light(estimator_class, calibration_size=None, **COUNTS).fit(X, y)
    for shift, problem in ((-9.0, r"\d+ of 60 values outside the support"), (0.5, "60 of 60")):
        with pytest.raises(ValueError, match=problem):
            light(estimator_class, **COUNTS).fit(X, y + shift)
        with pytest.raises(ValueError, match=problem):
            model.conformalize(X, y + shift)


@pytest.mark.parametrize("support", [(3, 1), (0,), 0, "ab", (0, "x"), (np.nan, 1), (1, 2, 3)])
def test_supports_that_are_none(support):
    with pytest.raises(ValueError, match=r"support"):
        light(KINDS[0], support=support).fit(*counts(60, seed=0))
    with pytest.raises(ValueError, match="a whole number between them"):
        light(KINDS[0], support=(0.2, 0.8), integer=True).fit(*counts(60, seed=0))


@pytest.mark.parametrize("name", SUPPORTS)
def test_too_few_rows_leave_the_support(name):
    params, support = SUPPORTS[name]
    model = light(KINDS[-1], calibration_size=5, **params).fit(*counts(60, seed=0))
    said = "all of the support" if name == "both ends" else "infinite"
    with pytest.warns(UserWarning, match=f"Some intervals are {said}: got 5 calibration rows"):
        intervals = model.predict_interval(X_NEW)
    assert (intervals == [support.low, support.high]).all()
    assert (model.diagnose(X_NEW)["infinite"] == (name != "both ends")).all()


def test_diagnose_tells_of_the_intervals_that_users_get():
    model = fitted(KINDS[-1], "counts")
    lower, upper = model.predict_interval(X_NEW).T
    point = model.predict(X_NEW)
    outside = model.diagnose(X_NEW)["point_outside"]
    np.testing.assert_array_equal(outside, (point < lower) | (point > upper))


def test_quantiles_samples_and_cdf_of_counts_are_one_distribution():
    model, few = fitted(SLCPRegressor, "counts"), X_NEW[:20]
    levels = np.linspace(0.05, 0.95, 19)
    q = model.predict_quantiles(few, levels)
    # Levels asked for alone give the same, so that they never cross.
    alone = np.stack([model.predict_quantiles(few, t) for t in levels], axis=1)
    np.testing.assert_array_equal(q, alone)
    assert (np.diff(q, axis=1) >= 0).all()
    # The least whole number at which the CDF reaches the level.
    table = model.predict_cdf(few, np.tile(np.arange(-1.0, 60.0), (20, 1)))
    for j, t in enumerate(levels):
        reached = np.argmax(table > t if t < 0.5 else table >= t, axis=1) - 1.0
        np.testing.assert_array_equal(q[:, j], reached)
    drawn = model.sample(few, 4_000, random_state=0)
    shares = (drawn[:, :, None] <= np.arange(5)).mean(axis=1)
    assert np.abs(shares - table[:, 1:6]).max() < 0.04
