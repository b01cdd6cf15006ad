"""Data sets by name: ``load(name, draw_seed, max_rows)`` gives rows before they are split.

Public tables are prepared as the code of CQR and SLCP prepares them. Groups are those by which
coverage is reported: a column with a meaning where there is one, else quintiles of the first
principal component of the features. The meps sets are stand-ins, of other years or filters than
those of CQR and SLCP: their figures must not be compared with those printed there.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

from localconformal.datasets import gaussian, load_simulation, uniform_features


@dataclass(frozen=True)
class Rows:
    """A data set: X (n, d), y (n,), groups (n,); the simulation behind it where there is one."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    simulation: object = None


def take(rows, index):
    return Rows(rows.X[index], rows.y[index], rows.groups[index], rows.simulation)


FOLDER = "LOCALCONFORMAL_DATA"


def read(name):
    """The parquet file of this name as a frame."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        raise FileNotFoundError(
            f"{FOLDER} is not set; it should name the folder that has {name}.parquet."
        )
    return pd.read_parquet(Path(folder) / f"{name}.parquet")


def quintiles(v):
    """Five groups of equal size by v (n,), fewer where v has ties."""
    edges = np.quantile(v, [0.2, 0.4, 0.6, 0.8])
    return np.searchsorted(edges, v, side="right")


def first_component(X):
    """Scores (n,) of the first principal component of the standardised features."""
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, vectors = np.linalg.eigh(Z.T @ Z)
    return Z @ vectors[:, -1]


def rows(X, y, groups=None):
    """Rows from frames and columns; groups=None: quintiles of the first component."""
    X = X.to_numpy(dtype=float)
    groups = quintiles(first_component(X)) if groups is None else groups.to_numpy()
    return Rows(X, y.to_numpy(dtype=float), groups)


def plain(name, target=-1):
    """A table as it is, with the position of its target."""
    frame = read(name)
    column = frame.columns[target]
    return rows(frame.drop(columns=column), frame[column])


def bike():
    """Hourly rentals by weather; casual and registered sum to the target and are left out."""
    frame = read("bike")
    when = pd.to_datetime(frame["datetime"])
    frame["hour"], frame["dayofweek"] = when.dt.hour, when.dt.dayofweek
    frame["month"], frame["year"] = when.dt.month, when.dt.year - when.dt.year.min()
    features = frame.drop(columns=["datetime", "casual", "registered", "count"])
    X = pd.get_dummies(features, columns=["season", "weather"])
    return rows(X, frame["count"], frame["weather"])


def star():
    """Sum of eight test scores by ethnicity; the columns are those of CQR, row number and all."""
    frame = read("star").dropna()
    parts = ("read", "math")
    scores = [part + grade for part in parts for grade in "k123"]
    coded = frame.apply(lambda c: c if c.dtype.kind in "if" else pd.factorize(c, sort=True)[0])
    X = coded[[*frame.columns[:8], *frame.columns[17:]]]
    return rows(X, frame[scores].sum(axis=1), frame["ethnicity"])


def community():
    """Violent crimes by quintiles of racepctblack; columns with many missing values go."""
    frame = read("community").drop(columns=["state", "county", "community", "communityname"])
    frame = frame.drop(columns="fold")
    frame["OtherPerCap"] = frame["OtherPerCap"].astype(float)
    frame["OtherPerCap"] = frame["OtherPerCap"].fillna(frame["OtherPerCap"].mean())
    frame = frame.dropna(axis="columns")
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
    return rows(X, y, pd.Series(quintiles(X["racepctblack"].to_numpy(dtype=float))))


def facebook():
    """Comments by category of the page; rows of one page are not independent."""
    frame = read("facebook_1")
    return rows(frame.drop(columns="target"), frame["target"], frame["page_category"])


def energy():
    """Heating load by orientation; the cooling load, Y2, is no feature."""
    frame = read("energy")
    return rows(frame.drop(columns=["Y1", "Y2"]), frame["Y1"], frame["X6"])


TABLES = {
    "bike": bike,
    "bio": lambda: plain("bio", target=0),
    "star": star,
    "concrete": lambda: plain("concrete"),
    "community": community,
    "blog_data": lambda: plain("blog_data"),
    "facebook_1": facebook,
    "yacht": lambda: plain("yacht"),
    "energy": energy,
    "kin8nm": lambda: plain("kin8nm"),
}


#: Outcomes, and the counts whose sum is the target.
LEAKS_2015 = ["HEALTHEXP", "OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15"]
LEAKS_2017 = ["TOTSLF", "OBTOTV", "OPTOTV", "IPDIS", "IPNGTD", "RXTOT", "ERTOT", "HHTOTD"]
#: Columns that are numbers and no codes.
NUMBERS_2015 = ["AGE31X", "PCS42", "MCS42", "K6SUM42", "PERSONWT", "INCOME_M"]
NUMBERS_2017 = ["VARSTR", "PERWT", "TTLP", "AGE53X", "EDUCYR", "VPCS42", "VMCS42"]


def panel(file, number, leaks, numbers, region):
    """One panel, codes one-hot."""
    frame = read(file)
    frame = frame[frame["PANEL"] == number].drop(columns=["PANEL", *leaks])
    features = frame.drop(columns="UTILIZATION")
    coded = [column for column in features if column not in numbers]
    return rows(pd.get_dummies(features, columns=coded), frame["UTILIZATION"], frame[region])


PANELS = {
    "meps_19_standin": lambda: panel("meps_2015_util", 19, LEAKS_2015, NUMBERS_2015, "REGION"),
    "meps_21_standin": lambda: panel("meps_2017_util", 21, LEAKS_2017, NUMBERS_2017, "REGION53"),
}


LARGEST = 8_000

#: The scale depends on the first two features, the mean on the next two; 46 are noise. The mean
#: is simple and the scale never small, so that the scale is what intervals get wrong: boosting's
#: mean with the true scale has a fifth of split's gap here, but 0.7 of it with a scale down to 0.1
#: and a wavy mean, where the error of the mean hides that of the scale.
two_of_fifty = gaussian(
    "two_of_fifty",
    uniform_features(0.0, 1.0, d=50),
    mean=lambda X: X[:, 2] + X[:, 3],
    deviation=lambda X: 0.5 + 2.0 * X[:, 0] * X[:, 1],
)

SIMULATIONS = {
    "sim1": load_simulation("sim1"),
    "sim2": load_simulation("sim2"),
    "two_of_fifty": two_of_fifty,
}


def draw(name, max_rows, seed):
    """Fresh rows; groups are quintiles of the first feature, on which the scale depends."""
    simulation = SIMULATIONS[name]
    X, y = simulation.sample(min(LARGEST, max_rows), random_state=seed)
    return Rows(X, y, quintiles(X[:, 0]), simulation)


def conditional_coverage(simulation, X, intervals):
    """P(lower <= Y <= upper | x) of each row: (n,). The noise is Gaussian in all of them."""
    mean, one_deviation_up = simulation.quantile(X, [0.5, ndtr(1.0)]).T
    z = (intervals - mean[:, None]) / (one_deviation_up - mean)[:, None]
    return np.maximum(ndtr(z[:, 1]) - ndtr(z[:, 0]), 0.0)


#: Name -> function without arguments that reads all rows.
REAL = {**TABLES, **PANELS}
DATASETS = [*REAL, *SIMULATIONS]


# The tasks of one data set follow each other: two of them in memory are enough.
@lru_cache(maxsize=2)
def _read(name):
    return REAL[name]()


def load(name, draw_seed, max_rows):
    """All rows of a file, which no seed changes; or fresh rows of a simulation."""
    return draw(name, max_rows, draw_seed) if name in SIMULATIONS else _read(name)
