"""Coverage by group, by bin of a feature and by level; and methods side by side."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.audit.cells import number_bins
from localconformal.audit.compare import paired_mean, row_values
from localconformal.columns import LABEL, MISSING, MISSING_NAME, name_of
from localconformal.metrics import (
    binomial_band,
    coverage,
    group_coverage,
    mean_length,
    median_length,
)
from localconformal.metrics.intervals import check_levels, check_one_level
from localconformal.plots import _axes as art
from localconformal.text import say_level, say_number, say_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_LINES, _MAX_LETTERS, _LETTERS_PER_INCH = 30, 36, 5.6
_UNDER, _WITHIN, _OVER = "below the level", "band contains the level", "above the level"
#: name -> (colour, marker), distinguishable without colour too.
_VERDICTS = {_UNDER: (art.MISS, "v"), _WITHIN: (art.POINT, "o"), _OVER: (art.SECOND, "^")}
#: The same for the baseline, a lower number (better), a higher one, and an indistinguishable one.
_STANDINGS = (art.INK, "D"), (art.MAIN, "<"), (art.MISS, ">"), (art.POINT, "o")
#: What the panels of methods show, by the names of `row_values`.
_COVERAGE = "coverage"
_METRICS = {_COVERAGE: _COVERAGE, "mean length": "length", "interval score": "interval_score"}


def _draw_rows(ax: Axes, frame: Any, looks: Any, texts: Any, size: float = art.SMALL_SIZE) -> None:
    """From the top: value, band (lower, upper), look (colour, marker) and text of each row."""
    lines = zip(frame["value"], frame["lower"], frame["upper"], looks, texts, strict=True)
    for place, (value, lower, upper, (colour, marker), text) in enumerate(lines):
        ax.hlines(place, lower, upper, color=colour, lw=2.2, alpha=0.6)
        ax.scatter(value, place, s=34, color=colour, marker=marker, lw=0, zorder=3, clip_on=False)
        ax.annotate(
            text, (1.0, place), (8, 0), ("axes fraction", "data"), "offset points",
            va="center", color=art.INK, fontsize=size, annotation_clip=False,
        )  # fmt: skip
    ax.locator_params(axis="x", nbins=max(2, int(1.5 * art.panel_inches(ax))))


def _verdicts(frame: Any) -> Any:
    """Which side of the level each band lies on: (n,) names in `_VERDICTS`."""
    level = frame["confidence_level"]
    return np.select([frame["upper"] < level, frame["lower"] > level], [_UNDER, _OVER], _WITHIN)


def _draw_coverage(ax: Axes | None, table: Any, title: str) -> tuple[Axes, Any]:
    """Lines of the table of `group_coverage` that fit, in their order, and the level."""
    frame = table.nlargest(_MAX_LINES, "n").sort_index().reset_index(drop=True)
    ax = art.make_axes(ax, (6.4, 1.5 + 0.29 * len(frame)))
    level, named = frame["confidence_level"].iloc[0], _verdicts(frame)
    low = min(level - 0.02, float(frame["lower"].min()))
    ax.set_xlim(max(low - 0.03 * (1.0 - low), -0.01), 1.0 + 0.01)
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.axvline(level, color=art.INK, lw=1.0, ls=art.IDEAL, zorder=0)
    # The font size depends on the number of lines.
    points = ax.get_window_extent().height / ax.figure.dpi * art.POINTS_PER_INCH / len(frame)
    size = float(np.clip(0.8 * points, 4.0, art.SMALL_SIZE))
    counts, looks = [f"{n:,}" for n in frame["n"]], [_VERDICTS[name] for name in named]
    _draw_rows(ax, frame.rename(columns={"coverage": "value"}), looks, counts, size)
    most = int(np.clip(_LETTERS_PER_INCH * art.panel_inches(ax), 8, _MAX_LETTERS))
    ax.set_yticks(np.arange(len(frame)), [art.plain(label, most) for label in frame["group"]])
    place: tuple[Any, ...] = (1.0, 1.0), (8, 2), "axes fraction", "offset points"
    ax.annotate("rows", *place, color=art.INK, fontsize=art.SMALL_SIZE, va="bottom")
    art.in_percent(ax.xaxis)
    art.finish(ax, "coverage, %", art.plain(title))
    ax.tick_params(axis="y", length=0, labelsize=size)
    below, above = np.sum(named == _UNDER), np.sum(named == _OVER)
    said = [
        f"Bars: exact 95 % bands, each on its own. Dashed: the level, "
        f"{say_level(level)}. Below it (▼): {below} of {len(frame)}; above it (▲): {above}."
    ]
    if len(table) > _MAX_LINES:
        said.append(f"Shown: the {_MAX_LINES} of {len(table):,} with the most rows.")
    art.caption(ax, said)
    return ax, frame


def plot_group_coverage(
    y: ArrayLike,
    intervals: ArrayLike,
    groups: Any,
    confidence_level: float = 0.9,
    *,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the coverage of each group with its exact binomial band, and the promised level.

    The frame is the one of `localconformal.metrics.group_coverage`, for the groups drawn.

    Parameters
    ----------
    y, intervals : arrays of shapes (n,) and (n, 2)
    groups : array or series of shape (n,)
        Labels of any kind; missing ones are a group. Only the 30 with the most rows are drawn.
    confidence_level : float, default=0.9
    ax : matplotlib axes, default=None

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> frame["coverage"].tolist()
    [1.0, 0.5]
    """
    art.check_packages("plot_group_coverage")
    counted: Any = group_coverage(*check_one_level(y, intervals), groups, confidence_level)
    table = counted.frame()
    table["group"] = [name_of(label) for label in counted.group]
    name = getattr(groups, "name", None)
    return _draw_coverage(ax, table, "group" if name is None else str(name))


def plot_feature_coverage(
    X: Any,
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float = 0.9,
    *,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the coverage of each bin of a feature with its exact binomial band, and the level.

    The bins of numbers and times are those of the audit: at most ten, between quantiles. Labels
    are taken as they are, the most frequent first; missing values are the last bin.

    Parameters
    ----------
    X : array of shape (n,) or (n, 1), series, or frame of one column
    y, intervals, confidence_level, ax
        As in `plot_group_coverage`, and so is the frame.

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> ax, frame = plot_feature_coverage([1, 1, 2, None], [0.5, 0.6, 2.0, 0.1], intervals)
    >>> frame["group"].tolist(), frame["coverage"].tolist()
    (['1', '2', 'missing'], [1.0, 0.0, 1.0])
    """
    art.check_packages("plot_feature_coverage")
    response, bounds = check_one_level(y, intervals)
    column = art.read_one_column(X, len(response))
    codes, names = column.codes.astype(np.intp), [*column.labels, art.OTHER_STRIP]
    if column.kind != LABEL:
        codes, conditions = number_bins(column)
        names = [condition.short for condition in conditions]
    codes = np.where(column.codes == MISSING, len(names), codes)
    counts: Any = group_coverage(response, bounds, codes, confidence_level)
    table = counts.frame()
    table["group"] = [[*names, MISSING_NAME][code] for code in table["group"]]
    return _draw_coverage(ax, table, column.name)


def plot_calibration(
    y: ArrayLike, intervals: ArrayLike, confidence_level: ArrayLike, *, ax: Any = None
) -> tuple[list[Axes], Any]:
    """Draw the observed coverage against the nominal level, with its band; and the length.

    There are two axes. The frame has one row per level, ascending: confidence_level, coverage,
    mean_length, median_length, gap (coverage minus level), lower, upper (its exact 95 % band).

    Parameters
    ----------
    y, intervals : arrays of shapes (n,) and (n, 2, L)
        As ``predict_interval(X, confidence_level=levels)`` returns them.
    confidence_level : array of shape (L,)
    ax : pair of matplotlib axes, default=None

    Examples
    --------
    >>> intervals = np.array([[[0.4, 0.0], [0.6, 1.0]]] * 4)
    >>> (left, right), frame = plot_calibration([0.5, 0.5, 0.1, 0.8], intervals, [0.5, 0.9])
    >>> frame["coverage"].tolist()
    [0.5, 1.0]
    """
    art.check_packages("plot_calibration")
    import pandas as pd

    bounds, found = np.asarray(intervals, dtype=np.float64), dict[str, Any]()
    for measure in (coverage, mean_length, median_length):
        found[measure.__name__] = np.atleast_1d(measure(y, bounds))
    levels, hits = check_levels(confidence_level, bounds), len(bounds) * found["coverage"]
    band = binomial_band(np.rint(hits).astype(np.intp), len(bounds))
    found |= {"gap": found["coverage"] - levels, "lower": band[0], "upper": band[1]}
    frame = pd.DataFrame({"confidence_level": levels, **found})
    frame = frame.sort_values("confidence_level", kind="stable", ignore_index=True)
    left, right = art.make_panels(ax, 2, (8.4, 4.0))
    level, lower, upper = frame["confidence_level"], frame["lower"], frame["upper"]
    ends = [max(min(float(level.min()), float(lower.min())) - 0.05, 0.0), 1.0]
    left.plot(ends, ends, color=art.INK, lw=1.0, ls=art.IDEAL, label="as promised")
    left.fill_between(level, lower, upper, color=art.MAIN, alpha=0.2, lw=0)
    left.vlines(level, lower, upper, color=art.MAIN, lw=1.4, alpha=0.7)
    look: dict[str, Any] = {"color": art.MAIN, "marker": "o", "ms": 4.5, "lw": 1.4}
    left.plot(level, frame["coverage"], label="observed", **look)
    left.set_ylim(ends[0], 1.01)
    art.in_percent(left.yaxis)
    for name, colour, style in (("mean", art.MAIN, "-"), ("median", art.SECOND, ":")):
        known = frame[np.isfinite(frame[f"{name}_length"])]
        look = {"color": colour, "ls": style, "label": name, "marker": "o", "ms": 4.5}
        right.plot(known["confidence_level"], known[f"{name}_length"], **look)
    if np.isfinite(frame[["mean_length", "median_length"]]).to_numpy().any():
        right.set_ylim(0.0, 1.12 * right.get_ylim()[1])
    for panel, what in ((left, "observed coverage, %"), (right, "length")):
        panel.set_xlim(max(float(level.min()) - 0.05, 0.0), 1.0)
        art.in_percent(panel.xaxis)
        art.finish(panel, "nominal level, %", what, loc="upper left")
    off = int(((lower > level) | (upper < level)).sum())
    said = [
        f"Bars: exact 95 % bands from {say_rows(len(np.asarray(y)))}, each on its own; {off} of "
        f"{len(frame)} do not contain their level."
    ]
    if endless := int(np.isinf(frame["mean_length"]).sum()):
        said.append(f"The mean length is infinite at {endless} of {len(frame)} levels.")
    art.caption(left, said, n_panels=2)
    return [left, right], frame


def plot_methods(
    y: ArrayLike,
    methods: Mapping[str, ArrayLike],
    confidence_level: float = 0.9,
    *,
    baseline: str | None = None,
    ax: Any = None,
) -> tuple[list[Axes], Any]:
    """Draw coverage, mean length and interval score of each method on the same rows.

    The band of a coverage is the exact binomial one. Those of lengths and scores are paired: with
    d_i the difference of row i from the baseline, the bar is the value plus or minus
    1.96 sd(d) / sqrt(n); if it does not reach the baseline's line, the two differ by more than
    chance. The frame has one row per method and metric: method, metric, value, lower, upper,
    difference (from the baseline), baseline, confidence_level.

    Parameters
    ----------
    y : array of shape (n,)
    methods : dict of name -> intervals of shape (n, 2)
    confidence_level : float, default=0.9
    baseline : str, default=None
        The method to compare the others with; None is the first.
    ax : three matplotlib axes, default=None

    Examples
    --------
    >>> methods = {"a": [[0.0, 1.0], [0.0, 1.0]], "b": [[0.0, 3.0], [0.0, 2.0]]}
    >>> axes, frame = plot_methods([0.5, 0.7], methods)
    >>> frame.loc[frame["metric"] == "mean length", "difference"].tolist()
    [0.0, 1.5]
    """
    art.check_packages("plot_methods")
    base = next(iter(methods), None) if baseline is None else baseline
    if base is None or base not in methods:
        got = f"got the methods {list(methods)} and the baseline {baseline!r}"
        raise ValueError(f"{got}; expected at least one method, and one of them as the baseline.")
    checked = {name: check_one_level(y, intervals) for name, intervals in methods.items()}
    frame = _methods_frame(checked, base, confidence_level)
    panels = art.make_panels(ax, 3, (9.6, 1.6 + 0.36 * len(methods)), sharey=True)
    for panel, metric in zip(panels, _METRICS, strict=True):
        _draw_metric(panel, frame[frame["metric"] == metric], metric)
    panels[0].set_yticks(np.arange(len(methods)), [art.plain(name, 24) for name in methods])
    said = [
        "Bars: exact 95 % bands of the coverage (dashed: the level); of length and score, 95 % "
        f"bands of the difference from {art.plain(base, 24)} (dotted).",
        "Interval score: length plus a penalty per miss; lower is better (◀).",
    ]
    for name, (_, bounds) in checked.items():
        if text := art.say_odd(bounds, infinite="their mean at the edge"):
            said.append(f"{art.plain(name, 24)}: {text}")
    art.caption(panels[0], said, n_panels=3)
    return panels, frame


def _methods_frame(checked: Any, base: str, level: float) -> Any:
    import pandas as pd

    parts = {name: row_values(y, bounds, level) for name, (y, bounds) in checked.items()}
    records = []
    for (metric, key), (name, numbers) in product(_METRICS.items(), parts.items()):
        values, reference = numbers[key], parts[base][key]
        value = float(values.mean())
        if metric == _COVERAGE:
            ends = binomial_band(int(values.sum()), len(values))
        else:
            _, _, low, high, n = paired_mean(values, reference)
            # No band for the baseline itself, nor if a row is infinite.
            room = (high - low) / 2.0 if name != base and n == len(values) else np.nan
            ends = value - room, value + room
        difference = 0.0 if name == base else value - float(reference.mean())
        records.append((name, metric, value, *ends, difference, base, level))
    columns = ["method", "metric", "value", "lower", "upper", "difference"]
    return pd.DataFrame(records, columns=[*columns, "baseline", "confidence_level"])


def _draw_metric(ax: Axes, part: Any, metric: str) -> None:
    """One panel; infinite values are drawn at the edge."""
    low, high = art.extent(part[["value", "lower", "upper"]].to_numpy())
    line: tuple[float, Any]
    inside = part.assign(value=part["value"].clip(upper=high))
    if metric == _COVERAGE:
        texts = [f"{100 * value:.1f}" for value in part["value"]]
        looks, level = [_VERDICTS[v] for v in _verdicts(part)], part["confidence_level"].iloc[0]
        line = level, art.IDEAL
        low, high = min(low, level - 0.02), min(max(high, level + 0.02), 1.005)
        art.in_percent(ax.xaxis)
    else:
        room, gap = part["upper"] - part["value"], part["difference"]
        is_base, texts = part["method"] == part["baseline"], [say_number(v) for v in part["value"]]
        # An infinite value is worse than a finite one even without a band, and vice versa.
        apart = (np.abs(gap) > room) | np.isinf(gap)
        places = np.select([is_base, apart & (gap < 0), apart & (gap > 0)], [0, 1, 2], 3)
        looks, line = [_STANDINGS[at] for at in places], (inside.loc[is_base, "value"].iloc[0], ":")
    ax.axvline(line[0], color=art.INK, lw=1.0, ls=line[1], zorder=0)
    ax.set_xlim(low, high)
    ax.set_ylim(len(part) - 0.5, -0.5)
    _draw_rows(ax, inside, looks, texts)
    art.finish(ax, "coverage, %" if metric == _COVERAGE else metric, "")
    ax.tick_params(axis="y", length=0)
