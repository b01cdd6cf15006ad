"""Real tables, as they come: categoricals, counts, many columns. Needs LOCALCONFORMAL_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from localconformal.metrics import coverage, coverage_band
from registry import ESTIMATORS

pytestmark = pytest.mark.ci
FOLDER = os.environ.get("LOCALCONFORMAL_DATA")


def read(name):
    if FOLDER is None:
        pytest.skip("LOCALCONFORMAL_DATA does not name the folder of the data sets")
    return pd.read_parquet(Path(FOLDER) / f"{name}.parquet").iloc[:3000]


def bike():
    table = read("bike")
    when = pd.to_datetime(table["datetime"])
    X = table.drop(columns=["datetime", "casual", "registered", "count"])
    X = X.assign(hour=when.dt.hour, month=when.dt.month, day=when.dt.day_of_week.astype("category"))
    return X.astype({"season": "category", "weather": "category"}), table["count"]


def concrete():
    table = read("concrete")
    return table.iloc[:, :-1], table.iloc[:, -1]


def energy():
    table = read("energy")
    return table[[f"X{i}" for i in range(1, 9)]], table["Y1"]


def split(load):
    return train_test_split(*load(), test_size=0.25, random_state=0)


@pytest.mark.parametrize(
    "load", [concrete, *(pytest.param(load, marks=pytest.mark.nightly) for load in (bike, energy))]
)
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
# Some methods say by infinite intervals that they know too little.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_coverage_on_real_tables(cls, load):
    X, X_new, y, y_new = split(load)
    quick = {"law": "forest"} if cls().get_params().get("law") == "auto" else {}
    model = cls(**quick, random_state=0).fit(X, y)
    low, _ = coverage_band(model.guarantee_.n_calibration, len(y_new), 0.9, probability=0.9998)
    frame = model.predict_interval(X_new, output="frame")
    assert (frame.index == X_new.index).all()
    assert coverage(y_new, frame.to_numpy()) >= low
