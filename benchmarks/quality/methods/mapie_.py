"""MAPIE: conformalized quantile regression and residuals normalised by a model of their size."""

from functools import partial

from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.harness import LEVEL
from benchmarks.quality.methods.models import Fitted, SizeModel, cross_fit_errors, point_model


def cqr(split, base, seed, symmetric):
    """Boosted quantiles under either base: MAPIE's quantile models need a quantile loss.

    One correction for both sides is the method as published, one a side is MAPIE's default.
    """
    from mapie.regression import ConformalizedQuantileRegressor

    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=seed)
    made = ConformalizedQuantileRegressor(model, confidence_level=LEVEL)
    made.fit(split.train.X, split.train.y).conformalize(split.calibration.X, split.calibration.y)
    ask = partial(made.predict_interval, symmetric_correction=symmetric)
    return Fitted(lambda X: ask(X)[1][:, :, 0])


def normalised(split, base, seed, prefit):
    """The model of the errors' size: given, or fitted by MAPIE on a quarter of calibration rows.

    Given is the better use of the rows: the model learns from all training rows.
    """
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    train, calibration = split.train, split.calibration
    size = point_model(base, seed)
    if prefit:
        errors = cross_fit_errors(base, seed, train.X, train.y)
        size = SizeModel(base, seed, logarithm=True).fit(train.X, errors)
    score = ResidualNormalisedScore(residual_estimator=size, prefit=prefit, random_state=seed)
    made = SplitConformalRegressor(
        point_model(base, seed), confidence_level=LEVEL, conformity_score=score, prefit=False
    )
    made.fit(train.X, train.y).conformalize(calibration.X, calibration.y)
    return Fitted(lambda X: made.predict_interval(X)[1][:, :, 0])


METHODS = {
    "mapie-cqr": partial(cqr, symmetric=True),
    "mapie-cqr-asymmetric": partial(cqr, symmetric=False),
    "mapie-normalised": partial(normalised, prefit=True),
    "mapie-normalised-own-rows": partial(normalised, prefit=False),
}
