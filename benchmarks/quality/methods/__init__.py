"""Methods by name: ``prepare(split, base, seed)`` gives an object with ``predict_interval(X)``.

``base`` names the family of the point model. A peer is imported when it is asked for, so one
that is not installed is a failed record and no more.
"""

from benchmarks.quality.methods import conditional, crepes_, mapie_, ours, quantile_forest_

OURS = ours.METHODS
PEERS = {
    **mapie_.METHODS,
    **crepes_.METHODS,
    **quantile_forest_.METHODS,
    **conditional.METHODS,
}
METHODS = {**OURS, **PEERS}

#: Seconds for fit and prediction together; these solve a linear program for each test row.
TIME_LIMITS = dict.fromkeys(conditional.METHODS, 60.0)
