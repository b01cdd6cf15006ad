"""Public tables, prepared as the code of CQR and SLCP prepares them.

A function each; groups are those by which coverage is reported: a column with a meaning where
there is one, else quintiles of the first principal component of the features.
"""

import pandas as pd

from benchmarks.quality.datasets.files import first_component, quintiles, read
from benchmarks.quality.protocol import Rows


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


DATASETS = {
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
