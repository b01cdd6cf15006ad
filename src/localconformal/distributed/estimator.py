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
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from localconformal.calibration import SideRule, adjusted_scores
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
from localconformal.laws import SidedLaw
from localconformal.parallel import in_threads
from localconformal.quantiles import Array, conformal_rank
from localconformal.regressors.base import intervals_frame
from localconformal.regressors.composed import ComposedRegressor, Composition, calibration_scores

__all__ = ["conformalize", "fit", "predict", "predict_interval"]

#: No row calibrates; every row does.
NONE, ALL = -1.0, 2.0
#: What a composition on Dask leaves as it is: one cell, one correction for all rows.
PLAIN = ("_cells", "_view", "_correction", "_calibrate", "_fit_parts")
_learning = Lock()


# ---- fit ----------------------------------------------------------------------------------------


def fit(estimator: Any, X: Any, y: Any, extra: Any, fit_params: Mapping[str, Any]) -> Any:
    """Split, train and calibrate on Dask; return the estimator."""
    estimator._validate_params()
    estimator.__dict__.pop("_training_hashes", None)
    parts = check_method(estimator)
    _check_nothing_else(estimator, extra, fit_params)
    blocks = make_blocks(X, y)
    estimator._check_rows(_first_rows(blocks), reset=True)
    split_seed, seed = map(
        int, check_random_state(estimator.random_state).randint(2**31 - 1, size=2)
    )
    n_cal = _calibration_count(blocks.n, estimator.calibration_size)
    roles = Roles(split_seed, _split_threshold(blocks, n_cal, split_seed))
    estimator._extra_given, estimator.calibration_ = False, None
    n_train = blocks.n - n_cal
    rows = {"train": n_train, "reference": 0, "calibration": 0}
    estimator.fit_report_ = {"seconds": {}, "rows": rows}
    _fit_parts(estimator, parts, blocks, roles, n_train, seed)
    if n_cal:
        _set_calibration(estimator, blocks, roles)
    # Rows are not remembered one by one here: `conformalize` cannot say which it has seen.
    estimator._training_hashes = np.empty(0, dtype=np.uint64)
    return estimator


def check_method(estimator: Any) -> Composition:
    """The composition of a method whose rows are calibrated alike, or a refusal."""
    kind = type(estimator)
    plain = isinstance(estimator, ComposedRegressor) and all(
        getattr(kind, name) is getattr(ComposedRegressor, name) for name in PLAIN
    )
    parts = estimator._composition() if plain else None
    if parts is None or parts.localizer is not None or parts.learns_more:
        raise ValueError(
            f"{kind.__name__} cannot be fitted to Dask rows; fit it to a sample in memory, or "
            "choose SLCPRegressor, LocalizedConformalRegressor, SplitConformalRegressor, "
            "ConformalizedQuantileRegressor, MADSplitRegressor or DistSplitRegressor."
        )
    return parts


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


def _fit_parts(
    estimator: Any, parts: Composition, blocks: Blocks, roles: Roles, n_train: int, seed: int
) -> None:
    """Everything that training rows decide."""
    model = estimator._base_estimator(seed)
    estimator._selection = None
    estimator._frozen = parts.score.comes_fitted(model)
    estimator.side_rule_, estimator.adjustment_ = parts.rule, parts.adjustment
    estimator.law_ = SidedLaw((), mirrored=False)
    shell = _light_copy(estimator)
    training = Training(shell, parts.score, model, blocks, roles, n_train, seed)
    with estimator._stage("train"):
        scorers = make_scorers(parts.reference, training, parts.needs_reference)
    estimator.score_ = shell.score_ = scorers.final
    if not parts.needs_reference:
        return
    # Loaded here: the sketch brings the compiler.
    from localconformal.distributed.laws import fit_laws

    with estimator._stage("law"):
        fitted, count = fit_laws(shell, parts, scorers, blocks, n_train, seed)
    for name in ("law_", "adjustment_", "_selection"):
        setattr(estimator, name, getattr(fitted, name))
    estimator.fit_report_["rows"] |= {**fitted.fit_report_["rows"], "reference": count}


def _light_copy(estimator: Any) -> Any:
    """What tasks need of the estimator: its parts, and not the calibration before."""
    light = copy(estimator)
    light.calibration_ = None
    light.fit_report_ = {"seconds": {}, "rows": dict(estimator.fit_report_["rows"])}
    return light


# ---- calibrate: theta*, the very order statistic, as in memory ----------------------------------


def conformalize(estimator: Any, X: Any, y: Any, extra: Any) -> Any:
    """Replace the calibration set by all rows of X."""
    check_method(estimator)
    _check_nothing_else(estimator, extra, {})
    blocks = make_blocks(X, y)
    estimator._check_rows(_first_rows(blocks))
    _set_calibration(estimator, blocks, Roles(0, ALL))
    return estimator


def _set_calibration(estimator: Any, blocks: Blocks, roles: Roles) -> None:
    """theta* at the estimator's own level; a calibration that fails leaves the previous one."""
    with estimator._stage("calibrate"):
        rows = CalibrationRows(_light_copy(estimator), blocks, roles)
        level = float(estimator.confidence_level)
        n, theta = rows.solve(np.array([level]))
    made = KnownCalibration(
        n, estimator.side_rule_, estimator.law_.version, rows, [level], [*theta.T]
    )
    estimator.calibration_ = made
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
        rule: SideRule = self.shell.side_rule_
        local = rule.local_levels(levels).ravel() if rule.separate else levels
        columns = self.blocks.map(_adjusted_columns, self.shell, self.roles, levels)
        ((n, theta),) = compute(smallest(columns, partial(_conformal_ranks, local.tolist())))
        by_side = theta.reshape(-1, len(levels))
        return n, np.array(np.broadcast_to(by_side, (rule.n_sides, len(levels))))


def _conformal_ranks(levels: list[float], n: int) -> list[int]:
    """Ranks ceil((n + 1) level), column by column."""
    return [conformal_rank(n, level) for level in levels]


def _adjusted_columns(
    X: Any, y: Array, start: int, shell: Any, roles: Roles, levels: Array
) -> Array:
    """Adjusted scores of a block's calibration rows: (n, L), or (n, 2 L) by side."""
    X, y = kept_rows(X, y, roles.calibrates(start, len(y)))
    rule: SideRule = shell.side_rule_
    if len(y) == 0:
        return np.empty((0, len(levels) * (2 if rule.separate else 1)))
    X = shell._check_rows(X)
    V = rule.fold(calibration_scores(shell.score_, X, y))
    adjusted = adjusted_scores(shell.adjustment_, V, shell.law_.at(X), rule.local_levels(levels))
    return adjusted.reshape(len(y), -1) if rule.separate else adjusted.max(axis=1)


@dataclass(frozen=True, eq=False)
class KnownCalibration:
    """What stays of a calibration on Dask: theta* by level; answers where `Calibration` does.

    ``find`` has theta* (S, L) at levels (L,) that are not known yet, by a pass over the rows. It is
    not kept in copies for workers nor in files, which answer the levels known by then.
    """

    n: int
    rule: SideRule
    version: tuple[int, ...]
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

    def correction(self, levels: Array, cells: NDArray[Any]) -> Array:
        """theta* for as many rows as there are cells: (n, S, L)."""
        if self._unknown(levels):
            # One at a time: levels and corrections of two learners would come to stand crosswise.
            with _learning:
                self._learn(self._unknown(levels))
        theta = np.stack([self._thetas[self._levels.index(float(level))] for level in levels], 1)
        return np.array(np.broadcast_to(theta, (len(cells), *theta.shape)))

    def count(self, cell: Any) -> int:
        """All calibration rows: there is one cell."""
        return self.n

    def counts(self, cells: NDArray[Any]) -> Array:
        """The same for each query row: (m,)."""
        return np.full(len(cells), float(self.n))

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
    theta = calibration.correction(levels, np.zeros(1))
    if np.isinf(theta).any():
        reason = estimator._why_infinite(np.isinf(theta), levels, np.zeros(1))
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
