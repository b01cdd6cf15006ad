"""Coverage of groups, of bins of a feature, and over levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    add_legend,
    caption,
    check_packages,
    clean,
    in_percent,
    make_axes,
    make_panels,
    name_axes,
    one_level,
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


def draw_coverage_rows(
    ax: Axes | None, frame: Any, title: str, probability: float, notes: list[str]
) -> Axes:
    """Lines from the first row of the frame, at the top, to the last.

    The frame has the columns of `group_coverage`: group, n, coverage, lower, upper,
    confidence_level.
    """
    ax = make_axes(ax, (6.4, 1.5 + 0.29 * len(frame)))
    level, place = frame["confidence_level"].iloc[0], np.arange(len(frame))
    named = verdicts(frame)
    for verdict, (colour, marker) in VERDICTS.items():
        chosen = named == verdict
        part = frame[chosen]
        if len(part):
            ax.hlines(place[chosen], part["lower"], part["upper"], color=colour, lw=2.2, alpha=0.6)
            ax.scatter(
                part["coverage"], place[chosen], s=34, color=colour, marker=marker, lw=0, zorder=3
            )
    ax.axvline(level, color=INK, lw=1.0, ls=IDEAL, zorder=0)
    dress(ax, frame, title)
    text = (
        f"Bars: exact {say_level(probability)} bands, each on its own. Dashed: the level, "
        f"{say_level(level)}. Below it ▼: {np.sum(named == UNDER)} of {len(frame)}; above ▲: "
        f"{np.sum(named == OVER)}."
    )
    caption(ax, [text, *notes])
    return ax


def dress(ax: Axes, frame: Any, title: str) -> None:
    """Ticks, names, and how many rows each line rests on."""
    level = frame["confidence_level"].iloc[0]
    low = min(level - 0.02, float(frame["lower"].min()))
    ax.set_xlim(max(low - 0.03 * (1.0 - low), -0.01), 1.0 + 0.01)
    ax.set_ylim(len(frame) - 0.4, -0.6)
    most = int(np.clip(LETTERS_PER_INCH * panel_inches(ax), 8, MAX_LETTERS))
    labels = [plain(label, most) for label in frame["group"]]
    ax.set_yticks(np.arange(len(frame)), labels)
    in_percent(ax.xaxis)
    size = fitting_size(ax, len(frame))
    for place, n in enumerate(frame["n"]):
        write_beside(ax, place, f"{n:,}", size)
    ax.annotate(
        "rows", (1.0, 1.0), (8, 2), "axes fraction", "offset points",
        color=INK, fontsize=SMALL_SIZE, va="bottom",
    )  # fmt: skip
    clean(ax)
    ax.tick_params(axis="y", length=0, labelsize=size)
    ax.locator_params(axis="x", nbins=max(2, int(1.5 * panel_inches(ax))))
    name_axes(ax, "coverage, %", plain(title))


def fitting_size(ax: Axes, n_lines: int) -> float:
    """A font for as many lines as the axes are to hold."""
    points = ax.get_window_extent().height / ax.figure.dpi * POINTS_PER_INCH / n_lines
    return float(np.clip(0.8 * points, 4.0, SMALL_SIZE))


def write_beside(ax: Axes, place: float, text: str, size: float = SMALL_SIZE) -> None:
    """A number to the right of a line, clear of marks at the edge."""
    ax.annotate(
        text, (1.0, place), (8, 0), ("axes fraction", "data"), "offset points",
        va="center", color=INK, fontsize=size, annotation_clip=False,
    )  # fmt: skip


def verdicts(frame: Any) -> Any:
    """Which side of the level each band lies on: (n,) names in `VERDICTS`."""
    level = frame["confidence_level"]
    return np.select([frame["upper"] < level, frame["lower"] > level], [UNDER, OVER], WITHIN)


def most_frequent(frame: Any) -> tuple[Any, list[str]]:
    """The lines that fit, in their order, those of the most rows; and a sentence on the rest."""
    if len(frame) <= MAX_LINES:
        return frame, []
    kept = frame.nlargest(MAX_LINES, "n").index.sort_values()
    said = f"Shown: the {MAX_LINES} of {len(frame):,} with the most rows."
    return frame.loc[kept].reset_index(drop=True), [said]


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
    check_packages("plot_group_coverage")
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
    check_packages("plot_feature_coverage")
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
        None makes a figure.

    Returns
    -------
    ax : list of two matplotlib axes
    frame : pandas.DataFrame
        That of `localconformal.metrics.coverage_length_curve`, one row a level.

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
    draw_coverage(left, frame)
    draw_lengths(right, frame)
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


def draw_coverage(ax: Axes, frame: Any) -> None:
    """Coverage with its bands, and the diagonal."""
    level = frame["confidence_level"]
    low = min(float(level.min()), float(frame["lower"].min()))
    ends = [max(low - 0.05, 0.0), 1.0]
    ax.plot(ends, ends, color=INK, lw=1.0, ls=IDEAL, label="as promised")
    ax.fill_between(level, frame["lower"], frame["upper"], color=MAIN, alpha=0.2, lw=0)
    ax.vlines(level, frame["lower"], frame["upper"], color=MAIN, lw=1.4, alpha=0.7)
    ax.plot(level, frame["coverage"], color=MAIN, marker="o", ms=4.5, lw=1.4, label="observed")
    ax.set_xlim(max(float(level.min()) - 0.05, 0.0), 1.0)
    ax.set_ylim(ends[0], 1.01)
    for axis in (ax.xaxis, ax.yaxis):
        in_percent(axis)
    clean(ax)
    name_axes(ax, "level asked, %", "coverage observed, %")
    add_legend(ax, loc="upper left")


def draw_lengths(ax: Axes, frame: Any) -> None:
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
    top = ax.get_xaxis_transform()
    if len(endless):
        ax.plot(endless, [0.98] * len(endless), "^", color=MAIN, ms=7, transform=top)
    if np.isfinite(frame[["mean_length", "median_length"]]).to_numpy().any():
        ax.set_ylim(0.0, 1.12 * ax.get_ylim()[1])
    ax.set_xlim(max(float(level.min()) - 0.05, 0.0), 1.0)
    in_percent(ax.xaxis)
    clean(ax)
    name_axes(ax, "level asked, %", "length")
    add_legend(ax, loc="upper left")
