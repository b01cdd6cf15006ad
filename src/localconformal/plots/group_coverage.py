"""Coverage of each group of rows: for whom does it fail?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from localconformal.metrics.groups import group_coverage
from localconformal.plots.coverage_rows import draw_coverage_rows, most_frequent
from localconformal.plots.extra import needs
from localconformal.plots.feature import MISSING_STRIP
from localconformal.plots.rows import one_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@needs("matplotlib", "pandas")
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
        *one_level(y, intervals), groups, confidence_level, probability=probability
    )
    table = counted.frame()
    if table["group"].isna().any():
        known = table["group"].notna()
        table["group"] = table["group"].astype(object).where(known, MISSING_STRIP)
    frame, notes = most_frequent(table)
    name = getattr(groups, "name", None)
    title = "group" if name is None else str(name)
    return draw_coverage_rows(ax, frame, title, probability, notes), frame
