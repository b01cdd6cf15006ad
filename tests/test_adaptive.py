"""Adaptive intervals: against plain references and MAPIE; bounds, labels, states, threads."""

import copy
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal.composition import Correction
from localconformal.corrections import Cells
from localconformal.metrics import coverage
from localconformal.monitor import adaptive as module
from localconformal.quantiles import conformal_quantile
from registry import ESTIMATORS, ci_but, light, optional, smooth_data

METHODS = ("tracking", "aci", "dtaci", "rolling")
ALPHA = 0.1


def drifting(n, seed, last=3.0):
    """Noise that grows from 1 to ``last``, larger where the first feature is."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    spread = (0.3 + 2 * X[:, 0]) * np.linspace(1.0, last, n)
    return X, X[:, 1] + spread * rng.normal(size=n)


def split_model(n_cal=99, **params):
    model = lc.SplitConformalRegressor(
        LinearRegression(), calibration_size=None, random_state=0, **params
    )
    return model.fit(*drifting(200, 0, 1.0)).conformalize(*drifting(n_cal, 1, 1.0))


def two_sides():
    """Sides that are calibrated apart."""
    model = lc.LocalizedConformalRegressor(
        LinearRegression(), law="uniform", adjustment="plain", sides="union", random_state=0
    )
    return model.fit(*drifting(800, 0, 1.0))


def local_model():
    return light(lc.SLCPRegressor).fit(*drifting(600, 0, 1.0))


def walk(adaptive, X, y):
    """One row after the other: all intervals (n, 2)."""
    found = []
    for t in range(len(y)):
        found.append(adaptive.predict_interval(X[[t]])[0])
        adaptive.update(X[[t]], y[[t]])
    return np.array(found)


def scores_of(model, X, y):
    return np.abs(y - model.predict(X))


# ---- plain references -----------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ci_but([0.3], [0.005, 0.3]))
def test_aci_is_the_published_recursion_step_for_step(gamma):
    """With the large step alpha_t leaves (0, 1) on both sides."""
    model, (X, y) = split_model(), drifting(150, 2)
    cal, point = model.calibration_.V[:, 0], model.predict(X)
    adaptive, alpha, seen = lc.AdaptiveIntervals(model, "aci", step=gamma), ALPHA, []
    for t, (lower, upper) in enumerate(walk(adaptive, X, y)):
        seen.append(alpha)
        err = 0.0
        if alpha >= 1.0:
            assert lower == pytest.approx(point[t]) == upper
            err = 1.0
        else:
            q = math.inf if alpha <= 0.0 else float(conformal_quantile(cal, 1.0 - alpha))
            assert (lower, upper) == (pytest.approx(point[t] - q), pytest.approx(point[t] + q))
            err = float(abs(y[t] - point[t]) > q)
        alpha += gamma * (ALPHA - err)
    assert (min(seen) <= 0.0) == (gamma == 0.3)
    assert adaptive._course.rule.now[0, 0] == pytest.approx(alpha)


@pytest.mark.ci
def test_aci_is_that_of_mapie_where_both_are_defined():
    """MAPIE raises where alpha_t is below 1 / (n + 1), and cuts alpha_t at 0 and 1."""
    mapie, scores = optional("mapie.regression"), optional("mapie.conformity_scores")
    model, (X, y) = split_model(499), drifting(60, 2, 1.5)
    base = LinearRegression().fit(*drifting(200, 0, 1.0))
    theirs = mapie.TimeSeriesRegressor(
        base,
        method="aci",
        cv="prefit",
        conformity_score=scores.AbsoluteConformityScore(sym=True),
    ).fit(*drifting(499, 1, 1.0))
    adaptive = lc.AdaptiveIntervals(model, "aci", step=0.007)
    for t in range(len(y)):
        expected = theirs.predict(X[[t]], confidence_level=0.9)[1][:, :, 0]
        assert adaptive.predict_interval(X[[t]]) == pytest.approx(expected)
        adaptive.update(X[[t]], y[[t]])
        theirs.adapt_conformal_inference(X[[t]], y[[t]], gamma=0.007, confidence_level=0.9)
    (alpha,) = theirs.current_alpha.values()
    assert adaptive._course.rule.now[0, 0] == pytest.approx(alpha)


def test_tracking_is_its_recursion_in_units_of_the_calibration_scores():
    model, (X, y) = split_model(), drifting(100, 2)
    cal, point = np.sort(model.calibration_.V[:, 0]), model.predict(X)
    unit = np.quantile(cal, 0.9, method="higher") - np.quantile(cal, 0.5, method="higher")
    theta, eta = float(conformal_quantile(cal, 0.9)), 0.2 * unit
    for t, (lower, upper) in enumerate(walk(lc.AdaptiveIntervals(model, step=0.2), X, y)):
        assert (lower, upper) == (pytest.approx(point[t] - theta), pytest.approx(point[t] + theta))
        theta += eta * (float(abs(y[t] - point[t]) > theta) - ALPHA)


@pytest.mark.ci
def test_dtaci_is_its_published_form():
    model, (X, y) = split_model(), drifting(100, 2)
    cal, point = model.calibration_.V[:, 0], model.predict(X)
    adaptive = lc.AdaptiveIntervals(model, "dtaci")
    found = walk(adaptive, X, y)
    gammas, n, k, horizon = 0.001 * 2.0 ** np.arange(8), len(cal), 8, 500
    eta = math.sqrt(3 / horizon) * math.sqrt(
        (math.log(k * horizon) + 2) / ((1 - ALPHA) ** 2 * ALPHA**3 + ALPHA**2 * (1 - ALPHA) ** 3)
    )
    sigma, alphas, weights = 1 / (2 * horizon), np.full(k, ALPHA), np.ones(k)
    for t in range(len(y)):
        alpha = float(np.sum(weights * alphas) / weights.sum())
        q = math.inf if alpha <= 0 else float(conformal_quantile(cal, 1 - alpha))
        assert found[t, 1] == pytest.approx(point[t] + q)
        beta = (1 + np.sum(cal >= abs(y[t] - point[t]))) / (n + 1)
        loss = ALPHA * (beta - alphas) - np.minimum(0.0, beta - alphas)
        raised = weights * np.exp(-eta * loss)
        weights = (1 - sigma) * raised + raised.sum() * sigma / k
        alphas = alphas + gammas * (ALPHA - (alphas >= beta))
    assert adaptive._course.rule.weights[0] == pytest.approx(weights / weights.sum())


@pytest.mark.parametrize("rolled", ci_but([(40, 1.0)], [(None, 1.0), (40, 1.0), (130, 0.97)]))
def test_a_window_holds_the_newest_scores(rolled):
    window, decay = rolled
    model, (X, y) = split_model(), drifting(80, 2)
    point, size = model.predict(X), window or 99
    scores = np.append(model.calibration_.V[:, 0], np.abs(y - point))
    adaptive = lc.AdaptiveIntervals(model, "rolling", window=window, decay=decay)
    for t, (_, upper) in enumerate(walk(adaptive, X, y)):
        newest = scores[max(0, 99 + t - size) : 99 + t][::-1]
        weights = np.append(decay ** np.arange(1, len(newest) + 1), 1.0)
        order = np.argsort(np.append(newest, np.inf))
        reached = np.cumsum((weights / weights.sum())[order]) >= 0.9 - 1e-9
        q = np.append(newest, np.inf)[order][np.argmax(reached)]
        assert upper == pytest.approx(point[t] + q)


# ---- promises -------------------------------------------------------------------------------


def hostile_stream(kind, n, rng):
    """Scores (n,) of a kind; the adversary's are made while it is told the threshold."""
    t, noise = np.arange(n), np.abs(rng.normal(size=n))
    return {
        "drift": noise * (1 + 4 * t / n),
        "jumps": noise * np.exp(rng.normal(size=10))[t * 10 // n],
        "seasons": noise * (1.2 + np.sin(2 * np.pi * t / rng.integers(20, n))),
        "trend down": noise * (5 - 4.9 * t / n),
    }.get(kind, noise)


def miss_or_hit(kind, theta, score, rng, t):
    """The adversary's score, given the threshold."""
    if kind == "always missed":
        return min(theta + 1e-6, 6.0)
    if kind == "worst":
        return 6.0 if (rng.random() < 0.5) == (t % 7 < 3) else 0.0
    return score


KINDS_OF_STREAM = ["drift", "jumps", "seasons", "trend down", "always missed", "worst"]


def check_bound(method, model, seed, n=400, batch=1):
    """The long-run coverage is inside the bound at the end, on one adversarial stream."""
    rng = np.random.default_rng(seed)
    kind, step = KINDS_OF_STREAM[seed % 6], float(rng.uniform(0.01, 0.3))
    adaptive = lc.AdaptiveIntervals(model, method, step=step)
    scores, X = hostile_stream(kind, n, rng), rng.uniform(size=(n, 2))
    missed = 0
    for t in range(0, n, batch):
        rows = X[t : t + batch]
        bounds, point = adaptive.predict_interval(rows), model.predict(rows)
        y = np.array(
            [
                point[i] + miss_or_hit(kind, bounds[i, 1] - point[i], scores[t + i], rng, t)
                for i in range(len(rows))
            ]
        )
        missed += int(np.sum((y < bounds[:, 0]) | (y > bounds[:, 1])))
        adaptive.update(rows, y)
    found = adaptive.guarantee_
    assert abs(found.n_missed / n - ALPHA) <= found.bound + 1e-12
    # What is shown encloses what is judged: an empty set is a point.
    assert missed <= found.n_missed
    return found


@pytest.mark.parametrize("method", ["tracking", "aci"])
def test_long_run_coverage_is_inside_its_bound_on_adversarial_streams(method):
    model = split_model()
    for seed in range(6):
        check_bound(method, model, seed, n=60, batch=5 + seed)


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["tracking", "aci"])
def test_long_run_coverage_is_inside_its_bound_on_200_adversarial_streams(method):
    models = split_model(), local_model()
    options = {"n": 200, "batch": 8}
    found = [check_bound(method, models[seed // 6 % 2], seed, **options) for seed in range(200)]
    assert min(one.bound for one in found) < 0.1


@pytest.mark.ci
def test_the_bound_is_sharp_where_the_adversary_always_misses():
    """ACI goes to the whole line, so that it cannot be missed for long."""
    model = split_model()
    for method in ("tracking", "aci"):
        found = check_bound(method, model, 4, n=300, batch=5)
        assert found.n_missed / 300 >= ALPHA


@pytest.mark.ci
def test_each_expert_of_dtaci_keeps_the_bound_of_aci():
    model, (X, y) = split_model(), drifting(500, 3, 8.0)
    cal, s = model.calibration_.V[:, 0], scores_of(model, X, y)
    adaptive, n = lc.AdaptiveIntervals(model, "dtaci"), len(y)
    adaptive.update(X, y)
    beta = 1.0 - np.searchsorted(np.sort(cal), s) / (len(cal) + 1.0)
    gammas = 0.001 * 2.0 ** np.arange(8)
    alphas, missed = np.full(8, ALPHA), np.zeros(8)
    for b in beta:
        missed += alphas >= b
        alphas = alphas + gammas * (ALPHA - (alphas >= b))
    assert (np.abs(missed / n - ALPHA) <= (0.9 + gammas) / (gammas * n)).all()
    assert math.isinf(adaptive.guarantee_.bound)
    assert "each step keeps the bound of ACI" in str(adaptive.guarantee_)


@pytest.mark.ci
def test_coverage_is_kept_under_drift_where_the_model_loses_it():
    model, (X, y) = local_model(), drifting(1_000, 5, 4.0)
    assert coverage(y, model.predict_interval(X)) < 0.75
    for method in METHODS:
        adaptive = lc.AdaptiveIntervals(model, method).update(X, y)
        assert adaptive.guarantee_.n_missed < 0.15 * 1_000, method
        widths = np.diff(adaptive.predict_interval(X), axis=1)[:, 0]
        if method == "tracking":
            assert np.isfinite(widths).all()
            assert widths[X[:, 0] > 0.8].mean() > 2 * widths[X[:, 0] < 0.2].mean()


@pytest.mark.ci
def test_sides_that_are_calibrated_apart_are_followed_apart():
    model, rng = two_sides(), np.random.default_rng(0)
    X = rng.uniform(size=(3_000, 2))
    # Only large values become larger.
    noise = (0.3 + 2 * X[:, 0]) * rng.normal(size=3_000)
    y = X[:, 1] + np.where(noise > 0, 3 * noise, noise)
    for method in ("tracking", "aci"):
        adaptive = lc.AdaptiveIntervals(model, method).update(X, y)
        found, (below, above) = adaptive.guarantee_, adaptive._course.rule.now.reshape(2)
        assert abs(found.n_missed / found.n - ALPHA) <= found.bound
        assert (above > below) == (method == "tracking")


@pytest.mark.ci
def test_intervals_scale_with_y():
    X, y = drifting(60, 2)
    plain = walk(lc.AdaptiveIntervals(split_model()), X, y)
    scaled = lc.SplitConformalRegressor(LinearRegression(), calibration_size=None)
    fit_X, fit_y = drifting(200, 0, 1.0)
    cal_X, cal_y = drifting(99, 1, 1.0)
    scaled.fit(fit_X, 1e6 * fit_y).conformalize(cal_X, 1e6 * cal_y)
    assert walk(lc.AdaptiveIntervals(scaled), X, 1e6 * y) == pytest.approx(1e6 * plain)


# ---- labels: in batches, late, missing ------------------------------------------------------


@pytest.mark.parametrize("method", ci_but(["tracking"], METHODS))
def test_rows_without_an_interval_count_one_by_one(method):
    model, (X, y) = local_model(), drifting(25, 2)
    one_by_one = lc.AdaptiveIntervals(model, method)
    walk(one_by_one, X, y)
    at_once = lc.AdaptiveIntervals(model, method).update(X, y)
    assert same_state(at_once, one_by_one)
    in_parts = lc.AdaptiveIntervals(model, method).update(X[:7], y[:7]).update(X[7:], y[7:])
    assert same_state(at_once, in_parts)


def same_state(one, other):
    """Equal up to the last bits of a prediction, which may depend on the batch."""
    flat = [np.array(json.loads(json.dumps(each.state()["rule"]["now"]))) for each in (one, other)]
    counts = one.state()["counts"], other.state()["counts"]
    return np.allclose(*flat, rtol=1e-9) and counts[0] == counts[1]


def test_late_labels_are_judged_by_the_interval_that_was_made():
    model, (X, y) = split_model(), drifting(40, 2, 1.0)
    adaptive = lc.AdaptiveIntervals(model, "aci", step=0.2)
    first = adaptive.predict_interval(X[:10])
    # Meanwhile other rows move alpha so far that nothing would be missed.
    far = X[10:20], y[10:20] + 1e3
    adaptive.predict_interval(far[0])
    adaptive.update(*far)
    assert np.isinf(adaptive.predict_interval(X[:1], remember=False)).all()
    missed = int(np.sum((y[:10] < first[:, 0]) | (y[:10] > first[:, 1])))
    before = adaptive.guarantee_.n_missed
    adaptive.update(X[:10][::-1], y[:10][::-1])
    assert adaptive.guarantee_.n_missed == before + missed
    assert adaptive._course.lag == 19
    assert adaptive._awaited == {}
    assert adaptive.guarantee_.n == 20


def test_missing_labels_teach_nothing():
    model, (X, y) = split_model(), drifting(20, 2)
    adaptive, some = lc.AdaptiveIntervals(model), y.copy()
    some[::2] = np.nan
    adaptive.predict_interval(X)
    adaptive.update(X, some)
    assert adaptive.guarantee_.n == 10
    assert adaptive._awaited == {}
    assert adaptive._n_awaited == 0
    adaptive.update(X[:3], [np.nan] * 3)
    assert adaptive.guarantee_.n == 10


def test_equal_rows_wait_in_their_order_and_old_ones_are_forgotten(monkeypatch):
    model = split_model()
    adaptive, X = lc.AdaptiveIntervals(model, step=5.0), np.full((1, 2), 0.5)
    point = model.predict(X)[0]
    first = adaptive.predict_interval(X)
    adaptive.update([[0.1, 0.1]], [100.0])
    second = adaptive.predict_interval(X)
    inside_second = (first[0, 1] + second[0, 1]) / 2
    assert second[0, 1] > first[0, 1]
    adaptive.update(X, [inside_second])
    assert adaptive.guarantee_.n_missed == 2
    adaptive.update(X, [inside_second])
    assert adaptive.guarantee_.n_missed == 2
    assert point < first[0, 1]
    monkeypatch.setattr(module, "_MOST_AWAITED", 5)
    adaptive.predict_interval(drifting(9, 3)[0])
    assert sum(map(len, adaptive._awaited.values())) == adaptive._n_awaited == 5


# ---- every estimator ------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=ci_but([lc.SLCPRegressor], ESTIMATORS), ids=lambda cls: cls.__name__
)
def fitted(request):
    X, y = smooth_data(400, 0)
    return light(request.param).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_estimator_adapts(fitted, method):
    X, y = smooth_data(50, 7)
    correction = fitted.parts_.correction
    can_roll = type(correction) is Correction or isinstance(correction, Cells)
    if method == "rolling" and not can_roll:
        with pytest.raises(ValueError, match="conformalize with recent rows"):
            lc.AdaptiveIntervals(fitted, method)
        return
    adaptive = lc.AdaptiveIntervals(fitted, method)
    start = adaptive.predict_interval(X, remember=False)
    own = fitted.predict_interval(X)
    # The first intervals are the model's own, if those are finite.
    finite = np.isfinite(own).all(axis=1)
    np.testing.assert_allclose(start[finite], own[finite], rtol=1e-9, atol=1e-9)
    adaptive.update(X[:30], 5 * y[:30])
    bounds = adaptive.predict_interval(X[30:])
    assert (bounds[:, 0] <= bounds[:, 1]).all()
    alone = np.vstack([adaptive.predict_interval(X[[i]], remember=False) for i in range(30, 50)])
    np.testing.assert_allclose(alone, bounds, rtol=1e-9, atol=1e-9)
    again = lc.AdaptiveIntervals.restore(fitted, json.loads(json.dumps(adaptive.state())))
    for twin in (again, pickle.loads(pickle.dumps(adaptive)), copy.deepcopy(adaptive)):
        twin.update(X[30:], y[30:])
        assert twin.guarantee_.n == 50
    adaptive.update(X[30:], y[30:])
    assert again.guarantee_ == adaptive.guarantee_
    np.testing.assert_array_equal(again.predict_interval(X), adaptive.predict_interval(X))
    # Thresholds far beyond all scores, on either side, make no bound that is not a number.
    rule = adaptive._course.rule
    for far in (-50.0, 50.0) if method == "tracking" else ():
        adaptive._course = replace(adaptive._course, rule=replace(rule, now=rule.now + far))
        assert np.isfinite(adaptive.predict_interval(X, remember=False)).all()
    # Missed rows have made sets larger.
    more = lc.AdaptiveIntervals(fitted, method, **({} if method != "rolling" else {"window": 60}))
    more.update(X, 50 + 20 * y)
    wider = np.diff(more.predict_interval(X), axis=1) >= np.diff(start, axis=1) - 1e-9
    assert wider.all()


def test_groups_beside_x_and_frames():
    X, y = smooth_data(600, 0)
    frame, labels = pd.DataFrame(X, columns=["a", "b"]), np.where(X[:, 0] < 0, "low", "high")
    model = lc.MondrianConformalRegressor(LinearRegression(), random_state=0)
    model.fit(frame, y, groups=labels)
    adaptive = lc.AdaptiveIntervals(model, "rolling", window=50)
    found = adaptive.predict_interval(frame[:9], groups=labels[:9], output="frame")
    assert list(found.columns) == ["lower", "upper"]
    adaptive.update(frame[:9], y[:9], groups=labels[:9])
    assert adaptive._n_awaited == 0
    state = json.loads(json.dumps(adaptive.state()))
    again = lc.AdaptiveIntervals.restore(model, state)
    asked = {"X": frame[9:], "groups": labels[9:]}
    np.testing.assert_array_equal(
        again.predict_interval(**asked), adaptive.predict_interval(**asked)
    )
    with pytest.raises(ValueError, match="pass groups="):
        adaptive.update(frame[:9], y[:9])


# ---- beside a monitor; other models; threads ------------------------------------------------


def test_the_alarm_starts_adaptation():
    model = split_model(500)
    monitor = lc.CoverageMonitor(model, random_state=0)
    adaptive = lc.AdaptiveIntervals(model, monitor=monitor)
    X, y = drifting(200, 4, 1.0)
    adaptive.predict_interval(X)
    adaptive.update(X, y)
    assert (monitor.coverage_.n, adaptive.guarantee_.n) == (200, 0)
    assert "intervals are still the model's own" in str(adaptive.guarantee_)
    np.testing.assert_array_equal(adaptive.predict_interval(X), model.predict_interval(X))
    state = json.loads(json.dumps(adaptive.state()))
    restored = lc.AdaptiveIntervals.restore(model, state)
    for one in (adaptive, restored):
        for start in range(0, 200, 40):
            one.update(X[start : start + 40], 4 * y[start : start + 40])
        assert one.monitor.alarm_ is not None
        assert 0 < one.guarantee_.n < 200
        assert one.predict_interval(X)[0, 1] > model.predict_interval(X)[0, 1]
    assert adaptive.guarantee_ == restored.guarantee_
    with pytest.raises(ValueError, match="a monitor, which watches one calibration"):
        adaptive.follow(model)
    with pytest.raises(ValueError, match="monitor of another model"):
        lc.AdaptiveIntervals(split_model(), monitor=monitor)


def test_a_refitted_model_is_followed_and_the_promise_goes_on():
    model, (X, y) = split_model(), drifting(200, 2, 5.0)
    adaptive = lc.AdaptiveIntervals(model).update(X[:150], y[:150])
    offset = adaptive._course.rule.now.copy()
    model.conformalize(X[50:150], y[50:150])
    for call in (lambda: adaptive.predict_interval(X), lambda: adaptive.update(X, y)):
        with pytest.raises(ValueError, match=r"recalibrated; call follow\(model\)"):
            call()
    adaptive.follow(model)
    theta = (adaptive.predict_interval(X) - model.predict_interval(X))[:, 1]
    assert theta == pytest.approx(np.full(200, offset[0]))
    adaptive.update(X[150:], y[150:])
    found = adaptive.guarantee_
    assert found.n == 200
    assert abs(found.n_missed / 200 - ALPHA) <= found.bound
    with pytest.raises(ValueError, match="divides alpha differently"):
        adaptive.follow(two_sides())


def test_threads_lose_no_label():
    model, (X, y) = split_model(), drifting(1_000, 5)
    adaptive = lc.AdaptiveIntervals(model)

    def take_in(start):
        rows = slice(start, start + 25)
        adaptive.predict_interval(X[rows])
        adaptive.update(X[rows], y[rows])
        assert json.dumps(adaptive.state())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(take_in, range(0, 1_000, 25)))
    found = adaptive.guarantee_
    assert (found.n, adaptive._n_awaited) == (1_000, 0)
    rule = adaptive._course.rule
    assert rule.now[0] / rule.eta[0] == pytest.approx(found.n_missed - ALPHA * 1_000)
    assert abs(found.n_missed / 1_000 - ALPHA) <= found.bound


@pytest.mark.ci
def test_support_and_whole_numbers_stay_inside():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2))
    y = rng.poisson(1 + 5 * X[:, 0]).astype(float)
    model = lc.SplitConformalRegressor(
        LinearRegression(), support=(0, None), integer=True, random_state=0
    ).fit(X[:400], y[:400])
    bounds = walk(lc.AdaptiveIntervals(model), X[400:], y[400:])
    assert (bounds >= 0).all()
    assert (bounds % 1 == 0).all()
    assert coverage(y[400:], bounds) > 0.8
    with pytest.raises(ValueError, match="not whole numbers"):
        lc.AdaptiveIntervals(model).update(X[:1], [0.5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "pid"}, "got method='pid'; expected one of tracking, aci"),
        ({"method": "dtaci", "step": 0.1}, "step=0.1, which needs method 'tracking' or 'aci'"),
        ({"step": -1}, "step=-1; expected a positive number"),
        ({"decay": 0.9}, "decay=0.9, which needs a window"),
        ({"window": 10, "decay": 1.5}, "expected a positive number of at most 1"),
        ({"window": 0}, "window=0; expected a number of rows"),
        ({"confidence_level": [0.5, 0.9]}, "got 2 levels; expected one number"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        lc.AdaptiveIntervals(split_model(), **options)


def test_other_models_and_states_are_refused():
    with pytest.raises(ValueError, match="expected a fitted estimator"):
        lc.AdaptiveIntervals(LinearRegression())
    model = split_model()
    state = lc.AdaptiveIntervals(model).state()
    with pytest.raises(ValueError, match="belongs to another model"):
        lc.AdaptiveIntervals.restore(split_model(98), state)
    with pytest.raises(ValueError, match="format 0"):
        lc.AdaptiveIntervals.restore(model, state | {"format": 0})
    adaptive = lc.AdaptiveIntervals(model, confidence_level=0.5)
    assert (adaptive.guarantee_.confidence_level, adaptive.guarantee_.n) == (0.5, 0)
    assert "tracking, 0 of 0 rows missed" in repr(adaptive)
    with pytest.raises(ValueError, match="got output='table'"):
        adaptive.predict_interval([[0.0, 0.0]], output="table")


def test_labels_find_rows_of_their_group():
    rng = np.random.default_rng(0)
    X, kind = rng.normal(size=(400, 2)), np.repeat(["quiet", "loud"], 200)
    y = rng.normal(size=400) * np.where(kind == "loud", 10.0, 0.1)
    model = lc.MondrianConformalRegressor(LinearRegression(), random_state=0)
    adaptive = lc.AdaptiveIntervals(model.fit(X, y, groups=kind))
    adaptive.predict_interval(np.zeros((2, 2)), groups=["loud", "quiet"])
    adaptive.update(np.zeros((1, 2)), [5.0], groups=["quiet"])
    assert adaptive.guarantee_.n_missed == 1


def test_a_model_that_is_refused_is_not_followed():
    adaptive, other = lc.AdaptiveIntervals(split_model()), two_sides()
    before = adaptive.predict_interval(np.zeros((1, 2)), remember=False)
    with pytest.raises(ValueError, match="make new AdaptiveIntervals"):
        adaptive.follow(other)
    np.testing.assert_array_equal(
        adaptive.predict_interval(np.zeros((1, 2)), remember=False), before
    )


def test_states_are_json_even_where_thresholds_are_infinite():
    model = split_model()
    adaptive = lc.AdaptiveIntervals(model, "aci", step=0.5)
    X, y = drifting(40, 0)
    adaptive.update(X, 1e6 + y)
    adaptive.predict_interval(X)
    state = json.loads(json.dumps(adaptive.state(), allow_nan=False))
    again = lc.AdaptiveIntervals.restore(model, state)
    for one in (adaptive, again):
        one.update(X, y)
    assert again.guarantee_ == adaptive.guarantee_
    with pytest.raises(ValueError, match="state of format None"):
        lc.AdaptiveIntervals.restore(model, None)
    for step in (np.inf, True):
        with pytest.raises(ValueError, match="expected a positive number"):
            lc.AdaptiveIntervals(model, step=step)
