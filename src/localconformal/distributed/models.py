"""Point models and reference scores of rows on Dask.

Three kinds of models come in:

* fitted ones (`FrozenEstimator`, or anything with only ``predict``): used as they are;
* models that train on Dask themselves (those of ``xgboost.dask``, ``lightgbm.dask``, ...), which
  become local models once trained;
* all others train in memory, on a sample of at most `_MODEL_ROWS` training rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from localconformal.composition import N_FOLDS
from localconformal.distributed.graph import (
    Blocks,
    Roles,
    Step,
    as_delayed,
    clear_errors,
    compute,
    held,
    kept_rows,
    load,
    stack_parts,
)
from localconformal.laws.blend import BlendedRegressor
from localconformal.quantiles import Array
from localconformal.regressors.base import rows_of
from localconformal.rows import is_frozen
from localconformal.scores import ResidualScore, Score

#: Rows that a model trains on in memory, at most.
_MODEL_ROWS = 200_000
#: The fold that no row is in: leaving it out leaves none out.
_NO_FOLD = -1
#: How reference scores are made -> (folds that are scored, how many folds there are).
_FOLDS: dict[str, tuple[list[int], int]] = {
    "cross-fit": (list(range(N_FOLDS)), N_FOLDS),
    "holdout": ([1], 2),
    "train": ([], 1),
}


@dataclass(frozen=True)
class Training:
    """What is to be trained, and on which rows; ``shell`` is the regressor, which checks rows."""

    shell: Any
    score: Score
    estimator: Any
    blocks: Blocks
    roles: Roles
    n_train: int
    seed: int


@dataclass(frozen=True)
class Scorers:
    """The final score, and by whom the training rows of each fold are scored; others are not."""

    final: Score
    by_fold: dict[int, Score]
    roles: Roles


def make_scorers(name: str, training: Training, needs_reference: bool) -> Scorers:
    """Reference scores in the named way; a frozen model has seen none of the rows."""
    if name == "oob" and isinstance(training.estimator, BlendedRegressor):
        # Its own held-out answers are those of a sample; folds of partitions are held out here.
        name = "cross-fit"
    if name == "oob":
        raise ValueError(
            "got reference='oob' with Dask rows, of which models know no out-of-bag predictions; "
            "choose reference='cross-fit'."
        )
    seen_by_nobody = training.score.is_frozen(training.estimator)
    left_out, n_folds = ([], 1) if seen_by_nobody or not needs_reference else _FOLDS[name]
    training = replace(training, roles=replace(training.roles, n_folds=n_folds))
    # With a single half to score, the other half's model is the final one.
    wanted = left_out if n_folds == 2 else [*left_out, _NO_FOLD]
    fitted = dict(zip(wanted, _train(training, wanted), strict=True))
    final = fitted[wanted[-1]]
    return Scorers(final, {fold: fitted[fold] for fold in left_out} or {0: final}, training.roles)


def _train(training: Training, left_out: list[int]) -> list[Score]:
    """Scores fitted without each of these folds in turn."""
    model, learns_rows = training.estimator, type(training.score).fit is not ResidualScore.fit
    if is_frozen(model) and not learns_rows:
        return [clone(training.score).fit(model, None, np.empty(0))] * len(left_out)
    if is_frozen(model) or "dask" not in type(model).__module__.split("."):
        # Also around a fitted model: some scores learn constants, such as floors, from a sample.
        return _train_in_memory(training, left_out)
    if learns_rows:
        raise ValueError(
            f"{type(model).__name__} trains on Dask and {type(training.score).__name__} trains "
            "several models; choose conformity_score='residual' or 'absolute', or pass models "
            "that are fitted."
        )
    trained = (FrozenEstimator(_train_on_dask(training, fold)) for fold in left_out)
    return [clone(training.score).fit(one, None, np.empty(0)) for one in trained]


def _train_in_memory(training: Training, left_out: list[int]) -> list[Score]:
    if training.n_train > _MODEL_ROWS and not is_frozen(training.estimator):
        warnings.warn(
            f"{type(training.estimator).__name__} trains in memory, on a sample of {_MODEL_ROWS:,} "
            f"of {training.n_train:,} training rows; for more, pass a model that trains on Dask, "
            "or one that is fitted.",
            UserWarning,
            stacklevel=7,
        )
    share = _MODEL_ROWS / training.n_train
    drawn = training.blocks.map(_draw_training, training.shell, training.roles, share)
    sample, level = Step(_stack_sample, drawn), training.shell.confidence_level
    parts = held((training.score, training.estimator, level, training.seed))
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


def _train_on_dask(training: Training, fold: int) -> Any:
    """A local model, trained on the cluster without a fold."""
    parts = training.blocks.map(_fold_rows, training.roles, fold)
    X, y = _lazy_rows(parts, training.blocks.meta)
    model = clone(training.estimator)
    with clear_errors():
        model.fit(X, y)
    return _local_model(model)


def _fold_rows(X: Any, y: Array, start: int, roles: Roles, fold: int) -> tuple[Any, Array]:
    """Training rows of a block outside the fold."""
    outside = roles.folds(start, len(y)) != fold
    return kept_rows(X, y, outside & ~roles.calibrates(start, len(y)))


def _lazy_rows(parts: list[Step], meta: Any) -> tuple[Any, Any]:
    """Dask collections of the rows in these steps; those without rows are left out."""
    counts = compute(*(Step(len, Step(itemgetter(1), part)) for part in parts))
    filled = [part for part, count in zip(parts, counts, strict=True) if count]
    rows, responses = ([Step(itemgetter(place), part) for part in filled] for place in (0, 1))
    if isinstance(meta, np.ndarray):
        sizes = [count for count in counts if count]
        return _lazy_array(rows, sizes, meta), _lazy_array(responses, sizes, np.empty(0))
    import pandas as pd

    frame = partial(load("dask.dataframe").from_delayed, verify_meta=False)
    series = as_delayed([Step(pd.Series, one) for one in responses])
    return frame(as_delayed(rows), meta=meta), frame(series, meta=pd.Series(dtype="f8"))


def _lazy_array(steps: list[Step], sizes: list[int], meta: Any) -> Any:
    arrays = load("dask.array")
    made = zip(as_delayed(steps), sizes, strict=True)
    return arrays.concatenate(
        [arrays.from_delayed(one, (size, *meta.shape[1:]), meta.dtype) for one, size in made]
    )


def _local_model(model: Any) -> Any:
    """What a model trained on the cluster becomes: one that predicts a partition by itself."""
    if hasattr(model, "to_local"):
        return model.to_local()
    if hasattr(model, "get_booster"):
        from xgboost import XGBRegressor

        known = XGBRegressor().get_params()
        local = XGBRegressor(**{k: v for k, v in model.get_params().items() if k in known})
        local.load_model(model.get_booster().save_raw())
        return local
    return model
