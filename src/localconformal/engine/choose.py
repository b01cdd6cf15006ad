"""Which engine answers for a kernel law: decided once, at fit, from reference rows alone.

::

    few rows (up to 3,000)            plain NumPy, no compiler (`laws.kernel`)
    Gaussian, 10,000 rows and more    sketch, if its certificate meets the tolerance
    else                              exact

The certificate: on a sample of at most 50,000 references, the sketch's quantiles at held-aside
rows are looked up in the exact law of the same sample; the 99th percentile of their rank error
must be within the tolerance. Landmarks are added until it is, or the sketch is given up.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from localconformal.engine import TOLERANCE, Engine, EngineReport
from localconformal.quantiles import Array

SKETCH_FROM = 10_000
#: Rows whose pairwise distances are looked at; two million pairs fix a median to a percent.
DISTANCE_ROWS = 2_000
_LANDMARKS = (128, 256, 512, 1024)
_CERTIFICATE_ROWS, _PROBES = 50_000, 400
_LEVELS = np.array([0.05, 0.5, 0.95])
#: A sketch that sends more rows than this to its fallback is no sketch.
_MOST_LOST = 0.01


@dataclass(frozen=True)
class Problem:
    """Reference points (n, d) and scores (n,), in any order, and the kernel meant for them.

    Also what a rule for the bandwidth reads, before there is one.
    """

    points: Array
    v: Array
    kernel: str
    bandwidth: float
    min_effective_samples: float
    seed: int
    n_jobs: int | None = None
    #: Rank error that a sketch may have.
    tolerance: float = TOLERANCE

    def by_score(self) -> Problem:
        """With rows in the order of their scores."""
        return self.take(np.argsort(self.v, kind="stable"))

    def sample(self, most: int) -> Problem:
        """At most so many of the rows, drawn with the seed."""
        if len(self.v) <= most:
            return self
        rng = np.random.default_rng(self.seed)
        return self.take(np.sort(rng.choice(len(self.v), most, replace=False)))

    def distance_quantile(self, q: float) -> float:
        """q-quantile of the positive pairwise distances; 1 when all points coincide."""
        distances = pdist(self.sample(DISTANCE_ROWS).points)
        positive = distances[distances > 0]
        return float(np.quantile(positive, q)) if len(positive) else 1.0

    def take(self, rows: Any) -> Problem:
        """Some of the rows."""
        return replace(self, points=self.points[rows], v=self.v[rows])

    def for_engine(self) -> tuple[Array, Array, str, float, float]:
        """What an exact engine is made of: scores in order, their rows, kernel, h, minimum."""
        of = self.by_score()
        return of.v, of.points, of.kernel, of.bandwidth, of.min_effective_samples


def build_engine(name: str, problem: Problem) -> tuple[Engine, EngineReport]:
    """The engine of this name, or the one that "auto" chooses, and the report on it."""
    sketch, report = sketch_or_none(name, problem)
    return _exact_engine(problem, report.reason) if sketch is None else (sketch, report)


def sketch_or_none(name: str, problem: Problem) -> tuple[Any, EngineReport]:
    """A sketch where it is asked for, or "auto" chooses it, or None; and the report on it."""
    n = len(problem.v)
    if name == "sketch":
        return _try_sketch(problem, insist=True)
    if name == "auto" and problem.kernel == "gaussian" and n >= SKETCH_FROM:
        return _try_sketch(problem, insist=False)
    reason = f"{n} reference rows are too many for plain NumPy and too few for a sketch"
    if problem.kernel != "gaussian":
        reason = "a sketch is for the Gaussian kernel"
    return None, EngineReport("exact", "asked for" if name == "exact" else reason, n)


def _exact_engine(problem: Problem, reason: str = "") -> tuple[Engine, EngineReport]:
    """Every weight of every reference, compiled."""
    from localconformal.engine.exact import ExactEngine, load_loops

    load_loops(problem.kernel)
    engine = ExactEngine(*problem.for_engine(), problem.n_jobs)
    return engine, EngineReport("exact", reason, len(problem.v), n_bytes=engine.n_bytes)


def _try_sketch(problem: Problem, insist: bool) -> tuple[Any, EngineReport]:
    """A certified sketch; without one, None and the reason, or (``insist``) the last tried."""
    from localconformal.engine.sketch import SketchEngine, load_loops

    if problem.kernel != "gaussian":
        raise ValueError(
            f"got engine='sketch' with the {problem.kernel} kernel; expected the Gaussian, which a "
            "sketch needs: choose engine='auto'."
        )
    load_loops()
    part = problem.sample(_CERTIFICATE_ROWS).by_score()
    sketch, error, certified, words = _choose_sketch(problem, part, insist)
    n_landmarks = len(sketch.landmarks)
    if not certified and not insist:
        reason = f"a sketch with {n_landmarks} landmarks missed its certificate: {words}"
        return None, EngineReport("exact", reason, len(problem.v))
    if not certified:
        warnings.warn(
            f"the sketch that was asked for missed its certificate ({words}); choose "
            "engine='auto', or a wider bandwidth.",
            UserWarning,
            stacklevel=2,
        )
    sketch.update(problem.points, problem.v, problem.n_jobs)
    fallback, _ = _exact_engine(part)
    engine = SketchEngine(sketch, fallback, problem.min_effective_samples, problem.n_jobs)
    met = "met" if certified else "missed, but a sketch was asked for"
    numbers = (len(problem.v), n_landmarks, problem.tolerance, error, sketch.n_bytes)
    return engine, EngineReport("sketch", f"certificate {met}: {words}", *numbers)


def _choose_sketch(problem: Problem, part: Problem, insist: bool) -> tuple[Any, float, bool, str]:
    """An empty sketch with enough landmarks, its rank error, whether it is certified, in words."""
    from localconformal.engine.sketch import Sketch, SketchEngine, choose_edges, choose_landmarks

    order = np.random.default_rng(part.seed).permutation(len(part.v))
    held = min(_PROBES, len(order) // 4)
    probes, rest = part.points, part
    if held:
        probes, rest = part.points[order[:held]], part.take(np.sort(order[held:]))
    exact, _ = _exact_engine(rest)
    edges, tolerance = choose_edges(problem.v, problem.seed), problem.tolerance
    for r in _LANDMARKS:
        landmarks = choose_landmarks(rest.points, r, problem.seed)
        small = Sketch(landmarks, edges, problem.bandwidth).update(rest.points, rest.v)
        trial = SketchEngine(small, exact, problem.min_effective_samples, problem.n_jobs)
        error, lost = _rank_error(trial, exact, probes), float(trial.lost(probes).mean())
        certified = error <= tolerance and lost <= _MOST_LOST
        # Both fall slowly with r: far from the mark, more landmarks are wasted.
        hopeless = lost > 10 * _MOST_LOST or (r >= _LANDMARKS[1] and error > 2 * tolerance)
        if certified or (hopeless and not insist):
            break
    words = (
        f"99th percentile of the rank error {error:.4f}, tolerance {tolerance}; {lost:.1%} of the "
        "held-aside rows outside it"
    )
    return Sketch(landmarks, edges, problem.bandwidth), error, certified, words


def _rank_error(engine: Engine, exact: Engine, rows: Array) -> float:
    """99th percentile of how far, in mass, the engine's quantiles lie from the exact ones.

    0 where the level falls on the answer's own atom: F(q-) <= level <= F(q).
    """
    answer = engine.quantiles(rows, _LEVELS, np.zeros(len(_LEVELS), dtype=bool))
    # F(q-) is F at the number just below q: both sides in one pass over the references.
    just_below = np.nextafter(answer, -np.inf)
    left, right = np.split(exact.cdf(rows, np.hstack([just_below, answer]), "right"), 2, axis=1)
    above, below = left - _LEVELS, _LEVELS - right
    return float(np.quantile(np.maximum(np.maximum(above, below), 0.0), 0.99))
