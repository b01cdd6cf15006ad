"""Lazy in, lazy out: predictions of Dask arrays and frames, partition by partition."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import numpy as np

from localconformal.distributed.blocks import is_dask_array
from localconformal.distributed.computing import as_delayed, held
from localconformal.distributed.known import KnownCalibration
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.regressors.base import intervals_frame


def predict(estimator: Any, X: Any) -> Any:
    """Point predictions: a Dask array with the chunks of X, or a series with its divisions."""
    check_columns(estimator, X)
    (model,) = as_delayed([held(traveller(estimator))])
    if is_dask_array(X):
        axes = list(range(1, X.ndim))
        return whole_rows(X).map_blocks(
            point_part, model, drop_axis=axes, dtype="f8", meta=np.empty(0)
        )
    return X.map_partitions(point_series, model, meta=(None, "f8"))


def predict_interval(estimator: Any, X: Any, levels: Array, output: str, extra: Any = None) -> Any:
    """Bounds: an array (n, 2) or (n, 2, L) with the chunks of X, or a frame with its divisions.

    ``levels`` has no axis for a single one.
    """
    check_columns(estimator, X)
    if extra is not None:
        raise ValueError(
            "groups or weights came beside a Dask X, which is predicted by X alone; predict such "
            "rows in memory, partition by partition."
        )
    if output == "frame" and is_dask_array(X):
        raise ValueError(
            "output='frame' came with a Dask array; a Dask frame was expected: predict a frame, "
            "or make one of the array that comes out."
        )
    learn_levels(estimator, np.atleast_1d(levels))
    (model,) = as_delayed([held(traveller(estimator))])
    if not is_dask_array(X):
        meta = intervals_frame(empty_bounds(levels), levels, X._meta)
        return X.map_partitions(interval_frame, model, levels, meta=meta)
    shape = (2, *levels.shape)
    return whole_rows(X).map_blocks(
        interval_part,
        model,
        levels,
        chunks=(X.chunks[0], *((size,) for size in shape)),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype="f8",
        meta=np.empty((0, *shape)),
    )


def learn_levels(estimator: Any, levels: Array) -> None:
    """theta* at these levels, here and now: workers must not go back to the calibration rows."""
    calibration = estimator.calibration_
    if not isinstance(calibration, KnownCalibration):
        return
    theta = calibration.correction(levels, np.zeros(1))
    if np.isinf(theta).any():
        reason = estimator._why_infinite(np.isinf(theta), levels, np.zeros(1))
        warnings.warn(reason, UserWarning, stacklevel=5)


def traveller(estimator: Any) -> Any:
    """A copy for workers, without what only fitting needs."""
    light = copy(estimator)
    light._training_hashes = estimator._training_hashes[:0]
    return light


def whole_rows(X: Any) -> Any:
    """X with all columns in one chunk."""
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1))


def check_columns(estimator: Any, X: Any) -> None:
    """As many columns as at fit, by the same names; before anything is computed."""
    if is_dask_array(X):
        if X.ndim < 2 or X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has the shape {X.shape}; (n, {estimator.n_features_in_}) was expected, as at "
                "fit."
            )
        return
    names = list(X.columns)
    if estimator._columns not in (None, names):
        raise ValueError(
            f"X has the columns {names}; {estimator._columns} were expected, as at fit."
        )


def point_part(X: Any, model: Any) -> Array:
    """Point predictions of one partition; none of an empty one."""
    return in_threads([lambda: model.predict(X)], 1)[0] if len(X) else np.empty(0)


def point_series(X: Any, model: Any) -> Any:
    """The same with the index of the frame."""
    import pandas as pd

    return pd.Series(point_part(X, model), index=X.index)


def interval_part(X: Any, model: Any, levels: Array) -> Array:
    """Bounds of one partition: (n, 2) or (n, 2, L)."""
    if not len(X):
        empty = empty_bounds(levels)
        return empty if levels.ndim else empty[:, :, 0]
    asked = levels.tolist()
    return np.asarray(in_threads([lambda: model.predict_interval(X, asked)], 1)[0])


def interval_frame(X: Any, model: Any, levels: Array) -> Any:
    """The same as a frame with the index of X."""
    made = interval_part(X, model, levels)
    return intervals_frame(made if levels.ndim else made[:, :, None], levels, X)


def empty_bounds(levels: Array) -> Array:
    """(0, 2, L)."""
    return np.empty((0, 2, max(1, levels.size)))
