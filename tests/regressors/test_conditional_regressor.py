"""Conditional conformal prediction: what groups may be, what is infinite, and what is said."""

import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from localconformal.io import load_model, save_model
from registry import ci_but, optional, smooth_data

X, Y = smooth_data(600, seed=0)
NEW = smooth_data(50, seed=1)[0]
SCORES = ["absolute", "residual", "normalised", "quantile"]
#: They overlap.
RIGHT, LOUD = (lambda X: X[:, 0] > 0), (lambda X: np.abs(X[:, 1]) > 0.5)


def conditional(**params):
    return lc.ConditionalConformalRegressor(LinearRegression(), random_state=0, **params)


def test_groups_that_are_apart_are_mondrian_and_no_groups_but_the_constant_split():
    pairs = [
        (conditional(groups=[RIGHT]), lc.MondrianConformalRegressor(groups=RIGHT)),
        (conditional(features=lambda X: X[:, :0]), lc.SplitConformalRegressor()),
    ]
    for model, other in pairs:
        other.set_params(estimator=LinearRegression(), random_state=0).fit(X, Y)
        model.fit(X, Y)
        levels = [0.3, 0.8, 0.9, 0.95]
        found = model.predict_interval(NEW, levels)
        np.testing.assert_allclose(found, other.predict_interval(NEW, levels), rtol=1e-9, atol=1e-9)
        sizes = [one.diagnose(NEW)["effective_sample_size"] for one in (model, other)]
        np.testing.assert_allclose(*sizes)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_functions_labels_and_indicators_are_the_same_groups(make):
    side = np.where(RIGHT(X), "right", "left")
    table = {"a": X[:, 0], "b": X[:, 1], "loud": LOUD(X)}
    frame = make(table)
    expected = conditional(groups=[RIGHT, LOUD]).fit(X, Y).predict_interval(X)
    labels = make({"side": side, "loud": LOUD(X)})
    beside = conditional().fit(X, Y, groups=labels)
    ways = {
        "labels beside X": beside.predict_interval(X, groups=labels),
        "indicators": conditional(features=lambda X: np.column_stack([RIGHT(X), LOUD(X)]))
        .fit(X, Y)
        .predict_interval(X),
        "both": conditional(groups=RIGHT, features=LOUD).fit(X, Y).predict_interval(X),
    }
    for way, found in ways.items():
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=way)
    model = lc.ConditionalConformalRegressor(
        LinearRegression(), groups=["loud", lambda X: np.asarray(X["a"]) > 0], random_state=0
    )
    by_name = model.fit(frame, Y).predict_interval(frame)
    assert np.isfinite(by_name).all()
    assert "loud = True" in model.parts_.correction.design.groups_


def test_a_group_without_enough_rows_is_infinite_named_and_said():
    rng = np.random.default_rng(0)
    city = rng.choice(["a", "b"], 600).astype(object)
    city[:40] = "small"
    model = conditional(calibration_size=None).fit(X, Y, groups=city)
    assert "still missing" in str(model.guarantee_)
    model.conformalize(*smooth_data(100, seed=2), groups=["a"] * 48 + ["b"] * 48 + ["small"] * 4)
    promise = model.guarantee_
    assert promise.conditional_on == "group"
    assert "x0 = small (4)" in str(promise)
    with pytest.warns(UserWarning, match="4 calibration rows.*x0 = small"):
        intervals = model.predict_interval(NEW[:2], groups=["a", "small"])
    np.testing.assert_array_equal(np.isinf(intervals).all(axis=1), [False, True])
    # A label that training rows do not have breaks what holds between columns.
    with pytest.warns(UserWarning, match="too few calibration rows are similar"):
        assert np.isinf(model.predict_interval(NEW[:1], groups=["unseen"])).all()
    found = model.diagnose(NEW[:2], groups=["a", "unseen"])
    np.testing.assert_array_equal(found["infinite"], [False, True])
    assert found["effective_sample_size"].tolist() == [pytest.approx(48), 0]
    model.conformalize(*smooth_data(96, seed=2), groups=["a"] * 48 + ["b"] * 48)
    assert "x0 = small (0)" in str(model.guarantee_)
    assert "1 direction of phi" in str(model.guarantee_)


def test_rare_labels_may_be_one_group():
    city = np.array([f"rare {i}" if i % 4 == 0 else "many" for i in range(600)])
    model = conditional(min_group_rows=50).fit(X, Y, groups=city)
    assert np.isfinite(model.predict_interval(NEW[:2], groups=["many", "unseen"])).all()
    assert "merged into one group: x0" in str(model.guarantee_)


@pytest.mark.parametrize("score", ci_but(["absolute", "residual"], SCORES))
@pytest.mark.parametrize("law", [None, lc.KernelLaw(bandwidth="median")], ids=["plain", "law"])
def test_any_score_and_law_with_sides_apart_too(score, law):
    params = {"conformity_score": score, "law": law, "groups": [RIGHT, LOUD]}
    if score == "quantile":
        params["estimator"] = QuantileRegressor(alpha=0)
    for sides in ("joint", "union"):
        model = conditional(sides=sides).set_params(**params).fit(X, Y)
        lower, upper = model.predict_interval(X).T
        covered = (lower <= Y) & (upper >= Y)
        assert all(covered[group(X)].mean() > 0.8 for group in (RIGHT, LOUD))
        assert model.law_.laws or law is None


def test_features_give_widths_that_follow_x():
    knots = np.array([-1.5, 0.0, 1.5])
    model = conditional(features=lambda X: np.maximum(X[:, :1] - knots, 0.0)).fit(X, Y)
    width = np.diff(model.predict_interval(np.c_[[0.0, 1.2], [0.0, 0.0]]))[:, 0]
    assert width[1] > 1.5 * width[0]
    assert "under each shift" in str(model.guarantee_)


def test_randomised_intervals_are_fixed_by_the_row_and_never_larger():
    plain, drawn = (
        conditional(groups=[RIGHT, LOUD], randomised=r).fit(X, Y) for r in (False, True)
    )
    found = drawn.predict_interval(NEW)
    each = np.concatenate([drawn.predict_interval(row[None]) for row in NEW])
    np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12)
    widths, largest = (np.diff(one)[:, 0] for one in (found, plain.predict_interval(NEW)))
    assert (widths <= largest + 1e-9).all()
    assert len(np.unique(widths.round(9))) > len(np.unique(largest.round(9)))
    assert "randomised" in str(drawn.guarantee_)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"groups": ["a"]}, "one of the 2 columns of X"),
        ({"groups": [0]}, "590 labels"),
        ({"groups": [lambda X: np.zeros((len(X), 2))]}, "shape"),
        ({"features": lambda X: X[:-1]}, "expected numbers of shape"),
        ({"features": lambda X: np.full(len(X), np.nan)}, "finite"),
        ({"features": lambda X: np.array(["a"] * len(X))}, "expected numbers"),
    ],
)
def test_what_cannot_be_groups_or_features_is_refused(params, words):
    with pytest.raises(ValueError, match=words):
        # More labels than columns may be.
        conditional(calibration_size=10, **params).fit(X, Y)


def test_groups_come_in_one_way():
    with pytest.raises(ValueError, match="pass one"):
        conditional(groups=[RIGHT]).fit(X, Y, groups=RIGHT(X))
    widths = iter([1, 2])
    model = conditional(features=lambda X: X[:, [0] * next(widths)])
    with pytest.raises(ValueError, match="columns; expected 1, as at fit"):
        model.fit(X, Y)


def test_threads_that_ask_at_once_get_the_same():
    model = conditional(groups=[RIGHT, LOUD], features=lambda X: X).fit(X, Y)
    levels = [0.5, 0.7, 0.8, 0.9]
    expected = {level: model.predict_interval(X, level) for level in levels}
    fresh, found = conditional(groups=[RIGHT, LOUD], features=lambda X: X).fit(X, Y), {}

    def ask(level):
        found[level] = fresh.predict_interval(X, level)

    threads = [threading.Thread(target=ask, args=(level,)) for level in levels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for level in levels:
        np.testing.assert_array_equal(found[level], expected[level])


def test_infinite_scores_make_thresholds_infinite_and_no_more():
    calibrated = conditional(groups=[RIGHT]).fit(X, Y)
    scores = calibrated.calibration_.V
    order = np.argsort(scores[:, 0])
    rows = calibrated.calibration_.kept
    # One infinite score in each group is as good as any that is large.
    for group in (1, 2):
        inside = order[rows[order, group] == 1]
        scores[inside[-1]] = np.inf
    calibrated.calibration_._known.clear()
    assert np.isfinite(calibrated.predict_interval(NEW, 0.9)).all()
    with pytest.warns(UserWarning, match="infinite"):
        assert np.isinf(calibrated.predict_interval(NEW, 0.995)).all()


@pytest.mark.ci
def test_a_model_file_answers_alike(tmp_path):
    optional("skops")
    frame = pd.DataFrame({"a": X[:, 0], "loud": LOUD(X)})
    model = lc.ConditionalConformalRegressor(LinearRegression(), groups=["loud"], random_state=0)
    model.fit(frame, Y)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict_interval(frame), model.predict_interval(frame))


def test_columns_of_groups_are_known_by_name():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(600) < 0.3, "b": rng.random(600) < 0.5})
    model = conditional().fit(X, Y, groups=table)
    new = table[: len(NEW)]
    plain = model.predict_interval(NEW[: len(new)], groups=new)
    np.testing.assert_array_equal(
        model.predict_interval(NEW[: len(new)], groups=new[["b", "a"]]), plain
    )
    with pytest.raises(ValueError, match=r"groups has the columns \['a', 'c'\]; expected"):
        model.predict_interval(NEW[: len(new)], groups=new.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="groups has 1 columns; expected 2"):
        model.predict_interval(NEW[: len(new)], groups=new["a"])


def test_a_label_of_nobody_is_no_rare_one():
    city = np.where(np.arange(600) % 10 == 0, "rare", np.where(X[:, 0] > X[:, 0].mean(), "b", "c"))
    model = conditional(min_group_rows=100).fit(X, Y, groups=city)
    with pytest.warns(UserWarning, match="infinite"):
        bounds = model.predict_interval(NEW[:2], groups=["rare", "nobody's"])
    assert np.isfinite(bounds[0]).all()
    assert np.isinf(bounds[1]).all()
