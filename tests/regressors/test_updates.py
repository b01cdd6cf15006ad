"""A law that is added to after calibration voids the calibration."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import coverage, coverage_band
from registry import light, smooth_data

LAW = KernelLaw(bandwidth="median", engine="sketch")
MORE, CAL, NEW = (smooth_data(n, seed) for seed, n in ((1, 500), (2, 300), (3, 400)))


@pytest.fixture
def model():
    return SLCPRegressor(LinearRegression(), law=LAW, random_state=0).fit(*smooth_data(800, 0))


def test_updating_clears_the_calibration(model):
    before = model.predict_interval(NEW[0])
    model.update_law(*MORE)
    with pytest.raises(NotFittedError, match="conformalize"):
        model.predict_interval(NEW[0])
    after = model.conformalize(*CAL).predict_interval(NEW[0])
    assert not np.array_equal(before, after)
    assert coverage(NEW[1], after) > coverage_band(300, 400, 0.9, 0.9998)[0]


@pytest.mark.parametrize(
    ("cls", "params", "told"),
    [
        (SLCPRegressor, {"law": KernelLaw()}, "reference engine, which cannot be added"),
        (SLCPRegressor, {"law": "neighbors"}, "cannot be added to"),
        (SplitConformalRegressor, {}, "no local law"),
    ],
)
def test_laws_that_cannot_be_added_to_keep_their_calibration(cls, params, told):
    model = light(cls, **params).fit(*smooth_data(200, 0))
    with pytest.raises(ValueError, match=told):
        model.update_law(*MORE)
    assert np.isfinite(model.predict_interval(NEW[0])).all()


def test_a_law_that_was_added_to_voids_the_calibration():
    law = KernelLaw(bandwidth=2.0, engine="sketch", random_state=0)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0)
    model.fit(*smooth_data(400, seed=0))
    X, y = smooth_data(100, seed=1)
    model.law_.laws[-1].update(X, y - model.predict(X))
    for ask in (model.predict_interval, model.diagnose):
        with pytest.raises(NotFittedError, match="added to after calibration"):
            ask(X)
    assert np.isfinite(model.conformalize(*smooth_data(100, seed=2)).predict_interval(X)).all()
