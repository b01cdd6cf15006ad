"""Reading parquet files and cutting rows into groups."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

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
