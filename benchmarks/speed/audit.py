"""The whole audit at 100,000 rows of 20 features, its parts, and HSIC beside MAPIE's.

The rows have honest intervals but for a twentieth of them, so that there is something to find.
MAPIE's HSIC makes matrices of n x n: it is timed at 5,000 rows, where ours is timed too.
"""

import tracemalloc
from importlib.util import find_spec

import numpy as np

from benchmarks.speed.base import least_seconds, rows
from localconformal.audit import audit
from localconformal.audit.cells import Outcomes, feature_cells, telling_columns
from localconformal.audit.rules import find_rules
from localconformal.metrics import excess_risk, hsic, worst_slab_coverage
from localconformal.metrics.intervals import is_covered, lengths
from localconformal.parallel import in_threads

ROWS, COLUMNS, HSIC_ROWS, LEVEL = 100_000, 20, 5_000, 0.9
#: 95 % quantile of a standard normal law.
REACH = 1.6448536269514722


def audited_rows(n, columns=COLUMNS):
    """X, y and intervals that are too short where two features are large."""
    X, y = rows(n, "audit", columns)
    half = REACH * (0.3 + np.abs(X[:, 0]))
    half[(X[:, 1] > 0.75) & (X[:, 2] > 0.75)] *= 0.7
    return X, y, np.stack([-half, half], axis=1)


def time_parts(X, y, intervals):
    """Seconds of each part that takes more than a moment, in one thread as the audit runs it."""
    counted = Outcomes(is_covered(y, intervals), lengths(intervals), LEVEL)
    read, (columns, _) = least_seconds(lambda: telling_columns(X, len(y)), 1)
    parts = {
        "bins": lambda: feature_cells(columns, counted),
        "rules": lambda: find_rules(columns, counted, 0),
        "hsic": lambda: hsic(y, intervals),
        "worst_slab": lambda: worst_slab_coverage(y, intervals, X),
        "excess_risk": lambda: excess_risk(y, intervals, X, LEVEL),
    }
    seconds = {
        name: least_seconds(lambda one=part: in_threads([one]), 1)[0]
        for name, part in parts.items()
    }
    return {"read": read, **seconds}


def mapie_hsic(y, intervals):
    from mapie.metrics.regression import hsic as theirs

    return theirs(y, intervals[:, :, None])


def peak_megabytes(work):
    """Most memory that NumPy held at once."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def time_hsic(n=HSIC_ROWS):
    """HSIC with its p-value here, without one in MAPIE, at the same rows."""
    _, y, intervals = audited_rows(n)
    found = {"n": n, "seconds": least_seconds(lambda: hsic(y, intervals), 3)[0]}
    found["peak_megabytes"] = peak_megabytes(lambda: hsic(y, intervals))
    if find_spec("mapie") is not None:
        found["mapie_seconds"] = least_seconds(lambda: mapie_hsic(y, intervals), 1)[0]
        found["mapie_peak_megabytes"] = peak_megabytes(lambda: mapie_hsic(y, intervals))
        found["mapie_over_ours"] = found["mapie_seconds"] / found["seconds"]
    return found


def time_audit(n=ROWS):
    """Seconds of the whole, of its parts, and HSIC side by side."""
    X, y, intervals = audited_rows(n)
    seconds, found = least_seconds(lambda: audit(X, y, intervals, confidence_level=LEVEL), 2)
    return {
        "n": n,
        "columns": COLUMNS,
        "seconds": seconds,
        "parts": time_parts(X, y, intervals),
        "first_rule": found.rules[0].text,
        "notes": list(found.notes),
        "hsic": time_hsic(),
    }
