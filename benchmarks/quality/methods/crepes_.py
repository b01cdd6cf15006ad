"""crepes: normalised by difficulty, Mondrian by difficulty, and its predictive systems.

Difficulty is the predicted size of the error, by a model of the base's family (``f=``) or by
the mean error of the nearest training rows; both learn from cross-fit errors of training rows.
"""

from functools import partial

import numpy as np

from benchmarks.harness import LEVEL
from benchmarks.quality.methods.models import Fitted, SizeModel, cross_fit_errors, point_model

#: A Mondrian bin has about this many calibration rows or more, up to ten bins.
ROWS_PER_BIN = 100


def difficulty(split, base, seed, kind):
    """A fitted DifficultyEstimator; crepes adds beta, so it is small beside the errors."""
    from crepes.extras import DifficultyEstimator

    train = split.train
    errors = cross_fit_errors(base, seed, train.X, train.y)
    made, beta = DifficultyEstimator(), 0.01 * float(np.median(errors))
    if kind == "model":
        size = SizeModel(base, seed, logarithm=False).fit(train.X, errors)
        made.fit(f=size.predict, beta=beta)
    else:
        made.fit(X=train.X, residuals=errors, k=25, beta=beta)
        # crepes asks for all cores; jobs share them here.
        made.nn.set_params(n_jobs=1)
    return made


def crepes(split, base, seed, kind="model", normalise=False, mondrian=False, system=False):
    """Wrap the point model; bins are quantiles of the difficulty of training rows."""
    from crepes import WrapRegressor
    from crepes.extras import MondrianCategorizer

    train, calibration = split.train, split.calibration
    hard = difficulty(split, base, seed, kind)
    bins = None
    if mondrian:
        number = int(np.clip(len(calibration.y) // ROWS_PER_BIN, 2, 10))
        bins = MondrianCategorizer()
        bins.fit(X=train.X, f=hard.apply, no_bins=number)
    made = WrapRegressor(point_model(base, seed))
    made.fit(train.X, train.y)
    made.calibrate(
        calibration.X,
        calibration.y,
        de=hard if normalise else None,
        mc=bins,
        cps=system,
        seed=seed,
    )
    return Fitted(lambda X: made.predict_int(X, confidence=LEVEL))


METHODS = {
    "crepes-normalised": partial(crepes, normalise=True),
    "crepes-normalised-knn": partial(crepes, kind="neighbours", normalise=True),
    "crepes-mondrian": partial(crepes, mondrian=True),
    "crepes-normalised-mondrian": partial(crepes, normalise=True, mondrian=True),
    "crepes-system-mondrian": partial(crepes, normalise=True, mondrian=True, system=True),
}
