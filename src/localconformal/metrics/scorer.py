"""Interval metrics as scorers for ``cross_validate`` and ``GridSearchCV``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True)
class IntervalScorer:
    """Callable (estimator, X, y) -> float that scores ``estimator.predict_interval(X)``."""

    metric: Callable[..., Any]
    greater_is_better: bool
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score the estimator's intervals; losses come negated, as in scikit-learn."""
        value = float(self.metric(y, estimator.predict_interval(X), **self.options))
        return value if self.greater_is_better else -value


def make_interval_scorer(
    metric: Callable[..., Any], *, greater_is_better: bool = False, **options: Any
) -> IntervalScorer:
    """A scorer from a metric of (y_true, intervals).

    scikit-learn's ``make_scorer`` knows no ``predict_interval``; this is its counterpart.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, intervals, **options) -> float``.
    greater_is_better : bool, default=False
        False for lengths and scores: the scorer then returns the negated metric.
    **options
        Passed on to the metric.

    Examples
    --------
    >>> from localconformal.metrics import coverage
    >>> make_interval_scorer(coverage, greater_is_better=True).greater_is_better
    True
    """
    return IntervalScorer(metric, greater_is_better, options)
