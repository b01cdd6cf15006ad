"""Pure functions of (y_true, intervals), intervals of shape (n, 2) or (n, 2, L).

Metrics that are numbers return an array of L for L levels; those that are tables, or have a p-value
or a band, return a small result object, or a list of L of them for L levels.
"""

from localconformal.metrics.conditional import (
    HSIC,
    ExcessRisk,
    WorstSlab,
    excess_risk,
    hsic,
    worst_slab_coverage,
)
from localconformal.metrics.intervals import (
    GroupCoverage,
    SizeStratifiedCoverage,
    binomial_band,
    coverage,
    coverage_band,
    coverage_gap,
    crps,
    group_coverage,
    interval_score,
    length_coverage_corr,
    length_error_corr,
    mean_absolute_conditional_gap,
    mean_length,
    mean_squared_conditional_error,
    median_length,
    share_empty,
    share_infinite,
    size_stratified_coverage,
    size_stratified_coverage_score,
)
from localconformal.metrics.scorer import make_interval_scorer

__all__ = [
    "HSIC",
    "ExcessRisk",
    "GroupCoverage",
    "SizeStratifiedCoverage",
    "WorstSlab",
    "binomial_band",
    "coverage",
    "coverage_band",
    "coverage_gap",
    "crps",
    "excess_risk",
    "group_coverage",
    "hsic",
    "interval_score",
    "length_coverage_corr",
    "length_error_corr",
    "make_interval_scorer",
    "mean_absolute_conditional_gap",
    "mean_length",
    "mean_squared_conditional_error",
    "median_length",
    "share_empty",
    "share_infinite",
    "size_stratified_coverage",
    "size_stratified_coverage_score",
    "worst_slab_coverage",
]
