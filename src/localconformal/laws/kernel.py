"""Kernel weights on the reference rows: the law of the paper."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from localconformal.engine.choose import ENGINES, Problem, build_engine
from localconformal.engine.kernels import KERNELS
from localconformal.laws.bandwidth import BandwidthProblem, choose_bandwidth
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.embedding import fit_embedding
from localconformal.laws.localizer import KernelLocalizer
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order, check_lengths
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array

#: The paper's advice for the size of a mini-batch.
BATCH_SHARE = 0.3


class KernelLaw(BaseLaw):
    """Nadaraya-Watson law: F(v | x) = sum_j w_j(x) 1{V_j <= v}, w_j(x) ~ K(|f(x) - f(X_j)| / h).

    Where the effective sample size (sum w)^2 / sum w^2 falls below ``min_effective_samples``
    (far from the data, in a gap, or with a narrow kernel), h is doubled for that x until it is
    reached; `fallback` and the regressors' ``diagnose`` flag such rows.

    Parameters
    ----------
    kernel : {"gaussian", "boxcar", "epanechnikov"}, default="gaussian"
        exp(-u^2 / 2), 1{u <= 1} or (1 - u^2)+.
    bandwidth : float or str or rule, default="median"
        h, or how to choose it from the reference rows: "median" of the pairwise distances,
        "median-log", "rate", "cv" (see `localconformal.laws.bandwidth`), or a rule object such
        as ``DistanceQuantile(0.1)``. Infinite: no localization.
    embedding : default=None
        Where distances are measured: None (standardised features; one-hot and imputed for
        frames), "outputs" (mu(x), the regressor's own point predictions), "outputs-spread" (mu(x)
        and a learned spread sigma(x)), "hidden" (the last hidden layer of its MLPRegressor),
        "metric" and "hidden-metric" (a linear map of the features, or of that layer, learned from
        the responses: see `LearnedMetric`), a transformer (such as `HiddenLayer` or
        `localconformal.torch.TorchEmbedding`), a fitted model or a callable.
    engine : {"auto", "exact", "sketch", "minibatch"}, default="auto"
        How the law is computed: see `localconformal.engine.choose`. "auto" chooses from the
        reference rows, at fit. "minibatch" keeps a random subset of them, drawn once, at fit.
    batch_size : float or int, default=None
        Share or number of rows of the mini-batch; None is 0.3.
    min_effective_samples : float, default=20
        See above; 1 asks only that some reference row has weight.
    tolerance : float, default=0.005
        99th percentile of the rank error that a sketch may have.
    random_state : int or None, default=None
        Seed of sampled distances, folds, landmarks and the mini-batch. None draws one at fit.
    n_jobs : int or None, default=None
        Threads of the compiled engines; None is one for each core.
    device : str or None, default=None
        Where PyTorch computes the law, such as "cuda" or "cpu" (needs the extra ``torch``). None:
        compiled code.

    Attributes
    ----------
    bandwidth_ : float
        The chosen h, in units of the embedded rows.
    engine_report_ : EngineReport
        Which engine was chosen and why, its certified error, its bytes and its cost per query.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> law = KernelLaw(bandwidth=0.1).fit(X, X[:, 0])
    >>> law.quantile([[0.2], [0.8]], [0.5]).round(1)
    array([[0.2],
           [0.8]])
    """

    _parameter_constraints = {  # noqa: RUF012
        "kernel": [StrOptions(set(KERNELS))],
        # "reference" is for methods that use the kernel alone: nothing is compiled for them.
        "engine": [StrOptions(set(ENGINES)), Hidden(StrOptions({"reference"}))],
        "batch_size": [
            None,
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 1, None, closed="left"),
        ],
        "min_effective_samples": [Interval(Real, 0, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "device": [None, str],
    }

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: Any = "median",
        embedding: Any = None,
        engine: str = "auto",
        batch_size: float | int | None = None,
        min_effective_samples: float = 20,
        tolerance: float = 0.005,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.embedding = embedding
        self.engine = engine
        self.batch_size = batch_size
        self.min_effective_samples = min_effective_samples
        self.tolerance = tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> KernelLaw:
        """Embed the reference rows, choose h, and freeze both."""
        self._validate_params()
        if self.batch_size is not None and self.engine != "minibatch":
            raise ValueError(
                f"batch_size is {self.batch_size!r} and engine {self.engine!r}; a batch size is "
                "for engine='minibatch' only."
            )
        scores = check_reference_scores(v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.embedding_, points = fit_embedding(
            self.embedding, X, scores, outputs, seed, self.n_jobs
        )
        if len(scores) <= CANONICAL_UP_TO:
            order = canonical_order(points, scores)
            points, scores = points[order], scores[order]
        if self.engine == "minibatch":
            kept = draw_batch(len(scores), self.batch_size, seed)
            points, scores = points[kept], scores[kept]
        minimum = float(self.min_effective_samples)
        rule = BandwidthProblem(points, scores, self.kernel, minimum, seed, self.n_jobs)
        self.bandwidth_ = choose_bandwidth(self.bandwidth, rule)
        of_kernel = self.kernel, self.bandwidth_, minimum
        problem = Problem(points, scores, *of_kernel, seed, self.n_jobs, self.tolerance)
        self.n_updates_ = 0
        if self.device is None:
            built = build_engine(self.engine, problem)
        else:
            from localconformal.torch.tensors import build_on_tensors

            built = build_on_tensors(self.engine, problem, self.device)
        self.engine_, self.engine_report_ = built
        return self

    def update(self, X: Any, v: ArrayLike) -> KernelLaw:
        """Add reference rows to a sketch; embedding, bandwidth, landmarks and edges stay.

        Calibrations made with the law before are void: regressors ask for a new one.
        """
        check_is_fitted(self)
        if not hasattr(self.engine_, "update"):
            raise ValueError(
                f"the law runs on the {self.engine_report_.engine} engine, which cannot be added "
                "to; fit it with engine='sketch', or fit it again."
            )
        scores, points = check_reference_scores(v), self.rows(X)
        check_lengths(len(points), len(scores))
        self.engine_ = self.engine_.update(points, scores)
        self.n_updates_ += 1
        self.engine_report_ = replace(
            self.engine_report_,
            n_references=self.engine_report_.n_references + len(scores),
            certified_error=float("nan"),
            reason=f"{self.engine_report_.reason.split('; added')[0]}; added to since",
        )
        return self

    def rows(self, X: Any) -> Array:
        """Embedded rows."""
        return self.embedding_.transform(X)

    def localizer(self) -> KernelLocalizer:
        """K(|f(x) - f(x')| / h), with the h that was chosen."""
        check_is_fitted(self)
        return KernelLocalizer(self.embedding_, self.kernel, self.bandwidth_)


def draw_batch(n: int, batch_size: float | int | None, seed: int) -> Any:
    """Rows of a mini-batch, in order."""
    size = BATCH_SHARE if batch_size is None else batch_size
    count = int(size) if isinstance(size, Integral) else max(1, round(size * n))
    return np.sort(np.random.default_rng(seed).choice(n, min(count, n), replace=False))
