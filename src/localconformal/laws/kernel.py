"""Kernel weights on the reference rows, as in the paper, and equal weights on the nearest of them.

The weights of one x are K(u_j), u_j = d_j / h, up to a factor that cancels in the law. Two
things can go wrong, and both are fixed row by row, from the reference rows and that x alone:

* underflow: far from every reference, exp(-u^2 / 2) is zero for all of them. The Gaussian
  therefore measures u^2 from its smallest value in the row, which changes no ratio;
* too few rows: the effective sample size (sum w)^2 / sum w^2 may be tiny, or all mass zero. The
  bandwidth of that x is then doubled until it has mass and the required effective sample size.
  Both grow with h, so the number of doublings can be found by bisection.

A new kernel is a line in `KERNELS`, a number and a branch in the exact engine. A bandwidth rule has
``choose(problem) -> h``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import Features
from localconformal.engine import FEW, NO_MASS, Engine, EngineReport, fewest_doublings
from localconformal.laws.base import Law, ReferenceEngine, effective_size, reference_rows
from localconformal.quantiles import EDGE_GUARD, Array
from localconformal.rows import Curve, Rows

#: The paper's advice for the size of a mini-batch.
_BATCH_SHARE = 0.3
#: Cross-validation: held-out rows, reference rows, folds, candidate bandwidths, levels.
_CV_QUERIES, _CV_REFERENCES, _CV_FOLDS, _CV_CANDIDATES = 1_000, 10_000, 5, 14
_CV_LEVELS = np.array([0.05, 0.95])
#: Share of rows that may need the fallback at a candidate bandwidth.
_MOST_WIDENED = 0.1
_SMALLEST, _LARGEST = 1e-100, 1e150
#: Rows whose pairwise distances are used; two million pairs give a median to within a percent.
_DISTANCE_ROWS = 2_000
_SKETCH_FROM = 10_000
_CERTIFICATE_ROWS, _PROBES = 50_000, 400
_LEVELS = np.array([0.05, 0.5, 0.95])
#: Largest share of rows that a sketch may send to its fallback.
_MOST_LOST = 0.01
_SHARE = Interval(Real, 0, 1, closed="neither")


#: Formulas in u^2. The Gaussian is relative to the largest weight of the row.
KERNELS: dict[str, Callable[[Array], Array]] = {
    "gaussian": lambda u2: np.exp(-0.5 * (u2 - u2.min(axis=1, keepdims=True))),
    "boxcar": lambda u2: (u2 <= 1.0 + EDGE_GUARD).astype(np.float64),
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}


def absolute_weights(kernel: str, u2: Array) -> Array:
    """K(u) itself, not relative to the row: 1 at distance 0, and 0 if it underflows."""
    return np.exp(-0.5 * u2) if kernel == "gaussian" else KERNELS[kernel](u2)


@dataclass(frozen=True)
class KernelWeights:
    """Weights K(|x - X_j| / h) of reference rows X_j (n, d); h may be infinite."""

    references: Array
    kernel: str
    bandwidth: float
    min_effective_samples: float

    def __call__(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights (m, n), not normalised, and where the bandwidth was widened (m,)."""
        squared = cdist(rows, self.references, "sqeuclidean")
        u2 = squared / self.bandwidth**2
        weights = KERNELS[self.kernel](u2)
        # Weights that differ only by rounding must count as equal.
        needed = min(self.min_effective_samples, len(self.references)) * (1.0 - 1e-6)
        thin = ~_is_enough(u2, weights, needed)
        if thin.any():
            weights[thin] = self._widened(squared[thin], needed)
        return weights, thin

    def _widened(self, squared: Array, needed: float) -> Array:
        """Weights at h 2^k, for each row the smallest k that is enough."""
        kernel = KERNELS[self.kernel]

        def widened(doublings: Array) -> Array:
            return squared / (self.bandwidth * 2.0 ** doublings[:, None]) ** 2

        def enough(doublings: Array) -> NDArray[np.bool_]:
            return _is_enough(u2 := widened(doublings), kernel(u2), needed)

        farthest = np.sqrt(squared.max(axis=1))
        return kernel(widened(fewest_doublings(farthest / self.bandwidth, enough)))


def _is_enough(u2: Array, weights: Array, needed: float) -> NDArray[np.bool_]:
    """Whether each row has mass, and the needed effective sample size."""
    has_mass = (u2.min(axis=1) <= NO_MASS) & (weights.max(axis=1) > 0)
    return has_mass & (effective_size(weights) >= needed)


@dataclass(frozen=True)
class Problem:
    """Reference scores v (n,) in order, their points (n, d), and the kernel to be used.

    A bandwidth rule gets it before the bandwidth is set.
    """

    points: Array
    v: Array
    kernel: str
    bandwidth: float
    min_effective_samples: float
    seed: int
    n_jobs: int | None = None
    #: Largest rank error of a sketch.
    tolerance: float = EngineReport.tolerance

    def sample(self, most: int = _DISTANCE_ROWS) -> Problem:
        """At most ``most`` of the rows, drawn with the seed."""
        if len(self.v) <= most:
            return self
        rng = np.random.default_rng(self.seed)
        return self.take(np.sort(rng.choice(len(self.v), most, replace=False)))

    def take(self, rows: Any) -> Problem:
        """Some of the rows, in order."""
        return replace(self, points=self.points[rows], v=self.v[rows])

    def distance_quantile(self, q: float) -> float:
        """q-quantile of the positive pairwise distances; 1 when all points coincide."""
        distances = pdist(self.sample().points)
        positive = distances[distances > 0]
        return float(np.quantile(positive, q)) if len(positive) else 1.0


@dataclass(eq=False, repr=False)
class DistanceQuantile(BaseEstimator):
    """h = the q-quantile of the pairwise distances; q = 0.5 is the paper's rule.

    Examples
    --------
    >>> DistanceQuantile(0.25)
    DistanceQuantile(q=0.25)
    """

    q: float = 0.5

    def choose(self, problem: Problem) -> float:
        """The quantile."""
        if not 0.0 <= self.q <= 1.0:
            raise ValueError(f"got q={self.q!r}; expected a number in [0, 1].")
        return problem.distance_quantile(self.q)


def _median_log(problem: Problem) -> float:
    """Median distance / sqrt(2 ln n): the "median trick" of the authors' code."""
    n = max(len(problem.v), 2)
    return problem.distance_quantile(0.5) / float(np.sqrt(2.0 * np.log(n)))


def _cross_validated(problem: Problem) -> float:
    """h with the smallest pinball loss of the local quantiles on held-out folds.

    Candidates are multiples of the median distance, from wide (hardly local) to narrow, until more
    than a tenth of the rows would need the fallback; among equals, the widest wins.
    """
    candidates = problem.distance_quantile(0.5) * np.geomspace(4.0, 1 / 64, _CV_CANDIDATES)
    losses: list[float] = []
    for h in candidates:
        loss, widened = _held_out_loss(problem, float(h))
        if losses and widened > _MOST_WIDENED:
            break
        losses.append(loss)
    return float(candidates[int(np.argmin(losses))])


def _held_out_loss(problem: Problem, bandwidth: float) -> tuple[float, float]:
    """Mean pinball loss of held-out rows at one bandwidth, and the share that needs a fallback."""
    problem = replace(problem.sample(_CV_REFERENCES), bandwidth=bandwidth)
    points, v, levels = problem.points, problem.v, _CV_LEVELS
    if len(v) < 2:
        return 0.0, 0.0
    rng = np.random.default_rng(problem.seed)
    fold = rng.permutation(len(v)) % min(_CV_FOLDS, len(v))
    asked = np.zeros(len(v), dtype=bool)
    asked[rng.permutation(len(v))[:_CV_QUERIES]] = True
    losses, widened = [], []
    for held in range(fold.max() + 1):
        out, rest = asked & (fold == held), fold != held
        engine, _ = _build_engine("minibatch", problem.take(rest))
        local = engine.quantiles(points[out], levels, np.zeros(len(levels), dtype=bool))
        error = v[out][:, None] - local
        losses.append(np.maximum(levels * error, (levels - 1.0) * error))
        widened.append(engine.moments(points[out])[:, 3])
    return float(np.mean(np.concatenate(losses))), float(np.mean(np.concatenate(widened)))


_RULES: dict[str, Callable[[Problem], float]] = {
    "median": DistanceQuantile(0.5).choose,
    "median-log": _median_log,
    "cv": _cross_validated,
}


def _choose_bandwidth(bandwidth: Any, problem: Problem) -> float:
    """h from a number, the name of a rule, or a rule."""
    if isinstance(bandwidth, (int, float, np.number)) and not isinstance(bandwidth, bool):
        h = float(bandwidth)
    elif isinstance(bandwidth, str) and bandwidth in _RULES:
        h = _RULES[bandwidth](problem)
    else:
        h = float(bandwidth.choose(problem)) if hasattr(bandwidth, "choose") else float("nan")
    if not h > 0:
        raise ValueError(
            f"got bandwidth={bandwidth!r}; expected a positive number, one of {sorted(_RULES)} or "
            "a rule such as DistanceQuantile(0.1)."
        )
    return float("inf") if h >= _LARGEST else max(h, _SMALLEST)


# ---- which engine answers: decided once, at fit, from reference rows alone ----------------------
#
#     few rows (up to 3,000)            plain NumPy, no compiler
#     Gaussian, 10,000 rows and more    sketch, if its certificate meets the tolerance
#     else                              exact
#
# The certificate: on a sample of at most 50,000 references, the sketch's quantiles at held-out
# rows are looked up in the exact law of the same sample; the 99th percentile of their rank error
# must be within the tolerance. Landmarks are added until it is, or the sketch is given up.


def _build_engine(name: str, problem: Problem) -> tuple[Any, EngineReport]:
    """The engine of this name, or the one that "auto" chooses, and its report."""
    n, is_gaussian = len(problem.v), problem.kernel == "gaussian"
    if name in ("auto", "minibatch") and n <= FEW:
        report = EngineReport("reference", f"up to {FEW} rows need no compiled code", n)
        kernel = (problem.kernel, problem.bandwidth, problem.min_effective_samples)
        return ReferenceEngine(problem.v, KernelWeights(problem.points, *kernel)), report
    reason = "requested"
    if name == "sketch" or (name == "auto" and is_gaussian and n >= _SKETCH_FROM):
        sketch, report = _try_sketch(problem, insist=name == "sketch")
        if sketch is not None:
            return sketch, report
        reason = report.reason
    elif name == "auto":
        reason = f"{n} reference rows are too many for plain NumPy and too few for a sketch"
        reason = reason if is_gaussian else "a sketch is for the Gaussian kernel"
    return _exact_engine(problem, reason)


def _exact_engine(problem: Problem, reason: str = "") -> tuple[Engine, EngineReport]:
    """Every weight of every reference, compiled."""
    from localconformal.engine.exact import ExactEngine

    parts = (problem.v, problem.points, problem.kernel, problem.bandwidth)
    engine = ExactEngine(*parts, problem.min_effective_samples, problem.n_jobs)
    return engine, EngineReport("exact", reason, len(problem.v))


def _try_sketch(problem: Problem, insist: bool) -> tuple[Any, EngineReport]:
    """A certified sketch; if there is none, None and the reason, or (``insist``) the last tried."""
    from localconformal.engine.sketch import SketchEngine

    if problem.kernel != "gaussian":
        raise ValueError(
            f"got engine='sketch' with the {problem.kernel} kernel; expected the Gaussian kernel: "
            "use it, or engine='auto'."
        )
    part = problem.sample(_CERTIFICATE_ROWS)
    sketch, error, certified, words = _choose_sketch(problem, part, insist)
    n_landmarks = len(sketch.landmarks)
    if not certified and not insist:
        reason = f"a sketch with {n_landmarks} landmarks missed its certificate: {words}"
        return None, EngineReport("exact", reason, len(problem.v))
    if not certified:
        warnings.warn(
            f"The requested sketch missed its certificate ({words}); use engine='auto' or a wider "
            "bandwidth.",
            UserWarning,
            stacklevel=2,
        )
    sketch.update(problem.points, problem.v, problem.n_jobs)
    fallback, _ = _exact_engine(part)
    engine = SketchEngine(sketch, fallback, problem.min_effective_samples, problem.n_jobs)
    met = "met" if certified else "missed, but a sketch was requested"
    numbers = (len(problem.v), n_landmarks, problem.tolerance, error)
    return engine, EngineReport("sketch", f"certificate {met}: {words}", *numbers)


def _choose_sketch(problem: Problem, part: Problem, insist: bool) -> tuple[Any, float, bool, str]:
    """An empty sketch with enough landmarks, its rank error, whether that is certified, and why."""
    from localconformal.engine.sketch import SketchEngine, empty_sketches

    order = np.random.default_rng(part.seed).permutation(len(part.v))
    held = min(_PROBES, len(order) // 4)
    probes, rest = part.points, part
    if held:
        probes, rest = part.points[order[:held]], part.take(np.sort(order[held:]))
    exact, _ = _exact_engine(rest)
    tolerance, tried = problem.tolerance, 0
    for sketch in empty_sketches(rest.points, problem.v, problem.bandwidth, problem.seed):
        small, tried = sketch.empty().update(rest.points, rest.v), tried + 1
        trial = SketchEngine(small, exact, problem.min_effective_samples, problem.n_jobs)
        error, lost = _rank_error(trial, exact, probes), float(trial.lost(probes).mean())
        certified = error <= tolerance and lost <= _MOST_LOST
        # Both fall slowly with r: far from the target, more landmarks are wasted.
        hopeless = lost > 10 * _MOST_LOST or (tried > 1 and error > 2 * tolerance)
        if certified or (hopeless and not insist):
            break
    words = (
        f"99th percentile of the rank error {error:.4f}, tolerance {tolerance}; {lost:.1%} of the "
        "held-out rows outside it"
    )
    return sketch, error, certified, words


def _rank_error(engine: Engine, exact: Engine, rows: Array) -> float:
    """99th percentile of the distance, in mass, of the engine's quantiles from the exact ones.

    0 if the level falls on the answer's own atom: F(q-) <= level <= F(q).
    """
    answer = engine.quantiles(rows, _LEVELS, np.zeros(len(_LEVELS), dtype=bool))
    # F(q-) is F at the number just below q: both sides in one pass over the references.
    just_below = np.nextafter(answer, -np.inf)
    left, right = np.split(exact.cdf(rows, np.hstack([just_below, answer]), "right"), 2, axis=1)
    above, below = left - _LEVELS, _LEVELS - right
    return float(np.quantile(np.maximum(np.maximum(above, below), 0.0), 0.99))


# ---- the laws -----------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class KernelLaw(Law):
    """Nadaraya-Watson law: F(v | x) = sum_j w_j(x) 1{V_j <= v}, w_j(x) ~ K(|f(x) - f(X_j)| / h).

    If the effective sample size (sum w)^2 / sum w^2 is below ``min_effective_samples``, h is
    doubled for that x until it is reached; `fallback` and ``diagnose`` flag such rows.

    Parameters
    ----------
    kernel : {"gaussian", "boxcar", "epanechnikov"}, default="gaussian"
        exp(-u^2 / 2), 1{u <= 1} or (1 - u^2)+.
    bandwidth : float or str or rule, default="median"
        h (infinite for no localization), or how to choose it from the reference rows: "median" of
        the pairwise distances, "median-log" (the median over sqrt(2 ln n), as in the authors'
        code), "cv" (smallest held-out pinball loss), or a rule such as ``DistanceQuantile(0.1)``.
    embedding : default=None
        Where distances are measured: None (standardised features; one-hot and imputed for
        frames), "outputs" (mu(x), the regressor's own point predictions), "outputs-spread" (mu(x)
        and a learned spread sigma(x)), "hidden" (the last hidden layer of its MLPRegressor),
        "metric" and "hidden-metric" (a map of the features, or of that layer, learned from the
        responses: see `LearnedMetric`), a transformer (such as `HiddenLayer` or
        `localconformal.torch.TorchEmbedding`), a fitted model or a callable.
    engine : {"auto", "exact", "sketch", "minibatch"}, default="auto"
        How the law is computed: "auto" chooses at fit, from the reference rows; "minibatch" keeps
        a random subset of them, drawn at fit.
    batch_size : float or int, default=None
        Share or number of rows in the mini-batch; None is 0.3.
    min_effective_samples : float, default=20
        See above; 1 requires only that some reference row has weight.
    tolerance : float, default=0.005
        Largest 99th percentile of the rank error of a sketch.
    random_state : int or None, default=None
        Seed of sampled distances, folds, landmarks and the mini-batch. None draws one at fit.
    n_jobs : int or None, default=None
        Threads of the compiled engines; None is one per core.
    device : str or None, default=None
        PyTorch device that computes the law, such as "cuda" (needs the extra ``torch``).

    Attributes
    ----------
    bandwidth_ : float
        The chosen h, in units of the embedded rows.
    engine_report_ : EngineReport
        Which engine was chosen and why, and its certified error.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> law = KernelLaw(bandwidth=0.1).fit(X, X[:, 0])
    >>> law.quantile([[0.2], [0.8]], [0.5]).round(1)
    array([[0.2],
           [0.8]])
    """

    _parameter_constraints = {  # noqa: RUF012
        "kernel": [StrOptions(set(KERNELS))],
        "engine": [StrOptions({"auto", "exact", "sketch", "minibatch"})],
        "batch_size": [None, _SHARE, Interval(Integral, 1, None, closed="left")],
        "min_effective_samples": [Interval(Real, 0, None, closed="left")],
        "tolerance": [_SHARE],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "device": [None, str],
    }

    kernel: str = "gaussian"
    bandwidth: Any = "median"
    embedding: Any = None
    engine: str = "auto"
    batch_size: float | int | None = None
    min_effective_samples: float = 20
    tolerance: float = 0.005
    random_state: Any = None
    n_jobs: int | None = None
    device: str | None = None

    def fit(self, X: Any, v: ArrayLike) -> KernelLaw:
        """Embed the reference rows, choose h, and freeze both."""
        self._validate_params()
        if self.batch_size is not None and self.engine != "minibatch":
            raise ValueError(
                f"got batch_size={self.batch_size!r} with engine={self.engine!r}; expected "
                "engine='minibatch', or no batch size."
            )
        problem = self._place(X, v)
        made = _build_engine(self.engine, problem)
        if self.device is not None:
            # By name: tensors are a separate layer, later in the order of layers.
            tensors = import_module("localconformal.torch.tensors")
            made = tensors.on_tensors(*made, problem, self.device)
        self.engine_, self.engine_report_ = made
        return self

    def _place(self, X: Any, v: ArrayLike) -> Problem:
        """Everything except the engine: the view of a row, and h."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.view_ = fit_points(self.embedding, rows, scores, seed, self.n_jobs)
        known = (float(self.min_effective_samples), seed, self.n_jobs, self.tolerance)
        problem = Problem(self.view_(rows), scores, self.kernel, float("nan"), *known)
        if self.engine == "minibatch":
            size = _BATCH_SHARE if self.batch_size is None else self.batch_size
            whole = isinstance(size, Integral)
            problem = problem.sample(int(size) if whole else max(1, round(size * len(scores))))
        self.bandwidth_ = _choose_bandwidth(self.bandwidth, problem)
        return replace(problem, bandwidth=self.bandwidth_)

    def fit_localizer(self, X: Any, v: ArrayLike) -> _KernelLocalizer:
        """Only the localizer, without an engine."""
        self._validate_params()
        self._place(X, v)
        return self.localizer()

    def localizer(self) -> _KernelLocalizer:
        """K(|f(x) - f(x')| / h), with the h that the rule chooses."""
        check_is_fitted(self)
        return _KernelLocalizer(self.view_, self.kernel, self.bandwidth_)


def fit_points(embedding: Any, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> Curve:
    """Where distances are measured: the features, or the user's embedding."""
    if embedding is None:
        return Features().fit(rows.X)
    from localconformal.laws.embeddings import fit_embedding

    return fit_embedding(embedding, rows, v, seed, n_jobs)


@dataclass(eq=False, repr=False)
class NeighborsLaw(Law):
    """F(v | x) = share of scores up to v among the k reference rows nearest to x.

    Rows at the same distance as the k-th count too, so the order of rows never matters.

    Parameters
    ----------
    n_neighbors : int, default=100
        k; all reference rows if there are fewer.
    embedding : default=None
        Where distances are measured, as in `KernelLaw`.

    Examples
    --------
    >>> X = np.arange(10.0)[:, None]
    >>> NeighborsLaw(n_neighbors=3).fit(X, X[:, 0]).quantile([[5.0]], [0.5])
    array([[5.]])
    """

    n_neighbors: int = 100
    embedding: Any = None

    def fit(self, X: Any, v: ArrayLike) -> NeighborsLaw:
        """Embed the reference rows and keep them in the order of their scores."""
        whole = isinstance(self.n_neighbors, Integral) and not isinstance(self.n_neighbors, bool)
        if not (whole and self.n_neighbors >= 1):
            raise ValueError(
                f"got n_neighbors={self.n_neighbors!r}; expected an integer of at least 1."
            )
        rows, scores = reference_rows(X, v)
        self.view_ = fit_points(self.embedding, rows, scores, seed=0, n_jobs=None)
        self.points_ = self.view_(rows)
        k = int(self.n_neighbors)
        if len(scores) > FEW:
            from localconformal.engine.neighbors import NeighborEngine

            self.engine_ = NeighborEngine(scores, self.points_, k)
        else:
            self.engine_ = ReferenceEngine(scores, NeighborWeights(self.points_, k))
        return self


@dataclass(frozen=True)
class NeighborWeights:
    """1{|x - X_j| <= distance of the k-th nearest}; rows as far as the k-th all count."""

    references: Array
    n_neighbors: int

    def __call__(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights (m, n), and no fallback anywhere: there are always k neighbours."""
        squared = cdist(rows, self.references, "sqeuclidean")
        k = min(self.n_neighbors, len(self.references))
        radius = np.partition(squared, k - 1, axis=1)[:, k - 1 : k]
        near = squared <= radius * (1.0 + EDGE_GUARD)
        return near.astype(np.float64), np.zeros(len(rows), dtype=bool)


# ---- the weight of one row for another ----------------------------------------------------------


@dataclass(frozen=True)
class _KernelLocalizer:
    """K(|f(x) - f(x')| / h)."""

    symmetric: ClassVar[bool] = True
    view: Curve
    kernel: str
    bandwidth: float

    def weigh(self, rows: Array, others: Array) -> Array:
        squared = cdist(rows, others, "sqeuclidean")
        return absolute_weights(self.kernel, squared / self.bandwidth**2)
