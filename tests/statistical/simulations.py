"""Redraws of calibration sets, and the bands in which the coverage over them lies."""

from __future__ import annotations

import numpy as np

from localconformal.quantiles import conformal_rank

#: Test rows are cheap beside a redraw: as many as leave the band no wider than with 200 redraws of
#: 100 rows.
N_CAL, N_TEST, N_TRAIN, TAU = 100, 400, 150, 0.9
TRAINING_SETS, REDRAWS = 2, 62


def redraws(model, data, n_cal=N_CAL, n_test=N_TEST, training_sets=TRAINING_SETS, redraws=REDRAWS):
    """New rows (X, y) for the model after each of its calibration sets."""
    for training_set in range(training_sets):
        model.fit(*data(N_TRAIN, seed=training_set))
        for redraw in range(redraws):
            X, y = data(n_cal + n_test, seed=10_000 + 1_000 * training_set + redraw)
            model.conformalize(X[:n_cal], y[:n_cal])
            yield X[n_cal:], y[n_cal:]


def is_inside(y, intervals):
    return (intervals[:, 0] <= y) & (y <= intervals[:, 1])


def mean_coverage(model, data, **sizes):
    found = [is_inside(y, model.predict_interval(X)) for X, y in redraws(model, data, **sizes)]
    return float(np.mean(found))


def band(z, n_cal=N_CAL, n_test=N_TEST, n_draws=TRAINING_SETS * REDRAWS):
    """Where the mean coverage lies for continuous scores and one quantile, z errors wide."""
    mean = conformal_rank(n_cal, TAU) / (n_cal + 1)
    beta = mean * (1 - mean) / (n_cal + 2)
    spread = np.sqrt((beta + TAU * (1 - TAU) / n_test) / n_draws)
    return max(TAU, mean) - z * spread, mean + z * spread


def lower_end(shares, errors=4.0):
    """So many standard errors of the mean below the level, by the spread of the shares."""
    return TAU - errors * np.std(shares) / np.sqrt(len(shares))
