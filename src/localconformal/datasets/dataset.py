"""Real data by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from localconformal.datasets.files import fetch_file
from localconformal.datasets.table import DATASETS
from localconformal.quantiles import Array

#: What real data needs beyond the core dependencies.
PACKAGES = ("pandas", "pooch", "pyarrow")


@dataclass(frozen=True)
class Dataset:
    """A table to predict from.

    Attributes
    ----------
    name : str
    X : pandas frame of shape (n, d)
    y : array of shape (n,)
    target : str
        What y is.
    groups : pandas frame of shape (n, g)
        Columns by which coverage is worth reporting; g may be 0.
    source : str
    stand_in : str
        For which data set of the papers this one stands in, and how it differs; empty for the
        data set itself. Figures of a stand-in must not be reported under the other's name.
    """

    name: str
    X: Any
    y: Array
    target: str
    groups: Any
    source: str
    stand_in: str = ""


def load_dataset(
    name: str, *, as_in_paper: bool = False, data_home: str | Path | None = None
) -> Dataset:
    """The data set of this name (`DATASETS` lists them).

    Parameters
    ----------
    name : str
    as_in_paper : bool, default=False
        The table exactly as the code of CQR and SLCP prepares it, quirks included, all numbers.
        Else a clean one: categories are categories, missing values are missing, row numbers are
        no features, no row is lost.
    data_home : path, default=None
        A folder to look in first; then the environment variable ``LOCALCONFORMAL_DATA``, the
        cache folder, and the public source (with a checksum) where there is one.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from localconformal.datasets import DATASETS
    >>> DATASETS["concrete"].rows, DATASETS["concrete"].features
    (1030, 8)
    >>> data = load_dataset("concrete")  # doctest: +SKIP
    """
    if name not in DATASETS:
        raise ValueError(f"There is no data set {name!r}; choose one of {sorted(DATASETS)}.")
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise ImportError(
            f"load_dataset needs {' and '.join(missing)}, which this environment lacks: run pip "
            "install 'localconformal[data]'."
        )
    entry = DATASETS[name]
    path = fetch_file(entry.file, data_home)
    try:
        frame = entry.file.read(path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} could not be read as the data set {name!r} ({type(error).__name__}); replace "
            "the file, or remove it to have it downloaded."
        ) from error
    X, y, groups = entry.prepare(frame, as_in_paper)
    return Dataset(
        name,
        X.reset_index(drop=True),
        np.asarray(y, dtype=np.float64),
        entry.target,
        groups.reset_index(drop=True),
        entry.source,
        entry.stand_in,
    )
