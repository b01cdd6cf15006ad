"""Methods ranked over one split or several, with differences that know their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.stats import t as student

from localconformal.audit import Comparison
from localconformal.audit.compare import METRICS
from localconformal.quantiles import Array

#: Numbers of a summary that are averaged over splits.
AVERAGED = (
    "interval_score",
    "coverage",
    "mean_length",
    "mean_finite_length",
    "share_infinite",
    "length_coverage_corr",
    "worst_slab_coverage",
    "excess_risk_l1",
)


@dataclass(frozen=True)
class Seconds:
    """What a method took on one split: to fit and calibrate, and to predict the test rows."""

    fit: float
    predict: float


@dataclass(frozen=True)
class Standing:
    """One method, averaged over the splits.

    Attributes
    ----------
    rank : int
        By the interval score; of infinite ones, by the share of infinite intervals.
    method : str
    interval_score, coverage : float
    coverage_lower, coverage_upper : float
        95 % band: exact binomial for one split, of the mean for several.
    mean_length, mean_finite_length, share_infinite : float
    length_coverage_corr, worst_slab_coverage, excess_risk_l1 : float
        As in `localconformal.audit.Summary`.
    fit_seconds, predict_seconds : float
    interval_score_difference, length_difference, coverage_difference : float
        Less the best method's on the same rows; 0 for the best itself.
    interval_score_difference_lower, interval_score_difference_upper, ... : float
        The 95 % interval of each difference; NaN for the best.
    """

    rank: int
    method: str
    interval_score: float
    coverage: float
    coverage_lower: float
    coverage_upper: float
    mean_length: float
    mean_finite_length: float
    share_infinite: float
    length_coverage_corr: float
    worst_slab_coverage: float
    excess_risk_l1: float
    fit_seconds: float
    predict_seconds: float
    interval_score_difference: float
    interval_score_difference_lower: float
    interval_score_difference_upper: float
    length_difference: float
    length_difference_lower: float
    length_difference_upper: float
    coverage_difference: float
    coverage_difference_lower: float
    coverage_difference_upper: float


#: Columns of a table of standings.
COLUMNS = tuple(field.name for field in fields(Standing))


def rank_methods(
    splits: Sequence[Comparison], seconds: Sequence[dict[str, Seconds]], test_over_fit: float
) -> tuple[Standing, ...]:
    """Rank methods that were compared on the same splits.

    For one split, bands and intervals are those of its rows. For R of them, the interval of a
    mean difference is mean ± t_{R-1} sqrt((1 / R + n_test / n_fit) s^2) with s^2 the variance over
    splits: repeated splits share rows, so that 1 / R alone would be too sure (Nadeau and Bengio
    2003).

    Parameters
    ----------
    splits : sequence of Comparison
        The same methods in each.
    seconds : sequence of dict of method -> Seconds
    test_over_fit : float
        Test rows over rows fitted on.

    Returns
    -------
    tuple of Standing, the best first
    """
    names = [method.name for method in splits[0].methods]
    means = {name: averages(splits, name) for name in names}
    order = sorted(names, key=lambda n: (means[n]["interval_score"], means[n]["share_infinite"]))
    differences = difference_bands(splits, order[0], test_over_fit)
    standings = []
    for rank, name in enumerate(order, start=1):
        low, high = coverage_band(splits, name, test_over_fit)
        standing = Standing(
            rank=rank,
            method=name,
            coverage_lower=low,
            coverage_upper=high,
            fit_seconds=float(np.mean([each[name].fit for each in seconds])),
            predict_seconds=float(np.mean([each[name].predict for each in seconds])),
            **means[name],
            **named_differences(differences, name),
        )
        standings.append(standing)
    return tuple(standings)


def named_differences(
    differences: Mapping[tuple[str, str], tuple[float, float, float]], name: str
) -> dict[str, float]:
    """The differences of one method as fields of its `Standing`."""
    named: dict[str, float] = {}
    for metric in METRICS:
        ends = differences.get((name, metric), (0.0, math.nan, math.nan))
        keys = (f"{metric}_difference{end}" for end in ("", "_lower", "_upper"))
        named |= dict(zip(keys, ends, strict=True))
    return named


def averages(splits: Sequence[Comparison], name: str) -> dict[str, float]:
    """Means over the splits of one method's numbers."""
    summaries = [method.summary for one in splits for method in one.methods if method.name == name]
    return {
        field: float(np.mean([getattr(summary, field) for summary in summaries]))
        for field in AVERAGED
    }


def coverage_band(
    splits: Sequence[Comparison], name: str, test_over_fit: float
) -> tuple[float, float]:
    """95 % band of a method's coverage."""
    summaries = [method.summary for one in splits for method in one.methods if method.name == name]
    if len(summaries) == 1:
        return summaries[0].lower, summaries[0].upper
    _, low, high = resampled_band(np.array([one.coverage for one in summaries]), test_over_fit)
    return max(0.0, low), min(1.0, high)


def difference_bands(
    splits: Sequence[Comparison], best: str, test_over_fit: float
) -> dict[tuple[str, str], tuple[float, float, float]]:
    """(method, metric) -> mean difference from the best, lower, upper."""
    by_split = [
        {(row.method, row.metric): row for row in split.paired(reference=best)} for split in splits
    ]
    if len(splits) == 1:
        return {key: (row.difference, row.lower, row.upper) for key, row in by_split[0].items()}
    return {
        key: resampled_band(np.array([rows[key].difference for rows in by_split]), test_over_fit)
        for key in by_split[0]
    }


def resampled_band(values: Array, test_over_fit: float) -> tuple[float, float, float]:
    """Mean of one number a split, and its 95 % interval; splits share rows.

    Examples
    --------
    >>> mean, low, high = resampled_band(np.array([1.0, 2.0, 3.0]), test_over_fit=1 / 3)
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (2.0, -1.51, 5.51)
    """
    n = len(values)
    mean = float(values.mean())
    error = math.sqrt((1.0 / n + test_over_fit) * float(values.var(ddof=1)))
    reach = float(student.ppf(0.975, n - 1)) * error
    return mean, mean - reach, mean + reach
