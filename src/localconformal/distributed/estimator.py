"""`fit` and `conformalize` of an estimator whose rows are on Dask.

::

    lengths -> roles by position -> models -> law on a sample -> sketch of all rows -> theta*

Each arrow is one pass over the rows, or less. What comes to this process is the fitted estimator:
models, landmarks, edges, sums and the sample behind the fallback of the sketch, and theta*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from localconformal.distributed.blocks import Blocks, make_blocks
from localconformal.distributed.calibrating import calibrate
from localconformal.distributed.computing import compute, task
from localconformal.distributed.models import Training, make_scorers
from localconformal.distributed.positions import SPLIT, Roles, uniforms
from localconformal.distributed.predicting import predict, predict_interval
from localconformal.distributed.ranks import smallest
from localconformal.laws import SidedLaw
from localconformal.quantiles import Array
from localconformal.regressors.composed import ComposedRegressor, Composition

__all__ = ["conformalize", "fit", "predict", "predict_interval"]

#: No row calibrates; every row does.
NONE, ALL = -1.0, 2.0
#: What a composition on Dask leaves as it is: one cell, one correction for all rows.
PLAIN = ("_cells", "_view", "_correction", "_calibrate", "_fit_parts")


def fit(estimator: Any, X: Any, y: Any, extra: Any, fit_params: Mapping[str, Any]) -> Any:
    """Split, train and calibrate on Dask; return the estimator."""
    estimator._validate_params()
    estimator.__dict__.pop("_training_hashes", None)
    parts = check_method(estimator)
    check_nothing_else(estimator, extra, fit_params)
    blocks = make_blocks(X, y)
    estimator._check_rows(first_rows(blocks), reset=True)
    split_seed, seed = map(
        int, check_random_state(estimator.random_state).randint(2**31 - 1, size=2)
    )
    n_cal = calibration_count(blocks.n, estimator.calibration_size)
    roles = Roles(split_seed, split_threshold(blocks, n_cal, split_seed))
    estimator._extra_given, estimator.calibration_ = False, None
    n_train = blocks.n - n_cal
    rows = {"train": n_train, "reference": 0, "calibration": 0}
    estimator.fit_report_ = {"seconds": {}, "rows": rows}
    fit_parts(estimator, parts, blocks, roles, n_train, seed)
    if n_cal:
        set_calibration(estimator, blocks, roles)
    # Rows are not remembered one by one here: `conformalize` cannot say which it has seen.
    estimator._training_hashes = np.empty(0, dtype=np.uint64)
    return estimator


def fit_parts(
    estimator: Any, parts: Composition, blocks: Blocks, roles: Roles, n_train: int, seed: int
) -> None:
    """Everything that training rows decide."""
    model = estimator._base_estimator(seed)
    estimator._selection = None
    estimator._frozen = parts.score.comes_fitted(model)
    estimator.side_rule_, estimator.adjustment_ = parts.rule, parts.adjustment
    estimator.law_ = SidedLaw((), mirrored=False)
    shell = light_copy(estimator)
    training = Training(shell, parts.score, model, blocks, roles, n_train, seed)
    with estimator._stage("train"):
        scorers = make_scorers(parts.reference, training, parts.needs_reference)
    estimator.score_ = shell.score_ = scorers.final
    if not parts.needs_reference:
        return
    # Loaded here: the sketch brings the compiler.
    from localconformal.distributed.laws import fit_laws

    with estimator._stage("law"):
        fitted, count = fit_laws(shell, parts, scorers, blocks, n_train, seed)
    for name in ("law_", "adjustment_", "_selection"):
        setattr(estimator, name, getattr(fitted, name))
    estimator.fit_report_["rows"] |= {**fitted.fit_report_["rows"], "reference": count}


def conformalize(estimator: Any, X: Any, y: Any, extra: Any) -> Any:
    """Replace the calibration set by all rows of X."""
    check_method(estimator)
    check_nothing_else(estimator, extra, {})
    blocks = make_blocks(X, y)
    estimator._check_rows(first_rows(blocks))
    set_calibration(estimator, blocks, Roles(0, ALL))
    return estimator


def set_calibration(estimator: Any, blocks: Blocks, roles: Roles) -> None:
    """Calibrate; a calibration that fails leaves the previous one in force."""
    with estimator._stage("calibrate"):
        made = calibrate(light_copy(estimator), blocks, roles)
    estimator.calibration_ = made
    estimator.fit_report_["rows"]["calibration"] = made.n


def light_copy(estimator: Any) -> Any:
    """What tasks need of the estimator: its parts, and not the calibration before."""
    light = copy(estimator)
    light.calibration_ = None
    light.fit_report_ = {"seconds": {}, "rows": dict(estimator.fit_report_["rows"])}
    return light


def check_method(estimator: Any) -> Composition:
    """The composition of a method whose rows are calibrated alike, or a refusal."""
    kind = type(estimator)
    plain = isinstance(estimator, ComposedRegressor) and all(
        getattr(kind, name) is getattr(ComposedRegressor, name) for name in PLAIN
    )
    parts = estimator._composition() if plain else None
    if parts is None or parts.localizer is not None or parts.learns_more:
        raise ValueError(
            f"{kind.__name__} came with Dask rows, which it cannot be fitted to; fit it to a "
            "sample in memory, or choose SLCPRegressor, LocalizedConformalRegressor, "
            "SplitConformalRegressor, ConformalizedQuantileRegressor, MADSplitRegressor or "
            "DistSplitRegressor."
        )
    return parts


def check_nothing_else(estimator: Any, extra: Any, fit_params: Mapping[str, Any]) -> None:
    """Neither extra columns nor fit parameters, which would have to be cut like X."""
    given = [*(["groups or weights"] if extra is not None else []), *sorted(fit_params)]
    if given:
        raise ValueError(
            f"{', '.join(given)} came beside Dask rows, where {type(estimator).__name__} takes X "
            "and y alone; fit the model yourself and pass it as FrozenEstimator(model)."
        )


def first_rows(blocks: Blocks) -> Any:
    """Some rows of the first block: names, types and the number of columns are read off them."""
    (rows,) = compute(task(head, blocks.pairs[0]))
    return rows


def head(pair: tuple[Any, Any]) -> Any:
    """A few rows."""
    return pair[0][:5]


def calibration_count(n: int, size: float | int | None) -> int:
    """How many of n rows calibrate."""
    if size is None:
        return 0
    count = int(size) if isinstance(size, Integral) else math.ceil(size * n)
    if count >= n:
        raise ValueError(
            f"calibration_size is {size} and {n} rows came; some rows must be left to train on."
        )
    return count


def split_threshold(blocks: Blocks, count: int, seed: int) -> float:
    """The number that exactly ``count`` positions do not exceed."""
    if count == 0:
        return NONE
    columns = [
        task(split_column, seed, start, length)
        for start, length in zip(blocks.starts, blocks.lengths, strict=True)
    ]
    ((_, threshold),) = compute(smallest(columns, ConstantRank(count)))
    return float(threshold[0])


def split_column(seed: int, start: int, count: int) -> Array:
    """Numbers of the positions as a column (n, 1)."""
    return uniforms(seed, SPLIT, start, count)[:, None]


class ConstantRank:
    """The same rank whatever the number of rows."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __call__(self, n: int) -> list[int]:
        """For one column."""
        return [self.rank]
