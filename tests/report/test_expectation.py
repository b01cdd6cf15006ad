"""How far the draw of the calibration rows moves the coverage, as the report says it."""

import numpy as np
from report_data import rows
from sklearn.linear_model import LinearRegression

from localconformal import LVDRegressor, SplitConformalRegressor
from localconformal.audit import audit
from localconformal.metrics import coverage_band
from localconformal.report import summarise
from localconformal.report.plain import plain


def calibrated(n_calibration, share, n=4_000):
    """Arguments of a report on a fitted model, with this share of the rows in their interval."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 1)), rng.normal(size=n)
    model = SplitConformalRegressor(LinearRegression(), random_state=0, calibration_size=None)
    model.fit(X, y).conformalize(X[:n_calibration] + 1e-9, y[:n_calibration])
    intervals = np.tile([-1.0, 1.0], (n, 1)) * np.quantile(np.abs(y), share)
    return {"audit": audit(X, y, intervals), "model": model, "intervals": intervals}


def test_what_the_calibration_set_explains_is_said_beside_the_binomial_band():
    given = calibrated(500, 0.915)
    found = given["audit"].summary
    low, high = coverage_band(500, found.n, 0.9)
    assert found.p_value < 0.05
    assert low < found.coverage < high
    summary = summarise(given["audit"], model=given["model"])
    told = summary["headline"]["verdict"][0]
    assert "within what a calibration set of 500 rows explains" in told
    observed = summary["headline"]["figures"][1]["detail"]
    assert f"95 % band: {100 * found.lower:.1f} to {100 * found.upper:.1f}" in observed
    assert f"500 rows explains {100 * low:.1f} to {100 * high:.1f}" in observed
    glance = summary["charts"]["glance"]
    assert glance["expected"] == plain([low, high])
    assert glance["options"][0]["columns"]["state"][0] == "within"
    assert any("within what a calibration set" in line[2] for line in summary["numbers"])


def test_a_difference_that_no_calibration_set_explains_stays_one():
    given = calibrated(500, 0.95)
    told = summarise(given["audit"], model=given["model"])["headline"]["verdict"][0]
    assert "more than chance and a calibration set of 500 rows explain" in told


def test_the_audit_may_know_the_calibration_set_by_itself():
    X, y, intervals = rows(1_000)
    summary = summarise(audit(X, y, intervals, n_calibration=300))
    low, high = coverage_band(300, 1_000, 0.9)
    assert summary["charts"]["glance"]["expected"] == plain([low, high])


def test_a_model_that_promises_nothing_explains_nothing():
    X, y, intervals = rows(300)
    model = LVDRegressor(LinearRegression(), random_state=0).fit(X[["hour"]], y)
    assert "expected" not in summarise(audit(X, y, intervals), model=model)["charts"]["glance"]
