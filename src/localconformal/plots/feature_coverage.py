"""Coverage along one feature, in bins: where does it fail?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.bins import number_bins
from localconformal.audit.columns import MISSING, Column
from localconformal.columns import LABEL
from localconformal.metrics.groups import group_coverage
from localconformal.plots.coverage_rows import draw_coverage_rows, most_frequent
from localconformal.plots.extra import needs
from localconformal.plots.feature import MISSING_STRIP, OTHER_STRIP, read_one_column
from localconformal.plots.rows import one_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@needs("matplotlib", "pandas")
def plot_feature_coverage(
    X: Any,
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float = 0.9,
    *,
    probability: float = 0.95,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the coverage of each bin of a feature with its exact binomial band, and the level.

    The bins of numbers and times are those of the audit: at most ten, between quantiles, equal
    values together. Labels are taken as they are, the most frequent first. Missing values are
    the last bin.

    Parameters
    ----------
    X : array of shape (n,) or (n, 1), series, or frame of one column
    y : array of shape (n,)
    intervals : array of shape (n, 2)
    confidence_level : float, default=0.9
    probability : float, default=0.95
        With which each band holds, on its own.
    ax : matplotlib axes, default=None
        None makes a figure.

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        As that of `localconformal.metrics.group_coverage`, one row a bin drawn.

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_feature_coverage([1, 1, 2, None], [0.5, 0.6, 2.0, 0.1], intervals)
    >>> frame["group"].tolist(), frame["coverage"].tolist()
    (['1', '2', 'missing'], [1.0, 0.0, 1.0])
    """
    response, bounds = one_level(y, intervals)
    column = read_one_column(X, len(response))
    codes, names = bins_of(column)
    counted: Any = group_coverage(
        response, bounds, codes, confidence_level, probability=probability
    )
    table = counted.frame()
    table["group"] = [names[code] for code in table["group"]]
    frame, notes = most_frequent(table)
    return draw_coverage_rows(ax, frame, column.name, probability, notes), frame


def bins_of(column: Column) -> tuple[NDArray[np.intp], list[str]]:
    """Bin of each row (n,), and the name of each bin; missing values are the last."""
    if column.kind == LABEL:
        codes, names = column.codes.astype(np.intp), [*column.labels, OTHER_STRIP]
    else:
        codes, conditions = number_bins(column)
        names = [condition.short for condition in conditions]
    return np.where(column.codes == MISSING, len(names), codes), [*names, MISSING_STRIP]
