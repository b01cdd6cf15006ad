"""Coverage of groups, of bins of a feature, and over levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.audit import check_one_level
from localconformal.audit.cells import number_bins
from localconformal.columns import LABEL
from localconformal.metrics import coverage_length_curve
from localconformal.metrics.features import MISSING, Column
from localconformal.metrics.groups import group_coverage
from localconformal.plots._axes import (
    IDEAL,
    INK,
    MAIN,
    MISS,
    MISSING_STRIP,
    OTHER_STRIP,
    POINT,
    POINTS_PER_INCH,
    SECOND,
    SMALL_SIZE,
    caption,
    check_packages,
    finish,
    in_percent,
    make_axes,
    make_panels,
    panel_inches,
    plain,
    read_one_column,
)
from localconformal.text import say_level, say_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES, MAX_LETTERS, LETTERS_PER_INCH = 30, 36, 5.6
UNDER, WITHIN, OVER = "below the level", "band holds the level", "above the level"
#: name -> (colour, marker): told apart without colour too.
VERDICTS = {UNDER: (MISS, "v"), WITHIN: (POINT, "o"), OVER: (SECOND, "^")}


def draw_rows(ax: Axes, frame: Any, looks: Any, texts: Any, size: float = SMALL_SIZE) -> None:
    """A line for each row of the frame, from the top: its value, its band, and a text beside.

    The frame has the columns value, lower, upper; a look is (colour, marker).
    """
    lines = zip(frame["value"], frame["lower"], frame["upper"], looks, texts, strict=True)
    for place, (value, lower, upper, (colour, marker), text) in enumerate(lines):
        ax.hlines(place, lower, upper, color=colour, lw=2.2, alpha=0.6)
        ax.scatter(value, place, s=34, color=colour, marker=marker, lw=0, zorder=3, clip_on=False)
        ax.annotate(
            text, (1.0, place), (8, 0), ("axes fraction", "data"), "offset points",
            va="center", color=INK, fontsize=size, annotation_clip=False,
        )  # fmt: skip
    ax.locator_params(axis="x", nbins=max(2, int(1.5 * panel_inches(ax))))


def verdicts(frame: Any) -> Any:
    """Which side of the level each band lies on: (n,) names in `VERDICTS`."""
    level = frame["confidence_level"]
    return np.select([frame["upper"] < level, frame["lower"] > level], [UNDER, OVER], WITHIN)


def _draw_coverage(ax: Axes | None, table: Any, title: str, probability: float) -> tuple[Axes, Any]:
    """Lines of the table of `group_coverage` that fit, in their order, and the level."""
    frame = table
    if len(table) > MAX_LINES:
        kept = table.nlargest(MAX_LINES, "n").index.sort_values()
        frame = table.loc[kept].reset_index(drop=True)
    ax = make_axes(ax, (6.4, 1.5 + 0.29 * len(frame)))
    level, named = frame["confidence_level"].iloc[0], verdicts(frame)
    low = min(level - 0.02, float(frame["lower"].min()))
    ax.set_xlim(max(low - 0.03 * (1.0 - low), -0.01), 1.0 + 0.01)
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.axvline(level, color=INK, lw=1.0, ls=IDEAL, zorder=0)
    # A font for as many lines as the axes are to hold.
    points = ax.get_window_extent().height / ax.figure.dpi * POINTS_PER_INCH / len(frame)
    size = float(np.clip(0.8 * points, 4.0, SMALL_SIZE))
    counts, looks = [f"{n:,}" for n in frame["n"]], [VERDICTS[name] for name in named]
    draw_rows(ax, frame.rename(columns={"coverage": "value"}), looks, counts, size)
    most = int(np.clip(LETTERS_PER_INCH * panel_inches(ax), 8, MAX_LETTERS))
    ax.set_yticks(np.arange(len(frame)), [plain(label, most) for label in frame["group"]])
    ax.annotate(
        "rows", (1.0, 1.0), (8, 2), "axes fraction", "offset points",
        color=INK, fontsize=SMALL_SIZE, va="bottom",
    )  # fmt: skip
    in_percent(ax.xaxis)
    finish(ax, "coverage, %", plain(title))
    ax.tick_params(axis="y", length=0, labelsize=size)
    said = [
        f"Bars: exact {say_level(probability)} bands, each on its own. Dashed: the level, "
        f"{say_level(level)}. Below it ▼: {np.sum(named == UNDER)} of {len(frame)}; above ▲: "
        f"{np.sum(named == OVER)}."
    ]
    if len(table) > MAX_LINES:
        said.append(f"Shown: the {MAX_LINES} of {len(table):,} with the most rows.")
    caption(ax, said)
    return ax, frame


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

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        That of `localconformal.metrics.group_coverage`, of the groups drawn.

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> frame["coverage"].tolist()
    [1.0, 0.5]
    """
    check_packages("plot_group_coverage")
    counted: Any = group_coverage(
        *check_one_level(y, intervals), groups, confidence_level, probability=probability
    )
    table = counted.frame()
    if (missing := table["group"].isna()).any():
        table["group"] = table["group"].astype(object).mask(missing, MISSING_STRIP)
    name = getattr(groups, "name", None)
    return _draw_coverage(ax, table, "group" if name is None else str(name), probability)


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

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        As that of `localconformal.metrics.group_coverage`, of the bins drawn.

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_feature_coverage([1, 1, 2, None], [0.5, 0.6, 2.0, 0.1], intervals)
    >>> frame["group"].tolist(), frame["coverage"].tolist()
    (['1', '2', 'missing'], [1.0, 0.0, 1.0])
    """
    check_packages("plot_feature_coverage")
    response, bounds = check_one_level(y, intervals)
    column = read_one_column(X, len(response))
    codes, names = _bins_of(column)
    counted: Any = group_coverage(
        response, bounds, codes, confidence_level, probability=probability
    )
    table = counted.frame()
    table["group"] = [names[code] for code in table["group"]]
    return _draw_coverage(ax, table, column.name, probability)


def _bins_of(column: Column) -> tuple[NDArray[np.intp], list[str]]:
    """Bin of each row (n,), and the name of each bin; missing values are the last."""
    if column.kind == LABEL:
        codes, names = column.codes.astype(np.intp), [*column.labels, OTHER_STRIP]
    else:
        codes, conditions = number_bins(column)
        names = [condition.short for condition in conditions]
    return np.where(column.codes == MISSING, len(names), codes), [*names, MISSING_STRIP]


def plot_calibration(
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: ArrayLike,
    *,
    probability: float = 0.95,
    ax: Any = None,
) -> tuple[list[Axes], Any]:
    """Draw the coverage observed against the level asked, with its band; and the length beside.

    Parameters
    ----------
    y : array of shape (n,)
    intervals : array of shape (n, 2, L)
        As ``predict_interval(X, confidence_level=levels)`` gives them.
    confidence_level : array of shape (L,)
    probability : float, default=0.95
        With which the band of each level holds, on its own.
    ax : pair of matplotlib axes, default=None

    Returns
    -------
    ax : list of two matplotlib axes
    frame : pandas.DataFrame
        That of `localconformal.metrics.coverage_length_curve`, level by level.

    Examples
    --------
    >>> intervals = np.array([[[0.4, 0.0], [0.6, 1.0]]] * 4)
    >>> (left, right), frame = plot_calibration([0.5, 0.5, 0.1, 0.8], intervals, [0.5, 0.9])
    >>> frame["coverage"].tolist()
    [0.5, 1.0]
    """
    check_packages("plot_calibration")
    frame = coverage_length_curve(y, intervals, confidence_level, probability=probability).frame()
    left, right = make_panels(ax, 2, (8.4, 4.0))
    _draw_levels(left, frame)
    _draw_lengths(right, frame)
    for panel, what in ((left, "coverage observed, %"), (right, "length")):
        panel.set_xlim(max(float(frame["confidence_level"].min()) - 0.05, 0.0), 1.0)
        in_percent(panel.xaxis)
        finish(panel, "level asked, %", what, loc="upper left")
    level = frame["confidence_level"]
    off = int(((frame["lower"] > level) | (frame["upper"] < level)).sum())
    said = [
        f"Bars: exact {say_level(probability)} bands of {say_rows(len(np.asarray(y)))}, each on "
        f"its own; {off} of {len(frame)} do not hold their level."
    ]
    endless = int(np.isinf(frame["mean_length"]).sum())
    if endless:
        said.append(f"The mean length is infinite at {endless} of {len(frame)} levels (▲).")
    caption(left, said, n_panels=2)
    return [left, right], frame


def _draw_levels(ax: Axes, frame: Any) -> None:
    """Coverage with its bands, and the diagonal."""
    level = frame["confidence_level"]
    low = min(float(level.min()), float(frame["lower"].min()))
    ends = [max(low - 0.05, 0.0), 1.0]
    ax.plot(ends, ends, color=INK, lw=1.0, ls=IDEAL, label="as promised")
    ax.fill_between(level, frame["lower"], frame["upper"], color=MAIN, alpha=0.2, lw=0)
    ax.vlines(level, frame["lower"], frame["upper"], color=MAIN, lw=1.4, alpha=0.7)
    ax.plot(level, frame["coverage"], color=MAIN, marker="o", ms=4.5, lw=1.4, label="observed")
    ax.set_ylim(ends[0], 1.01)
    in_percent(ax.yaxis)


def _draw_lengths(ax: Axes, frame: Any) -> None:
    """Mean and median length; infinite means stand at the top."""
    level = frame["confidence_level"]
    styles = (("mean_length", MAIN, "-", "mean"), ("median_length", SECOND, ":", "median"))
    for column, colour, style, label in styles:
        finite = np.isfinite(frame[column])
        ax.plot(
            level[finite], frame.loc[finite, column], color=colour, ls=style, marker="o", ms=4.5,
            label=label,
        )  # fmt: skip
    endless = level[np.isinf(frame["mean_length"])]
    if len(endless):
        top = ax.get_xaxis_transform()
        ax.plot(endless, [0.98] * len(endless), "^", color=MAIN, ms=7, transform=top)
    if np.isfinite(frame[["mean_length", "median_length"]]).to_numpy().any():
        ax.set_ylim(0.0, 1.12 * ax.get_ylim()[1])
