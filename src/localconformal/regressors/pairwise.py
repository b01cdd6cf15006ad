"""Methods whose correction differs from row to row: calibration rows weighed against each x.

    theta*(x) = wcq(1 - alpha; p_1..p_n, w(X_1, x)..w(X_n, x), w_inf(x))

A subclass says what it keeps of a row (`_view`) and what two rows weigh for each other (`_weigh`).
Nothing is fitted when the calibration set changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.kernels import effective_sample_size
from localconformal.models import take_rows
from localconformal.quantiles import Array, weighted_conformal_quantile
from localconformal.regressors.composed import ComposedRegressor
from localconformal.splitting import Rows

#: Pairs of rows that are weighed at a time: bounds the memory, whatever is asked.
PAIRS_AT_A_TIME = 4_000_000


class PairwiseRegressor(ComposedRegressor):
    """A composition with a correction for each row, in chunks of rows."""

    def _weigh(self, rows: Any, held: Any) -> tuple[Array, Array]:
        """Views of m new and n calibration rows -> weights (m, n), and mass at +inf (m,)."""
        raise NotImplementedError

    def _view(self, X: Any, extra: Any) -> Any:
        return self.localizer_.view(X)

    def _correction(self, X: Any, levels: Array, extra: Any) -> Array:
        rows, theta = self._view(X, extra), np.empty((len(X), self.side_rule_.n_sides, len(levels)))
        scores = self.calibration_.adjusted(levels)
        for part in chunks(len(X), self.calibration_.n):
            theta[part] = self._thresholds(take_rows(rows, part), scores, levels)
        return theta

    def _thresholds(self, rows: Any, scores: Array, levels: Array) -> Array:
        """theta* at these rows, of adjusted calibration scores (n, S, L): (m, S, L)."""
        weights, own = self._weigh(rows, self.calibration_.view)
        ask = partial(weighted, weights=weights, own=own)
        return np.moveaxis(self.side_rule_.correction(scores, levels, ask), 2, 0)

    def _shortage(self, theta: Array, levels: Array, X: Any, extra: Any) -> str:
        if self.calibration_.n < self.side_rule_.required_size(levels.max()):
            return super()._shortage(theta, levels, X, extra)
        infinite = np.isinf(theta).any(axis=(1, 2))
        level = float(levels[np.isinf(theta).any(axis=(0, 1))].max())
        return (
            f"{np.count_nonzero(infinite)} of {len(theta)} intervals are infinite: the calibration "
            f"rows that speak for them weigh too little for confidence level {level!r}; "
            f"{self._remedy()}"
        )

    def _remedy(self) -> str:
        return "choose a larger bandwidth, calibrate on more rows, or lower the level."

    def _why_no_distribution(self) -> str:
        return (
            f"{type(self).__name__} weighs calibration rows anew for each row, which gives "
            "intervals and no distribution; use LocalizedConformalRegressor for one."
        )

    def _local(self, X: Any, level: float, extra: Any) -> dict[str, NDArray[Any]]:
        columns = super()._local(X, level, extra)
        if not self.adjustment_.uses_law:
            columns["effective_sample_size"] = self._effective_sizes(self._view(X, extra))
        return columns

    def _effective_sizes(self, rows: Any) -> Array:
        """(sum w)^2 / sum w^2 of the calibration rows at each row: (n,)."""
        sizes = np.empty(len(rows))
        for part in chunks(len(rows), self.calibration_.n):
            weights, _ = self._weigh(take_rows(rows, part), self.calibration_.view)
            sizes[part] = effective_sample_size(weights)
        return sizes


def weighted(scores: Array, level: float, weights: Array, own: Array) -> Array:
    """The quantile that a side rule asks for, at m rows."""
    return weighted_conformal_quantile(scores, weights, own, level)


def chunks(n: int, each: int) -> list[Rows]:
    """Rows 0..n - 1 in parts that meet a bounded number of pairs."""
    step = max(1, PAIRS_AT_A_TIME // max(1, each))
    return [np.arange(start, min(start + step, n)) for start in range(0, n, step)]
