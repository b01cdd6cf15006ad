"""What a calibration by cells says of itself: what it promises, and where it is too small."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.models import check_finite
from localconformal.quantiles import Array
from localconformal.regressors.base import EXCHANGEABLE, BaseConformalRegressor
from localconformal.regressors.guarantee import Guarantee
from localconformal.scores import BaseScore


class CalibratedRegressor(BaseConformalRegressor):
    """An estimator whose ``calibration_`` is a `Calibration` of a fitted score."""

    score_: BaseScore
    _frozen: bool

    def _point(self, X: Any) -> Array:
        point = self.score_.point(X)
        check_finite(point)
        return point

    def _why_infinite(self, infinite: NDArray[np.bool_], levels: Array, cells: NDArray[Any]) -> str:
        """Why theta* is infinite where it is, (n, S, L), for rows in these cells (n,)."""
        level = float(levels[infinite.any(axis=(0, 1))].max())
        short = np.unique(cells[infinite.any(axis=(1, 2))])
        smallest = min(self.calibration_.count(cell) for cell in short)
        needed = self.calibration_.rule.required_size(level)
        if smallest >= needed:
            return "Some intervals are infinite: the adjusted calibration scores are themselves."
        return (
            f"Some intervals are infinite: {smallest} calibration rows came"
            f"{self._name_cells(short)} and confidence level {level!r} needs at least {needed}; "
            "calibrate on more rows, or ask for a lower level."
        )

    def _name_cells(self, cells: NDArray[Any]) -> str:
        """Which cells are short of rows, where there are several."""
        return ""

    def _guarantee(self) -> Guarantee:
        frozen = ("no row given to fit was used to train the fitted model that came in",)
        return Guarantee(
            confidence_level=self.confidence_level,
            n_calibration=None if self.calibration_ is None else self.calibration_.n,
            assumptions=(EXCHANGEABLE, *(frozen if self._frozen else ())),
            caveats=self._caveats(),
        )

    def _caveats(self) -> tuple[str, ...]:
        missing = ("calibration is still missing",) if self.calibration_ is None else ()
        return ("this is an average over rows, not a promise at each x", *missing)
