"""Frames with a column of every type, with missing values, and their rows one at a time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

START = dt.datetime(2024, 2, 28, 12, 30, 0, 250_000)


def values(n, seed):
    """Python's own values, by what they are; about a fifth of each is None."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    drawn = {
        "text": [f"city {k}" for k in rng.integers(0, 4, n)],
        "whole": [int(k) for k in rng.integers(0, 4, n)],
        "number": [float(k) for k in np.round(rng.normal(size=n), 1)],
        "decimal": [Decimal(int(k)) / 10 for k in rng.integers(0, 9, n)],
        "flag": [bool(k) for k in rng.integers(0, 2, n)],
        "time": [START + dt.timedelta(hours=int(k)) for k in rng.integers(0, 999, n)],
        "span": [dt.timedelta(minutes=int(k)) for k in rng.integers(0, 99, n)],
        "mixed": [["a", 1, 2.5][k] for k in rng.integers(0, 3, n)],
    }
    for name in drawn:
        known = rng.uniform(size=n) < 0.8
        drawn[name] = [v if k else None for v, k in zip(drawn[name], known, strict=True)]
    response = size + [0.0 if v is None else 3.0 * v for v in drawn["flag"]] + rng.normal(size=n)
    return {"size": [float(v) for v in size], **drawn, "nothing": [None] * n}, response


#: What the values are -> the types in which pandas may hold them.
PANDAS = {
    "size": ["float64"],
    "text": ["object", "category", "str", "string[python]", "string[pyarrow]", pa.string()],
    "whole": ["object", "float64", "Int64", "category", pa.int64(), pa.float32()],
    "number": ["object", "float64", "Float64", "float32", pa.float64()],
    "decimal": ["object", pa.decimal128(5, 1)],
    "flag": ["object", "boolean", "category", pa.bool_()],
    "time": ["object", "datetime64[ns]", "datetime64[s, Europe/Paris]", pa.timestamp("us")],
    "span": ["object", "timedelta64[ns]", pa.duration("us")],
    "mixed": ["object"],
    "nothing": ["object", "float64", "string[python]", "category", "datetime64[ns]", pa.null()],
}
POLARS = {
    "size": [pl.Float64],
    "text": [pl.String, pl.Categorical, pl.Enum([f"city {k}" for k in range(4)])],
    "whole": [pl.Int64, pl.UInt8, pl.Float64],
    "number": [pl.Float64, pl.Float32],
    "decimal": [pl.Decimal(5, 1)],
    "flag": [pl.Boolean],
    "time": [pl.Datetime("ns"), pl.Datetime("ms", "Europe/Paris"), pl.Date],
    "span": [pl.Duration("us")],
    "nothing": [pl.Null, pl.String, pl.Float64],
}


def pandas_column(given, kind):
    kind = pd.ArrowDtype(kind) if isinstance(kind, pa.DataType) else kind
    if "Paris" in str(kind):
        return pd.Series(given, dtype="datetime64[s]").dt.tz_localize("UTC").astype(kind)
    return pd.Series(given, dtype=object).astype(kind)


def polars_column(given, kind):
    return pl.Series(given, strict=False).cast(kind)


@cache
def frame(library, n=120, seed=0):
    given, y = values(n, seed)
    kinds, make = {"pandas": (PANDAS, pandas_column), "polars": (POLARS, polars_column)}[library]
    columns = {
        f"{name} {place}": make(given[name], kind)
        for name, types in kinds.items()
        for place, kind in enumerate(types)
    }
    return (pd.DataFrame if library == "pandas" else pl.DataFrame)(columns), y


def record(X, row):
    if isinstance(X, pl.DataFrame):
        return X.row(row, named=True)
    return {name: X[name].iloc[row] for name in X}


def as_json(value):
    """What a value is in a request: times are texts, missing values null."""
    if value is None or value is pd.NA or value != value:
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (dt.timedelta, np.timedelta64)):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, dt.date) else value


#: One row alone: cut out, of values whose types are inferred anew, and from a request.
ALONE = {
    "cut": lambda X, row: X[row : row + 1],
    "record": lambda X, row: type(X)([record(X, row)]),
    "request": lambda X, row: type(X)([{k: as_json(v) for k, v in record(X, row).items()}]),
}
