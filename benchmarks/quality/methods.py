"""Methods by name: ``prepare(split, seed)`` gives an object with ``predict_interval(X)``.

A peer is imported when it is asked for, so one that is not installed is a failed task and no more.
Point models are gradient boosting, and all methods get as many threads. Conformalised quantile
regression (CQR) is here around boosted quantiles of MAPIE, CatBoost (one model of three quantiles)
and LightGBM, and around a quantile forest. Of MAPIE too: residuals normalised by a model of their
size. Of crepes: normalised by difficulty, also Mondrian by difficulty; difficulty is the predicted
size of the error (``f=``) or the mean error of the nearest training rows, and both learn from
cross-fit errors of training rows.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from benchmarks.harness import LEVEL, calibrated
from benchmarks.quality import THREADS
from localconformal import SLCPRegressor

TAILS = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]


def boosting(seed):
    """The point model; its threads are those of OpenMP."""
    return HistGradientBoostingRegressor(random_state=seed)


@dataclass(frozen=True)
class Fitted:
    """A calibrated method: what one would keep on disk, and X (n, d) -> intervals (n, 2)."""

    model: Any
    predict_interval: Any


def cross_fit_errors(seed, X, y):
    """|y - prediction| (n,) of models that have not seen the row.

    Errors on rows that a boosted model was trained on are far too small to learn difficulty
    from, and holding rows back for it would weaken the peer.
    """
    folds = KFold(5, shuffle=True, random_state=seed)
    return np.abs(y - cross_val_predict(boosting(seed), X, y, cv=folds))


class SizeModel:
    """Predicted size of the error, by boosting on cross-fit errors.

    ``logarithm`` learns log errors, as MAPIE does, else errors as they are. Predictions have a
    floor of a hundredth of the median error, which keeps the scores of a peer bounded.
    """

    def __init__(self, seed, logarithm):
        self.model, self.logarithm = boosting(seed), logarithm

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


#: Name -> law; ``auto`` alone is the estimator as users meet it, the others are around boosting.
LAWS = {"auto": "auto", "auto-boosting": "auto", "forest": "forest", "split": "uniform"}


def slcp(split, seed, name):
    shared = {"calibration_size": None, "random_state": seed, "n_jobs": THREADS}
    around = None if name == "auto" else boosting(seed)
    model = SLCPRegressor(around, law=LAWS[name], confidence_level=LEVEL, **shared)
    return Fitted(calibrated(model, split), model.predict_interval)


OURS = {name: partial(slcp, name=name) for name in LAWS}


def mapie_cqr(split, seed):
    """One correction for both sides, as published; MAPIE's default is one a side."""
    from mapie.regression import ConformalizedQuantileRegressor

    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=seed)
    made = ConformalizedQuantileRegressor(model, confidence_level=LEVEL)
    calibrated(made, split)
    ask = partial(made.predict_interval, symmetric_correction=True)
    return Fitted(made, lambda X: ask(X)[1][:, :, 0])


def conformalised(split, model, quantiles):
    """CQR by hand around ``quantiles(X)`` (n, 2), which may cross; one correction for both."""
    y, bounds = split.calibration.y, np.sort(quantiles(split.calibration.X), axis=1)
    scores = np.sort(np.maximum(bounds[:, 0] - y, y - bounds[:, 1]))
    rank = int(np.ceil((len(y) + 1) * LEVEL))
    correction = scores[rank - 1] if rank <= len(y) else np.inf
    shift = correction * np.array([-1.0, 1.0])
    return Fitted((model, shift), lambda X: np.sort(quantiles(X), axis=1) + shift)


def catboost_cqr(split, seed):
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function=f"MultiQuantile:alpha={TAILS[0]:g},0.5,{TAILS[1]:g}",
        random_seed=seed,
        thread_count=THREADS,
        verbose=0,
        allow_writing_files=False,
    )
    model.fit(split.train.X, split.train.y)
    return conformalised(split, model, lambda X: model.predict(X)[:, [0, 2]])


def lightgbm_cqr(split, seed):
    from lightgbm import LGBMRegressor

    shared = {"objective": "quantile", "random_state": seed, "n_jobs": THREADS, "verbose": -1}
    models = [
        LGBMRegressor(alpha=tail, **shared).fit(split.train.X, split.train.y) for tail in TAILS
    ]
    return conformalised(
        split, models, lambda X: np.column_stack([model.predict(X) for model in models])
    )


def quantile_forest(split, seed):
    """All samples of a leaf count, on large tables 128 of them: the default keeps one.

    The library holds trees x leaves x the largest leaf, which is beyond 20 GB where most of 50,000
    responses are zero.
    """
    from quantile_forest import RandomForestQuantileRegressor

    forest = RandomForestQuantileRegressor(
        min_samples_leaf=5,
        max_samples_leaf=None if len(split.train.y) <= 5_000 else 128,
        random_state=seed,
        n_jobs=THREADS,
    )
    forest.fit(split.train.X, split.train.y)
    return conformalised(split, forest, partial(forest.predict, quantiles=TAILS))


def mapie_normalised(split, seed):
    """The model of the errors' size is given: it learns from all training rows."""
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    train = split.train
    errors = cross_fit_errors(seed, train.X, train.y)
    size = SizeModel(seed, logarithm=True).fit(train.X, errors)
    score = ResidualNormalisedScore(residual_estimator=size, prefit=True, random_state=seed)
    made = SplitConformalRegressor(
        boosting(seed), confidence_level=LEVEL, conformity_score=score, prefit=False
    )
    calibrated(made, split)
    return Fitted(made, lambda X: made.predict_interval(X)[1][:, :, 0])


#: A Mondrian bin has about this many calibration rows or more, up to ten bins.
ROWS_PER_BIN = 100


def difficulty(split, seed, kind):
    """A fitted DifficultyEstimator; crepes adds beta, so it is small beside the errors."""
    from crepes.extras import DifficultyEstimator

    train = split.train
    errors = cross_fit_errors(seed, train.X, train.y)
    made, beta = DifficultyEstimator(), 0.01 * float(np.median(errors))
    if kind == "model":
        size = SizeModel(seed, logarithm=False).fit(train.X, errors)
        made.fit(f=size.predict, beta=beta)
    else:
        made.fit(X=train.X, residuals=errors, k=25, beta=beta)
        # crepes asks for all cores.
        made.nn.set_params(n_jobs=THREADS)
    return made


def crepes(split, seed, kind="model", mondrian=False):
    """Wrap the point model; bins are quantiles of the difficulty of training rows."""
    from crepes import WrapRegressor
    from crepes.extras import MondrianCategorizer

    train, calibration = split.train, split.calibration
    hard = difficulty(split, seed, kind)
    bins = None
    if mondrian:
        number = int(np.clip(len(calibration.y) // ROWS_PER_BIN, 2, 10))
        bins = MondrianCategorizer()
        bins.fit(X=train.X, f=hard.apply, no_bins=number)
    made = WrapRegressor(boosting(seed))
    made.fit(train.X, train.y)
    made.calibrate(calibration.X, calibration.y, de=hard, mc=bins, seed=seed)
    return Fitted(made, lambda X: made.predict_int(X, confidence=LEVEL))


#: Peers that are run at every size of table.
LARGE_PEERS = {
    "mapie-cqr": mapie_cqr,
    "quantile-forest": quantile_forest,
    "catboost-cqr": catboost_cqr,
    "lightgbm-cqr": lightgbm_cqr,
}
PEERS = {
    **LARGE_PEERS,
    "mapie-normalised": mapie_normalised,
    "crepes-normalised": crepes,
    "crepes-normalised-knn": partial(crepes, kind="neighbours"),
    "crepes-normalised-mondrian": partial(crepes, mondrian=True),
}
METHODS = {**OURS, **PEERS}
