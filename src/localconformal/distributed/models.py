"""Point models and reference scores of rows on Dask.

Fitted models (`FrozenEstimator`, or anything with only ``predict``) are used as they are; others
train in memory, on a sample of at most `_MODEL_ROWS` training rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from localconformal.distributed.graph import (
    Blocks,
    Roles,
    Step,
    compute,
    held,
    kept_rows,
    stack_parts,
)
from localconformal.laws.blend import BlendedRegressor
from localconformal.quantiles import Array
from localconformal.regressors.base import rows_of
from localconformal.rows import is_frozen
from localconformal.scores import N_FOLDS, ResidualScore, Score

#: Most rows that a model trains on in memory.
_MODEL_ROWS = 200_000
#: A fold without rows: leaving it out leaves nothing out.
_NO_FOLD = -1
#: How reference scores are made -> (folds that are scored, how many folds there are).
_FOLDS: dict[str, tuple[list[int], int]] = {
    "cross-fit": (list(range(N_FOLDS)), N_FOLDS),
    "holdout": ([1], 2),
    "train": ([], 1),
}


@dataclass(frozen=True)
class Training:
    """What to train, and on which rows; ``shell`` is the regressor, which checks rows."""

    shell: Any
    score: Score
    level: float
    estimator: Any
    blocks: Blocks
    roles: Roles
    n_train: int
    seed: int


@dataclass(frozen=True)
class Scorers:
    """The final score, and the scores for the training rows of each fold that is scored."""

    final: Score
    by_fold: dict[int, Score]
    roles: Roles


def make_scorers(name: str, training: Training, needs_reference: bool) -> Scorers:
    """Reference scores in the named way; a frozen model has seen none of the rows."""
    if name == "oob" and isinstance(training.estimator, BlendedRegressor):
        # Its own held-out predictions are only for a sample; folds are held out here instead.
        name = "cross-fit"
    if name == "oob":
        raise ValueError(
            "got reference='oob' with Dask rows, for which models have no out-of-bag predictions; "
            "choose reference='cross-fit'."
        )
    seen_by_nobody = training.score.is_frozen(training.estimator)
    left_out, n_folds = ([], 1) if seen_by_nobody or not needs_reference else _FOLDS[name]
    training = replace(training, roles=replace(training.roles, n_folds=n_folds))
    # If only one half is scored, the model of the other half is the final one.
    wanted = left_out if n_folds == 2 else [*left_out, _NO_FOLD]
    fitted = dict(zip(wanted, _train(training, wanted), strict=True))
    final = fitted[wanted[-1]]
    return Scorers(final, {fold: fitted[fold] for fold in left_out} or {0: final}, training.roles)


def _train(training: Training, left_out: list[int]) -> list[Score]:
    """Scores fitted without each of these folds in turn."""
    model = training.estimator
    if is_frozen(model):
        # Other scores learn constants, such as floors, from a sample.
        if type(training.score)._fit_models is ResidualScore._fit_models:
            return [clone(training.score).fit(model, None, np.empty(0))] * len(left_out)
    elif "dask" in type(model).__module__.split("."):
        raise ValueError(
            f"got {type(model).__name__}, which trains on Dask; train it on other rows first and "
            "pass a model that predicts in memory, such as its to_local(), as "
            "FrozenEstimator(model)."
        )
    elif training.n_train > _MODEL_ROWS:
        warnings.warn(
            f"{type(model).__name__} trains in memory, on a sample of {_MODEL_ROWS:,} of "
            f"{training.n_train:,} training rows; to use more, pass a fitted model.",
            UserWarning,
            stacklevel=6,
        )
    share = _MODEL_ROWS / training.n_train
    drawn = training.blocks.map(_draw_training, training.shell, training.roles, share)
    sample = Step(_stack_sample, drawn)
    parts = held((training.score, training.estimator, training.level, training.seed))
    return list(compute(*(Step(_fit_score, sample, fold, parts) for fold in left_out)))


def _draw_training(
    X: Any, y: Array, start: int, shell: Any, roles: Roles, share: float
) -> tuple[Any, Array, NDArray[np.intp]]:
    """Training rows of a block that are in the sample, checked, with their folds."""
    flags = roles.drawn(share, start, len(y))
    rows, kept = kept_rows(X, y, flags)
    checked = rows_of(shell, rows).X if len(kept) else rows
    return checked, kept, roles.folds(start, len(y))[flags]


def _stack_sample(parts: list[Any]) -> tuple[Any, Array, NDArray[np.intp]]:
    X, y, folds = zip(*parts, strict=True)
    return stack_parts(X), np.concatenate(y), np.concatenate(folds)


def _fit_score(sample: Any, fold: int, parts: tuple[Score, Any, float, int]) -> Score:
    score, estimator, level, seed = parts
    X, y, folds = sample
    X, y = kept_rows(X, y, folds != fold)
    return clone(score).fit(estimator, X, y, confidence_level=level, random_state=seed)
