"""The public interface that every estimator of this library shares."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from localconformal.frames import (
    at_ends,
    check_frame,
    column_names,
    is_frame,
    make_frame,
    row_hashes,
)
from localconformal.intervals import collapse_crossed, crossed, nest
from localconformal.laws.once import one_query
from localconformal.models import (
    accepts_missing,
    accepts_more_dimensions,
    check_params,
    default_estimator,
    is_composite,
    take_params,
    take_rows,
)
from localconformal.progress import stage
from localconformal.quantiles import Array
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.lazy import check_in_memory, is_lazy, on_dask
from localconformal.regressors.response import check_target
from localconformal.regressors.routing import RoutingMixin, routed_params
from localconformal.splitting import split_rows

#: Constraints of the arguments that every estimator takes.
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [None, HasMethods("predict")],
    "confidence_level": [Interval(Real, 0, 1, closed="neither")],
    "calibration_size": [
        None,
        Interval(Real, 0, 1, closed="neither"),
        Interval(Integral, 1, None, closed="left"),
    ],
    "random_state": ["random_state"],
    "n_jobs": [None, Integral],
}


EXCHANGEABLE = (
    "calibration rows and new rows are exchangeable, and no model in use has seen calibration rows"
)


class BaseConformalRegressor(RoutingMixin, RegressorMixin, BaseEstimator):
    """Validation, splitting, levels, nesting and frames, around four hooks of a subclass.

    `_fit_parts` trains on training rows, `_calibrate` turns calibration rows into an object,
    `_bounds` answers raw bounds from it, and `_local` its per-row diagnostics. ``extra`` is what a
    method takes beside X, one entry a row, such as groups or weights; None where nothing came.
    """

    estimator: Any
    confidence_level: float
    calibration_size: float | int | None
    random_state: Any
    n_jobs: int | None
    calibration_: Any

    # ---- hooks -----------------------------------------------------------------------------

    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        """Train everything that training rows decide."""
        raise NotImplementedError

    def _calibrate(self, X: Any, y: Array, extra: Any) -> Any:
        """What `_bounds` needs of the calibration rows; must not change the estimator."""
        raise NotImplementedError

    def _bounds(self, X: Any, levels: Array, extra: Any) -> tuple[Array, str | None]:
        """Raw bounds (n, 2, L), and why some of them are infinite, if so."""
        raise NotImplementedError

    def _local(self, X: Any, level: float, extra: Any) -> dict[str, NDArray[Any]]:
        """Columns of `diagnose` that the bounds do not tell."""
        raise NotImplementedError

    def _point(self, X: Any) -> Array:
        """Point predictions (n,)."""
        raise NotImplementedError

    def _guarantee(self) -> Guarantee:
        """The promise of the fitted estimator."""
        raise NotImplementedError

    # ---- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> BaseConformalRegressor:
        """Split the rows, train on one part, calibrate on the other.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            NumPy, pandas or polars; or Dask, then y too, for methods of the split family.
        y : array of shape (n,)
        **fit_params
            Passed to the base estimator's ``fit``; those with one entry a row (such as
            ``sample_weight``) are cut to the training rows. With scikit-learn's metadata
            routing enabled, those that it requests (`get_metadata_routing`).

        Returns
        -------
        self
        """
        return self._fit(X, y, None, fit_params)

    def conformalize(self, X: Any, y: ArrayLike) -> BaseConformalRegressor:
        """Replace the calibration set; nothing is refitted.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows that the model has not seen.
        y : array of shape (n,)

        Returns
        -------
        self
        """
        return self._conformalize(X, y, None)

    def _fit(self, X: Any, y: Any, extra: Any, fit_params: Mapping[str, Any]) -> Any:
        if is_lazy(X):
            return on_dask().fit(self, X, y, extra, fit_params)
        self._validate_params()
        # There is no model until the last line: a fit that fails leaves none behind.
        self.__dict__.pop("_training_hashes", None)
        X, y = self._check_rows(X, reset=True), check_target(y)
        check_consistent_length(X, y, extra)
        fit_params = routed_params(self, fit_params)
        check_params(fit_params, len(y), self._base_estimator(0))
        self._extra_given = extra is not None
        split_seed, seed = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        train, calibration = split_rows(len(y), self.calibration_size, int(split_seed))
        params = take_params(fit_params, train, len(y))
        self.calibration_ = None
        self.fit_report_: dict[str, dict[str, Any]] = {
            "seconds": {},
            "rows": {"train": len(train), "reference": 0, "calibration": 0},
        }
        X_train = take_rows(X, train)
        self._fit_parts(X_train, y[train], params, int(seed))
        if len(calibration):
            held = None if extra is None else take_rows(extra, calibration)
            self._set_calibration(take_rows(X, calibration), y[calibration], held)
        self._training_hashes = np.sort(row_hashes(X_train, y[train]))
        return self

    def _conformalize(self, X: Any, y: Any, extra: Any, *, may_repeat: bool = False) -> Any:
        check_is_fitted(self)
        self._levels(None, None)
        if is_lazy(X):
            return on_dask().conformalize(self, X, y, extra)
        X, y = self._check_rows(X), check_target(y)
        check_consistent_length(X, y, extra)
        seen = np.isin(row_hashes(X, y), self._training_hashes)
        if seen.any() and not may_repeat:
            warnings.warn(
                f"{np.count_nonzero(seen)} of {len(y)} calibration rows are identical to training "
                "rows; the guarantee needs rows that the model has not seen: leave out those that "
                "are the same records (values that merely repeat do no harm).",
                UserWarning,
                stacklevel=3,
            )
        self._set_calibration(X, y, extra)
        return self

    def _set_calibration(self, X: Any, y: Array, extra: Any) -> None:
        # Assigned last: a calibration that fails leaves the previous one in force.
        with self._stage("calibrate"):
            calibration = self._calibrate(X, y, extra)
        self.calibration_ = calibration
        self.fit_report_["rows"]["calibration"] = len(y)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Seconds of one stage of fitting, into ``fit_report_``."""
        start = time.perf_counter()
        with stage(f"{type(self).__name__}: {name}"):
            yield
        self.fit_report_["seconds"][name] = time.perf_counter() - start

    def _base_estimator(self, seed: int) -> Any:
        return default_estimator(seed) if self.estimator is None else self.estimator

    # ---- predicting ------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Point predictions: (n,)."""
        check_is_fitted(self)
        return on_dask().predict(self, X) if is_lazy(X) else self._point(self._check_rows(X))

    def predict_interval(
        self,
        X: Any,
        confidence_level: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        output: str = "array",
    ) -> Any:
        """Prediction intervals at the level asked for; `guarantee_` says what they promise.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float or list of L floats, default=None
            None is the constructor's level. Several levels come nested: each interval is the
            hull of its own and those of the lower levels asked for with it, which only
            enlarges it.
        alpha : float or list of L floats, default=None
            Miscoverage 1 - confidence_level, as an alternative to it.
        output : {"array", "frame"}, default="array"
            "frame": columns ``lower`` and ``upper`` (``lower_0.9``, ... for several levels), of
            the kind of X and with its index; pandas (or polars alone) for arrays.

        Returns
        -------
        array of shape (n, 2), or (n, 2, L) for a list of levels; or a frame
            Lazy for a Dask X: an array with its chunks, or a frame with its divisions.
            Bounds are infinite where the calibration set is too small for the level; crossed
            bounds become their midpoint.
        """
        return self._predict_interval(X, confidence_level, alpha, output, None)

    def _predict_interval(
        self, X: Any, confidence_level: Any, alpha: Any, output: str, extra: Any
    ) -> Any:
        self._check_calibrated()
        if output not in ("array", "frame"):
            raise ValueError(f"output is {output!r}; 'array' or 'frame' was expected.")
        levels = self._levels(confidence_level, alpha)
        if is_lazy(X):
            return on_dask().predict_interval(self, X, levels, output, extra)
        rows = self._check_rows(X)
        check_consistent_length(rows, extra)
        raw, reason = self._bounds(rows, np.atleast_1d(levels), extra)
        if reason:
            warnings.warn(reason, UserWarning, stacklevel=3)
        intervals = nest(collapse_crossed(raw), np.atleast_1d(levels))
        if output == "frame":
            return intervals_frame(intervals, levels, X)
        return intervals if levels.ndim else intervals[:, :, 0]

    def diagnose(self, X: Any, confidence_level: float | None = None) -> Any:
        """How each row's interval came about.

        Returns
        -------
        frame with one row for each of X, of its kind (pandas for arrays, or polars alone)
            ``effective_sample_size``: reference rows behind the local law (calibration rows
            where there is no law); ``local_lower``, ``local_upper``: local quantiles of the
            score, by side, lower with its sign turned (0 without a law); ``correction``:
            theta*, the larger side's; ``fallback``: the law had to widen its neighbourhood;
            ``crossed``: the bounds crossed and became their midpoint; ``infinite``.
        """
        return self._diagnose(X, confidence_level, None)

    @one_query()
    def _diagnose(self, X: Any, confidence_level: float | None, extra: Any) -> Any:
        self._check_calibrated()
        level = self._levels(confidence_level, None)
        if level.ndim:
            raise ValueError(
                f"confidence_level is {confidence_level!r}; one number was expected: call "
                "diagnose once for each level."
            )
        rows = self._check_rows(X)
        check_consistent_length(rows, extra)
        raw, _ = self._bounds(rows, np.atleast_1d(level), extra)
        columns = self._local(rows, float(level), extra)
        columns["crossed"] = np.asarray(crossed(raw))[:, 0]
        columns["infinite"] = np.asarray(np.isinf(raw).any(axis=(1, 2)))
        first, last = ["local_lower", "local_upper"], ["correction", "effective_sample_size"]
        return make_frame(at_ends(columns, first, last), like=X)

    @property
    def guarantee_(self) -> Guarantee:
        """What is promised, and under which assumptions."""
        check_is_fitted(self)
        self._levels(None, None)
        return self._guarantee()

    # ---- checks ----------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        """The last fit came to its end."""
        return hasattr(self, "_training_hashes")

    def _check_rows(self, X: Any, reset: bool = False) -> Any:
        check_in_memory(X)
        if is_frame(check_frame(X)):
            validate_data(self, X, reset=reset, skip_check_array=True)
            names = column_names(X)
            if reset:
                self._columns, self._row_shape = names, (len(names or ()),)
            # scikit-learn compares names only when all of them are strings.
            elif self._columns not in (None, names):
                raise ValueError(
                    f"X has the columns {names}; {self._columns} were expected, as at fit."
                )
            return X
        if reset:
            self._columns = None
        try:
            rows = validate_data(
                self,
                X,
                reset=reset,
                # What a Pipeline makes of strings is its own business.
                dtype=None if is_composite(self.estimator) else "numeric",
                ensure_all_finite="allow-nan" if accepts_missing(self.estimator) else True,
                allow_nd=accepts_more_dimensions(self.estimator),
            )
        except OverflowError as error:
            raise ValueError(
                "X has whole numbers beyond all floats; finite numbers were expected: count them "
                "in a larger unit."
            ) from error
        if rows.dtype == bool and not is_composite(self.estimator):
            # Some models of scikit-learn compute with rows as they are, and cannot negate these.
            rows = rows.astype(np.float64)
        if reset:
            self._row_shape = rows.shape[1:]
        elif rows.ndim > 2 and rows.shape[1:] != self._row_shape:
            raise ValueError(
                f"X has rows of shape {rows.shape[1:]}; {self._row_shape} was expected, as at fit."
            )
        return rows

    def _check_calibrated(self) -> None:
        check_is_fitted(self)
        if self.calibration_ is None:
            raise NotFittedError(
                f"This {type(self).__name__} has no calibration set yet; call "
                "conformalize(X_cal, y_cal) with rows that the model has not seen."
            )

    def _levels(self, confidence_level: Any, alpha: Any) -> Array:
        if confidence_level is not None and alpha is not None:
            raise ValueError(
                f"confidence_level={confidence_level!r} and alpha={alpha!r} both came; pass one, "
                "alpha = 1 - confidence_level."
            )
        asked = self.confidence_level if confidence_level is None else confidence_level
        name, value = ("alpha", alpha) if alpha is not None else ("confidence_level", asked)
        given = np.asarray(value)
        numeric = given.dtype.kind in "fiu" and given.ndim <= 1 and given.size > 0
        if not numeric or not np.all((given > 0) & (given < 1)):
            raise ValueError(
                f"{name} is {value!r}; a number inside (0, 1), or a list of them, was expected."
            )
        given = given.astype(np.float64)
        return 1.0 - given if alpha is not None else given

    def __sklearn_tags__(self) -> Any:
        """Missing values and dimensions are the base estimator's business."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = accepts_missing(self.estimator)
        tags.input_tags.three_d_array = accepts_more_dimensions(self.estimator)
        return tags


def intervals_frame(intervals: Array, levels: Array, like: Any) -> Any:
    """Columns lower and upper, with the level in the name when there are several."""
    names = [f"_{level:.10g}" for level in levels] if levels.ndim else [""]
    if len(set(names)) < len(names):
        raise ValueError(f"levels {levels.tolist()} repeat; each gives a column: ask once.")
    columns = {}
    for position, name in enumerate(names):
        columns[f"lower{name}"] = intervals[:, 0, position]
        columns[f"upper{name}"] = intervals[:, 1, position]
    return make_frame(columns, like)
