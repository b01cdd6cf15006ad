"""Interval metrics as scorers for ``cross_validate`` and ``GridSearchCV``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from localconformal.metrics.correlation import length_coverage_corr, length_error_corr
from localconformal.metrics.coverage import coverage
from localconformal.metrics.slab import worst_slab_coverage
from localconformal.metrics.stratified import size_stratified_coverage_score

LEVEL = "confidence_level"
GREATER_IS_BETTER = (
    coverage,
    length_error_corr,
    size_stratified_coverage_score,
    worst_slab_coverage,
)
#: Signed metrics, of which the scorer takes the absolute value.
ZERO_IS_BEST = (length_coverage_corr,)


@dataclass(frozen=True)
class IntervalScorer:
    """Callable (estimator, X, y) -> float that scores ``estimator.predict_interval(X)``."""

    metric: Callable[..., Any]
    greater_is_better: bool
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score the estimator's intervals; losses come negated, as in scikit-learn."""
        level = self.options.get(LEVEL, getattr(estimator, LEVEL, None))
        asked = {} if level is None else {LEVEL: level}
        options, taken = dict(self.options), inspect.signature(self.metric).parameters
        # The metric must judge the level that the intervals were made for.
        if LEVEL in taken:
            options.update(asked)
        else:
            options.pop(LEVEL, None)
        if "X" in taken:
            options["X"] = X
        # The rows differ from fold to fold: only a function of X can name their groups.
        if "groups" in taken and callable(options.get("groups")):
            options["groups"] = options["groups"](X)
        value = float(self.metric(y, estimator.predict_interval(X, **asked), **options))
        if self.metric in ZERO_IS_BEST:
            value = abs(value)
        return value if self.greater_is_better else -value


def make_interval_scorer(
    metric: Callable[..., Any], *, greater_is_better: bool | None = None, **options: Any
) -> IntervalScorer:
    """A scorer from a metric of (y_true, intervals).

    scikit-learn's ``make_scorer`` knows no ``predict_interval``; this is its counterpart.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, intervals, **options)`` that returns a number, or a result with one:
        the ``value`` of `hsic`, the ``l1`` of `excess_risk`, the ``coverage`` of
        `worst_slab_coverage`. A parameter ``X`` is given the features. `length_coverage_corr`,
        which is ideal at 0, is scored by its absolute value.
    greater_is_better : bool, default=None
        False negates the metric, as for lengths and scores. None: True for `coverage`,
        `size_stratified_coverage_score`, `worst_slab_coverage` and `length_error_corr`, else
        False.
    **options
        Passed on to the metric. ``confidence_level`` also goes to ``predict_interval``; without
        it both use the estimator's own. ``groups`` may be a function of X.

    Examples
    --------
    >>> from localconformal.metrics import coverage, coverage_gap
    >>> make_interval_scorer(coverage).greater_is_better
    True
    >>> by_sign = make_interval_scorer(coverage_gap, groups=lambda X: X[:, 0] > 0)
    """
    if not callable(metric):
        raise ValueError(
            f"metric is {metric!r}; a function of (y_true, intervals) was expected, such as "
            "localconformal.metrics.interval_score."
        )
    better = metric in GREATER_IS_BETTER if greater_is_better is None else greater_is_better
    return IntervalScorer(metric, better, options)
