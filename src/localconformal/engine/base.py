"""The contract of an engine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array


class Engine(Protocol):
    """What answers for a law, given its own view of the rows."""

    def quantiles(self, rows: Any, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""

    def cdf(self, rows: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""

    def mean(self, rows: Any, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""

    def effective_sample_size(self, rows: Any) -> Array:
        """Reference rows that count: (m,)."""

    def fallback(self, rows: Any) -> NDArray[np.bool_]:
        """Where the law had to widen its neighbourhood: (m,)."""
