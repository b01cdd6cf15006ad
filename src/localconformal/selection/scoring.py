"""Interval scores of candidates at training rows that they have not seen."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments import ScaledQuantile
from localconformal.laws.simplex import pinball
from localconformal.quantiles import Array, conformal_quantile, typical_size


def corrected(quantiles: Array, v: Array, levels: Array, scaled: bool) -> Array:
    """Held-out quantiles (n, L) with the joint correction that these rows ask for.

    The first of two levels is a lower end; one level is an end of its own. The correction is one
    number, so that finding it on the rows that are scored costs nothing worth speaking of.
    """
    sign = np.where(levels > 0.5, 1.0, -1.0)
    excess = sign * (v[:, None] - quantiles)
    unit = np.ones(len(v))
    if scaled:
        unit = np.ptp(quantiles, axis=1) + ScaledQuantile().floor * typical_size(v)
    confidence = 1.0 - float(np.sum(np.minimum(levels, 1.0 - levels)))
    theta = float(conformal_quantile(excess.max(axis=1) / unit, confidence))
    # Too few rows for the level: the quantiles must do as they are.
    theta = theta if np.isfinite(theta) else 0.0
    return np.asarray(quantiles + sign * theta * unit[:, None])


def mean_interval_score(quantiles: Array, v: Array, levels: Array) -> float:
    """Pinball losses in the unit of an interval score: length + 2 / alpha x misses."""
    alpha = float(np.sum(np.minimum(levels, 1.0 - levels)))
    return float(pinball(quantiles, v, levels)) * 2.0 / alpha
