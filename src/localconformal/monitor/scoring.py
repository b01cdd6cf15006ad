"""What a monitor asks a model: the scores that it calibrates, and whether rows were covered.

The score of a row is the adjusted one, p(V, F) at the model's level: a function of training rows
and that row alone, as the guarantee needs it, and the route is that of calibration itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from localconformal.calibration import Calibration
from localconformal.metrics.coverage import is_covered
from localconformal.models import take_rows
from localconformal.monitor.grid import Codes, grid_codes
from localconformal.quantiles import Array
from localconformal.regressors import MondrianConformalRegressor, WeightedConformalRegressor
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.regressors.composed import ComposedRegressor
from localconformal.regressors.density_split import DensitySplitRegressor
from localconformal.regressors.response import check_target

#: Rows that are scored at a time.
ROWS_AT_A_TIME = 1_024
#: How models that calibrate all rows together answer for the cell of a row.
ONE_CELL = (ComposedRegressor._cells, DensitySplitRegressor._cells)


@dataclass(frozen=True)
class Scored:
    """Rows as a monitor sees them.

    Parameters
    ----------
    codes : array of shape (n, C)
        Scores on the grid; two columns where the sides are calibrated apart.
    cells : array of shape (n,)
        The part of the calibration that speaks for each row, as text.
    covered : array of shape (n,)
    """

    codes: Codes
    cells: NDArray[Any]
    covered: NDArray[np.bool_]


def check_model(model: Any) -> None:
    """Calibrated, and of a kind whose new rows should look like its calibration rows."""
    if not isinstance(model, BaseConformalRegressor):
        raise ValueError(
            f"model is {model!r}; a fitted estimator of localconformal was expected, whose "
            "calibration scores can be read."
        )
    model._check_calibrated()
    if not isinstance(model.calibration_, Calibration):
        raise ValueError(
            f"{type(model).__name__} came without calibration scores, which are not kept on Dask; "
            "call conformalize with rows in memory first."
        )
    weighted = isinstance(model, WeightedConformalRegressor)
    if weighted and (model.weigh_ is not None or model._extra_given):
        raise ValueError(
            "WeightedConformalRegressor with weights came, whose new rows are expected to differ "
            "from calibration rows, so that every stream would raise the alarm; monitor an "
            "estimator without weights."
        )


def model_level(model: BaseConformalRegressor) -> float:
    """The level of the model's intervals, if it is one number inside (0, 1)."""
    level = model._levels(None, None)
    if level.ndim:
        raise ValueError(
            f"the model's confidence_level is {model.confidence_level!r}; one number was expected: "
            "a monitor watches one level."
        )
    return float(level)


def has_one_cell(model: BaseConformalRegressor) -> bool:
    """Whether all rows are calibrated together; where not, any cell may come with a new row."""
    return getattr(type(model), "_cells", None) in ONE_CELL


def check_groups(model: BaseConformalRegressor, groups: Any) -> None:
    """Labels are for models that know them; Mondrian ones say themselves whether they do."""
    if groups is not None and not isinstance(model, MondrianConformalRegressor):
        raise ValueError(
            f"groups came, but {type(model).__name__} has no use for labels; leave them out, or "
            "monitor a MondrianConformalRegressor whose fit was given them."
        )


def calibration_codes(calibration: Calibration, level: float) -> tuple[Codes, NDArray[Any]]:
    """Scores on the grid (n, C) and cells (n,) of the rows of a calibration."""
    scores = calibration.adjusted(np.array([level]))[:, :, 0]
    if not calibration.rule.separate:
        scores = scores.max(axis=1, keepdims=True)
    return grid_codes(scores), np.array([str(cell) for cell in calibration.cells])


def miss_shares(calibration: Calibration, level: float) -> Array:
    """Share of rows that should miss, for each column of `calibration_codes`: (C,)."""
    rule = calibration.rule
    return (1.0 - level) * (rule.shares if rule.separate else np.ones(1))


def score_rows(model: BaseConformalRegressor, X: Any, y: Any, groups: Any, level: float) -> Scored:
    """New rows, scored as calibration rows are; the model does not change."""
    check_groups(model, groups)
    rows, target = model._check_rows(X), check_target(y)
    check_consistent_length(rows, target, groups)
    parts = []
    for start in range(0, len(target), ROWS_AT_A_TIME):
        part = np.arange(start, min(start + ROWS_AT_A_TIME, len(target)))
        extra = None if groups is None else take_rows(groups, part)
        some, y_part = take_rows(rows, part), target[part]
        codes, cells = calibration_codes(model._calibrate(some, y_part, extra), level)
        bounds = model._predict_interval(some, level, None, "array", extra)
        parts.append((codes, cells, is_covered(y_part, bounds)))
    return Scored(*(np.concatenate(column) for column in zip(*parts, strict=True)))
