"""Base models that must work, each for real."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from lightgbm import LGBMRegressor
from quantile_forest import RandomForestQuantileRegressor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.fixes import parse_version
from xgboost import XGBRegressor

from localconformal import (
    ConformalizedQuantileRegressor,
    KernelLaw,
    LocalizedConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.metrics import coverage, coverage_band
from registry import ci_but, smooth_data

X, Y = smooth_data(1200, seed=0)
TRAIN, TEST = slice(0, 800), slice(800, None)
# 200 calibration and 400 test rows; one chance in ten thousand to fall below.
LEAST = coverage_band(200, 400, 0.9, probability=0.9998)[0]


class OnlyPredict:
    """No fit, no get_params, nothing of scikit-learn."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


POINT_MODELS = {
    "default": None,
    "linear": LinearRegression(),
    "forest": RandomForestRegressor(30, random_state=0),
    "boosting": HistGradientBoostingRegressor(max_iter=30),
    "lightgbm": LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1),
    "xgboost": XGBRegressor(n_estimators=30, n_jobs=1),
    "pipeline": make_pipeline(StandardScaler(), Ridge()),
    "frozen": FrozenEstimator(LinearRegression().fit(*smooth_data(200, seed=5))),
    "only predict": OnlyPredict(),
}


@pytest.mark.parametrize("name", POINT_MODELS)
@pytest.mark.parametrize("cls", [SLCPRegressor, SplitConformalRegressor])
def test_point_models(cls, name):
    quick = {"law": "kernel"} if cls is SLCPRegressor else {}
    model = cls(POINT_MODELS[name], **quick, random_state=0).fit(X[TRAIN], Y[TRAIN])
    intervals = model.predict_interval(X[TEST])
    assert np.isfinite(intervals).all()
    assert coverage(Y[TEST], intervals) > LEAST
    point = model.predict(X[TEST])
    assert point.shape == (400,)
    if name in ("frozen", "only predict"):
        assert "train the fitted model" in str(model.guarantee_)


QUANTILE_MODELS = {
    "default": None,
    "boosting": HistGradientBoostingRegressor(max_iter=30),
    "old boosting": GradientBoostingRegressor(n_estimators=30),
    "lightgbm": LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1),
    "xgboost": XGBRegressor(n_estimators=30, n_jobs=1),
    "linear": QuantileRegressor(alpha=0),
    "pipeline": make_pipeline(StandardScaler(), QuantileRegressor(alpha=0)),
    "quantile forest": RandomForestQuantileRegressor(30, random_state=0),
    "pair": [QuantileRegressor(alpha=0, quantile=q) for q in (0.05, 0.95)],
    "triple": tuple(QuantileRegressor(alpha=0, quantile=q) for q in (0.05, 0.5, 0.95)),
    "frozen pair": [
        FrozenEstimator(QuantileRegressor(alpha=0, quantile=q).fit(*smooth_data(200, seed=5)))
        for q in (0.05, 0.95)
    ],
    "frozen forest": FrozenEstimator(
        RandomForestQuantileRegressor(30, random_state=0).fit(*smooth_data(200, seed=5))
    ),
}


@pytest.mark.parametrize("name", QUANTILE_MODELS)
@pytest.mark.parametrize("method", ci_but(["symmetric"], ["symmetric", "asymmetric", "m", "r"]))
def test_quantile_models(name, method):
    model = ConformalizedQuantileRegressor(QUANTILE_MODELS[name], method=method, random_state=0)
    intervals = model.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert np.isfinite(intervals).all()
    assert coverage(Y[TEST], intervals) > LEAST
    assert model.predict(X[TEST]).shape == (400,)


@pytest.mark.parametrize(
    "name", ci_but(["pair"], ["boosting", "pair", "quantile forest", "frozen pair"])
)
def test_slcp_on_quantile_models(name):
    model = SLCPRegressor(QUANTILE_MODELS[name], score="quantile", law="kernel", random_state=0)
    intervals = model.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert coverage(Y[TEST], intervals) > LEAST


def test_out_of_bag_reference():
    forest = RandomForestRegressor(60, random_state=0)
    model = SLCPRegressor(forest, reference="oob", law="kernel", random_state=0).fit(
        X[TRAIN], Y[TRAIN]
    )
    in_sample = SLCPRegressor(forest, reference="train", law="kernel", random_state=0).fit(
        X[TRAIN], Y[TRAIN]
    )
    assert coverage(Y[TEST], model.predict_interval(X[TEST])) > LEAST
    # In-sample residuals are too small, out-of-bag ones are not.
    seen = model.diagnose(X[TEST])["local_upper"].mean()
    assert seen > 1.5 * in_sample.diagnose(X[TEST])["local_upper"].mean()
    assert forest.oob_score is False


def test_frozen_model_scores_every_row_once():
    """No fold is refitted and no row is lost: "cross-fit" means "holdout" there."""
    frozen = FrozenEstimator(LinearRegression().fit(*smooth_data(200, seed=5)))
    by_name = {
        name: SLCPRegressor(frozen, reference=name, law="kernel", random_state=0).fit(
            X[TRAIN], Y[TRAIN]
        )
        for name in ("cross-fit", "holdout")
    }
    for model in by_name.values():
        assert model.fit_report_["rows"] == {"train": 600, "reference": 600, "calibration": 200}
    np.testing.assert_array_equal(
        by_name["cross-fit"].predict_interval(X[TEST]), by_name["holdout"].predict_interval(X[TEST])
    )


def table(n, seed):
    rng = np.random.default_rng(seed)
    weather = rng.choice(["clear", "mist", "snow"], size=n)
    hours = rng.integers(0, 24, size=n).astype(float)
    y = hours / 4 + (weather == "snow") * rng.normal(scale=3.0, size=n) + rng.normal(size=n)
    hours[rng.uniform(size=n) < 0.1] = np.nan
    return {"weather": weather, "hours": hours, "holiday": rng.uniform(size=n) < 0.1}, y


def pandas_table(columns):
    return pd.DataFrame(columns).astype({"weather": "category"})


def polars_table(columns):
    return pl.DataFrame(columns).with_columns(pl.col("weather").cast(pl.Categorical))


POLARS = pytest.param(
    polars_table,
    marks=pytest.mark.skipif(
        parse_version(sklearn.__version__) < parse_version("1.8"),
        reason="boosting of this scikit-learn does not read polars categoricals",
    ),
)


@pytest.mark.parametrize("make", [pandas_table, POLARS])
@pytest.mark.parametrize(
    "law", ["forest", *ci_but([], ["neighbors", KernelLaw("boxcar")])], ids=str
)
def test_categoricals_and_missing_values(make, law):
    columns, y = table(900, seed=0)
    new_columns, y_new = table(400, seed=1)
    base = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
    model = SLCPRegressor(base, law=law, random_state=0).fit(make(columns), y)
    intervals = model.predict_interval(make(new_columns))
    assert coverage(y_new, intervals) > LEAST
    # Snow is noisy, and the law can see it.
    length = intervals[:, 1] - intervals[:, 0]
    snow = new_columns["weather"] == "snow"
    if law == "forest":
        assert length[snow].mean() > 1.3 * length[~snow].mean()


def test_frame_into_a_pipeline():
    columns, y = table(600, seed=0)
    columns["hours"] = np.nan_to_num(columns["hours"])
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["weather"]), remainder="passthrough"), Ridge()
    )
    model = SLCPRegressor(inner, law="kernel", random_state=0).fit(pandas_table(columns), y)
    assert model.predict_interval(pandas_table(columns)).shape == (600, 2)


def test_sample_weight_reaches_the_base_model():
    weight = np.where(X[TRAIN, 0] > 0, 1.0, 0.0)
    for reference in ("cross-fit", "train", "holdout"):
        model = LocalizedConformalRegressor(
            LinearRegression(), reference=reference, law="kernel", random_state=0
        )
        weighted = model.fit(X[TRAIN], Y[TRAIN], sample_weight=weight).predict(X[TEST])
        plain = model.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])
        assert not np.allclose(weighted, plain)


def test_outputs_embedding_measures_distance_in_predictions():
    model = SLCPRegressor(LinearRegression(), law=KernelLaw(embedding="outputs"), random_state=0)
    model.fit(X[TRAIN], Y[TRAIN])
    assert model.law_.laws[0].rows(X[TEST]).shape == (400, 1)
    assert coverage(Y[TEST], model.predict_interval(X[TEST])) > LEAST


@pytest.mark.ci
def test_parallel_cross_fitting_gives_the_same():
    one, two = (
        SLCPRegressor(LinearRegression(), law="kernel", random_state=0, n_jobs=n) for n in (None, 2)
    )
    np.testing.assert_array_equal(
        one.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST]),
        two.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST]),
    )


def test_nested_parameters():
    model = SLCPRegressor(Ridge(), law=KernelLaw())
    model.set_params(estimator__alpha=3.0, law__bandwidth="cv", law__kernel="boxcar")
    assert (model.estimator.alpha, model.law.bandwidth, model.law.kernel) == (3.0, "cv", "boxcar")
    model.set_params(score="normalised").fit(X[TRAIN], Y[TRAIN])
    assert model.get_params()["score"] == "normalised"
    assert isinstance(model.score(X[TEST], Y[TEST]), float)
