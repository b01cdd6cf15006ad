"""Interval metrics as scorers for ``cross_validate`` and ``GridSearchCV``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from localconformal.metrics.conditional import (
    length_coverage_corr,
    length_error_corr,
    mean_absolute_conditional_gap,
    mean_squared_conditional_error,
)
from localconformal.metrics.coverage import binomial_band, coverage, coverage_band
from localconformal.metrics.groups import (
    coverage_length_curve,
    group_coverage,
    size_stratified_coverage,
    size_stratified_coverage_score,
)
from localconformal.metrics.size import crps
from localconformal.metrics.slab import worst_slab_coverage

LEVEL = "confidence_level"
GREATER_IS_BETTER = (
    coverage,
    length_error_corr,
    size_stratified_coverage_score,
    worst_slab_coverage,
)
#: Signed metrics, of which the scorer takes the absolute value.
ZERO_IS_BEST = (length_coverage_corr,)
TABLE, NO_INTERVALS = "returns a table", "does not judge y_true and intervals"
#: What cannot be a score: why, and which metric can.
REFUSED: dict[Callable[..., Any], tuple[str, str]] = {
    group_coverage: (TABLE, "coverage_gap"),
    size_stratified_coverage: (TABLE, "size_stratified_coverage_score"),
    coverage_length_curve: (TABLE, "interval_score"),
    mean_squared_conditional_error: (NO_INTERVALS, "excess_risk"),
    mean_absolute_conditional_gap: (NO_INTERVALS, "excess_risk"),
    binomial_band: (NO_INTERVALS, "coverage_gap"),
    coverage_band: (NO_INTERVALS, "coverage_gap"),
}


@dataclass(frozen=True)
class IntervalScorer:
    """Callable (estimator, X, y) -> float that scores ``estimator.predict_interval(X)``.

    With the metric `crps` it asks ``estimator.crps(X, y)``: two bounds are no predictive law.
    """

    metric: Callable[..., Any]
    greater_is_better: bool
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """Score the estimator's intervals; losses come negated, as in scikit-learn."""
        value = self.value(estimator, X, y)
        return value if self.greater_is_better else -value

    def value(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        """The metric itself."""
        if self.metric is crps:
            return float(estimator.crps(X, y))
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
        return abs(value) if self.metric in ZERO_IS_BEST else value


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
        which is ideal at 0, is scored by its absolute value. `crps` is asked of the estimator,
        as ``estimator.crps(X, y)``.
    greater_is_better : bool, default=None
        False negates the metric, as for lengths and scores. None: True for `coverage`,
        `size_stratified_coverage_score`, `worst_slab_coverage` and `length_error_corr`, else
        False. A search by `coverage` takes the widest intervals; `coverage_gap`, which needs no
        groups, takes those that cover most nearly what they should.
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
    _check_metric(metric, options)
    better = metric in GREATER_IS_BETTER if greater_is_better is None else greater_is_better
    return IntervalScorer(metric, better, options)


def _check_metric(metric: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse, before any fold, what returns no number and options that are lacking or unknown."""
    name = getattr(metric, "__name__", repr(metric))
    if metric in REFUSED:
        reason, instead = REFUSED[metric]
        raise ValueError(f"{name} {reason}, so that it cannot be a score; use {instead}.")
    if metric is crps:
        if options:
            raise ValueError(f"crps got {', '.join(options)}; an estimator takes no options.")
        return
    taken = inspect.signature(metric).parameters
    anything = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    unknown = [] if anything else [o for o in options if o not in taken and o != LEVEL]
    if unknown:
        raise ValueError(f"{name} takes no {', '.join(unknown)}; it takes {', '.join(taken)}.")
    required = [
        one.name
        for one in list(taken.values())[2:]
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    # The scorer itself gives X and the level.
    lacking = [name for name in required if name not in ("X", LEVEL, *options)]
    if lacking:
        raise ValueError(f"{name} needs {', '.join(lacking)}; pass {lacking[0]}= here.")
