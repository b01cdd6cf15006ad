"""A law that is added to after calibration voids the calibration."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from inner import law_of
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


def test_updating_the_law_itself_is_reported(model):
    law, V = law_of(model), MORE[1] - model.predict(MORE[0])
    before = law.engine_report_
    law.update(MORE[0], V)
    after = law.engine_report_
    assert after.n_references == before.n_references + len(MORE[1])
    assert np.isnan(after.certified_error)
    assert after.reason.endswith("added to since")
    with pytest.warns(UserWarning, match="lie above all those"):
        law.update(MORE[0], V + 1e3)


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
