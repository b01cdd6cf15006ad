"""The default model takes any table, and is plain gradient boosting for numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from inner import default_estimator
from localconformal import SplitConformalRegressor
from localconformal.default_model import TableBoostingRegressor, TableCodes


@parametrize_with_checks([TableBoostingRegressor()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) + rng.normal(size=n)


def table(n, seed, make=pd.DataFrame):
    """Texts, categories, dates, flags, numbers in objects, with gaps, and one column of gaps."""
    rng = np.random.default_rng(seed)
    loud = rng.uniform(size=n) < 0.4
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n).astype("m8[D]")
    X = pd.DataFrame(
        {
            "city": np.where(loud, "snow", "sun").astype(object),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], n)),
            "day": pd.Series(day),
            "flag": pd.array(rng.uniform(size=n) < 0.5, dtype="boolean"),
            "count": rng.integers(0, 9, n).astype(object),
            "nothing": pd.Series([None] * n, dtype="string"),
        }
    )
    y = 5.0 * loud + (day - day.min()).astype(float) / 50 + rng.normal(size=n)
    for name in X:
        X.loc[rng.uniform(size=n) < 0.1, name] = None
    return (X if make is pd.DataFrame else pl.from_pandas(X)), y


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame], ids=["array", "frame"])
@pytest.mark.parametrize("loss", [{}, {"loss": "quantile", "quantile": 0.3}], ids=["mean", "0.3"])
def test_of_numbers_it_is_plain_gradient_boosting(make, loss):
    X, y = numbers(200, seed=0)
    weight = np.linspace(0.5, 2.0, 200)
    plain = HistGradientBoostingRegressor(random_state=3, **loss).fit(X, y, weight)
    ours = default_estimator(3).set_params(**loss).fit(make(X), y, weight)
    np.testing.assert_array_equal(ours.predict(make(X)), plain.predict(X))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_labels_times_flags_and_gaps_are_learned_from(make):
    X, y = table(600, seed=0, make=make)
    new, y_new = table(300, seed=1, make=make)
    assert default_estimator(0).fit(X, y).score(new, y_new) > 0.5
    assert SplitConformalRegressor(random_state=0).fit(X, y).predict_interval(new).shape == (300, 2)


def test_new_labels_are_missing_and_the_order_of_rows_decides_no_code():
    X, y = table(300, seed=0)
    model = default_estimator(0).fit(X, y)
    unseen, missing = X[:50].assign(city="fog"), X[:50].assign(city=None)
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))
    assert TableCodes().fit(X).codes_ == TableCodes().fit(X[::-1]).codes_


@pytest.mark.parametrize("model", [LinearRegression(), RandomForestRegressor(5)])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_model_that_takes_numbers_alone_names_the_pipeline_that_helps(make, model):
    """Numbers are missing too, which a forest takes and a line does not."""
    X, y = table(200, seed=0)
    X = X[["city", "day", "count"]]
    assert X["count"].isna().any()
    X = X if make is pd.DataFrame else pl.from_pandas(X)
    with pytest.raises(ValueError, match="'city', 'day' hold labels or times") as raised:
        SplitConformalRegressor(model).fit(X, y)
    (said,) = str(raised.value).splitlines()
    names = (make_pipeline, make_column_transformer, OneHotEncoder, SimpleImputer, type(model))
    helps = eval(said[said.index("make_pipeline") : -1], {one.__name__: one for one in names})
    assert SplitConformalRegressor(helps).fit(X, y).predict_interval(X).shape == (200, 2)
