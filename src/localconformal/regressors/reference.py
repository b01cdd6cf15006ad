"""Reference scores: what the local law is estimated from, and by which model they were made.

Scores of rows that the model was fitted on are too small, and their law with them. So by
default each training row is scored by a model that has not seen it. Every way here is a
function of training rows alone, so that none touches validity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config
from sklearn.base import clone

from localconformal.laws.once import Once
from localconformal.laws.outputs import Outputs
from localconformal.models import fit_all, is_frozen, take_params, take_rows
from localconformal.parallel import jobs_of
from localconformal.quantiles import Array, clear_of_rounding
from localconformal.scores import BaseScore
from localconformal.splitting import Rows, fold_rows, split_rows

N_FOLDS = 5


@dataclass(frozen=True)
class ScoreTask:
    """A score to be fitted on (some of) the training rows."""

    score: BaseScore
    estimator: Any
    X: Any
    y: Array
    confidence_level: float
    seed: int
    fit_params: Mapping[str, Any]
    n_jobs: int | None
    # scikit-learn's settings belong to a thread; folds may be fitted in other threads or processes.
    config: dict[str, Any] = field(default_factory=get_config)

    def fit(self, rows: Rows | None = None) -> BaseScore:
        """The score fitted on these rows; all of them by default."""
        rows = np.arange(len(self.y)) if rows is None else rows
        with config_context(**self.config), jobs_of(self.n_jobs):
            return clone(self.score).fit(
                self.estimator,
                take_rows(self.X, rows),
                self.y[rows],
                confidence_level=self.confidence_level,
                random_state=self.seed,
                fit_params=take_params(self.fit_params, rows, len(self.y)),
            )

    def values(self, score: BaseScore, rows: Rows | None = None) -> tuple[Array, Array]:
        """Scores (n, 2) and point predictions (n,) of these rows; all of them by default."""
        if rows is None:
            return score.values(score.band(self.X), self.y), score.point(self.X)
        X = take_rows(self.X, rows)
        return score.values(score.band(X), self.y[rows]), score.point(X)


@dataclass(frozen=True)
class PointOf:
    """Point predictions of a score; an object, for model files cannot hold an inherited method."""

    score: BaseScore

    def __call__(self, X: Any) -> Array:
        """mu(x) of each row, (n,)."""
        return self.score.point(X)


@dataclass(frozen=True)
class Reference:
    """The final score, the rows of the law, their scores V (n, 2), predictions and responses."""

    score: BaseScore
    X: Any
    V: Array
    point: Array
    y: Array

    @property
    def outputs(self) -> Outputs:
        """What laws may know of the point model."""
        model = getattr(self.score, "model_", None)
        return Outputs(Once(PointOf(self.score)), self.point, self.y, model)

    def sizes(self, V: Array) -> Array:
        """Scores V (n, S) of the rows for an adjustment to learn its constants from."""
        error, size = np.abs(self.y - self.point), np.abs(V).max(axis=1)
        both = (error > 0.0) & (size > 0.0)
        # Scores may be in units of a spread; where there is no error, any unit will do.
        unit = float(np.median(error[both] / size[both])) if both.any() else 1.0
        return clear_of_rounding(V, self.y, unit)


def cross_fit(task: ScoreTask) -> Reference:
    """Each row scored by a fit without its fold; the final model sees all rows."""
    folds = fold_rows(len(task.y), N_FOLDS, task.seed)

    def one_fold(rest: Rows, fold: Rows) -> tuple[Array, Array]:
        return task.values(task.fit(rest), fold)

    if task.n_jobs is None and get_active_backend()[1] == 1:
        parts = fit_all([partial(one_fold, *fold) for fold in folds], task.estimator, task.X)
    else:
        # Processes, or whatever the user's joblib is set to.
        parts = Parallel(n_jobs=task.n_jobs)(delayed(one_fold)(*fold) for fold in folds)
    V, point = np.empty((len(task.y), 2)), np.empty(len(task.y))
    for (_, fold), part in zip(folds, parts, strict=True):
        V[fold], point[fold] = part
    return Reference(task.fit(), task.X, V, point, task.y)


def out_of_bag(task: ScoreTask) -> Reference:
    """Each row scored by the trees that were not grown on it."""
    if hasattr(task.estimator, "get_params") and "oob_score" in task.estimator.get_params():
        task = replace(task, estimator=clone(task.estimator).set_params(oob_score=True))
    score = task.fit()
    V = score.values(score.out_of_bag_band(), task.y)
    return Reference(score, task.X, V, np.asarray(score.model_.oob_prediction_), task.y)


def holdout(task: ScoreTask) -> Reference:
    """One half trains the model, the other half is scored."""
    first, second = split_rows(len(task.y), 0.5, task.seed)
    score = task.fit(first)
    X = take_rows(task.X, second)
    return Reference(score, X, *task.values(score, second), task.y[second])


def in_sample(task: ScoreTask) -> Reference:
    """Every row both trains the model and is scored, as in the paper."""
    score = task.fit()
    return Reference(score, task.X, *task.values(score), task.y)


REFERENCES: dict[str, Callable[[ScoreTask], Reference]] = {
    "cross-fit": cross_fit,
    "oob": out_of_bag,
    "holdout": holdout,
    "train": in_sample,
}


def make_reference(name: str, task: ScoreTask) -> Reference:
    """Reference scores in the named way; rows unseen by a frozen model need no care."""
    if name != "oob" and task.score.is_frozen(task.estimator):
        return in_sample(task)
    if name == "oob" and is_frozen(task.estimator):
        raise ValueError(
            "reference='oob' came with a model that is already fitted; its rows in fit must be "
            "new to it, so choose reference='holdout'."
        )
    return REFERENCES[name](task)
