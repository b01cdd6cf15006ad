"""The bandwidth rule of localized conformal prediction: small thresholds, seldom infinite.

It tries the method itself on reference rows: some stand for calibration rows, others are asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from localconformal.engine.kernels import absolute_weights
from localconformal.engine.local_ranks import rank_locally
from localconformal.laws.bandwidth import BandwidthProblem
from localconformal.quantiles import Array

#: Most rows that stand for calibration rows, and most that are asked.
CALIBRATION, QUERIES = 1_000, 300
#: Reference rows for each that stands for a calibration row, as a default split leaves them: the
#: fewer calibration rows, the more thresholds are infinite.
REFERENCES_EACH = 3
#: Rows that all splits together look at, about, and the most splits.
TRIAL_ROWS, MOST_TRIALS = 2_000, 8
#: Resamples behind a standard deviation.
RESAMPLES = 5

Rows = NDArray[np.int_]


class FiniteThresholds(BaseEstimator):
    """h with the smallest thresholds of localized conformal prediction, of those seldom infinite.

        minimise   mean finite threshold + penalty x its standard deviation
        subject to share of infinite thresholds <= most_infinite

    over ``n_candidates`` bandwidths in equal ratios, from the 1 % quantile to twice the largest of
    the pairwise distances. They are tried from the widest, of equal ones it wins, until the
    condition fails; the widest has the fewest infinite thresholds, and stands where it fails at
    once. A third of the reference rows (1,000 at most) stand for calibration rows, others (300 at
    most) are asked; with few rows over several splits, since one would be chance.

    Parameters
    ----------
    level : float, default=0.9
        Confidence level of the thresholds.
    n_candidates : int, default=20
    penalty : float, default=0.0
        Weight of the standard deviation over five bootstrap resamples of the calibration rows.
    most_infinite : float, default=None
        None is (1 - level) / 2.

    Examples
    --------
    >>> FiniteThresholds(0.8, penalty=1.0)
    FiniteThresholds(level=0.8, penalty=1.0)
    """

    def __init__(
        self,
        level: float = 0.9,
        n_candidates: int = 20,
        penalty: float = 0.0,
        most_infinite: float | None = None,
    ) -> None:
        self.level = level
        self.n_candidates = n_candidates
        self.penalty = penalty
        self.most_infinite = most_infinite

    def choose(self, problem: BandwidthProblem) -> float:
        """The candidate of the smallest objective."""
        self._check()
        ends = (2.0 * problem.distance_quantile(1.0), problem.distance_quantile(0.01))
        if len(problem.v) < 2:
            return ends[0]
        candidates = np.geomspace(*ends, self.n_candidates)
        trials = make_trials(problem, self.level)
        most = (1.0 - self.level) / 2.0 if self.most_infinite is None else self.most_infinite
        objectives: list[float] = []
        for h in candidates:
            share, objective = np.mean([self._judge(trial, float(h)) for trial in trials], axis=0)
            # Narrower ones have more of them still.
            if share > most:
                break
            objectives.append(objective)
        return float(candidates[int(np.argmin(objectives)) if objectives else 0])

    def _check(self) -> None:
        if not 0.0 < self.level < 1.0 or not self.n_candidates >= 1:
            raise ValueError(
                f"level is {self.level!r} and n_candidates {self.n_candidates!r}; a number inside "
                "(0, 1) and at least 1 candidate were expected."
            )
        most = 0.0 if self.most_infinite is None else self.most_infinite
        if not self.penalty >= 0.0 or not 0.0 <= most <= 1.0:
            raise ValueError(
                f"penalty is {self.penalty!r} and most_infinite {self.most_infinite!r}; a number "
                "from 0, and a share in [0, 1] or None, were expected."
            )

    def _judge(self, trial: Trial, bandwidth: float) -> tuple[float, float]:
        """Share of infinite thresholds at one bandwidth, and the objective."""
        once = trial.thresholds(bandwidth, trial.calibration)
        finite = once[np.isfinite(once)]
        share = 1.0 - len(finite) / len(once)
        if not len(finite):
            return share, np.inf
        objective = float(finite.mean())
        if self.penalty > 0:
            again = [trial.thresholds(bandwidth, rows) for rows in trial.resamples]
            objective += self.penalty * spread_within_columns(np.array(again))
        return share, objective


@dataclass(frozen=True)
class Trial:
    """Rows to try the method on: squared distances (n, n) and scores (n,) of those looked at.

    ``calibration`` and ``queries`` say which of them stand for what, ``resamples`` are bootstrap
    samples of the former.
    """

    squared: Array
    v: Array
    kernel: str
    level: float
    calibration: Rows
    queries: Rows
    resamples: Rows

    def thresholds(self, bandwidth: float, calibration: Rows) -> Array:
        """Threshold at each query row, from these calibration rows."""

        def kernel(rows: Rows, others: Rows) -> Array:
            squared = self.squared[np.ix_(rows, others)]
            return absolute_weights(self.kernel, squared / bandwidth**2)

        ordered = calibration[np.argsort(self.v[calibration], kind="stable")]
        ranks = rank_locally(kernel, ordered, self.v[ordered], symmetric=True)
        return ranks.thresholds(self.queries, np.array([self.level]))[:, 0]


def make_trials(problem: BandwidthProblem, level: float) -> list[Trial]:
    """Several where rows are few and one would be chance."""
    count = int(np.clip(TRIAL_ROWS // len(problem.v), 1, MOST_TRIALS))
    return [make_trial(problem, level, number) for number in range(count)]


def make_trial(problem: BandwidthProblem, level: float, number: int) -> Trial:
    """Rows drawn with the law's seed: a third for calibration, others as queries."""
    rng = np.random.default_rng([problem.seed, number])
    n = len(problem.v)
    n_calibration = min(CALIBRATION, max(1, n // REFERENCES_EACH))
    n_queries = min(QUERIES, n - n_calibration)
    looked_at = rng.permutation(n)[: n_calibration + n_queries]
    points = problem.points[looked_at]
    return Trial(
        cdist(points, points, "sqeuclidean"),
        problem.v[looked_at],
        problem.kernel,
        level,
        np.arange(n_calibration),
        np.arange(n_calibration, len(looked_at)),
        rng.integers(n_calibration, size=(RESAMPLES, n_calibration)),
    )


def spread_within_columns(values: Array) -> float:
    """Root mean square distance of finite values (B, m) from the finite mean of their column.

    Examples
    --------
    >>> round(spread_within_columns(np.array([[1.0, 5.0], [3.0, np.inf]])), 3)
    0.816
    """
    finite = np.isfinite(values)
    kept = np.where(finite, values, 0.0)
    mean = kept.sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    squares = np.where(finite, kept - mean, 0.0) ** 2
    return float(np.sqrt(squares.sum() / max(1, finite.sum())))
