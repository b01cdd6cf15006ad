"""Pure functions of (y_true, intervals), intervals of shape (n, 2) or (n, 2, L)."""

from localconformal.metrics.coverage import coverage, coverage_band
from localconformal.metrics.crps import crps
from localconformal.metrics.scorer import make_interval_scorer
from localconformal.metrics.size import interval_score, mean_length

__all__ = [
    "coverage",
    "coverage_band",
    "crps",
    "interval_score",
    "make_interval_scorer",
    "mean_length",
]
