"""Interval metrics as scorers for ``cross_validate`` and ``GridSearchCV``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from localconformal.metrics.conditional import worst_slab_coverage
from localconformal.metrics.intervals import (
    coverage,
    crps,
    length_coverage_corr,
    length_error_corr,
    size_stratified_coverage_score,
)

_LEVEL = "confidence_level"
_GREATER_IS_BETTER = (
    coverage,
    length_error_corr,
    size_stratified_coverage_score,
    worst_slab_coverage,
)


@dataclass(frozen=True)
class _IntervalScorer:
    """Callable (estimator, X, y) -> float that scores ``estimator.predict_interval(X)``."""

    metric: Callable[..., Any]
    greater_is_better: bool
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score the estimator's intervals; losses are negated, as in scikit-learn."""
        # Two bounds are not a predictive law.
        of_law = self.metric is crps
        value = float(estimator.crps(X, y)) if of_law else self._value(estimator, X, y)
        return value if self.greater_is_better else -value

    def _value(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        level = self.options.get(_LEVEL, getattr(estimator, _LEVEL, None))
        asked = {} if level is None else {_LEVEL: level}
        taken = inspect.signature(self.metric).parameters
        options = {name: given for name, given in self.options.items() if name != _LEVEL}
        # The metric must judge the level that the intervals were made for.
        options |= {**(asked if _LEVEL in taken else {}), **({"X": X} if "X" in taken else {})}
        # Rows differ from fold to fold, so only a function of X can give their groups.
        if callable(options.get("groups")):
            options["groups"] = options["groups"](X)
        value = float(self.metric(y, estimator.predict_interval(X, **asked), **options))
        # The only signed metric with its optimum at 0.
        return abs(value) if self.metric is length_coverage_corr else value


def make_interval_scorer(
    metric: Callable[..., Any], *, greater_is_better: bool | None = None, **options: Any
) -> _IntervalScorer:
    """A scorer from a metric of (y_true, intervals): ``make_scorer`` for ``predict_interval``.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, intervals, **options)`` that returns a number, or a result with one, as
        `hsic` does. A parameter ``X`` receives the features. `length_coverage_corr`, which is
        ideal at 0, is scored by its absolute value; `crps` is ``estimator.crps(X, y)``.
    greater_is_better : bool, default=None
        False negates the metric, as for lengths and scores. None is True for `coverage`,
        `size_stratified_coverage_score`, `worst_slab_coverage` and `length_error_corr`, otherwise
        False. A search by `coverage` picks the widest intervals; one by `coverage_gap` does not.
    **options
        Passed to the metric. ``confidence_level`` is also passed to ``predict_interval``; without
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
            f"metric: got {metric!r}; expected a function of (y_true, intervals), such as "
            "localconformal.metrics.interval_score."
        )
    if metric is not crps:
        # Checked before any fold; X and the level come from the scorer itself.
        taken = inspect.signature(metric)
        given = {name for name in ("X", _LEVEL) if name in taken.parameters}
        taken.bind(None, None, **dict.fromkeys(given | (options.keys() - {_LEVEL})))
    better = metric in _GREATER_IS_BETTER if greater_is_better is None else greater_is_better
    return _IntervalScorer(metric, better, options)
