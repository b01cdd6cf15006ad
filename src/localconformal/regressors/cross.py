"""``cv=``: estimators that can train and calibrate on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from localconformal.composition import Correction, Method, Task
from localconformal.cross import CrossCalibration, OutOfBag
from localconformal.quantiles import Array
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.regressors.guarantee import Guarantee, predictive_promise
from localconformal.rows import Rows

_EXCHANGEABLE = (
    "rows given to fit and new rows are exchangeable, folds have equal sizes, and models treat "
    "their training rows symmetrically"
)

_BAGS = "the out-of-bag proof is for a random number of trees (Kim, Xu and Barber, 2020)"


@dataclass(eq=False, repr=False, kw_only=True)
class WithFolds(BaseConformalRegressor):
    """An estimator that can calibrate across folds instead of on held-out rows.

    Parameters
    ----------
    cv : int, splitter, "loo", "oob" or None, default=None
        Cross-conformal intervals: no row is held out, and ``calibration_size`` is not used. The
        method is fitted K + 1 times: without each of K folds (an int, or a scikit-learn splitter
        that holds out every row once), and on all rows, for `predict`. "loo" is K = n
        (jackknife+); "oob" scores each row by the trees of a forest that were not grown on it,
        with one fit, for methods without a law. Coverage of 1 - 2 alpha is proven; in practice it
        is about 1 - alpha (see ``guarantee_``). `conformalize` returns to one calibration set.
    """

    _parameter_constraints = {"cv": ["cv_object", StrOptions({"loo", "oob"})]}  # noqa: RUF012

    cv: Any = None

    @property
    def _held_out(self) -> Any:
        return self.calibration_size if self.cv is None else None

    def _fit_method(self, method: Method, task: Task, seed: int) -> None:
        if self.cv is not None and type(method.correction) is not Correction:
            raise ValueError(
                f"got cv={self.cv!r} with {type(self).__name__}, whose threshold at x needs one "
                "calibration set; expected cv=None."
            )
        super()._fit_method(method, task, seed)
        if self.cv is None:
            return
        with self._timed("folds"):
            if isinstance(self.cv, str) and self.cv == "oob":
                self.calibration_: Any = OutOfBag.of(self.parts_, task)
            else:
                self.calibration_ = CrossCalibration.of(self.parts_, method, task, self.cv, seed)
        self.fit_report_["rows"]["calibration"] = self.calibration_.n

    @property
    def _is_crossed(self) -> bool:
        """Whether folds are in use: as fitted, even if parameters have changed since."""
        return isinstance(self.calibration_, (CrossCalibration, OutOfBag))

    def _bounds(self, rows: Rows, levels: Array) -> tuple[Array, Array]:
        if not self._is_crossed:
            return super()._bounds(rows, levels)
        theta = self.calibration_.theta(levels)[None]
        return self.calibration_.bounds(rows, levels), np.repeat(theta, len(rows), axis=0)

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        if not self._is_crossed:
            return promise
        # If sides are calibrated separately, each may lose as much.
        lost = self.calibration_.lost * (2.0 if self.parts_.sides.separate else 1.0)
        proven = max(0.0, 1.0 - 2.0 * (1.0 - self.confidence_level) - lost)
        assumed = (_EXCHANGEABLE, *promise.assumptions[1:])
        noted = (_BAGS,) if isinstance(self.calibration_, OutOfBag) else ()
        caveats = (*promise.caveats, *noted)
        predictive = promise.predictive and predictive_promise(None, self.calibration_.lost)
        return replace(
            promise,
            proven_level=proven,
            assumptions=assumed,
            caveats=caveats,
            predictive=predictive,
        )

    def _why_no_distribution(self) -> str | None:
        why = super()._why_no_distribution()
        if why is None and isinstance(self.calibration_, OutOfBag):
            return (
                f"{type(self).__name__} with cv='oob' gives only intervals; use cv=10, or call "
                "conformalize with rows that the model has not seen."
            )
        return why
