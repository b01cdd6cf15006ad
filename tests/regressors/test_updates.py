"""A law that is added to after calibration voids the calibration."""

from __future__ import annotations

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
    model.conformalize(*CAL)
    after = model.predict_interval(NEW[0])
    assert not np.array_equal(before, after)
    assert coverage(NEW[1], after) > coverage_band(300, 400, 0.9, 0.9998)[0]


def test_updating_the_law_itself_is_noticed(model):
    V = MORE[1] - model.predict(MORE[0])
    model.law_.laws[0].update(MORE[0], V)
    with pytest.raises(NotFittedError, match="added to after calibration"):
        model.predict_interval(NEW[0])
    with pytest.raises(NotFittedError):
        model.diagnose(NEW[0])


def test_laws_that_cannot_be_added_to():
    exact = light(SLCPRegressor, law=KernelLaw()).fit(*smooth_data(200, 0))
    with pytest.raises(ValueError, match="reference engine, which cannot be added"):
        exact.update_law(*MORE)
    for law in ("uniform", "neighbors"):
        model = light(SLCPRegressor, law=law).fit(*smooth_data(200, 0))
        with pytest.raises(ValueError, match="cannot be added to"):
            model.update_law(*MORE)
        assert np.isfinite(model.predict_interval(NEW[0])).all()


def test_no_law_to_add_to():
    model = light(SplitConformalRegressor).fit(*smooth_data(200, 0))
    with pytest.raises(ValueError, match="no local law"):
        model.update_law(*MORE)


def test_the_report_says_that_the_law_was_added_to(model):
    law = model.law_.laws[0]
    before = law.engine_report_
    law.update(MORE[0], MORE[1] - model.predict(MORE[0]))
    after = law.engine_report_
    assert after.n_references == before.n_references + len(MORE[1])
    assert np.isnan(after.certified_error)
    assert after.reason.endswith("added to since")
    with pytest.warns(UserWarning, match="lie above all those"):
        law.update(MORE[0], MORE[1] + 1e3)
