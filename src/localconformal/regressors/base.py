"""The public interface that every estimator of this library shares."""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from importlib import import_module
from inspect import cleandoc, getdoc, isclass, signature
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from localconformal.adjustments import Adjustment
from localconformal.composition import REFERENCES, Calibration, Method, Parts, Task
from localconformal.corrections import Cells
from localconformal.distribution import WithPredictiveDistribution
from localconformal.explanation import WithExplanations, keep_background, widths_of
from localconformal.laws import LAW_METHODS, LAWS, Law, SidedLaw
from localconformal.progress import is_seen, stage
from localconformal.quantiles import ANYTHING, Array, Support, as_levels, crossed, finish
from localconformal.regressors.card import card
from localconformal.regressors.guarantee import Guarantee, predictive_promise
from localconformal.rows import (
    Rows,
    accepts_missing,
    accepts_more_dimensions,
    check_frame,
    check_unmasked,
    is_composite,
    is_frame,
    is_frozen,
    make_frame,
    models_given,
    row_hashes,
    split_rows,
    table_names,
    take_params,
)
from localconformal.scores import SCORES, Score

_FROZEN = "no row given to fit was used to train the fitted model that was passed"
_INSIDE = "every new y is a value that support= and integer= allow"
_NO_HASHES: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
#: Squares of larger responses, and sums of them, leave the range of float64.
_LARGEST_RESPONSE = 1e150


@dataclass(eq=False, repr=False, kw_only=True)
class BaseConformalRegressor(
    WithPredictiveDistribution, WithExplanations, RegressorMixin, BaseEstimator
):
    """Validation, splitting, levels, nesting and frames; a subclass defines its `Method`.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. For fitted models, see `SLCPRegressor`.
    confidence_level : float, default=0.9
        1 - alpha, used when `predict_interval` gets no level of its own.
    calibration_size : float or int or None, default=0.25
        Share or number of rows held out for calibration; if None, call `conformalize` after `fit`.
    random_state : int or None, default=None
        Seed of the split, the folds and the law.
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core),
        if the method uses them.
    support : (low, high) or None, default=None
        Range of y, with None for an open end, such as (0, None): bounds, quantiles, samples and
        the CDF stay inside. Point predictions are not changed.
    integer : bool, default=False
        Whether y is a whole number: then bounds are rounded inward to whole numbers. Neither
        option loses coverage; an interval left empty becomes the nearest value that y can have.

    Attributes
    ----------
    guarantee_ : Guarantee
    fit_report_ : dict
        Seconds by stage; rows used for training, reference and calibration.
    score_, law_, adjustment_, calibration_
        The fitted parts.
    """

    #: What a method takes in addition to X, one entry per row: "groups", "weights", or nothing.
    beside: ClassVar[str | None] = None
    # Includes parameters that only some estimators have; a subclass adds its own.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [None, HasMethods("predict"), tuple, list],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "calibration_size": [
            None,
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 1, None, closed="left"),
        ],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "support": [None, tuple, list],
        "integer": ["boolean"],
        "conformity_score": [StrOptions(set(SCORES)), Score],
        "law": [None, StrOptions(set(LAWS)), HasMethods(LAW_METHODS)],
        "reference": [StrOptions(set(REFERENCES))],
    }

    estimator: Any = field(default=None, kw_only=False)
    confidence_level: float = 0.9
    calibration_size: float | int | None = 0.25
    random_state: Any = None
    n_jobs: int | None = None
    support: Any = None
    integer: bool = False
    # As fitted, even if the parameters have changed since; files of earlier versions have none.
    _support = ANYTHING

    def __init_subclass__(cls, **options: Any) -> None:
        """Inherit the constraints of parents, and their docs of parameters and attributes."""
        super().__init_subclass__(**options)
        inherited = super(cls, cls)._parameter_constraints
        cls._parameter_constraints = {**inherited, **cls._parameter_constraints}
        about, examples, code = cleandoc(cls.__doc__ or "").partition("\n\nExamples\n")
        if examples:
            about = about.partition("\n\nParameters\n")[0].partition("\n\nAttributes\n")[0]
            sections = [_told(cls, heading) for heading in ("Parameters", "Attributes")]
            cls.__doc__ = "\n\n".join([about, *sections]) + examples + code

    # Gives `set_fit_request(sample_weight=...)`, as a signature would.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"sample_weight": None}

    def get_metadata_routing(self) -> MetadataRouter:
        """With scikit-learn's metadata routing enabled, a base model gets what it requests.

        For None, and for models that cannot request, `set_fit_request` of this estimator decides.
        """
        own, requesters = super().get_metadata_routing(), _requesters(self.estimator)
        if requesters and own.fit.requests["sample_weight"] is None:
            # The regressor has no request of its own: that of the base model is enough.
            del own.fit.requests["sample_weight"]
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(own)
        return router.add(method_mapping=to_fit, **requesters)

    def _method(self, task: Task) -> Method:
        """The terms of the equation, for these training rows."""
        raise NotImplementedError

    # ---- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> BaseConformalRegressor:
        """Split the rows, train on one part, calibrate on the other.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            NumPy, pandas or polars; or Dask (then y too), for methods of the split family.
        y : array of shape (n,)
        **fit_params
            Passed to the base estimator's ``fit``, restricted to the training rows if they have
            one entry per row; with scikit-learn's metadata routing, only those it requests. Also
            ``groups`` or ``weights`` if the method takes them; later calls then need them too.
        """
        beside = fit_params.pop(self.beside, None) if self.beside else None
        self._validate_params()
        models = models_given(self.estimator)
        if not models:
            raise ValueError(f"got estimator={self.estimator!r}; expected at least one model.")
        for name in (kind.__name__ for kind in models if isclass(kind)):
            raise ValueError(
                f"got the class {name} as a model; expected an instance: pass {name}()."
            )
        support = Support.of(self.support, bool(self.integer))
        # Fitted only after the last line: a fit that fails leaves no model behind.
        self.__dict__.pop("_training_hashes", None)
        self._beside_given, self._support = beside is not None, support
        if _is_lazy(X):
            _on_dask().fit(self, X, y, beside, fit_params)
            # Dask rows are not remembered one by one: `conformalize` cannot tell which were seen.
            self._training_hashes = _NO_HASHES
            return self
        rows, y = self._rows(X, beside, reset=True), check_target(y, support)
        check_consistent_length(rows.X, y)
        if fit_params:
            fit_params = _routed_params(self, fit_params)
            _check_params(fit_params, len(y), self._base_estimator(0, fit_params), self.beside)
        split_seed, seed = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        train, held = split_rows(len(y), self._held_out, int(split_seed))
        params = take_params(fit_params, train, len(y))
        task, method = self._start_fit(rows.take(train), y[train], len(train), int(seed), params)
        self._fit_method(method, task, int(split_seed))
        self._background = keep_background(task.rows.X, int(seed))
        if len(held):
            self._calibrate(rows.take(held), y[held])
        self._training_hashes = np.sort(row_hashes(task.rows.X, task.y))
        return self

    def conformalize(self, X: Any, y: ArrayLike, **beside: Any) -> BaseConformalRegressor:
        """Replace the calibration set; nothing is refitted.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows that the model has not seen.
        y : array of shape (n,)
        **beside
            ``groups`` or ``weights`` of the rows, if `fit` got them.
        """
        check_is_fitted(self)
        self._levels(None, None)
        extra = self._read_beside(beside)
        if _is_lazy(X):
            return _on_dask().conformalize(self, X, y, extra)
        rows, target = self._rows(X, extra), check_target(y, self._support)
        check_consistent_length(rows.X, target)
        seen = np.isin(row_hashes(rows.X, target), self._training_hashes)
        if seen.any():
            warnings.warn(
                f"{np.count_nonzero(seen)} of {len(target)} calibration rows are identical to "
                "training rows; the guarantee needs rows that the model has not seen: drop those "
                "that are the same records (different records with equal values do no harm).",
                UserWarning,
                stacklevel=2,
            )
        self._calibrate(rows, target)
        return self

    @property
    def _held_out(self) -> Any:
        """Rows that `fit` does not train on: a share, a number, or None for no rows."""
        return self.calibration_size

    def _fit_method(self, method: Method, task: Task, seed: int) -> None:
        """Fit the terms to training rows."""
        self._set_parts(method.fit(task, self._timed))

    # Steps of a fit, also on Dask.

    def _start_fit(
        self, rows: Rows, y: Array, n_train: int, seed: int, fit_params: Mapping[str, Any]
    ) -> tuple[Task, Method]:
        """Begin a report; return what to fit, and the terms of the equation for these rows."""
        counts = {"train": n_train, "reference": 0, "calibration": 0}
        self.calibration_, self.fit_report_ = None, {"seconds": {}, "rows": counts}
        base = self._base_estimator(seed, fit_params)
        task = Task(base, rows, y, self.confidence_level, seed, fit_params, self.n_jobs)
        method = self._method(task)
        self._frozen = method.score.comes_fitted(base) or _holds_fitted(method.law)
        return task, method

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Record the seconds of one stage in ``fit_report_``."""
        start, shown = time.perf_counter(), nullcontext()
        if is_seen() or logging.getLogger("localconformal").isEnabledFor(logging.INFO):
            shown = stage(f"{type(self).__name__}: {name}")  # type: ignore[assignment]
        with shown:
            yield
        self.fit_report_["seconds"][name] = time.perf_counter() - start

    def _set_parts(self, parts: Parts) -> None:
        """Use these parts; the report says how many reference rows they have."""
        self.parts_, counts = parts, self.fit_report_["rows"]
        counts["reference"] = parts.n_reference

    def _light_copy(self, **changed: Any) -> Any:
        """A copy for workers: same answers, no memory of training rows."""
        light: Any = copy(self)
        vars(light).update(_training_hashes=_NO_HASHES, **changed)
        return light

    def _calibrate(self, rows: Rows, y: Array) -> None:
        # Assigned last: a calibration that fails leaves the previous one in force.
        with self._timed("calibrate"):
            calibration = Calibration.of(self.parts_, rows, y)
            # Compute the default level now, so that the first prediction need not.
            level, one = np.array([self.confidence_level]), rows.take(np.arange(1))
            self.parts_.correction.theta(calibration, one, level)
        self.calibration_ = calibration
        self.fit_report_["rows"]["calibration"] = len(y)

    def _base_estimator(self, seed: int, fit_params: Any = ()) -> Any:
        if self.estimator is not None:
            return self.estimator
        from localconformal.models import default_estimator

        return default_estimator(seed)

    # ---- predicting ------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Point predictions: (n,)."""
        check_is_fitted(self)
        if _is_lazy(X):
            return _on_dask().predict(self, X)
        return self.parts_.band(self._rows(X)).point

    def predict_interval(
        self,
        X: Any,
        confidence_level: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        output: str = "array",
        **beside: Any,
    ) -> Any:
        """Prediction intervals at the requested level; `guarantee_` says what they promise.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float or list of L floats, default=None
            None is the constructor's level. Several levels are nested: each interval is the hull
            of its own and those of the lower levels in the same call.
        alpha : float or list of L floats, default=None
            Miscoverage, 1 - confidence_level; pass one or the other.
        output : {"array", "frame"}, default="array"
            "frame": columns ``lower`` and ``upper`` (``lower_0.9``, ... for several levels), in
            the library and with the index of X; for arrays pandas, or polars if pandas is missing.
        **beside
            ``groups`` or ``weights`` of the rows, if `fit` got them.

        Returns
        -------
        array of shape (n, 2), or (n, 2, L) for a list of levels; or a frame
            Infinite if the calibration set is too small for the level; crossed bounds become
            their midpoint; what ``support`` and ``integer`` rule out is cut off. Lazy for a Dask X.
        """
        self._check_calibrated()
        if output not in ("array", "frame"):
            raise ValueError(f"got output={output!r}; expected 'array' or 'frame'.")
        levels, extra = self._levels(confidence_level, alpha), self._read_beside(beside)
        if _is_lazy(X):
            return _on_dask().predict_interval(self, X, levels, output, extra)
        each, rows = np.atleast_1d(levels), self._rows(X, extra)
        raw, theta = self._bounds(rows, each)
        self._warn_of_shortage(rows, theta, each)
        intervals = finish(raw, each, self._support)
        if output == "frame":
            return intervals_frame(intervals, levels, rows.X)
        return intervals if levels.ndim else intervals[:, :, 0]

    def _warn_of_shortage(self, rows: Rows, theta: Array, levels: Array) -> None:
        """Warn, with the reason, if theta* (n, S, L) is infinite anywhere."""
        if np.isposinf(theta).any():
            reason = self.parts_.correction.shortage(self.calibration_, rows, theta, levels)
            if np.isfinite([self._support.low, self._support.high]).all():
                reason = reason.replace("are infinite", "are all of the support", 1)
            warnings.warn(reason, UserWarning, stacklevel=3)

    def _bounds(self, rows: Rows, levels: Array) -> tuple[Array, Array]:
        """Raw bounds (n, 2, L) and theta* (n, S, L), some rows at a time."""
        parts, n, L = self.parts_, len(rows), len(levels)
        raw, theta = np.empty((n, 2, L)), np.empty((n, parts.sides.n_sides, L))
        for part, some in rows.parts(parts.rows_at_a_time):
            theta[part] = found = parts.correction.theta(self.calibration_, some, levels)
            raw[part] = parts.at(some).bounds(found, levels)
        return raw, theta

    def diagnose(self, X: Any, confidence_level: float | None = None, **beside: Any) -> Any:
        """How each row's interval was made.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float, default=None
        **beside
            ``groups`` or ``weights`` of the rows, if `fit` got them.

        Returns
        -------
        frame with one row per row of X (for arrays pandas, or polars if pandas is missing)
            ``effective_sample_size``: reference rows behind the local law (calibration rows
            if there is no law); ``local_lower``, ``local_upper``: local quantiles of the score on
            each side, the lower one negated (0 without a law); ``correction``: theta*, the larger
            of the two sides; ``fallback``: the law had to widen its neighbourhood; ``crossed``:
            the bounds crossed and became their midpoint; ``infinite``: a bound is infinite;
            ``point_outside``: the point prediction lies outside the interval; ``width``: as in
            `explain_width`; ``width_noise``: the part of the width that comes from the model and
            the local law, before the correction.
        """
        self._check_calibrated()
        levels = np.atleast_1d(self._levels(confidence_level, None, one_for="diagnose"))
        rows = self._rows(X, self._read_beside(beside))
        raw, theta = self._bounds(rows, levels)
        point, bounds = self.parts_.band(rows).point, finish(raw, levels, self._support)[:, :, 0]
        empty = crossed(raw)[:, 0]
        parts = [self._local(part, levels) for _, part in rows.parts(self.parts_.rows_at_a_time)]
        lower, upper, size, widened = map(np.concatenate, zip(*parts, strict=True))
        T = self.parts_.sides.thresholds(np.stack([-lower, upper], axis=1)[:, :, None])
        local = self.parts_.score.bounds(self.parts_.band(rows), T)
        columns = {
            "local_lower": lower,
            "local_upper": upper,
            "fallback": widened,
            "crossed": empty,
            "infinite": np.isinf(bounds[:, self.parts_.sides.closed]).any(axis=1),
            "point_outside": empty | (point < bounds[:, 0]) | (point > bounds[:, 1]),
            "correction": theta[:, :, 0].max(axis=1),
            "width_noise": widths_of(self, rows, local, levels),
            "width": widths_of(self, rows, raw, levels),
            "effective_sample_size": size,
        }
        return make_frame(columns, like=X)

    def _local(self, rows: Rows, levels: Array) -> tuple[NDArray[Any], ...]:
        """Lower and upper local quantiles, effective size and fallback at these rows."""
        parts, none = self.parts_, np.zeros(len(rows))
        if parts.adjustment is None:
            return none, none, parts.correction.sizes(self.calibration_, rows), none > 0.0
        F = parts.law.at(rows)
        moments = F.moments()
        size, widened = moments[:, :, 2].min(axis=1), moments[:, :, 3].max(axis=1) > 0.0
        return (*parts.adjustment.local(F, parts.sides.levels(levels)), size, widened)

    # ---- what was fitted -------------------------------------------------------------------

    @property
    def score_(self) -> Score:
        """The fitted score."""
        return self.parts_.score

    @property
    def law_(self) -> SidedLaw:
        """The fitted law of each side of the score; no laws if no adjustment uses them."""
        return self.parts_.law

    @property
    def adjustment_(self) -> Adjustment | None:
        """The fitted adjustment; None if the score is not adjusted."""
        return self.parts_.adjustment

    @property
    def selection_(self) -> Any:
        """What ``law="auto"`` chose, as a frame.

        ``part``: "centre" for point models, "lower" and "upper" for readings of the forest's
        leaves on each side; ``name``: its name; ``loss``: its mean absolute error or pinball loss
        on held-out training rows; ``weight``: its share; ``note``: why it was left out, or what
        else was chosen.
        """
        check_is_fitted(self)
        stories = [law.story() for law in self.law_.laws if hasattr(law, "story")]
        if not stories:
            raise AttributeError(
                f"selection_ needs law='auto'; this {type(self).__name__} was given another law, "
                "or its adjustment uses none."
            )
        columns = {name: [x for one in stories for x in one[name]] for name in stories[0]}
        return make_frame(columns, like=None)

    @property
    def guarantee_(self) -> Guarantee:
        """The coverage guarantee, and its assumptions."""
        check_is_fitted(self)
        self._levels(None, None)
        return self._guarantee()

    def _guarantee(self) -> Guarantee:
        n = None if self.calibration_ is None else self.calibration_.n
        assumed = {_FROZEN: self._frozen, _INSIDE: self._support != ANYTHING}
        return Guarantee(
            confidence_level=self.confidence_level,
            conditional_on="cell" if self._is_by_cell else None,
            n_calibration=n,
            assumptions=(
                Guarantee.EXCHANGEABLE,
                *(text for text, is_so in assumed.items() if is_so),
            ),
            caveats=self._caveats(),
            predictive=None if self._why_no_distribution() else predictive_promise(n),
        )

    @property
    def _is_by_cell(self) -> bool:
        """Whether the promise holds within each cell: as fitted, even if parameters changed."""
        correction = self.parts_.correction
        return isinstance(correction, Cells) and not correction.pool

    def _caveats(self) -> tuple[str, ...]:
        missing = ("calibration is still missing",) if self.calibration_ is None else ()
        where = "within a cell, " if self._is_by_cell else ""
        return (f"{where}this is an average over rows, not a promise at each x", *missing)

    # ---- checks ----------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the last fit was completed."""
        return hasattr(self, "_training_hashes")

    def _read_beside(self, given: Mapping[str, Any]) -> Any:
        """Groups or weights among the keyword arguments; an error for anything else."""
        name = self.beside
        if unknown := sorted(set(given) - {name}):
            raise TypeError(
                f"got the unexpected argument {', '.join(unknown)}; expected "
                f"{'only ' + name if name else 'no other arguments'}."
            )
        extra = given.get(name) if name else None
        if self._beside_given and extra is None:
            raise ValueError(f"got {name} in fit but not here; pass {name}= here too, one per row.")
        if extra is not None and not self._beside_given:
            raise ValueError(f"got {name} here but not in fit; pass {name}= to both or to neither.")
        return extra

    def _rows(self, X: Any, beside: Any = None, reset: bool = False) -> Rows:
        """X as checked `Rows`; rows from `rows_of` keep their stored answers."""
        if isinstance(X, Rows):
            return X
        if _is_lazy(X):
            raise ValueError(
                f"got X as a Dask {type(X).__name__}, which this method does not support; call "
                "X.compute() first, on as many rows as fit in memory."
            )
        if is_frame(check_frame(X)):
            validate_data(self, X, reset=reset, skip_check_array=True)
            names: list[Any] | None = table_names(X)
            if reset:
                self._columns, self._row_shape = names, (len(names or ()),)
            # scikit-learn compares names only when all of them are strings.
            elif self._columns not in (None, names):
                raise ValueError(f"X has the columns {names}; expected {self._columns}, as at fit.")
            check_consistent_length(X, beside)
            return Rows(X, beside)
        if reset:
            self._columns = None
        try:
            rows = validate_data(
                self,
                X,
                reset=reset,
                # A Pipeline may handle strings itself.
                dtype=None if is_composite(self.estimator) else "numeric",
                ensure_all_finite="allow-nan" if accepts_missing(self.estimator) else True,
                allow_nd=accepts_more_dimensions(self.estimator),
            )
        except OverflowError as error:
            problem = "X has integers too large for a float; use a larger unit."
            raise ValueError(problem) from error
        if rows.dtype == bool and not is_composite(self.estimator):
            # Some scikit-learn models compute with rows as given, and cannot negate booleans.
            rows = rows.astype(np.float64)
        if reset:
            self._row_shape = rows.shape[1:]
        elif rows.ndim > 2 and rows.shape[1:] != self._row_shape:
            raise ValueError(
                f"X has rows of shape {rows.shape[1:]}; expected {self._row_shape}, as at fit."
            )
        check_consistent_length(rows, beside)
        return Rows(rows, beside)

    def _check_calibrated(self) -> None:
        check_is_fitted(self)
        if self.calibration_ is None:
            raise NotFittedError(
                f"This {type(self).__name__} has no calibration set yet; call "
                "conformalize(X_cal, y_cal) with rows that the model has not seen."
            )

    def _levels(self, confidence_level: Any, alpha: Any, one_for: str = "") -> Array:
        if confidence_level is not None and alpha is not None:
            raise ValueError(
                f"got both confidence_level={confidence_level!r} and alpha={alpha!r}; pass one, "
                "alpha = 1 - confidence_level."
            )
        if alpha is None:
            asked = self.confidence_level if confidence_level is None else confidence_level
            levels = as_levels(asked, "confidence_level")
        else:
            levels = 1.0 - as_levels(alpha, "alpha")
        if one_for and levels.ndim:
            raise ValueError(
                f"got {len(levels)} levels; expected one number: call {one_for} once per level."
            )
        return levels

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and below it the guarantee and cost of a fitted estimator."""
        return str(super()._repr_html_inner()) + card(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """The same for Jupyter."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        return (
            shown | {"text/html": shown["text/html"] + card(self)}
            if "text/html" in shown
            else shown
        )

    def __sklearn_tags__(self) -> Any:
        """The base estimator decides whether missing values and more dimensions are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = accepts_missing(self.estimator)
        tags.input_tags.three_d_array = accepts_more_dimensions(self.estimator)
        return tags


def _told(cls: type, heading: str) -> str:
    """A section of a class's docstring: its own entries, then those that its parents add."""
    entries = {"estimator": ""} if heading == "Parameters" else {}
    for kind in cls.__mro__:
        section = re.search(rf"^{heading}\n-+\n(.*?)(?:\n\n|\Z)", getdoc(kind) or "", re.M | re.S)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            name = entry.partition(" :")[0]
            entries[name] = entries.get(name) or entry
    return "\n".join([heading, "-" * len(heading), *entries.values()])


def intervals_frame(intervals: Array, levels: Array, like: Any) -> Any:
    """Columns lower and upper, with the level in the name when there are several."""
    names = [f"_{level:.10g}" for level in levels] if levels.ndim else [""]
    if len(set(names)) < len(names):
        raise ValueError(
            f"got repeated levels {levels.tolist()}; expected each once, since each gives a column."
        )
    columns = [f"{end}{name}" for name in names for end in ("lower", "upper")]
    values = intervals.transpose(2, 1, 0).reshape(len(columns), -1)
    return make_frame(dict(zip(columns, values, strict=True)), like)


def check_target(y: Any, support: Support = ANYTHING) -> Array:
    """y as a finite float64 array of shape (n,), with all values inside the support."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    check_unmasked(y, "y")
    column = column_or_1d(y, warn=True)
    if column.dtype.kind not in "biufO":
        raise ValueError(
            f"y has dtype {column.dtype}; expected numbers: convert it (times to seconds, say)."
        )
    try:
        target = np.asarray(check_array(column, ensure_2d=False, dtype=np.float64, input_name="y"))
    except OverflowError:  # integers too large for a float
        target = np.array([np.inf])
    if np.any(np.abs(target) > _LARGEST_RESPONSE):
        raise ValueError(
            f"y has values as large as {np.abs(target).max():.3g}; expected at most "
            f"{_LARGEST_RESPONSE:g} in absolute value: use a larger unit."
        )
    return support.check(target)


def _routed_params(regressor: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """The fit parameters that base models get: all of them if routing is not enabled."""
    if not get_config()["enable_metadata_routing"]:
        return fit_params
    routed = process_routing(regressor, "fit", **fit_params)
    requested = [dict(routed[name].fit) for name in _requesters(regressor.estimator)]
    if len({frozenset((name, id(value)) for name, value in one.items()) for one in requested}) > 1:
        raise ValueError(
            f"got base models with different fit requests, {[sorted(each) for each in requested]}; "
            "expected the same for all: call set_fit_request with the same arguments on each."
        )
    return requested[0] if requested else fit_params


def _holds_fitted(law: Any) -> bool:
    """Whether any model inside the law was fitted elsewhere, on unknown rows."""
    inside = law.get_params(deep=False).values() if isinstance(law, Law) else ()
    parts = [part for given in inside for part in models_given(given)]
    return any(_holds_fitted(one) or (hasattr(one, "predict") and is_frozen(one)) for one in parts)


def _requesters(estimator: Any) -> dict[str, Any]:
    """Base models that can request metadata, by name; empty unless all of them can."""
    models = models_given(estimator)
    if not all(hasattr(model, "get_metadata_routing") for model in models):
        return {}
    return {f"estimator_{place}": model for place, model in enumerate(models)}


def _check_params(
    params: Mapping[str, Any], n_rows: int, estimator: Any, beside: str | None
) -> None:
    """Reject fit parameters that the base model cannot use."""
    models = models_given(estimator)
    if any(map(is_frozen, models)):
        raise ValueError(
            f"fit got {sorted(params)}, but the model is already fitted; leave them out."
        )
    for name, model in product(params, models):
        if not _takes_param(model, name):
            hint = " (for intervals within groups: MondrianConformalRegressor)"
            remedy = f"leave it out{hint if name == 'groups' else ''}"
            if beside is not None and get_close_matches(name, [beside]):
                remedy = f"did you mean {beside}="
            raise TypeError(
                f"fit got {name}, which the base model {type(model).__name__} does not take; "
                f"{remedy}{'?' if 'mean' in remedy else '.'}"
            )
    weight: Any = params.get("sample_weight")
    check_unmasked(weight, "sample_weight")
    if weight is not None and np.ndim(weight) and len(weight) != n_rows:
        raise ValueError(
            f"sample_weight has {len(weight)} entries and X has {n_rows} rows; expected one per "
            "row, calibration rows included."
        )


def _takes_param(estimator: Any, name: str) -> bool:
    """Whether ``fit`` of a model takes a parameter of this name; True if that is unknown."""
    try:
        known = signature(estimator.fit).parameters
    except (AttributeError, TypeError, ValueError):
        return True
    return name in known or any(one.kind is one.VAR_KEYWORD for one in known.values())


def _is_lazy(X: Any) -> bool:
    """Whether X is a Dask array or frame."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "_meta")


def _on_dask() -> Any:
    """The functions that fit, calibrate and predict on Dask."""
    # By name: that package is a later layer, and the only one that uses Dask.
    return import_module("localconformal.distributed.estimator")


# ---- what other packages may use of an estimator -----------------------------------------------


def rows_of(
    model: Any, X: Any, beside: Mapping[str, Any] | None = None, *, reset: bool = False
) -> Rows:
    """X as rows, checked against the fit (or, with ``reset``, as its rows); groups by name."""
    return model._rows(X, model._read_beside(beside or {}), reset)


def intervals_at(model: Any, rows: Rows, levels: Array) -> Array:
    """Intervals (n, 2, L) at rows from `rows_of`, with no warning if some are infinite."""
    return finish(model._bounds(rows, levels)[0], levels, model._support)


def calibrate_on(model: Any, X: Any, y: Any, **beside: Any) -> None:
    """`conformalize` without the check for training rows: for other records with equal values."""
    model._calibrate(rows_of(model, X, beside), check_target(y, model._support))


def calibration_of(model: Any) -> Calibration:
    """The model's calibration, with the scores of all rows, or an error that says what to do."""
    model._check_calibrated()
    if not isinstance(model.calibration_, Calibration):
        raise ValueError(
            f"this {type(model).__name__} has no calibration set in memory, since it was fitted on "
            "Dask or with cv=; call conformalize with rows in memory first."
        )
    return model.calibration_


def training_digest(model: Any) -> str:
    """SHA-256 of the hashes of the model's training rows; of no rows if it remembers none."""
    return sha256(model._training_hashes.astype("<u8").tobytes()).hexdigest()
