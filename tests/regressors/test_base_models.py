"""Base models that must work, each for real."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn import ensemble
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

import localconformal as lc
from localconformal.metrics import coverage, coverage_band
from registry import ci_but, optional, quiet_catboost, smooth_data

X, Y = smooth_data(1200, seed=0)
TRAIN, TEST = slice(0, 800), slice(800, None)
# 200 calibration and 400 test rows; one chance in ten thousand to fall below.
LEAST = coverage_band(200, 400, 0.9, probability=0.9998)[0]

#: No fit, no get_params, nothing of scikit-learn.
ONLY_PREDICT = type("OnlyPredict", (), {"predict": lambda self, X: np.asarray(X)[:, 0]})


def peer(package, name, n=30, **params):
    return lambda: getattr(optional(package), name)(n_estimators=n, **params)


def lines(*levels):
    return [QuantileRegressor(alpha=0, quantile=q) for q in levels]


def frozen(model):
    return FrozenEstimator(model.fit(*smooth_data(200, seed=5)))


BOOSTING = {
    "default": lambda: None,
    "boosting": lambda: ensemble.HistGradientBoostingRegressor(max_iter=30),
    "lightgbm": peer("lightgbm", "LGBMRegressor", verbose=-1, n_jobs=1),
    "xgboost": peer("xgboost", "XGBRegressor", n_jobs=1),
}
POINT_MODELS = BOOSTING | {
    "linear": LinearRegression,
    "forest": lambda: ensemble.RandomForestRegressor(30, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), Ridge()),
    "frozen": lambda: frozen(LinearRegression()),
    "only predict": ONLY_PREDICT,
}
LEVELS = "MultiQuantile:alpha=0.05,0.5,0.95"
MULTI = {"objective": "reg:quantileerror", "quantile_alpha": [0.05, 0.5, 0.95], "n_jobs": 1}
FOREST = peer("quantile_forest", "RandomForestQuantileRegressor", random_state=0)
QUANTILE_MODELS = BOOSTING | {
    "old boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=30),
    "linear": lambda: QuantileRegressor(alpha=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), QuantileRegressor(alpha=0)),
    "pair": lambda: lines(0.05, 0.95),
    "triple": lambda: tuple(lines(0.05, 0.5, 0.95)),
    "frozen pair": lambda: [frozen(model) for model in lines(0.05, 0.95)],
    "quantile forest": FOREST,
    "frozen forest": lambda: frozen(FOREST()),
    "pipeline of a forest": lambda: make_pipeline(StandardScaler(), FOREST()),
    "catboost": quiet_catboost,
    "catboost levels": lambda: quiet_catboost(loss_function=LEVELS),
    "frozen catboost": lambda: frozen(quiet_catboost(loss_function=LEVELS)),
    "xgboost levels": peer("xgboost", "XGBRegressor", **MULTI),
    "frozen xgboost": lambda: frozen(peer("xgboost", "XGBRegressor", **MULTI)()),
}
#: Those that need packages beyond the extra `test`, and many trees that are fitted several times.
PEERS = {"lightgbm", "xgboost", "quantile forest", "frozen forest", "pipeline of a forest"}
PEERS |= {"catboost", "catboost levels", "frozen catboost", "xgboost levels", "frozen xgboost"}
TREES = {"default", "forest", "boosting", "old boosting"}


def check(model):
    intervals = model.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert np.isfinite(intervals).all()
    assert coverage(Y[TEST], intervals) > LEAST
    assert model.predict(X[TEST]).shape == (400,)


@pytest.mark.parametrize("name", ci_but(POINT_MODELS.keys() - PEERS, POINT_MODELS))
def test_point_models(name):
    check(lc.SplitConformalRegressor(POINT_MODELS[name](), random_state=0))


@pytest.mark.parametrize("name", ci_but(POINT_MODELS.keys() - PEERS - TREES, POINT_MODELS))
def test_point_models_in_folds(name):
    model = lc.SLCPRegressor(POINT_MODELS[name](), law="kernel", random_state=0)
    check(model)
    if name in ("frozen", "only predict"):
        assert "train the fitted model" in str(model.guarantee_)


@pytest.mark.parametrize("name", ci_but(QUANTILE_MODELS.keys() - PEERS - TREES, QUANTILE_MODELS))
@pytest.mark.parametrize("method", ci_but(["symmetric"], ["symmetric", "asymmetric", "m", "r"]))
def test_quantile_models(name, method):
    check(lc.ConformalizedQuantileRegressor(QUANTILE_MODELS[name](), method=method, random_state=0))


@pytest.mark.parametrize(
    "name",
    ci_but(["pair"], ["boosting", "pair", "quantile forest", "frozen pair", "catboost levels"]),
)
def test_slcp_on_quantile_models(name):
    own = {"conformity_score": "quantile", "law": "kernel", "random_state": 0}
    check(lc.SLCPRegressor(QUANTILE_MODELS[name](), **own))


@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name in QUANTILE_MODELS if name in PEERS])
def test_laws_of_quantile_models(name):
    law = lc.LearnedLaw(QUANTILE_MODELS[name]())
    model = lc.SLCPRegressor(LinearRegression(), law=law, random_state=0)
    check(model)
    assert ("train the fitted model" in str(model.guarantee_)) == name.startswith("frozen")


def test_out_of_bag_reference():
    forest, reach = ensemble.RandomForestRegressor(40, random_state=0), {}
    for reference in ("oob", "train"):
        model = lc.SLCPRegressor(forest, reference=reference, law="kernel", random_state=0)
        check(model)
        reach[reference] = model.diagnose(X[TEST])["local_upper"].mean()
    # In-sample residuals are too small, out-of-bag ones are not.
    assert reach["oob"] > 1.5 * reach["train"]
    assert forest.oob_score is False


def test_frozen_model_scores_every_row_once():
    """No fold is refitted and no row is lost: "cross-fit" means "holdout" there."""
    base, found = frozen(LinearRegression()), []
    for name in ("cross-fit", "holdout"):
        model = lc.SLCPRegressor(base, reference=name, law="kernel", random_state=0)
        found.append(model.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST]))
        assert model.fit_report_["rows"] == {"train": 600, "reference": 600, "calibration": 200}
    np.testing.assert_array_equal(*found)


def table(n, seed):
    rng = np.random.default_rng(seed)
    weather = rng.choice(["clear", "mist", "snow"], size=n)
    hours = rng.integers(0, 24, size=n).astype(float)
    y = hours / 4 + (weather == "snow") * rng.normal(scale=3.0, size=n) + rng.normal(size=n)
    hours[rng.uniform(size=n) < 0.1] = np.nan
    frame = pd.DataFrame({"weather": weather, "hours": hours, "holiday": rng.uniform(size=n) < 0.1})
    return frame.astype({"weather": "category"}), y


@pytest.mark.ci
def test_catboost_reads_categories_by_itself_as_an_estimator_and_fitted_as_a_law():
    (X, y), (X_new, y_new) = table(900, seed=0), table(400, seed=1)
    # A tuple: scikit-learn cannot clone a model whose lists are copied by its constructor.
    own = {"iterations": 60, "one_hot_max_size": 5, "cat_features": ("weather", "holiday")}
    base = quiet_catboost(loss_function=LEVELS, **own)
    fitted = FrozenEstimator(clone(base).fit(*table(500, seed=2)))
    for model in (
        lc.ConformalizedQuantileRegressor(base, random_state=0),
        lc.SLCPRegressor(law=lc.LearnedLaw(fitted), random_state=0),
    ):
        intervals = model.fit(X, y).predict_interval(X_new)
        assert coverage(y_new, intervals) > LEAST
        length, snow = np.diff(intervals)[:, 0], X_new["weather"] == "snow"
        assert length[snow].mean() > 1.1 * length[~snow].mean()


OLD = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="boosting of this scikit-learn does not read polars categoricals",
)


@pytest.mark.parametrize("law", ci_but(["forest"], ["forest", "neighbors", lc.KernelLaw("boxcar")]))
@pytest.mark.parametrize(
    "make", [pd.DataFrame, pytest.param(pl.from_pandas, marks=[pytest.mark.ci, OLD])]
)
def test_categoricals_and_missing_values(make, law):
    (X, y), (X_new, y_new) = table(900, seed=0), table(400, seed=1)
    base = ensemble.HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=40)
    model = lc.SLCPRegressor(base, law=law, random_state=0).fit(make(X), y)
    intervals = model.predict_interval(make(X_new))
    assert coverage(y_new, intervals) > LEAST
    length, snow = np.diff(intervals)[:, 0], X_new["weather"] == "snow"
    if law == "forest":
        assert length[snow].mean() > 1.3 * length[~snow].mean()
