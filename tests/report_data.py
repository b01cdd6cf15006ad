"""Audits to report on: an ordinary one, and awkward ones; each is made once."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor
from localconformal.audit import audit, compare

HOSTILE = "<script>alert(1)</script>"
#: They would break out of attributes, of JSON, of script elements and of lines.
AWKWARD = ['"><img src=x onerror=alert(1)>', "</script><b>", "a\u2028b\u2029c", "&amp;'", "<!--"]
UNWRITABLE = "\ud800\x00"


def rows(n, seed=0):
    """A table of numbers, labels and missing values; intervals fail for snow before seven."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"temperature": rng.normal(size=n), "hour": rng.integers(0, 24, n)})
    X["weather"] = rng.choice(["clear", "rain", "snow"], n)
    X.loc[rng.uniform(size=n) < 0.1, "temperature"] = np.nan
    fails, scale = (X["weather"] == "snow") & (X["hour"] < 7), rng.uniform(0.5, 2.0, n)
    y = scale * rng.normal(size=n) * np.where(fails, 3.0, 1.0)
    return X, y, scale[:, None] * np.array([-1.645, 1.645])


@cache
def ordinary():
    X, y, intervals = rows(2_000)
    numbers = X[["hour"]]
    model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(numbers, y)
    split = model.predict_interval(numbers)
    return {
        "audit": audit(X, y, intervals, groups="weather"),
        "model": model,
        "comparison": compare({"scaled": intervals, "split": split}, numbers, y),
        **{"X": X, "y": y, "intervals": intervals, "y_pred": model.predict(numbers)},
    }


@cache
def hostile():
    """The same with names and labels that are markup, or cannot be written."""
    X, y, intervals = rows(400)
    X = X.rename(columns={"hour": HOSTILE})
    X["label"] = np.resize([HOSTILE, *AWKWARD], 400)
    for i, name in enumerate(AWKWARD):
        X[name] = np.random.default_rng(i).normal(size=400)
    groups = {HOSTILE: np.array(X["label"]), UNWRITABLE: X["weather"]}
    return {
        "audit": audit(X, y, intervals, groups=groups),
        "comparison": compare({HOSTILE: intervals, "b": 2 * intervals}, X[[HOSTILE]], y),
        **{"title": HOSTILE, "X": X, "y": y, "intervals": intervals},
    }


@cache
def many_failures(n=4_000):
    """More than ten bins beyond chance: the noise grows with the first of three columns."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(n, 1)), columns=["a"])
    X["like a"], X["other"] = X["a"] + rng.normal(0, 0.1, n), rng.uniform(size=n)
    y = rng.normal(size=n) * (0.2 + 2 * X["a"].to_numpy())
    return {"audit": audit(X, y, np.tile([-2.5, 2.5], (n, 1)))}
