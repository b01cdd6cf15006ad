"""`fit`, `conformalize` and predictions of an estimator whose rows are on Dask.

::

    lengths -> roles by position -> models -> law on a sample -> sketch of all rows -> theta*

Each arrow is one pass over the rows, or less. What comes to this process is the fitted estimator:
models, landmarks, edges, sums and the sample behind the fallback of the sketch, and theta*.
Predictions are lazy: a Dask collection comes out, and nothing is computed yet.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from localconformal.composition import (
    WITHOUT_LAW,
    Correction,
    Method,
    Parts,
    Task,
    say_shortage,
)
from localconformal.distributed.graph import (
    SPLIT,
    Blocks,
    Roles,
    Step,
    as_delayed,
    compute,
    held,
    is_dask_array,
    kept_rows,
    make_blocks,
    uniforms,
    whole_rows,
)
from localconformal.distributed.models import Training, make_scorers
from localconformal.distributed.ranks import smallest
from localconformal.parallel import in_threads
from localconformal.quantiles import Array, conformal_rank
from localconformal.regressors.base import BaseConformalRegressor, intervals_frame
from localconformal.rows import Rows

__all__ = ["conformalize", "fit", "predict", "predict_interval"]

#: No row calibrates; every row does.
NONE, ALL = -1.0, 2.0
_learning = Lock()


# ---- fit ----------------------------------------------------------------------------------------


def fit(estimator: Any, X: Any, y: Any, extra: Any, fit_params: Mapping[str, Any]) -> Any:
    """Split, train and calibrate on Dask; return the estimator."""
    estimator._validate_params()
    estimator.__dict__.pop("_training_hashes", None)
    _check_nothing_else(estimator, extra, fit_params)
    blocks = make_blocks(X, y)
    estimator._check_rows(_first_rows(blocks), reset=True)
    split_seed, seed = map(
        int, check_random_state(estimator.random_state).randint(2**31 - 1, size=2)
    )
    n_cal = _calibration_count(blocks.n, estimator.calibration_size)
    roles = Roles(split_seed, _split_threshold(blocks, n_cal, split_seed))
    n_train = blocks.n - n_cal
    estimator._beside_given = False
    estimator._start_report(n_train)
    _fit_parts(estimator, blocks, roles, n_train, seed)
    if n_cal:
        _set_calibration(estimator, blocks, roles)
    # Rows are not remembered one by one here: `conformalize` cannot say which it has seen.
    estimator._training_hashes = np.empty(0, dtype=np.uint64)
    return estimator


def check_method(estimator: Any, rows: Any, seed: int = 0) -> tuple[Method, Any]:
    """The terms of a method whose rows are calibrated alike, and its model, or a refusal."""
    kind = type(estimator)
    plain = isinstance(estimator, BaseConformalRegressor) and kind.beside is None
    model = estimator._base_estimator(seed)
    level = estimator.confidence_level
    task = Task(model, Rows(rows), np.empty(0), level, seed, n_jobs=estimator.n_jobs)
    method = estimator._method(task) if plain else None
    whole = method is not None and type(method.correction) is Correction
    if method is None or not whole or method.sides.name == "signed":
        raise ValueError(
            f"{kind.__name__} cannot be fitted to Dask rows; fit it to a sample in memory, or "
            "choose SLCPRegressor, LocalizedConformalRegressor, SplitConformalRegressor, "
            "ConformalizedQuantileRegressor, MADSplitRegressor or DistSplitRegressor."
        )
    return method, model


def _check_nothing_else(estimator: Any, extra: Any, fit_params: Mapping[str, Any]) -> None:
    """Neither extra columns nor fit parameters, which would have to be cut like X."""
    given = [*(["groups or weights"] if extra is not None else []), *sorted(fit_params)]
    if given:
        raise ValueError(
            f"got {', '.join(given)} beside Dask rows, where {type(estimator).__name__} takes X "
            "and y alone; fit the model yourself and pass it as FrozenEstimator(model)."
        )


def _first_rows(blocks: Blocks) -> Any:
    """Some rows of the first block: names, types and the number of columns are read off them."""
    (rows,) = compute(Step(_head, blocks.pairs[0]))
    return rows


def _head(pair: tuple[Any, Any]) -> Any:
    return pair[0][:5]


def _calibration_count(n: int, size: float | int | None) -> int:
    """How many of n rows calibrate."""
    if size is None:
        return 0
    count = int(size) if isinstance(size, Integral) else math.ceil(size * n)
    if count >= n:
        raise ValueError(
            f"calibration_size is {size}, of {n} rows; some rows must be left to train on."
        )
    return count


def _split_threshold(blocks: Blocks, count: int, seed: int) -> float:
    """The number that exactly ``count`` positions do not exceed."""
    if count == 0:
        return NONE
    columns = [
        Step(_split_column, seed, start, length)
        for start, length in zip(blocks.starts, blocks.lengths, strict=True)
    ]
    ((_, threshold),) = compute(smallest(columns, partial(_one_rank, count)))
    return float(threshold[0])


def _split_column(seed: int, start: int, count: int) -> Array:
    """Numbers of the positions as a column (n, 1)."""
    return uniforms(seed, SPLIT, start, count)[:, None]


def _one_rank(rank: int, n: int) -> list[int]:
    """The same rank whatever the number of rows, for one column."""
    return [rank]


def _fit_parts(estimator: Any, blocks: Blocks, roles: Roles, n_train: int, seed: int) -> None:
    """Everything that training rows decide."""
    method, model = check_method(estimator, _first_rows(blocks), seed)
    estimator._frozen = method.score.comes_fitted(model)
    shell = _light_copy(estimator)
    training = Training(shell, method.score, model, blocks, roles, n_train, seed)
    with estimator._stage("train"):
        scorers = make_scorers(method.reference, training, method.needs_reference)
    estimator.parts_ = Parts(scorers.final, WITHOUT_LAW, None, method.sides, method.correction)
    if not method.needs_reference:
        return
    # Loaded here: the sketch brings the compiler.
    from localconformal.distributed.laws import fit_laws

    with estimator._stage("law"):
        parts = fit_laws(shell, method, scorers, blocks, n_train, seed)
    estimator.parts_ = parts
    counts = estimator.fit_report_["rows"]
    counts["reference"] = parts.n_reference
    if parts.selection is not None:
        counts["selection"] = parts.n_selection


def _light_copy(estimator: Any) -> Any:
    """What tasks need of the estimator: its parts, and not the calibration before."""
    light = copy(estimator)
    light.calibration_ = None
    light.fit_report_ = {"seconds": {}, "rows": dict(estimator.fit_report_["rows"])}
    return light


# ---- calibrate: theta*, the very order statistic, as in memory ----------------------------------


def conformalize(estimator: Any, X: Any, y: Any, extra: Any) -> Any:
    """Replace the calibration set by all rows of X."""
    _check_nothing_else(estimator, extra, {})
    blocks = make_blocks(X, y)
    first = _first_rows(blocks)
    estimator._check_rows(first)
    check_method(estimator, first)
    _set_calibration(estimator, blocks, Roles(0, ALL))
    return estimator


def _set_calibration(estimator: Any, blocks: Blocks, roles: Roles) -> None:
    """theta* at the estimator's own level; a calibration that fails leaves the previous one."""
    with estimator._stage("calibrate"):
        rows = CalibrationRows(_light_copy(estimator), blocks, roles)
        level = float(estimator.confidence_level)
        n, theta = rows.solve(np.array([level]))
    estimator.calibration_ = KnownCalibration(n, estimator.parts_, rows, [level], [*theta.T])
    estimator.fit_report_["rows"]["calibration"] = n


@dataclass(frozen=True)
class CalibrationRows:
    """Rows that calibrate, where they are, and what scores them."""

    shell: Any
    blocks: Blocks
    roles: Roles

    def __call__(self, levels: Array) -> Array:
        """theta* (S, L)."""
        return self.solve(levels)[1]

    def solve(self, levels: Array) -> tuple[int, Array]:
        """How many rows there are, and theta* (S, L): one pass over the rows."""
        sides = self.shell.parts_.sides
        local = sides.levels(levels).ravel() if sides.separate else levels
        columns = self.blocks.map(_adjusted_columns, self.shell, self.roles, levels)
        ((n, theta),) = compute(smallest(columns, partial(_conformal_ranks, local.tolist())))
        by_side = theta.reshape(-1, len(levels))
        return n, np.array(np.broadcast_to(by_side, (sides.n_sides, len(levels))))


def _conformal_ranks(levels: list[float], n: int) -> list[int]:
    """Ranks ceil((n + 1) level), column by column."""
    return [conformal_rank(n, level) for level in levels]


def _adjusted_columns(
    X: Any, y: Array, start: int, shell: Any, roles: Roles, levels: Array
) -> Array:
    """Adjusted scores of a block's calibration rows: (n, L), or (n, 2 L) by side."""
    X, y = kept_rows(X, y, roles.calibrates(start, len(y)))
    separate = shell.parts_.sides.separate
    if len(y) == 0:
        return np.empty((0, len(levels) * (2 if separate else 1)))
    placed = shell.parts_.at(Rows(shell._check_rows(X)))
    adjusted = shell.parts_.adjusted(placed.folded(y), placed.F, levels)
    return adjusted.reshape(len(y), -1) if separate else adjusted.max(axis=1)


@dataclass(frozen=True, eq=False)
class KnownCalibration:
    """What stays of a calibration on Dask: theta* by level; answers where `Calibration` does.

    ``find`` has theta* (S, L) at levels (L,) that are not known yet, by a pass over the rows. It is
    not kept in copies for workers nor in files, which answer the levels known by then.
    """

    n: int
    parts: Parts
    find: Callable[[Array], Array] | None = None
    _levels: list[float] = field(default_factory=list)
    _thetas: list[Array] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        """Without the way to the rows."""
        return {**vars(self), "find": None}

    def _unknown(self, levels: Array) -> list[float]:
        return [level for level in dict.fromkeys(map(float, levels)) if level not in self._levels]

    def _learn(self, new: list[float]) -> None:
        """theta* at levels that are new, with one pass for all of them."""
        if not new:
            return
        if self.find is None:
            raise ValueError(
                f"the levels {self._levels} were calibrated; got {new}: ask for them before the "
                "model is saved, or call conformalize again."
            )
        found = self.find(np.array(new))
        # In this order: who meets a level among the known ones finds its correction there.
        self._thetas.extend(found.T)
        self._levels.extend(new)

    def theta(self, levels: Array) -> Array:
        """theta* (S, L)."""
        if self._unknown(levels):
            # One at a time: levels and corrections of two learners would come to stand crosswise.
            with _learning:
                self._learn(self._unknown(levels))
        return np.stack([self._thetas[self._levels.index(float(level))] for level in levels], 1)

    @property
    def V(self) -> Array:
        """Refused: scores stayed on the cluster."""
        raise ValueError(
            "a predictive distribution needs the calibration scores, which stayed on the cluster; "
            "call conformalize with rows in memory first."
        )


# ---- predict: lazy in, lazy out -----------------------------------------------------------------


def predict(estimator: Any, X: Any) -> Any:
    """Point predictions: a Dask array with the chunks of X, or a series with its divisions."""
    _check_columns(estimator, X)
    model = _sent(estimator)
    if not is_dask_array(X):
        return X.map_partitions(_point_series, model, meta=(None, "f8"))
    columns = list(range(1, X.ndim))
    return whole_rows(X).map_blocks(
        _point_part, model, drop_axis=columns, dtype="f8", meta=np.empty(0)
    )


def predict_interval(estimator: Any, X: Any, levels: Array, output: str, extra: Any = None) -> Any:
    """Bounds: an array (n, 2) or (n, 2, L) with the chunks of X, or a frame with its divisions.

    ``levels`` has no axis for a single one.
    """
    _check_columns(estimator, X)
    if extra is not None:
        raise ValueError(
            "got groups or weights beside a Dask X, which is predicted by X alone; predict such "
            "rows in memory, partition by partition."
        )
    if output == "frame" and is_dask_array(X):
        raise ValueError(
            "got output='frame' with a Dask array; a Dask frame was expected: predict a frame, "
            "or make one of the array that comes out."
        )
    _learn_levels(estimator, np.atleast_1d(levels))
    model = _sent(estimator)
    if not is_dask_array(X):
        meta = intervals_frame(_empty_bounds(levels), levels, X._meta)
        return X.map_partitions(_interval_frame, model, levels, meta=meta)
    shape = (2, *levels.shape)
    return whole_rows(X).map_blocks(
        _interval_part,
        model,
        levels,
        chunks=(X.chunks[0], *((size,) for size in shape)),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype="f8",
        meta=np.empty((0, *shape)),
    )


def _check_columns(estimator: Any, X: Any) -> None:
    """As many columns as at fit, by the same names; before anything is computed."""
    if is_dask_array(X):
        if X.ndim < 2 or X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has the shape {X.shape}; (n, {estimator.n_features_in_}) was expected, as at "
                "fit."
            )
    elif estimator._columns not in (None, list(X.columns)):
        raise ValueError(
            f"X has the columns {list(X.columns)}; {estimator._columns} were expected, as at fit."
        )


def _learn_levels(estimator: Any, levels: Array) -> None:
    """theta* at these levels, here and now: workers must not go back to the calibration rows."""
    calibration = estimator.calibration_
    if not isinstance(calibration, KnownCalibration):
        return
    theta = calibration.theta(levels)[None]
    if np.isposinf(theta).any():
        reason = say_shortage(calibration.parts.sides, calibration.n, "", theta, levels)
        warnings.warn(reason, UserWarning, stacklevel=5)


def _sent(estimator: Any) -> Any:
    """Dask's object for a copy of the estimator, without what only fitting needs."""
    light = copy(estimator)
    light._training_hashes = estimator._training_hashes[:0]
    return as_delayed([held(light)])[0]


def _point_part(X: Any, model: Any) -> Array:
    """Point predictions of one partition; none of an empty one."""
    return in_threads([lambda: model.predict(X)], 1)[0] if len(X) else np.empty(0)


def _point_series(X: Any, model: Any) -> Any:
    """The same with the index of the frame."""
    import pandas as pd

    return pd.Series(_point_part(X, model), index=X.index)


def _interval_part(X: Any, model: Any, levels: Array) -> Array:
    """Bounds of one partition: (n, 2) or (n, 2, L)."""
    if not len(X):
        return _empty_bounds(levels).reshape(0, 2, *levels.shape)
    asked = levels.tolist()
    return np.asarray(in_threads([lambda: model.predict_interval(X, asked)], 1)[0])


def _interval_frame(X: Any, model: Any, levels: Array) -> Any:
    """The same as a frame with the index of X."""
    return intervals_frame(
        _interval_part(X, model, levels).reshape(len(X), 2, levels.size), levels, X
    )


def _empty_bounds(levels: Array) -> Array:
    """(0, 2, L)."""
    return np.empty((0, 2, levels.size))
