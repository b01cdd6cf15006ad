"""Absolute residual: the score of split conformal prediction."""

from __future__ import annotations

from localconformal.scores.residual import ResidualScore


class AbsoluteScore(ResidualScore):
    """V = |y - mu(x)|, the larger of the two signed residuals; one law, symmetric intervals.

    Examples
    --------
    >>> AbsoluteScore().one_sided
    True
    """

    one_sided = True
