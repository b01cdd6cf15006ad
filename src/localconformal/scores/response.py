"""Raw response: no model behind the interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.scores.base import Band
from localconformal.scores.residual import ResidualScore


class ResponseScore(ResidualScore):
    """V_upper = y, V_lower = -y: the local law is that of y itself.

    The estimator still gives the point predictions; the intervals do not use it.

    Examples
    --------
    >>> import numpy as np
    >>> score = ResponseScore()
    >>> score.values(score.band(np.zeros((1, 3))), np.array([5.0]))
    array([[-5.,  5.]])
    """

    def band(self, X: Any) -> Band:
        """No width around zero."""
        return Band.around(np.zeros(len(X)))

    def out_of_bag_band(self) -> Band:
        """The same: there is no model to be seen by."""
        return Band.around(np.zeros_like(super().out_of_bag_band().lower))

    def is_frozen(self, estimator: Any) -> bool:
        """True: y is never in sample."""
        return True
