"""Conditional conformal prediction of Gibbs, Cherian and Candes: in MAPIE and by its authors.

The level is promised under every tilt by a basis, here 1, the prediction and the predicted size
of the error: the cut-off is a quantile regression of the error on these. Both packages solve a
linear program for each test row.
"""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from benchmarks.harness import LEVEL
from benchmarks.quality.methods.models import Fitted, SizeModel, cross_fit_errors, point_model


class GivenPrediction(RegressorMixin, BaseEstimator):
    """A model of rows (prediction, size): the prediction is there already.

    The packages ask their model row by row; a model asked once for all rows saves them that.
    """

    def fit(self, Z, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, Z):
        return np.asarray(Z)[:, 0]


def outputs(split, base, seed):
    """A function X -> (prediction, size) (n, 2), from training rows."""
    train = split.train
    model = point_model(base, seed).fit(train.X, train.y)
    errors = cross_fit_errors(base, seed, train.X, train.y)
    size = SizeModel(base, seed, logarithm=False).fit(train.X, errors)
    return lambda X: np.column_stack([model.predict(X), size.predict(X)])


def basis_of(Z):
    """Z -> (1, standardised Z) (n, 3), with the scale of these rows."""
    middle, spread = Z.mean(axis=0), Z.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return lambda rows: np.column_stack([np.ones(len(rows)), (rows - middle) / spread])


def mapie_conditional(split, base, seed):
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor

    embed = outputs(split, base, seed)
    basis, Z = basis_of(embed(split.train.X)), embed(split.calibration.X)
    made = ConditionalSplitConformalRegressor(basis, GivenPrediction(), confidence_level=LEVEL)
    made.conformalize(Z, split.calibration.y)
    return Fitted(lambda X: made.predict_interval(embed(X))[1][:, :, 0])


def conditionalconformal(split, base, seed):
    """By binary search: its exact mode fails under NumPy 2."""
    from conditionalconformal import CondConf

    embed = outputs(split, base, seed)
    basis, Z = basis_of(embed(split.train.X)), embed(split.calibration.X)
    made = CondConf(lambda rows, y: np.abs(y - rows[:, 0]), basis, seed=seed)
    made.setup_problem(Z, split.calibration.y)

    def predict_interval(X):
        rows = embed(X)
        ask = [made.predict(LEVEL, row[None], lambda cut, _: cut, exact=False) for row in rows]
        half = np.array([float(np.ravel(cut)[0]) for cut in ask])
        return np.column_stack([rows[:, 0] - half, rows[:, 0] + half])

    return Fitted(predict_interval)


METHODS = {"mapie-conditional": mapie_conditional, "conditionalconformal": conditionalconformal}
