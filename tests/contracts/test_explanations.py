"""Why an interval is wide, on every estimator: parts add up, and one row is as in a batch."""

from __future__ import annotations

import functools
import logging
import math
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from table_frames import ALONE, frame

import localconformal as lc
from registry import ESTIMATORS, KINDS, ci_but, light, optional, smooth_data

X_NEW = smooth_data(6, seed=9, d=3)[0]
pytestmark = pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")


@functools.cache
def fitted(estimator_class, **params):
    return light(estimator_class, **params).fit(*smooth_data(200, seed=0, d=3))


def widths(model, X, **beside):
    lower, upper = model.predict_interval(X, **beside).T
    return upper - lower


def parts(found):
    """The parts (n, d), and base + their sum (n,)."""
    table = found.to_numpy()
    return table[:, :-2], table[:, :-1].sum(axis=1)


@pytest.mark.parametrize("estimator_class", ci_but(KINDS[1:], ESTIMATORS))
def test_parts_add_up_and_one_row_is_as_in_a_batch(estimator_class):
    model = fitted(estimator_class)
    found = model.explain_width(X_NEW)
    assert list(found.columns) == ["x0", "x1", "x2", "base", "width"]
    finite = np.isfinite(found["width"].to_numpy())
    np.testing.assert_array_equal(found["width"], widths(model, X_NEW))
    np.testing.assert_allclose(parts(found)[1][finite], found["width"][finite], atol=1e-6)
    assert np.isnan(parts(found)[0][~finite]).all()
    for row in (0, 4):
        alone = model.explain_width(X_NEW[row : row + 1]).to_numpy()[0]
        np.testing.assert_allclose(alone, found.to_numpy()[row], rtol=1e-9, atol=1e-9)
    level = model.confidence_level
    again = pickle.loads(pickle.dumps(model)).explain_width(X_NEW, alpha=1.0 - level)
    pd.testing.assert_frame_equal(again, found)


def shapley(model, x, background):
    """By the definition: every coalition, its width averaged over the background rows."""
    d = len(x)

    def value(taken):
        mixed = background.copy()
        mixed[:, list(taken)] = x[list(taken)]
        return widths(model, mixed).mean()

    found = np.zeros(d)
    for j in range(d):
        others = [k for k in range(d) if k != j]
        for size in range(d):
            share = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            for taken in combinations(others, size):
                found[j] += share * (value((*taken, j)) - value(taken))
    return found, value(())


def test_parts_are_shapley_values():
    X, y = smooth_data(200, seed=0)
    model = light(lc.SLCPRegressor).fit(X, y)
    # An order and its reverse are all orders of two features.
    found = model.explain_width(X_NEW[:, :2], background=X[:30])
    for row, x in enumerate(X_NEW[:, :2]):
        expected, base = shapley(model, x, X[:30])
        np.testing.assert_allclose(parts(found)[0][row], expected, atol=1e-9)
        np.testing.assert_allclose(found["base"][row], base)
    three = fitted(lc.SLCPRegressor)
    X, _ = smooth_data(60, seed=1, d=3)
    found = parts(three.explain_width(X_NEW, background=X))[0]
    expected = [shapley(three, x, X)[0] for x in X_NEW]
    # Of more features the orders are drawn.
    np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected).max())


def test_where_no_width_changes_nothing_has_a_part():
    found = fitted(lc.SplitConformalRegressor).explain_width(X_NEW)
    np.testing.assert_allclose(parts(found)[0], 0.0, atol=1e-12)


@pytest.mark.ci
def test_features_of_the_noise_have_the_largest_parts():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2_000, 8))
    y = X[:, 4] + (0.2 + X[:, 2] * X[:, 5]) * rng.normal(size=2_000)
    model = lc.SLCPRegressor(LinearRegression(), law="forest", random_state=0).fit(X, y)
    share = np.abs(parts(model.explain_width(X[:20]))[0]).mean(axis=0)
    assert set(np.argsort(share)[-2:]) == {2, 5}


def test_the_mean_of_the_background_is_the_base():
    model, (X, _) = fitted(lc.SLCPRegressor), smooth_data(30, seed=3, d=3)
    for background in (X, X[:1], X.tolist()):
        found = model.explain_width(X_NEW, background=background)
        np.testing.assert_allclose(found["base"], widths(model, np.array(background)).mean())
    own = np.stack(model._background[1], axis=1)
    assert len(own) == 64
    np.testing.assert_allclose(model.explain_width(X_NEW)["base"], widths(model, own).mean())
    # A row explained against itself has nothing to explain.
    alike = parts(model.explain_width(X_NEW[:1], background=X_NEW[:1]))[0]
    np.testing.assert_array_equal(alike, 0.0)


def test_what_a_model_keeps_is_small_whatever_the_table():
    rng = np.random.default_rng(0)
    for d in (1, 30, 900):
        X, y = rng.normal(size=(300, d)), rng.normal(size=300)
        model = lc.SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
        assert len(pickle.dumps(model._background)) < 10_000 + 64 * d
        assert all(np.isin(column, X[:, j]).all() for j, column in enumerate(model._background[1]))


def test_one_side_is_counted_from_the_point():
    X, y = smooth_data(300, 0)
    for side, end in {"upper": 1, "lower": 0}.items():
        model = light(lc.SLCPRegressor, sides=side, support=(-99, None)).fit(X, y)
        found = model.explain_width(X[:5])
        reach = np.abs(model.predict_interval(X[:5])[:, end] - model.predict(X[:5]))
        np.testing.assert_allclose(found["width"], reach)
        np.testing.assert_allclose(parts(found)[1], reach, atol=1e-9)


def test_infinite_intervals():
    X, y = smooth_data(300, 0)
    few = light(lc.SLCPRegressor, confidence_level=0.999).fit(X, y)
    with pytest.warns(UserWarning, match="needs at least 999"):
        found = few.explain_width(X[:2])
    assert np.isinf(found["width"]).all()
    assert found.drop(columns="width").isna().all(axis=None)
    # One of three cells has too few rows: walks that touch it are left out.
    cell = np.repeat([0.0, 1.0, 2.0], [150, 145, 5])
    rows = np.column_stack([X, cell])
    model = lc.MondrianConformalRegressor(
        LinearRegression(), groups=lambda rows: rows[:, 2], random_state=0
    ).fit(rows, y)
    with pytest.warns(UserWarning, match="intervals are infinite"):
        found = model.explain_width(rows[[0, 200, 299]], background=rows[::10])
    np.testing.assert_allclose(parts(found)[1][:2], found["width"][:2])
    assert np.isinf(found["width"][2])


def test_groups_beside_the_features_stay_those_of_the_row():
    X, y = smooth_data(300, 0)
    groups = np.where(np.arange(300) % 2, "odd", "even")
    model = light(lc.MondrianConformalRegressor).fit(X, y, groups=groups)
    found = model.explain_width(X[:4], groups=groups[:4])
    np.testing.assert_allclose(found["base"], widths(model, X[:4], groups=groups[:4]))
    np.testing.assert_allclose(parts(found)[0], 0.0, atol=1e-9)


@pytest.mark.ci
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_columns_of_every_type(library):
    X, y = frame(library)
    model = lc.SLCPRegressor(law=lc.KernelLaw(bandwidth=0.5), random_state=0).fit(X, y)
    found = model.explain_width(X[2:4])
    assert type(found) is type(X)
    assert list(found.columns) == [*X.columns, "base", "width"]
    np.testing.assert_allclose(parts(found)[1], found["width"].to_numpy(), atol=1e-6)
    np.testing.assert_allclose(found["width"].to_numpy(), widths(model, X[2:4]))
    if library == "pandas":
        assert found.index.tolist() == [2, 3]
    for form in ("cut", "record"):
        alone = model.explain_width(ALONE[form](X, 3)).to_numpy()[0]
        np.testing.assert_allclose(alone, found.to_numpy()[1], rtol=1e-9, atol=1e-9)


def test_labels_that_only_background_rows_have():
    X, y = smooth_data(300, 0)
    table = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))})
    model = lc.SLCPRegressor(law=lc.KernelLaw(bandwidth=0.5), random_state=0).fit(table, y)
    together = model.explain_width(table[:3])
    row = table[1:2].assign(kind=lambda one: pd.Categorical(one["kind"].astype(str)))
    assert list(row["kind"].cat.categories) < ["u", "v"]
    pd.testing.assert_frame_equal(model.explain_width(row), together[1:2])


@pytest.mark.ci
def test_models_that_need_categories_get_them():
    lightgbm = optional("lightgbm")
    X, y = smooth_data(300, 0)
    table = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))})
    booster = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1)
    model = lc.SplitConformalRegressor(booster, random_state=0).fit(table, y)
    found = model.explain_width(table[:3])
    np.testing.assert_allclose(parts(found)[1], widths(model, table[:3]))


@pytest.mark.ci
def test_model_files_keep_the_background(tmp_path):
    optional("skops")
    X, y = smooth_data(300, 0)
    kind = pd.Categorical(np.where(X[:, 1] > 0, "u", None))
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(300), unit="h")
    table = pd.DataFrame({"a": X[:, 0], "kind": kind, "whole": np.arange(300), "time": times})
    for rows in (X, table):
        model = lc.SLCPRegressor(law=lc.KernelLaw(bandwidth=0.5), random_state=0).fit(rows, y)
        again = lc.io.load_model(lc.io.save_model(model, tmp_path / "model.skops"))
        pd.testing.assert_frame_equal(again.explain_width(rows[:3]), model.explain_width(rows[:3]))


def test_a_feature_may_be_called_width():
    X, y = smooth_data(200, 0)
    table = pd.DataFrame(X, columns=["width", 7])
    table.columns = table.columns.astype(str)
    model = light(lc.SplitConformalRegressor).fit(table, y)
    found = model.explain_width(table[:2], background=table[:5])
    assert list(found.columns) == ["width", "7", "base", "width_"]
    np.testing.assert_array_equal(found["width_"], widths(model, table[:2]))


@pytest.mark.parametrize("estimator_class", ci_but(KINDS[2:], ESTIMATORS))
def test_noise_and_correction_are_the_width(estimator_class):
    model = fitted(estimator_class)
    shown = model.diagnose(X_NEW)
    np.testing.assert_array_equal(shown["width"], widths(model, X_NEW))
    assert (shown["width_noise"] >= 0.0).all()


def test_the_noise_is_the_local_law():
    model = fitted(lc.SLCPRegressor)
    shown = model.diagnose(X_NEW)
    np.testing.assert_allclose(shown["width_noise"], shown["local_upper"] - shown["local_lower"])
    np.testing.assert_allclose(shown["width"] - shown["width_noise"], 2 * shown["correction"])
    without = fitted(lc.SplitConformalRegressor).diagnose(X_NEW)["width_noise"]
    np.testing.assert_allclose(without, 0.0, atol=1e-12)


def test_what_cannot_be_explained_is_said(caplog):
    model = fitted(lc.SLCPRegressor)
    without = model._light_copy(_background=None)
    for call, said in (
        (lambda: without.explain_width(X_NEW), "as background="),
        (lambda: model.explain_width(X_NEW, background=X_NEW[:, :2]), "2 features"),
        (lambda: model.explain_width(X_NEW, confidence_level=[0.5, 0.9]), "one number"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    assert without.explain_width(X_NEW, X_NEW).shape == (6, 5)
    with caplog.at_level(logging.INFO, "localconformal"):
        model.explain_width(X_NEW)
    assert "explain_width" in caplog.text


# ---- which rows speak ---------------------------------------------------------------------------


def test_influential_rows_of_a_kernel_are_the_nearest():
    X, _ = smooth_data(200, 0, d=3)
    law = lc.KernelLaw(bandwidth=0.5)
    found = fitted(lc.SLCPRegressor, law=law).influential_rows(X_NEW, X, n_rows=4)
    for row, x in enumerate(X_NEW):
        mine = found[found["row"] == row]
        train = fitted(lc.SLCPRegressor, law=law).law_.laws[-1].view_
        places = train(lc.rows.Rows(np.vstack([x, X])))
        distance = np.linalg.norm(places[1:] - places[0], axis=1)
        weight = np.exp(-0.5 * (distance / law.bandwidth) ** 2)
        np.testing.assert_array_equal(mine["among"], np.argsort(distance)[:4])
        assert (np.diff(mine["weight"]) <= 0.0).all()
        ratio = mine["weight"].to_numpy() / mine["weight"].iloc[0]
        np.testing.assert_allclose(ratio, np.sort(weight)[::-1][:4] / weight.max(), rtol=1e-6)


@pytest.mark.parametrize("law", ci_but(["uniform"], ["forest", "auto", "uniform"]))
def test_influential_rows_of_other_laws(law):
    X, y = smooth_data(300, 0)
    model = lc.SLCPRegressor(law=law, effort="low", random_state=0).fit(X, y)
    found = model.influential_rows(X[:5], X, n_rows=300)
    np.testing.assert_allclose(found.groupby("row")["weight"].sum(), 1.0)
    if law != "uniform":
        # A row shares its own leaves more than any other does.
        own = found[found["row"] == found["among"]]
        best = found.groupby("row")["weight"].max()
        np.testing.assert_allclose(own["weight"], best)
        near = found.groupby("row").head(20)
        away = np.abs(X[near["row"], 0] - X[near["among"], 0])
        assert away.mean() < 0.5 * np.abs(X[:5, :1] - X[:, 0]).mean()


def test_influential_rows_of_methods_and_frames():
    X, y = smooth_data(200, 0)
    X = pd.DataFrame(X, index=np.arange(200) * 7)
    model = light(lc.LCPRegressor).fit(X, y)
    found = model.influential_rows(X[3:5], X, n_rows=3)
    assert found.index.unique().tolist() == X.index[3:5].tolist()
    assert found.groupby("row")["among"].first().tolist() == [3, 4]
    for other in (light(lc.SplitConformalRegressor), light(lc.SLCPRegressor, law="learned")):
        with pytest.raises(ValueError, match=r"no law with weights|no kernel between"):
            other.fit(X, y).influential_rows(X, X)


def test_features_may_have_the_names_of_the_last_columns():
    X, y = smooth_data(200, 0)
    table = pd.DataFrame(X[:, :2], columns=["base", "base_"])
    model = lc.SplitConformalRegressor(LinearRegression(), random_state=0).fit(table, y)
    assert list(model.explain_width(table[:2]).columns) == ["base", "base_", "base__", "width"]
