"""How wide the kernel is: rules that read the reference rows once, at fit.

A rule is an object with ``choose(problem) -> h``; a new one is one class and, if it wants a
name, one line in `BANDWIDTHS`. Distances are sampled at scale, with the law's seed, from rows
in canonical order: the order in which the rows came does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator

from localconformal.engine.choose import Problem, dense_engine
from localconformal.quantiles import Array

#: Rows whose pairwise distances are looked at; two million pairs fix a median to a percent.
DISTANCE_ROWS = 2_000
#: Rows asked and rows answering in cross-validation.
CV_QUERIES, CV_REFERENCES = 1_000, 10_000
#: Share of rows that may need the fallback at a bandwidth that is tried.
MOST_WIDENED = 0.1
SMALLEST, LARGEST = 1e-100, 1e150


@dataclass(frozen=True)
class BandwidthProblem:
    """Reference points and scores in canonical order, and the kernel they are meant for."""

    points: Array
    v: Array
    kernel: str
    min_effective_samples: float
    seed: int
    n_jobs: int | None = None

    def at(self, bandwidth: float, points: Array, v: Array) -> Problem:
        """The problem of an engine: these rows, at this bandwidth."""
        least = self.min_effective_samples
        return Problem(points, v, self.kernel, bandwidth, least, self.seed, self.n_jobs)

    def distance_quantile(self, q: float) -> float:
        """q-quantile of the positive pairwise distances; 1 when all points coincide."""
        distances = pdist(self.points[self.sample(len(self.points), DISTANCE_ROWS)])
        positive = distances[distances > 0]
        return float(np.quantile(positive, q)) if len(positive) else 1.0

    def sample(self, n: int, most: int) -> Any:
        """Which of n rows to look at: all, or a sorted sample."""
        if n <= most:
            return slice(None)
        return np.sort(np.random.default_rng(self.seed).choice(n, most, replace=False))


class BandwidthRule(Protocol):
    """Chooses h from the reference rows."""

    def choose(self, problem: BandwidthProblem) -> float:
        """The bandwidth h > 0."""


class DistanceQuantile(BaseEstimator):
    """h = the q-quantile of the pairwise distances; q = 0.5 is the paper's rule.

    Examples
    --------
    >>> DistanceQuantile(0.25)
    DistanceQuantile(q=0.25)
    """

    def __init__(self, q: float = 0.5) -> None:
        self.q = q

    def choose(self, problem: BandwidthProblem) -> float:
        """The quantile."""
        if not 0.0 <= self.q <= 1.0:
            raise ValueError(f"q is {self.q!r}; a number in [0, 1] was expected.")
        return problem.distance_quantile(self.q)


class MedianLog(BaseEstimator):
    """h = median distance / sqrt(2 ln n): the "median trick" of the authors' code.

    Examples
    --------
    >>> MedianLog()
    MedianLog()
    """

    def choose(self, problem: BandwidthProblem) -> float:
        """The scaled median."""
        n = max(len(problem.points), 2)
        return problem.distance_quantile(0.5) / float(np.sqrt(2.0 * np.log(n)))


class Rate(BaseEstimator):
    """h = median distance x n^(-1 / (2 beta + d)): shrinks as the paper's proposition asks.

    Parameters
    ----------
    beta : float, default=1.0
        Assumed smoothness of x -> F(. | x).

    Examples
    --------
    >>> Rate(beta=2.0)
    Rate(beta=2.0)
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def choose(self, problem: BandwidthProblem) -> float:
        """The shrunk median."""
        if not self.beta > 0:
            raise ValueError(f"beta is {self.beta!r}; a positive number was expected.")
        n, d = problem.points.shape
        return problem.distance_quantile(0.5) * float(n ** (-1.0 / (2.0 * self.beta + d)))


class CrossValidated(BaseEstimator):
    """h that minimises the pinball loss of the local quantiles on held-out folds.

    Candidates are multiples of the median distance, from wide (hardly local) to narrow, up to
    where more than a tenth of the rows would need the fallback; of equal ones the widest wins.

    Parameters
    ----------
    levels : tuple of floats, default=(0.05, 0.95)
        Quantile levels whose pinball losses are added.
    n_folds : int, default=5
    n_candidates : int, default=14

    Examples
    --------
    >>> CrossValidated(n_folds=3)
    CrossValidated(n_folds=3)
    """

    def __init__(
        self,
        levels: tuple[float, ...] = (0.05, 0.95),
        n_folds: int = 5,
        n_candidates: int = 14,
    ) -> None:
        self.levels = levels
        self.n_folds = n_folds
        self.n_candidates = n_candidates

    def choose(self, problem: BandwidthProblem) -> float:
        """The candidate of least loss."""
        self._check()
        candidates = problem.distance_quantile(0.5) * np.geomspace(4.0, 1 / 64, self.n_candidates)
        losses: list[float] = []
        for h in candidates:
            loss, widened = self.loss(problem, float(h))
            if losses and widened > MOST_WIDENED:
                break
            losses.append(loss)
        return float(candidates[int(np.argmin(losses))])

    def _check(self) -> None:
        if not self.n_folds >= 2 or not self.n_candidates >= 1:
            raise ValueError(
                f"n_folds is {self.n_folds!r} and n_candidates {self.n_candidates!r}; at least 2 "
                "folds and 1 candidate were expected."
            )
        if not self.levels or not all(0.0 < level < 1.0 for level in self.levels):
            raise ValueError(f"levels are {self.levels!r}; numbers inside (0, 1) were expected.")

    def loss(self, problem: BandwidthProblem, bandwidth: float) -> tuple[float, float]:
        """Mean pinball loss of held-out rows at one bandwidth, and the share that fell back."""
        kept = problem.sample(len(problem.v), CV_REFERENCES)
        points, v = problem.points[kept], problem.v[kept]
        if len(v) < 2:
            return 0.0, 0.0
        rng = np.random.default_rng(problem.seed)
        fold = rng.permutation(len(v)) % min(self.n_folds, len(v))
        asked = np.zeros(len(v), dtype=bool)
        asked[rng.permutation(len(v))[:CV_QUERIES]] = True
        levels = np.asarray(self.levels)
        losses, widened = [], []
        for held in range(fold.max() + 1):
            out, rest = asked & (fold == held), fold != held
            engine, _ = dense_engine(problem.at(bandwidth, points[rest], v[rest]))
            local = engine.quantiles(points[out], levels, np.zeros(len(levels), dtype=bool))
            error = v[out][:, None] - local
            losses.append(np.maximum(levels * error, (levels - 1.0) * error))
            widened.append(engine.moments(points[out])[:, 3])
        return float(np.mean(np.concatenate(losses))), float(np.mean(np.concatenate(widened)))


BANDWIDTHS: dict[str, BandwidthRule] = {
    "median": DistanceQuantile(0.5),
    "median-log": MedianLog(),
    "rate": Rate(),
    "cv": CrossValidated(),
}


def choose_bandwidth(bandwidth: Any, problem: BandwidthProblem) -> float:
    """h from a number, the name of a rule, or a rule."""
    if isinstance(bandwidth, (int, float, np.number)) and not isinstance(bandwidth, bool):
        h = float(bandwidth)
    elif isinstance(bandwidth, str) and bandwidth in BANDWIDTHS:
        h = BANDWIDTHS[bandwidth].choose(problem)
    elif hasattr(bandwidth, "choose"):
        h = float(bandwidth.choose(problem))
    else:
        h = float("nan")
    if not h > 0:
        raise ValueError(
            f"bandwidth is {bandwidth!r}; a positive number, one of {sorted(BANDWIDTHS)} or a "
            "rule such as DistanceQuantile(0.1) was expected."
        )
    return float("inf") if h >= LARGEST else max(h, SMALLEST)
