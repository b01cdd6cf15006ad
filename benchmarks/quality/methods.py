"""Methods by name: ``prepare(split, base, seed)`` gives an object with ``predict_interval(X)``.

``base`` names the family of the point model. A peer is imported when it is asked for, so one
that is not installed is a failed record and no more. Of MAPIE: conformalized quantile regression,
and residuals normalised by a model of their size. Of crepes: normalised by difficulty, Mondrian by
difficulty, and its predictive systems; difficulty is the predicted size of the error, by a model
of the base's family (``f=``) or by the mean error of the nearest training rows, and both learn
from cross-fit errors of training rows. quantile-forest is conformalised as CQR, since it has no
calibration of its own. Conditional conformal prediction of Gibbs, Cherian and Candes, in MAPIE and
by its authors, promises the level under every tilt by a basis, here 1, the prediction and the
predicted size of the error: both packages solve a linear program for each test row.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

from benchmarks.harness import LEVEL, calibrated
from localconformal import KernelLaw, ScaledLaw, SLCPRegressor

#: Family -> unfitted model with default settings; one thread, as jobs share the cores.
BASES = {
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "forest": lambda seed: RandomForestRegressor(random_state=seed, n_jobs=1),
}


@dataclass(frozen=True)
class Fitted:
    """A calibrated method: X (n, d) -> intervals (n, 2)."""

    predict_interval: Any


def cross_fit_errors(base, seed, X, y):
    """|y - prediction| (n,) of models that have not seen the row.

    Errors on rows that a boosted model was trained on are far too small to learn difficulty
    from, and holding rows back for it would weaken the peer.
    """
    folds = KFold(5, shuffle=True, random_state=seed)
    return np.abs(y - cross_val_predict(BASES[base](seed), X, y, cv=folds))


class SizeModel:
    """Predicted size of the error, by a model of the base's family on cross-fit errors.

    ``logarithm`` learns log errors, as MAPIE does, else errors as they are. Predictions have a
    floor of a hundredth of the median error, which keeps the scores of a peer bounded.
    """

    def __init__(self, base, seed, logarithm):
        self.model, self.logarithm = BASES[base](seed), logarithm

    def fit(self, X, errors):
        positive = errors[errors > 0]
        self.floor_ = 0.01 * float(np.median(positive)) if len(positive) else 1.0
        target = np.log(np.maximum(errors, self.floor_)) if self.logarithm else errors
        self.model.fit(X, target)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "floor_")

    def predict(self, X):
        size = self.model.predict(X)
        return np.maximum(np.exp(size) if self.logarithm else size, self.floor_)


#: Name -> what ``law=`` is given; a function makes an object, so that runs share none.
LAWS = {
    "auto": lambda: "auto",
    "forest": lambda: "forest",
    "learned": lambda: "learned",
    "kernel-median": lambda: KernelLaw(),
    "kernel-cv": lambda: KernelLaw(bandwidth="cv"),
    "kernel-outputs": lambda: KernelLaw(bandwidth="cv", embedding="outputs-spread"),
    "neighbors": lambda: "neighbors",
    "split": lambda: "uniform",
    "spread": lambda: ScaledLaw(),
}
#: Laws of one kind whose correction is in local widths, as auto's mostly is.
SCALED = {"spread"}


def slcp(split, base, seed, law):
    adjustment = "scaled" if law in SCALED else "additive"
    shared = {"confidence_level": LEVEL, "calibration_size": None, "random_state": seed}
    model = SLCPRegressor(
        BASES[base](seed), law=LAWS[law](), adjustment=adjustment, n_jobs=1, **shared
    )
    return calibrated(model, split)


OURS = {name: partial(slcp, law=name) for name in LAWS}


def cqr(split, base, seed, symmetric):
    """Boosted quantiles under either base: MAPIE's quantile models need a quantile loss.

    One correction for both sides is the method as published, one a side is MAPIE's default.
    """
    from mapie.regression import ConformalizedQuantileRegressor

    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=seed)
    made = ConformalizedQuantileRegressor(model, confidence_level=LEVEL)
    calibrated(made, split)
    ask = partial(made.predict_interval, symmetric_correction=symmetric)
    return Fitted(lambda X: ask(X)[1][:, :, 0])


def normalised(split, base, seed, prefit):
    """The model of the errors' size: given, or fitted by MAPIE on a quarter of calibration rows.

    Given is the better use of the rows: the model learns from all training rows.
    """
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    train, size = split.train, BASES[base](seed)
    if prefit:
        errors = cross_fit_errors(base, seed, train.X, train.y)
        size = SizeModel(base, seed, logarithm=True).fit(train.X, errors)
    score = ResidualNormalisedScore(residual_estimator=size, prefit=prefit, random_state=seed)
    made = SplitConformalRegressor(
        BASES[base](seed), confidence_level=LEVEL, conformity_score=score, prefit=False
    )
    calibrated(made, split)
    return Fitted(lambda X: made.predict_interval(X)[1][:, :, 0])


MAPIE = {
    "mapie-cqr": partial(cqr, symmetric=True),
    "mapie-cqr-asymmetric": partial(cqr, symmetric=False),
    "mapie-normalised": partial(normalised, prefit=True),
    "mapie-normalised-own-rows": partial(normalised, prefit=False),
}


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
    made = WrapRegressor(BASES[base](seed))
    made.fit(train.X, train.y)
    made.calibrate(
        calibration.X, calibration.y, de=hard if normalise else None, mc=bins, cps=system, seed=seed
    )
    return Fitted(lambda X: made.predict_int(X, confidence=LEVEL))


CREPES = {
    "crepes-normalised": partial(crepes, normalise=True),
    "crepes-normalised-knn": partial(crepes, kind="neighbours", normalise=True),
    "crepes-mondrian": partial(crepes, mondrian=True),
    "crepes-normalised-mondrian": partial(crepes, normalise=True, mondrian=True),
    "crepes-system-mondrian": partial(crepes, normalise=True, mondrian=True, system=True),
}


def quantile_forest(split, base, seed):
    """A forest under either base. All samples of a leaf count: its default keeps one of them."""
    from quantile_forest import RandomForestQuantileRegressor

    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    forest = RandomForestQuantileRegressor(
        min_samples_leaf=5, max_samples_leaf=None, random_state=seed, n_jobs=1
    )
    forest.fit(split.train.X, split.train.y)
    y, bounds = split.calibration.y, forest.predict(split.calibration.X, quantiles=tails)
    scores = np.sort(np.maximum(bounds[:, 0] - y, y - bounds[:, 1]))
    rank = int(np.ceil((len(y) + 1) * LEVEL))
    correction = scores[rank - 1] if rank <= len(y) else np.inf
    shift = correction * np.array([-1.0, 1.0])
    return Fitted(lambda X: forest.predict(X, quantiles=tails) + shift)


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
    model = BASES[base](seed).fit(train.X, train.y)
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


CONDITIONAL = {"mapie-conditional": mapie_conditional, "conditionalconformal": conditionalconformal}

PEERS = {**MAPIE, **CREPES, "quantile-forest": quantile_forest, **CONDITIONAL}
METHODS = {**OURS, **PEERS}
#: Seconds for fit and prediction together; these solve a linear program for each test row.
TIME_LIMITS = dict.fromkeys(CONDITIONAL, 60.0)
