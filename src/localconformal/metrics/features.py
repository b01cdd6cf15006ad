"""Features as numbers: what a slab projects and what a classifier of coverage learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from localconformal.columns import LABEL, as_labels, as_numbers, kind_of
from localconformal.frames import columns_of, is_frame
from localconformal.quantiles import Array

#: What HistGradientBoosting takes of a column of labels; rarer labels are one together.
MAX_LABELS = 250
#: Labels with an indicator of their own; those left have none.
MAX_INDICATORS = 20


@dataclass(frozen=True, eq=False)
class Features:
    """Columns of numbers; labels are coded 0, 1, ... from the most frequent on.

    Attributes
    ----------
    values : array of shape (n, d)
        NaN where missing.
    names : list of d str
    labels : list of d (list of str or None)
        What the codes stand for; None for a column of numbers.
    """

    values: Array
    names: list[str]
    labels: list[list[str] | None]


def read_features(X: Any, n: int) -> Features:
    """The columns of an array or frame of n rows; numbers, booleans and times are numbers."""
    if not is_frame(X):
        array = as_array(X)
        columns: list[tuple[str, Any]] = [(str(j), column) for j, column in enumerate(array.T)]
    else:
        columns = [(str(column.name), column) for column in columns_of(X)]
    if not columns or len(X) != n:
        raise ValueError(
            f"X has {len(X)} rows and {len(columns)} columns; {n} rows, as many as intervals, and "
            "at least one column were expected."
        )
    read = [read_column(name, column) for name, column in columns]
    return Features(
        values=np.stack([values for values, _ in read], axis=1),
        names=[name for name, _ in columns],
        labels=[labels for _, labels in read],
    )


def as_array(X: Any) -> NDArray[Any]:
    """An array with two axes, or refused by what it is."""
    if X is None or issparse(X):
        given = "None" if X is None else f"a sparse {type(X).__name__}: pass X.toarray()"
        raise ValueError(f"X must be a frame or an array of shape (n, d); it is {given}.")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X has shape {array.shape}; (n, d) was expected: one row for each interval."
        )
    return array


def read_column(name: str, column: Any) -> tuple[Array, list[str] | None]:
    """Numbers (n,), NaN where missing, and None; or codes and their labels."""
    kind = kind_of(column)
    if kind == LABEL:
        return code_labels(as_labels(column))
    numbers = as_numbers(name, column, kind)
    return np.where(np.isfinite(numbers), numbers, np.nan), None


def code_labels(texts: NDArray[Any]) -> tuple[Array, list[str]]:
    """Codes (n,), NaN where there is no text, and the text of each code, most frequent first."""
    known = np.array([text is not None for text in texts], dtype=bool)
    labels, place, counts = np.unique(texts[known], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    codes = np.full(len(texts), np.nan)
    codes[known] = np.minimum(rank[place], MAX_LABELS) if len(order) else np.nan
    return codes, [str(label) for label in labels[order][:MAX_LABELS]]


@dataclass(frozen=True, eq=False)
class Standardised:
    """Columns of mean 0 and variance 1; labels by indicators.

    Missing values are at the mean, 0, and so is every value of a constant column.

    Attributes
    ----------
    points : array of shape (n, d)
    names : list of d str
        ``name=label`` for the indicator of a label.
    source : array of ints of shape (d,)
        Position of the feature behind each column.
    center, scale : array of shape (d,)
        Mean and standard deviation of what is known; a value is center + scale * point.
    """

    points: Array
    names: list[str]
    source: NDArray[np.intp]
    center: Array
    scale: Array


def standardised(features: Features) -> Standardised:
    """The features as points of one scale."""
    columns, names, source = [], [], []
    for j, labels in enumerate(features.labels):
        values, name = features.values[:, j], features.names[j]
        if labels is None:
            columns.append(values)
            names.append(name)
            source.append(j)
            continue
        for code, label in enumerate(labels[:MAX_INDICATORS]):
            columns.append(np.where(np.isnan(values), np.nan, values == code))
            names.append(f"{name}={label}")
            source.append(j)
    if not columns:
        columns, names, source = [np.zeros(len(features.values))], features.names[:1], [0]
    points, center, scale = zip(*(standardise(column) for column in columns), strict=True)
    return Standardised(
        np.stack(points, axis=1), names, np.array(source), np.array(center), np.array(scale)
    )


def standardise(column: Array) -> tuple[Array, float, float]:
    """(column - mean) / standard deviation over what is known, 0 where it is not; mean and sd."""
    known = np.isfinite(column)
    result = np.zeros_like(column)
    if not known.any():
        return result, 0.0, 0.0
    # In units of its largest entry: squares of huge numbers would overflow.
    unit = float(np.abs(column[known]).max()) or 1.0
    scaled = column[known] / unit
    mean = float(scaled.mean())
    centred = scaled - mean
    spread = float(np.sqrt(np.mean(centred**2)))
    if spread > 1e-12:
        result[known] = centred / spread
    return result, unit * mean, unit * spread
