"""`fit`, `conformalize` and predictions of an estimator whose rows are on Dask.

::

    lengths -> roles by position -> models -> law on a sample -> sketch of all rows -> theta*

Each arrow is at most one pass over the rows. Only the fitted estimator comes to this process;
predictions are lazy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from localconformal.composition import Correction, Method, Parts
from localconformal.distributed.graph import (
    SPLIT,
    Blocks,
    Roles,
    Step,
    add_up,
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
from localconformal.parallel import in_threads
from localconformal.quantiles import Array, conformal_rank
from localconformal.regressors.base import intervals_frame, rows_of
from localconformal.rows import Rows

#: No row calibrates; every row does.
_NONE, _ALL = -1.0, 2.0
_learning = Lock()
#: Rows whose random numbers are drawn at a time.
_DRAWN = 2**20


# ---- fit ----------------------------------------------------------------------------------------


def fit(estimator: Any, X: Any, y: Any, extra: Any, fit_params: Mapping[str, Any]) -> None:
    """Split, train and calibrate on Dask."""
    _check_nothing_else(estimator, extra, fit_params)
    _check_kind(estimator)
    blocks = make_blocks(X, y, estimator._support)
    first = rows_of(estimator, _first_rows(blocks), reset=True)
    split_seed, seed = map(
        int, check_random_state(estimator.random_state).randint(2**31 - 1, size=2)
    )
    n_cal, roles = _split(blocks, estimator.calibration_size, split_seed)
    _fit_parts(estimator, first, blocks, roles, blocks.n - n_cal, seed)
    if n_cal:
        _set_calibration(estimator, blocks, roles, n_cal)


def _check_kind(estimator: Any, *terms: Method | Parts) -> None:
    """Refuse methods that do not calibrate all rows alike."""
    kind = type(estimator)
    if not terms and getattr(estimator, "cv", None) is not None:
        raise ValueError(
            f"got cv={estimator.cv!r} with Dask rows, where one calibration set is large enough; "
            "leave cv out, or fit to rows in memory: that model predicts Dask rows too."
        )
    alike = all(type(t.correction) is Correction and t.sides.name != "signed" for t in terms)
    if kind.beside is not None or not alike:
        raise ValueError(
            f"{kind.__name__} cannot be fitted to Dask rows; fit it to a sample in memory, or "
            "choose SLCPRegressor, LocalizedConformalRegressor, SplitConformalRegressor, "
            "ConformalizedQuantileRegressor, MADSplitRegressor or DistSplitRegressor."
        )


def _check_nothing_else(estimator: Any, extra: Any, fit_params: Mapping[str, Any]) -> None:
    """Refuse extra columns and fit parameters, which would have to be partitioned like X."""
    given = [*(["groups or weights"] if extra is not None else []), *sorted(fit_params)]
    if given:
        raise ValueError(
            f"got {', '.join(given)} with Dask rows, for which {type(estimator).__name__} takes "
            "only X and y; fit the model yourself and pass it as FrozenEstimator(model)."
        )


def _first_rows(blocks: Blocks) -> Any:
    """Some rows of the first block, to read names, types and the number of columns from."""
    return compute(Step(lambda pair: pair[0][:5], blocks.pairs[0]))[0]


def _split(blocks: Blocks, size: float | int | None, seed: int) -> tuple[int, Roles]:
    """How many rows calibrate, and which: exactly those with a number up to the threshold."""
    if size is None:
        return 0, Roles(seed, _NONE)
    count = int(size) if isinstance(size, Integral) else math.ceil(size * blocks.n)
    if count >= blocks.n:
        raise ValueError(
            f"got calibration_size={size} for {blocks.n} rows; expected some rows left to train on."
        )
    # The threshold is within 20 standard errors of the share: only numbers near it are sorted.
    low, high = (count / blocks.n + sign * 10.0 / math.sqrt(blocks.n) for sign in (-1, 1))
    below, near = 0, []
    for start in range(0, blocks.n, _DRAWN):
        numbers = uniforms(seed, SPLIT, start, min(_DRAWN, blocks.n - start))
        below += int(np.count_nonzero(numbers < low))
        near.append(numbers[(numbers >= low) & (numbers <= high)])
    return count, Roles(seed, float(np.sort(np.concatenate(near))[count - below - 1]))


def _fit_parts(
    estimator: Any, first: Rows, blocks: Blocks, roles: Roles, n_train: int, seed: int
) -> None:
    """Everything that depends on training rows."""
    task, method = estimator._start_fit(first, np.empty(0), n_train, seed, {})
    _check_kind(estimator, method)
    shell = estimator._light_copy()
    level = method.sides.model_level(estimator.confidence_level)
    training = Training(shell, method.score, level, task.estimator, blocks, roles, n_train, seed)
    with estimator._timed("train"):
        scorers = make_scorers(method.reference, training, method.needs_reference)
    parts = Parts(scorers.final, method.sides, method.correction)
    if method.needs_reference:
        # Imported here, because the sketch loads the compiler.
        from localconformal.distributed.laws import fit_laws

        with estimator._timed("law"):
            parts = fit_laws(shell, method, scorers, blocks, n_train, seed)
    estimator._set_parts(parts)


# ---- calibrate: theta*, the very order statistic, as in memory ----------------------------------


def conformalize(estimator: Any, X: Any, y: Any, extra: Any) -> Any:
    """Replace the calibration set by all rows of X."""
    _check_nothing_else(estimator, extra, {})
    _check_kind(estimator, estimator.parts_)
    blocks = make_blocks(X, y, estimator._support)
    rows_of(estimator, _first_rows(blocks))
    _set_calibration(estimator, blocks, Roles(0, _ALL), blocks.n)
    return estimator


def _set_calibration(estimator: Any, blocks: Blocks, roles: Roles, n: int) -> None:
    """theta* at the estimator's own level; if calibration fails, the previous one stays."""
    find = partial(_solve, estimator._light_copy(calibration_=None), blocks, roles, n)
    with estimator._timed("calibrate"):
        level = float(estimator.confidence_level)
        theta = find(np.array([level]))
    estimator.calibration_ = KnownCalibration(n, estimator.parts_, find, {level: theta[:, 0]})
    estimator.fit_report_["rows"]["calibration"] = n


def _solve(shell: Any, blocks: Blocks, roles: Roles, n: int, levels: Array) -> Array:
    """theta* (S, L) of n calibration rows: one pass over the rows."""
    sides = shell.parts_.sides
    local = sides.levels(levels).ravel() if sides.separate else levels
    columns = blocks.map(_adjusted_columns, shell, roles, levels)
    ranks = [conformal_rank(n, float(level)) for level in local]
    (theta,) = compute(order_statistics(columns, n, ranks))
    return np.array(np.broadcast_to(theta.reshape(-1, len(levels)), (sides.n_sides, len(levels))))


def _adjusted_columns(
    X: Any, y: Array, start: int, shell: Any, roles: Roles, levels: Array
) -> Array:
    """Adjusted scores of a block's calibration rows: (n, L), or (n, 2 L) by side."""
    X, y = kept_rows(X, y, roles.calibrates(start, len(y)))
    sides = shell.parts_.sides
    if len(y) == 0:
        return np.empty((0, len(levels) * (2 if sides.separate else 1)))
    placed = shell.parts_.at(rows_of(shell, X))
    adjusted = shell.parts_.adjusted(placed.folded(y), placed.F, levels)
    return adjusted.reshape(len(y), -1) if sides.separate else sides.together(adjusted)[:, 0]


@dataclass(frozen=True, eq=False)
class KnownCalibration:
    """What is kept of a calibration on Dask: theta* by level; used in place of `Calibration`.

    ``find`` computes theta* (S, L) at new levels (L,) by a pass over the rows. It is not kept in
    copies for workers or in files, which know only the levels computed so far.
    """

    n: int
    parts: Parts
    find: Callable[[Array], Array] | None
    _known: dict[float, Array]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "find": None}

    def theta(self, levels: Array) -> Array:
        """theta* (S, L)."""
        asked = list(map(float, levels))
        if not self._known.keys() >= set(asked):
            # One at a time: two threads that need a level make one pass over the rows.
            with _learning:
                self._learn([level for level in dict.fromkeys(asked) if level not in self._known])
        return np.stack([self._known[level] for level in asked], axis=1)

    def _learn(self, new: list[float]) -> None:
        if new and self.find is None:
            raise ValueError(
                f"got the levels {new}, but only {[*self._known]} were calibrated; predict at them "
                "before the model is saved, or call conformalize again."
            )
        if new and self.find:
            self._known.update(zip(new, self.find(np.array(new)).T, strict=True))

    @property
    def V(self) -> Array:
        """Not available: scores stayed on the cluster."""
        raise ValueError(
            "a predictive distribution needs the calibration scores, which stayed on the cluster; "
            "call conformalize with rows in memory first."
        )

    @property
    def folds(self) -> Array:
        """What a predictive distribution asks for first; not available either."""
        return self.V


def order_statistics(parts: Sequence[Any], n: int, ranks: Sequence[int]) -> Any:
    """A step for values (K,): the number of a given rank in each column, from 1; +inf beyond n.

    ``parts`` are steps for arrays (n_p, K) with n rows in all. When parts are combined, no more
    numbers of a column are kept than lie at or above the rank.
    """
    counts = [max(n - max(rank, 1) + 1, 0) for rank in ranks]
    kept = [Step(lambda part: _largest([part.T], counts), part) for part in parts]
    return Step(_first_of, add_up(kept, partial(_largest, counts=counts)))


def _largest(parts: list[Any], counts: list[int]) -> list[Array]:
    """The given number of the largest values of each column, ascending."""
    columns = map(np.concatenate, zip(*parts, strict=True))
    return [
        np.sort(column)[max(len(column) - count, 0) :]
        for column, count in zip(columns, counts, strict=True)
    ]


def _first_of(columns: list[Array]) -> Array:
    return np.array([column[0] if len(column) else np.inf for column in columns])


# ---- predict: lazy in, lazy out -----------------------------------------------------------------


def predict(estimator: Any, X: Any) -> Any:
    """Point predictions: a Dask array with the chunks of X, or a series with its divisions."""
    _check_columns(estimator, X)
    if not is_dask_array(X):
        return X.map_partitions(_point_series, _sent(estimator), meta=(None, "f8"))
    return _map_rows(X, _sent(estimator), (), "predict")


def predict_interval(estimator: Any, X: Any, levels: Array, output: str, extra: Any = None) -> Any:
    """Bounds: an array (n, 2) or (n, 2, L) with the chunks of X, or a frame with its divisions."""
    _check_columns(estimator, X)
    if extra is not None:
        raise ValueError(
            "got groups or weights with a Dask X, which is predicted from X alone; predict such "
            "rows in memory, partition by partition."
        )
    if output == "frame" and is_dask_array(X):
        raise ValueError(
            "got output='frame' with a Dask array; expected a Dask frame: pass a frame, or make "
            "one from the resulting array."
        )
    _learn_levels(estimator, np.atleast_1d(levels))
    if not is_dask_array(X):
        meta = intervals_frame(np.empty((0, 2, levels.size)), levels, X._meta)
        return X.map_partitions(_interval_frame, _sent(estimator), levels, meta=meta)
    shape = (2, *levels.shape)
    return _map_rows(X, _sent(estimator), shape, "predict_interval", levels.tolist())


def _map_rows(X: Any, model: Any, shape: tuple[int, ...], *asked: Any) -> Any:
    """A Dask array of results (n, *shape) with the chunks of X."""
    return whole_rows(X).map_blocks(
        _ask_part,
        model,
        shape,
        *asked,
        chunks=(X.chunks[0], *((size,) for size in shape)),
        drop_axis=list(range(1, X.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype="f8",
        meta=np.empty((0, *shape)),
    )


def _check_columns(estimator: Any, X: Any) -> None:
    """Check, before anything is computed, that the columns are those of the fit."""
    if is_dask_array(X):
        if X.ndim < 2 or X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}; expected (n, {estimator.n_features_in_}), as at fit."
            )
    elif estimator._columns not in (None, list(X.columns)):
        raise ValueError(
            f"X has the columns {list(X.columns)}; expected {estimator._columns}, as at fit."
        )


def _learn_levels(estimator: Any, levels: Array) -> None:
    """Compute theta* at these levels now: workers must not go back to the calibration rows."""
    calibration = estimator.calibration_
    if not isinstance(calibration, KnownCalibration):
        return
    theta = calibration.theta(levels)[None]
    if np.isposinf(theta).any():
        reason = calibration.parts.sides.shortage(calibration.n, "", theta, levels)
        warnings.warn(reason, UserWarning, stacklevel=5)


def _sent(estimator: Any) -> Any:
    """A Dask object of a copy of the estimator, without what only fitting needs."""
    return as_delayed([held(estimator._light_copy())])[0]


def _ask_part(X: Any, model: Any, shape: tuple[int, ...], method: str, *arguments: Any) -> Array:
    """The result of a method for one partition, in one thread: (n, *shape)."""
    if not len(X):
        return np.empty((0, *shape))
    return np.asarray(in_threads([lambda: getattr(model, method)(X, *arguments)], 1)[0])


def _point_series(X: Any, model: Any) -> Any:
    import pandas as pd

    return pd.Series(_ask_part(X, model, (), "predict"), index=X.index)


def _interval_frame(X: Any, model: Any, levels: Array) -> Any:
    shape = (2, levels.size)
    asked = np.atleast_1d(levels).tolist()
    return intervals_frame(_ask_part(X, model, shape, "predict_interval", asked), levels, X)
