"""Interval metrics as scorers for ``cross_validate`` and ``GridSearchCV``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from localconformal.metrics.coverage import coverage

LEVEL = "confidence_level"


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
        options = dict(self.options)
        # The metric must judge the level that the intervals were made for.
        if LEVEL in inspect.signature(self.metric).parameters:
            options.update(asked)
        else:
            options.pop(LEVEL, None)
        value = float(self.metric(y, estimator.predict_interval(X, **asked), **options))
        return value if self.greater_is_better else -value


def make_interval_scorer(
    metric: Callable[..., Any], *, greater_is_better: bool | None = None, **options: Any
) -> IntervalScorer:
    """A scorer from a metric of (y_true, intervals).

    scikit-learn's ``make_scorer`` knows no ``predict_interval``; this is its counterpart.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, intervals, **options) -> float``.
    greater_is_better : bool, default=None
        False negates the metric, as for lengths and scores. None: True for `coverage`, else
        False.
    **options
        Passed on to the metric. ``confidence_level`` also goes to ``predict_interval``; without
        it both use the estimator's own.

    Examples
    --------
    >>> from localconformal.metrics import coverage
    >>> make_interval_scorer(coverage).greater_is_better
    True
    """
    if not callable(metric):
        raise ValueError(
            f"metric is {metric!r}; a function of (y_true, intervals) was expected, such as "
            "localconformal.metrics.interval_score."
        )
    better = metric is coverage if greater_is_better is None else greater_is_better
    return IntervalScorer(metric, better, options)
