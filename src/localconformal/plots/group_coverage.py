"""Coverage of each group of rows: for whom does it fail?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics.groups import group_coverage
from localconformal.plots.coverage_rows import draw_coverage_rows, most_frequent
from localconformal.plots.rows import one_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING_GROUP = "(missing)"


def plot_group_coverage(
    y: ArrayLike,
    intervals: ArrayLike,
    groups: Any,
    confidence_level: float = 0.9,
    *,
    probability: float = 0.95,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the coverage of each group with its exact binomial band, and the level promised.

    Parameters
    ----------
    y : array of shape (n,)
    intervals : array of shape (n, 2)
    groups : array or series of shape (n,)
        Labels of any kind; missing ones are a group. Of more than 30 groups, those with the
        most rows are drawn.
    confidence_level : float, default=0.9
    probability : float, default=0.95
        With which each band holds, on its own.
    ax : matplotlib axes, default=None
        None makes a figure.

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        That of `localconformal.metrics.group_coverage`, one row a group drawn.

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> frame["coverage"].tolist()
    [1.0, 0.5]
    """
    counted: Any = group_coverage(
        *one_level(y, intervals), name_missing(groups), confidence_level, probability=probability
    )
    frame, notes = most_frequent(counted.frame())
    name = getattr(groups, "name", None)
    title = "group" if name is None else str(name)
    return draw_coverage_rows(ax, frame, title, probability, notes), frame


def name_missing(groups: Any) -> NDArray[Any]:
    """Labels (n,), missing ones said in words."""
    import pandas as pd

    labels = np.asarray(groups)
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        labels = np.where(missing, MISSING_GROUP, labels.astype(object))
    return labels
