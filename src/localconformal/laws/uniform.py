"""One law for every x: no localization."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.localizer import UniformLocalizer
from localconformal.laws.order import check_lengths
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array, quantile_of_cdf


class UniformLaw(BaseLaw):
    """F(v | x) = share of reference scores up to v, the same at every x.

    Examples
    --------
    >>> import numpy as np
    >>> law = UniformLaw().fit(np.zeros((4, 1)), [1.0, 2.0, 3.0, 4.0])
    >>> law.quantile(np.zeros((1, 1)), [0.5, 0.75])
    array([[2., 3.]])
    """

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> UniformLaw:
        """Keep the sorted scores."""
        scores = check_reference_scores(v)
        check_lengths(len(X), len(scores))
        self.engine_ = UniformEngine(np.sort(scores))
        return self

    def rows(self, X: Any) -> int:
        """Only how many there are."""
        return len(X)

    def localizer(self) -> UniformLocalizer:
        """H = 1."""
        return UniformLocalizer()


class UniformEngine:
    """Answers that do not depend on x; ``rows`` is the number of rows."""

    def __init__(self, v: Array) -> None:
        self.v = v

    def quantiles(self, rows: int, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q or Q+ of the empirical law."""
        table = np.arange(1, len(self.v) + 1) / len(self.v)
        answer = quantile_of_cdf(self.v, table, levels, np.broadcast_to(upper, levels.shape))
        return np.array(np.broadcast_to(answer, (rows, levels.shape[-1])))

    def cdf(self, rows: int, v: Array, side: str) -> Array:
        """Share of scores up to, or below, v."""
        return np.searchsorted(self.v, v, side="right" if side == "right" else "left") / len(self.v)

    def moments(self, rows: int) -> Array:
        """Means of V and |V|, all scores, and never widened."""
        told = [np.mean(self.v), np.mean(np.abs(self.v)), len(self.v), 0.0]
        return np.tile(np.array(told, dtype=np.float64), (rows, 1))
